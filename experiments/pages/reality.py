"""docs/results/reality.md, from what tools/reality measured: the order of placements on real cores."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from shared.archive import BadInput, Source, extremes
from shared.chart import Axis, Line, Panel, Point, Style, chart
from shared.page import Value, markdown
from shared.table import DASH, number
from shared.hardware import HARDWARE, read_validation

MEASURED = HARDWARE / "reality"
NETWORKS = {"rnnlm": "RNNLM", "nmt": "NMT", "inception_v3": "Inception-V3"}
SEARCHES = {
    "multilevel_search": "`multilevel_search`, ops",
    "annealing_on_ops": "`annealing`, ops",
    "annealing": "`annealing`",
    "local_search": "`local_search`",
    "random_walk": "`random_walk`",
    "random": "`random`",
    "placeto": "`placeto`",
    "post": "`post`",
    "sgdp": "`sgdp`",
    "coloc_rl": "`coloc_rl`",
}
TYPICAL = {
    "single_device": "`single_device`",
    "expert": "`expert`",
    "metis": "`metis`",
    "scotch": "`scotch`",
    "heft": "`heft`",
    "m_etf": "`m_etf`",
    "m_topo": "`m_topo`",
    "blocks": "`blocks`",
    "round_robin": "`round_robin`",
    "random_once": "`random`, one",
}
SEARCHED = Style("best of a search", "#009e73")
UNSEARCHED = Style("without a search", "#0072b2", "square")
EQUAL = Style("as simulated", "#999999", dashed=True)
ROUNDS = 10
QUANTILE = 2.262  # of Student's t with ROUNDS - 1 degrees of freedom, two-sided, 95 %


@dataclass(frozen=True)
class Case:
    """A placement. Speeds are over everything on one core."""

    agent: str
    simulated: float
    moment: float | None  # simulated with op times of the moment
    measured: float
    low: float
    high: float
    rounds: Sequence[float]  # step times, us


def read(name: str, folder: Path = MEASURED) -> tuple[dict[str, Case], dict[str, Any]]:
    """By agent, and the summary."""
    record = read_validation(folder, name)
    cases = {Path(case["label"]).stem: case for case in record["cases"]}
    if set(cases) != {*SEARCHES, *TYPICAL}:
        raise BadInput(f"{folder}: {name} has other placements than {', '.join([*SEARCHES, *TYPICAL])}")
    one = cases["single_device"]
    found = {}
    for agent, case in cases.items():
        rounds = len(case.get("measured_steps_us", ()))
        if rounds != ROUNDS:
            raise BadInput(f"{folder}: {name}: {agent} has {rounds} rounds, not {ROUNDS}")
        moment = one["interleaved_us"] / case["interleaved_us"] if "interleaved_us" in case else None
        speed = one["simulated_us"] / case["simulated_us"], moment, case["speed_up"], *case["speed_up_95"]
        found[agent] = Case(agent, *speed, case["measured_steps_us"])
    return found, record["summary"]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    del source  # these are no runs of an experiment
    figures: dict[str, Value] = {}
    tables: dict[str, list[str]] = {}
    summary = [["network", "placements", "Spearman", "of the machine", "pairs apart", "in the simulated order"]]
    against = [["network", "faster in the simulator", "faster for real", "by, %"]]
    panels = []
    for name, title in NETWORKS.items():
        cases, of = read(name)
        tables[name] = speed_table(cases)
        panels.append(speed_panel(title, cases))
        groups = {"all 20": list(cases), "ten best": list(SEARCHES), "ten typical": list(TYPICAL)}
        for group, agents in groups.items():
            chosen = [cases[agent] for agent in agents]
            rank = spearman([case.simulated for case in chosen], [case.measured for case in chosen])
            apart, wrong = pairs(chosen)
            agreed = apart - len(wrong)
            own = number(of["ceiling"]["spearman"], 3) if group == "all 20" else DASH
            label = title if group == "all 20" else ""
            summary.append([label, group, number(rank, 3), own, f"{apart} of {math.comb(len(chosen), 2)}", f"{agreed}"])
            key = f"{name}.{group.split()[-1]}"
            if group == "all 20":
                for one, other, shorter in wrong:
                    against.append([title, name_of(one), name_of(other), number(shorter, 1)])
            figures[key + ".spearman"], figures[key + ".apart"], figures[key + ".agreed"] = rank, apart, agreed
        best = max((cases[agent] for agent in SEARCHES), key=lambda case: case.simulated)
        fastest = max(cases.values(), key=lambda case: case.measured)
        figures[name + ".best"], figures[name + ".fastest"] = best.measured, fastest.measured
        figures[name + ".says"], figures[name + ".error"] = best.simulated, 100 * of["median_step_error"]
        figures[name + ".moment"] = 100 * of["interleaved"]["median_step_error"]
        figures[name + ".disturbed"] = 100 * of["disturbed_steps"] / of["counted_steps"]
        figures[name + ".behind"] = 100 * (1 - best.measured / fastest.measured)
        for agent, case in cases.items():
            figures[f"{name}.{agent}"] = case.measured
    for what in ("apart", "agreed"):
        for group in ("20", "best", "typical"):
            figures[f"{group}.{what}"] = sum(figures[f"{name}.{group}.{what}"] for name in NETWORKS)
    for group in ("20", "best", "typical"):
        low, high = extremes(figures[f"{name}.{group}.spearman"] for name in NETWORKS)
        figures[group + ".spearman.min"], figures[group + ".spearman.max"] = low, high
        figures[group + ".part"] = 100 * figures[group + ".agreed"] / figures[group + ".apart"]
    tables["summary"], tables["against"] = markdown(summary, left=2), markdown(against, left=3)
    figures["against.max"] = max(float(row[3]) for row in against[1:])
    picture = chart("Measured against simulated speed", panels, [SEARCHED, UNSEARCHED, EQUAL], 3)
    return figures, tables, {"reality.svg": picture}


def speed_table(cases: dict[str, Case]) -> list[str]:
    """The fastest in the simulator first."""
    order = sorted(cases.values(), key=lambda case: -case.simulated)
    simulated, measured = ranks([-case.simulated for case in order]), ranks([-case.measured for case in order])
    table = [
        ["placement", "simulated", "simulated, op times of the moment", "measured", "rank simulated", "rank measured"]
    ]
    for case, *both in zip(order, simulated, measured):
        shown = f"{number(case.measured, 2)} [{number(case.low, 2)}, {number(case.high, 2)}]"
        moment = number(case.moment, 2)
        table.append([name_of(case), number(case.simulated, 2), moment, shown, *(f"{rank:g}" for rank in both)])
    return markdown(table)


def spearman(ours: Sequence[float], theirs: Sequence[float]) -> float:
    a, b = ranks(ours), ranks(theirs)
    mean_a, mean_b = fmean(a), fmean(b)
    product = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return product / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def ranks(values: Sequence[float]) -> list[float]:
    """Equal values share their mean rank."""
    return [
        1 + sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def pairs(cases: Sequence[Case]) -> tuple[int, list[tuple[Case, Case, float]]]:
    """The number of pairs of which one is measurably faster. Of those in another order than the simulated one: the faster
    one in the simulator, the other, and how much shorter its measured step is, %. A pair is compared within each round: 95 %
    interval of the mean of the logarithms."""
    apart, reversed_pairs = 0, []
    for one, other in combinations(sorted(cases, key=lambda case: -case.simulated), 2):
        logs = [math.log(a / b) for a, b in zip(one.rounds, other.rounds)]
        if one.simulated == other.simulated or abs(fmean(logs)) <= QUANTILE * stdev(logs) / math.sqrt(len(logs)):
            continue
        apart += 1
        if fmean(logs) > 0:
            reversed_pairs.append((one, other, -100 * math.expm1(-fmean(logs))))
    return apart, reversed_pairs


def name_of(case: Case) -> str:
    return SEARCHES.get(case.agent) or TYPICAL[case.agent] + " (typical)"


def speed_panel(title: str, cases: dict[str, Case]) -> Panel:
    values = [value for case in cases.values() for value in (case.simulated, case.low, case.high)]
    low, high = min(values) * 0.95, max(values) * 1.05
    marks: list[Point | Line] = [Line([(low, low), (high, high)], EQUAL)]
    for case in cases.values():
        style = SEARCHED if case.agent in SEARCHES else UNSEARCHED
        marks.append(Point(case.simulated, case.measured, style, case.low, case.high))
    return Panel(
        title, Axis("simulated, times one core", low, high), Axis("measured, times one core", low, high), marks
    )
