"""docs/results/thesis.md."""
from __future__ import annotations

from statistics import fmean

from parts.thesis_claims import all_claims
from parts.thesis_claims import claims as claims_of
from parts.thesis_controls import longer, queueing, starts, variants
from parts.thesis_pictures import all_pictures
from parts.thesis_runs import (
    AGENTS,
    CODES,
    EMBEDDINGS,
    FAMILIES,
    TUNED_AGENTS,
    WALK,
    Runs,
    allowed,
    entropy,
    first_entropy,
    published_figures,
)
from parts.thesis_tables import all_tables, best_table, seed_means
from shared.archive import Source
from shared.claims import Claim
from shared.page import Value, markdown
from shared.table import DASH, bold_best, interval, label_key, number, run_figures


LABELS = AGENTS | TUNED_AGENTS


def claims(source: Source) -> list[Claim]:
    """What docs/results/verdicts.md lists of the thesis."""
    return claims_of(Runs(source.archive("thesis_full"), published_figures()))


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    archive = source.archive("thesis_full")
    archive.expect_labels(LABELS)
    runs = Runs(archive, published_figures())
    figures, tables = all_tables(runs)
    more_figures, more_tables = all_claims(runs)
    best = source.archive("thesis_best")
    known, best_figures = best_table(runs, best)
    variant_table, variant_figures = variants(source.archive("thesis_variants"))
    start_tables, start_figures = starts(source.archive("thesis_entropy"))
    queueing_table, queueing_figures = queueing(source.archive("thesis_fifo"))
    long_table, long_figures = longer(source.archive("thesis_long"))
    figures |= variant_figures | start_figures | queueing_figures | long_figures
    figures |= run_figures(archive) | family_figures(runs) | more_figures | best_figures | run_figures(best, "best")
    tables |= more_tables | start_tables | {"main": main_table(runs), "best": known}
    tables |= {"variants": variant_table, "queueing": queueing_table, "long": long_table}
    return figures, tables, all_pictures(runs)


def main_table(runs: Runs) -> list[str]:
    labels = LABELS if runs.tuned else AGENTS
    columns = [*FAMILIES, ""]
    cells = {label: [runs.cell("thesis_improvement", label, family) for family in columns] for label in labels}
    shared = [
        column for column in range(len(columns)) if all(cells[label][column].mean is not None for label in labels)
    ]

    def rank(label: str) -> float:
        return -fmean(cells[label][column].mean for column in shared)

    order = sorted(labels, key=rank)
    texts = []
    for column, family in enumerate(columns):
        values = [cells[label][column] for label in order]
        shown = [number(cell.mean, 1) + ("" if cell.mean is None else f" {interval(cell, 1)}") for cell in values]
        best = bold_best(shown, [None if cell.mean is None else -cell.mean for cell in values])
        for row, label in enumerate(order):
            agent, _, code = label.partition(", ")
            published = runs.published_value("thesis_improvement", agent, family)
            if code == CODES[0] and published is not None:
                best[row] += f" ({number(published, 1)})"
        texts.append(best)
    rows = [[LABELS[label], *(column[row] for column in texts)] for row, label in enumerate(order)]
    return markdown([["agent", *FAMILIES, "overall"], *rows])


def family_figures(runs: Runs) -> dict[str, Value]:
    """Improvements, times and entropies by family; of all families a dash while one is missing."""
    figures: dict[str, Value] = {}
    for label in LABELS:
        mean = runs.cell("thesis_improvement", label, "").mean
        if label in AGENTS:
            figures[f"overall.{label_key(label)}"] = DASH if mean is None else number(mean, 1)
        for family in runs.families if label in AGENTS else runs.tuned:
            name = f"{family}.{label_key(label)}"
            cell = runs.cell("thesis_improvement", label, family)
            figures[name], figures[name + ".low"], figures[name + ".high"] = cell.mean, cell.low, cell.high
            for gpus in runs.counts[family]:
                figures[f"{name}.{gpus}"] = runs.cell("thesis_improvement", label, family, gpus).mean
            figures[name + ".bound_ratio"] = runs.cell("lower_bound_ratio", label, family).mean
            figures[name + ".pc"] = runs.cell("pc_ratio", label, family).mean
            figures[name + ".seconds"] = runs.cell("policy_seconds", label, family).mean
            if label.partition(",")[0] in EMBEDDINGS:
                figures[name + ".first_entropy"] = runs.trials(label, [family]).mean(first_entropy)
                figures[name + ".entropy"] = runs.trials(label, [family]).mean(entropy)
    for family in runs.families:
        figures[family + ".allowed"] = runs.trials(WALK, [family]).mean(allowed)
        figures[family + ".gpus"] = "/".join(str(n) for n in runs.counts[family])
        order = sorted(EMBEDDINGS, key=lambda agent: -runs.published_value("thesis_improvement", agent, family))
        seeds = zip(*(seed_means(runs, f"{agent}, as published", family) for agent in order))
        figures[family + ".published_order"] = sum(first > second > third for first, second, third in seeds)
        pc = figures[f"{family}.random_walk.pc"]
        figures[family + ".walk_pc_times"] = pc / figures[f"{family}.pgnn_as_published.pc"]
    return figures
