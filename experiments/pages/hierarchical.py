"""docs/results/hierarchical.md."""
from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from parts.hierarchical import ROWS, ablation, grouping, groups_claim, ordinal, settled_after, shuffles, starts, workers
from parts.policy_ends import drawn_part, gradient_text, last_entropy, likeliest_of, part_of_one, ties_of
from shared.archive import Source, Trials, extremes, percent_faster
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.claims import Claim, claim_figures, claim_table
from shared.page import Value, markdown
from shared.paper_table import PaperTable
from shared.placements import Step, best_step, picture
from shared.table import DASH, bold_best, label_key, number, run_figures

AGENTS = {
    "cpu": "CPU",
    "gpu": "single GPU",
    "expert": "expert",
    "scotch": "Scotch",
    "mincut": "MinCut",
    "hierarchical": "planner",
    "hierarchical, rate 0.0003": "planner, T 10, C 5, rate 0.0003",
    "hierarchical, published settings": "planner, published settings",
    "simple planner": "simple planner",
    "random walk": "random walk",
    "annealing": "annealing",
    "search on ops": "search, ops",
}
MISSING = {**{(row, "gpu"): "OOM" for row in ("nmt2", "nmt4", "nmt8")}, ("resnet", "cpu"): DASH}  # in the paper
RATE = "hierarchical, rate 0.0003"
PLANNERS = {
    "hierarchical": Style("planner, best settings", "#009e73"),
    "hierarchical, rate 0.0003": Style("planner, T 10, C 5, rate 0.0003", "#cc79a7"),
    "hierarchical, published settings": Style("planner, published settings", "#d55e00", dashed=True),
    "simple planner": Style("simple planner, best settings", "#0072b2"),
}
SETTINGS = {
    "hierarchical": "best",
    "hierarchical, rate 0.0003": "T 10, C 5, rate 0.0003",
    "hierarchical, published settings": "published",
}
STEPS = 20  # updates for a point of the figure


def read(source: Source) -> PaperTable:
    return PaperTable("hierarchical", source.archive("hierarchical"), ROWS, list(AGENTS))


def claims(source: Source) -> list[Claim]:
    return claims_of(read(source), source)


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    table = read(source)
    found = claims_of(table, source)
    ends, figures = end_table(table)
    figures |= {**run_figures(source.archive("hierarchical")), **claim_figures(found), **main_figures(table)}
    tables = {"main": main_table(table), "claims": claim_table(found), "ends": ends}
    for part in (starts, grouping, shuffles, ablation):
        more_figures, more_tables = part(source)
        figures |= more_figures
        tables |= more_tables
    more_figures, more_tables, workers_picture = workers(source)
    steps = placements(source, table)
    for index, share in enumerate(steps["hierarchical"].shares):
        figures[f"placement.share.{index}"] = share
    named = {AGENTS[agent]: step for agent, step in steps.items()}
    pictures = {
        "hierarchical_drawn.svg": drawn_picture(table),
        "hierarchical_workers.svg": workers_picture,
        "hierarchical_placements.svg": picture("Which GPU runs which layer of NMT, and when", named, 3),
    }
    return figures | more_figures, tables | more_tables, pictures


def placements(source: Source, table: PaperTable) -> dict[str, Step]:
    """The best placements of NMT with 4 layers, the network of the paper's figure 2."""
    files = {"hierarchical": "hierarchical", "expert": "expert", "search on ops": "multilevel_search"}
    trials = table.trials["nmt4"]
    return {
        agent: best_step(source, ROWS["nmt4"], "hdp-8k40", trials.where("agent.label=" + agent), f"{file}_nmt_4")
        for agent, file in files.items()
    }


def claims_of(table: PaperTable, source: Source) -> list[Claim]:
    def claim(name: str, text: str, other: str, rows: Sequence[str], tie: bool = False) -> Claim:
        best, published = ("hierarchical", other), ("hierarchical, published settings", other)
        return table.claim(name, text, best, published, rows, tie=tie)

    simple = ("hierarchical", "simple planner")
    return [
        claim("expert", "faster than experts on NMT", "expert", ["nmt2", "nmt4", "nmt8"]),
        claim("inception", "faster than a single GPU on Inception-V3", "gpu", ["inception"]),
        claim("rnnlm", "ties with a single GPU on RNNLM", "gpu", ["rnnlm"], tie=True),
        claim("resnet", "ties with a single GPU on ResNet-152", "gpu", ["resnet"], tie=True),
        claim("scotch", "faster than Scotch", "scotch", list(ROWS)),
        claim("mincut", "faster than MinCut", "mincut", list(ROWS)),
        table.claim("simple", "faster than its simple planner on NMT with 2 layers", simple, None, ["nmt2"]),
        groups_claim(source),
    ]


def main_table(of: PaperTable) -> list[str]:
    table = [["model, GPUs", *AGENTS.values(), "lower bound"]]
    for key, row in ROWS.items():
        texts, values = [], []
        for agent in AGENTS:
            texts.append(of.text(key, agent, MISSING, spread=agent == "hierarchical"))
            values.append(of.cells[key, agent].mean)
        bound = of.trials[key][0].graph["lower_bound_us"] / 1000
        table.append([row.title, *bold_best(texts, values), number(bound)])
    return markdown(table)


def main_figures(table: PaperTable) -> dict[str, Value]:
    """Each cell; how much faster the planner is than it, and it than the planner."""
    figures: dict[str, Value] = {}
    means = table.means()
    for (row, agent), mean in means.items():
        name = f"{row}.{label_key(agent)}"
        ours = means[row, "hierarchical"]
        figures[name] = mean if mean is not None else DASH
        if agent == RATE:
            figures[f"{row}.rate.simple"] = percent_faster(mean, means[row, "simple planner"])
        if mean and ours:
            figures[name + ".less"] = percent_faster(ours, mean)
            figures[name + ".faster"] = percent_faster(mean, ours)
    published = table.published
    for ending, times in (("", means), (".published", published)):
        slow = [
            time / times[row, "expert"]
            for row in ROWS
            for agent in ("scotch", "mincut")
            if (time := times.get((row, agent))) and times.get((row, "expert"))
        ]
        figures[f"partitioners{ending}.min"], figures[f"partitioners{ending}.max"] = extremes(slow)
    for agent in ("search on ops", "random walk", "simple planner", RATE):
        name = label_key(agent)
        whole = [
            row for row in ROWS if all(t.best is not None for a in (agent, "hierarchical") for t in table.of(a, [row]))
        ]
        gains = [percent_faster(means[row, agent], means[row, "hierarchical"]) for row in whole]
        figures[f"{name}.rows"], figures[f"{name}.ahead"] = len(gains), sum(gain > 0 for gain in gains)
        figures[f"{name}.min"], figures[f"{name}.max"] = extremes(gain for gain in gains if gain > 0)
    return figures


def end_table(of: PaperTable) -> tuple[list[str], dict[str, Value]]:
    """Where policies end: means over seeds."""
    table = [
        ["model", "settings", "entropy", "gradient's norm", "ties", "settled", "drawn at first, at last", "likeliest"]
    ]
    figures: dict[str, Value] = {"settled": 0}
    for row, title in ((key, row.title.rpartition(", ")[0]) for key, row in ROWS.items()):
        for agent, settings in SETTINGS.items():
            trials = of.of(agent, [row])
            if not trials:
                continue
            entropy = trials.mean(last_entropy)
            settled = round(trials.mean(settled_after))
            drawn = [trials.mean(lambda trial, tenth=tenth: drawn_part(trial, tenth)) for tenth in (0, -1)]
            likeliest = trials.mean(lambda trial: part_of_one(trial, likeliest_of(trial)))
            table.append(
                [
                    title if agent == "hierarchical" else "",
                    settings,
                    f"{entropy:.{3 if entropy > 0.1 else 4}f}",
                    gradient_text(trials),
                    number(trials.mean(ties_of)),
                    ordinal(settled),
                    f"{number(drawn[0], 2)}, {number(drawn[1], 2)}",
                    number(likeliest, 2),
                ]
            )
            name = f"{row}.{settings.split(',')[0].replace(' ', '')}"
            if None not in drawn:
                figures[name + ".drawn.first"], figures[name + ".drawn.last"] = drawn
            if settings == "published":
                figures["settled"] = max(figures["settled"], settled)
    return markdown(table, left=2), figures


def drawn_picture(table: PaperTable) -> str:
    """Mean step time of what the policies draw, over a single GPU's; mean of seeds."""
    panels = []
    for key, row in ROWS.items():
        lines = []
        for agent, style in PLANNERS.items():
            points = drawn_points(table.of(agent, [key]))
            if points:
                lines.append(Line(points, style))
        if not lines:
            continue
        heights = [height for line in lines for _, height in line.points]
        panels.append(
            Panel(row.title, Axis("updates", 0, 1000), Axis("drawn, of a single GPU", *around(heights)), lines)
        )
    return chart("Mean step time of what the planner draws", panels, list(PLANNERS.values()), 3)


def drawn_points(trials: Trials) -> list[tuple[float, float]]:
    """Means over STEPS updates, of placements that fit or not."""
    points = []
    for first in range(0, 1000, STEPS) if trials else ():
        episodes = [(trial, episode) for trial in trials for episode in trial.episodes[first : first + STEPS]]
        drawn = [part_of_one(trial, episode["mean_step_time_us"] / 1000) for trial, episode in episodes]
        points.append((first + STEPS / 2, fmean(drawn)))
    return points
