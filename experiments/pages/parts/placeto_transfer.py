"""The section of docs/results/placeto.md on graphs that a policy has not seen."""
from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from shared.archive import BadInput, Source, Trial, Trials, percent_faster
from shared.claims import SEEDS, Claim, Effect, effect, percent_change
from shared.page import Value, markdown
from shared.table import DASH, bold_best, number, run_figures

FAMILIES = ["cifar10", "nmt", "ptb"]
GRAPHS = 4  # of each family that are placed
BEST = ", best settings"
LEARNED = ["trained on others", "not trained", "trained on the graph"]
METHODS = [
    "trained on others" + BEST,
    "not trained" + BEST,
    "trained on the graph" + BEST,
    "trained on others",
    "not trained",
    "METIS",
    "a random placement",
]
ONE_GPU = "one GPU"


@dataclass(frozen=True)
class Placed:
    """A graph of the test half as a policy or a method places it at once, without a search."""

    graph: str
    family: str
    seed: int
    step_time: float  # ms
    single_device: float  # ms


class Placements:
    """By label: what is placed, in the order of graphs and seeds."""

    def __init__(self, source: Source) -> None:
        self.archive = source.archive("placeto_transfer")
        self.archive.expect_labels(METHODS)
        self.placed: dict[str, list[Placed]] = {}
        for trial in self.archive.trials:
            if trial.index:  # another training graph of the same trial
                continue
            for graph in trial.transfers or [trial.graph]:
                time = graph["step_time_us"] if trial.transfers else placed_alone(trial)
                if time is None:
                    raise BadInput(f"{self.archive.name}: {trial.label}: {graph['graph']}: a placement does not fit")
                self.placed.setdefault(trial.label, []).append(
                    Placed(
                        graph["graph"],
                        graph["graph"].partition("_")[0],
                        trial.seed,
                        time / 1000,
                        graph["single_device_step_time_us"] / 1000,
                    )
                )
        for of_label in self.placed.values():
            of_label.sort(key=lambda each: (each.graph, each.seed))

    def of(self, label: str) -> list[Placed]:
        return self.placed.get(label, [])

    def whole(self, label: str) -> bool:
        """Whether all graphs have all seeds; a method that draws nothing has one."""
        seeds = 1 if label == "METIS" else SEEDS
        graphs = {(each.graph, each.seed) for each in self.of(label)}
        return len(graphs) == len(self.of(label)) == len(FAMILIES) * GRAPHS * seeds

    def effect(self, one: str, other: str) -> Effect | None:
        """None while one of the two is not whole."""
        alone = other == ONE_GPU
        if not self.whole(one) or not (alone or self.whole(other)):
            return None
        theirs = [replace(each, step_time=each.single_device) for each in self.of(one)] if alone else self.of(other)
        return effect(
            Trials(self.of(one)),
            Trials(theirs),
            value=lambda each: each.step_time,
            graph=lambda each: each.graph,
            row=lambda each: each.graph,
        )


def placed_alone(trial: Trial) -> float | None:
    """Where a policy's last episode ends, which takes the likeliest moves; of others their placement; us."""
    if "episodes" not in trial.graph:
        return trial.graph["best_step_time_us"]
    last = trial.graph["episodes"][-1]
    if not last["argmax"]:
        raise BadInput(
            f"{trial.label}: {trial.graph['graph']}: the last episode is drawn (final_evaluation is expected)"
        )
    return last["step_time_us"]


def transfer_claims(source: Source) -> list[Claim]:
    """The claims of the paper's abstract: a policy is used without retraining on unseen graphs of the same family."""
    runs = Placements(source)
    ours = "trained on others"
    others = {
        "one_gpu": (ONE_GPU, "a policy places unseen graphs of its family better than one GPU, at once"),
        "untrained": ("not trained", "it places them better than its network does without training"),
        "alone": ("trained on the graph", "it places them as well as a policy that is trained on the graph"),
    }
    claims = []
    for name, (other, text) in others.items():
        best = runs.effect(ours + BEST, other + BEST if other in LEARNED else other)
        published = runs.effect(ours, other)
        tie = name == "alone"
        said = "“optimized placements” (abstract)" if tie else "yes (abstract)"
        claims.append(Claim("transfer." + name, text, said, best, published, tie=tie))
    return claims


def transfer(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """Improvement over one GPU, %, means over four graphs and the seeds."""
    runs = Placements(source)
    figures: dict[str, Value] = run_figures(runs.archive, "transfer")
    for other in ("METIS", "a random placement"):
        found = runs.effect(LEARNED[0] + BEST, other)
        name = f"transfer.against.{other.replace(' ', '_')}"
        if found:
            figures[name + ".change"], figures[name + ".faster"] = percent_change(found.mean), found.faster
    columns = []
    for family in [*FAMILIES, "all"]:
        means: list[float | None] = []
        for label in METHODS:
            found = [each for each in runs.of(label) if family in (each.family, "all")]
            gains = [percent_faster(each.step_time, each.single_device) for each in found]
            means.append(fmean(gains) if runs.whole(label) else None)
            key = f"transfer.{family}.{label.replace(',', '').replace(' ', '_')}"
            figures[key] = DASH if means[-1] is None else means[-1]
        columns.append(
            [
                family,
                *bold_best([number(mean, 1) for mean in means], [None if mean is None else -mean for mean in means]),
            ]
        )
    table = [list(row) for row in zip(["method", *METHODS], *columns)]
    return figures, {"transfer": markdown(table)}
