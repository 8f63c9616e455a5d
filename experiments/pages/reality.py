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
from shared.hardware import read_validation
from shared.page import Value, markdown
from shared.table import number

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
SEARCHED = Style("found by a search", "#009e73")
UNSEARCHED = Style("without a search", "#0072b2", "square")
EQUAL = Style("as simulated", "#999999", dashed=True)
ROUNDS = 10
QUANTILES = {  # of Student's t with ROUNDS - 1 degrees of freedom, two-sided
    "apart": 2.262,  # 5 %
    "certain": 6.708,  # 5 % of all 570 pairs of three networks together (Bonferroni)
}
GROUPS = {"all 20": [*SEARCHES, *TYPICAL], "ten searched": list(SEARCHES), "ten typical": list(TYPICAL)}


@dataclass(frozen=True)
class Case:
    """A placement. Speeds are over everything on one core."""

    agent: str
    simulated: float
    moment: float  # simulated with op times of the moment
    measured: float
    low: float
    high: float
    rounds: Sequence[float]  # step times, us


def read(name: str, folder: Path) -> tuple[dict[str, Case], dict[str, Any]]:
    """By agent, and the summary."""
    record = read_validation(folder, name)
    try:
        labels = [Path(case["label"]).stem for case in record["cases"]]
        if sorted(labels) != sorted([*SEARCHES, *TYPICAL]):
            raise BadInput(f"{folder}: {name} has other placements than {', '.join([*SEARCHES, *TYPICAL])}")
        cases = dict(zip(labels, record["cases"]))
        one = cases["single_device"]
        found = {}
        for agent, case in cases.items():
            rounds = case.get("measured_steps_us", ())
            if len(rounds) != ROUNDS:
                raise BadInput(f"{folder}: {name}: {agent} has {len(rounds)} rounds, not {ROUNDS}")
            moment = one["interleaved_us"] / case["interleaved_us"]
            speed = one["simulated_us"] / case["simulated_us"], moment, case["speed_up"], *case["speed_up_95"]
            found[agent] = Case(agent, *speed, rounds)
        return found, record["summary"]
    except KeyError as error:
        raise BadInput(
            f"{folder}: {name} has no {error} (tools/reality measures with --rounds and --interleave)"
        ) from error


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    folder = source.path("reality")
    figures: dict[str, Value] = {}
    tables: dict[str, list[str]] = {}
    columns = ["model", "placements", "Spearman", "of the machine", "pairs apart", "as simulated"]
    summary = [[*columns, "certainly apart", "as simulated"]]
    against = [["model", "faster in the simulator", "faster for real", "by, %"]]
    panels = []
    for name, title in NETWORKS.items():
        cases, of = read(name, folder)
        tables[name] = speed_table(cases)
        panels.append(speed_panel(title, cases))
        for group, agents in GROUPS.items():
            chosen = [cases[agent] for agent in agents]
            rank = spearman([case.simulated for case in chosen], [case.measured for case in chosen])
            whole = group == "all 20"
            own = of["ceiling"]["spearman"] if whole else None
            row = [title if whole else "", group, number(rank, 3), number(own, 3)]
            key = f"{name}.{group.split()[-1]}"
            figures[key + ".spearman"] = rank
            for kind, quantile in QUANTILES.items():
                apart, wrong = pairs(chosen, quantile)
                figures[f"{key}.{kind}"], figures[f"{key}.{kind}.agreed"] = apart, apart - len(wrong)
                row += [f"{apart} of {math.comb(len(chosen), 2)}", f"{apart - len(wrong)}"]
                if whole and kind == "apart":
                    against += [[title, name_of(one), name_of(other), number(by, 1)] for one, other, by in wrong]
            summary.append(row)
        best = max(cases.values(), key=lambda case: case.simulated)
        fastest = max(cases.values(), key=lambda case: case.measured)
        figures[name + ".best"], figures[name + ".behind"] = best.measured, 100 * (1 - best.measured / fastest.measured)
        figures[name + ".error"] = 100 * of["median_step_error"]
        figures[name + ".moment"] = 100 * of["interleaved"]["median_step_error"]
        figures[name + ".disturbed"] = 100 * of["disturbed_steps"] / of["counted_steps"]
        figures[name + ".single_device"] = cases["single_device"].measured
    for group in (group.split()[-1] for group in GROUPS):
        for kind in (*QUANTILES, *(kind + ".agreed" for kind in QUANTILES)):
            figures[f"all.{group}.{kind}"] = sum(figures[f"{name}.{group}.{kind}"] for name in NETWORKS)
        whole = f"all.{group}"
        figures[whole + ".part"] = 100 * figures[whole + ".apart.agreed"] / figures[whole + ".apart"]
        low, high = extremes(figures[f"{name}.{group}.spearman"] for name in NETWORKS)
        figures[whole + ".spearman.min"], figures[whole + ".spearman.max"] = low, high
    figures["moment.max"] = max(figures[name + ".moment"] for name in NETWORKS)
    figures["error.max"] = max(figures[name + ".error"] for name in NETWORKS)
    tables["summary"], tables["against"] = markdown(summary, left=2), markdown(against, left=3)
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


def pairs(cases: Sequence[Case], quantile: float) -> tuple[int, list[tuple[Case, Case, float]]]:
    """The number of pairs of which one is measurably faster. Of those in another order than the simulated one: the faster
    one in the simulator, the other, and how much shorter its measured step is, %. A pair is compared within each round: by
    the mean of the logarithms over its standard error, which is above `quantile`."""
    apart, reversed_pairs = 0, []
    for one, other in combinations(sorted(cases, key=lambda case: -case.simulated), 2):
        logs = [math.log(a / b) for a, b in zip(one.rounds, other.rounds)]
        if one.simulated == other.simulated or abs(fmean(logs)) <= quantile * stdev(logs) / math.sqrt(len(logs)):
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
