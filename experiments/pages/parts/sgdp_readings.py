"""What can be meant by the published settings of SGDP: the section of docs/results/sgdp.md on sgdp_settings."""
from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from parts.policy_ends import drawn_change, last_entropy
from shared.archive import Source, Trial, Trials, geometric_mean
from shared.page import Value, markdown
from shared.table import DASH, number, run_figures, signed

FAMILIES = ("nmt", "cifar10", "ptb")
UNIFORM_FROM = 0.985  # entropy at the end; as text 0.99 or 1.00
PUBLISHED_ENTROPY, TUNED_ENTROPY = 0.5, 0.005
RATIOS = ("node", "mean", "joint")


@dataclass(frozen=True)
class Reading:
    rate: float
    entropy: float
    ratio: str
    over: str
    baseline: str
    ids: bool

    @staticmethod
    def of(trial: Trial) -> Reading:
        settings = trial.spec["agent"]["set"]
        return Reading(
            rate=float(settings["learning_rate"]),
            entropy=float(settings["entropy"]),
            ratio=settings["ratio"],
            over=settings.get("entropy_over", "mean"),
            baseline=settings["baseline"],
            ids=settings.get("neighbour_ids") == "true",
        )

    @property
    def place(self) -> tuple[float, float, int, str, str, bool]:
        """The published weight and the larger rate first."""
        return (-self.entropy, -self.rate, RATIOS.index(self.ratio), self.over, self.baseline, self.ids)


def readings(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("sgdp_settings")
    learners = [trial for trial in archive.trials if trial.spec["agent"]["name"] == "sgdp"]
    by: dict[tuple[Reading, str], Trials] = {}
    for trial in learners:
        by.setdefault((Reading.of(trial), trial.get("graph.dataset")), Trials()).append(trial)
    order = sorted({reading for reading, _ in by}, key=lambda reading: reading.place)
    rows = [["ratio", "entropy over", "baseline", "`neighbour_ids`", "rate", "`entropy`", *FAMILIES]]
    for reading in order:
        settings = [reading.ratio, reading.over, reading.baseline, "yes" if reading.ids else ""]
        cells = [_learned(by[reading, name]) for name in FAMILIES]
        rows.append([*settings, f"{reading.rate:g}", f"{reading.entropy:g}", *cells])
    for other in ("random", "annealing"):
        of = archive.where(f"agent.label={other}").by("graph.dataset")
        cells = [number(of[name].mean()) for name in FAMILIES]
        rows.append([f"`{other}`", *[""] * 5, *cells])
    return {**run_figures(archive, "readings"), **_figures(by, order)}, {"readings": markdown(rows)}


def _learned(trials: Trials) -> str:
    changes = trials.values(drawn_change)
    change = signed(fmean(changes), 0) + " %" if changes else DASH
    return f"{number(trials.mean())} ({number(trials.mean(last_entropy), 2)}; {change})"


def _figures(by: dict[tuple[Reading, str], Trials], order: list[Reading]) -> dict[str, Value]:
    """How many readings of the published weight stay uniform, and what the batch's baseline gains."""

    def is_uniform(reading: Reading) -> bool:
        return all(by[reading, name].mean(last_entropy) >= UNIFORM_FROM for name in FAMILIES)

    def step(reading: Reading) -> float:
        return geometric_mean(by[reading, name].mean() for name in FAMILIES)

    published = [reading for reading in order if reading.entropy == PUBLISHED_ENTROPY and reading.rate == 0.001]
    joint = [reading for reading in published if (reading.ratio, reading.over) == ("joint", "mean")]
    slow = {
        (reading.entropy, reading.ratio, reading.baseline): reading
        for reading in order
        if reading.rate == 0.0001 and not reading.ids
    }
    tuned, joint_slow = slow[TUNED_ENTROPY, "node", "batch"], slow[PUBLISHED_ENTROPY, "joint", "batch"]
    pairs = [
        (ours.best, theirs.best)
        for batch in (tuned, joint_slow)
        for name in FAMILIES
        for ours in by[batch, name]
        for theirs in by[slow[batch.entropy, batch.ratio, "cumulative"], name]
        if ours.seed == theirs.seed
    ]
    return {
        "readings.published": len(published),
        "readings.uniform": sum(map(is_uniform, published)),
        "readings.learn": sum(not is_uniform(reading) for reading in published),
        "readings.learn.joint": sum(not is_uniform(reading) for reading in joint),
        "readings.joint": len(joint),
        "readings.batch.wins": sum(ours < theirs for ours, theirs in pairs),
        "readings.batch.of": len(pairs),
        "readings.joint.slower": 100 * (step(joint_slow) / step(tuned) - 1),
    }
