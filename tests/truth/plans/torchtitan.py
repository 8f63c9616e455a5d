"""The throughputs that torchtitan publishes for H100s."""
import re

from plans.errors import ERROR_HEADER, error_cells, worst
from plans.program import command_of
from report import read_csv, table


def read_rows(folder):
    """Rows in BF16, and how many are in FP8."""
    rows = []
    left_out = 0
    for line in read_csv(folder / "pytorch+torchtitan" / "tables.csv"):
        caption, values = line["caption"], [value.strip() for value in line["values"].split("|")]
        is_async_table = "asyncTP" in line["file"]
        if "h200" in line["file"] or (values[0] != "None (bfloat16)" if is_async_table else "Float8" in caption + values[0]):
            left_out += 2 if is_async_table else 1
            continue
        is_large = "70b" in caption.lower()
        sizes = {key: int(re.search(pattern, caption)[1]) for key, pattern in
                 (("gpus", r"(\d+) (?:GPUs|H100s)"), ("local", r"ocal batch size (\d+)"))}
        tp = int(found[1]) if (found := re.search(r"TP=(\d+)", caption)) else 1
        dp = sizes["gpus"] // tp
        only = {"dp": dp, "tp": tp, "pp": 1, "cp": 1, "zero": 3, "micro_batch": sizes["local"],
                "recompute": "full" if "full AC" in caption else "none"}
        network, sequence = ("llama-3.1-70b" if is_large else "llama-3.1-8b"), 8192
        measured = [("", values[1])] if not is_async_table else [("", values[1]), (", asynchronous tensor parallelism", values[2])]
        for software, rate in measured:
            what = f", {values[0]}" if not is_async_table else ", torch.compile"
            rows.append({
                **only, "gpus": sizes["gpus"], "measured": sizes["local"] * sequence / tp / float(rate.replace(",", "")),
                "name": f"{network}, {sizes['gpus']} H100, dp {dp}, tp {tp}, local batch {sizes['local']}{what}{software}",
                "command": command_of(network, "dgx-h100", "torchtitan", sizes["local"] * dp, sequence, only,
                                      nodes=sizes["gpus"] // 8)})
    return rows, left_out


def section(rows, left_out):
    return f"""## torchtitan: FSDP and tensor parallelism on 8 to 256 H100

torchtitan's published throughputs in BF16, with `--framework torchtitan`; {left_out} in FP8 are not predicted. Nothing is
fitted on them. The H100s of these tables have HBM2e with 2.4 TB/s and are limited to 500 W, which `dgx-h100` is not. Where the
table says that activations are recomputed selectively, which `emplace plan` does not do, none are recomputed in the prediction.

{table(["", *ERROR_HEADER], [["**all**", *error_cells(rows)]])}

{worst(rows, lambda row: "selective recomputation, 500 W" if row["recompute"] == "none" else "500 W")}
"""
