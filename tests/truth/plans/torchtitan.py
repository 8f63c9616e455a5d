"""The throughputs that torchtitan publishes for H100s."""
import re

from plans.errors import slices, worst
from plans.program import command_of
from report import read_csv


def read_rows(folder):
    """Rows with data and tensor parallelism, and how many others there are."""
    rows = []
    left_out = 0
    for line in read_csv(folder / "pytorch+torchtitan" / "tables.csv"):
        caption, values = line["caption"], [value.strip() for value in line["values"].split("|")]
        is_async_table = "asyncTP" in line["file"]
        if "h200" in line["file"] or "CP" in caption or "PP" in caption:
            left_out += 1
            continue
        precision = "fp8" if "float8" in (values[0] if is_async_table else caption + values[0]).lower() else "bf16"
        is_large = "70b" in caption.lower()
        sizes = {key: int(re.search(pattern, caption)[1]) for key, pattern in
                 (("gpus", r"(\d+) (?:GPUs|H100s)"), ("local", r"ocal batch size (\d+)"))}
        tp = int(found[1]) if (found := re.search(r"TP[= ](\d+)", caption)) else 1
        dp = sizes["gpus"] // tp
        only = {"dp": dp, "tp": tp, "pp": 1, "cp": 1, "zero": 3, "micro_batch": sizes["local"],
                "recompute": "full" if "full a" in caption.lower() else "selective", "precision": precision}
        network, sequence = ("llama-3.1-70b" if is_large else "llama-3.1-8b"), 8192
        measured = [("", values[1])] if not is_async_table else [("", values[1]), (", asynchronous tensor parallelism", values[2])]
        for software, rate in measured:
            what = f", {values[0]}" + (", torch.compile" if is_async_table else "")
            rows.append({
                **only, "gpus": sizes["gpus"], "measured": sizes["local"] * sequence / tp / float(rate.replace(",", "")),
                "name": f"{network}, {sizes['gpus']} H100, dp {dp}, tp {tp}, local batch {sizes['local']}{what}{software}",
                "command": command_of(network, "dgx-h100", "torchtitan", sizes["local"] * dp, sequence, only,
                                      nodes=sizes["gpus"] // 8)})
    return rows, left_out


def section(rows, left_out):
    return f"""## torchtitan: FSDP and tensor parallelism on 8 to 256 H100

torchtitan's published throughputs, with `--framework torchtitan`; {left_out} rows with pipelines, with context parallelism or on
H200 are not predicted. Nothing is fitted on them. The H100s of these tables have HBM2e with 2.4 TB/s and are limited to 500 W, which `dgx-h100` is not. Activations
are recomputed selectively where the table does not say that all are.

{slices(rows, [("", "precision")])}

{worst(rows, lambda row: "500 W")}
"""
