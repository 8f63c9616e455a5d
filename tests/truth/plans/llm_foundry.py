"""The table of llm-foundry: networks of MPT that FSDP trained on 8 to 512 A100 and H100."""
from plans.errors import WORST, halves, mark_fitted_half, slices, worst
from plans.program import command_of
from report import read_csv

# Layers, width and heads by name: scripts/train/yamls/pretrain of llm-foundry.
MPT = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
       "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (64, 8192, 64)}


def read_rows(folder):
    """All rows; constants were fitted on half of those in half precision."""
    rows = []
    for row in read_csv(folder / "mosaicml+llm-foundry" / "train.csv"):
        layers, hidden, heads = MPT[row["Model"]]
        gpus, micro_batch, accumulation = (int(row[key]) for key in ("# GPUs", "MicroBatchSize", "GradAccum"))
        sequence = int(row["SeqLen (T)"])
        batch = gpus * micro_batch * accumulation
        only = {"dp": gpus, "tp": 1, "pp": 1, "cp": 1, "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}[row["Sharding Strategy"]],
                "micro_batch": micro_batch, "recompute": "full" if row["Activation Checkpointing"] == "True" else "none"}
        if "fp8" in row["Precision"]:
            only["precision"] = "fp8"
        changes = {"layers": layers, "d_model": hidden, "heads": heads, "kv_heads": heads, "head_width": hidden // heads,
                   "d_ff": 4 * hidden, "vocabulary": 50368, "max_positions": sequence}
        rows.append({
            "model": row["Model"], "gpus": gpus, "gpu": row["GPU"], "sequence": sequence, **only, "fitted": False, "precision": row["Precision"],
            "measured": float(row["step_s"]), "scale": int(row["GlobalBatchSize"]) / batch,
            "name": f"{row['Model']}, {gpus} {row['GPU'].upper().replace('_', ' ')}, {sequence} tokens, micro-batch {micro_batch}, "
                    f"zero {only['zero']}, recompute {only['recompute']}",
            "command": command_of("mpt-7b", "dgx-h100" if row["GPU"].startswith("h100") else "dgx-a100", "fsdp", batch, sequence,
                                  only, changes, max(1, gpus // 8))})
    mark_fitted_half([row for row in rows if "fp8" not in row["precision"]])
    return rows


SLICES = [("GPU", "gpu"), ("zero", "zero"), ("recompute", "recompute"), ("precision", "precision"), ("GPUs", "gpus"),
                  ("sequence", "sequence"), ("layers x width", lambda row: "{0} x {1}".format(*MPT[row["model"]]))]


def section(rows):
    return f"""## llm-foundry: FSDP on 8 to 512 A100 and H100

The {len(rows)} rows of MPT, with `--framework fsdp`; {sum("fp8" in row["precision"] for row in rows)} are in FP8, on which
nothing is fitted. Micro-batches of the table need not divide its batch: we predict its micro-batch and number of them, and scale by the batch that it names.

{halves(rows)}

{slices(rows, SLICES)}

Those on H100 by the length of sequences:

{slices([row for row in rows if row["gpu"] == "h100_80gb"], [("sequence", "sequence")])}

The worst {WORST}:

{worst(rows, lambda row: "not explained")}
"""
