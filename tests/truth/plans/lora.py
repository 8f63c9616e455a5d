"""Fine-tuning with low-rank adapters: MLPerf's Llama 2 70B, and Megatron-Bridge's Llama 3 70B."""
import re
import statistics

from plans import bridge
from plans.errors import ERROR_HEADER, WORST, error_cells, slices, worst
from plans.mlperf import CLUSTERS
from plans.program import add_error, command_of
from report import count_of, percent, read_csv, signed, table

# MLPerf's reference adapts attention with rank 16, in sequences of 8,192 tokens. Megatron-Bridge's recipe of Llama 3 70B
# has rank 16 at one module.
MLPERF_ADAPTERS = {"lora": 16, "lora-targets": "attention"}
BRIDGE_ADAPTERS = {"lora": 16, "lora-targets": "linear_qkv"}
MLPERF_SEQUENCE = 8192
FRAMEWORK = "megatron-bridge"
OF_PLAN = {"config": "named by the configuration", "log": "all that the log leaves", "best": "the best that is found"}


def with_adapters(command, adapters):
    return (*command, *(word for key, value in adapters.items() for word in (f"--{key}", str(value))))


def bridge_rows(folder):
    rows = []
    for row in read_csv(folder / "NVIDIA-NeMo+Megatron-Bridge" / "train.csv"):
        if not bridge.is_of_adapters(row):
            continue
        only, machine = bridge.plan_of(row), bridge.machine_of(row)
        command = command_of(bridge.NETWORKS[row["model"]], machine[0], FRAMEWORK, int(row["GBS"]), int(row["Sequence Length"]),
                             only, {}, *machine[1:])
        rows.append({**only, "table": "Megatron-Bridge, Llama 3 70B", "plan": "config", "gpus": machine[2],
                     "accelerator": row["System"].removeprefix("DGX-"), "measured": float(row["step_s"]),
                     "name": f"{row['model']}, {machine[2]} {row['System'][4:]}, release {row['release'].split()[0]}, "
                             f"{only['precision']}, tp {only['tp']}, pp {only['pp']}, vpp {only['vpp']}",
                     "command": with_adapters(command, BRIDGE_ADAPTERS),
                     "release": f"Megatron-Bridge {row['release'].split()[0]}"})
    return rows


def mlperf_rows(folder):
    """The rows with step times. The log says the batch and its accumulation, and so dp, as micro-batches have one
    sequence; the name of a configuration says the other degrees."""
    rows = []
    for row in read_csv(folder / "mlcommons+training_results" / "steps.csv"):
        found = next((cluster for cluster in CLUSTERS if cluster[0] in row["accelerator"]), None)
        if row["benchmark"] != "llama2_70b_lora" or not row["step_s_median"] or found is None:
            continue
        kind, cluster, of_node = found
        gpus = int(row["nodes"]) * int(row["accel_per_node"])
        batch = int(row["global_batch"])
        only = {"dp": batch // int(row["grad_acc"]), "micro_batch": 1, "zero": 1,
                "precision": "nvfp4" if "fp4" in row["config"] else "fp8"}
        named = re.search(r"tp(\d+)pp(\d+)cp(\d+)", row["config"])
        degrees = dict(zip(("tp", "pp", "cp"), map(int, named.groups()))) if named else {}
        if not named and only["dp"] == gpus:
            degrees = {"tp": 1, "pp": 1, "cp": 1}
        if degrees:
            only |= {**degrees, "vpp": 1, "recompute": "none"}
        command = command_of("llama-2-70b", cluster, FRAMEWORK, batch, MLPERF_SEQUENCE, only, {}, max(1, gpus // of_node), gpus)
        if not degrees:
            command = tuple(word for word in command if word != "--all")
        rows.append({**only, "table": "MLPerf, Llama 2 70B", "plan": "config" if named else "log" if degrees else "best",
                     "gpus": gpus, "accelerator": kind, "measured": float(row["step_s_median"]),
                     "name": f"llama2_70b_lora, {gpus} {kind}, {row['round']}, {row['org']}, {only['precision']}, dp {only['dp']}",
                     "command": with_adapters(command, MLPERF_ADAPTERS), "release": f"MLPerf {row['round']}"})
        rows[-1]["memory"] = float(row["max_mem"]) if row["max_mem"] else None
        if row["round"] == "v5.1" and kind != "H200":
            rows[-1]["in_fp4"] = tuple(word.replace("precision=fp8", "precision=nvfp4") for word in rows[-1]["command"])
    return rows


def read_rows(folder):
    return bridge_rows(folder) + mlperf_rows(folder)


def predict(program, rows):
    program.ask([row["command"] for row in rows] + [row["in_fp4"] for row in rows if "in_fp4" in row])
    for row in rows:
        plans = program.plans(row["command"])
        if not plans or (row["plan"] != "best" and len(plans) != 1):
            raise SystemExit(f"{' '.join(row['command'])}: {len(plans)} plans (one)")
        best = plans[0]
        add_error(row, best["step_time_us"])
        row["peak"] = best["peak_reserved_bytes"] / 1e9
        row["divided"] = f"tp {best['tp']}, cp {best['cp']}"
        if row["plan"] == "best":
            row["name"] += f", tp {best['tp']}, pp {best['pp']}, cp {best['cp']}, recompute {best['recompute']}"


def reason(row):
    return "may be in FP4, which the table does not say" if "in_fp4" in row and row["error"] > 0 else "not explained"


def fp4_errors(program, rows):
    """The sizes of the errors of the rows that may be in FP4, were all of them."""
    return [abs(program.plans(row["in_fp4"])[0]["step_time_us"] / 1e6 / row["measured"] - 1) for row in rows if "in_fp4" in row]


def memory_table(rows):
    """The peaks of rows whose log says them."""
    groups = {}
    for row in rows:
        if row.get("memory"):
            groups.setdefault((row["accelerator"], row["divided"]), []).append(row)
    lines = []
    for (accelerator, divided), of in sorted(groups.items()):
        measured, predicted = (statistics.median(row[key] for row in of) for key in ("memory", "peak"))
        lines.append([f"{accelerator}, {divided}", str(len(of)), f"{measured:.1f} GB", f"{predicted:.1f} GB", signed(predicted / measured - 1)])
    return table(["plan", "rows", "measured", "predicted", "error"], lines)


SLICES = [("", "accelerator"), ("", "precision"), ("GPUs", "gpus"),
          ("plan", lambda row: OF_PLAN[row["plan"]]),
          ("", "release")]


def section(program, rows):
    of = {name: [row for row in rows if row["plan"] == name] for name in OF_PLAN}
    in_fp4 = fp4_errors(program, rows)
    tables = sorted({row["table"] for row in rows})
    return f"""## Fine-tuning with low-rank adapters: Llama 2 and 3 70B on 8 to {max(row["gpus"] for row in rows)} GPUs

{count_of(len(rows), 'row')} of MLPerf's and Megatron-Bridge's tables train adapters (LoRA). They are predicted with
`--framework megatron-bridge --lora 16`, at `attention` in MLPerf's reference and at `linear_qkv` in Megatron-Bridge's recipe. No
constant was fitted on them. {len(of['config'])} rows say tp, pp and cp, {len(of['log'])} have as many data-parallel ranks as GPUs, and for
the other {len(of['best'])} the prediction is the best plan that `emplace plan` finds with the number of data-parallel ranks of the log: their
error is that of the plan too. Nothing is recomputed where the degrees are known. MLPerf's rows are predicted in FP8: those of round v5.1
on Blackwell GPUs may be in FP4, and the table does not say which. Were all of these {len(in_fp4)} rows in FP4, their median error would be
{percent(statistics.median(in_fp4))} instead of {percent(statistics.median(abs(row["error"]) for row in rows if "in_fp4" in row))}. MLPerf's rounds
capture the whole step in a CUDA graph, which leaves no waiting for the host; it is predicted, and matters with context parallelism.

{table(["", *ERROR_HEADER], [[name, *error_cells([row for row in rows if row["table"] == name])] for name in tables])}

{slices(rows, SLICES)}

The peak of the fullest GPU, which logs of round v5.0 say, beside what the allocator reserves by the prediction. Runs without
context parallelism would not fit if they kept all that autograd keeps; what they recompute, offload or keep in 8 bits is not in the
table. Rows whose plan is the best that is found may have another one than the run.

{memory_table(rows)}

The worst {WORST}:

{worst(rows, reason)}
"""
