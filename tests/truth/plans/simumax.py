"""The runs of Megatron-LM on 8 B200 that SimuMax's authors measured."""
import json
import re
import statistics

from plans.errors import WORST, slices, worst
from plans.program import command_of
from report import percent

# SimuMax cut DeepSeek V3 to a dense layer and three with experts.
DEEPSEEK_V3_EXPERTS = {"count": 256, "top_k": 8, "d_expert": 2048, "shared": 1, "d_shared": 2048, "dense_first_layers": 1,
                       "balance_bias": True}
NETWORKS = {"llama3_70b": "llama-3-70b", "llama3_405b": "llama-3.1-405b", "deepseekv2": "deepseek-v2",
                    "deepseekv3": "deepseek-v3"}


def read_cases(folder):
    with open(folder / "MooreThreads+SimuMax" / "b200_release_v1.2_summary.json", encoding="utf-8") as file:
        return json.load(file)["rows"]


def number_in(name, key, otherwise):
    """The number after a key in a case's name, such as 4 for "tp" in "llama3_70b_l12_tp4"."""
    found = re.search(rf"_{key}(\d+)", name)
    return int(found[1]) if found else otherwise


def read_rows(folder):
    rows = []
    for case in read_cases(folder):
        name = case["case"]
        network = next(value for key, value in NETWORKS.items() if name.startswith(key))
        degree = {key: number_in(name, key, 1) for key in ("tp", "pp", "cp", "dp")}
        only = {**degree, "vpp": 1, "micro_batch": 1, "zero": 1, "recompute": "none"}
        changes = {"layers": number_in(name, "l", 0)}
        if network.startswith("deepseek"):
            only.update(ep=number_in(name, "ep", 1), etp=1)
            changes["mtp_layers"] = 0
        if network == "deepseek-v3":
            changes["experts"] = json.dumps(DEEPSEEK_V3_EXPERTS)
        batches, sequence = number_in(name, "mbc", 4), number_in(name, "seq", 4096)
        rows.append({**degree, "model": network, "batches": batches, "sequence": sequence, "measured": case["real_ms"] / 1e3,
                     "measured_peak": max(rank["max_allocated_mb"] for rank in case["peak_memory_by_rank_mb"].values()) * (1 << 20),
                     "theirs": case["rel_err_pct"] / 100, "name": name,
                     "command": command_of(network, "dgx-b200", "megatron", batches * degree["dp"], sequence, only, changes)})
    return rows


def reason(row):
    if row["tp"] == 8:
        return "8 tensor ranks"
    return "a long sequence" if row["sequence"] > 4096 else "not explained"


SLICES = [("", "model"), ("tp", "tp"), ("pp", "pp"), ("cp", "cp"), ("micro-batches", "batches"), ("sequence", "sequence")]


def section(rows):
    theirs = [abs(row["theirs"]) for row in rows]
    peaks = [abs(row["peak"] / row["measured_peak"] - 1) for row in rows]
    return f"""## SimuMax's runs: Megatron-LM on 8 B200

The {len(rows)} runs that SimuMax's authors published, with `--cluster dgx-b200 --framework megatron`. The share of its rate
that a B200 sustains in a long step was fitted on the cases of Llama 3 70B; the others are held out. SimuMax's own predictions
of these rows, from ops that it measured on the same machine, are wrong by {percent(statistics.mean(theirs))} on average,
{percent(statistics.median(theirs))} in the median and {percent(max(theirs))} at most. The peaks that `emplace plan` gives are
wrong by {percent(statistics.median(peaks))} in the median and {percent(max(peaks))} at most.

{slices(rows, SLICES)}

The worst {WORST}:

{worst(rows, reason)}
"""
