"""Tables of docs/results/library_shootout.md."""
from __future__ import annotations

import math
from statistics import fmean

from parts.library_shootout import Runs, placed
from shared.archive import Trials, percent_faster
from shared.claims import Effect
from shared.page import markdown
from shared.table import DASH, bold, bold_best, number, p_value, seconds, signed


SHORTER = 1 - 1e-9  # a ratio below is not one of rounding
AT_BEST = 1.001  # a ratio below counts as that of the best known step


def name(runs: Runs, label: str) -> str:
    """The agent in code, with what else its label says."""
    agent, said = runs.agents[label], label.rpartition(" on ")[0]
    more = said.removeprefix(agent.replace("_", " ")).removeprefix(agent).strip(", ")
    return f"`{agent}`" + (f" ({more})" if more else "")


def full_name(runs: Runs, label: str) -> str:
    return f"{name(runs, label)} on {placed(label)}"


def ratio(value: float) -> float:
    """The factor by which an effect changes the ratio to the best known."""
    return math.exp(value / 100)


def shown(found: Effect) -> str:
    return f"{ratio(found.mean):.2f} [{ratio(found.low):.2f}, {ratio(found.high):.2f}]"


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def over_bound(runs: Runs, instance: str) -> float:
    return runs.library[instance].best_known / runs.library[instance].lower_bound


def headings(budgets: list[int]) -> list[str]:
    first, *others = budgets
    return [evaluations([first]), *(f"{budget:,}" for budget in others)]


def evaluations(budgets: list[int]) -> str:
    return listed([f"{budget:,}" for budget in budgets]) + (" evaluation" if budgets == [1] else " evaluations")


def main_table(runs: Runs, where: str) -> list[str]:
    """Rows as with the largest budget, the best first; agents that evaluate nothing have one column."""
    labels = [label for label in runs.agents if placed(label) == where]

    def place(label: str) -> tuple[bool, float]:
        budget = max(budget for of, budget in runs.by if of == label)
        return budget != runs.budgets[-1] and runs.own(label, 2) != 1, runs.mean(label, budget).mean

    columns = []
    labels.sort(key=place)
    for budget, heading in zip(runs.budgets, headings(runs.budgets)):
        column, means = [], []
        complete = runs.complete(budget)
        for label in labels:
            ran = (label, budget) in runs.by
            found = runs.mean(label, budget) if ran else None
            missing = ran and label not in complete
            count = f" ({len(runs.at(label, budget))} of {len(runs.covered[budget])})" if missing else ""
            column.append(shown(found) + count if found else DASH)
            means.append(found.mean if found and not missing else None)
        columns.append([heading, str(len(runs.covered[budget])), *bold_best(column, means)])
    return markdown(
        [list(row) for row in zip(["agent", "instances", *(name(runs, each) for each in labels)], *columns)]
    )


def by_budget(runs: Runs, cells: dict[str, list[str]], title: str = "agent") -> list[str]:
    return markdown([[title, *headings(runs.budgets)], *([row, *texts] for row, texts in cells.items())])


def nothing_table(runs: Runs) -> list[str]:
    rows = {}
    for label in runs.agents:
        counts = [len(runs.nothing(label, budget)) if (label, budget) in runs.by else None for budget in runs.budgets]
        if any(counts):
            rows[full_name(runs, label)] = [number(count) for count in counts]
    return by_budget(runs, dict(sorted(rows.items())))


def learned_table(runs: Runs) -> list[str]:
    """All agents that learn on the instances that all of them ran on, beside the walk, annealing and the best agent."""
    budget = runs.middle
    here = runs.learned_on(budget)
    learning = runs.learning(budget) if here else []
    others = [f"{other} on {where}" for where in map(placed, learning) for other in ("random walk", "annealing")]
    best = runs.order(budget)[:1] if here else []
    known = [
        label
        for label in dict.fromkeys([*others, *best])
        if label in runs.agents and runs.has(label, budget) and set(here) <= set(runs.at(label, budget))
    ]
    found = {label: runs.interval_on(label, budget, here) for label in [*learning, *known]}
    table = [["agent", f"ratio on {len(here)} instances", "instances where nothing fits", "own CPU s", "CPU s in all"]]
    for label in sorted(found, key=lambda label: found[label].mean):
        trials = Trials(trial for trial in runs.trials(label, budget) if trial.get("graph.instance") in here)
        row = [full_name(runs, label), shown(found[label]), str(len(runs.nothing(label, budget) & set(here)))]
        row += [seconds(trials.mean(lambda trial: trial.policy_seconds))]
        table.append([*row, seconds(trials.mean(lambda trial: trial.cpu_seconds))])
    return markdown(table)


def long_table(runs: Runs, minute: Runs) -> list[str]:
    """The agents of `minute` with its one budget, and with the largest of `runs` on the same instances."""
    budget, before = minute.budgets[-1], runs.budgets[-1]
    table = [["agent", f"{before:,} evaluations", f"{budget:,}", "at the best known step", "CPU s, mean and longest"]]
    for label in minute.order(budget):
        ratios = minute.at(label, budget)
        trials = minute.trials(label, budget)
        reached = sum(min(seeds.values()) < AT_BEST for seeds in ratios.values())
        table.append(
            [
                full_name(minute, label),
                shown(runs.interval_on(label, before, minute.instances)),
                shown(minute.mean(label, budget)),
                f"{reached} of {len(minute.instances)}",
                f"{seconds(trials.mean(lambda trial: trial.cpu_seconds))}, "
                + seconds(max(trial.cpu_seconds for trial in trials)),
            ]
        )
    return markdown(table)


def long_instance_table(minute: Runs) -> list[str]:
    """The ratio of each agent of `minute` on each instance."""
    budget = minute.budgets[-1]
    labels = minute.order(budget)
    table = [["instance", *(full_name(minute, label) for label in labels)]]
    for instance in minute.instances:
        means = [minute.mean_on(label, budget, [instance]) for label in labels]
        table.append([f"`{instance}`", *bold_best([number(mean, 3) for mean in means], means)])
    return markdown(table)


def fitting_table(runs: Runs) -> list[str]:
    """Means over the instances on which every complete agent finds something with every seed."""
    columns = []
    labels = sorted(runs.agents, key=lambda label: (placed(label) != "ops", label))
    for budget, heading in zip(runs.budgets, headings(runs.budgets)):
        complete = runs.complete(budget)
        lost = set().union(*(runs.nothing(label, budget) for label in complete))
        here = sorted(runs.covered[budget] - lost)
        means = [runs.mean_on(label, budget, here) if label in complete else None for label in labels]
        texts = bold_best([number(mean, 2) for mean in means], means)
        columns.append([heading, str(len(here)), *texts])
    first = ["agent", "instances", *(full_name(runs, label) for label in labels)]
    return markdown([list(row) for row in zip(first, *columns)])


def best_by_kind(runs: Runs, budget: int) -> dict[str, str]:
    """The complete agent with the smallest mean on the instances of each kind."""
    best = {}
    for kind, instances in runs.kinds().items():
        here = [instance for instance in instances if instance in runs.covered[budget]]
        means = {label: runs.mean_on(label, budget, here) for label in runs.complete(budget)}
        known = [(mean, label) for label, mean in means.items() if mean is not None]
        if known:
            best[kind] = min(known)[1]
    return best


def kind_table(runs: Runs) -> list[str]:
    kinds = runs.kinds()
    table = [["kind", "instances", *headings(runs.budgets)]]
    best = {budget: best_by_kind(runs, budget) for budget in runs.budgets}
    for kind, instances in kinds.items():
        row = [kind, str(len(instances))]
        for budget in runs.budgets:
            label = best[budget].get(kind)
            here = [instance for instance in instances if instance in runs.covered[budget]]
            row.append(f"{full_name(runs, label)}, {runs.mean_on(label, budget, here):.2f}" if label else DASH)
        table.append(row)
    return markdown(table)


def agent_kind_table(runs: Runs) -> list[str]:
    kinds = {
        kind: [instance for instance in instances if instance in runs.covered[runs.middle]]
        for kind, instances in runs.kinds().items()
    }
    labels = runs.order(runs.middle)
    columns = []
    for kind, here in kinds.items():
        means = [runs.mean_on(label, runs.middle, here) for label in labels]
        columns.append([kind, *bold_best([number(mean, 2) for mean in means], means)])
    return markdown([list(row) for row in zip(["agent", *(full_name(runs, label) for label in labels)], *columns)])


def log_percent(found: Effect) -> str:
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"


def shown_p(p: float | None) -> str:
    return DASH if p is None else bold(p_value(p)) if p < 0.05 else p_value(p)


def test_table(runs: Runs) -> list[str]:
    table = [["first", "second", "evaluations", "first against second, log %", "faster on graphs", "left out", "p"]]
    for each in runs.comparisons:
        table.append(
            [
                full_name(runs, each.first),
                full_name(runs, each.second),
                f"{each.budget:,}",
                log_percent(each.effect),
                f"{each.effect.faster} of {each.effect.graphs}",
                str(each.effect.left_out),
                shown_p(each.p),
            ]
        )
    return markdown(table, left=2)


def ops_or_groups_table(runs: Runs) -> list[str]:
    cells: dict[str, dict[int, str]] = {}
    for each in runs.ops_or_groups:
        p = "no test" if each.p is None else p_value(each.p)
        cells.setdefault(name(runs, each.first), {})[each.budget] = f"{log_percent(each.effect)}, {p}"
    return by_budget(runs, {row: [of.get(budget, DASH) for budget in runs.budgets] for row, of in cells.items()})


def rank_table(runs: Runs) -> list[str]:
    ranks = {budget: runs.ranks(budget) for budget in runs.budgets}
    ranked = {budget: str(len(of)) for budget, of in ranks.items()}
    labels = sorted(runs.agents, key=lambda label: (ranks[runs.middle].get(label, math.inf), label))
    rows = {
        full_name(runs, label): [number(ranks[budget].get(label), 1) for budget in runs.budgets] for label in labels
    }
    return by_budget(runs, {"agents that are ranked": list(ranked.values()), **rows})


def cost_table(runs: Runs) -> list[str]:
    budgets = list(dict.fromkeys((runs.middle, runs.budgets[-1])))
    table = [["agent", *(f"{what}, {b:,}" for b in budgets for what in ("own", "in all")), "evaluations made"]]
    labels = sorted(runs.agents, key=lambda label: (placed(label) != "ops", label))
    for label in labels:
        row = [full_name(runs, label)]
        for budget in budgets:
            if runs.has(label, budget):
                trials = runs.trials(label, budget)
                row.append(seconds(trials.mean(lambda trial: trial.policy_seconds)))
                row.append(seconds(trials.mean(lambda trial: trial.cpu_seconds)))
            else:
                row += [DASH, DASH]
        ran = max(budget for of, budget in runs.by if of == label)
        row.append(f"{fmean(trial.graph['evaluations'] for trial in runs.by[label, ran]):,.0f} of {ran:,}")
        table.append(row)
    return markdown(table)


def gain_of_best_known(runs: Runs, four: str, eight: str) -> float:
    return percent_faster(runs.library[eight].best_known, runs.library[four].best_known)


def eight_table(runs: Runs) -> list[str]:
    """By how many percent a step on eight devices is shorter than on four."""
    pairs = runs.eights()
    title = [f"{four.removesuffix('-4')}" for four, _ in pairs]
    table = [["step on 8 devices shorter than on 4 by, %", *title]]
    table.append(["best known", *(number(gain_of_best_known(runs, *pair), 1) for pair in pairs)])
    for label in runs.order(runs.middle):
        row = [full_name(runs, label)]
        for four, eight in pairs:
            times = [runs.step_time(label, runs.middle, instance) for instance in (four, eight)]
            row.append(DASH if None in times else number(percent_faster(times[1], times[0]), 1))
        table.append(row)
    return markdown(table)


def instance_table(runs: Runs) -> list[str]:
    table = [["instance", "ops", "devices", "best known, ms", "over the bound", "best agent here", "its ratio"]]
    for instance in runs.instances:
        known = runs.library[instance]
        budget = max(budget for budget in runs.budgets if instance in runs.covered[budget])
        means = [
            (runs.mean_on(label, budget, [instance]), label)
            for label in runs.agents
            if runs.has(label, budget) and instance in runs.at(label, budget)
        ]
        mean, label = min(means)
        digits = 4 if known.best_known < 10 else 2
        table.append(
            [
                f"`{instance}`",
                f"{known.ops:,}",
                str(runs.gpus[instance]),
                number(known.best_known, digits),
                number(over_bound(runs, instance), 3),
                full_name(runs, label) + ("" if budget == runs.budgets[-1] else f", {budget:,}"),
                number(mean, 3),
            ]
        )
    return markdown(table)
