"""The throughputs that NVIDIA publishes for Megatron-Bridge."""
import re
from collections import Counter

from plans.errors import WORST, halves, mark_fitted_settings, slices, worst
from plans.program import command_of
from report import count_of, read_csv

# The name behind which a table says what is left out of a network, or what its experts do with tokens.
NETWORKS = {"GPT OSS 120B": "gpt-oss-120b", "Qwen3_235B_a22B": "qwen3-235b-a22b", "Qwen3_30B_a3B": "qwen3-30b-a3b",
            "LLAMA3_8B": "llama-3-8b", "LLAMA3_70B": "llama-3-70b", "LLAMA3.1_405B": "llama-3.1-405b", "DeepSeekV3": "deepseek-v3",
            "Nemotron_3_Nano": "nemotron-3-nano-30b-a3b", "Nemotron_3_5_Lightning": "nemotron-3.5-lightning-30b-a3b",
            "Nemotron_3_Super": "nemotron-3-super-120b-a12b", "Nemotron_3_Ultra": "nemotron-3-ultra-550b-a55b"}
CLUSTERS = {"DGX-H100": ("dgx-h100", 8), "DGX-B200": ("dgx-b200", 8), "DGX-B300": ("dgx-b300", 8),
            "DGX-GB200": ("gb200-nvl72", 64), "DGX-GB300": ("gb300-nvl72", 64)}
# The oldest release states no precision. Its footnote says that its figures are in FP8, and those in parentheses with a scale
# for each block.
PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "?": "mxfp8",
              "NVFP4": "nvfp4"}


COMPARED = "26.04"  # the release whose dense networks are planned without NVIDIA's plan
SLOWER = 1.03  # of a plan that is as good


def number_of(row, key):
    """A number of the table; that in parentheses is of the row whose precision is "?"."""
    text = row[key]
    both = re.fullmatch(r"(\S+) \((\S+)\)", text)
    if both:
        text = both[2] if row["Precision"] == "?" else both[1]
    return 1 if text in ("", "n/a") else int(text)


def is_of_adapters(row):
    """Whether the row trains adapters beside a frozen network."""
    return not row["task"] and number_of(row, "#-GPUs") == 8


def machine_of(row):
    """A cluster, how many of it, and the number of GPUs."""
    cluster, of_node = CLUSTERS[row["System"]]
    gpus = number_of(row, "#-GPUs")
    return cluster, max(1, gpus // of_node), gpus


def plan_of(row):
    degree = {key.lower(): number_of(row, key) for key in ("TP", "PP", "CP", "EP")}
    is_sharded = number_of(row, "FSDP") > 1 and degree["pp"] == 1
    return {"dp": number_of(row, "#-GPUs") // (degree["tp"] * degree["pp"] * degree["cp"]), **degree, "etp": 1,
            "vpp": number_of(row, "VP") if degree["pp"] > 1 else 1, "micro_batch": number_of(row, "MBS"),
            "zero": 3 if is_sharded else 1, "recompute": "none", "precision": PRECISIONS[row["Precision"]]}


def read_rows(folder):
    """The rows that can be predicted, and how many others there are by the reason."""
    rows = []
    left_out = Counter()
    for row in read_csv(folder / "NVIDIA-NeMo+Megatron-Bridge" / "train.csv"):
        network = NETWORKS.get(row["model"].split(" (")[0])
        if network is None:
            left_out[row["model"]] += 1
            continue
        if is_of_adapters(row):
            left_out["adapters, in a section of their own"] += 1
            continue
        cluster, nodes, gpus = machine_of(row)
        only = plan_of(row)
        changes = {}
        if network == "deepseek-v3":
            only["stages"] = "balanced"
            changes["mtp_layers"] = 0 if "w/o" in row["model"] else 1
        release = row["release"].split()[0]
        question = (network, cluster, "megatron-bridge", int(row["GBS"]), int(row["Sequence Length"]))
        machine = (changes, nodes, gpus)
        rows.append({**only, "model": row["model"].split(" (")[0], "system": row["System"], "gpus": gpus, "release": release,
                     "kind": "Mamba" if "emotron" in network else "experts" if only["ep"] > 1 else "dense",
                     "measured": float(row["step_s"]),
                     "setting": (row["model"], row["System"], gpus, row["GBS"], row["Sequence Length"], *only.values()),
                     "name": f"{row['model']}, {gpus} {row['System'][4:]}, release {release}, {only['precision']}, tp {only['tp']}, "
                             f"pp {only['pp']}, vpp {only['vpp']}, cp {only['cp']}, ep {only['ep']}, "
                             f"micro-batch {only['micro_batch']}",
                     "command": command_of(*question, only, *machine),
                     "search": tuple(part for part in command_of(*question, {"precision": only["precision"]}, *machine)
                                     if part != "--all")})
    for is_mamba in (False, True):  # whose one constant is fitted by itself
        mark_fitted_settings([row for row in rows if (row["kind"] == "Mamba") == is_mamba])
    return rows, left_out


def compared(rows):
    return [row for row in rows if row["release"] == COMPARED and row["kind"] == "dense"]


def beside_best(program, rows):
    """What is said of NVIDIA's plans beside those that the search finds."""
    among, as_good = 0, 0
    for row in compared(rows):
        plans = program.plans(row["search"])
        fields = ("dp", "tp", "pp", "vpp", "cp", "micro_batch", "zero")
        among += any(all(plan[field] == row[field] for field in fields) for plan in plans[:10])
        as_good += bool(plans) and plans[0]["step_time_us"] <= SLOWER * 1e6 * row["predicted"]
    return f"""For the {len(compared(rows))} rows of release {COMPARED} without experts, the best plan that `emplace plan` finds and
that fits is by its own predictions at most {SLOWER - 1:.0%} slower than NVIDIA's plan in {as_good}; NVIDIA's is among its first ten
in {among}. Plans of these networks differ little, and NVIDIA's may use offloading to fit, which is not predicted."""


def reasons_of(rows):
    """Says of a row how much its setting differs between releases."""
    times = {}
    for row in rows:
        times.setdefault(row["setting"], []).append(row["measured"])

    def reason(row):
        least, most = min(times[row["setting"]]), max(times[row["setting"]])
        if most > 1.1 * least:
            return f"releases differ: {least:.3f} to {most:.3f} s"
        if row["release"] in ("25.09", "25.11"):
            return "an old release"
        return "not explained"
    return reason


SLICES = [("", "model"), ("", "kind"), ("", "system"), ("", "precision"), ("release", "release"), ("GPUs", "gpus"), ("tp", "tp"),
          ("pp", "pp"), ("ep", "ep"), ("zero", "zero"), ("micro-batch", "micro_batch")]


def section(program, rows, left_out):
    others = "; ".join(f"{count_of(number, 'row')}: {reason}" for reason, number in sorted(left_out.items()))
    return f"""## Megatron-Bridge: NVIDIA's own plans of 2026's networks

NVIDIA publishes throughputs with the whole setting, on 8 to 1,024 GPUs. {len(rows)} rows are predicted with
`--framework megatron-bridge`; {sum(left_out.values())} are not ({others}). One setting in several releases is one row each, in
the same half: software became faster, by up to a half. Experts' tokens are balanced by force, and so predicted. Where
the table has FSDP, the prediction has ZeRO 3. What a row recomputes, offloads or captures in CUDA graphs is not in the table:
nothing is assumed. The networks with Mamba predict two further tokens, as
NVIDIA's recipes have it, but for Nemotron 3 Nano. A token for several experts of one node crosses the network once, as NVIDIA's
dispatchers send it. Stages of DeepSeek are balanced, as its recipes have them; those of the others are even.

{beside_best(program, rows)}

{halves(rows)}

{slices(rows, SLICES)}

The worst {WORST}:

{worst(rows, reasons_of(rows))}
"""
