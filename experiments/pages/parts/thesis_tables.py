"""The tables of the thesis, cell by cell: ours beside the published ones."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import fmean, pstdev, pvariance

from parts.thesis_runs import (
    AGENTS,
    CODES,
    EMBEDDINGS,
    GPUS,
    TUNED,
    TUNED_AGENTS,
    WALK,
    Runs,
    allowed,
    entropy,
    first_entropy,
    improvement,
)
from shared.archive import Archive, BadInput, Trials, extremes, geometric_mean
from shared.page import Value, markdown
from shared.table import DASH, interval, label_key, number, signed

PUBLISHED_GROUPS = {"cifar10": (301, 12), "nmt": (188, 31), "ptb": (500, 47)}  # table 4.1: mean, standard deviation


def all_tables(runs: Runs) -> tuple[dict[str, Value], dict[str, list[str]]]:
    seeds, figures = seed_table(runs)
    tables = {
        "runs": run_table(runs),
        "sizes": size_table(runs),
        "improvements": cell_table(runs, "thesis_improvement", lambda value: number(value, 1)),
        "times": cell_table(runs, "policy_seconds", small),
        "ratios": cell_table(runs, "pc_ratio", ratio),
        "summary": summary_table(runs),
        "bounds": bound_table(runs),
        "entropies": entropy_table(runs),
        "seeds": seeds,
        "orders": order_table(runs),
        "tuned": tuned_table(runs),
    }
    return figures, tables


def small(value: float | None) -> str:
    """Seconds; ours take less than one."""
    return (
        DASH
        if value is None
        else f"{value:.4f}"
        if value < 0.002
        else f"{value:.3f}"
        if value < 1
        else number(value, 1)
    )


def ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}" if value < 2 else f"{value:,.0f}"


def run_table(runs: Runs) -> list[str]:
    table = [["family", "GPUs", "trials", "revisions, with their trials", "CPU minutes"]]
    parts = [(family, family, AGENTS) for family in runs.families]
    parts += [(f"{family}, best settings", family, TUNED_AGENTS) for family in runs.tuned]
    for name, family, labels in parts:
        trials = Trials(trial for label in labels for trial in runs.trials(label, [family]))
        revisions = Counter(trial.record["revision"][:7] for trial in trials)
        texts = [f"{revision} ({count})" for revision, count in sorted(revisions.items())]
        minutes = sum(trial.cpu_seconds for trial in trials) / 60
        counts = " / ".join(str(n) for n in runs.counts[family])
        table.append([name, counts, number(len(trials)), ", ".join(texts), number(minutes)])
    return markdown(table)


def size_table(runs: Runs) -> list[str]:
    table = [["family", "groups of a graph, mean", "standard deviation", "least", "most"]]
    for family in runs.families:
        of_graph = runs.over_graphs(WALK, family, runs.counts[family][0], lambda trial: trial.graph["num_groups"])
        sizes = [values[0] for values in of_graph.values()]
        mean, deviation = PUBLISHED_GROUPS[family]
        row = [f"{number(fmean(sizes))} ({mean})", f"{number(pstdev(sizes))} ({deviation})"]
        table.append([family, *row, number(min(sizes)), number(max(sizes))])
    return markdown(table)


def cell_table(runs: Runs, metric: str, text: Callable[[float | None], str]) -> list[str]:
    """Published code / corrected (published), by family, embedding and number of GPUs."""
    table = [["family", "embedding", *(f"{n} GPUs" for n in GPUS), "average"]]
    for family in [*runs.families, ""]:
        for agent, name in EMBEDDINGS.items():
            row = [(family or "all three") if agent == "placeto" else "", name]
            for gpus in [*GPUS, 0]:
                published = runs.published_value(metric, agent, family, gpus)
                ours = (
                    [text(runs.cell(metric, f"{agent}, {code}", family, gpus).mean) for code in CODES]
                    if family or gpus == 0
                    else []
                )
                row.append(" / ".join(ours) + (f" ({text(published)})" if published is not None else ""))
            table.append(row)
        walk = [text(runs.cell(metric, WALK, family, n).mean) if family or n == 0 else "" for n in [*GPUS, 0]]
        table.append(["", WALK, *walk])
    return markdown(table, left=2)


def summary_table(runs: Runs) -> list[str]:
    """Table 5.1 with the changes of tables 4.6, 4.10 and 4.11, over the families that are here."""
    metrics = {"thesis_improvement": (lambda v: number(v, 1), 1), "policy_seconds": (small, -1), "pc_ratio": (ratio, 1)}
    heading = [
        "improvement, %",
        "against Placeto",
        "policy, s an episode",
        "against Placeto",
        "P-C, %/s",
        "against Placeto",
    ]
    table = [["embedding", "", *heading]]
    for agent, name in EMBEDDINGS.items():
        for which in ["published", *CODES]:
            row = [name if which == "published" else "", which]
            for metric, (text, sign) in metrics.items():
                ours, base = (mean_of(runs, metric, each, which) for each in (agent, "placeto"))
                row.append(text(ours))
                row.append("" if agent == "placeto" else f"{signed(sign * 100 * (ours / base - 1))} %")
            table.append(row)
    return markdown(table, left=2)


def mean_of(runs: Runs, metric: str, agent: str, which: str) -> float:
    """Over the families that are here."""
    if which == "published":
        return fmean(runs.published_value(metric, agent, family) for family in runs.families)
    return fmean(runs.cell(metric, f"{agent}, {which}", family).mean for family in runs.families)


def best_of_all(runs: Runs, family: str, gpus: int) -> float:
    """Mean over graphs of the improvement of the best placement that any agent found with any seed, %."""
    cells = [runs.over_graphs(label, family, gpus, improvement) for label in AGENTS]
    return fmean(max(max(cell[index]) for cell in cells) for index in cells[0])


def bound_table(runs: Runs) -> list[str]:
    heading = ["bound", "best of all runs", "annealing", "P-GNN, as published", "P-GNN, published"]
    ratios = ["annealing", "P-GNN, as published", WALK]
    table = [["family", "GPUs", *heading, *(f"{name} / bound" for name in ratios)]]
    for family in runs.families:
        for gpus in runs.counts[family]:
            gains = [runs.trials("annealing", [family], [gpus]).mean(allowed), best_of_all(runs, family, gpus)]
            gains += [
                runs.cell("improvement", label, family, gpus).mean for label in ("annealing", "pgnn, as published")
            ]
            gains.append(runs.published["thesis_improvement", "pgnn", family, gpus])
            times = [
                runs.cell("lower_bound_ratio", label, family, gpus).mean
                for label in ("annealing", "pgnn, as published", WALK)
            ]
            row = [family if gpus == runs.counts[family][0] else "", str(gpus)]
            table.append([*row, *(number(gain, 1) for gain in gains), *(number(time, 2) for time in times)])
    return markdown(table)


def best_table(runs: Runs, best: Archive) -> tuple[list[str], dict[str, Value]]:
    """What is known of the families' graphs: of a search and HEFT on groups and on ops, over the thesis's graphs."""
    heading = ["bound", "best of all runs, groups", "HEFT, groups", "search, groups", "HEFT, ops", "search, ops"]
    table = [["family", "GPUs", *heading, "search, ops / bound"]]
    figures: dict[str, Value] = {"best.ahead": 0, "best.cells": 0}
    lead = []
    for family in runs.families:
        graphs = {trial.get("graph.index") for trial in runs.trials(WALK, [family])}
        for gpus in runs.counts[family]:
            of = {
                (agent, where): Trials(
                    trial
                    for trial in best.where(f"agent.label={agent}", f"grouping.name={grouping}", f"gpus={gpus}")
                    if trial.get("graph.dataset") == family and trial.get("graph.index") in graphs
                )
                for where, grouping in (("groups", "merge_and_colocate"), ("ops", "identity"))
                for agent in ("heft", "search")
            }
            short = [side for side, trials in of.items() if len(trials) != len(graphs)]
            if short:
                raise BadInput(f"{best.name}: {short[0]} has not all {len(graphs)} graphs of {family} on {gpus} GPUs")
            known, gains = best_of_all(runs, family, gpus), {side: of[side].mean(improvement) for side in of}
            values = [of["search", "ops"].mean(allowed), known, *gains.values()]
            shown = [number(value, 1) for value in values]
            ratio_to_bound = geometric_mean(trial.ratio for trial in of["search", "ops"])
            row = [family if gpus == runs.counts[family][0] else "", str(gpus)]
            table.append([*row, *shown, number(ratio_to_bound, 2)])
            figures["best.cells"] += 1
            figures["best.ahead"] += gains["search", "ops"] > known
            lead.append(gains["search", "ops"] - known)
    figures["best.lead.min"], figures["best.lead.max"] = extremes(lead)
    return markdown(table), figures


def entropy_table(runs: Runs) -> list[str]:
    columns = ["before any update, 3 / 5 / 8 GPUs", "mean of training, 3 / 5 / 8 GPUs", "runs that improve nothing, %"]
    table = [["family", "agent", *columns]]
    for family in runs.families:
        labels = [f"{agent}, {code}" for code in CODES for agent in EMBEDDINGS]
        labels += [f"{agent}, {TUNED}" for agent in EMBEDDINGS if family in runs.tuned]
        for label in labels:
            texts = [
                " / ".join(number(of_cluster(runs, label, family, n).mean(what), 2) for n in GPUS)
                for what in (first_entropy, entropy)
            ]
            runs_of = runs.trials(label, [family])
            idle = 100 * sum(improvement(trial) <= 0 for trial in runs_of) / len(runs_of)
            name = (AGENTS | TUNED_AGENTS)[label]
            table.append([family if label == labels[0] else "", name, *texts, number(idle, 1)])
    return markdown(table, left=2)


def tuned_table(runs: Runs) -> list[str]:
    """Improvement with the best settings, by the number of GPUs."""
    table = [["family", "agent", *(f"{n} GPUs" for n in GPUS), "average", "CPU minutes"]]
    for family in runs.tuned:
        for label, name in TUNED_AGENTS.items():
            cells = [runs.cell("improvement", label, family, n) for n in [*GPUS, 0]]
            texts = [DASH if cell.mean is None else f"{number(cell.mean, 1)} {interval(cell, 1)}" for cell in cells]
            minutes = sum(trial.cpu_seconds for trial in runs.trials(label, [family])) / 60
            first = label == next(iter(TUNED_AGENTS))
            table.append([family if first else "", name, *texts, number(minutes)])
    return markdown(table, left=2)


def of_cluster(runs: Runs, label: str, family: str, gpus: int) -> Trials:
    """None where the number of GPUs is not whole."""
    return runs.trials(label, [family], [gpus]) if gpus in runs.counts[family] else Trials()


def seed_table(runs: Runs) -> tuple[list[str], dict[str, Value]]:
    """Mean of the seeds, and the least and the largest mean over the graphs that one seed gave."""
    table = [["family", "agent", *(f"{n} GPUs" for n in GPUS), "one run of a graph, sd"]]
    figures: dict[str, Value] = {}
    for family in runs.families:
        for label, name in AGENTS.items():
            texts, variances = [], []
            for gpus in GPUS:
                if gpus not in runs.counts[family]:
                    texts.append(DASH)
                    continue
                graphs = runs.over_graphs(label, family, gpus, improvement)
                means = [fmean(seed) for seed in zip(*graphs.values())]
                texts.append(f"{number(fmean(means), 1)} ({number(min(means), 1)} to {number(max(means), 1)})")
                figures[f"{family}.{label_key(label)}.{gpus}.seeds.span"] = max(means) - min(means)
                factor = len(means) / max(1, len(means) - 1)
                variances += [factor * pvariance(values) for values in graphs.values()]
            deviation = fmean(variances) ** 0.5
            figures[f"{family}.{label_key(label)}.seeds.deviation"] = deviation
            table.append([family if label == "annealing" else "", name, *texts, number(deviation, 1)])
    return markdown(table, left=2), figures


def seed_means(runs: Runs, label: str, family: str) -> list[float]:
    """For each seed, the mean over graphs and numbers of GPUs, as one run of the thesis."""
    cells = [runs.over_graphs(label, family, gpus, improvement) for gpus in runs.counts[family]]
    return [fmean(values) for values in zip(*(graph for cell in cells for graph in cell.values()))]


def order_table(runs: Runs) -> list[str]:
    """The embeddings of each seed in the order of their average improvement, best first."""
    table: list[list[str]] = []
    for family in runs.families:
        for code in CODES:
            means = {name: seed_means(runs, f"{agent}, {code}", family) for agent, name in EMBEDDINGS.items()}
            seeds = range(len(means["Placeto"]))
            if not table:
                table.append(["family", "code", "published", *(f"seed {seed + 1}" for seed in seeds)])
            published = {
                name: runs.published_value("thesis_improvement", agent, family) for agent, name in EMBEDDINGS.items()
            }
            row = [family if code == CODES[0] else "", code, ", ".join(sorted(published, key=lambda n: -published[n]))]
            table.append(row + [", ".join(sorted(means, key=lambda n: -means[n][seed])) for seed in seeds])
    return markdown(table, left=len(table[0]))
