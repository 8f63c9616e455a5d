"""docs/results/shootout.md."""
from __future__ import annotations

import math
from statistics import fmean

from shared.archive import Archive, Cell, PairedTest, Source, Trial, Trials, extremes, percent_faster
from shared.page import Value, markdown
from shared.table import DASH, bold, bold_best, estimate, interval, number, p_value, run_figures, seconds

NAMES = {"coloc_rl, rnn": "`coloc_rl`, `placer=encoder`", "sgdp, tuned": "`sgdp`, tuned"}
BUDGETS = [100, 1000, 5000]
FAMILIES = ["cifar10", "nmt", "ptb"]
GPUS = [2, 4, 8]
# better, worse, evaluations
PAIRS = [
    ("annealing", "coloc_rl, rnn", 100),
    ("annealing", "sgdp", 100),
    ("annealing", "local_search", 100),
    ("annealing", "scotch", 100),
    ("annealing", "post", 100),
    ("coloc_rl, rnn", "random_walk", 100),
    ("sgdp", "random_walk", 100),
    ("sgdp, tuned", "random_walk", 100),
    ("annealing", "local_search", 1000),
    ("annealing", "post", 1000),
    ("annealing", "sgdp, tuned", 1000),
    ("annealing", "random_walk", 1000),
    ("annealing", "scotch", 1000),
    ("post", "random_walk", 1000),
    ("post", "sgdp, tuned", 1000),
    ("sgdp, tuned", "random_walk", 1000),
    ("sgdp, tuned", "sgdp", 1000),
    ("coloc_rl, rnn", "random_walk", 1000),
    ("placeto", "random_walk", 1000),
    ("graphsage", "random_walk", 1000),
    ("pgnn", "random_walk", 1000),
    ("random_walk", "sgdp", 1000),
    ("random_walk", "coloc_rl", 1000),
    ("random_walk", "hierarchical", 1000),
    ("scotch", "metis", 1000),
    ("annealing", "local_search", 5000),
    ("annealing", "post", 5000),
    ("local_search", "post", 5000),
    ("post", "placeto", 5000),
    ("placeto", "random_walk", 5000),
    ("graphsage", "random_walk", 5000),
    ("pgnn", "random_walk", 5000),
]
LEARNERS = ["hierarchical", "coloc_rl"]
CERTAIN = 0.1  # entropy, as a part of the largest possible, under which a policy has chosen one device


class Shootout:
    """The archive by agent and budget, and the reports of each budget."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.runs = archive.trials.by("agent.label", "budget.evaluations")
        self.reports = {budget: archive.report(f"budget.evaluations={budget}") for budget in BUDGETS}
        self.means = {key: trials.mean(lambda trial: trial.ratio) for key, trials in self.runs.items()}
        self.agents = sorted({label for label, _ in self.runs}, key=lambda label: self.mean(label, 1000))

    def has(self, label: str, budget: int) -> bool:
        return (label, str(budget)) in self.runs

    def mean(self, label: str, budget: int) -> float:
        """Over every run that found something."""
        return self.means[label, str(budget)]

    def fits_everywhere(self, label: str) -> bool:
        return all(trial.best is not None for trial in self.runs[label, "1000"])

    def cell(self, metric: str, label: str, budget: int, column: str = "overall") -> Cell:
        return self.reports[budget].cell(metric, label, column)

    def test(self, first: str, second: str, budget: int) -> PairedTest:
        return self.reports[budget].test(first, second, "log_step_time")


def name(label: str) -> str:
    return NAMES.get(label, f"`{label}`")


def key(label: str) -> str:
    return {"coloc_rl, rnn": "rnn", "sgdp, tuned": "sgdp_tuned"}.get(label, label)


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    runs = Shootout(source.archive("shootout"))
    figures: dict[str, Value] = run_figures(runs.archive)
    for (label, budget), mean in runs.means.items():
        figures[f"{key(label)}.{budget}"] = mean
        figures[f"{key(label)}.{budget}.report"] = runs.cell("lower_bound_ratio", label, int(budget)).mean
    for better, worse, budget in PAIRS:
        figures[f"{key(better)}.{key(worse)}.{budget}"] = runs.test(better, worse, budget).difference
    figures |= walk_figures(runs) | family_figures(runs) | spread_figures(runs) | end_figures(runs)
    tables = {
        "main": main_table(runs),
        "ranks": rank_table(runs),
        "eleven": eleven_table(runs),
        "pairs": pair_table(runs),
    }
    tables |= {f"families.{budget}": family_table(runs, budget) for budget in BUDGETS}
    tables |= {"ends": end_table(runs)}
    return figures, tables


def main_table(runs: Shootout) -> list[str]:
    table = [["agent", "100 evaluations", "1,000", "5,000", "seconds"]]
    for label in runs.agents:
        row = [name(label)]
        for budget in BUDGETS:
            if not runs.has(label, budget):
                row.append(DASH)
                continue
            text = number(runs.mean(label, budget), 2)
            if runs.fits_everywhere(label):  # else the report's mean and interval are of cells with fewer graphs
                text += " " + interval(runs.cell("lower_bound_ratio", label, budget), 2)
            row.append(text)
        table.append([*row, seconds(runs.runs[label, "1000"].mean(lambda trial: trial.policy_seconds))])
    return markdown(table)


def rank_table(runs: Shootout) -> list[str]:
    table = [["agent", "rank, 100", "rank, 1,000", "rank, 5,000", "mean of the curve, 1,000"]]
    for label in runs.agents:
        ranks = [runs.cell("rank", label, budget) if runs.has(label, budget) else None for budget in BUDGETS]
        texts = [f"{number(rank.mean, 1)} {interval(rank, 1)}" if rank else DASH for rank in ranks]
        curve = runs.runs[label, "1000"].mean(lambda trial: trial.curve_area)
        table.append([name(label), *texts, number(curve, 2)])
    return markdown(table)


def eleven_table(runs: Shootout) -> list[str]:
    table = [["agent", "eleven graphs, 1,000 evaluations"]]
    missing = {
        (trial.get("graph.dataset"), trial.get("graph.index"))
        for trial in runs.runs["single_device", "1000"]
        if trial.best is None
    }
    for label in ("annealing", "scotch", "metis", "m_etf"):
        others = Trials(
            trial
            for trial in runs.runs[label, "1000"]
            if (trial.get("graph.dataset"), trial.get("graph.index")) not in missing
        )
        table.append([name(label), number(others.mean(lambda trial: trial.ratio), 2)])
    return markdown(table)


def pair_table(runs: Shootout) -> list[str]:
    table = [["better", "worse", "evaluations", "faster by, log %", "p"]]
    for better, worse, budget in PAIRS:
        test = runs.test(better, worse, budget)
        p = p_value(test.holm)
        table.append([name(better), name(worse), f"{budget:,}", estimate(test), bold(p) if test.holm < 0.05 else p])
    return markdown(table, left=2)


def family_table(runs: Shootout, budget: int) -> list[str]:
    """With 1,000 evaluations all agents, else those that use their budget."""
    agents = [
        label
        for label in runs.agents
        if runs.has(label, budget) and (budget == 1000 or runs.runs[label, str(budget)][0].graph["evaluations"] > 1)
    ]
    agents.sort(key=lambda label: runs.mean(label, budget))
    columns = []
    for family in FAMILIES:
        for gpus in GPUS:
            values = [runs.cell("lower_bound_ratio", label, budget, f"{family}, {gpus} GPUs").mean for label in agents]
            columns.append([f"{family}, {gpus}", *bold_best([number(value, 3) for value in values], values)])
    return markdown([list(row) for row in zip(["agent", *map(name, agents)], *columns)])


def end_table(runs: Shootout) -> list[str]:
    table = [["of 108 runs", "certain of one device", "exact tie between two or more devices"]]
    for label in LEARNERS:
        certain = sum(map(is_certain, runs.runs[label, "1000"]))
        table.append([name(label), str(certain), str(len(runs.runs[label, "1000"]) - certain)])
    return markdown(table)


def walk_figures(runs: Shootout) -> dict[str, Value]:
    figures: dict[str, Value] = {
        "local_search.behind": max(
            runs.test("annealing", "local_search", budget).difference for budget in (1000, 5000)
        ),
        "walk.ahead": max(
            runs.test(label, "random_walk", 1000).difference for label in ("coloc_rl, rnn", "sgdp, tuned")
        ),
        "pairs": runs.test("annealing", "post", 1000).pairs,
    }
    for budget, report in runs.reports.items():
        figures[f"graphs.least_p.{budget}"] = min(
            float(row["p_graphs_holm"])
            for row in report.tests
            if row["quantity"] == "log_step_time" and not row["dataset"]
        )
    for label, budget in (("placeto", 5000), ("coloc_rl, rnn", 100)):
        figures[key(label) + ".graphs"] = graphs_won(runs, label, "random_walk", str(budget))
        figures[key(label) + ".graphs.p"] = runs.test(label, "random_walk", budget).p_graphs
    slow = [
        1000 * runs.runs[label, "1000"].mean(lambda trial: trial.policy_seconds) / 1000
        for label in runs.agents
        if not runs.has(label, 5000)
    ]
    figures["not_run.min"], figures["not_run.max"] = extremes(slow)  # ms of the agent for each evaluation
    # Of the agent's own computation, to hundreds.
    annealing = runs.runs["annealing", "1000"].mean(lambda trial: trial.policy_seconds)
    figures["slowest.times"] = round(figures["not_run.max"] / annealing, -2)
    return figures


def graphs_won(runs: Shootout, first: str, second: str, budget: str) -> int:
    """On how many graphs the first agent's steps are shorter, in the mean of the logs."""
    keys = ("graph.dataset", "graph.index")
    logs = [
        {
            graph: trials.mean(lambda trial: math.log(trial.best))
            for graph, trials in runs.runs[label, budget].by(*keys).items()
        }
        for label in (first, second)
    ]
    return sum(logs[0][graph] < logs[1][graph] for graph in logs[0])


def family_figures(runs: Shootout) -> dict[str, Value]:
    def cell(label: str, family: str, gpus: int) -> float:
        return runs.cell("lower_bound_ratio", label, 1000, f"{family}, {gpus} GPUs").mean

    figures: dict[str, Value] = {"cifar10.single": cell("single_device", "cifar10", 4)}
    for family in FAMILIES:
        figures[family + ".gain"] = percent_faster(cell("annealing", family, 2), cell("single_device", family, 2))
    for gpus in GPUS:
        best = min(cell(label, "ptb", gpus) for label in runs.agents)
        figures[f"ptb.random.{gpus}"] = 100 * (cell("random", "ptb", gpus) / best - 1)
    behind = [100 * (cell("post", "nmt", gpus) / cell("annealing", "nmt", gpus) - 1) for gpus in GPUS]
    figures["nmt.post.min"], figures["nmt.post.max"] = extremes(behind)
    short = runs.runs["sgdp", "100"].where("graph.dataset=cifar10")
    figures["sgdp.cifar10"] = len(short)
    figures["sgdp.last"] = sum(trial.found_at == int(trial.get("budget.evaluations")) for trial in short)
    return figures


def spread_figures(runs: Shootout) -> dict[str, Value]:
    """From the best to the worst of three seeds, in percent of the best, on average."""
    figures: dict[str, Value] = {}
    for label in runs.agents:
        problems = runs.runs[label, "1000"].by("graph.dataset", "graph.index", "gpus").values()
        spreads = [100 * (max(trials.values()) / min(trials.values()) - 1) for trials in problems if trials.values()]
        figures[key(label) + ".spread"], figures[key(label) + ".spread.max"] = fmean(spreads), max(spreads)
    figures["spread.max"] = max(value for name, value in figures.items() if name.endswith(".max"))
    return figures


def end_figures(runs: Shootout) -> dict[str, Value]:
    figures: dict[str, Value] = {
        "ends.two": min(sum(map(is_certain, runs.runs[label, "1000"].where("gpus=2"))) for label in LEARNERS)
    }
    for label in ("coloc_rl", "hierarchical", "sgdp, tuned"):
        figures[key(label) + ".later"] = percent_faster(runs.mean(label, 1000), runs.mean(label, 100))
    return figures


def is_certain(trial: Trial) -> bool:
    return trial.episodes[-1]["entropy"] < CERTAIN
