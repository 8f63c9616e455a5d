"""The throughputs that torchtitan publishes for H100s."""
import math
import re

from plans.errors import slices, worst
from plans.program import command_of
from report import read_csv


def integer(pattern, text, otherwise=None):
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else otherwise


def read_rows(folder):
    rows = []
    for line in read_csv(folder / "pytorch+torchtitan" / "tables.csv"):
        values = dict(zip((name.strip() for name in line["columns"].split("|")),
                          (value.strip() for value in line["values"].split("|"))))
        first = line["values"].split("|")[0].strip()
        device, caption, precision = "H100", line["caption"], "bf16"
        if "h200" in line["file"]:
            # Its command, beside the configuration llama3_8b.toml of torchtitan.
            device, precision = "H200", "fp8"
            caption = f"Llama 3.1 8b on {8 * int(values['NUM_NODES'])} GPUs. Local batch size 2. Selective activation checkpointing."
        elif "float8" in (first if "asyncTP" in line["file"] else caption + first).lower():
            precision = "fp8"
        gpus, local = integer(r"(\d+) (?:GPUs|H100s)", caption), integer(r"ocal batch size (\d+)", caption)
        degrees = {"tp": integer(r"TP[= ](\d+)", caption, 1), "pp": integer(r"PP ?(\d+)", caption, 1),
                   "cp": integer(r"CP (\d+)", first, 1)}
        dp = gpus // math.prod(degrees.values())
        sequence = integer(r"([\d,]+)", values.get("Sequence Length", "8192"))
        network = "llama-3.1-" + re.search(r"(8b|70b|405b)", caption.lower())[1]
        # A pipeline has as many micro-batches as stages where nothing else is said.
        only = {"dp": dp, **degrees, "zero": 3, "micro_batch": local // degrees["pp"],
                "recompute": "full" if "full a" in caption.lower() else "selective", "precision": precision}
        if degrees["pp"] > 1:
            is_interleaved = "Interleaved" in first
            only |= {"vpp": 1 + is_interleaved, "schedule": "interleaved" if is_interleaved else "1f1b"}
        for software in ("", ", asynchronous tensor parallelism") if "asyncTP" in line["file"] else ("",):
            rate = list(values.values())[2 if software else 1] if "asyncTP" in line["file"] else values["TPS/GPU"]
            what = f", {first}" + (", torch.compile" if "asyncTP" in line["file"] else "")
            rows.append({
                **only, "gpus": gpus, "measured": local * dp * sequence / gpus / float(rate.replace(",", "")),
                "split": "pipelines" if degrees["pp"] > 1 else "context" if degrees["cp"] > 1 else "data and tensor",
                "name": f"{network}, {gpus} {device}, dp {dp}, " + ", ".join(f"{key} {value}" for key, value in degrees.items())
                        + f", local batch {local}{what}{software}",
                "command": command_of(network, f"dgx-{device.lower()}", "torchtitan", local * dp, sequence, only, nodes=gpus // 8)})
    return rows


def section(rows):
    return f"""## torchtitan: FSDP, tensor, context and pipeline parallelism on 8 to 512 H100 and H200

torchtitan's published throughputs, with `--framework torchtitan`. Nothing is fitted on them. The H100s of these tables have HBM2e
with 2.4 TB/s and are limited to 500 W, which `dgx-h100` is not.

{slices(rows, [("", "precision"), ("", "recompute"), ("", "split")])}

{worst(rows, lambda row: "500 W" if "H100" in row["name"] else "not explained")}
"""
