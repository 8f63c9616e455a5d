"""Networks of docs/results/sgdp.md, and its sections on one policy for all, on transfer and on ops."""
from __future__ import annotations

from statistics import fmean

from shared.archive import Source, Trial, Trials, extremes, geometric_mean, percent_faster
from shared.page import Value, markdown
from shared.table import bold, number, run_figures, signed

NETWORKS = {
    "RNNLM, 2 layers": ('rnnlm {"layers":2}', 2),
    "RNNLM, 4 layers": ('rnnlm {"layers":4}', 4),
    "RNNLM, 8 layers": ('rnnlm {"layers":8}', 8),
    "GNMT, 2 layers": ('nmt {"layers":2}', 2),
    "GNMT, 4 layers": ('nmt {"layers":4}', 4),
    "GNMT, 8 layers": ('nmt {"layers":8}', 8),
    "Transformer-XL, 2 layers": ('transformer_xl {"layers":2}', 2),
    "Transformer-XL, 4 layers": ('transformer_xl {"layers":4}', 4),
    "Transformer-XL, 8 layers": ('transformer_xl {"layers":8}', 8),
    "Inception-V3, batch 32": ('inception_v3 {"batch":32}', 2),
    "Inception-V3, batch 64": ('inception_v3 {"batch":64}', 2),
    "AmoebaNet": ('amoebanet {"batch":64,"filters":128,"image_size":224}', 4),
    "WaveNet, 2 stacks": ('wavenet {"stacks":2}', 2),
    "WaveNet, 4 stacks": ('wavenet {"stacks":4}', 4),
}
TABLE_2 = {  # what one policy for all gains, in the paper, %
    "RNNLM, 2 layers": "0",
    "RNNLM, 4 layers": "5 %",
    "GNMT, 2 layers": "0",
    "GNMT, 4 layers": "0",
    "Transformer-XL, 2 layers": "7.6 %",
    "Transformer-XL, 4 layers": "3 %",
    "Transformer-XL, 8 layers": "1.5 %",
    "Inception-V3, batch 32": "0",
    "AmoebaNet": "−5 %",
    "WaveNet, 2 stacks": "15 %",
    "WaveNet, 4 stacks": "3.3 %",
}


def network_of(trial: Trial) -> str:
    graph = trial.spec["graph"]
    return next(name for name, (group, _) in NETWORKS.items() if group == group_of(graph))


def group_of(graph: dict) -> str:
    settings = ",".join(f'"{key}":{value}' for key, value in sorted(graph["set"].items()))
    return f'{graph["model"]} {{{settings}}}'


def by_network(trials: Trials) -> dict[tuple[str, str], Trials]:
    """By label and network."""
    found: dict[tuple[str, str], Trials] = {}
    for trial in trials:
        found.setdefault((trial.label, network_of(trial)), Trials()).append(trial)
    return found


def faster(ours: dict[str, float], others: dict[str, float]) -> float:
    """By how much steps are shorter in the geometric mean over the networks, %."""
    return 100 * (1 - geometric_mean(ours[name] / others[name] for name in ours))


def won(ours: dict[str, float], others: dict[str, float]) -> tuple[int, int]:
    """Networks won, and tied: as near as 0.01 %."""
    ratios = [ours[name] / others[name] for name in ours]
    tied = sum(abs(ratio - 1) < 0.0001 for ratio in ratios)
    return sum(ratio < 0.9999 for ratio in ratios), tied


def key(label: str) -> str:
    return label.replace(", ", "_").replace(" ", "_")


def batch(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("sgdp_batch")
    together = by_network(Trials(trial for trial in archive.trials if "together" in trial.spec))
    alone = by_network(Trials(trial for trial in archive.trials if "together" not in trial.spec))
    table = [
        ["network", "one policy each", "one for all", "gain by it", "published", "expert", "random walk", "annealing"]
    ]
    tuned, gains = "sgdp, tuned", {}
    for name, published in TABLE_2.items():
        each, joint = alone[tuned, name].values(), together[tuned, name].values()
        gains[name] = 100 * (1 - geometric_mean(joint) / geometric_mean(each))
        both = all(ours < others * 0.999 for ours, others in zip(joint, each)) and gains[name] > 1
        gain = signed(gains[name]) + " %" if number(gains[name], 1) != "0.0" else "0"
        others = [
            ", ".join(dict.fromkeys(map(number, alone[label, name].values())))
            if label == "expert"
            else ", ".join(map(number, alone[label, name].values()))
            for label in ("expert", "random walk", "annealing")
        ]
        table.append(
            [
                name,
                ", ".join(map(number, each)),
                ", ".join(map(number, joint)),
                bold(gain) if both else gain,
                published,
                *others,
            ]
        )
    mean = 100 * (1 - geometric_mean(1 - gain / 100 for gain in gains.values()))
    table.append(["geometric mean", "", "", bold(signed(mean) + " %"), "+2.6 % (ours)", "", "", ""])
    figures = run_figures(archive, "batch") | {"batch.gain": mean, "batch.worse": -mean}
    joint_means = {name: together[tuned, name].mean() for name in TABLE_2}
    for label in ("expert", "random walk", "annealing"):
        others = {name: alone[label, name].mean() for name in TABLE_2}
        figures[f"batch.{key(label)}"] = abs(faster(joint_means, others))
        figures[f"batch.{key(label)}.won"] = won(joint_means, others)[0]
    minutes = [trial.cpu_seconds / 60 for trial in archive.trials if "together" in trial.spec and trial.index == 0]
    figures["batch.minutes"] = fmean(minutes)
    return figures, {"batch": markdown(table)}


def transfer(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("sgdp_transfer")
    alone = by_network(Trials(trial for trial in source.archive("sgdp_batch").trials if "together" not in trial.spec))
    table = [["network", "zero-shot", "and ten samples", "fine-tuned", "alone (two seeds)", "expert", "one GPU"]]
    times: dict[str, dict[str, float | None]] = {}
    trials = [trial for trial in archive.trials if trial.index == 0]
    for name in (
        "RNNLM, 4 layers",
        "GNMT, 4 layers",
        "Transformer-XL, 4 layers",
        "Inception-V3, batch 32",
        "AmoebaNet",
        "WaveNet, 4 stacks",
    ):
        of = {
            trial.label: trial.transfers[0]
            for trial in trials
            if NETWORKS[name][0] == group_of(trial.spec["transfer"][0])
        }
        zero, tuned = of["zero-shot"], of["fine-tuned"]
        fits = zero["best_step_time_us"] is not None
        each = sorted(alone["sgdp, tuned", name].values())
        times[name] = {
            "zero": zero["step_time_us"] / 1000 if fits else None,
            "ten": zero["best_step_time_us"] / 1000 if fits else None,
            "tuned": tuned["best_step_time_us"] / 1000,
            "alone": fmean(each),
            "expert": alone["expert", name].mean(),
            "single": zero["single_device_step_time_us"] / 1000 if fits else None,
        }
        row = times[name]
        values = [row["zero"], row["ten"], row["tuned"], *each, row["expert"], row["single"]]
        texts = ["does not fit" if value is None else number(value) for value in values]
        best = texts.index(number(min(value for value in values if value is not None)))
        texts[best] = bold(texts[best])
        table.append([name, *texts[:3], ", ".join(texts[3:5]), *texts[5:]])
    figures = run_figures(archive, "transfer")
    fitting = [row for row in times.values() if row["zero"] is not None]
    for what, rows in (("zero", fitting), ("tuned", list(times.values()))):
        figures[f"transfer.{what}.worse"] = 100 * (geometric_mean(row[what] / row["alone"] for row in rows) - 1)
        figures[f"transfer.{what}.expert"] = 100 * (1 - geometric_mean(row[what] / row["expert"] for row in rows))
    figures["transfer.tuned.expert.without"] = 100 * (
        1 - geometric_mean(row["tuned"] / row["expert"] for row in fitting)
    )
    figures["transfer.on_one"] = sum(
        row["zero"] is None or abs(row["zero"] / row["single"] - 1) < 0.001 for row in times.values()
    )
    return figures, {"transfer": markdown(table)}


def ops(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("sgdp_ops")
    runs = {
        (trial.label, network_of(trial), trial.get("grouping.name") == "identity"): trial for trial in archive.trials
    }
    figures = run_figures(archive, "ops")
    table = [
        [
            "network",
            "one GPU",
            "SGDP, ops",
            "CPU s",
            "SGDP, 256 groups",
            "CPU s",
            "random, ops",
            "random, groups",
            "annealing, ops",
            "annealing, groups",
        ]
    ]
    for name in ("Transformer-XL, 2 layers", "GNMT, 2 layers", "GNMT, 4 layers"):
        found = [
            runs[label, name, on_ops] for label in ("sgdp, tuned", "random", "annealing") for on_ops in (True, False)
        ]
        values = [trial.best for trial in found]
        texts = [number(value) for value in values]
        texts = [bold(text) if value == min(values) else text for text, value in zip(texts, values)]
        cpu = [number(trial.cpu_seconds) for trial in found[:2]]
        table.append(
            [
                f"{name}, {found[0].graph['num_ops']:,} ops",
                number(found[0].single_device),
                texts[0],
                cpu[0],
                texts[1],
                cpu[1],
                *texts[2:],
            ]
        )
        figures[f"ops.{key(name)}.s"] = found[0].cpu_seconds / 400
        figures[f"ops.{key(name)}.first"] = found[0].episodes[0]["mean_step_time_us"] / 1000
        figures[f"ops.{key(name)}.last"] = found[0].episodes[-1]["mean_step_time_us"] / 1000
        figures[f"ops.{key(name)}.sgdp"] = percent_faster(values[1], values[0])
        figures[f"ops.{key(name)}.random"] = percent_faster(values[3], values[2])
    for what in ("sgdp", "random"):
        figures[f"ops.{what}.min"], figures[f"ops.{what}.max"] = extremes(
            value for name, value in figures.items() if name.startswith("ops.") and name.endswith("." + what)
        )
    return figures, {"ops": markdown(table)}
