"""The runs of docs/results/thesis.md: which families are there, their cells, and what the thesis publishes."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from shared.archive import Archive, BadInput, Cell, Trial, Trials
from shared.claims import SEEDS
from shared.published import read_published

FAMILIES = ["cifar10", "nmt", "ptb"]
GPUS = [3, 5, 8]
GRAPHS = {"cifar10": 17, "nmt": 17, "ptb": 8}  # ptb's are the largest: every second one of 17
FAILED = {("placeto, as published", "ptb", 3): 1}  # trials that end with an error: their networks overflow
EMBEDDINGS = {"placeto": "Placeto", "graphsage": "GraphSAGE", "pgnn": "P-GNN"}
CODES = ["as published", "corrected"]  # both with the thesis's settings
TUNED = "tuned"  # the settings of docs/results/tuning.md; on nmt and ptb
WALK = "random walk"
AGENTS = {
    "annealing": "annealing",
    "local search": "local search",
    **{f"{agent}, {code}": f"{name}, {code}" for agent, name in EMBEDDINGS.items() for code in CODES},
    WALK: WALK,
}
LONG_WALK = "random walk, 20 passes"  # as many as count with the best settings
TUNED_AGENTS = {
    **{f"{agent}, {TUNED}": f"{name}, best settings" for agent, name in EMBEDDINGS.items()},
    LONG_WALK: LONG_WALK,
}
EPISODES = 20

# A published figure: metric, agent, family ("" for all) and number of GPUs (0 for the average).
Published = Mapping[tuple[str, str, str, int], float]


def published_figures() -> Published:
    """The figures of the thesis's tables."""
    return {
        (
            figure.metric,
            figure.match["agent.name"],
            figure.match.get("graph.dataset", ""),
            int(figure.match.get("num_devices", 0)),
        ): figure.value
        for figure in read_published("thesis")
        if figure.value is not None
    }


class Runs:
    """What is whole in the archive: of a family, the numbers of GPUs with all trials of all agents."""

    def __init__(self, archive: Archive, published: Published, runs_of_a_cell: int = 0) -> None:
        """`runs_of_a_cell`: of each agent and cluster; 0: as many as the experiments of the families have."""
        self.archive, self.published = archive, published
        groups = archive.trials.by("agent.label", "graph.dataset", "gpus")
        self._cells = {(label, family, int(gpus)): trials for (label, family, gpus), trials in groups.items()}

        def whole(labels: Iterable[str], family: str, gpus: int) -> bool:
            return all(
                len(self._cells.get((label, family, gpus), ())) == (runs_of_a_cell or expected(label, family, gpus))
                for label in labels
            )

        self.counts = {family: [n for n in GPUS if whole(AGENTS, family, n)] for family in FAMILIES}
        self.families = [family for family in FAMILIES if self.counts[family]]
        if not self.families:
            raise BadInput(f"{archive.name}: no family has all runs of each agent and cluster")
        # Families whose cells have runs with the best settings too.
        self.tuned = [f for f in self.families if all(whole(TUNED_AGENTS, f, n) for n in self.counts[f])]

    @property
    def all_there(self) -> bool:
        return all(counts == GPUS for counts in self.counts.values())

    def has(self, label: str, family: str) -> bool:
        """Whether the family's cells have runs of the agent."""
        return family in (self.families if label in AGENTS else self.tuned)

    def trials(self, label: str, families: Sequence[str], gpus: Sequence[int] = ()) -> Trials:
        """Without `gpus`: of all numbers of GPUs that are whole."""
        return Trials(trial for f in families for n in gpus or self.counts[f] for trial in self._cells[label, f, n])

    def cell(self, metric: str, label: str, family: str, gpus: int = 0) -> Cell:
        """As `emplace report` has it. family "": all of them; gpus 0: the average of those that are whole. Without a
        mean where it is missing."""
        if not family and self.all_there and label in AGENTS:
            return self.archive.report().cell(metric, label, "overall")
        counts = self.counts[family] if family and self.has(label, family) else []
        if not counts or gpus not in [0, *counts]:
            return Cell(None, None, None, None)
        report = self.archive.report(f"graph.dataset={family}", *(f"num_devices={n}" for n in counts))
        column = "all" if len(counts) == 1 else f"{gpus} GPUs" if gpus else "average"
        return report.cell(metric, label, column)

    def published_value(self, metric: str, agent: str, family: str, gpus: int = 0) -> float | None:
        """None if the thesis has none. A P-C ratio of one cell is computed from the two others, of which the thesis has
        averages only. An average is over the numbers of GPUs that are whole here."""
        counts = self.counts.get(family)
        if gpus == 0 and counts and counts != GPUS:
            values = [self.published_value(metric, agent, family, n) for n in counts]
            return None if None in values else fmean(values)
        found = self.published.get((metric, agent, family, gpus))
        if found is None and metric == "pc_ratio":
            gain = self.published.get(("thesis_improvement", agent, family, gpus))
            time = self.published.get(("policy_seconds", agent, family, gpus))
            return gain / time if gain and time else None
        return found

    def num_graphs(self, family: str) -> int:
        return len({trial.get("graph.index") for trial in self.trials(WALK, [family])})

    def over_graphs(
        self, label: str, family: str, gpus: int, value: Callable[[Trial], float]
    ) -> dict[int, list[float]]:
        """By the number of the graph: the value of each seed. A seed whose trial failed has the mean of the others."""
        trials = self.trials(label, [family], [gpus])
        seeds = sorted({trial.seed for trial in trials})
        found = {}
        for index, of_graph in sorted(trials.by("graph.index").items(), key=lambda item: int(item[0])):
            values = {trial.seed: value(trial) for trial in of_graph}
            mean = fmean(values.values())
            found[int(index)] = [values.get(seed, mean) for seed in seeds]
        return found


def expected(label: str, family: str, gpus: int) -> int:
    """Trials of a cell that can be there."""
    return GRAPHS[family] * SEEDS - FAILED.get((label, family, gpus), 0)


def improvement(trial: Trial) -> float:
    """Over everything on one GPU, %."""
    return 100 * (1 - trial.best / trial.single_device)


def allowed(trial: Trial) -> float:
    """The improvement that the lower bound leaves, %."""
    return 100 * (1 - trial.graph["lower_bound_us"] / 1000 / trial.single_device)


def seconds_of_a_gain(trial: Trial) -> float | None:
    """Seconds of policy of an episode for 1 % of improvement: the reverse of the P-C ratio. None without a gain."""
    gain = improvement(trial)
    return policy_seconds(trial) / gain if gain > 0 else None


def policy_seconds(trial: Trial) -> float:
    """The seconds that the policy takes in an episode."""
    return trial.timing["policy_seconds_per_episode"]


def entropy(trial: Trial) -> float:
    """Mean over training episodes, of the largest possible."""
    return fmean(episode["entropy"] for episode in trial.episodes)


def first_entropy(trial: Trial) -> float:
    """Before any update, of the largest possible."""
    return trial.graph["episodes"][0]["entropy"]
