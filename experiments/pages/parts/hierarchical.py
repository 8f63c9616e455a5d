"""The smaller experiments of docs/results/hierarchical.md."""
from __future__ import annotations

import math
from statistics import fmean, median

from parts.policy_ends import last_entropy
from shared.archive import Source, Trial, Trials, extremes
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.claims import Claim, change_figures, effect, effect_if_any, published_effect
from shared.page import Value, markdown
from shared.paper_table import Row, published_figures
from shared.table import DASH, bold_best, number, run_figures

ROWS = {
    "inception": Row("Inception-V3, 2", 'inception_v3 {"batch":1}', 2),
    "rnnlm": Row("RNNLM, 2", 'rnnlm {"layers":2}', 2),
    "nmt2": Row("NMT, 2 layers, 2", 'nmt {"layers":2}', 2),
    "nmt4": Row("NMT, 4 layers, 4", 'nmt {"layers":4}', 4),
    "nmt8": Row("NMT, 8 layers, 8", 'nmt {"layers":8}', 8),
    "resnet": Row("ResNet-152, batch 128, 2", 'resnet {"batch":128,"layers":152}', 2),
}
STARTS = {
    "groups as the untrained Grouper draws them": "its Grouper's groups",
    "groups at random": "groups at random",
    "no groups, each of the 6,171 ops by itself (no Placer)": "no groups",
    "groups of Merge-and-Colocate, placed as randomly": "groups of Merge-and-Colocate",
    "a single GPU": "one GPU",
}
SIZES = {
    "hierarchical": "256 groups",
    "64 groups": "64 groups",
    "four groupings of one placement": "256 groups, four groupings of one placement each",
    "simple planner": "no Placer: *simple planner*",
    "random walk": "random walk",
    "search on ops": "search, ops",
}
WORKERS = {
    "one worker": Style("one worker", "#d55e00"),
    "four workers": Style("four workers", "#0072b2"),
    "random walk": Style("random walk", "#777777", dashed=True),
}
GROUPED = [key for key in ROWS if key != "resnet"]  # rows with random groups
SHORT = 1000  # evaluations of the smaller experiments
POINTS = [10, 100, 250, 1000]


def starts(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_start")
    archive.expect_labels(STARTS.values())
    table = [["first placement", "step time, ms"]]
    for title, label in STARTS.items():
        least, most = extremes(trial.start for trial in archive.where("agent.label=" + label))
        table.append([title, f"{least:,.0f}" if f"{least:.0f}" == f"{most:.0f}" else f"{least:,.0f} to {most:,.0f}"])
    return run_figures(archive, "starts"), {"starts": markdown(table)}


def grouping(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """Table 2: best, median and worst of random groupings and of searches that learn theirs."""
    archive, earlier = source.archive("hierarchical_random_groups"), source.archive("hierarchical_grouping")
    sides = {
        "random groups": archive.where("agent.label=random groups"),
        "learned groups": of_planner(source),
        "random groups, published settings": earlier.where("agent.label=random grouping"),
        "learned groups, published settings": earlier.where("agent.label=hierarchical"),
    }
    table = [["model, GPUs", "random groups, published", *sides]]
    figures = {**run_figures(archive, "groups"), **run_figures(earlier, "grouping")}
    figures["grouping.certain"] = sum(last_entropy(trial) < 0.1 for trial in earlier.trials)
    figures["grouping.tied"] = len(earlier.trials) - figures["grouping.certain"]
    figures["grouping.settled"] = max(map(settled_after, earlier.trials))
    published = {
        metric: published_figures("hierarchical", ROWS, "step_time_" + metric) for metric in ("best", "median", "worst")
    }
    better, times = 0, []
    for key in GROUPED:
        theirs = [published[metric][key, "random grouping"] for metric in published]
        cells, medians = [", ".join(map(number, theirs))], {}
        for name, trials in sides.items():
            values = trials.where(*ROWS[key].conditions()).values()
            medians[name] = median(values)
            cells.append(", ".join(map(number, (min(values), medians[name], max(values)))))
        better += medians["learned groups"] < medians["random groups"]
        table.append([ROWS[key].title, *cells])
        if key != "rnnlm":
            times.append(theirs[1] / published["best"][key, "hierarchical"])
    figures["grouping.published.min"], figures["grouping.published.max"] = extremes(times)
    figures["groups.better"], figures["groups.rows"] = better, len(GROUPED)
    return figures, {"grouping": markdown(table)}


def of_planner(source: Source) -> Trials:
    return source.archive("hierarchical").where("agent.label=hierarchical")


def groups_claim(source: Source) -> Claim:
    """The claims that learned groups are better than random ones."""
    reported = published_figures("hierarchical", ROWS, "step_time")
    median_of = published_figures("hierarchical", ROWS, "step_time_median")
    expected, published = published_effect(
        [(reported.get((key, "hierarchical")), median_of.get((key, "random grouping")))] for key in GROUPED
    )
    earlier = source.archive("hierarchical_grouping")
    return Claim(
        "groups",
        "learned groups are better than random ones",
        published,
        effect_if_any(of_planner(source), source.archive("hierarchical_random_groups").trials),
        effect_if_any(earlier.where("agent.label=hierarchical"), earlier.where("agent.label=random grouping")),
        expected,
    )


def shuffles(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_shuffles")
    plain = of_planner(source).where(*ROWS["nmt4"].conditions())
    table = [["runs", "best to worst, ms", "worst above best, %", "published"]]
    figures = run_figures(archive, "shuffles")
    for key, title, values, published in (
        ("orders", "ten shuffles, one seed", archive.trials.values(), "under 7 %"),
        ("seeds", "five seeds, no shuffle", plain.values(short_best), ""),
    ):
        least, most = extremes(values)
        figures[f"shuffles.{key}"] = 100 * (most / least - 1)
        table.append([title, f"{least:,.0f} to {most:,.0f}", number(figures[f"shuffles.{key}"], 1), published])
    return figures, {"shuffles": markdown(table)}


def ablation(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """Sizes, all after as many evaluations as the shortest have."""
    archive, whole = source.archive("hierarchical_ablation"), source.archive("hierarchical")
    figures = run_figures(archive, "ablation")
    decimals = {"inception": 1, "nmt2": 0}
    table = [["", "Inception-V3", "drawn", "NMT, 2 layers", "drawn", "s for Inception-V3"]]
    columns: list[list[str]] = []
    for key, digits in decimals.items():
        both = Trials([*archive.where(*ROWS[key].conditions()), *whole.where(*ROWS[key].conditions())])
        runs = both.by("agent.label")
        of_sizes = [runs.get(label, Trials()) for label in SIZES]
        means = [trials.mean(short_best) for trials in of_sizes]
        drawn = [trials.mean(lambda trial: drawn_between(trial, 0.9 * SHORT, SHORT)) for trials in of_sizes]
        seeds = [", ".join(map(number, trials.values(short_best))) for trials in of_sizes]
        texts = [f"{number(mean, digits)} ({of_seeds})" if mean else DASH for mean, of_seeds in zip(means, seeds)]
        columns += [bold_best(texts, means), bold_best([number(value) for value in drawn], drawn)]
    one = ROWS["inception"].conditions()
    trials = Trials([*archive.where(*one), *whole.where(*one)]).by("agent.label")
    for index, (label, title) in enumerate(SIZES.items()):
        cost = trials[label].mean(lambda trial: trial.cpu_seconds * SHORT / int(trial.get("budget.evaluations")))
        table.append([title, *(column[index] for column in columns), "< 1" if cost < 1 else number(cost)])
    return figures, {"ablation": markdown(table)}


def short_best(trial: Trial) -> float | None:
    return trial.best_after(SHORT)


def workers(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], str]:
    """Figures, the table, and the picture."""
    archive = source.archive("hierarchical_workers")
    archive.expect_labels(WORKERS)
    figures = run_figures(archive, "workers")
    table = [["placements", *(f"{points:,}" for points in POINTS), "the last quarter's mean", "first below 1.94 s"]]
    runs = {label: Trials(sorted(archive.where("agent.label=" + label), key=lambda t: t.seed)) for label in WORKERS}
    for label, trials in runs.items():
        quarters = [drawn_between(trial, 750, math.inf) for trial in trials]
        table.append(
            [
                label,
                *(", ".join(number(trial.best_after(points)) for trial in trials) for points in POINTS),
                DASH if None in quarters else ", ".join(map(number, quarters)),
                ", ".join(ordinal(first_below(trial, 1940)) for trial in trials),
            ]
        )
        if None not in quarters:
            name = f"workers.{label.split()[0]}"
            for part, after in (("first", 0), ("last", SHORT - 100)):
                drawn = trials.values(lambda trial, after=after: drawn_between(trial, after, after + 100))
                figures[f"{name}.{part}.min"], figures[f"{name}.{part}.max"] = extremes(drawn)
            figures[name + ".step_s"] = trials.mean(lambda trial: trial.policy_seconds / len(trial.episodes))
    one, four = runs["one worker"], runs["four workers"]
    figures |= change_figures("workers", effect(four, one))
    pairs = list(zip(four, one, strict=True))
    figures["workers.better"] = sum(ours.best < theirs.best for ours, theirs in pairs)
    figures["workers.better.early"] = sum(ours.best < theirs.best_after(SHORT // 4) for ours, theirs in pairs)
    return figures, {"workers": markdown(table)}, workers_picture(runs)


def workers_picture(runs: dict[str, Trials]) -> str:
    """What is drawn, and the best placement so far, in ms; means of seeds, by placements measured."""
    drawn, best = [], []
    for label, style in WORKERS.items():
        trials = runs[label]
        best.append(
            Line(
                [(at, trials.mean(lambda trial, at=at: trial.best_after(at))) for at in range(20, SHORT + 1, 20)], style
            )
        )
        means = [
            (after + 25, trials.mean(lambda trial, after=after: drawn_between(trial, after, after + 50)))
            for after in range(0, SHORT, 50)
        ]
        if None not in (mean for _, mean in means):  # the walk learns nothing
            drawn.append(Line(means, style))
    panels = [
        Panel(
            title,
            Axis("placements measured", 0, SHORT),
            Axis("ms", *around([y for line in lines for _, y in line.points])),
            lines,
        )
        for title, lines in (("drawn", drawn), ("best so far", best))
    ]
    return chart("NMT with 4 layers: one worker against four", panels, list(WORKERS.values()), 2)


def drawn_between(trial: Trial, after: float, until: float) -> float | None:
    """Mean step time of the updates that end after `after` and by `until` evaluations, ms; None if nothing is learned."""
    means = [
        episode["mean_step_time_us"]
        for episode in trial.episodes
        if after < episode["evaluations"] <= until and episode["mean_step_time_us"] is not None
    ]
    return fmean(means) / 1000 if means else None


def first_below(trial: Trial, target: float) -> int:
    return next(count for count, best in trial.graph["trace"] if best is not None and best / 1000 < target)


def ordinal(count: int) -> str:
    return f"{count}{'th' if 10 < count % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(count % 10, 'th')}"


def settled_after(trial: Trial) -> int:
    """The update after which the entropy stays within 0.005 of its end."""
    entropies = [episode["entropy"] for episode in trial.episodes]
    return max((i + 1 for i, entropy in enumerate(entropies) if abs(entropy - entropies[-1]) > 0.005), default=0)
