#!/usr/bin/env python3
"""Compares the steps that `emplace plan` predicts with measured ones, and writes docs/results/plan.md.

Usage: tests/truth/plan.py --emplace PROGRAM --data FOLDER [--page FILE | --check FILE | --sample FILE]

FOLDER is the reference data (EMPLACE_REFERENCE_DATA). --page writes the page; --check compares it with what comes out,
and fails where they differ. --sample predicts a part of each table again, and fails where an error is larger than the
page says. Exit status: 0 done, 1 the page differs or an error grew, 77 the data is not there.
"""
import re
import statistics
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from plans import bridge, korthikanti, llm_foundry, lora, mlperf, nanotron, simumax, torchtitan, vtrain  # noqa: E402
from plans.program import Program, add_errors_of_single_plans  # noqa: E402
from report import has_data, parser_of, percent, table, wrapped, write_or_check  # noqa: E402

SLACK = 0.1  # percentage points by which a figure of the sample may grow


class Truth:
    """The rows of every table."""

    def __init__(self, folder):
        self.nanotron, self.nanotron_dropped = nanotron.read_rows(folder)
        self.vtrain = vtrain.read_rows(folder)
        self.foundry = llm_foundry.read_rows(folder)
        self.simumax = simumax.read_rows(folder)
        self.bridge, self.bridge_left_out = bridge.read_rows(folder)
        self.mlperf, self.mlperf_left_out = mlperf.read_rows(folder)
        self.lora = lora.read_rows(folder)
        self.torchtitan = torchtitan.read_rows(folder)
        self.korthikanti = korthikanti.read_rows()

    def keep_sample(self):
        """Keeps the small cells, and some of the other rows, at equal distances."""
        self.nanotron = [row for row in self.nanotron if row["nodes"] <= 4]
        commands = sorted({row["command"] for row in self.vtrain})[::8]
        self.vtrain = [row for row in self.vtrain if row["command"] in commands]
        self.foundry = [row for row in self.foundry if row["gpus"] <= 64][::5]
        self.simumax = self.simumax[::3]
        self.bridge = self.bridge[::8]
        self.mlperf = self.mlperf[::4]
        self.lora = self.lora[::5]

    def predict(self, program):
        singles = self.foundry + self.simumax + self.bridge + self.mlperf + self.torchtitan + self.korthikanti
        program.ask([row["command"] for row in self.nanotron + self.vtrain + singles]
                    + [row["search"] for row in bridge.compared(self.bridge)])
        lora.predict(program, self.lora)
        nanotron.predict(program, self.nanotron)
        vtrain.predict(program, self.vtrain)
        add_errors_of_single_plans(program, singles)

    def figures(self, program):
        """What --sample compares: a name, and a percentage that is to be small."""
        cells = nanotron.cells_of(self.nanotron, program)
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
                "MLPerf: step time, median": median(self.mlperf),
                "adapters: step time, median": median(self.lora),
                "torchtitan: step time, median": median(self.torchtitan),
                "Korthikanti et al.: step time, median": median(self.korthikanti)}


def held_out_of(rows):
    return [row for row in rows if not row["fitted"]]


def write_page(truth, program, sampled):
    cells = nanotron.cells_of(truth.nanotron, program)
    section_of_nanotron, summary = nanotron.section(truth.nanotron, truth.nanotron_dropped, cells)
    held_out = held_out_of(summary["timed"])
    simumax_held_out = [row for row in truth.simumax if row["model"] != "llama-3-70b"]

    def size(rows, of=statistics.median):
        return percent(of([abs(row["error"]) for row in rows]))

    def of_both(rows, held_out):
        return [str(len(rows)), size(rows), size(held_out)]

    peers = [
        ["Nanotron, 8 to 512 H100", *of_both(summary["timed"], held_out), "-"],
        ["vTrain, 2 to 8 A100", *of_both(truth.vtrain, held_out_of(truth.vtrain)),
         f"vTrain 8.37 % on average, from profiled kernels; ours is {size(truth.vtrain, statistics.mean)} on average"],
        ["llm-foundry, 8 to 512 A100 and H100", *of_both(truth.foundry, held_out_of(truth.foundry)), "-"],
        ["SimuMax, 8 B200", *of_both(truth.simumax, simumax_held_out),
         f"SimuMax {percent(statistics.median(abs(row['theirs']) for row in truth.simumax))}, from ops of that machine"],
        ["Megatron-Bridge, 8 to 1,024 H100 to GB300", *of_both(truth.bridge, held_out_of(truth.bridge)), "-"],
        ["MLPerf, 8 to 10,752 H100 to B300", *of_both(truth.mlperf, held_out_of(truth.mlperf)), "-"],
        ["adapters in the last two, 8 to 576 H100 to GB300", *of_both(truth.lora, truth.lora), "-"],
        ["torchtitan, 8 to 512 H100 and H200", *of_both(truth.torchtitan, truth.torchtitan), "-"],
        ["Korthikanti et al., 8 to 512 A100", *of_both(truth.korthikanti, truth.korthikanti),
         f"Calculon 3.65 % on average, calibrated there; ours is {size(truth.korthikanti, statistics.mean)} on average"],
    ]
    judged = [cell for cell in cells if cell.fastest is not None]
    with_mamba = {row["setting"] for row in truth.bridge if row["fitted"] and row["kind"] == "Mamba"}
    count_of_settings = sum(len({row["setting"] for row in rows if row["fitted"]} - with_mamba)
                            for rows in (truth.bridge, truth.mlperf))
    return f"""# Predicted and measured plans

<!-- Generated by tests/truth/plan.py: do not edit. -->

**Does `emplace plan` choose a plan that runs and is fast, and how close are its step times?** In {len(judged)} cells of a table
of Nanotron's runs on 8 to 512 H100 the plan that it chooses reaches {statistics.mean(summary['reached']):.2f} of the best
measured throughput on average, {min(summary['reached']):.2f} at least, and runs in
{sum(value > 0 for value in summary['reached'])}. It is right about whether a setting runs for {percent(summary['right'])} of
the settings. Its step times there are wrong by {size(held_out)} in the median on runs that nothing was fitted on, and
Spearman's rank correlation in a cell is {statistics.mean(summary['orders']):.3f} on average.

Median errors of the step time:

{table(["table", "rows", "median error", "held out", "peers"], peers)}

All runs are other people's measurements; we have run none of them. Errors are over all rows of a table that ran and can be
predicted, the failures and the outliers too; each section counts the others. An error is predicted / measured - 1, and its mean, median, 95th percentile and
largest are of its size; *measured/predicted* is the median of that ratio. Charon states 5.35 %, without code or data.

## What was fitted

| constants | rows |
|---|---|
| of `nanotron` | every other row of the Playbook's table that ran and is consistent, the first included |
| of `nanotron`'s memory, which decides what fits | every other setting of the same table ([which numbers](truth_memory.md)) |
| of `megatron`: host time of a layer, how it grows with tensor ranks, and the bytes of elementwise ops | every other row of vTrain's table, the first included, with unfused attention |
| of `fsdp`, which `torchtitan` has too | every other row of llm-foundry's table in half precision, the first included |
| how much slower FlashAttention-2 is on an H100, within the range of the paper on FlashAttention-3 | the same rows |
| the shares of their rates that an A100 and an H100 sustain | with the constants of `megatron` and of `nanotron`, on the same rows |
| that of a B200 | the rows of SimuMax's table with Llama 3 70B |
| those of a GB200, a B300 and a GB300; how fast products in 8 and in 4 bits are, relative to those in half precision; the grouped products in half precision of `megatron-bridge`, and how much of the exchange of tensor parallelism it hides | every other setting of Megatron-Bridge's table and of MLPerf's, the first included: 8 numbers on {count_of_settings} settings |
| how much of the memory's bandwidth, or of the rate of products, the kernels of Mamba's convolution and scan sustain | every other setting with such layers of Megatron-Bridge's table, the first included: 1 number on {len(with_mamba)} settings |

Rates of kernels and collectives come from measured curves of single ops ([how close they are](truth.md)), and peaks of memory
from a model of the allocator ([how close it is](truth_memory.md)). Tables of kernels in 8 and in 4 bits are not at hand: such
products have the curves of half precision with the peak of their data sheet and their own bytes, times the fitted number. The
kernels of a GB200 were measured at a lowered clock, products of more than 1 TFLOP at 0.74 of the rate of a B200, so that the
share which remains in a step is about 1. No constant is fitted to a network, a plan or a cell.

*Held out* is the half that no constant was fitted on. What the model has constants for was found with all rows of these tables in view,
so rows that are not here, a part of every table, are a harder test.

{section_of_nanotron}
{vtrain.section(truth.vtrain)}
{llm_foundry.section(truth.foundry)}
{simumax.section(truth.simumax)}
{bridge.section(program, truth.bridge, truth.bridge_left_out)}
{mlperf.section(truth.mlperf, truth.mlperf_left_out)}
{lora.section(program, truth.lora)}
{torchtitan.section(truth.torchtitan)}
{korthikanti.section(truth.korthikanti)}
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
    parser = parser_of(__doc__)
    parser.add_argument("--sample", type=Path)
    options = parser.parse_args()
    if not has_data(options.data, "huggingface+ultrascale-playbook/runs.csv"):
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
    return write_or_check(wrapped(write_page(truth, program, sampled)), options)


if __name__ == "__main__":
    sys.exit(main())
