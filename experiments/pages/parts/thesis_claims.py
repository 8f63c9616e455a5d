"""Claims of the thesis by the rule of docs/results/verdicts.md, and the same against a random walk."""
from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from parts.thesis_runs import CODES, EMBEDDINGS, FAMILIES, GPUS, WALK, Runs
from parts.thesis_tables import best_of_all, key
from shared.claims import Effect, effect, graph_of, holm, log_change, percent_change, verdict, verdict_of_tie
from shared.page import Value, markdown
from shared.table import DASH, number, p_value, signed

UNTESTED = "cannot be tested here"
CLAIMS = [("pgnn", "placeto"), ("pgnn", "graphsage"), ("graphsage", "placeto")]


@dataclass(frozen=True)
class Found:
    """An effect with its p, corrected over the tests of the same families and code."""

    effect: Effect
    p: float | None

    @property
    def change(self) -> float:
        """Of the step time, %."""
        return percent_change(self.effect.mean)

    def text(self) -> str:
        low, high = (percent_change(bound) for bound in (self.effect.low, self.effect.high))
        p = "" if self.p is None else f", p {p_value(self.p)}"
        return f"{signed(self.change)} [{number(low, 1)}, {number(high, 1)}], {self.effect.faster} of {self.effect.graphs}{p}"


def all_claims(runs: Runs) -> tuple[dict[str, Value], dict[str, list[str]]]:
    claims = {code: found_of(runs, [(f"{a}, {code}", f"{b}, {code}") for a, b in CLAIMS]) for code in CODES}
    controls = {code: found_of(runs, [(f"{agent}, {code}", WALK) for agent in EMBEDDINGS]) for code in CODES}
    figures: dict[str, Value] = {}
    for found in (*claims.values(), *controls.values()):
        figures |= found_figures(found)
    return figures, {
        "claims": claim_table(runs, claims),
        "controls": control_table(runs, controls),
        "devices": device_table(runs),
    }


def scopes(runs: Runs) -> dict[str, list[str]]:
    """Each family; all of them where there are several; and those that can test the claims where others cannot."""
    able = [family for family in runs.families if reachable(runs, family)]
    together = [families for families in (runs.families, able) if len(families) > 1]
    names = ["all three" if families == FAMILIES else " + ".join(families) for families in together]
    return {**{family: [family] for family in runs.families}, **dict(zip(names, together))}


def found_of(runs: Runs, pairs: list[tuple[str, str]]) -> dict[tuple[str, str, str], Found]:
    """By scope and pair."""
    found = {}
    for scope, families in scopes(runs).items():
        effects = [effect(runs.trials(one, families), runs.trials(other, families)) for one, other in pairs]
        corrected = holm([each.p for each in effects])
        found |= {(scope, *pair): Found(each, p) for pair, each, p in zip(pairs, effects, corrected)}
    return found


def published_effect(runs: Runs, families: list[str], one: str, other: str) -> float:
    """100 ln of the ratio of what is left of the step time, mean of the cells of the thesis."""

    def left(agent: str, family: str, gpus: int) -> float:
        return log_change(-runs.published["thesis_improvement", agent, family, gpus])

    return fmean(left(one, family, n) - left(other, family, n) for family in families for n in runs.counts[family])


def claim_table(runs: Runs, claims: dict[str, dict[tuple[str, str, str], Found]]) -> list[str]:
    table = [["graphs", "claim", "thesis, %", "here, as published, %", "verdict", "here, corrected, %", "verdict"]]
    for scope, families in scopes(runs).items():
        for one, other in CLAIMS:
            published = published_effect(runs, families, one, other)
            tie = len(families) > 1 and one == "graphsage"
            text = f"{EMBEDDINGS[one]} {'ties with' if tie else 'before'} {EMBEDDINGS[other]}"
            if published > 0 and not tie:
                one, other, published = other, one, -published
                text = f"{EMBEDDINGS[one]} before {EMBEDDINGS[other]}"
            row = [scope if len(table) % len(CLAIMS) == 1 else "", text, signed(percent_change(published))]
            for code in CODES:
                found = directed(claims[code], scope, f"{one}, {code}", f"{other}, {code}")
                judged = verdict_of_tie(found.effect) if tie else verdict(found.effect, found.p, published)
                row += [found.text(), judged if all(reachable(runs, f) for f in families) else UNTESTED]
            table.append(row)
    return markdown(table, left=2)


def reachable(runs: Runs, family: str) -> bool:
    """Whether placements of our graphs gain what the thesis says of its best agent."""
    best = fmean(best_of_all(runs, family, gpus) for gpus in runs.counts[family])
    return all(best >= runs.published_value("thesis_improvement", agent, family) for agent in EMBEDDINGS)


def directed(found: dict[tuple[str, str, str], Found], scope: str, one: str, other: str) -> Found:
    """The effect of the pair, whichever way round it was tested."""
    if (scope, one, other) in found:
        return found[scope, one, other]
    back = found[scope, other, one]
    return Found(back.effect.reverse(), back.p)


def control_table(runs: Runs, controls: dict[str, dict[tuple[str, str, str], Found]]) -> list[str]:
    table = [["graphs", "against the random walk", *(f"{code}, %" for code in CODES)]]
    for scope in scopes(runs):
        for agent, name in EMBEDDINGS.items():
            row = [controls[code][scope, f"{agent}, {code}", WALK].text() for code in CODES]
            table.append([scope if agent == "placeto" else "", name, *row])
    return markdown(table, left=2)


def device_table(runs: Runs) -> list[str]:
    """The claim that more devices give more improvement: the most against the fewest, by the same rule."""
    fewest, most = GPUS[0], GPUS[-1]
    table = [["family", "embedding", "thesis, %", *(f"here, {code}, %" for code in CODES)]]
    for family in runs.families:
        whole = {fewest, most} <= set(runs.counts[family])
        for agent, name in EMBEDDINGS.items():
            left = [log_change(-runs.published["thesis_improvement", agent, family, n]) for n in (most, fewest)]
            row = [family if agent == "placeto" else "", name, signed(percent_change(left[0] - left[1]))]
            for code in CODES:
                if not whole:
                    row.append(DASH)
                    continue
                ours, theirs = (runs.trials(f"{agent}, {code}", [family], [n]) for n in (most, fewest))
                found = effect(ours, theirs, row=graph_of)
                row.append(Found(found, found.p).text())
            table.append(row)
    return markdown(table, left=2)


def found_figures(found: dict[tuple[str, str, str], Found]) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for (scope, one, other), each in found.items():
        name = f"{'all' if scope == 'all three' else scope.replace(' + ', '_')}.{key(one)}.{key(other)}"
        figures[name + ".change"] = each.change
        figures[name + ".less"] = -each.change
        figures[name + ".low"] = percent_change(each.effect.low)
        figures[name + ".high"] = percent_change(each.effect.high)
        figures[name + ".faster"] = each.effect.faster
        if each.p is not None:
            figures[name + ".p"] = each.p
    return figures
