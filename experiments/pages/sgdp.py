"""docs/results/sgdp.md."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median

from parts.sgdp import BEST, ROWS, batch, large, ops_figures, ops_table, ops_trials, several_claims, transfer
from parts.sgdp_readings import readings
from shared.archive import Source, Trial, Trials, extremes, geometric_mean, percent_faster
from shared.chart import Axis, Line, Panel, Point, Style, around, chart
from shared.claims import Claim, claim_figures, claim_table, effect_text, log_change, percent_change
from shared.page import Value, markdown
from shared.paper_table import PaperTable
from shared.table import DASH, bold_best, label_key, number, run_figures

JOINT = "sgdp"  # the best of the same settings on 64 groups
PLANNER, SIMPLE = "hierarchical, rate 0.0003", "simple planner, rate 0.0003"  # by the same rule
AGENTS = {
    "expert": "expert",
    "metis": "METIS",
    PLANNER: "planner",
    SIMPLE: "simple planner",
    "sgdp, published settings": "SGDP, published settings",
    BEST: "SGDP",
    JOINT: "SGDP, joint ratio",
    "random": "random",
    "random walk": "random walk",
    "annealing": "annealing",
    BEST + ", mlp": "SGDP, MLP",
    BEST + ", gat": "SGDP, GAT",
    "sgdp, mlp": "SGDP, joint ratio, MLP",
    "sgdp, gat": "SGDP, joint ratio, GAT",
    "sgdp, mask": "SGDP, joint ratio, mask, one seed",
    "hierarchical": "planner, T = C = 1",
    "simple planner": "simple planner, rate 0.001",
}
MAIN = list(AGENTS)[:10]
VARIANTS = [side + variant for side in (BEST, JOINT) for variant in ("", ", mlp", ", gat")]
OUT_OF_MEMORY = [  # rows of table 1 in which METIS has no time
    *("rnnlm8", "nmt8", "transformer4", "transformer8"),
    *("inception32", "inception64", "wavenet2", "wavenet4"),
]
MISSING = {(row, "metis"): "OOM" for row in OUT_OF_MEMORY}
LEARNERS = {
    BEST: Style("SGDP, best settings", "#009e73"),
    "sgdp, published settings": Style("SGDP, published settings", "#d55e00", dashed=True),
    JOINT: Style("SGDP, joint ratio", "#e69f00"),
    PLANNER: Style("planner, best settings", "#0072b2"),
    SIMPLE: Style("simple planner, best settings", "#cc79a7"),
}
COMPARED = {
    BEST + ", mlp": Style("MLP in place of the transformer", "#d55e00", "square"),
    BEST + ", gat": Style("GAT in place of GraphSAGE", "#0072b2", "triangle"),
}
TIMED = {  # figures of CPU time
    "hierarchical": PLANNER,
    "simple_planner": SIMPLE,
    "annealing": "annealing",
    "sgdp": BEST,
    "sgdp_mlp": BEST + ", mlp",
}
SHOWN = ["rnnlm4", "nmt2", "nmt4", "transformer4", "inception32", "wavenet2"]
POINTS = 20  # of a learning curve
PUBLISHED_SPEED = 16.0  # geometric mean of the speed-ups of table 1's rows, of the time until convergence


def read(source: Source) -> PaperTable:
    return PaperTable("sgdp", source.archive("sgdp"), ROWS, list(AGENTS))


def claims(source: Source) -> list[Claim]:
    return claims_of(read(source)) + several_claims(source)


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    table, archive = read(source), source.archive("sgdp")
    on_ops = ops_trials(source)
    found = claims_of(table) + several_claims(source)
    against, figures = against_table(table)
    figures |= {
        **run_figures(archive),
        **claim_figures(found),
        **ahead_figures(table, on_ops),
        **speed_figures(table),
        **ops_figures(source.archive("sgdp_ops"), on_ops, table),
    }
    tables = {
        "main": main_table(table, on_ops),
        "claims": claim_table(found),
        "against": against,
        "learned": learned_table(table),
        "contexts": context_table(table),
        "ops": ops_table(on_ops, table),
    }
    for part in (batch, transfer, large, readings):
        more_figures, more_tables = part(source)
        figures |= more_figures
        tables |= more_tables
    return figures, tables, {"sgdp_drawn.svg": drawn_picture(table), "sgdp_contexts.svg": context_picture(table)}


def claims_of(table: PaperTable) -> list[Claim]:
    every = list(ROWS)

    def claim(
        name: str, text: str, other: str, value: Callable[[Trial], float | None] = lambda trial: trial.best
    ) -> Claim:
        published = ("sgdp, published settings", other)
        return table.claim(name, text, (BEST, other), published, every, value)

    def ablation(name: str, text: str, gain: float) -> Claim:
        """gain: the published one, %."""
        made = table.claim(name, text, (BEST, f"{BEST}, {name}"), None, every)
        return replace(made, published=f"−{gain:.0f} %", expected=log_change(-gain))

    def seconds(trial: Trial) -> float:
        return trial.cpu_seconds

    search = claim("search", "takes less time for 800 placements than the Hierarchical Planner", PLANNER, seconds)
    speed = 100 * (1 / PUBLISHED_SPEED - 1)
    return [
        claim("expert", "faster than experts", "expert"),
        claim("hierarchical", "faster than the Hierarchical Planner", PLANNER),
        claim("metis", "faster than METIS", "metis"),
        replace(search, published=f"−{-speed:.0f} %, until it converges", settled="cannot be tested here"),
        ablation("mlp", "its transformer is better than an MLP", 10),
        ablation("gat", "its GraphSAGE is better than a GAT", 7),
    ]


def main_table(of: PaperTable, on_ops: dict[str, Trials]) -> list[str]:
    table = [["model, GPUs", *(AGENTS[agent] for agent in MAIN), "search, ops", "lower bound"]]
    for row in ROWS:
        texts = [of.text(row, agent, MISSING, spread=agent == BEST) for agent in MAIN]
        search = on_ops[row].where("agent.label=search on ops")
        values = [*(of.cells[row, agent].mean for agent in MAIN), search.mean()]
        bound = search[0].graph["lower_bound_us"] / 1000
        table.append([ROWS[row].title, *bold_best([*texts, number(search.mean())], values), number(bound)])
    return markdown(table)


def ahead_figures(table: PaperTable, on_ops: dict[str, Trials]) -> dict[str, Value]:
    """By how much a search on ops is ahead."""
    gains = [
        percent_faster(of.where("agent.label=search on ops").mean(), table.cells[row, BEST].mean)
        for row, of in on_ops.items()
    ]
    least, most = extremes(gains)
    return {
        "search.ahead": sum(gain > 0 for gain in gains),
        "search.min": least,
        "search.max": most,
    }


def against_table(table: PaperTable) -> tuple[list[str], dict[str, Value]]:
    """SGDP against each of the others, over all rows: with the setting of the rule, and with a joint ratio."""
    sides = {BEST: "SGDP", JOINT: "SGDP, joint ratio"}
    rows = [["against", *(text for side in sides.values() for text in (f"{side}, %", "won, of"))]]
    figures: dict[str, Value] = {}
    for other in AGENTS:
        row = [AGENTS[other]]
        for side in sides:
            if side == other:
                row += [DASH, DASH]
                continue
            found = table.effect(side, other, list(ROWS))
            row += [effect_text(found), f"{found.faster}, {found.graphs}"]
            name = f"{'sgdp' if side == BEST else 'joint'}.against.{label_key(other)}"
            figures[name + ".less"], figures[name + ".lost"] = -percent_change(found.mean), found.graphs - found.faster
            figures[name + ".won"] = found.faster
        rows.append(row)
    return markdown(rows), figures


def learned_table(table: PaperTable) -> list[str]:
    """Medians over networks and seeds of what is learned."""
    rows = [["", "entropy at first", "entropy at the end", "drawn at the end, of what is drawn at first"]]
    for agent, style in LEARNERS.items():
        trials = table.of(agent, list(ROWS))
        first, last = (median(trial.episodes[index]["entropy"] for trial in trials) for index in (0, -1))
        ratios = [trial.drawn(-1) / trial.drawn(0) for trial in trials if trial.drawn(0) is not None]
        rows.append([style.name, number(first, 2), number(last, 2), number(median(ratios), 2)])
    return markdown(rows)


def context_table(table: PaperTable) -> list[str]:
    rows = [["model, GPUs", *(AGENTS[agent] for agent in VARIANTS)]]
    for row in ROWS:
        values = [table.cells[row, agent].mean for agent in VARIANTS]
        rows.append([ROWS[row].title, *bold_best([number(value) for value in values], values)])
    return markdown(rows)


def speed_figures(table: PaperTable) -> dict[str, Value]:
    """CPU seconds of agent and simulator for 800 placements: means of a row's seeds. Then of how many runs of SGDP a
    placement is as good as the planner's mean, and after how many placements."""
    figures: dict[str, Value] = {}

    def seconds(agent: str) -> list[float]:
        return [table.of(agent, [row]).mean(lambda trial: trial.cpu_seconds) for row in ROWS]

    for name, agent in TIMED.items():
        figures[f"cpu.{name}.min"], figures[f"cpu.{name}.max"] = extremes(seconds(agent))
    times = [planner / ours for planner, ours in zip(seconds(PLANNER), seconds(BEST))]
    figures["times"], (figures["times.min"], figures["times.max"]) = geometric_mean(times), extremes(times)
    reached = [first_at(trial, table.cells[row, PLANNER].mean) for row in ROWS for trial in table.of(BEST, [row])]
    found = [count for count in reached if count is not None]
    figures |= {"reached": len(found), "reached.of": len(reached), "reached.median": median(found)}
    return figures


def first_at(trial: Trial, target: float) -> int | None:
    """After how many placements a step is at most `target` ms."""
    return next((count for count, best in trial.graph["trace"] if best is not None and best / 1000 <= target), None)


def drawn_picture(table: PaperTable) -> str:
    """Mean step time of what the policies draw; mean of seeds."""
    panels = []
    for row in SHOWN:
        drawn = {agent: drawn_points(table.of(agent, [row])) for agent in LEARNERS}
        lines = [Line(points, LEARNERS[agent]) for agent, points in drawn.items()]
        heights = [height for line in lines for _, height in line.points]
        x, y = Axis("placements", 0, 800), Axis("mean step time drawn, ms", *around(heights))
        panels.append(Panel(ROWS[row].title, x, y, lines))
    return chart("Mean step time of what SGDP and the planner draw", panels, list(LEARNERS.values()), 3)


def drawn_points(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Means over equal parts of the budget, of the placements that fit."""
    points = []
    for index in range(POINTS):
        low, high = 800 * index / POINTS, 800 * (index + 1) / POINTS
        drawn = [
            episode["mean_step_time_us"] / 1000
            for trial in trials
            for episode in trial.episodes
            if low < episode["evaluations"] <= high and episode["mean_step_time_us"] is not None
        ]
        if drawn:
            points.append(((low + high) / 2, fmean(drawn)))
    return points


def context_picture(table: PaperTable) -> str:
    """The paper's figure 2: step times over SGDP's, of each network and of all. Intervals are of the claim's bootstrap."""
    marks: list[Point | Line] = [Line([(0.4, 1), (len(ROWS) + 1.6, 1)], Style("SGDP", "#009e73"))]
    names = {}
    for place, (rows, title) in enumerate([*(([row], row) for row in ROWS), (list(ROWS), "all")], start=1):
        names[float(place)] = str(place) if title != "all" else "all"
        for offset, (agent, style) in enumerate(COMPARED.items()):
            found = table.effect(agent, BEST, rows)
            ratio, low, high = (1 + percent_change(value) / 100 for value in (found.mean, found.low, found.high))
            marks.append(Point(place + 0.3 * (offset - 0.5), ratio, style, low, high))
    heights = [y for mark in marks if isinstance(mark, Point) for y in (mark.low, mark.high)]
    panel = Panel(
        "over SGDP's step time",
        Axis("model, in the order of the table", 0.4, len(ROWS) + 1.6, names=names),
        Axis("less is better", *around([*heights, 1.0])),
        marks,
    )
    return chart("Step times of SGDP's variants over its own", [panel], list(COMPARED.values()), 1)
