"""docs/results/sgdp.md."""
from __future__ import annotations

import math
from statistics import fmean, median

from parts.sgdp import NETWORKS, batch, by_network, faster, key, ops, transfer, won
from shared.archive import Archive, Source, Trial, Trials, extremes, geometric_mean, percent_faster
from shared.page import Value, markdown
from shared.table import bold, bold_best, number, p_value, run_figures, signed

AGENTS = {
    "expert": "expert",
    "metis": "METIS",
    "hierarchical": "hierarchical",
    "sgdp": "sgdp",
    "sgdp, tuned": "sgdp, tuned",
    "random": "random",
    "random walk": "random walk",
    "annealing": "annealing",
}
# Rows of table 1 in which METIS ran out of memory.
OUT_OF_MEMORY = {
    "RNNLM, 8 layers",
    "GNMT, 8 layers",
    "Transformer-XL, 4 layers",
    "Transformer-XL, 8 layers",
    "Inception-V3, batch 32",
    "Inception-V3, batch 64",
    "WaveNet, 2 stacks",
    "WaveNet, 4 stacks",
}
AGAINST = [
    ("expert", "experts", "20.5 % (20.5 as recomputed)"),
    ("metis", "METIS", "on every network, or METIS ran out of memory"),
    ("hierarchical", "the Hierarchical Planner", "18.2 % (recomputed: 19.7)"),
    ("random walk", "the random walk", ""),
    ("random", "drawing at random", ""),
    ("annealing", "annealing", ""),
]
LIMIT = 0.009  # by Holm over the six of a column
GROUPS = {
    "RNNLM 2, 4, 8": "RNNLM",
    "GNMT 2, 4, 8": "GNMT",
    "Transformer-XL 2, 4, 8": "Transformer-XL",
    "Inception-V3 32, 64": "Inception-V3",
    "AmoebaNet": "AmoebaNet",
    "WaveNet 2, 4": "WaveNet",
}
CERTAIN = 0.1  # entropy, as a part of the largest possible, under which a policy has chosen one device


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("sgdp")
    archive.expect_labels([*AGENTS, "sgdp, mlp", "sgdp, gat"])
    runs = by_network(archive.trials)
    means = {label: {name: runs[label, name].mean() for name in NETWORKS} for label in AGENTS}
    figures = run_figures(archive)
    tables = {
        "main": main_table(archive, runs),
        "against": against_table(archive, means),
        "contexts": context_table(runs),
        "learned": learned_table(archive),
    }
    figures |= main_figures(archive, runs, means) | speed_figures(runs)
    for part in (batch, transfer, ops):
        more_figures, more_tables = part(source)
        figures |= more_figures
        tables |= more_tables
    return figures, tables


def main_table(archive: Archive, runs: dict[tuple[str, str], Trials]) -> list[str]:
    table = [["network, GPUs", *AGENTS.values()]]
    for name, (group, gpus) in NETWORKS.items():
        texts, values = [], []
        for label in AGENTS:
            trials = runs[label, name]
            values.append(trials.mean())
            text = number(values[-1])
            least, most = extremes(trials.values())
            if most / least - 1 > 0.03:
                text += f" ({number(least)} to {number(most)})"
            published = archive.report().cell("step_time", label, f"{group}, {gpus} GPUs").published
            if label == "metis" and name in OUT_OF_MEMORY:
                text += " [OOM]"
            elif published is not None:
                text += f" [{number(published)}]"
            texts.append(text)
        table.append([f"{name}, {gpus}", *bold_best(texts, values)])
    return markdown(table)


def against_table(archive: Archive, means: dict[str, dict[str, float]]) -> list[str]:
    table = [["against", "published", "sgdp", "sgdp, tuned"]]
    for other, name, published in AGAINST:
        row = [name, published]
        for label in ("sgdp", "sgdp, tuned"):
            test = archive.report().test(label, other, "log_step_time")
            gain = faster(means[label], means[other])
            text = signed(gain) + " %"
            sure = test.p_problems < LIMIT and gain > 0 and label == "sgdp, tuned" and other != "random"
            wins, ties = won(means[label], means[other])
            tied = f", {ties} tied" if ties else ""
            text = f"{bold(text) if sure else text} (p {p_value(test.p_problems)}; {wins}{tied})"
            row.append(text)
        table.append(row)
    return markdown(table)


def learned_table(archive: Archive) -> list[str]:
    table = [["", "entropy at first", "entropy at the end", "placements drawn at the end, against the first"]]
    for label, name in (("sgdp", "published, median"), ("sgdp, tuned", "tuned, median")):
        trials = archive.where("agent.label=" + label)
        entropies = [number(median(trial.episodes[index]["entropy"] for trial in trials), 2) for index in (0, -1)]
        gain = median(percent_faster(trial.drawn(-1), trial.drawn(0)) for trial in trials)
        change = f"{number(abs(gain), 1 if abs(gain) < 10 else 0)} % {'faster' if gain > 0 else 'slower'}"
        table.append([name, *entropies, change])
    return markdown(table)


def context_table(runs: dict[tuple[str, str], Trials]) -> list[str]:
    labels = {"sgdp, tuned": "sgdp, tuned", "sgdp, mlp": "MLP", "sgdp, gat": "GAT"}
    table = [["", *GROUPS]]
    for label, shown in labels.items():
        row = [shown]
        for start in GROUPS.values():
            names = [name for name in NETWORKS if name.startswith(start)]
            row.append(", ".join(number(first_seed(runs, label, name)) for name in names))
        table.append(row)
    return markdown(table, left=7)


def first_seed(runs: dict[tuple[str, str], Trials], label: str, name: str) -> float:
    return runs[label, name].where("seed=1")[0].best


def main_figures(
    archive: Archive, runs: dict[tuple[str, str], Trials], means: dict[str, dict[str, float]]
) -> dict[str, Value]:
    tuned = means["sgdp, tuned"]
    figures: dict[str, Value] = {f"won.{key(other)}": won(tuned, means[other])[0] for other, _, _ in AGAINST}
    figures["lost.expert"] = len(NETWORKS) - sum(won(tuned, means["expert"]))
    figures["lost.annealing"] = len(NETWORKS) - sum(won(tuned, means["annealing"]))
    for label in ("sgdp", "sgdp, tuned"):  # with the seed that the planner has
        difference = archive.report().test(label, "hierarchical", "log_step_time").difference
        figures[f"{key(label)}.seed1"] = abs(100 * (1 - math.exp(-difference / 100)))
    for batch_size in (32, 64):
        name = f"Inception-V3, batch {batch_size}"
        for label in ("sgdp, tuned", "metis", "annealing"):
            figures[f"inception{batch_size}.{key(label)}"] = percent_faster(means[label][name], means["expert"][name])
    figures["inception.others.min"], figures["inception.others.max"] = extremes(
        value for name, value in figures.items() if name.startswith("inception") and "sgdp" not in name
    )
    figures["wavenet4.annealing"] = percent_faster(means["annealing"]["WaveNet, 4 stacks"], tuned["WaveNet, 4 stacks"])
    for layers in (4, 8):
        group, gpus = NETWORKS[f"RNNLM, {layers} layers"]
        cells = [
            archive.report().cell("step_time", label, f"{group}, {gpus} GPUs").published for label in ("sgdp", "expert")
        ]
        figures[f"rnnlm{layers}.published"] = cells[0] / cells[1]
    figures["out_of_memory"] = len(OUT_OF_MEMORY)
    figures["gnmt2.seed3"] = runs["sgdp, tuned", "GNMT, 2 layers"].where("seed=3")[0].best
    least, most = extremes(runs["sgdp, tuned", "GNMT, 4 layers"].values())
    figures |= {"gnmt4.min": least, "gnmt4.max": most, "gnmt4.apart": percent_faster(least, most)}
    figures["entropy.first"] = median(trial.episodes[0]["entropy"] for trial in archive.where("agent.label=sgdp"))
    for label in ("sgdp, mlp", "sgdp, gat"):
        test = archive.report().test("sgdp, tuned", label, "log_step_time")
        figures[f"{key(label)}.p"] = test.p_problems
        ratios = {name: first_seed(runs, "sgdp, tuned", name) / first_seed(runs, label, name) for name in NETWORKS}
        figures[key(label)] = 100 * (1 - geometric_mean(ratios.values()))
        figures[key(label) + ".thirteen"] = 100 * (
            1 - geometric_mean(1 / ratio for name, ratio in ratios.items() if name != "WaveNet, 4 stacks")
        )
        figures[key(label) + ".cpu"] = fmean(trial.cpu_seconds for trial in archive.where("agent.label=" + label))
    figures["sgdp_tuned.cpu"] = fmean(trial.cpu_seconds for trial in archive.where("agent.label=sgdp, tuned"))
    return figures


def speed_figures(runs: dict[tuple[str, str], Trials]) -> dict[str, Value]:
    """CPU seconds of agent and simulator for 800 placements, and placements until the planner's best."""
    figures: dict[str, Value] = {}
    of_label = {
        name: [trial for network in NETWORKS for label in labels for trial in runs[label, network]]
        for name, labels in (
            ("hierarchical", ["hierarchical"]),
            ("sgdp", ["sgdp", "sgdp, tuned"]),
            ("annealing", ["annealing"]),
        )
    }
    for name, trials in of_label.items():
        figures[f"cpu.{name}.min"], figures[f"cpu.{name}.max"] = extremes(trial.cpu_seconds for trial in trials)
    ratios = [
        runs["hierarchical", name].mean(lambda trial: trial.cpu_seconds)
        / runs[label, name].mean(lambda trial: trial.cpu_seconds)
        for name in NETWORKS
        for label in ("sgdp", "sgdp, tuned")
    ]
    figures["times.min"], figures["times.max"] = extremes(ratios)
    planner = of_label["hierarchical"]
    figures["planner.found"] = max(trial.found_at for trial in planner)
    figures["planner.found.s.min"], figures["planner.found.s.max"] = extremes(
        trial.found_at * trial.cpu_seconds / trial.graph["evaluations"] for trial in planner
    )
    figures["planner.certain"] = sum(trial.episodes[-1]["entropy"] < CERTAIN for trial in planner)
    figures["planner.tied"] = len(planner) - figures["planner.certain"]
    reached = {
        name: [first_at(trial, runs["hierarchical", name][0].best) for trial in runs["sgdp, tuned", name]]
        for name in NETWORKS
    }
    figures["never"] = sum(count is None for counts in reached.values() for count in counts)
    figures["tuned.runs"] = sum(map(len, reached.values()))
    soon = [name for name, counts in reached.items() if None not in counts and max(counts) <= 100]
    figures["soon"] = len(soon)
    late = [
        (count, trial.cpu_seconds / 800)
        for name, counts in reached.items()
        for count, trial in zip(counts, runs["sgdp, tuned", name])
        if count is not None
    ]
    figures["late"] = max(late)[0]
    figures["late.s"] = math.prod(max(late))
    figures["soon.s"] = max(100 * each for _, each in late)
    return figures


def first_at(trial: Trial, target: float) -> int | None:
    """After how many placements a step is at most `target` ms."""
    return next((count for count, best in trial.graph["trace"] if best is not None and best / 1000 <= target), None)
