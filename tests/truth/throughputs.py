#!/usr/bin/env python3
"""Compares steps by curves, as a runtime runs them, with the training throughputs that NVIDIA/DeepLearningExamples publishes.

Usage: tests/truth/throughputs.py EMPLACE DATA [--fit | --page FILE | --rows N]

EMPLACE is the program, DATA the folder with NVIDIA+DeepLearningExamples. --rows takes that many of the rows that the fit has
not seen, and fails if their median error has grown past MOST_MEDIAN; exit status 77: no data. --fit prints the constants of
FACTS, of the runtimes of sim/cost/curves.cc and of the V100's products, fitted to every other line of the tables, the first
included. --page writes the section "Published throughputs" of docs/results/truth.md anew.
"""

import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from report import row_text, spearman  # noqa: E402

NETWORKS = {"BERT": "bert", "resnet50v1.5": "resnet", "GNMT": "nmt", "Transformer": "transformer",
            "Transformer-XL": "transformer_xl"}
TITLES = {"bert": "BERT-large", "resnet": "ResNet-50", "nmt": "GNMT", "transformer": "Transformer",
          "transformer_xl": "Transformer-XL"}
RUNTIMES = {"PyTorch": "pytorch", "TensorFlow": "tensorflow", "TensorFlow2": "tensorflow2", "PaddlePaddle": "paddlepaddle"}
# Devices of sections' titles: kind, and GB/s of NVLink in one direction.
NODES = (("A100 80GB", "a100", 300), ("A100 40GB", "a100-40", 300), ("DGX A100", "a100", 300), ("DGX-2H", "v100", 150),
         ("V100", "v100", 150), ("DGX-1", "v100", 150), ("DGX-2", "v100", 150))
PAIR = 50  # GB/s between two V100 of a DGX-1, which is no switch: two links
MOST_MEDIAN = 10  # percent
# What the networks' scripts do, and the tables do not say. Fitted.
FACTS = {
    "tokens": 0.54,  # of 512 tokens of a pre-training sequence that are no padding, which PyTorch and PaddlePaddle leave out
    "cells": 0.18,  # time of the element-wise part of cuDNN's LSTM, relative to an op for each step
    "einsum": 5.3,  # of attention's scores in TensorFlow's Transformer-XL, whose einsum transposes them again and again
    "dgx2h": 1.16,  # clock of a DGX-2H's V100, of 450 W, relative to others
    "exchange": 0.41,  # share of NVLink that exchanges of f32 gradients reach, beside nothing else
    "uneven": 0.008,  # longer passes for each doubling of the GPUs
    "uneven_nmt": 0.049,  # the same where sentences have unlike lengths
    "uneven_transformer": 0.035,
}


def number(text):
    found = re.search(r"\d*\.?\d+", re.sub(r"(?<=\d)[ ,](?=\d{3})", "", text))
    return float(found.group()) if found else None


# ---- Published rows
def settings_of(titles, cells):
    """{batch, steps, sequence, global: (mixed precision, f32)} of a line, where its columns say it."""
    found = {}
    for title, cell in zip(titles, cells):
        if "hroughput" in title or "peedup" in title:
            continue
        values = [number(word) for word in re.split(r"and|,|/", cell)]
        if values[0] is None:
            continue
        values = values if len(values) > 1 else values * 2
        is_mixed_first = "mixed precision, " in title or "/" in cell and "(FP32)" not in cell
        for word, key in (("Batch", "batch"), ("ccumulat", "steps"), ("equence", "sequence"), ("Global", "global")):
            if word in title and not (key == "batch" and ("ccumulated" in title or "Global" in title)) \
                    and not (key == "steps" and "Accumulated" in title):
                found[key] = values if is_mixed_first else values[::-1]
    return found


def published(data):
    """The rows of single nodes, two for most lines: in mixed precision and not."""
    with open(os.path.join(data, "NVIDIA+DeepLearningExamples", "tables.csv"), encoding="utf-8") as stream:
        table = [r for r in csv.DictReader(stream) if r["kind"] == "train" and "hroughput" in r["columns"]]
    rows, lines = [], 0
    for line in table:
        network = NETWORKS.get(line["folder"].split("/")[-1])
        section = line["section"]
        titles, cells = ([c.strip() for c in line[key].split("|")] for key in ("columns", "values"))
        node = next((n for n in NODES if n[0] in section), None)
        if network is None or node is None or titles[0] != "GPUs" or "ccuracy" in section or len(cells) != len(titles):
            continue
        lines += 1
        settings, gpus = settings_of(titles, cells), int(cells[0])
        for title, cell in zip(titles, cells):
            if "hroughput" not in title or "speedup" in title or number(cell) is None:
                continue
            mixed = "mixed" in title.lower()
            take = lambda key, otherwise: settings[key][0 if mixed else 1] if key in settings else otherwise
            # The tables do not say the batch of ResNet-50 in PyTorch: these are what its scripts take.
            batch, steps = take("batch", 128 if "16GB" in section and not mixed else 256), take("steps", 1)
            if network == "bert" and batch > 1000:  # accumulated
                batch /= steps
            if "global" in settings:  # some tables have the batch of all GPUs as that of one
                batch = take("global", 0) / gpus / steps
            rows.append({
                "line": lines, "framework": line["folder"].split("/")[0], "network": network, "device": node[1], "gpus": gpus,
                "link": PAIR if gpus == 2 and "DGX-1" in section else node[2], "is_hot": node[0] == "DGX-2H",
                # NVIDIA's containers compute f32 products on an A100 in TF32, whatever a title says.
                "type": "half" if mixed else "TF32" if node[1].startswith("a100") else "f32",
                "batch": int(batch), "steps": int(steps), "sequence": int(take("sequence", 384)) if network == "bert" else 0,
                "is_large": "Large model" in section, "throughput": number(cell)})
    return rows


def network_of(row, folder):
    """The arguments of `emplace generate`, and how many of the table's units a GPU's step has."""
    batch, name = row["batch"], row["network"]
    if name == "bert":
        return name, {"layers": 24, "d_model": 1024, "heads": 16, "sequence": row["sequence"]}, batch, batch
    if name == "resnet":
        return name, {"layers": 50}, batch, batch
    if name == "nmt":  # 27 tokens are the mean of a sentence of WMT16 in either language
        return name, {"layers": 4, "hidden": 1024, "vocabulary": 32320, "steps": 27, "optimizer": "adam"}, batch, 54 * batch
    if name == "transformer_xl":
        # An adaptive softmax: clusters of 20,000, 20,000, 160,000 and 67,735 words, the later ones for one token in ten. The
        # large model has narrower embeddings for them.
        length = 192
        sizes = {"layers": 16, "d_model": 512, "ff": 2048, "heads": 8, "vocabulary": 267735, "softmax_words": 30000}
        if row["is_large"]:
            length = 384
            sizes = {"layers": 18, "d_model": 1024, "ff": 4096, "heads": 16, "vocabulary": 36000, "softmax_words": 21000}
        shape = {"head_width": 64, "sequence": length, "segment": length, "head_products": "batched"}
        return name, {**sizes, **shape}, batch, batch * length
    path = os.path.join(folder, "transformer.json")  # the "big" one; a batch is given in tokens, of sentences of about 32
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"model_type": "t5", "num_layers": 6, "d_model": 1024, "num_heads": 16, "d_kv": 64, "d_ff": 4096,
                   "vocab_size": 33712, "feed_forward_proj": "relu", "tie_word_embeddings": True}, out)
    return path, {"sequence": 32, "attention": "unfused"}, batch // 32, batch // 32 * 32


# ---- Steps
def run(program, *arguments):
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {ran.stderr}")
    return ran.stdout


def part_of(op):
    """Which part of a step an op is, as FACTS and runtimes distinguish them."""
    name, kind = op["name"], op["kind"]
    if name.startswith("update/"):
        return "update"
    if not op["source"].startswith(("elementwise", "normalisation", "softmax")):
        return "products"
    if kind.startswith(("relu", "max_pool", "avg_pool", "batch_norm")):
        return "cudnn"
    if "attention" in name and any(word in name for word in ("score", "weights", "dropout", "shift")):
        return "scores"
    return "cells" if "lstm" in name else "others"


class Steps:
    """The ops of rows' steps on one GPU: {part: [us, ops]}, with a runtime or as the curves alone have them."""

    def __init__(self, program, folder):
        self.program, self.folder, self.known = program, folder, {}

    def of(self, row, runtime):
        path = lambda name: os.path.join(self.folder, name)
        network, options, batch, units = network_of(row, self.folder)
        half = "f16" if row["device"] == "v100" else "bf16"
        options = {**options, "batch": batch, "precision": half if row["type"] == "half" else "f32"}
        key = (network, str(options), row["device"], row["type"], runtime)
        if key not in self.known:
            with open(path("node.yaml"), "w", encoding="utf-8") as out:
                out.write(f"schema: emplace.cluster\nversion: 1\nname: node\n"
                          f"devices: [{{name: \"gpu:0\", kind: {row['device']}, count: 1, memory_gib: 10000}}]\n"
                          f"link: {{bandwidth_gb_per_s: 100, latency_us: 2, gap_us: 0}}\n")
            run(self.program, "generate", network, *(w for o in options.items() for w in ("--set", "=".join(map(str, o)))), "-o",
                path("graph.json"))
            costs = ["--costs", "curves", "--tf32", "all" if row["type"] == "TF32" else "none"]
            found = json.loads(run(self.program, "inspect", path("graph.json"), "--cluster", path("node.yaml"), *costs,
                                   *(["--runtime", runtime] if runtime else []), "--ops", "--json"))
            parts = {}
            for op in found["op_times"]:
                part = parts.setdefault(part_of(op), [0, 0])
                part[0] += op["time_us"]
                part[1] += 1
            parameters = found["variable_bytes"] / (2 if row["type"] == "half" else 4)
            self.known[key] = parts, parameters
        return (*self.known[key], units)


def throughput(row, parts, parameters, units, facts):
    """The throughput of all GPUs, from the parts of a GPU's step as the runtime runs them: {part: us}."""
    weight = {"cells": facts["cells"] if row["framework"] == "PyTorch" else 1,
              "scores": facts["einsum"] if (row["framework"], row["network"]) == ("TensorFlow", "transformer_xl") else 1}
    passes = sum(weight.get(part, 1) * micros for part, micros in parts.items() if part != "update")
    if row["sequence"] == 512 and row["framework"] in ("PyTorch", "PaddlePaddle"):
        passes *= facts["tokens"]
    update = parts["update"]
    if row["is_hot"]:
        passes /= facts["dgx2h"]
    if row["gpus"] > 1:
        passes *= 1 + facts.get("uneven_" + row["network"], facts["uneven"]) * math.log2(row["gpus"])
        update += 2 * (row["gpus"] - 1) / row["gpus"] * 4 * parameters / (1e3 * row["link"] * facts["exchange"])
    return 1e6 * row["gpus"] * units * row["steps"] / (row["steps"] * passes + update)


def predicted(steps, row, facts=None):
    parts, parameters, units = steps.of(row, RUNTIMES[row["framework"]])
    return throughput(row, {part: micros for part, (micros, _) in parts.items()}, parameters, units, facts or FACTS)


def by_curves(steps, row):
    """Without a runtime and without any of FACTS."""
    parts, _, units = steps.of(row, "")
    passes = sum(micros for part, (micros, _) in parts.items() if part != "update")
    return 1e6 * row["gpus"] * units * row["steps"] / (row["steps"] * passes + parts["update"][0])


def is_fitted(row):
    return row["line"] % 2 == 1


def fit(steps, rows):
    """Prints the constants that fit the rows of odd lines best, each drawn a little to where it began."""
    import numpy as np
    from scipy.optimize import least_squares
    start = {**FACTS, "v100": 1.}
    for runtime in RUNTIMES.values():
        start.update({f"{runtime} elementwise_f32": 1.3, f"{runtime} elementwise_half": 1.3, f"{runtime} update_micros": 15.})
        if runtime.startswith("tensorflow"):
            start[f"{runtime} op_micros"] = 10.
    names = list(start)

    def miss(row, values):
        parts, parameters, units = steps.of(row, "")
        runtime = RUNTIMES[row["framework"]]
        elementwise = values[f"{runtime} elementwise_" + ("half" if row["type"] == "half" else "f32")]
        times = {}
        for part, (micros, ops) in parts.items():
            if part == "update":
                times[part] = micros + ops * values[f"{runtime} update_micros"]
                continue
            factor = elementwise if part in ("others", "scores", "cells") else 1
            if part == "products" and row["device"] == "v100" and row["type"] == "half":
                factor = values["v100"]
            times[part] = factor * micros + ops * values.get(f"{runtime} op_micros", 0)
        return math.log(throughput(row, times, parameters, units, values) / row["throughput"])

    def misses(logs):
        values = dict(zip(names, np.exp(logs)))
        return np.concatenate([[miss(row, values) for row in rows], .1 * (logs - first)])

    first = np.log([start[name] for name in names])
    found = least_squares(misses, first, loss="soft_l1", f_scale=.08)
    for name, value in zip(names, np.exp(found.x)):
        print(f"{name:32s}{value:.3g}")


def check(steps, rows, number_of_rows):
    """The exit status."""
    left = [row for row in rows if not is_fitted(row)]
    taken = [left[i * len(left) // number_of_rows] for i in range(number_of_rows)]
    median = 100 * statistics.median(abs(predicted(steps, row) / row["throughput"] - 1) for row in taken)
    print(f"{len(taken)} rows: the median error is {median:.1f} %, at most {MOST_MEDIAN} % was expected")
    return median > MOST_MEDIAN


# ---- The section of the page
def error_text(name, kept):
    errors = sorted(abs(p / row["throughput"] - 1) for row, p in kept)
    rank = spearman([row["throughput"] for row, _ in kept], [p for _, p in kept])
    median, p90 = statistics.median(errors), errors[int(.9 * len(errors))]
    return row_text((name, len(kept), f"{100 * median:.1f}", f"{100 * p90:.0f}", f"{rank:.3f}"))


def section(program, data, folder):
    steps = Steps(program, folder)
    rows = published(data)
    kept = [(row, predicted(steps, row)) for row in rows]
    groups = {}
    for row, found in kept:
        network = TITLES[row["network"]] + (", large" if row["is_large"] else "") \
            + (f", {row['sequence']} tokens" if row["sequence"] else "")
        groups.setdefault((network, row["framework"], row["device"], row["type"]), []).append((row, found))
    text = row_text(("network", "framework", "device", "type", "GPUs", "rows", "measured, of one GPU a s", "predicted",
                     "median error, %"))
    text += "|---|---|---|---|---|---:|---:|---:|---:|\n"
    for key, of_group in sorted(groups.items()):
        gpus = sorted({row["gpus"] for row, _ in of_group})
        measured = statistics.mean(row["throughput"] / row["gpus"] for row, _ in of_group)
        found = statistics.mean(p / row["gpus"] for row, p in of_group)
        signed = statistics.median(p / row["throughput"] - 1 for row, p in of_group)
        digits = 1 if measured < 1e4 else 0
        text += row_text((*key, ", ".join(map(str, gpus)), len(of_group), f"{measured:.{digits}f}", f"{found:.{digits}f}",
                          f"{100 * signed:+.0f}"))
    text += "\n" + row_text(("rows", "number", "median error, %", "p90, %", "Spearman")) + "|---|---:|---:|---:|---:|\n"
    text += error_text("all, by curves alone", [(row, by_curves(steps, row)) for row in rows])
    text += error_text("all", kept)
    text += error_text("fitted: odd lines", [k for k in kept if is_fitted(k[0])])
    left = [k for k in kept if not is_fitted(k[0])]
    text += error_text("left out: even lines", left)
    for network, title in TITLES.items():
        text += error_text(f"left out: {title}", [k for k in left if k[0]["network"] == network])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--page", default="")
    parser.add_argument("--rows", type=int, default=0)
    choice = parser.parse_args()
    program = os.path.abspath(choice.program)
    if not os.path.isdir(os.path.join(choice.data, "NVIDIA+DeepLearningExamples")):
        print("the tables are absent: set the CMake variable EMPLACE_REFERENCE_DATA")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        if choice.rows:
            return check(Steps(program, folder), published(choice.data), choice.rows)
        if choice.fit:
            fit(Steps(program, folder), [row for row in published(choice.data) if is_fitted(row)])
            return 0
        text = section(program, choice.data, folder)
    if not choice.page:
        print(text)
        return 0
    with open(choice.page, encoding="utf-8") as stream:
        page = stream.read()
    found = re.search(r"\n## Published throughputs\n.*?\n(?=\| )(.*?)(?=\n## |\Z)", page, re.S)
    with open(choice.page, "w", encoding="utf-8") as out:
        out.write(page[: found.start(1)] + text + page[found.end(1):])
    return 0


if __name__ == "__main__":
    sys.exit(main())
