"""The table of vTrain's authors: GPTs that Megatron-LM trained on 2 to 8 A100."""
from plans.errors import WORST, halves, mark_fitted_half, slices, worst
from plans.program import add_error, command_of
from report import read_csv


def read_rows(folder):
    rows = []
    for row in read_csv(folder / "VIA-Research+vTrain" / "ground_truth_single.csv"):
        number = {key: int(value) for key, value in row.items() if key != "iteration time (ms)"}
        hidden, heads, layers = number["hidden size"], number["attention heads"], number["# layers"]
        changes = {"layers": layers, "d_model": hidden, "heads": heads, "kv_heads": heads, "head_width": hidden // heads,
                   "d_ff": 4 * hidden, "vocabulary": 51200}
        only = {"zero": 0, "recompute": "none", "vpp": 1, "cp": 1, "sequence_parallel": "false",
                "attention": "unfused"}
        key = {"dp": number["data parallelism"], "tp": number["tensor parallelism"], "pp": number["pipeline parallelism"],
               "micro_batch": number["micro batch"]}
        rows.append({**key, "gpus": number["# GPUs"], "batch": number["global batch"], "hidden": hidden, "layers": layers,
                     "measured": float(row["iteration time (ms)"]) / 1e3,
                     "name": f"{layers} layers, {hidden} wide, {number['# GPUs']} GPUs, batch {number['global batch']}, "
                             + ", ".join(f"{name} {value}" for name, value in key.items()),
                     "command": command_of("gpt-3-350m", "dgx-a100", "megatron", number["global batch"],
                                           number["sequence length"], only, changes, gpus=number["# GPUs"])})
    mark_fitted_half(rows)
    return rows


def predict(program, rows):
    program.ask(row["command"] for row in rows)
    fields = ("dp", "tp", "pp", "micro_batch")
    found = {command: {tuple(plan[key] for key in fields): plan for plan in program.plans(command)}
             for command in {row["command"] for row in rows}}
    for row in rows:
        add_error(row, found[row["command"]][tuple(row[key] for key in fields)]["step_time_us"])


def reason(row):
    return "8 tensor ranks of a narrow network" if row["tp"] == 8 else "not explained"


SLICES = [("GPUs", "gpus"), ("tp", "tp"), ("pp", "pp"), ("dp", "dp"), ("micro-batch", "micro_batch"), ("width", "hidden")]


def section(rows):
    return f"""## vTrain's table: Megatron-LM on 2 to 8 A100

All {len(rows):,} measured iterations of GPTs (Bang et al. 2024), with `--cluster dgx-a100 --framework megatron` and
`attention=unfused`, since its runs keep the scores of attention. vTrain states 8.37 % on average for its own predictions, from kernels
profiled on that machine.

{halves(rows)}

{slices(rows, SLICES)}

The worst {WORST}:

{worst(rows, reason)}
"""
