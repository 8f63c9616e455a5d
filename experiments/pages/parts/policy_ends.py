"""Where the policy of an agent ends."""
from __future__ import annotations

from statistics import fmean

from shared.archive import Trial, Trials
from shared.table import DASH


def last_entropy(trial: Trial) -> float:
    """The entropy in the last training episode, as a share of the largest possible."""
    return trial.episodes[-1]["entropy"]


def drawn_change(trial: Trial) -> float | None:
    """By how many percent what is drawn at the end is slower than at first; None if nothing drawn fits."""
    first, last = trial.drawn(0), trial.drawn(-1)
    return None if first is None or last is None else 100 * (last / first - 1)


def last_gradient(trial: Trial) -> float | None:
    """Mean norm of the last tenth of the episodes; None if nothing was learned from them, as nothing fitted."""
    last = trial.episodes[-len(trial.episodes) // 10 :]
    norms = [episode["gradient_norm"] for episode in last if "gradient_norm" in episode]
    return fmean(norms) if norms else None


def gradient_text(trials: Trials) -> str:
    """The mean of `last_gradient`, for a table."""
    norm = trials.mean(last_gradient)
    return DASH if norm is None else f"{norm:.0e}"


def likeliest_of(trial: Trial) -> float | None:
    """Step time of the likeliest placement at the end, ms; None if it does not fit."""
    last = trial.graph["episodes"][-1]
    return last["step_time_us"] / 1000 if last["argmax"] and last["step_time_us"] is not None else None


def ties_of(trial: Trial) -> float:
    """Choices of the likeliest placement that were drawn, of groups and of devices."""
    return trial.graph["episodes"][-1]["tied"]


def part_of_one(trial: Trial, time: float | None) -> float | None:
    """A step time in parts of a single GPU's, which is known where it does not fit too."""
    return None if time is None else time / trial.single_device


def drawn_part(trial: Trial, tenth: int) -> float | None:
    """What is drawn in a tenth of the episodes, in parts of a single GPU's time."""
    return part_of_one(trial, trial.drawn(tenth))
