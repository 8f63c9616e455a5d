"""The runs of nanotron in Hugging Face's Ultra-Scale Playbook."""
import math
import statistics
from collections import defaultdict

from plans.errors import WORST, halves, mark_fitted_half, slices, worst
from plans.program import add_error, command_of
from report import GIB, area_under_curve, count_of, percent, ratio, read_csv, signed, spearman, table

DELAY = 0.4       # seconds that a micro-batch takes longer, from which on a pipeline counts as delayed
FULL_MEMORY = 68  # GiB: from here on PyTorch's allocator gives back memory and asks again

KEY = ("dp", "tp", "pp", "zero", "micro_batch", "grad_accumulation")
BATCH = 256


def is_consistent(row):
    """Whether the degrees of a row of the table make its GPUs and its global batch."""
    dp, tp, pp, gpus, micro_batch, steps = (int(row[key]) for key in ("dp", "tp", "pp", "gpus", "mbs", "grad_acc"))
    return dp * tp * pp == gpus and micro_batch * steps * dp == BATCH


def read_rows(folder):
    """Rows of the table, without those whose numbers contradict each other, and how many those are."""
    rows = []
    dropped = 0
    for row in read_csv(folder / "huggingface+ultrascale-playbook" / "runs.csv"):
        number = {key: int(row[key]) for key in ("dp", "tp", "pp", "zero", "mbs", "grad_acc", "nodes", "layers",
                                                 "hidden", "heads", "kv_heads", "ffn", "tied_embeddings", "vocab", "seq")}
        if not is_consistent(row):
            dropped += 1
            continue
        plan = dict(zip(KEY, (number[key] for key in ("dp", "tp", "pp", "zero", "mbs", "grad_acc"))))
        cell = (row["model"], number["nodes"])
        changes = {"layers": number["layers"], "d_model": number["hidden"], "heads": number["heads"],
                   "kv_heads": number["kv_heads"], "head_width": number["hidden"] // number["heads"], "d_ff": number["ffn"],
                   "vocabulary": number["vocab"], "tied": bool(number["tied_embeddings"])}
        question = ("llama-3-8b", "p5.48xlarge", "nanotron", BATCH, number["seq"])
        rows.append({
            **plan, "cell": cell, "model": row["model"], "nodes": number["nodes"], "ran": row["ran"] == "1",
            "setting": (setting := ", ".join(f"{key.replace('_', '-')} {plan[key]}" for key in KEY[:5])),
            "name": f"{row['model']}, {count_of(number['nodes'], 'node')}, {setting}",
            "measured": float(row["step_s"]) if row["ran"] == "1" else None,
            "memory": float(row["gpu_memory_gb"]) if row["ran"] == "1" else None,
            "command": command_of(*question, {}, changes, number["nodes"]),
            "command_of_setting": command_of(*question, {key: plan[key] for key in KEY[:5]}, changes, number["nodes"])})
    mark_fitted_half([row for row in rows if row["ran"]])
    largest = defaultdict(int)
    for row in rows:
        key = (row["cell"], *(row[key] for key in KEY[:4]))
        largest[key] = max(largest[key], row["micro_batch"] if row["ran"] else 0)
    for row in rows:
        row["is_largest"] = row["micro_batch"] == largest[(row["cell"], *(row[key] for key in KEY[:4]))]
    return rows, dropped


def predict(program, rows):
    """Adds what is predicted to rows, where their setting is among the plans."""
    program.ask(row["command"] for row in rows)
    found = {command: {tuple(plan[key] for key in KEY): (place, plan)
                       for place, plan in enumerate(program.plans(command))}
             for command in {row["command"] for row in rows}}
    for row in rows:
        row["refusal"] = None
        row["place"], plan = found[row["command"]].get(tuple(row[key] for key in KEY), (None, None))
        row["plan"] = plan
        row["fits"] = False
        row["reserved"] = math.inf
        if plan is None:
            continue
        row["fits"] = plan["fits"]
        row["reserved"] = math.inf if "refused" in plan else plan["needed_bytes"]
        row["step"] = plan["step_time_us"]
        if row["ran"]:
            add_error(row, plan["step_time_us"])
            row["memory_error"] = plan["peak_reserved_bytes"] / GIB / row["memory"] - 1
    absent = [row for row in rows if row["plan"] is None]
    program.ask(row["command_of_setting"] for row in absent)
    for row in absent:
        row["refusal"] = program.refusal(row["command_of_setting"])


def settings_of(rows):
    """Repeats of a setting become the best of them."""
    settings = {}
    for row in rows:
        key = (row["cell"], *(row[key] for key in KEY))
        known = settings.get(key)
        if known is None or (row["ran"] and (not known["ran"] or row["measured"] < known["measured"])):
            settings[key] = row
    return list(settings.values())


def fit_area(settings):
    """How well the predicted memory tells settings that ran from those that did not."""
    return area_under_curve([row["reserved"] for row in settings if row["ran"]],
                            [row["reserved"] for row in settings if not row["ran"]])


class Cell:
    """One network on one number of nodes."""

    def __init__(self, rows, program):
        self.name = f"{rows[0]['model']}, {count_of(rows[0]['nodes'], 'node')}"
        self.settings = settings_of(rows)
        self.ran = [row for row in self.settings if row["ran"]]
        self.missing = [row for row in self.settings if row["plan"] is None and row["refusal"] is None]
        self.refused = [row for row in self.settings if row["refusal"]]
        self.right = sum(row["fits"] == row["ran"] for row in self.settings)
        self.area = fit_area(self.settings)
        self.timed = [row for row in rows if "error" in row]
        fitting = [row for row in self.settings if row["fits"]]
        self.choice = min(fitting, key=lambda row: row["place"]) if fitting else None
        self.timed_choice = min((row for row in self.ran if row["plan"]), key=lambda row: row["step"], default=None)
        best = next((plan for plan in program.plans(rows[0]["command"]) if plan["fits"]), None)
        first = best and tuple(best[key] for key in KEY)
        self.first = next((row for row in self.settings if first == tuple(row[key] for key in KEY)), None)
        self.first_plan = best
        self.fastest = min((row["measured"] for row in self.ran), default=None)

    def reached(self, row):
        """Measured throughput of a setting relative to the best; 0 if it did not run."""
        return self.fastest / row["measured"] if row is not None and row["ran"] else 0.0

    def random(self):
        return statistics.mean(self.reached(row) for row in self.ran)

    def choice_cells(self):
        def text(row):
            if row is None:
                return "-"
            seconds = f"{row['measured']:.2f} s" if row["ran"] else "did not run"
            return f"{row['setting']}: {seconds}" + (f", predicted {row['step'] / 1e6:.2f} s" if row["plan"] else "")
        return [self.name, text(self.choice), text(min(self.ran, key=lambda row: row["measured"]))]

    def cells(self):
        if self.fastest is None:
            said = "nothing ran; " + ("nothing is said to fit" if self.choice is None else "one is said to fit")
            choice = first = alone = "-"
        else:
            choice, alone = ratio(self.reached(self.choice)), ratio(self.reached(self.timed_choice))
            said = "ran" if self.choice is not None and self.choice["ran"] else "did not run"
            first = ratio(self.reached(self.first)) if self.first is not None else "not in the table"
        order = spearman([row["predicted"] for row in self.timed], [row["measured"] for row in self.timed]) if self.timed else None
        return [self.name, str(len(self.settings)), str(len(self.ran)), choice, said, first, alone, percent(self.right / len(self.settings)),
                ratio(self.area), percent(statistics.median(abs(row["error"]) for row in self.timed)) if self.timed else "-",
                ratio(order),
                signed(statistics.median(row["memory_error"] for row in self.timed)) if self.timed else "-"]


def cells_of(rows, program):
    by_cell = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    order = sorted(by_cell, key=lambda cell: (int(cell[0][:-1]), cell[1]))
    return [Cell(by_cell[key], program) for key in order]


def crosses(row):
    return row["pp"] > 1 and row["tp"] * row["dp"] * row["pp"] > 8 and row["nodes"] > 1


def more_of_micro_batch(row):
    """Seconds that a micro-batch took longer than predicted without the delays that are predicted."""
    return (row["measured"] - row["predicted"] + row["plan"]["time_us"]["other"] / 1e6) / row["grad_accumulation"]


def is_delayed(row):
    return crosses(row) and more_of_micro_batch(row) > DELAY


def reason(row):
    if row["memory"] > FULL_MEMORY:
        return f"{row['memory']:.0f} GiB in use: the allocator returns memory and asks again"
    if is_delayed(row):
        return f"a pipeline over nodes, {more_of_micro_batch(row):.1f} s more for each micro-batch than others"
    if row["error"] < -0.3 and row["pp"] == 1 and row["is_largest"]:
        return "probably memory: no larger micro-batch ran"
    if row["nodes"] == 64 and row["error"] > 0.3:
        return "a job of 512 ranks without the delay that is predicted for it"
    return "not explained"


def delay_table(timed):
    lines = []
    for nodes in sorted({row["nodes"] for row in timed if crosses(row)}):
        rows = [row for row in timed if crosses(row) and row["nodes"] == nodes]
        delays = [[more_of_micro_batch(row) for row in rows if is_delayed(row) and (row["pp"] == 2) == is_two]
                  for is_two in (True, False)]
        lines.append([str(nodes), str(len(rows)), str(sum(is_delayed(row) for row in rows)),
                      str(sum(row["memory"] > FULL_MEMORY for row in rows)),
                      *(f"{statistics.median(values):.2f} s" if values else "-" for values in delays)])
    return table(["nodes", "pipelines over nodes", "delayed", f"over {FULL_MEMORY} GiB", "delay with 2 stages",
                  "with more"], lines)


SLICES = [("model", "model"), ("nodes", "nodes"), ("tp", "tp"), ("pp", "pp"), ("zero", "zero"), ("micro-batch", "micro_batch"),
          ("pipeline over nodes:", lambda row: "yes" if crosses(row) else "no")]


def section(rows, dropped, cells):
    timed = [row for row in rows if "error" in row]
    settings = sum(len(cell.settings) for cell in cells)
    right = sum(cell.right for cell in cells)
    judged = [cell for cell in cells if cell.fastest is not None]
    reached = [cell.reached(cell.choice) for cell in judged]
    firsts = [cell for cell in judged if cell.first is not None]
    area = fit_area([row for cell in cells for row in cell.settings])
    orders = [spearman([row["predicted"] for row in cell.timed], [row["measured"] for row in cell.timed]) for cell in judged]
    memory = [row["memory_error"] for row in timed]
    delayed = [row for row in timed if is_delayed(row)]
    full = [row for row in timed if crosses(row) and row["memory"] > FULL_MEMORY]
    header = ["cell", "settings", "ran", "chosen plan", "it", "first of all plans", "by time alone", "right about running", "AUC",
              "step, median error", "Spearman", "memory, median"]
    fit = ["**all**", str(settings), str(sum(len(cell.ran) for cell in cells)), f"{statistics.mean(reached):.3f}",
           f"{sum(value > 0 for value in reached)} of {len(judged)} ran",
           f"{statistics.mean(cell.reached(cell.first) for cell in firsts):.3f} in {len(firsts)} cells",
           f"{statistics.mean(cell.reached(cell.timed_choice) for cell in judged):.3f}",
           percent(right / settings), ratio(area), percent(statistics.median(abs(row["error"]) for row in timed)),
           f"{statistics.mean(orders):.3f}", signed(statistics.median(memory))]
    summary = {"reached": reached, "right": right / settings, "area": area, "orders": orders, "timed": timed,
               "missing": sum(len(cell.missing) for cell in cells), "refused": [row for cell in cells for row in cell.refused]}
    baselines = [
        ["`emplace plan`", f"{statistics.mean(reached):.2f}", f"{sum(value == 0 for value in reached)} of {len(judged)}",
         f"{statistics.mean(orders):.2f}", f"{area:.3f}", percent(right / settings, 0), signed(statistics.median(memory))],
        ["a random setting that ran (these cells)", f"{statistics.mean(cell.random() for cell in judged):.2f}", "0", "-", "-", "-", "-"],
        ["a random setting that ran", "0.40", "0", "-", "-", "-", "-"],
        ["rule of thumb: least tp x pp that fits by the usual formula, largest micro-batch", "0.37", "13 of 26", "-", "0.936",
         "87 to 92 %", "-35 %"],
        ["three-line cost model", "0.37", "-", "0.51", "-", "-", "-"],
    ]
    text = f"""## Nanotron on 8 to 512 H100

The table of the Ultra-Scale Playbook (Hugging Face 2025) has {len(rows) + dropped:,} rows here. {dropped} whose degrees
contradict each other are left out; of the others, {sum(row['ran'] for row in rows):,} ran. A cell is one network on so many
nodes: one `emplace plan llama-3-8b --cluster p5.48xlarge --framework nanotron --all --json` with the network's sizes as
`--set`. Repeats of a setting count as the best of them. *Chosen plan* is the setting that we rank first among those of the
table that we say fit; its figure is the measured throughput relative to the best of the cell, 0 if it did not run. *First of
all plans* is that of the plan which `emplace plan` prints first. A row that did not run ran out of memory or failed otherwise;
the table does not say which. *By time alone* is the setting that we rank first among those that ran. `emplace plan` refuses
{len(summary['refused'])} settings as not legal, {sum(row['ran'] for row in summary['refused'])} of which ran. {summary['missing']} of
the others are not among its plans. *Memory* compares what the fullest rank reserves with the table's figure, which is of rank 0
([more of it](truth_memory.md)).

{table(header, [cell.cells() for cell in cells] + [fit])}

{table(["cell", "chosen plan", "fastest plan that ran"], [cell.choice_cells() for cell in judged])}

{table(["who chooses", "best throughput reached", "chosen plan failed", "Spearman in a cell", "AUC", "right about running",
        "memory, median"], baselines)}

The last three rows of this table are computed on all 26 cells of the whole table, a quarter of which is kept back; the others
are computed here.

Errors of the step time, over all {len(timed):,} rows that ran and are among our plans, by half and by slice:

{halves(timed)}

{slices(timed, SLICES)}

The worst {WORST}:

{worst(timed, reason)}

The worst {WORST} of those that are not delayed:

{worst([row for row in timed if not is_delayed(row)], reason)}

{len(delayed)} of {sum(crosses(row) for row in timed)} runs of pipelines over nodes took at least {DELAY} s longer for each
micro-batch than predicted (without the delays that are predicted). The delay hardly depends on the
network and the micro-batch; with 32 tensor ranks it is shorter or absent. On 64 nodes nearly all have it; on fewer nodes we know no rule that tells which settings
have it, but that {sum(is_delayed(row) for row in full)} of the {len(full)} which used more than {FULL_MEMORY} GiB do: there PyTorch's allocator returns memory to the
device and asks for it again.

{delay_table(timed)}
"""
    return text, summary
