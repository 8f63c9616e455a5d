"""Pictures that answer the thesis's figures 4.2 to 4.22: ours beside its averages, which are all that can be read."""
from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from parts.thesis_runs import EMBEDDINGS, EPISODES, WALK, Runs, improvement, policy_seconds
from parts.thesis_tables import PUBLISHED_GROUPS
from shared.archive import Trial
from shared.chart import Axis, Line, Panel, Point, Style, around, chart

ANNEALING = "annealing"
STYLES = {
    "placeto": Style("Placeto", "#0072b2", "square"),
    "graphsage": Style("GraphSAGE", "#d55e00", "triangle"),
    "pgnn": Style("P-GNN", "#009e73", "circle"),
    WALK: Style(WALK, "#555555", "diamond"),
    ANNEALING: Style(ANNEALING, "#cc79a7", "diamond"),
}
LABELS = {agent: f"{agent}, as published" for agent in EMBEDDINGS} | {WALK: WALK}
OURS = [STYLES[agent] for agent in LABELS]
PUBLISHED = {
    agent: replace(STYLES[agent], name=f"{name}, published", hollow=True) for agent, name in EMBEDDINGS.items()
}
BESIDE = {"placeto": -0.24, "graphsage": -0.08, "pgnn": 0.08, WALK: 0.24, ANNEALING: 0}  # of a place on the axis
EPISODE_GPUS = 5  # of the picture of episodes


def all_pictures(runs: Runs) -> dict[str, str]:
    return {
        "thesis_improvement.svg": improvements(runs),
        "thesis_graphs.svg": graphs(runs),
        "thesis_episodes.svg": episodes(runs),
        "thesis_seconds.svg": times(runs),
        "thesis_ratio.svg": ratios(runs),
    }


def improvements(runs: Runs) -> str:
    """Figure 4.12 and tables 4.3 to 4.6."""
    panels = []
    for family in [*runs.families, *([""] if runs.all_there else [])]:
        counts = runs.counts[family] if family else []
        columns = counts if len(counts) == 1 else [*counts, 0]
        marks = []
        for place, gpus in enumerate(columns):
            for agent, label in {**LABELS, ANNEALING: ANNEALING}.items():
                x = place + BESIDE[agent]
                cell = runs.cell("thesis_improvement", label, family, gpus)
                marks.append(Point(x, cell.mean, STYLES[agent], cell.low, cell.high, 3.5))
                if agent in EMBEDDINGS:
                    value = runs.published_value("thesis_improvement", agent, family, gpus)
                    marks.append(Point(x, value, PUBLISHED[agent], size=3.5))
        names = {float(place): f"{gpus} GPUs" if gpus else "average" for place, gpus in enumerate(columns)}
        marks.sort(key=lambda mark: mark.style.hollow)
        panels.append(
            Panel(
                family or "all three",
                Axis("", -0.5, len(columns) - 0.5, names=names),
                Axis("improvement, %", 0, 60),
                marks,
            )
        )
    return chart(
        "Improvement over one GPU, by family and number of GPUs",
        panels,
        [*OURS, STYLES[ANNEALING], *PUBLISHED.values()],
        4,
    )


def graphs(runs: Runs) -> str:
    """Figures 4.3 to 4.11."""
    panels = []
    for family in runs.families:
        for gpus in runs.counts[family]:
            cells = {agent: runs.over_graphs(label, family, gpus, improvement) for agent, label in LABELS.items()}
            order = sorted(cells[WALK], key=lambda index: (fmean(cells[WALK][index]), index))
            marks: list[Point | Line] = []
            for agent in EMBEDDINGS:
                value = runs.published["thesis_improvement", agent, family, gpus]
                marks.append(Line([(-1, value), (len(order), value)], average(agent)))
            for agent, cell in cells.items():
                for place, index in enumerate(order):
                    x, values = place + BESIDE[agent], cell[index]
                    marks.append(Point(x, fmean(values), STYLES[agent], min(values), max(values), 2.5))
            names = {0.0: "1", len(order) - 1.0: str(len(order))}
            panels.append(
                Panel(
                    f"{family}, {gpus} GPUs",
                    Axis("graph, in the order of the random walk", -1, len(order), names=names),
                    Axis("improvement, %", 0, 60),
                    marks,
                )
            )
    legend = [*OURS, *(average(agent) for agent in EMBEDDINGS)]
    return chart("Improvement over one GPU, by graph", panels, legend, 3)


def average(agent: str) -> Style:
    return replace(STYLES[agent], name=f"{EMBEDDINGS[agent]}, published average", dashed=True)


def episodes(runs: Runs) -> str:
    """Figure 4.2, but of all graphs and seeds."""
    panels = []
    styles = {**{label: STYLES[agent] for agent, label in LABELS.items()}, ANNEALING: STYLES[ANNEALING]}
    for family in runs.families:
        gpus = EPISODE_GPUS if EPISODE_GPUS in runs.counts[family] else runs.counts[family][-1]
        marks = []
        for label, style in styles.items():
            trials = runs.trials(label, [family], [gpus])
            points = [
                (float(episode), fmean(after(trial, episode) for trial in trials)) for episode in range(EPISODES + 1)
            ]
            marks.append(Line(points, style))
            marks += [Point(x, y, style, size=2.5) for x, y in points]
        low, high = around([point.y for point in marks if isinstance(point, Point)], log=True)
        y = Axis("step time / that of one GPU", max(low, 0.2), min(high, 1.1), log=True)
        panels.append(Panel(f"{family}, {gpus} GPUs", Axis("episode", 0, EPISODES), y, marks))
    title = "Best step time so far, over that of one GPU, mean of all graphs and seeds"
    return chart(title, panels, list(styles.values()), 3)


def after(trial: Trial, episode: int) -> float:
    """Best step time after this many passes over the groups, over that of everything on one GPU."""
    return trial.best_after(1 + episode * trial.graph["num_groups"]) / trial.single_device


def times(runs: Runs) -> str:
    """Figures 4.13 to 4.22."""
    y = Axis("policy, s an episode", 0.001, 1000, log=True)
    panels = []
    for gpus in sorted({n for counts in runs.counts.values() for n in counts}):
        marks = []
        for family in [family for family in runs.families if gpus in runs.counts[family]]:
            for agent in EMBEDDINGS:
                label = LABELS[agent]
                sizes = runs.over_graphs(label, family, gpus, lambda trial: trial.graph["num_groups"])
                seconds = runs.over_graphs(label, family, gpus, policy_seconds)
                marks += [Point(sizes[index][0], fmean(seconds[index]), STYLES[agent], size=2.5) for index in sizes]
                value = runs.published["policy_seconds", agent, family, gpus]
                marks.append(Point(PUBLISHED_GROUPS[family][0], value, PUBLISHED[agent]))
        x = Axis("groups of the graph", *around([mark.x for mark in marks], log=True), log=True)
        panels.append(Panel(f"{gpus} GPUs", x, y, marks))
    if runs.all_there:
        panels.append(average_times(runs, y))
    legend = [*(STYLES[agent] for agent in EMBEDDINGS), *PUBLISHED.values()]
    return chart("Seconds of policy for an episode, by the number of groups", panels, legend, 3)


def average_times(runs: Runs, y: Axis) -> Panel:
    """Figure 4.22."""
    marks = []
    for place, agent in enumerate(EMBEDDINGS):
        cell = runs.cell("policy_seconds", LABELS[agent], "")
        marks.append(Point(place - 0.15, cell.mean, STYLES[agent], cell.low, cell.high))
        marks.append(Point(place + 0.15, runs.published_value("policy_seconds", agent, ""), PUBLISHED[agent]))
    names = {float(place): name for place, name in enumerate(EMBEDDINGS.values())}
    return Panel("all three, average", Axis("", -0.5, len(names) - 0.5, names=names), y, marks)


def ratios(runs: Runs) -> str:
    """Tables 4.11 and 5.1: improvement against computation."""
    panels = []
    for family in runs.families:
        marks = []
        for gpus in runs.counts[family]:
            for agent, label in LABELS.items():
                gain = runs.cell("thesis_improvement", label, family, gpus)
                time = runs.cell("policy_seconds", label, family, gpus)
                marks.append(Point(time.mean, gain.mean, STYLES[agent], gain.low, gain.high))
                if agent in EMBEDDINGS:
                    published = [
                        runs.published[metric, agent, family, gpus]
                        for metric in ("policy_seconds", "thesis_improvement")
                    ]
                    marks.append(Point(*published, PUBLISHED[agent]))
        x = Axis(
            "policy, s an episode", 0.0001, 1000, log=True, names={10.0**p: f"{10.0**p:g}" for p in (-4, -2, 0, 2)}
        )
        panels.append(Panel(family, x, Axis("improvement, %", 0, 60), marks))
    return chart("Improvement against seconds of policy for an episode", panels, [*OURS, *PUBLISHED.values()], 3)
