"""docs/results/placeto.md."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from parts.placeto import pictures
from parts.placeto_transfer import transfer, transfer_claims
from shared.archive import Archive, Source, Trial, Trials, extremes, percent_faster
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.claims import Claim, claim_figures, claim_table, effect
from shared.page import Value, markdown
from shared.published import read_published
from shared.table import DASH, bold, label_key, number, run_figures

AGENTS = [
    "intermediate rewards",
    "terminal reward",
    "intermediate rewards, our settings",
    "terminal reward, our settings",
    "intermediate rewards, best settings",
    "terminal reward, best settings",
    "random walk",
    "annealing",
]
COUNTED = {  # of the appendix's A.2
    "Inception-V3, batch 64": "graph.model=inception_v3",
    "NMT, 2 layers, batch 128": "graph.set.layers=2",
    "NMT, 4 layers, batch 128": "graph.set.layers=4",
    "NASNet, batch 64": "graph.model=nasnet",
}
CURVES = {
    "intermediate rewards": Style("intermediate rewards", "#009e73"),
    "terminal reward": Style("terminal reward", "#d55e00"),
}
STEP = 50  # episodes for a point of the picture


def claims(source: Source) -> list[Claim]:
    """The claims of figure 8 and of the abstract."""
    archive = source.archive("placeto")

    def claim(name: str, text: str, value: Callable[[Trial], float | None]) -> Claim:
        best, published = (
            effect(
                *(of_nmt(archive, reward + settings) for reward in ("intermediate rewards", "terminal reward")), value
            )
            for settings in (", best settings", "")
        )
        return Claim(name, text, "yes", best, published)

    return [
        claim(
            "faster",
            "intermediate rewards learn faster than a terminal one: the mean of where episodes end (figure 8a)",
            lambda trial: fmean(episode["step_time_us"] for episode in trial.episodes),
        ),
        claim("final", "they end at a faster placement: that of the last episode (figure 8b)", last),
        *transfer_claims(source),
    ]


def of_nmt(archive: Archive, label: str) -> Trials:
    return archive.where("agent.label=" + label, "graph.model=nmt")


def last(trial: Trial) -> float:
    """Where the last episode, which takes the likeliest moves, ends, ms."""
    return trial.graph["episodes"][-1]["step_time_us"] / 1000


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    archive = source.archive("placeto")
    archive.expect_labels(["single device", *AGENTS])
    found = claims(source)
    main, figures = main_table(archive)
    counted, more_figures = ops_table(archive)
    moved, more_tables = transfer(source)
    figures |= {**more_figures, **moved, **run_figures(archive), **claim_figures(found)}
    tables = {"main": main, "ops": counted, "claims": claim_table(found), **more_tables}
    return figures, tables, {"placeto_rewards.svg": learning_picture(archive), **pictures(source)}


def main_table(archive: Archive) -> tuple[list[str], dict[str, Value]]:
    """Improvement over everything on one GPU, %."""
    table = [["method", "last episode, five seeds", "mean", "last 50 drawn, mean", "best placement seen, mean"]]
    figures: dict[str, Value] = {}
    rows, ends, bests = [], [], []
    for agent in AGENTS:
        trials = of_nmt(archive, agent)
        learned = trials[0].get("agent.name") == "placeto"
        finals = trials.values(lambda trial: percent_faster(last(trial), trial.single_device)) if learned else []
        best = trials.mean(lambda trial: percent_faster(trial.best, trial.single_device))
        key = label_key(agent)
        figures[key + ".best"] = best
        bests.append(best)
        ends.append(fmean(finals) if finals else None)
        late = None
        if trials[0].episodes:
            late = figures[key + ".late"] = trials.mean(lambda trial: improvement(trial, trial.episodes[-STEP:]))
            figures[key + ".drawn"] = trials.mean(lambda trial: improvement(trial, trial.episodes))
        if finals:
            figures[key] = fmean(finals)
            figures[key + ".min"], figures[key + ".max"] = extremes(finals)
        seeds = ", ".join(number(value, 1) for value in finals) or DASH
        rows.append([agent, seeds, number(ends[-1], 1), number(late, 1), number(best, 1)])
    for column, values in ((2, ends), (4, bests)):
        most = max(value for value in values if value is not None)
        for row, value in zip(rows, values):
            row[column] = bold(row[column]) if value == most else row[column]
    return markdown([*table, *rows], left=2), figures


def improvement(trial: Trial, episodes: Sequence[dict]) -> float:
    """Mean over the episodes of how much faster than a single device their last placement is, %."""
    return percent_faster(fmean(episode["step_time_us"] for episode in episodes) / 1000, trial.single_device)


def ops_table(archive: Archive) -> tuple[list[str], dict[str, Value]]:
    published = [figure for figure in read_published("placeto") if figure.metric == "ops"]
    table = [["model", "ours", "published (A.2)"]]
    differences = []
    for title, condition in COUNTED.items():
        trial = archive.where("agent.label=single device", condition)[0]
        theirs = next(
            figure.value
            for figure in published
            if all(trial.get(key) == value for key, value in figure.match.items() if key.startswith("graph."))
        )
        ours = trial.graph["num_ops"]
        differences.append(100 * (ours / theirs - 1))
        table.append([title, f"{ours:,}", f"{theirs:,.0f}"])
    low, high = extremes(differences)
    return markdown(table), {"ops.fewer": -low, "ops.more": high}


def learning_picture(archive: Archive) -> str:
    """The paper's figure 8a: a line for each seed. Rewards of an episode add up to what its last placement gained."""
    panels = []
    for settings, title in (
        ("", "Placeto's settings"),
        (", our settings", "our settings"),
        (", best settings", "best settings"),
    ):
        lines = [
            Line(learning_points(trial), CURVES[reward])
            for reward in CURVES
            for trial in of_nmt(archive, reward + settings)
        ]
        heights = [height for line in lines for _, height in line.points]
        x, y = Axis("episodes", 0, 2000), Axis("where episodes end, of one GPU", *around(heights))
        panels.append(Panel(title, x, y, lines))
    return chart("Step time at the end of Placeto's episodes", panels, list(CURVES.values()), 3)


def learning_points(trial: Trial) -> list[tuple[float, float]]:
    """Step times at the ends of episodes over a single device's: means over STEP episodes."""
    ends = [episode["step_time_us"] / 1000 / trial.single_device for episode in trial.episodes]
    return [(first + STEP / 2, fmean(ends[first : first + STEP])) for first in range(0, len(ends) - STEP + 1, STEP)]
