"""docs/results/library_shootout.md."""
from __future__ import annotations

import math

from parts import library_tables as tables_of
from parts.library_shootout import ENOUGH, LEARNS_FROM, Comparison, Runs, corrected, placed
from parts.library_tables import (
    evaluations,
    full_name,
    gain_of_best_known,
    listed,
    over_bound,
    best_by_kind,
    ratio,
    shown_p,
)
from shared.archive import Source, extremes, geometric_mean
from shared.claims import log_change, percent_change, verdict
from shared.page import Value, markdown
from shared.table import p_value, run_figures, signed

POST = "post on groups"
# Claims of Gao et al. 2018: with what Post is compared, on instances whose names begin so, and the smallest effect that
# is published.
CLAIMS = [
    ("Post is faster than experts on NMT", "−38 to −57 %", "expert on ops", "nmt", log_change(-38)),
    ("METIS is far slower than Post", "4.1 to 6.1 times", "metis on ops", "", -100 * math.log(4.1)),
]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    runs = Runs(source.archive("shootout_library"))
    gains = [gain_of_best_known(runs, four, eight) for four, eight in runs.eights()]
    walks, ahead = against_the_walk(runs, runs.middle)
    minute = Runs(source.archive("shootout_minute"))
    figures: dict[str, Value] = {
        **run_figures(runs.archive),
        "runs.uncommitted": sum(trial.uncommitted for trial in runs.archive.trials),
        "instances": len(runs.instances),
        "graphs": len({runs.library[name].graph for name in runs.instances}),
        "agents": len(set(runs.agents.values())),
        "middle": runs.middle,
        "largest": runs.budgets[-1],
        "bound": geometric_mean(over_bound(runs, name) for name in runs.instances),
        "proved": sum(runs.library[name].status == "proved" for name in runs.instances),
        "records": len(records(runs)),
        "merged": len(runs.merged),
        "eight.pairs": len(gains),
        "eight.better": sum(gain > ENOUGH for gain in gains),
        "beat_walk": len(ahead),
        "learning": len(walks),
        "learned_on": len(runs.learned_on(runs.middle)),
        "tests": sum(each.p is not None for each in runs.comparisons),
        **leader_figures(runs),
        **long_figures(minute),
    }
    tables = {
        "answer": answer(runs),
        "ops": tables_of.main_table(runs, "ops"),
        "groups": tables_of.main_table(runs, "groups"),
        "advice": advice_table(runs),
        "kinds": tables_of.kind_table(runs),
        "agents_by_kind": tables_of.agent_kind_table(runs),
        "tests": tables_of.test_table(runs),
        "ops_or_groups": tables_of.ops_or_groups_table(runs),
        "claims": claim_table(runs),
        "learned": tables_of.learned_table(runs),
        "nothing": tables_of.nothing_table(runs),
        "fitting": tables_of.fitting_table(runs),
        "ranks": tables_of.rank_table(runs),
        "costs": tables_of.cost_table(runs),
        "eight": tables_of.eight_table(runs),
        "instances": tables_of.instance_table(runs),
        "long": tables_of.long_table(runs, minute),
        "long_instances": tables_of.long_instance_table(minute),
        "long_tests": tables_of.test_table(minute),
    }
    return figures, tables


def long_figures(minute: Runs) -> dict[str, Value]:
    """The best agent's ratio in the runs with many evaluations, and what trials cost."""
    budget = minute.budgets[-1]
    costs = [minute.trials(label, budget).mean(lambda trial: trial.cpu_seconds) for label in minute.agents]
    cheapest, costliest = extremes(costs)
    return {
        **run_figures(minute.archive, "long"),
        "long.instances": len(minute.instances),
        "long.records": len(records(minute)),
        "long.best": ratio(minute.mean(minute.order(budget)[0], budget).mean),
        "long.cheapest": cheapest,
        "long.costliest": costliest,
        "long.longest": max(trial.cpu_seconds for trial in minute.archive.trials),
    }


def records(runs: Runs) -> list[str]:
    """The instances on which a run is faster than the best known placement."""
    return [
        instance
        for instance in runs.instances
        if min(min(of[instance].values()) for of in runs.ratios.values() if instance in of) < tables_of.SHORTER
    ]


def leader_figures(runs: Runs) -> dict[str, Value]:
    """The best agent of each budget, of all and of those on ops or on groups."""
    figures: dict[str, Value] = {}
    for budget in runs.budgets:
        for where in ("", "ops", "groups"):
            for best in runs.order(budget, where)[:1]:
                prefix = f"leader.{budget}" + (f".{where}" if where else "")
                figures[prefix] = f"`{runs.agents[best]}`"
                figures[prefix + ".placed"] = placed(best)
                figures[prefix + ".ratio"] = ratio(runs.mean(best, budget).mean)
    middle = f"leader.{runs.middle}"
    return figures | {
        key.replace(middle, "leader.middle"): value
        for key, value in figures.items()
        if key == middle or key.startswith(middle + ".")
    }


def answer(runs: Runs) -> list[str]:
    """Sentences that say what the tables have."""
    return [
        *leader_sentences(runs),
        *kind_sentences(runs),
        *level_sentences(runs),
        *learned_sentences(runs),
        *eight_sentences(runs),
    ]


def leader_sentences(runs: Runs) -> list[str]:
    led: dict[str, list[int]] = {}
    for budget in runs.budgets:
        for best in runs.order(budget)[:1]:
            led.setdefault(best, []).append(budget)
    lines = []
    for label, budgets in led.items():
        means = [f"{ratio(runs.mean(label, budget).mean):.2f}" for budget in budgets]
        lines.append(f"- {full_name(runs, label)} is the best agent with {evaluations(budgets)}.")
        lines.append(f"  Its steps take {listed(means)} times the best known ones.")
    return lines


def kind_sentences(runs: Runs) -> list[str]:
    leader = runs.order(runs.middle)[:1]
    best = best_by_kind(runs, runs.middle)
    others = {kind: label for kind, label in best.items() if label not in leader}
    lines = []
    for label in leader:
        part = f"{len(best) - len(others)} of {len(best)}" if others else f"all {len(best)}"
        lines.append(
            f"- With {evaluations([runs.middle])} {full_name(runs, label)} is the best on {part} kinds of instances."
        )
        lines += [f"  On {kind} it is {full_name(runs, other)}." for kind, other in others.items()]
    return lines


def level_sentences(runs: Runs) -> list[str]:
    """Sentences about annealing, which runs on ops and on groups."""
    budgets = {runs.middle, runs.budgets[-1]}
    found = [each for each in runs.ops_or_groups if each.first == "annealing on ops" and each.budget in budgets]
    parts = [f"{change(each)} with {each.budget:,}" for each in found]
    return [f"- Step time of annealing on ops against groups: {listed(parts)} evaluations."] if parts else []


def learned_sentences(runs: Runs) -> list[str]:
    """Post and Placeto against annealing and the walk, then how many of all that learn beat the walk."""
    budgets = [budget for budget in dict.fromkeys((runs.middle, runs.budgets[-1])) if budget >= LEARNS_FROM]
    lines = []
    for label in (each for each in runs.learning(runs.budgets[-1]) if runs.agents[each] in ("post", "placeto")):
        for other in ("annealing", "random walk"):
            found = [(budget, runs.learned(budget, label, other)) for budget in budgets]
            parts = [f"{change(each)} with {budget:,}" for budget, each in found if each]
            if parts:
                name = full_name(runs, label) if other == "annealing" else "  Against a random walk"
                begin = f"- Step time of {name} against annealing" if other == "annealing" else name
                lines.append(f"{begin}: {listed(parts)}{' evaluations' if other == 'annealing' else ''}.")
    for budget in budgets:
        walks, ahead = against_the_walk(runs, budget)
        if walks:
            beat = f"{len(ahead)} of {len(walks)} agents that learn beat the walk (p < 0.05)"
            lines.append(f"- With {evaluations([budget])}, {': '.join([beat, *([listed(ahead)] if ahead else [])])}.")
    return lines


def against_the_walk(runs: Runs, budget: int) -> tuple[list[Comparison], list[str]]:
    """The comparisons of all that learn with the walk, and the names of those that are ahead."""
    walks = [each for label in runs.learning(budget) if (each := runs.learned(budget, label, "random walk"))]
    return walks, [full_name(runs, each.first) for each in walks if each.word == "faster than"]


def change(each: Comparison) -> str:
    p = "no test" if each.p is None else f"p {'' if each.p < 0.0001 else '= '}{p_value(each.p)}"
    return f"{signed(percent_change(each.effect.mean))} % ({p})"


def eight_sentences(runs: Runs) -> list[str]:
    gains = [gain_of_best_known(runs, four, eight) for four, eight in runs.eights()]
    if not gains:
        return []
    better = sum(gain > ENOUGH for gain in gains)
    return [f"- Eight devices beat four by more than {ENOUGH} % on {better} of {len(gains)} graphs that have both."]


def advice_table(runs: Runs) -> list[str]:
    """The best agent of each budget, which of the next two it is not told apart from, and the best on ops and groups."""
    table = [["evaluations", "best", "level with it", "best on ops", "best on groups"]]
    for budget in runs.budgets:
        cells = []
        for where in ("", "ops", "groups"):
            best = runs.order(budget, where)[:1]
            cells += [f"{full_name(runs, each)}, {ratio(runs.mean(each, budget).mean):.2f}" for each in best] or ["–"]
        next_two = runs.order(budget)[1:3]
        leader = runs.order(budget)[:1]
        level = [
            full_name(runs, each.second)
            for each in runs.comparisons
            if each.budget == budget
            and [each.first] == leader
            and each.second in next_two
            and each.word == "level with"
        ]
        table.append([f"{budget:,}", cells[0], ", ".join(level) or "none", *cells[1:]])
    return markdown(table, left=5)


def claim_table(runs: Runs) -> list[str]:
    """The claims about Post with the largest budget, on networks."""
    budget = runs.budgets[-1]
    found = []
    for claim in CLAIMS:
        only = {instance for instance in runs.kinds()["networks"] if instance.startswith(claim[3])}
        if all(label in runs.agents and runs.has(label, budget) for label in (POST, claim[2])):
            found.append((claim, runs.compare(budget, POST, claim[2], only=only)))
    found = [(claim, each) for claim, each in found if each]
    table = [["claim", "published", "Post's step against the other's, %", "faster on graphs", "p", "by the rule"]]
    for (title, published, _, _, smallest), each in zip(
        [claim for claim, _ in found], corrected([each for _, each in found])
    ):
        low, mean, high = (percent_change(value) for value in (each.effect.low, each.effect.mean, each.effect.high))
        table.append(
            [
                title,
                published,
                f"{signed(mean, 0)} [{signed(low, 0)}, {signed(high, 0)}]",
                f"{each.effect.faster} of {each.effect.graphs}",
                shown_p(each.p),
                verdict(each.effect, each.p, smallest),
            ]
        )
    return markdown(table, left=2)
