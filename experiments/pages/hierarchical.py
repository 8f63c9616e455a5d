"""docs/results/hierarchical.md."""
from __future__ import annotations

from statistics import fmean, median

from shared.archive import Cell, Source, Trial, Trials, extremes, percent_faster
from shared.page import Value, markdown
from shared.table import DASH, bold, bold_best, number, run_figures

# By the page's name: conditions, and the graph's group in a report with its number of GPUs.
NETWORKS = {
    "Inception-V3": (["graph.model=inception_v3"], 'inception_v3 {"batch":1}', 2),
    "RNNLM": (["graph.model=rnnlm"], 'rnnlm {"layers":2}', 2),
    "NMT, 2 layers": (["graph.model=nmt", "graph.set.layers=2"], 'nmt {"layers":2}', 2),
    "NMT, 4 layers": (["graph.model=nmt", "graph.set.layers=4"], 'nmt {"layers":4}', 4),
    "NMT, 8 layers": (["graph.model=nmt", "graph.set.layers=8"], 'nmt {"layers":8}', 8),
    "ResNet-152, batch 128": (["graph.model=resnet"], 'resnet {"batch":128,"layers":152}', 2),
}
KEYS = dict(zip(NETWORKS, ("inception", "rnnlm", "nmt2", "nmt4", "nmt8", "resnet")))
AGENTS = {
    "cpu": "CPU",
    "gpu": "single GPU",
    "expert": "expert",
    "scotch": "Scotch",
    "mincut": "MinCut",
    "hierarchical": "hierarchical",
    "random walk": "random walk",
    "annealing": "annealing",
}
OUT_OF_MEMORY = {("NMT, 2 layers", "gpu"), ("NMT, 4 layers", "gpu"), ("NMT, 8 layers", "gpu")}  # in the paper
NOT_REPORTED = {("ResNet-152, batch 128", "cpu")}
RATES = {
    "0.1, published": "rate 0.1",
    "0.03": "rate 0.03",
    "0.01": "rate 0.01",
    "0.003": "rate 0.003",
    "0.001": "rate 0.001",
    "0.0003": "rate 0.0003",
    "0.0001": "rate 0.0001",
    "GPUs only, 0.1": "GPUs only, rate 0.1",
    "GPUs only, 0.003": "GPUs only, rate 0.003",
    "GPUs only, 0.0003": "GPUs only, rate 0.0003",
    "256 groups of Merge-and-Colocate at random on the GPUs": "random",
}
STARTS = {
    "groups as the untrained Grouper draws them": "its Grouper's groups",
    "groups at random": "groups at random",
    "no groups, each of the 6,171 ops by itself (no Placer)": "no groups",
    "groups of Merge-and-Colocate, placed as randomly": "groups of Merge-and-Colocate",
    "a single GPU": "one GPU",
}
# Table 2: best, median and worst of ten random groupings.
GROUPING = {
    "Inception-V3": "220, 510, 650",
    "RNNLM": "1570, 1570, 1570",
    "NMT, 2 layers": "2250, 3720, 4450",
    "NMT, 4 layers": "3200, 3420, 6910",
    "NMT, 8 layers": "6350, 6860, 7230",
}
ABLATION = {
    "as published": "as published (rate 0.1)",
    "hierarchical": "`hierarchical`, rate 0.0003",
    "simple planner": "no Placer: *simple planner*",
    "random grouping": "groups at random: *random grouping*",
    "64 groups": "64 groups",
    "1024 groups": "1,024 groups",
    "four groupings of one placement": "four groupings of one placement each",
    "random walk": "random walk",
    "random": "drawn at random",
}
POINTS = [10, 100, 250, 1000]


def network_of(trial: Trial) -> str:
    return next(
        name
        for name, (conditions, _, _) in NETWORKS.items()
        if all(trial.get(key) == value for key, _, value in (condition.partition("=") for condition in conditions))
    )


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    figures: dict[str, Value] = {}
    tables: dict[str, list[str]] = {}
    for part in (main_part, rates, starts, grouping, shuffles, ablation, workers):
        more_figures, more_tables = part(source)
        figures |= more_figures
        tables |= more_tables
    return figures, tables


def main_part(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical")
    archive.expect_labels(AGENTS)
    report = archive.report()
    runs = {(network_of(trial), trial.label): trial for trial in archive.trials}
    table = [["network, GPUs", *AGENTS.values()]]
    figures = run_figures(archive)
    gains = []
    for name, (_, group, gpus) in NETWORKS.items():
        cells = {label: report.cell("step_time", label, f"{group}, {gpus} GPUs") for label in AGENTS}
        values = [cell.mean for cell in cells.values()]
        texts = []
        for label, cell in cells.items():
            figures[f"{KEYS[name]}.{label}".replace(" ", "_")] = cell.mean if cell.mean is not None else DASH
            texts.append(number(cell.mean) + published_text(name, label, cell))
        table.append([f"{name}, {gpus}", *bold_best(texts, values)])
        figures |= network_figures(KEYS[name], cells)
        single = cells["gpu"].mean
        if single:
            gains.append(percent_faster(cells["annealing"].mean, cells["hierarchical"].mean))
    for ending, name in ((".over_expert", ""), (".published_over_expert", "published.")):
        slow = [value for figure, value in figures.items() if figure.endswith((".scotch" + ending, ".mincut" + ending))]
        figures[f"partitioners.{name}min"], figures[f"partitioners.{name}max"] = extremes(
            value for value in slow if value != DASH
        )
    figures["annealing.min"], figures["annealing.max"] = extremes(gains)
    ends, more = end_table(runs)
    return figures | more, {"main": markdown(table), "ends": ends}


def published_text(name: str, label: str, cell: Cell) -> str:
    if (name, label) in OUT_OF_MEMORY:
        return " (OOM)"
    if (name, label) in NOT_REPORTED:
        return f" ({DASH})"
    return f" ({number(cell.published)})" if cell.published else ""


def network_figures(key: str, cells: dict) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    ours = cells["hierarchical"]
    for label, cell in cells.items():
        if label != "hierarchical" and cell.mean and ours.mean:
            figures[f"{key}.{label}.change".replace(" ", "_")] = -percent_faster(ours.mean, cell.mean)
            figures[f"{key}.{label}.faster".replace(" ", "_")] = percent_faster(cell.mean, ours.mean)
            figures[f"{key}.{label}.over_expert".replace(" ", "_")] = (
                cell.mean / cells["expert"].mean if cells["expert"].mean else DASH
            )
        if label != "hierarchical" and cell.published and ours.published:
            figures[f"{key}.{label}.published_change".replace(" ", "_")] = -percent_faster(
                ours.published, cell.published
            )
            figures[f"{key}.{label}.published_over_expert".replace(" ", "_")] = (
                cell.published / cells["expert"].published
            )
    return figures


def end_table(runs: dict[tuple[str, str], Trial]) -> tuple[list[str], dict[str, Value]]:
    """Where the policies of the table end."""
    table = [
        [
            "network",
            "devices",
            "entropy at the end",
            "devices tied",
            "settled",
            "drawn in the last tenth, ms",
            "single GPU, ms",
        ]
    ]
    figures: dict[str, Value] = {"settled": 0, "certain": 0}
    for name in ("Inception-V3", "RNNLM", "ResNet-152, batch 128", "NMT, 2 layers", "NMT, 4 layers", "NMT, 8 layers"):
        trial = runs[name, "hierarchical"]
        end, devices = trial.episodes[-1]["entropy"], trial.graph["num_devices"]
        settled = settled_after(trial)
        tied = round(devices**end)
        fits = "" if runs[name, "gpu"].best is not None else " (does not fit)"
        table.append(
            [
                name.partition(", batch")[0],
                str(devices),
                f"{end:.{4 if tied == 1 else 3}f}",
                str(tied),
                ordinal(settled),
                number(trial.drawn(-1)) + fits,
                number(trial.single_device) + fits,
            ]
        )
        figures["settled"] = max(figures["settled"], settled)
        figures["certain"] += tied == 1
        figures[f"{KEYS[name]}.entropy"] = end
        figures[f"{KEYS[name]}.fitting"] = trial.graph["fitting"]
    return markdown(table), figures


def settled_after(trial: Trial) -> int:
    """The update after which the entropy stays within 0.005 of its end."""
    entropies = [episode["entropy"] for episode in trial.episodes]
    return max((i + 1 for i, entropy in enumerate(entropies) if abs(entropy - entropies[-1]) > 0.005), default=0)


def ordinal(count: int) -> str:
    return f"{count}{'th' if 10 < count % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(count % 10, 'th')}"


def rates(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_rates")
    archive.expect_labels(RATES.values())
    best = {(network_of(trial), trial.label): trial.best for trial in archive.trials}
    columns = ["Inception-V3", "NMT, 2 layers"]
    least = {name: min(best[name, label] for label in RATES.values()) for name in columns}
    table = [["learning rate (Adam)", *columns]]
    for title, label in RATES.items():
        cells = [number(best[name, label]) for name in columns]
        table.append(
            [title, *(bold(cell) if best[name, label] == least[name] else cell for name, cell in zip(columns, cells))]
        )
    figures = run_figures(archive, "rates")
    figures |= {
        f"rates.{KEYS[name]}.{label.split(' ')[-1]}": value
        for (name, label), value in best.items()
        if label.startswith("rate")
    }
    return figures, {"rates": markdown(table)}


def starts(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_start")
    archive.expect_labels(STARTS.values())
    table = [["first placement", "step time, ms"]]
    for title, label in STARTS.items():
        least, most = extremes(trial.start for trial in archive.where("agent.label=" + label))
        table.append([title, f"{least:,.0f}" if f"{least:.0f}" == f"{most:.0f}" else f"{least:,.0f} to {most:,.0f}"])
    return run_figures(archive, "starts"), {"starts": markdown(table)}


def grouping(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_grouping")
    table = [["network, GPUs", "random groups, published", "random groups", "learned groups"]]
    figures = run_figures(archive, "grouping")
    figures["grouping.certain"] = sum(trial.episodes[-1]["entropy"] < 0.1 for trial in archive.trials)
    figures["grouping.tied"] = len(archive.trials) - figures["grouping.certain"]
    figures["grouping.settled"] = max(map(settled_after, archive.trials))
    gaps = {}
    for name, published in GROUPING.items():
        conditions, _, gpus = NETWORKS[name]
        row, medians = [], {}
        for label in ("random grouping", "hierarchical"):
            values = archive.where("agent.label=" + label, *conditions).values()
            medians[label] = median(values)
            row.append(", ".join(map(number, (min(values), medians[label], max(values)))))
        gaps[name] = abs(100 * (medians["random grouping"] / medians["hierarchical"] - 1))
        table.append([f"{name}, {gpus}", published, *row])
    report = source.archive("hierarchical").report()
    planner = {
        name: report.cell("step_time", "hierarchical", f"{NETWORKS[name][1]}, {NETWORKS[name][2]} GPUs").published
        for name in GROUPING
    }
    times = [int(published.split(", ")[1]) / planner[name] for name, published in GROUPING.items() if name != "RNNLM"]
    figures["grouping.published.min"], figures["grouping.published.max"] = extremes(times)
    figures["grouping.gap"] = max(gap for name, gap in gaps.items() if name != "Inception-V3")
    return figures, {"grouping": markdown(table)}


def shuffles(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_shuffles")
    plain = Trials(trial for trial in archive.trials if trial.get("agent.set.shuffle") == "0")
    others = Trials(trial for trial in archive.trials if trial.get("agent.set.shuffle") != "0")
    table = [["runs", "best to worst, ms", "worst above best", "published"]]
    for title, trials, published in (
        ("ten shuffles, one seed", others, "under 7 %: **agrees**"),
        ("ten seeds, no shuffle", plain, ""),
    ):
        least, most = extremes(trials.values())
        table.append([title, f"{least:,.0f} to {most:,.0f}", f"{100 * (most / least - 1):.1f} %", published])
    return run_figures(archive, "shuffles"), {"shuffles": markdown(table)}


def ablation(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_ablation")
    archive.expect_labels(ABLATION)
    runs = {
        (name, label): trials
        for name in ("Inception-V3", "NMT, 2 layers")
        for label, trials in archive.where(*NETWORKS[name][0]).by("agent.label").items()
    }
    columns = {"Inception-V3": 1, "NMT, 2 layers": 0}  # decimals
    table = [["", "Inception-V3", "drawn", "NMT, 2 layers, of 256 groups", "drawn", "s a run"]]
    least = {name: min(trials.mean() for (network, _), trials in runs.items() if network == name) for name in columns}
    lowest = {
        name: min(
            drawn
            for (network, _), trials in runs.items()
            if network == name and (drawn := trials.mean(lambda trial: trial.drawn(-1)))
        )
        for name in columns
    }
    figures = run_figures(archive, "ablation")
    for label, title in ABLATION.items():
        row = [title]
        for name, decimals in columns.items():
            trials = runs.get((name, label))
            if trials is None:
                row += [DASH, DASH]
                continue
            mean, drawn = trials.mean(), trials.mean(lambda trial: trial.drawn(-1))
            text, low = number(mean, decimals), number(drawn)
            seeds = ", ".join(map(number, trials.values()))
            row += [
                f"{bold(text) if mean == least[name] else text} ({seeds})",
                bold(low) if low == number(lowest[name]) else low,
            ]
            figures[f"ablation.{KEYS[name]}.{label.replace(' ', '_')}"] = mean
        cpu = archive.where("agent.label=" + label).mean(lambda trial: trial.cpu_seconds)
        figures[f"ablation.cpu.{label.replace(' ', '_')}"] = cpu
        table.append([*row, "< 1" if cpu < 1 else number(cpu)])
    singles = [trials[0].single_device for trials in (runs["Inception-V3", "random"], runs["NMT, 2 layers", "random"])]
    table.append(["one GPU", number(singles[0], 1), "", number(singles[1]), "", ""])
    for name in columns:
        ours = figures[f"ablation.{KEYS[name]}.hierarchical"]
        figures[f"ablation.{KEYS[name]}.simple"] = percent_faster(
            figures[f"ablation.{KEYS[name]}.simple_planner"], ours
        )
        figures[f"ablation.{KEYS[name]}.learned"] = percent_faster(
            ours, figures[f"ablation.{KEYS[name]}.random_grouping"]
        )
    sizes = [figures["ablation.inception." + label] for label in ("64_groups", "hierarchical", "1024_groups")]
    nmt = runs["NMT, 2 layers", "hierarchical"]
    for name, tenth in (("first", 0), ("last", -1)):
        figures[f"ablation.nmt2.drawn.{name}_s"] = nmt.mean(lambda trial, tenth=tenth: trial.drawn(tenth)) / 1000
    figures["ablation.nmt2.single_s"] = singles[1] / 1000
    figures["ablation.sizes.min"], figures["ablation.sizes.max"] = extremes(sizes)
    figures["ablation.sizes.times"] = figures["ablation.cpu.1024_groups"] / figures["ablation.cpu.hierarchical"]
    return figures, {"ablation": markdown(table)}


def workers(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("hierarchical_workers")
    figures = run_figures(archive, "workers")
    table = [["placements", *(f"{points:,}" for points in POINTS), "the last quarter's mean", "first below 1.94 s"]]
    for label in ("one worker", "four workers", "random walk"):
        trials = sorted(archive.where("agent.label=" + label), key=lambda trial: trial.seed)
        quarters = [late_mean(trial, 750) for trial in trials]
        table.append(
            [
                label,
                *(", ".join(number(trial.best_after(points)) for trial in trials) for points in POINTS),
                DASH if None in quarters else ", ".join(map(number, quarters)),
                ", ".join(ordinal(first_below(trial, 1940)) for trial in trials),
            ]
        )
        for trial in trials:
            name = f"workers.{label.split()[0]}.seed{trial.seed}"
            if trial.episodes and trial.drawn(-1):
                figures[name + ".drawn"], figures[name + ".entropy"] = trial.drawn(-1), trial.episodes[-1]["entropy"]
                figures[name + ".step_s"] = trial.policy_seconds / len(trial.episodes)
    return figures, {"workers": markdown(table)}


def late_mean(trial: Trial, after: int) -> float | None:
    """Mean step time of the updates that end after so many evaluations, ms."""
    means = [
        episode["mean_step_time_us"]
        for episode in trial.episodes
        if episode["evaluations"] > after and episode["mean_step_time_us"] is not None
    ]
    return fmean(means) / 1000 if means else None


def first_below(trial: Trial, target: float) -> int:
    return next(count for count, best in trial.graph["trace"] if best is not None and best / 1000 < target)
