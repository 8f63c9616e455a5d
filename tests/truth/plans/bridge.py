"""The throughputs that NVIDIA publishes for Megatron-Bridge."""
from collections import Counter

from plans.errors import WORST, slices, worst
from plans.program import command_of
from report import read_csv

NETWORKS = {"GPT OSS 120B": "gpt-oss-120b", "Qwen3_235B_a22B": "qwen3-235b-a22b", "Qwen3_30B_a3B": "qwen3-30b-a3b",
                   "LLAMA3_8B": "llama-3-8b", "LLAMA3_70B": "llama-3-70b", "LLAMA3.1_405B": "llama-3.1-405b",
                   "DeepSeekV3 (w/o MTP)": "deepseek-v3"}
CLUSTERS = {"DGX-H100": ("dgx-h100", 8), "DGX-B200": ("dgx-b200", 8), "DGX-B300": ("dgx-b200", 8),
                   "DGX-GB200": ("gb200-nvl72", 64), "DGX-GB300": ("gb200-nvl72", 64)}


def read_rows(folder):
    """Rows in BF16, and how many are in another or in no stated precision."""
    rows = []
    left_out = Counter()
    for row in read_csv(folder / "NVIDIA-NeMo+Megatron-Bridge" / "train.csv"):
        if row["Precision"] != "BF16":
            left_out["not stated" if row["Precision"] in ("", "?") else "FP8 or FP4"] += 1
            continue

        def number(key):
            return 1 if row[key] in ("", "n/a") else int(row[key])

        network = NETWORKS[row["model"]]
        cluster, of_node = CLUSTERS[row["System"]]
        gpus, degree = number("#-GPUs"), {"tp": number("TP"), "pp": number("PP"), "cp": number("CP"), "ep": number("EP")}
        only = {"dp": gpus // (degree["tp"] * degree["pp"] * degree["cp"]), **degree, "etp": 1,
                "vpp": number("VP") if degree["pp"] > 1 else 1, "micro_batch": number("MBS"), "zero": 1, "recompute": "none"}
        rows.append({**only, "model": row["model"], "system": row["System"], "gpus": gpus, "measured": float(row["step_s"]),
                     "release": row["release"].split()[0],
                     "name": f"{row['model']}, {gpus} {row['System'][4:]}, release {row['release'].split()[0]}, tp {degree['tp']}, "
                             f"pp {degree['pp']}, vpp {only['vpp']}, ep {degree['ep']}, micro-batch {only['micro_batch']}",
                     "command": command_of(network, cluster, "megatron", int(row["GBS"]), int(row["Sequence Length"]), only,
                                           {"mtp_layers": 0} if network == "deepseek-v3" else {}, max(1, gpus // of_node), gpus)})
    return rows, left_out


def reason(row):
    if row["system"] in ("DGX-B300", "DGX-GB300"):
        return f"a {row['system'][4:]}, predicted as a {row['system'][4:].replace('300', '200')}"
    if row["release"] == "25.11":
        return "an older release"
    return "not explained"


SLICES = [("", "model"), ("", "system"), ("pp", "pp"), ("ep", "ep")]


def section(rows, left_out):
    return f"""## Megatron-Bridge: NVIDIA's own plans of 2026's networks

NVIDIA publishes throughputs with the whole setting. {len(rows)} rows are in BF16; {left_out['FP8 or FP4']} in FP8 or FP4 and
{left_out['not stated']} whose precision the table does not state are not predicted. Nothing is fitted on them. What a row
recomputes or offloads is not in the table: none is assumed. B300 is predicted as B200 and GB300 as GB200, whose sustained share
of their rates is a guess between H100's and B200's. One setting in several releases is one row each: software became faster.

{slices(rows, SLICES)}

The worst {WORST}:

{worst(rows, reason)}
"""
