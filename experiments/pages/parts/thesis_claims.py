"""Claims of the thesis by the rule of docs/results/verdicts.md, and the same against a random walk."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from parts.thesis_runs import CODES, EMBEDDINGS, FAMILIES, GPUS, LONG_WALK, TUNED, WALK, Runs, seconds_of_a_gain
from parts.thesis_tables import best_of_all
from shared.archive import Trial
from shared.claims import (
    Claim,
    Effect,
    change_figures,
    claim_figures,
    claim_table,
    effect,
    effect_text,
    graph_of,
    holm,
    log_change,
    percent_change,
    row_of,
    verdict,
    verdict_of_tie,
)
from shared.page import Value, markdown
from shared.table import DASH, label_key, p_value, signed

UNTESTED = "cannot be tested here"
TITLES = {code: code for code in CODES} | {TUNED: "best settings"}
CLAIMS = [("pgnn", "placeto"), ("pgnn", "graphsage"), ("graphsage", "placeto")]


@dataclass(frozen=True)
class Found:
    """An effect with its p, corrected over the tests of the same families and code."""

    effect: Effect
    p: float | None

    @property
    def change(self) -> float:
        """The change of the step time, %."""
        return percent_change(self.effect.mean)

    def text(self) -> str:
        p = "" if self.p is None else f", p {p_value(self.p)}"
        return f"{effect_text(self.effect, signed)}, {self.effect.faster} of {self.effect.graphs}{p}"


Founds = dict[tuple[str, str, str], Found]  # by scope and pair


def all_claims(runs: Runs) -> tuple[dict[str, Value], dict[str, list[str]]]:
    listed = claims(runs)
    figures: dict[str, Value] = dict(claim_figures(listed))
    devices, device_figures = device_table(runs)
    figures |= device_figures
    tables = {"devices": devices, "rule": claim_table(listed)}
    parts = ((CODES, runs.families, WALK, ""), ([TUNED], runs.tuned, LONG_WALK, "_tuned"))
    for codes, families, walk, ending in parts:
        if not families:
            continue
        wide = scopes(runs, families)
        pairs = {code: found_of(runs, wide, [(f"{a}, {code}", f"{b}, {code}") for a, b in CLAIMS]) for code in codes}
        walks = {code: found_of(runs, wide, [(f"{agent}, {code}", walk) for agent in EMBEDDINGS]) for code in codes}
        for found in (*pairs.values(), *walks.values()):
            figures |= found_figures(found)
        tables["claims" + ending] = pair_table(runs, wide, pairs)
        tables["controls" + ending] = control_table(wide, walks, walk)
    return figures, tables


def claims(runs: Runs) -> list[Claim]:
    """The thesis's claims on the families that can test them."""
    families = [family for family in runs.families if reachable(runs, family)]
    tuned = families if families and set(families) <= set(runs.tuned) else []

    def compared(
        name: str,
        text: str,
        sides: tuple[str, str],
        expected: float,
        tie: bool = False,
        gpus: tuple[Sequence[int], Sequence[int]] = ((), ()),
        value: Callable[[Trial], float | None] = lambda trial: trial.best,
        row: Callable[[Trial], str] = row_of,
        settled: str = "",
    ) -> Claim:
        def found(code: str) -> Effect:
            one, other = (runs.trials(f"{side}, {code}", families, n) for side, n in zip(sides, gpus))
            return effect(one, other, value, row=row)

        published = signed(percent_change(expected), 0) + " %"
        best = found(TUNED) if tuned else None
        return Claim(name, text, published, best, found(CODES[0]), expected, tie, settled)

    listed = []
    for one, other in CLAIMS:
        tie = one == "graphsage"
        text = f"{EMBEDDINGS[one]} {'ties with' if tie else 'places better than'} {EMBEDDINGS[other]}"
        listed.append(
            compared(f"{one}.{other}", text, (one, other), published_effect(runs, families, one, other), tie=tie)
        )
    for other in ("placeto", "graphsage"):
        text = f"P-GNN needs less computation for 1 % of improvement than {EMBEDDINGS[other]}"
        expected = published_ratio(runs, families, other, "pgnn")
        sides = ("pgnn", other)  # of seconds on another machine
        listed.append(
            compared(
                f"ratio.{other}", text, sides, expected, value=seconds_of_a_gain, settled=UNTESTED if tuned else ""
            )
        )
    fewest, most = GPUS[0], GPUS[-1]
    if all({fewest, most} <= set(runs.counts[family]) for family in families):
        for agent, name in EMBEDDINGS.items():
            expected = over_families(runs, families, lambda family: published_gain_of_devices(runs, family, agent))
            text = f"{name}'s steps are shorter with {most} GPUs than with {fewest}"
            gpus = ([most], [fewest])
            listed.append(compared(f"devices.{agent}", text, (agent, agent), expected, gpus=gpus, row=graph_of))
    return listed


def scopes(runs: Runs, of: list[str]) -> dict[str, list[str]]:
    """Each family; all of them where there are several; and those that can test the claims where others cannot."""
    able = [family for family in of if reachable(runs, family)]
    together = [families for families in (of, able) if len(families) > 1]
    names = ["all three" if families == FAMILIES else " + ".join(families) for families in together]
    return {**{family: [family] for family in of}, **dict(zip(names, together))}


def found_of(runs: Runs, wide: dict[str, list[str]], pairs: list[tuple[str, str]]) -> Founds:
    found = {}
    for scope, families in wide.items():
        effects = [effect(runs.trials(one, families), runs.trials(other, families)) for one, other in pairs]
        corrected = holm([each.p for each in effects])
        found |= {(scope, *pair): Found(each, p) for pair, each, p in zip(pairs, effects, corrected)}
    return found


def published_effect(runs: Runs, families: list[str], one: str, other: str) -> float:
    """100 ln of the ratio of what is left of the step time, mean of the cells of the thesis."""

    def left(agent: str, family: str, gpus: int) -> float:
        return log_change(-runs.published["thesis_improvement", agent, family, gpus])

    return over_families(runs, families, lambda f: fmean(left(one, f, n) - left(other, f, n) for n in runs.counts[f]))


def over_families(runs: Runs, families: list[str], value: Callable[[str], float]) -> float:
    """The mean of a published value, weighted by how many graphs we have of each family, as our effects are."""
    weights = [runs.num_graphs(family) for family in families]
    return sum(weight * value(family) for weight, family in zip(weights, families)) / sum(weights)


def published_ratio(runs: Runs, families: list[str], one: str, other: str) -> float:
    """100 ln of the ratio of two P-C ratios, mean of the cells of the thesis."""

    def ratio(family: str, gpus: int) -> float:
        ours, theirs = (runs.published_value("pc_ratio", agent, family, gpus) for agent in (one, other))
        return 100 * math.log(ours / theirs)

    return over_families(runs, families, lambda family: fmean(ratio(family, n) for n in runs.counts[family]))


def pair_table(runs: Runs, wide: dict[str, list[str]], claims: dict[str, Founds]) -> list[str]:
    codes = [text for code in claims for text in (f"here, {TITLES[code]}, %", "verdict")]
    table = [["graphs", "claim", "thesis, %", *codes]]
    for scope, families in wide.items():
        for one, other in CLAIMS:
            published = published_effect(runs, families, one, other)
            tie = len(families) > 1 and one == "graphsage"
            text = f"{EMBEDDINGS[one]} {'ties with' if tie else 'before'} {EMBEDDINGS[other]}"
            if published > 0 and not tie:
                one, other, published = other, one, -published
                text = f"{EMBEDDINGS[one]} before {EMBEDDINGS[other]}"
            row = [scope if len(table) % len(CLAIMS) == 1 else "", text, signed(percent_change(published))]
            for code in claims:
                found = directed(claims[code], scope, f"{one}, {code}", f"{other}, {code}")
                judged = verdict_of_tie(found.effect) if tie else verdict(found.effect, found.p, published)
                row += [found.text(), judged if all(reachable(runs, f) for f in families) else UNTESTED]
            table.append(row)
    return markdown(table, left=2)


def reachable(runs: Runs, family: str) -> bool:
    """Whether placements of our graphs gain what the thesis says of its best agent."""
    best = fmean(best_of_all(runs, family, gpus) for gpus in runs.counts[family])
    return all(best >= runs.published_value("thesis_improvement", agent, family) for agent in EMBEDDINGS)


def directed(found: Founds, scope: str, one: str, other: str) -> Found:
    """The effect of the pair, whichever way round it was tested."""
    if (scope, one, other) in found:
        return found[scope, one, other]
    back = found[scope, other, one]
    return Found(back.effect.reverse(), back.p)


def control_table(wide: dict[str, list[str]], controls: dict[str, Founds], walk: str) -> list[str]:
    table = [["graphs", f"against the {walk}", *(f"{TITLES[code]}, %" for code in controls)]]
    for scope in wide:
        for agent, name in EMBEDDINGS.items():
            row = [controls[code][scope, f"{agent}, {code}", walk].text() for code in controls]
            table.append([scope if agent == "placeto" else "", name, *row])
    return markdown(table, left=2)


def device_table(runs: Runs) -> tuple[list[str], dict[str, Value]]:
    """The claim that more devices give more improvement: the most against the fewest, by the same rule."""
    figures: dict[str, Value] = {}

    def cell(family: str, label: str) -> str:
        found = gain_of_devices(runs, family, label)
        if found is None:
            return DASH
        figures[f"devices.{family}.{label_key(label)}.change"] = found.change
        return found.text()

    codes = [*CODES, TUNED] if runs.tuned else CODES
    table = [["family", "agent", "thesis, %", *(f"here, {TITLES[code]}, %" for code in codes)]]
    for family in runs.families:
        for agent, name in EMBEDDINGS.items():
            published = signed(percent_change(published_gain_of_devices(runs, family, agent)))
            cells = [cell(family, f"{agent}, {code}") for code in codes]
            table.append([family if agent == "placeto" else "", name, published, *cells])
        for label in (WALK, "annealing"):
            table.append(["", f"{label}, no network", "", cell(family, label), *[""] * (len(codes) - 1)])
    return markdown(table, left=2), figures


def gain_of_devices(runs: Runs, family: str, label: str) -> Found | None:
    fewest, most = GPUS[0], GPUS[-1]
    if not runs.has(label, family) or not {fewest, most} <= set(runs.counts[family]):
        return None
    found = effect(*(runs.trials(label, [family], [n]) for n in (most, fewest)), row=graph_of)
    return Found(found, found.p)


def published_gain_of_devices(runs: Runs, family: str, agent: str) -> float:
    """100 ln of what is left of the step time with the most devices over that with the fewest."""
    most, fewest = (log_change(-runs.published["thesis_improvement", agent, family, n]) for n in (GPUS[-1], GPUS[0]))
    return most - fewest


def found_figures(found: Founds) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for (scope, one, other), each in found.items():
        name = f"{'all' if scope == 'all three' else scope.replace(' + ', '_')}.{label_key(one)}.{label_key(other)}"
        figures |= change_figures(name, each.effect)
        figures[name + ".faster"] = each.effect.faster
        if each.p is not None:
            figures[name + ".p"] = each.p
    return figures
