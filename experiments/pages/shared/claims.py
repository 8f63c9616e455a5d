"""Effects and verdicts by the rule of docs/results/verdicts.md."""
from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from shared.archive import BadInput, Trial, Trials, program, run_emplace
from shared.page import Value, markdown
from shared.table import DASH, number, p_value

SEEDS = 5  # that the rule asks for
TESTED_FROM = 6  # graphs: with fewer the smallest two-sided p of a signed-rank test is above 0.05

# Logarithms of time ratios of a graph's rows: each row's seeds, in their order.
_Graph = list[list[float]]


@dataclass(frozen=True)
class Effect:
    """100 ln(time of the one / time of the other): negative where the one is faster."""

    mean: float
    low: float
    high: float
    graphs: int
    seeds: int  # the most of a row
    faster: int  # graphs on which the one is faster
    p: float | None  # two-sided signed-rank test over graphs; None with fewer than six
    left_out: int = 0  # rows in which one of the two found nothing that fits
    partly: int = 0  # rows of which some seeds are left out for that reason

    def reverse(self) -> Effect:
        """The effect of the other against the one."""
        return replace(self, mean=-self.mean, low=-self.high, high=-self.low, faster=self.graphs - self.faster)


def graph_of(trial: Trial) -> str:
    """The network, without what the cluster or the grouping adds."""
    graph = trial.spec["graph"]
    return json.dumps({key: value for key, value in graph.items() if key != "grouping"}, sort_keys=True)


def row_of(trial: Trial) -> str:
    """The network, its cluster and the budget."""
    return json.dumps([graph_of(trial), trial.spec.get("cluster"), trial.spec["budget"]], sort_keys=True)


def effect(
    one: Trials,
    other: Trials,
    value: Callable[[Trial], float | None] = lambda trial: trial.best,
    graph: Callable[[Trial], str] = graph_of,
    row: Callable[[Trial], str] = row_of,
) -> Effect:
    """The effect of `one` against `other`, over the rows that both have. A trial without a seed's partner, as of an
    agent that draws nothing, is compared with all seeds of the other. Refuses if they share no row."""
    found = effect_if_any(one, other, value, graph, row)
    if found is None:
        raise BadInput("the two sides of a claim share no row in which both found something")
    return found


def effect_if_any(
    one: Trials,
    other: Trials,
    value: Callable[[Trial], float | None] = lambda trial: trial.best,
    graph: Callable[[Trial], str] = graph_of,
    row: Callable[[Trial], str] = row_of,
) -> Effect | None:
    """The same; None if they share no row in which both found something."""
    rows: dict[str, tuple[str, dict[int, float | None], dict[int, float | None]]] = {}
    for side, trials in enumerate((one, other)):
        for trial in trials:
            rows.setdefault(row(trial), (graph(trial), {}, {}))[1 + side][trial.seed] = value(trial)
    graphs: dict[str, _Graph] = {}
    left_out = partly = 0
    for _, (name, ours, theirs) in sorted(rows.items()):
        if not ours or not theirs:
            continue
        differences = _differences(ours, theirs)
        if differences:
            graphs.setdefault(name, []).append(differences)
            partly += None in (*ours.values(), *theirs.values())
        else:
            left_out += 1
    if not graphs:
        return None
    return replace(effect_of(list(graphs.values())), left_out=left_out, partly=partly)


def _differences(ours: dict[int, float | None], theirs: dict[int, float | None]) -> list[float]:
    seeds = sorted(set(ours) & set(theirs)) if len(ours) > 1 and len(theirs) > 1 else sorted(set(ours) | set(theirs))

    def at(values: dict[int, float | None], seed: int) -> float | None:
        return values[seed] if seed in values else next(iter(values.values()))

    pairs = [(at(ours, seed), at(theirs, seed)) for seed in seeds]
    return [100 * math.log(a / b) for a, b in pairs if a is not None and b is not None]


def effect_of(graphs: Sequence[_Graph]) -> Effect:
    """From the logarithms of each graph's rows and seeds."""
    found = _statistics(json.dumps({"differences": graphs}))
    return Effect(
        found["mean"],
        found["low_95"],
        found["high_95"],
        len(graphs),
        max(len(row) for graph in graphs for row in graph),
        sum(fmean(map(fmean, graph)) < 0 for graph in graphs),
        found["p"] if len(graphs) >= TESTED_FROM else None,
    )


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Corrected over the claims that have a test."""
    known = [p for p in ps if p is not None]
    corrected = iter(_statistics(json.dumps({"p_values": known}))["holm"] if known else [])
    return [None if p is None else next(corrected) for p in ps]


@functools.cache  # the verdicts ask for the effects of all papers again
def _statistics(question: str) -> dict[str, Any]:
    """Bootstraps and tests are those of reports: `emplace statistics` computes them."""
    return json.loads(run_emplace(program(), "statistics", "-", text=question))


def log_change(percent: float) -> float:
    """A published change of the step time in percent as an effect: -50 % is -69.3."""
    return 100 * math.log1p(percent / 100)


def percent_change(effect_value: float) -> float:
    """The reverse of log_change."""
    return 100 * math.expm1(effect_value / 100)


def change_figures(name: str, found: Effect) -> dict[str, Value]:
    """In percent, with the interval. `.less`: by how much the one's time is shorter."""
    change = percent_change(found.mean)
    figures: dict[str, Value] = {f"{name}.change": change, f"{name}.less": -change}
    return figures | {f"{name}.{bound}": percent_change(getattr(found, bound)) for bound in ("low", "high")}


def verdict(found: Effect, p: float | None, published: float | None) -> str:
    """On a claim that the one is faster. `p`: corrected; `published`: its effect, None if there is no number."""
    if not found.high < 0 or (p is not None and p >= 0.05):
        return "does not come out"
    if published is not None and found.mean > published / 2:
        return "holds in part"
    return "holds"


def verdict_of_tie(found: Effect) -> str:
    """On a claim that the two are equal."""
    return "holds" if percent_change(found.low) >= -5 and percent_change(found.high) <= 5 else "does not come out"


def verdict_of_rows(verdicts: Sequence[str]) -> str:
    """On a claim that is made row by row."""
    holding = sum(each != "does not come out" for each in verdicts)
    if holding <= len(verdicts) / 2:
        return "does not come out"
    return "holds" if all(each == "holds" for each in verdicts) else "holds in part"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper that one side is faster than another, or as fast, and what was found."""

    name: str
    text: str
    published: str = ""
    found: Effect | None = None  # with each side's best settings; None without runs
    as_published: Effect | None = None  # with the paper's settings, if they are others
    expected: float | None = None  # the published effect, if it is one number
    tie: bool = False
    settled: str = ""  # the verdict, where it is known without an effect: one of the two found nothing that fits


def judged(claims: Sequence[Claim]) -> list[tuple[Claim, float | None, str]]:
    """Each claim of one paper with its corrected p and its verdict."""
    ps = holm([claim.found.p if claim.found and not claim.tie else None for claim in claims])
    return [(claim, p, _verdict_of(claim, p)) for claim, p in zip(claims, ps)]


def _verdict_of(claim: Claim, p: float | None) -> str:
    if claim.settled:
        return claim.settled
    if claim.found is None:
        return "open"
    if claim.tie:
        return verdict_of_tie(claim.found)
    return verdict(claim.found, p, claim.expected)


def published_effect(graphs: Iterable[Iterable[tuple[float | None, float | None]]]) -> tuple[float, str]:
    """From each graph's rows of published times, of the one and of the other: the effect, and the changes as text."""
    effects = [[100 * math.log(a / b) for a, b in rows if a and b] for rows in graphs]
    changes = sorted(percent_change(value) for rows in effects for value in rows)
    shown = list(dict.fromkeys(number(changes[index]) for index in (0, -1)))
    return fmean(fmean(rows) for rows in effects if rows), " to ".join(shown) + " %"


def claim_figures(claims: Sequence[Claim]) -> dict[str, float | str]:
    """Each claim's verdict and, if it has them, its change in percent, interval and p."""
    figures: dict[str, float | str] = {}
    for claim, p, text in judged(claims):
        name = "claim." + claim.name
        figures[name] = text
        for ending, found in (("", claim.found), (".as_published", claim.as_published)):
            if found:
                for key in ("mean", "low", "high"):
                    figures[f"{name}{ending}.{key}"] = percent_change(getattr(found, key))
                figures[f"{name}{ending}.less"] = -figures[f"{name}{ending}.mean"]
                figures[f"{name}{ending}.graphs"], figures[f"{name}{ending}.faster"] = found.graphs, found.faster
        if p is not None:
            figures[name + ".p"] = p
    return figures


def claim_table(claims: Sequence[Claim]) -> list[str]:
    """Effects as changes of the step time in percent: negative where the claimed one is faster."""
    table = [["claim", "published", "its settings, %", "best settings, %", "graphs, seeds", "p", "verdict"]]
    for claim, p, text in judged(claims):
        of = claim.found
        table.append(
            [
                claim.text,
                claim.published,
                effect_text(claim.as_published) if claim.as_published else DASH,
                effect_text(of) if of else DASH,
                f"{of.graphs}, {of.seeds}" + partly_text(of) if of else DASH,
                p_value(p) if p is not None else DASH,
                text,
            ]
        )
    return markdown(table, left=3)


def partly_text(found: Effect) -> str:
    return f" ({found.partly} row{'s' if found.partly > 1 else ''} in part)" if found.partly else ""


def effect_text(found: Effect, shown: Callable[[float, int], str] = number) -> str:
    """In percent, with the interval."""
    low, high = (number(percent_change(value), 1) for value in (found.low, found.high))
    return f"{shown(percent_change(found.mean), 1)} [{low}, {high}]"
