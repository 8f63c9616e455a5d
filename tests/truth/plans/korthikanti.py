"""The iterations of Megatron-LM that Korthikanti et al. published."""
from plans.errors import slices
from plans.program import command_of
from report import signed, table

# Name, layers, width, heads, pp, vpp, global batch, micro-batch, and seconds with full recomputation and with selective
# recomputation and sequence parallelism. Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
# Transformer Models", tables 3 and 5. All have 8 tensor ranks, one replica, 2,048 tokens and a vocabulary of 51,200.
KORTHIKANTI = [("22B", 48, 6144, 64, 1, 1, 4, 4, 1.42, 1.10), ("175B", 96, 12288, 96, 8, 3, 64, 1, 18.13, 13.75),
               ("530B", 105, 20480, 128, 35, 3, 280, 1, 49.05, 37.83), ("1T", 128, 25600, 160, 64, 1, 512, 1, 94.42, 71.49)]


def read_rows():
    rows = []
    for name, layers, width, heads, pp, vpp, batch, micro_batch, full, selective in KORTHIKANTI:
        changes = {"layers": layers, "d_model": width, "heads": heads, "kv_heads": heads, "head_width": width // heads,
                   "d_ff": 4 * width, "vocabulary": 51200}
        for recompute, measured in (("full", full), ("selective", selective)):
            only = {"dp": 1, "tp": 8, "pp": pp, "vpp": vpp, "cp": 1, "micro_batch": micro_batch, "zero": 0, "recompute": recompute,
                    "sequence_parallel": "false" if recompute == "full" else "true"}
            kind = "full" if recompute == "full" else "selective, sequence parallel"
            rows.append({"kind": kind, "measured": measured, "name": f"{name}, {8 * pp} A100, recomputation {kind}",
                         "command": command_of("gpt-3-175b", "dgx-a100", "megatron", batch, 2048, only, changes, pp)})
    return rows


def section(rows):
    return f"""## Megatron-LM's published iterations: 22B to 1T on 8 to 512 A100

Korthikanti et al. 2022, table 5: 8 tensor ranks, one replica. Nothing is fitted on them. They ran unfused attention; the
predictions have fused attention, which selective recomputation runs again. Calculon states 3.65 % on average on these rows, on which it was calibrated.

{slices(rows, [("recomputation", "kind")])}

{table(["run", "measured", "predicted", "error"],
       [[row["name"], f"{row['measured']:.2f} s", f"{row['predicted']:.2f} s", signed(row["error"])] for row in rows])}
"""
