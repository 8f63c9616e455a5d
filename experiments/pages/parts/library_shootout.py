"""The runs of docs/results/library_shootout.md by agent, budget and instance, and who is ahead of whom."""
from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from shared.archive import Archive, BadInput, Trial, Trials, geometric_mean, percent_faster
from shared.claims import Effect, effect, effect_of, holm
from shared.library import best_known_ratio, instance_of, read_library

ONE_SHOT = set("single_device cpu_only expert round_robin blocks metis scotch m_topo m_etf m_sct heft".split())
LEARN = set("placeto graphsage pgnn hierarchical coloc_rl post sgdp".split())
MIDDLE = 1000  # evaluations of the tables that show one budget
LEARNS_FROM = 100  # evaluations; with fewer no agent has an update of its policy
PLACED = ("ops", "groups")
ENOUGH = 5  # percent by which the best known step on eight devices is shorter, where eight beat four

NOT_ON_ONE_DEVICE = {"rnnlm-4-p100-8"}  # though its name does not say so
BRANCHING = ("fork_join", "tree", "chain", "independent")
KINDS = {
    "forks, trees, chains": lambda instance: instance.family in {"synthetic: " + name for name in BRANCHING},
    "layered graphs": lambda instance: instance.family == "synthetic: layered",
    "grids and other patterns": lambda instance: instance.family.startswith("synthetic")
    and not any(instance.family == "synthetic: " + name for name in (*BRANCHING, "layered")),
    "networks": lambda instance: not instance.family.startswith("synthetic"),
    "tight memory": lambda instance: instance.name.endswith("-tight") or instance.name in NOT_ON_ONE_DEVICE,
}
EIGHT = "eight devices that beat four"


@dataclass(frozen=True)
class Comparison:
    """How far the first is ahead of the second, with this many evaluations."""

    budget: int
    first: str
    second: str
    effect: Effect
    p: float | None = None  # over graphs, corrected by Holm

    @property
    def word(self) -> str:
        if self.p is None or self.p >= 0.05:
            return "level with"
        return "faster than" if self.effect.mean < 0 else "slower than"


class Runs:
    """`ratios`: by label and budget, of each instance the ratios to the best known by seed."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.library = read_library()
        self.by: dict[tuple[str, int], Trials] = {}
        self.ratios: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
        self.agents: dict[str, str] = {}  # by label
        self.gpus: dict[str, int] = {}  # by instance
        for trial in archive.trials:
            instance = instance_of(trial, self.library).name
            key = trial.label, int(trial.get("budget.evaluations"))
            if placed(trial.label) not in PLACED:
                raise BadInput(f"{archive.name}: {trial.label}: a label ends with 'on ops' or 'on groups'")
            self.agents[trial.label] = trial.get("agent.name")
            self.gpus[instance] = trial.gpus
            self.by.setdefault(key, Trials()).append(trial)
            self.ratios.setdefault(key, {}).setdefault(instance, {})[trial.seed] = best_known_ratio(trial, self.library)
        self.budgets = sorted({budget for _, budget in self.by})
        self.instances = sorted(self.gpus, key=list(self.library).index)
        self.middle = MIDDLE if MIDDLE in self.budgets else self.budgets[-1]
        self._means: dict[tuple[str, int], Effect] = {}

    def own(self, label: str, budget: int) -> int:
        """With which budget the agent ran for this one: those that evaluate nothing ran once."""
        return 1 if self.agents[label] in ONE_SHOT else budget

    def has(self, label: str, budget: int) -> bool:
        return (label, self.own(label, budget)) in self.by

    def trials(self, label: str, budget: int) -> Trials:
        return self.by[label, self.own(label, budget)]

    def at(self, label: str, budget: int) -> dict[str, dict[int, float]]:
        return self.ratios[label, self.own(label, budget)]

    @cached_property
    def covered(self) -> dict[int, set[str]]:
        """The instances that any agent ran with a budget."""
        covered: dict[int, set[str]] = {budget: set() for budget in self.budgets}
        for (_, budget), ratios in self.ratios.items():
            covered[budget] |= set(ratios)
        return covered

    def complete(self, budget: int, where: str = "") -> list[str]:
        """The agents that ran on all instances of the budget, on ops or on groups or (empty) on both."""
        return [
            label
            for label in self.agents
            if self.has(label, budget) and placed(label).startswith(where)
            if self.covered[budget] <= set(self.at(label, budget))
        ]

    def interval_on(self, label: str, budget: int, instances: Collection[str]) -> Effect:
        """The mean of 100 ln(ratio) over these instances and seeds, with its interval."""
        ratios = self.at(label, budget)
        return effect_of([[logs(ratios[name])] for name in sorted(instances)])

    def mean(self, label: str, budget: int) -> Effect:
        """The same over all instances that it ran on."""
        key = label, self.own(label, budget)
        if key not in self._means:
            self._means[key] = self.interval_on(label, budget, self.at(label, budget))
        return self._means[key]

    def mean_on(self, label: str, budget: int, instances: list[str]) -> float | None:
        """Geometric mean of the ratio on these instances; None if the agent lacks one."""
        ratios = self.at(label, budget)
        if not instances or not set(instances) <= set(ratios):
            return None
        return math.exp(fmean(fmean(logs(ratios[name])) for name in instances) / 100)

    def order(self, budget: int, where: str = "") -> list[str]:
        """The complete agents, the best first."""
        return sorted(self.complete(budget, where), key=lambda label: (self.mean(label, budget).mean, label))

    def kinds(self) -> dict[str, list[str]]:
        """The instances of each kind. A kind has none if the archive has none."""
        kinds = {kind: [name for name in self.instances if holds(self.library[name])] for kind, holds in KINDS.items()}
        kinds[EIGHT] = [
            eight
            for four, eight in self.eights()
            if percent_faster(self.library[eight].best_known, self.library[four].best_known) > ENOUGH
        ]
        return kinds

    def eights(self) -> list[tuple[str, str]]:
        """Instances on four and on eight devices, of the same graph."""
        graphs: dict[str, dict[int, str]] = {}
        for name in self.instances:
            graphs.setdefault(self.library[name].graph, {})[self.gpus[name]] = name
        return [(of[4], of[8]) for of in graphs.values() if 4 in of and 8 in of]

    def step_time(self, label: str, budget: int, instance: str) -> float | None:
        """Geometric mean over seeds, ms; None where one found nothing that fits."""
        values = [t.best for t in self.trials(label, budget) if t.get("graph.instance") == instance]
        return geometric_mean(values) if values and None not in values else None

    def nothing(self, label: str, budget: int) -> set[str]:
        """Instances on which at least one seed found nothing that fits."""
        return {t.get("graph.instance") for t in self.trials(label, budget) if t.best is None}

    def ranks(self, budget: int) -> dict[str, float]:
        """Mean place among the complete agents on the same instance with the same seed. Nothing found is last."""
        labels = self.complete(budget)
        places: dict[str, dict[str, list[float]]] = {label: {} for label in labels}
        for instance in sorted(self.covered[budget]):
            of = {label: self.at(label, budget)[instance] for label in labels}
            for seed in sorted(set.intersection(*map(set, of.values())) if of else ()):
                for label in labels:
                    ours = of[label][seed]
                    better = sum(of[other][seed] < ours for other in labels)
                    equal = sum(of[other][seed] == ours for other in labels)
                    places[label].setdefault(instance, []).append(better + (equal + 1) / 2)
        return {label: fmean(map(fmean, of.values())) for label, of in places.items() if of}

    def compare(self, budget: int, first: str, second: str, only: set[str] | None = None) -> Comparison | None:
        """None if they share no instance on which both found something."""
        sides = [
            Trials(t for t in self.trials(label, budget) if only is None or t.get("graph.instance") in only)
            for label in (first, second)
        ]
        found = [{(t.get("graph.instance"), t.seed) for t in side if t.best is not None} for side in sides]
        if not found[0] & found[1]:
            return None
        return Comparison(budget, first, second, effect(*sides, graph=self.graph_of, row=row_of))

    def graph_of(self, trial: Trial) -> str:
        return instance_of(trial, self.library).graph

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """For each budget, the best agent against the next two, and from 100 evaluations on each agent that learns
        against the walk and annealing on the same. Holm's correction is over all of them."""
        pairs: dict[tuple[int, str, str], None] = {}
        for budget in self.budgets:
            best = self.order(budget)[:3]
            pairs |= {(budget, best[0], other): None for other in best[1:]}
            for label in self.learning(budget) if budget >= LEARNS_FROM else ():
                for other in ("random walk", "annealing"):
                    name = f"{other} on {placed(label)}"
                    if name in self.agents and self.has(name, budget):
                        pairs[budget, label, name] = None
        return corrected([self.compare(*pair) for pair in pairs])

    @cached_property
    def merged(self) -> set[str]:
        """The instances with fewer groups than ops."""
        return {
            trial.get("graph.instance")
            for trial in self.archive.trials
            if placed(trial.label) == "groups" and trial.graph["num_groups"] < trial.graph["num_ops"]
        }

    @cached_property
    def ops_or_groups(self) -> list[Comparison]:
        """Ops against groups, where they differ, for each agent and budget that ran on both."""
        both = [label for label in sorted(self.agents) if label.removesuffix("ops") + "groups" in self.agents]
        pairs = [(budget, label, label.removesuffix("ops") + "groups") for label in both for budget in self.budgets]
        ran = [pair for pair in pairs if self.has(pair[1], pair[0]) and self.has(pair[2], pair[0])]
        return corrected([self.compare(*pair, only=self.merged) for pair in ran])

    def learning(self, budget: int) -> list[str]:
        return sorted(label for label in self.agents if self.agents[label] in LEARN and self.has(label, budget))

    def learned_on(self, budget: int) -> list[str]:
        """The instances on which every agent that learns has run, in the library's order."""
        common = [set(self.at(label, budget)) for label in self.learning(budget)]
        shared = set.intersection(*common) if common else set()
        return [name for name in self.instances if name in shared]

    def learned(self, budget: int, first: str, other: str) -> Comparison | None:
        """The comparison with the walk or annealing on the same."""
        wanted = (budget, first, f"{other} on {placed(first)}")
        return next((c for c in self.comparisons if (c.budget, c.first, c.second) == wanted), None)


def corrected(comparisons: list[Comparison | None]) -> list[Comparison]:
    found = [each for each in comparisons if each is not None]
    return [
        Comparison(each.budget, each.first, each.second, each.effect, p)
        for each, p in zip(found, holm([each.effect.p for each in found]))
    ]


def logs(seeds: dict[int, float]) -> list[float]:
    return [100 * math.log(seeds[seed]) for seed in sorted(seeds)]


def placed(label: str) -> str:
    """What the agent moves: the end of its label."""
    return label.rpartition(" on ")[2]


def row_of(trial: Trial) -> str:
    return trial.get("graph.instance")
