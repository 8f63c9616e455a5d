"""Cells of generated tables."""
from __future__ import annotations

import re
from collections.abc import Sequence

from shared.archive import Cell, NamedTrials

DASH = "–"


def number(value: float | None, decimals: int = 0) -> str:
    """A minus sign is the typographic one; None: a dash."""
    if value is None:
        return DASH
    text = f"{abs(value):.{decimals}f}"
    return "−" + text if value < 0 and text.strip("0.") else text


def signed(value: float, decimals: int = 1) -> str:
    text = number(value, decimals)
    return text if text.startswith("−") or not text.strip("0.") else "+" + text


def label_key(label: str) -> str:
    """An agent's label as a part of a figure's name."""
    return re.sub(r"\W+", "_", label.replace("'", ""))


def bold(text: str) -> str:
    return f"**{text}**"


def bold_best(texts: Sequence[str], values: Sequence[float | None]) -> list[str]:
    """The number of the smallest value in bold, in each cell that shows the same number. None: the cell cannot win."""
    known = [(value, text) for value, text in zip(values, texts) if value is not None]
    if not known:
        return list(texts)
    best = min(known)[1].split(" ")[0]
    return [
        bold(best) + text[len(best) :] if value is not None and text.split(" ")[0] == best else text
        for value, text in zip(values, texts)
    ]


def interval(cell: Cell, decimals: int = 0) -> str:
    return f"[{number(cell.low, decimals)}, {number(cell.high, decimals)}]"


def p_value(p: float) -> str:
    """As reports show it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.{4 if p < 0.01 else 3 if p < 0.1 else 2}f}"


def seconds(value: float) -> str:
    return "< 0.01" if value < 0.005 else f"{value:.2f}" if value < 1 else f"{value:.0f}"


def run_figures(archive: NamedTrials, prefix: str = "runs") -> dict[str, float | str]:
    """What ran: the number of trials, evaluations, seeds, and revisions with their trials."""
    trials = [trial for trial in archive.trials if trial.index == 0]
    seeds = sorted({trial.seed for trial in trials})
    figures: dict[str, float | str] = {
        prefix + ".trials": len(trials),
        prefix + ".seeds.first": seeds[0],
        prefix + ".seeds.last": seeds[-1],
        prefix + ".cpu_minutes": sum(trial.cpu_seconds for trial in trials) / 60,
    }
    budgets = [int(budget) for trial in trials if (budget := trial.get("budget.evaluations"))]
    if budgets:  # others count episodes
        figures[prefix + ".evaluations"] = max(budgets)
    revisions = sorted({trial.record["revision"] for trial in trials})
    for revision in revisions:
        short = revision[:7] + ("_changed" if revision.endswith("dirty") else "")
        figures[f"{prefix}.{short}"] = sum(trial.record["revision"] == revision for trial in trials)
    figures[prefix + ".revision"] = revisions[0][:7]
    return figures
