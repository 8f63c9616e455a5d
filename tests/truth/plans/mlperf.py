"""Step times of MLPerf Training's logs."""
import math
import statistics
from collections import Counter, defaultdict

from plans.errors import WORST, halves, mark_fitted_settings, slices, worst
from plans.program import command_of
from report import count_of, percent, ratio, read_csv, signed, table

NETWORKS = {"gpt3": ("gpt-3-175b", {"vocabulary": 51200}), "llama31_405b": ("llama-3.1-405b", {}), "llama31_8b": ("llama-3.1-8b", {})}
# By a word of the accelerator's name: cluster, GPUs that are used of each node or rack.
CLUSTERS = [("GB300", "gb300-nvl72", 64), ("GB200", "gb200-nvl72", 64), ("B300", "dgx-b300", 8), ("B200", "dgx-b200", 8),
            ("H200", "dgx-h200", 8), ("H100", "dgx-h100", 8)]
MOST_NODES = 1024  # copies of a cluster
GPT3_STAGES_OF_RANK = 6  # where the log of GPT-3 does not say it: as in the later rounds


def read_rows(folder):
    """The rows that can be predicted, and how many of those with step times cannot, by the reason."""
    rows = []
    left_out = Counter()
    for row in read_csv(folder / "mlcommons+training_results" / "steps.csv"):
        if row["benchmark"] not in (*NETWORKS, "llama2_70b_lora") or not row["step_s_median"]:
            continue
        found = next((cluster for cluster in CLUSTERS if cluster[0] in row["accelerator"]), None)
        if row["benchmark"] == "llama2_70b_lora" or found is None or not row["TP"]:
            left_out["adapters, in a section of their own" if row["benchmark"] == "llama2_70b_lora" else
                     "TPUs and Gaudis" if found is None else "their configuration is not in the table"] += 1
            continue

        def number(key):
            return 1 if row[key] in ("", "null") else int(float(row[key]))

        kind, cluster, of_node = found
        if row["accel_per_node"] == "8" and int(row["nodes"]) > MOST_NODES:
            cluster, of_node = "2x-dgx-h100", 16  # the same nodes
        network, changes = NETWORKS[row["benchmark"]]
        gpus = int(row["nodes"]) * int(row["accel_per_node"])
        degree = {key.lower(): number(key) for key in ("TP", "PP", "CP")}
        stages = GPT3_STAGES_OF_RANK if row["benchmark"] == "gpt3" and not row["VP"] else number("VP")
        only = {"dp": gpus // (degree["tp"] * degree["pp"] * degree["cp"]), **degree, "vpp": stages if degree["pp"] > 1 else 1,
                "micro_batch": number("MBS"), "zero": 1, "recompute": "none", "precision": "nvfp4" if "fp4" in row["config"] else "fp8"}
        batch = number("global_batch")
        rows.append({**only, "gpus": gpus, "accelerator": kind, "benchmark": row["benchmark"], "round": row["round"],
                     "measured": float(row["step_s_median"]), "tokens": batch * int(row["seq"]),
                     "setting": (row["benchmark"], kind, gpus, batch, *only.values()),
                     "name": f"{row['benchmark']}, {gpus} {kind}, {row['round']}, {row['org']}, {only['precision']}, "
                             + ", ".join(f"{key} {only[key]}" for key in ("tp", "pp", "vpp", "cp")),
                     "command": command_of(network, cluster, "megatron-bridge", batch, int(row["seq"]), only, changes,
                                           max(1, gpus // of_node), gpus)})
    mark_fitted_settings(rows)
    return rows, left_out


def reason(row):
    return "a job of 6,144 ranks or more" if row["gpus"] >= 6144 else "not explained"


SLICES = [("", "benchmark"), ("", "accelerator"), ("", "precision"), ("round", "round"), ("GPUs", "gpus")]


def slope(points):
    """How the logarithm of the throughput grows with that of the number of GPUs; 1: in proportion."""
    return statistics.linear_regression([math.log(gpus) for gpus, _ in points], [math.log(rate) for _, rate in points]).slope


def slopes(rows):
    """The slopes of each network on GPUs of one kind in one precision, with the degrees that the most rows have."""
    series = defaultdict(list)
    for row in rows:
        series[(row["benchmark"], row["accelerator"], row["precision"], row["tp"], row["pp"], row["vpp"], row["micro_batch"])].append(row)
    lines = []
    for key, of in sorted(series.items()):
        sizes = sorted({row["gpus"] for row in of})
        if len(sizes) < 2:
            continue
        both = [slope([(row["gpus"], row["tokens"] / row[time]) for row in of]) for time in ("measured", "predicted")]
        lines.append([f"{key[0]}, {key[1]}, tp {key[3]}, pp {key[4]}, vpp {key[5]}, micro-batch {key[6]}", str(len(of)),
                      f"{sizes[0]:,} to {sizes[-1]:,}", *(ratio(value) for value in both), signed(both[1] / both[0] - 1)])
    return lines


def section(rows, left_out):
    others = "; ".join(f"{count_of(number, 'row')}: {reason}" for reason, number in sorted(left_out.items()))
    lines = slopes(rows)
    return f"""## MLPerf Training: GPT-3 175B and Llama 3.1 on 8 to 10,752 GPUs

The median steps of the logs of rounds v3.1 to v5.1 whose configuration the table has, {len(rows)} rows, with
`--framework megatron-bridge`; {sum(left_out.values())} rows with step times are not predicted ({others}). All are in FP8, or in
FP4 where the configuration's name says it. These rounds capture the whole step in a CUDA graph and compute attention in FP8 too,
which is not predicted. These figures are derived from MLPerf's logs, and are not verified by the MLCommons Association.

{halves(rows)}

{slices(rows, SLICES)}

How the throughput grows with the number of GPUs, as the slope of its logarithm over theirs:

{table(["series", "rows", "GPUs", "measured", "predicted", "error"], lines)}

The worst {WORST}:

{worst(rows, reason)}
"""
