#!/usr/bin/env python3
"""Compares the steps that `emplace plan` predicts with measured ones, and writes docs/results/plan.md.

Usage: tests/truth/plan.py --emplace PROGRAM --data FOLDER [--page FILE | --check FILE | --sample FILE]

FOLDER is the reference data (EMPLACE_REFERENCE_DATA). --page writes the page; --check compares it with what comes out,
and fails where they differ. --sample predicts a part of each table again, and fails where an error is larger than the
page says. Exit status: 0 done, 1 the page differs or an error grew, 77 the data is not there.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import re
import statistics
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

GIB = 1 << 30
WIDTH = 130          # of the page
WORST = 10           # rows of each table that are listed
SLACK = 0.1          # percentage points by which a figure of the sample may grow
DELAY = 0.4          # seconds that a micro-batch takes longer, from which on a pipeline counts as delayed
FULL_MEMORY = 68     # GiB: from here on PyTorch's allocator gives back memory and asks again


# --- statistics --------------------------------------------------------------------------------------------------------


def quantile(values, part):
    """Linear between neighbours."""
    values = sorted(values)
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def ranks(values):
    """From 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            result[i] = (start + end + 1) / 2
        start = end
    return result


def spearman(left, right):
    left, right = ranks(left), ranks(right)
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return statistics.correlation(left, right)


def area_under_curve(scores_of_true, scores_of_false):
    """The chance that a true one has the smaller score."""
    if not scores_of_true or not scores_of_false:
        return None
    order = ranks(scores_of_true + scores_of_false)
    larger = sum(order[:len(scores_of_true)]) - len(scores_of_true) * (len(scores_of_true) + 1) / 2
    return 1 - larger / (len(scores_of_true) * len(scores_of_false))


# --- text --------------------------------------------------------------------------------------------------------------


def percent(value, digits=1):
    return f"{100 * value:.{digits}f} %"


def signed(value):
    return f"{100 * value:+.1f} %"


def ratio(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def table(header, rows):
    def is_number(i):
        return all(re.fullmatch(r"[+-]?[0-9][0-9.,]*( %| s)?|-", row[i]) for row in rows)
    kinds = " | ".join("---:" if is_number(i) else "---" for i in range(len(header)))
    return "\n".join(["| " + " | ".join(header) + " |", f"| {kinds} |", *("| " + " | ".join(row) + " |" for row in rows)])


def count_of(number, what):
    return f"{number} {what}" + ("" if number == 1 else "s")


def wrapped(page):
    """The page with lines of its paragraphs filled."""
    parts = page.split("\n\n")
    is_text = re.compile(r"[^|#`<]|`[^`]")
    return "\n\n".join(textwrap.fill(" ".join(part.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
                       if is_text.match(part) else part for part in parts).rstrip() + "\n"


ERROR_HEADER = ["rows", "mean", "median", "95th percentile", "largest", "measured/predicted", "Spearman"]


def error_cells(rows):
    """What is said of the predicted step times of rows."""
    sizes = [abs(row["error"]) for row in rows]
    order = spearman([row["predicted"] for row in rows], [row["measured"] for row in rows]) if len(rows) > 3 else None
    return [str(len(rows)), percent(statistics.mean(sizes)), percent(statistics.median(sizes)), percent(quantile(sizes, 0.95)),
            percent(max(sizes)), ratio(statistics.median(1 / (1 + row["error"]) for row in rows), 2), ratio(order)]


def slices(rows, fields):
    """A table of the errors by each value of the fields, each a name before it and a key or a function of rows."""
    lines = []
    for name, key in fields:
        values = [key(row) if callable(key) else row[key] for row in rows]
        for value in sorted(set(values)):
            chosen = [row for row, own in zip(rows, values) if own == value]
            lines.append([f"{name} {value}".strip(), *error_cells(chosen)])
    lines.append(["**all**", *error_cells(rows)])
    return table(["", *ERROR_HEADER], lines)


def worst(rows, reason_of):
    chosen = sorted((row for row in rows if "error" in row), key=lambda row: -abs(math.log1p(row["error"])))[:WORST]
    return table(["row", "measured", "predicted", "error", "cause"],
                 [[row["name"], f"{row['measured']:.3f} s", f"{row['predicted']:.3f} s", signed(row["error"]),
                   reason_of(row)] for row in chosen])


# --- the program -------------------------------------------------------------------------------------------------------


def command_of(network, cluster, framework, batch, sequence, only, changes=None, nodes=1, gpus=None):
    """Arguments of `emplace plan`, which name a prediction."""
    arguments = ["plan", network, "--cluster", cluster, "--nodes", str(nodes), "--framework", framework, "--global-batch",
                 str(batch), "--sequence", str(sequence), "--all", "--json", "--threads", "1"]
    if gpus:
        arguments += ["--gpus", str(gpus)]
    if framework == "megatron":
        only = {**only, "stages": "even", "rank_order": "tp-cp-dp-pp"}  # as it runs without further arguments
    if only:
        arguments += ["--only", ",".join(f"{key}={value}" for key, value in only.items())]
    for key, value in (changes or {}).items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return tuple(arguments)


class Program:
    """Runs `emplace plan`, each question once."""

    def __init__(self, path):
        self.path = path
        self.answers = {}

    def run(self, arguments):
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=False)
        if done.stdout.strip():
            return json.loads(done.stdout)["plans"]
        refused = re.search(r"no plan is legal on \d+ accelerators: (.*)", done.stderr)
        if not refused:
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
        return refused[1]

    def ask(self, commands):
        new = sorted(set(commands) - set(self.answers))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.answers.update(zip(new, pool.map(self.run, new)))

    def plans(self, command):
        answer = self.answers[command]
        return [] if isinstance(answer, str) else answer

    def refusal(self, command):
        """Why there is no plan; none if there is one."""
        answer = self.answers[command]
        return answer if isinstance(answer, str) else None


def add_error(row, micros, scale=1.0):
    row["predicted"] = micros / 1e6 * scale
    row["error"] = row["predicted"] / row["measured"] - 1


def add_errors_of_single_plans(program, rows):
    """The prediction of rows whose command leaves one plan."""
    program.ask(row["command"] for row in rows)
    for row in rows:
        plans = program.plans(row["command"])
        if len(plans) != 1:
            raise SystemExit(f"{' '.join(row['command'])}: {len(plans)} plans (one)")
        add_error(row, plans[0]["step_time_us"], row.get("scale", 1.0))
        row["peak"] = plans[0]["peak_bytes"]
        row["parts"] = plans[0]["time_us"]


def read_csv(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def mark_fitted_half(rows):
    """The first, third, fifth ... were fitted on."""
    for number, row in enumerate(rows, 1):
        row["fitted"] = number % 2 == 1


def halves(rows):
    return table(["", *ERROR_HEADER], [["fitted half", *error_cells([row for row in rows if row["fitted"]])],
                                       ["**held out**", *error_cells([row for row in rows if not row["fitted"]])]])


# --- nanotron ----------------------------------------------------------------------------------------------------------

NANOTRON_KEY = ("dp", "tp", "pp", "zero", "micro_batch", "grad_accumulation")
NANOTRON_BATCH = 256


def nanotron_rows(folder):
    """Rows of the table, without those whose numbers contradict each other, and how many those are."""
    rows = []
    dropped = 0
    for row in read_csv(folder / "huggingface+ultrascale-playbook" / "runs.csv"):
        number = {key: int(row[key]) for key in ("dp", "tp", "pp", "zero", "mbs", "grad_acc", "gpus", "nodes", "layers",
                                                 "hidden", "heads", "kv_heads", "ffn", "tied_embeddings", "vocab", "seq")}
        if number["dp"] * number["tp"] * number["pp"] != number["gpus"] or \
                number["mbs"] * number["grad_acc"] * number["dp"] != NANOTRON_BATCH:
            dropped += 1
            continue
        plan = dict(zip(NANOTRON_KEY, (number[key] for key in ("dp", "tp", "pp", "zero", "mbs", "grad_acc"))))
        cell = (row["model"], number["nodes"])
        changes = {"layers": number["layers"], "d_model": number["hidden"], "heads": number["heads"],
                   "kv_heads": number["kv_heads"], "head_width": number["hidden"] // number["heads"], "d_ff": number["ffn"],
                   "vocabulary": number["vocab"], "tied": bool(number["tied_embeddings"])}
        question = ("llama-3-8b", "p5.48xlarge", "nanotron", NANOTRON_BATCH, number["seq"])
        rows.append({
            **plan, "cell": cell, "model": row["model"], "nodes": number["nodes"], "ran": row["ran"] == "1",
            "setting": (setting := ", ".join(f"{key.replace('_', '-')} {plan[key]}" for key in NANOTRON_KEY[:5])),
            "name": f"{row['model']}, {count_of(number['nodes'], 'node')}, {setting}",
            "measured": float(row["step_s"]) if row["ran"] == "1" else None,
            "memory": float(row["gpu_memory_gb"]) if row["ran"] == "1" else None,
            "command": command_of(*question, {}, changes, number["nodes"]),
            "command_of_setting": command_of(*question, {key: plan[key] for key in NANOTRON_KEY[:5]}, changes, number["nodes"])})
    mark_fitted_half([row for row in rows if row["ran"]])
    largest = defaultdict(int)
    for row in rows:
        key = (row["cell"], *(row[key] for key in NANOTRON_KEY[:4]))
        largest[key] = max(largest[key], row["micro_batch"] if row["ran"] else 0)
    for row in rows:
        row["is_largest"] = row["micro_batch"] == largest[(row["cell"], *(row[key] for key in NANOTRON_KEY[:4]))]
    return rows, dropped


def predict_nanotron(program, rows):
    """Adds what is predicted to rows, where their setting is among the plans."""
    program.ask(row["command"] for row in rows)
    found = {command: {tuple(plan[key] for key in NANOTRON_KEY): (place, plan)
                       for place, plan in enumerate(program.plans(command))}
             for command in {row["command"] for row in rows}}
    for row in rows:
        row["refusal"] = None
        row["place"], plan = found[row["command"]].get(tuple(row[key] for key in NANOTRON_KEY), (None, None))
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
        key = (row["cell"], *(row[key] for key in NANOTRON_KEY))
        known = settings.get(key)
        if known is None or (row["ran"] and (not known["ran"] or row["measured"] < known["measured"])):
            settings[key] = row
    return list(settings.values())


def fit_area(settings):
    """How well the predicted memory tells settings that ran from those that did not."""
    return area_under_curve([row["reserved"] for row in settings if row["ran"]],
                            [row["reserved"] for row in settings if not row["ran"]])


class Cell:
    """One network on so many nodes."""

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
        first = best and tuple(best[key] for key in NANOTRON_KEY)
        self.first = next((row for row in self.settings if first == tuple(row[key] for key in NANOTRON_KEY)), None)
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


def nanotron_reason(row):
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


NANOTRON_SLICES = [("model", "model"), ("nodes", "nodes"), ("tp", "tp"), ("pp", "pp"), ("zero", "zero"), ("micro-batch",
"micro_batch"),
                   ("pipeline over nodes:", lambda row: "yes" if crosses(row) else "no")]


def nanotron_section(rows, dropped, cells):
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

{slices(timed, NANOTRON_SLICES)}

The worst {WORST}:

{worst(timed, nanotron_reason)}

The worst {WORST} of those that are not delayed:

{worst([row for row in timed if not is_delayed(row)], nanotron_reason)}

{len(delayed)} of {sum(crosses(row) for row in timed)} runs of pipelines over nodes took at least {DELAY} s longer for each
micro-batch than predicted (without the delays that are predicted). The delay hardly depends on the
network and the micro-batch; with 32 tensor ranks it is shorter or absent. On 64 nodes nearly all have it; on fewer nodes we know no rule that tells which settings
have it, but that {sum(is_delayed(row) for row in full)} of the {len(full)} which used more than {FULL_MEMORY} GiB do: there PyTorch's allocator returns memory to the
device and asks for it again.

{delay_table(timed)}
"""
    return text, summary


# --- vTrain ------------------------------------------------------------------------------------------------------------


def vtrain_rows(folder):
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


def predict_vtrain(program, rows):
    program.ask(row["command"] for row in rows)
    fields = ("dp", "tp", "pp", "micro_batch")
    found = {command: {tuple(plan[key] for key in fields): plan for plan in program.plans(command)}
             for command in {row["command"] for row in rows}}
    for row in rows:
        add_error(row, found[row["command"]][tuple(row[key] for key in fields)]["step_time_us"])


def vtrain_reason(row):
    return "8 tensor ranks of a narrow network" if row["tp"] == 8 else "not explained"


VTRAIN_SLICES = [("GPUs", "gpus"), ("tp", "tp"), ("pp", "pp"), ("dp", "dp"), ("micro-batch", "micro_batch"), ("width", "hidden")]


def vtrain_section(rows):
    return f"""## vTrain's table: Megatron-LM on 2 to 8 A100

All {len(rows):,} measured iterations of GPTs (Bang et al. 2024), with `--cluster dgx-a100 --framework megatron` and
`attention=unfused`, since its runs keep the scores of attention. vTrain states 8.37 % in the mean for its own predictions, from kernels
profiled on that machine.

{halves(rows)}

{slices(rows, VTRAIN_SLICES)}

The worst {WORST}:

{worst(rows, vtrain_reason)}
"""


# --- llm-foundry -------------------------------------------------------------------------------------------------------

# Layers, width and heads by name: scripts/train/yamls/pretrain of llm-foundry.
MPT = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
       "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (64, 8192, 64)}


def foundry_rows(folder):
    """Rows in half precision, and how many are in FP8."""
    rows = []
    left_out = 0
    for row in read_csv(folder / "mosaicml+llm-foundry" / "train.csv"):
        if "fp8" in row["Precision"]:
            left_out += 1
            continue
        layers, hidden, heads = MPT[row["Model"]]
        gpus, micro_batch, accumulation = (int(row[key]) for key in ("# GPUs", "MicroBatchSize", "GradAccum"))
        sequence = int(row["SeqLen (T)"])
        batch = gpus * micro_batch * accumulation
        only = {"dp": gpus, "tp": 1, "pp": 1, "cp": 1, "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}[row["Sharding Strategy"]],
                "micro_batch": micro_batch, "recompute": "full" if row["Activation Checkpointing"] == "True" else "none"}
        changes = {"layers": layers, "d_model": hidden, "heads": heads, "kv_heads": heads, "head_width": hidden // heads,
                   "d_ff": 4 * hidden, "vocabulary": 50368, "max_positions": sequence}
        rows.append({
            "model": row["Model"], "gpus": gpus, "gpu": row["GPU"], "sequence": sequence, **only, "precision": row["Precision"],
            "measured": float(row["step_s"]), "scale": int(row["GlobalBatchSize"]) / batch,
            "name": f"{row['Model']}, {gpus} {row['GPU'].upper().replace('_', ' ')}, {sequence} tokens, micro-batch {micro_batch}, "
                    f"zero {only['zero']}, recompute {only['recompute']}",
            "command": command_of("mpt-7b", "dgx-h100" if row["GPU"].startswith("h100") else "dgx-a100", "fsdp", batch, sequence,
                                  only, changes, max(1, gpus // 8))})
    mark_fitted_half(rows)
    return rows, left_out


def foundry_reason(row):
    if row["gpu"] == "h100_80gb" and row["sequence"] >= 8192:
        return "long sequences on H100: attention with ALiBi is slower there than in our curves"
    return "not explained"


FOUNDRY_SLICES = [("GPU", "gpu"), ("zero", "zero"), ("recompute", "recompute"), ("precision", "precision"), ("GPUs", "gpus"),
                  ("sequence", "sequence"), ("layers x width", lambda row: "{0} x {1}".format(*MPT[row["model"]]))]


def foundry_section(rows, left_out):
    return f"""## llm-foundry: FSDP on 8 to 512 A100 and H100

The {len(rows)} rows of MPT in half precision, with `--framework fsdp`; {left_out} in FP8 are not predicted. Micro-batches of
the table need not divide its batch: we predict its micro-batch and number of them, and scale by the batch that it names.

{halves(rows)}

{slices(rows, FOUNDRY_SLICES)}

Those on H100 by the length of sequences:

{slices([row for row in rows if row["gpu"] == "h100_80gb"], [("sequence", "sequence")])}

The worst {WORST}:

{worst(rows, foundry_reason)}
"""


# --- SimuMax -----------------------------------------------------------------------------------------------------------

# SimuMax cut DeepSeek V3 to a dense layer and three with experts.
DEEPSEEK_V3_EXPERTS = {"count": 256, "top_k": 8, "d_expert": 2048, "shared": 1, "d_shared": 2048, "dense_first_layers": 1,
                       "balance_bias": True}
SIMUMAX_NETWORKS = {"llama3_70b": "llama-3-70b", "llama3_405b": "llama-3.1-405b", "deepseekv2": "deepseek-v2",
                    "deepseekv3": "deepseek-v3"}


def simumax_rows(folder):
    with open(folder / "MooreThreads+SimuMax" / "b200_release_v1.2_summary.json", encoding="utf-8") as file:
        cases = json.load(file)["rows"]
    rows = []
    for case in cases:
        name = case["case"]

        def number(key, otherwise):
            found = re.search(rf"_{key}(\d+)", name)
            return int(found[1]) if found else otherwise

        network = next(value for key, value in SIMUMAX_NETWORKS.items() if name.startswith(key))
        degree = {key: number(key, 1) for key in ("tp", "pp", "cp", "dp")}
        only = {**degree, "vpp": 1, "micro_batch": 1, "zero": 1, "recompute": "none"}
        changes = {"layers": number("l", 0)}
        if network.startswith("deepseek"):
            only.update(ep=number("ep", 1), etp=1)
            changes["mtp_layers"] = 0
        if network == "deepseek-v3":
            changes["experts"] = json.dumps(DEEPSEEK_V3_EXPERTS)
        batches, sequence = number("mbc", 4), number("seq", 4096)
        rows.append({**degree, "model": network, "batches": batches, "sequence": sequence, "measured": case["real_ms"] / 1e3,
                     "measured_peak": max(rank["max_allocated_mb"] for rank in case["peak_memory_by_rank_mb"].values()) * (1 << 20),
                     "theirs": case["rel_err_pct"] / 100, "name": name,
                     "command": command_of(network, "dgx-b200", "megatron", batches * degree["dp"], sequence, only, changes)})
    return rows


def simumax_reason(row):
    if row["tp"] == 8:
        return "8 tensor ranks"
    return "a long sequence" if row["sequence"] > 4096 else "not explained"


SIMUMAX_SLICES = [("", "model"), ("tp", "tp"), ("pp", "pp"), ("cp", "cp"), ("micro-batches", "batches"), ("sequence", "sequence")]


def simumax_section(rows):
    theirs = [abs(row["theirs"]) for row in rows]
    peaks = [abs(row["peak"] / row["measured_peak"] - 1) for row in rows]
    return f"""## SimuMax's runs: Megatron-LM on 8 B200

The {len(rows)} runs that SimuMax's authors published, with `--cluster dgx-b200 --framework megatron`. The share of its rate
that a B200 sustains in a long step was fitted on the cases of Llama 3 70B; the others are held out. SimuMax's own predictions
of these rows, from ops that it measured on the same machine, are wrong by {percent(statistics.mean(theirs))} in the mean,
{percent(statistics.median(theirs))} in the median and {percent(max(theirs))} at most. The peaks that `emplace plan` gives are
wrong by {percent(statistics.median(peaks))} in the median and {percent(max(peaks))} at most.

{slices(rows, SIMUMAX_SLICES)}

The worst {WORST}:

{worst(rows, simumax_reason)}
"""


# --- Megatron-Bridge ---------------------------------------------------------------------------------------------------

BRIDGE_NETWORKS = {"GPT OSS 120B": "gpt-oss-120b", "Qwen3_235B_a22B": "qwen3-235b-a22b", "Qwen3_30B_a3B": "qwen3-30b-a3b",
                   "LLAMA3_8B": "llama-3-8b", "LLAMA3_70B": "llama-3-70b", "LLAMA3.1_405B": "llama-3.1-405b",
                   "DeepSeekV3 (w/o MTP)": "deepseek-v3"}
BRIDGE_CLUSTERS = {"DGX-H100": ("dgx-h100", 8), "DGX-B200": ("dgx-b200", 8), "DGX-B300": ("dgx-b200", 8),
                   "DGX-GB200": ("gb200-nvl72", 64), "DGX-GB300": ("gb200-nvl72", 64)}


def bridge_rows(folder):
    """Rows in BF16, and how many are in another or in no stated precision."""
    rows = []
    left_out = Counter()
    for row in read_csv(folder / "NVIDIA-NeMo+Megatron-Bridge" / "train.csv"):
        if row["Precision"] != "BF16":
            left_out["not stated" if row["Precision"] in ("", "?") else "FP8 or FP4"] += 1
            continue

        def number(key):
            return 1 if row[key] in ("", "n/a") else int(row[key])

        network = BRIDGE_NETWORKS[row["model"]]
        cluster, of_node = BRIDGE_CLUSTERS[row["System"]]
        gpus, degree = number("#-GPUs"), {"tp": number("TP"), "pp": number("PP"), "cp": number("CP"), "ep": number("EP")}
        only = {"dp": gpus // (degree["tp"] * degree["pp"] * degree["cp"]), **degree, "etp": 1,
                "vpp": number("VP") if degree["pp"] > 1 else 1, "micro_batch": number("MBS"), "zero": 1, "recompute": "none"}
        rows.append({**only, "model": row["model"], "system": row["System"], "gpus": gpus, "measured": float(row["step_s"]),
                     "release": row["release"].split()[0],
                     "name": f"{row['model']}, {gpus} {row['System'][4:]}, release {row['release'].split()[0]}, tp {degree['tp']}, "
                             f"pp {degree['pp']}, vpp {only['vpp']}, ep {degree['ep']}, micro-batch {only['micro_batch']}",
                     "command": command_of(network, cluster, "megatron", int(row["GBS"]), int(row["Sequence Length"]), only,
                                           {"mtp_layers": 0} if network == "deepseek-v3" else {}, max(1, gpus // of_node), gpus)})
    return rows, left_out


def bridge_reason(row):
    if row["system"] in ("DGX-B300", "DGX-GB300"):
        return f"a {row['system'][4:]}, predicted as a {row['system'][4:].replace('300', '200')}"
    if row["release"] == "25.11":
        return "an older release"
    return "not explained"


BRIDGE_SLICES = [("", "model"), ("", "system"), ("pp", "pp"), ("ep", "ep")]


def bridge_section(rows, left_out):
    return f"""## Megatron-Bridge: NVIDIA's own plans of 2026's networks

NVIDIA publishes throughputs with the whole setting. {len(rows)} rows are in BF16; {left_out['FP8 or FP4']} in FP8 or FP4 and
{left_out['not stated']} whose precision the table does not state are not predicted. Nothing is fitted on them. What a row
recomputes or offloads is not in the table: none is assumed. B300 is predicted as B200 and GB300 as GB200, whose sustained share
of their rates is a guess between H100's and B200's. One setting in several releases is one row each: software became faster.

{slices(rows, BRIDGE_SLICES)}

The worst {WORST}:

{worst(rows, bridge_reason)}
"""


# --- torchtitan --------------------------------------------------------------------------------------------------------


def torchtitan_rows(folder):
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


def torchtitan_section(rows, left_out):
    return f"""## torchtitan: FSDP and tensor parallelism on 8 to 256 H100

torchtitan's published throughputs in BF16, with `--framework torchtitan`; {left_out} in FP8 are not predicted. Nothing is
fitted on them. The H100s of these tables have HBM2e with 2.4 TB/s and are limited to 500 W, which `dgx-h100` is not. Where the
table says that activations are recomputed selectively, which `emplace plan` does not do, none are recomputed in the prediction.

{table(["", *ERROR_HEADER], [["**all**", *error_cells(rows)]])}

{worst(rows, lambda row: "selective recomputation, 500 W" if row["recompute"] == "none" else "500 W")}
"""


# --- Korthikanti et al. ------------------------------------------------------------------------------------------------

# Name, layers, width, heads, pp, vpp, global batch, micro-batch, and seconds with full recomputation and with selective
# recomputation and sequence parallelism. Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
# Transformer Models", tables 3 and 5. All have 8 tensor ranks, one replica, 2,048 tokens and a vocabulary of 51,200.
KORTHIKANTI = [("22B", 48, 6144, 64, 1, 1, 4, 4, 1.42, 1.10), ("175B", 96, 12288, 96, 8, 3, 64, 1, 18.13, 13.75),
               ("530B", 105, 20480, 128, 35, 3, 280, 1, 49.05, 37.83), ("1T", 128, 25600, 160, 64, 1, 512, 1, 94.42, 71.49)]


def korthikanti_rows():
    rows = []
    for name, layers, width, heads, pp, vpp, batch, micro_batch, full, selective in KORTHIKANTI:
        changes = {"layers": layers, "d_model": width, "heads": heads, "kv_heads": heads, "head_width": width // heads,
                   "d_ff": 4 * width, "vocabulary": 51200}
        for recompute, measured in (("full", full), ("none", selective)):
            only = {"dp": 1, "tp": 8, "pp": pp, "vpp": vpp, "cp": 1, "micro_batch": micro_batch, "zero": 0, "recompute": recompute,
                    "sequence_parallel": "false" if recompute == "full" else "true"}
            kind = "full" if recompute == "full" else "selective, sequence parallel"
            rows.append({"kind": kind, "measured": measured, "name": f"{name}, {8 * pp} A100, recomputation {kind}",
                         "command": command_of("gpt-3-175b", "dgx-a100", "megatron", batch, 2048, only, changes, pp)})
    return rows


def korthikanti_section(rows):
    return f"""## Megatron-LM's published iterations: 22B to 1T on 8 to 512 A100

Korthikanti et al. 2022, table 5: 8 tensor ranks, one replica. Nothing is fitted on them. Selective recomputation runs unfused
attention again in the backward pass; `emplace plan` has fused attention and recomputes nothing there, which does nearly the
same. Calculon states 3.65 % in the mean on these rows, on which it was calibrated.

{slices(rows, [("recomputation", "kind")])}

{table(["run", "measured", "predicted", "error"],
       [[row["name"], f"{row['measured']:.2f} s", f"{row['predicted']:.2f} s", signed(row["error"])] for row in rows])}
"""


# --- the page ----------------------------------------------------------------------------------------------------------


class Truth:
    """Rows of every table."""

    def __init__(self, folder):
        self.nanotron, self.nanotron_dropped = nanotron_rows(folder)
        self.vtrain = vtrain_rows(folder)
        self.foundry, self.foundry_left_out = foundry_rows(folder)
        self.simumax = simumax_rows(folder)
        self.bridge, self.bridge_left_out = bridge_rows(folder)
        self.torchtitan, self.torchtitan_left_out = torchtitan_rows(folder)
        self.korthikanti = korthikanti_rows()

    def keep_sample(self):
        """Small cells, and every so many of the other rows."""
        self.nanotron = [row for row in self.nanotron if row["nodes"] <= 4]
        commands = sorted({row["command"] for row in self.vtrain})[::8]
        self.vtrain = [row for row in self.vtrain if row["command"] in commands]
        self.foundry = [row for row in self.foundry if row["gpus"] <= 64][::5]
        self.simumax = self.simumax[::3]
        self.bridge = self.bridge[::4]

    def predict(self, program):
        singles = self.foundry + self.simumax + self.bridge + self.torchtitan + self.korthikanti
        program.ask(row["command"] for row in self.nanotron + self.vtrain + singles)
        predict_nanotron(program, self.nanotron)
        predict_vtrain(program, self.vtrain)
        add_errors_of_single_plans(program, singles)

    def figures(self, program):
        """What --sample compares: a name, and a percentage that is to be small."""
        cells = cells_of(self.nanotron, program)
        judged = [cell for cell in cells if cell.fastest is not None]
        timed = [row for row in self.nanotron if "error" in row]

        def median(rows):
            return 100 * statistics.median(abs(row["error"]) for row in rows)

        return {"nanotron: throughput lost by the chosen plans": 100 * (1 - statistics.mean(cell.reached(cell.choice)
                                                                                             for cell in judged)),
                "nanotron: wrong about running": 100 * (1 - sum(cell.right for cell in cells)
                                                                       / sum(len(cell.settings) for cell in cells)),
                "nanotron: settings that are not among the plans": 100 * sum(len(cell.missing) for cell in cells)
                                                                   / sum(len(cell.settings) for cell in cells),
                "nanotron: step time, median": median(timed),
                "nanotron: memory, median": 100 * statistics.median(abs(row["memory_error"]) for row in timed),
                "vTrain: step time, median": median(self.vtrain), "llm-foundry: step time, median": median(self.foundry),
                "SimuMax: step time, median": median(self.simumax), "Megatron-Bridge: step time, median": median(self.bridge),
                "torchtitan: step time, median": median(self.torchtitan),
                "Korthikanti et al.: step time, median": median(self.korthikanti)}


def write_page(truth, program, sampled):
    cells = cells_of(truth.nanotron, program)
    nanotron, summary = nanotron_section(truth.nanotron, truth.nanotron_dropped, cells)
    held_out = [row for row in summary["timed"] if not row["fitted"]]
    vtrain_held_out = [row for row in truth.vtrain if not row["fitted"]]
    foundry_held_out = [row for row in truth.foundry if not row["fitted"]]
    simumax_held_out = [row for row in truth.simumax if row["model"] != "llama-3-70b"]

    def size(rows, of=statistics.median):
        return percent(of([abs(row["error"]) for row in rows]))

    def of_both(rows, held_out):
        return [str(len(rows)), size(rows), size(held_out)]

    peers = [
        ["Nanotron, 8 to 512 H100", *of_both(summary["timed"], held_out), "-"],
        ["vTrain, 2 to 8 A100", *of_both(truth.vtrain, vtrain_held_out),
         f"vTrain 8.37 % in the mean, from profiled kernels; ours is {size(truth.vtrain, statistics.mean)} in the mean"],
        ["llm-foundry, 8 to 512 A100 and H100", *of_both(truth.foundry, foundry_held_out), "-"],
        ["SimuMax, 8 B200", *of_both(truth.simumax, simumax_held_out),
         f"SimuMax {percent(statistics.median(abs(row['theirs']) for row in truth.simumax))}, from ops of that machine"],
        ["Megatron-Bridge, 64 and 256 H100 to GB300", *of_both(truth.bridge, truth.bridge), "-"],
        ["torchtitan, 8 to 256 H100", *of_both(truth.torchtitan, truth.torchtitan), "-"],
        ["Korthikanti et al., 8 to 512 A100", *of_both(truth.korthikanti, truth.korthikanti),
         f"Calculon 3.65 % in the mean, calibrated there; ours is {size(truth.korthikanti, statistics.mean)} in the mean"],
    ]
    judged = [cell for cell in cells if cell.fastest is not None]
    return f"""# Predicted and measured plans

<!-- Generated by tests/truth/plan.py: do not edit. -->

**Does `emplace plan` choose a plan that runs and is fast, and how close are its step times?** In {len(judged)} cells of a table
of Nanotron's runs on 8 to 512 H100 the plan that it chooses reaches {statistics.mean(summary['reached']):.2f} of the best
measured throughput in the mean, {min(summary['reached']):.2f} at least, and runs in
{sum(value > 0 for value in summary['reached'])}. It is right about whether a setting runs for {percent(summary['right'])} of
the settings. Its step times there are wrong by {size(held_out)} in the median on runs that nothing was fitted on, and
Spearman's rank correlation in a cell is {statistics.mean(summary['orders']):.3f} in the mean.

Median errors of the step time:

{table(["table", "rows", "median error", "held out", "peers"], peers)}

All runs are other people's measurements; we have run none of them. Errors are over all rows of a table that ran and are in half
precision, the failures and the outliers too. An error is predicted / measured - 1, and its mean, median, 95th percentile and
largest are of its size; *measured/predicted* is the median of that ratio. Charon states 5.35 %, without code or data.

## What was fitted

| constants | rows |
|---|---|
| of `nanotron` | every other row of the Playbook's table that ran and is consistent, the first included |
| of `nanotron`'s memory, which decides what fits | every other setting of the same table ([which numbers](truth_memory.md)) |
| of `megatron`: host time of a layer and the bytes of elementwise ops | every other row of vTrain's table, the first included, with unfused attention |
| of `fsdp`, which `torchtitan` has too | every other row of llm-foundry's table in half precision, the first included |
| the shares of their rates that an A100 and an H100 sustain | with the constants of `megatron` and of `nanotron`, on the same rows |
| that of a B200 | the rows of SimuMax's table with Llama 3 70B |
| that of a GB200 | none: a guess between those of an H100 and of a B200 |

Rates of kernels and collectives come from measured curves of single ops ([how close they are](truth.md)), and peaks of memory
from a model of the allocator ([how close it is](truth_memory.md)). No constant is fitted to a network, a plan or a cell.

*Held out* is the half that no constant was fitted on. What the model has constants for was found with all rows of these tables in view,
so rows that are not here, a part of every table, are a harder test.

{nanotron}
{vtrain_section(truth.vtrain)}
{foundry_section(truth.foundry, truth.foundry_left_out)}
{simumax_section(truth.simumax)}
{bridge_section(truth.bridge, truth.bridge_left_out)}
{torchtitan_section(truth.torchtitan, truth.torchtitan_left_out)}
{korthikanti_section(truth.korthikanti)}
## How to repeat it

```
tests/truth/plan.py --emplace PROGRAM --data FOLDER --page docs/results/plan.md
```

`ctest -R plan_truth` predicts a part of each table again, and fails where one of these figures is larger:

{table(["what", "percent"], [[name, f"{value:.2f}"] for name, value in sampled.items()])}
"""


def grown(page, sampled):
    """Figures of the sample that are larger than those of the page."""
    known = dict(re.findall(r"^\| ([^|]+) \| (-?[0-9.]+) \|$", page, re.MULTILINE))
    for name, value in sampled.items():
        if name not in known:
            yield f"{name}: {value:.2f} % (the page has no such figure)"
        elif value > float(known[name]) + SLACK:
            yield f"{name}: {value:.2f} % (the page says {known[name]} %)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emplace", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--sample", type=Path)
    options = parser.parse_args()
    if not (options.data / "huggingface+ultrascale-playbook" / "runs.csv").exists():
        print(f"{options.data}: has no huggingface+ultrascale-playbook/runs.csv", file=sys.stderr)
        return 77
    program = Program(options.emplace)
    sample = Truth(options.data)
    sample.keep_sample()
    sample.predict(program)
    sampled = sample.figures(program)
    if options.sample:
        problems = list(grown(options.sample.read_text(encoding="utf-8"), sampled))
        for problem in problems:
            print(problem, file=sys.stderr)
        return 1 if problems else 0
    truth = Truth(options.data)
    truth.predict(program)
    page = wrapped(write_page(truth, program, sampled))
    if options.page:
        options.page.write_text(page, encoding="utf-8")
    elif options.check:
        if options.check.read_text(encoding="utf-8") != page:
            print(page)
            print(f"{options.check} is not what comes out: look whether errors grew, then run {sys.argv[0]} --page",
                  file=sys.stderr)
            return 1
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
