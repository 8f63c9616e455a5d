#!/usr/bin/env python3
"""Compares what `emplace memory` predicts with measured peaks, and writes docs/results/truth_memory.md.

Usage: tests/truth/memory.py --emplace PROGRAM --data FOLDER [--page FILE | --check FILE]

FOLDER is the reference data (EMPLACE_REFERENCE_DATA). --page writes the page; --check compares it with what comes out,
and fails where they differ. It runs a sample of nanotron's settings, whose figures stand on the page too. Exit status:
0 done, 1 the page differs, 77 the data is not there.
"""
import concurrent.futures
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

from plans.nanotron import is_consistent  # noqa: E402
from plans.simumax import number_in, read_cases  # noqa: E402
from report import (GIB, area_under_curve, has_data, parser_of, percent, quantile, read_csv, signed, table,  # noqa: E402
                    write_or_check)

MIB = 1 << 20
LEAST_PERCENT = 6.0  # a case is listed from this error on
NANOTRON_BYTES = 66 * GIB  # what a rank may allocate on an H100, as `emplace memory --framework nanotron` has it

# Why a case is worse: the first pattern that its name matches.
REASONS = [
    (r"grpo", "the network's second copy, for inference, is not modelled"),
    (r"flextron", "a network of several widths; the widest is modelled without its masks"),
    (r"offloading", "how far activations are moved ahead is not known"),
    (r"bert_release", "an older and a newer PyTorch, whose workspaces on GB200 differ"),
    (r"deepseekv3|nemotron3_super|8x7b_alltoall", "how many ranks ran is not known: two runs of the same arguments differ by 4 to 21 %"),
    (r"nemotron3_5_lightning", "experts that take more than their assumed part of the tokens"),
    (r"top2router", "an older version, measured on A100, whose experts take fewer tokens"),
    (r"dist_muon_param_layout_1node", "how many ranks ran is not known: one node of GB200s has 4, but 8 are assumed"),
    (r"15b_8t_release_sm_gb200", "of different arguments: the two runs are 50 % apart"),
    (r"cp4_a2a_p2p|cp2|reshard_8x1xNone|1x4xNone", "cuBLAS's workspaces, which depend on the GPU and on PyTorch's version"),
    (r"fsdp", "buffers of Megatron-FSDP are modelled coarsely"),
]


def median_peak(rows):
    """The median of the rows of recent versions, where there are any, and the rows."""
    recent = [row for row in rows if row["file"].startswith("dev_") and row["mem_max"]]
    used = recent or [row for row in rows if row["mem_max"]]
    return (statistics.median(float(row["mem_max"]) for row in used), used) if used else (None, [])


def gpu_of(used):
    """A cluster of the case's GPU, if all rows are of one."""
    kinds = {"dgx-a100" if "a100" in row["file"] else "gb200" if "gb200" in row["file"] else "dgx-h100" for row in used}
    return kinds.pop() if len(kinds) == 1 else None


def megatron_cases(folder):
    groups = {}
    for row in read_csv(folder / "NVIDIA+Megatron-LM" / "golden.csv"):
        groups.setdefault((row["model"], row["case"]), []).append(row)
    cases = []
    for (model, name), rows in groups.items():
        peak, used = median_peak(rows)
        if peak is None:
            continue
        first = rows[0]
        ranks = int(first["nodes"]) * int(first["gpus_per_node"]) if first["nodes"] else 0
        arguments = dict(json.loads(first["all_args_json"]), model=model)
        cases.append({"model": model, "name": name, "peak": peak, "gpu": gpu_of(used), "ranks": ranks if ranks > 1 else 0,
                      "arguments": arguments})
    return cases


LLAMA_70B = {"hidden-size": 8192, "num-attention-heads": 64, "ffn-hidden-size": 28672}
LLAMA_405B = {"hidden-size": 16384, "num-attention-heads": 128, "ffn-hidden-size": 53248}
LATENT = {"multi-latent-attention": True, "q-lora-rank": 1536, "kv-lora-rank": 512, "qk-head-dim": 128,
          "qk-pos-emb-head-dim": 64, "v-head-dim": 128, "qk-layernorm": True, "moe-grouped-gemm": True,
          "moe-token-dispatcher-type": "alltoall", "moe-permute-fusion": True, "expert-tensor-parallel-size": 1}
GROUPED = {"group-query-attention": True, "num-query-groups": 8, "vocab-size": 128256}
SIMUMAX_NETWORKS = {
    "llama3_70b": {**LLAMA_70B, **GROUPED},
    "llama3_405b": {**LLAMA_405B, **GROUPED},
    "deepseekv2": {**LATENT, "hidden-size": 5120, "num-attention-heads": 128, "ffn-hidden-size": 12288,
                   "num-experts": 160, "moe-router-topk": 6, "moe-ffn-hidden-size": 1536,
                   "moe-shared-expert-intermediate-size": 3072, "vocab-size": 102400},
    "deepseekv3": {**LATENT, "hidden-size": 7168, "num-attention-heads": 128, "ffn-hidden-size": 18432,
                   "num-experts": 256, "moe-router-topk": 8, "moe-ffn-hidden-size": 2048,
                   "moe-shared-expert-intermediate-size": 2048, "vocab-size": 129280},
}


def simumax_cases(folder):
    """SimuMax's runs of Megatron-LM on 8 B200. Those that differ in the number of micro-batches alone have one peak."""
    cases = {}
    for row in read_cases(folder):
        name = row["case"]
        layers, batches, sequence = number_in(name, "l", 0), number_in(name, "mbc", 4), number_in(name, "seq", 4096)
        degrees = {key: number_in(name, key, 1) for key in ("tp", "pp", "cp", "dp", "ep")}
        network = next(value for key, value in SIMUMAX_NETWORKS.items() if name.startswith(key))
        arguments = {
            **network, "model": "gpt", "num-layers": layers, "seq-length": sequence, "max-position-embeddings": sequence,
            "micro-batch-size": 1, "global-batch-size": batches * degrees["dp"], "bf16": True, "swiglu": True,
            "normalization": "RMSNorm", "position-embedding-type": "rope", "untie-embeddings-and-output-weights": True,
            "disable-bias-linear": True, "hidden-dropout": 0.0, "attention-dropout": 0.0,
            "cross-entropy-loss-fusion": True, "cross-entropy-fusion-impl": "te", "use-distributed-optimizer": True,
            "no-create-attention-mask-in-dataloader": True, "tensor-model-parallel-size": degrees["tp"],
            "pipeline-model-parallel-size": degrees["pp"], "context-parallel-size": degrees["cp"],
            "expert-model-parallel-size": degrees["ep"], "sequence-parallel": degrees["tp"] > 1}
        if "num-experts" in network:
            arguments["moe-layer-freq"] = f"([0]*1+[1]*{layers - 1})"
        ranks = degrees["tp"] * degrees["pp"] * degrees["cp"] * degrees["dp"]
        measured = [of_rank["max_allocated_mb"] * MIB for of_rank in row["peak_memory_by_rank_mb"].values()]
        cases.setdefault(name.replace(f"_mbc{batches}", ""),
                         {"name": name, "model": re.match(r"[a-z0-9]+", name)[0], "arguments": arguments, "ranks": ranks,
                          "gpu": "b200", "measured": measured})
    return list(cases.values())


NANOTRON_KEYS = ("model", "nodes", "dp", "tp", "pp", "zero", "mbs", "grad_acc")
SAMPLE = 12  # of nanotron's settings, --check runs each 12th


def nanotron_settings(folder):
    """The settings of the Ultra-Scale Playbook, each with what its rows say. Rows whose labels contradict each other
    are left out."""
    settings = {}
    for row in read_csv(folder / "huggingface+ultrascale-playbook" / "runs.csv"):
        if not is_consistent(row):
            continue
        setting = settings.setdefault(tuple(row[key] for key in NANOTRON_KEYS), {"row": row, "measured": [], "failed": 0})
        if row["ran"] == "1":
            setting["measured"].append(float(row["gpu_memory_gb"]) * GIB)
        else:
            setting["failed"] += 1
    return [dict(setting, index=index) for index, setting in enumerate(settings.values())]


def torchtitan_cases(folder):
    """The rows of torchtitan's tables that have memory: network, plan, tokens of a sequence, GiB."""
    cases = []
    for row in read_csv(folder / "pytorch+torchtitan" / "tables.csv"):
        if "Memory" not in row["columns"]:
            continue
        cells = row["values"].split(" | ")
        caption, gib = row["caption"], float(cells[-1])
        found = re.search(r"FSDP (\d+), CP (\d+)", cells[0])
        plan = {"zero": 3, "micro_batch": 2, "recompute": "selective"}
        name, network, sequence = cells[0], "llama-3.1-8b", 8192
        if "70B" in caption:
            network = "llama-3.1-70b"
            plan |= {"dp": 32, "tp": 8, "sequence_parallel": "true", "micro_batch": 16, "recompute": "full"}
        elif "405B" in caption:
            network = "llama-3.1-405b"
            plan |= {"dp": 8, "tp": 8, "pp": 8, "zero": 2, "sequence_parallel": "true", "micro_batch": 4, "recompute": "full",
                     "grad_accumulation": 8}
            if "Interleaved" in cells[0]:
                plan |= {"vpp": 2, "schedule": "interleaved"}
            if found:
                plan |= {"micro_batch": 1}
        elif found:
            plan |= {"micro_batch": 1, "recompute": "full"}
        elif "NUM_NODES" in row["columns"]:
            plan |= {"dp": 8 * int(cells[0])}
            name = f"{cells[0]} nodes of H200"
        else:
            plan |= {"dp": int(re.search(r"(\d+) GPUs", caption)[1])}
        if found:
            plan |= {"dp": int(found[1]), "cp": int(found[2])}
            sequence = int(cells[1])
            name += f", {sequence} tokens"
        cases.append({"name": f"{network}, {name}", "network": network, "plan": plan, "sequence": sequence,
                      "measured": gib * GIB})
    return cases


class Program:
    """Runs `emplace memory`."""

    def __init__(self, path, scratch):
        self.path = path
        self.scratch = Path(scratch)
        self.numbers = itertools.count()  # next() is safe between threads
        for kind in ("gb200", "b200"):
            text = (f"schema: emplace.cluster\nversion: 1\nname: {kind}\ndevices: [{{name: 'gpu:0', kind: {kind}}}]\n"
                    f"kinds: [{{name: {kind}, class: accelerator, peak_tflop_per_s: 1000, memory_bandwidth_gb_per_s: 8000}}]\n")
            (self.scratch / f"{kind}.yaml").write_text(text, encoding="utf-8")

    def peaks(self, case, gpu):
        """The peak of each rank."""
        file = self.scratch / f"{next(self.numbers)}.json"
        file.write_text(json.dumps(case["arguments"]), encoding="utf-8")
        command = [self.path, "memory", "--from", "megatron", str(file), "--json"]
        if case["ranks"]:
            command += ["--world-size", str(case["ranks"])]
        if gpu:
            named = self.scratch / f"{gpu}.yaml"
            command += ["--cluster", str(named) if named.exists() else gpu]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{case['name']}: {done.stderr}")
        return [rank["peak_allocated_bytes"] for rank in json.loads(done.stdout)["ranks"]]

    def torchtitan_peak(self, case):
        """The most that a rank has reserved."""
        plan = ",".join(f"{key}={value}" for key, value in case["plan"].items())
        command = [self.path, "memory", case["network"], "--framework", "torchtitan", "--sequence", str(case["sequence"]),
                   "--plan", plan, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{case['name']}: {done.stderr}")
        return max(rank["peak_reserved_bytes"] for rank in json.loads(done.stdout)["ranks"])

    def nanotron_peaks(self, row):
        """The largest allocated and reserved bytes of each pipeline rank; none where nanotron refuses the setting."""
        network = {"layers": row["layers"], "d_model": row["hidden"], "heads": row["heads"], "kv_heads": row["kv_heads"],
                   "head_width": int(row["hidden"]) // int(row["heads"]), "d_ff": row["ffn"], "vocabulary": row["vocab"],
                   "tied": "true" if row["tied_embeddings"] == "1" else "false"}
        plan = (f"dp={row['dp']},tp={row['tp']},pp={row['pp']},zero={row['zero']},micro_batch={row['mbs']},"
                f"grad_accumulation={row['grad_acc']},sequence_parallel={'true' if row['tp'] != '1' else 'false'}")
        command = [self.path, "memory", "llama-3-8b", "--framework", "nanotron", "--sequence", row["seq"], "--plan", plan,
                   "--json", "--set", *(f"{key}={value}" for key, value in network.items())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 2 and ("grad_accumulation: is" in done.stderr or "pp: is" in done.stderr):
            return []
        if done.returncode != 0:
            raise SystemExit(f"{plan}: {done.stderr}")
        peaks = {}
        for rank in json.loads(done.stdout)["ranks"]:
            peaks[rank["pipeline_rank"]] = (rank["peak_allocated_bytes"], rank["peak_reserved_bytes"])
        return [peaks[rank] for rank in sorted(peaks)]


def figures(errors):
    sizes = [abs(error) for error in errors]
    return [percent(statistics.median(sizes), 2), percent(quantile(sizes, 0.95)), percent(max(sizes))]


def reason_of(name):
    return next((reason for pattern, reason in REASONS if re.search(pattern, name)), "not explained")


def nanotron_errors(settings):
    return [setting["peaks"][0][1] / measured - 1 for setting in settings if setting["peaks"]
            for measured in setting["measured"]]


def nanotron_figures(settings):
    """Settings, share of right answers to "did it run", and the errors of the memory of rank 0."""
    clear = [setting for setting in settings if not (setting["measured"] and setting["failed"])]
    right = sum((setting["need"] <= NANOTRON_BYTES) == bool(setting["measured"]) for setting in clear)
    errors = nanotron_errors(settings)
    return [str(len(settings)), f"{right / len(clear):.3f}", str(len(errors)), *(figures(errors)[:2] if errors else ["", ""])]


def nanotron_sample(settings):
    """One line of figures, which --check recomputes."""
    chosen = [setting for setting in settings if setting["index"] % SAMPLE == 0]
    count, right, runs, middle, high = nanotron_figures(chosen)
    return (f"Of each {SAMPLE}th setting ({count}): {right} right, and over {runs} runs {middle} in the median, {high} at the "
            "95th percentile.")


def write_nanotron(settings):
    clear = [setting for setting in settings if not (setting["measured"] and setting["failed"])]
    slices = [("all", lambda row, index: True), ("fitted half", lambda row, index: index % 2 == 0),
              ("other half", lambda row, index: index % 2 == 1)]
    for key, name in (("model", "{}"), ("nodes", "{} nodes"), ("tp", "tp {}"), ("pp", "pp {}"), ("zero", "zero {}")):
        values = sorted({setting["row"][key] for setting in settings}, key=lambda value: (len(value), value))
        slices += [(name.format(value), lambda row, index, key=key, value=value: row[key] == value) for value in values]
    area = area_under_curve([setting["need"] for setting in clear if setting["measured"]],
                            [setting["need"] for setting in clear if not setting["measured"]])
    rows = []
    for name, chooses in slices:
        chosen = [setting for setting in settings if chooses(setting["row"], setting["index"])]
        rows.append([name, *nanotron_figures(chosen)])
    small = [setting for setting in clear if not setting["measured"] and setting["need"] < 45 * GIB]
    tied = [setting for setting in small if setting["row"]["model"] == "1B" and setting["row"]["zero"] == "0"
            and setting["row"]["pp"] != "1" and setting["row"]["dp"] != "1"]
    refused = [setting for setting in clear if not setting["peaks"]]
    both = sum(bool(setting["measured"] and setting["failed"]) for setting in settings)
    worst = sorted(((setting["peaks"][0][1] / measured - 1, measured, tuple(setting["row"][key] for key in NANOTRON_KEYS))
                    for setting in settings if setting["peaks"] for measured in setting["measured"]),
                   key=lambda row: -abs(row[0]))[:8]
    worst_rows = [[f"{model}, {nodes} nodes, dp {dp}, tp {tp}, pp {pp}, zero {zero}, micro-batch {batch}",
                   f"{measured / GIB:.1f}", f"{100 * error:+.0f} %"]
                  for error, measured, (model, nodes, dp, tp, pp, zero, batch, _) in worst]
    return f"""## nanotron's runs

The Ultra-Scale Playbook of Hugging Face lists {len(settings)} settings of four Llamas on 8 to 512 H100s (`emplace memory --framework
nanotron`): which of them ran, and how much memory. Its memory is what PyTorch's allocator of rank 0 had reserved after the
fourth step, rounded to 0.1 GiB. A setting is said to run where nanotron takes it and no rank allocates more than
{NANOTRON_BYTES // GIB} GiB, one threshold for all. {both} settings both ran and did not; they are left out where the question is whether a
setting runs.

Right answers: {nanotron_figures(settings)[1]}. Area under the curve: {area:.3f}. {nanotron_sample(settings)}

| settings | | right | runs | median | 95th percentile |
| --- | ---: | ---: | ---: | ---: | ---: |
""" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"""

{len(refused)} of the settings are refused, and all but one of them did not run: fewer micro-batches than stages but one, or stages
without a block. {len(small)} settings did not run though no rank needs 45 GiB; {len(tied)} of these are of the 1B network with zero 0,
several stages and several replicas, whose like ran on other numbers of nodes. No rule of memory finds them.

The runs that are predicted worst. Some rows have no more memory than a smaller micro-batch of the same split; either label
or run differs in what the table does not say.

{table(["setting", "GiB", "error"], worst_rows)}

Seven numbers are fitted: the threshold; the kernels that half a layer launches, forward and backward, by which the
memory that collectives read is late; and four that say when the program is ahead of the device at all with pipeline stages.
Their forms and values were found with all rows in view; the halves are a check afterwards, not a blind one. That the keys and
values before the rotary embedding stay is not in nanotron's source: the runs without tensor parallelism show it. The rest
follows from the source of nanotron and PyTorch.
"""


def write_torchtitan(cases):
    errors = [case["error"] for case in cases]
    old = [case["error"] for case in cases if "H200" not in case["name"]]
    rows = [[case["name"], f"{case['measured'] / GIB:.1f}", signed(case['error'])] for case in cases]
    return f"""## torchtitan's tables

{len(cases)} rows of torchtitan's tables have memory (`emplace memory --framework torchtitan`): what the allocator of the fullest rank had
reserved. No number is fitted on them, but which tensors stay was decided with them in view. The median error is {figures(errors)[0]}, and {figures(old)[0]} on H100s.

{table(["run", "GiB", "error"], rows)}

The program's loss is that of December 2024, which keeps and computes logits in f32 by plain operations; the runs on H200s, of
June 2025, compile it. Layers are taken to be compiled, and FP8, asynchronous tensor parallelism and what context parallelism
sends are not modelled: rows that differ in these alone have one prediction.

"""


def write_page(cases, simumax, torchtitan, nanotron):
    models = sorted({case["model"] for case in cases}, key=lambda model: (-sum(case["model"] == model for case in cases), model))
    rows = []
    for model in [*models, None]:
        chosen = [case for case in cases if model in (None, case["model"])]
        rows.append([model or "**all**", str(len(chosen)), *figures([case["error"] for case in chosen]),
                     *figures([case["error_of_gpu"] for case in chosen])[:2]])
    worst = sorted((case for case in cases if abs(case["error"]) >= LEAST_PERCENT / 100), key=lambda case: -abs(case["error"]))
    errors = [error for case in simumax for error in case["errors"]]
    by_network = []
    for model in sorted({case["model"] for case in simumax}):
        chosen = [case for case in simumax if case["model"] == model]
        by_network.append([model, str(len(chosen)), *figures([error for case in chosen for error in case["errors"]])])
    middle = figures([case["error"] for case in cases])
    return f"""# Predicted and measured peaks of memory

<!-- Generated by tests/truth/memory.py: do not edit. -->

**How close is `emplace memory` to the peak that PyTorch's allocator reports?** Over {len(cases)} test cases of Megatron-LM the median
error is {middle[0]} and the 95th percentile {middle[1]}. Over {len(simumax)} runs of Llama 3 and DeepSeek on 8 B200, which SimuMax's authors
measured, it is {figures(errors)[0]} in the median and {figures(errors)[2]} at most. Of nanotron's runs on up to 512 H100s, below, it says with
one threshold which ones fit. [How it works](../memory.md).

## Megatron-LM's functional tests

Each case is one set of arguments (`emplace memory --from megatron`). The measured value is the median, over the case's rows of
recent versions, of the largest `mem-max-allocated-bytes`, which the last rank writes. The first three figures are those
without `--cluster`: the kernels then are those of an H100, and the workspaces of cuBLAS the mean of 8 and 32 MiB. The last two
name the GPU where all rows of a case are of one. The number of ranks is the table's; where it has none, the program chooses it.

{table(["model", "cases", "median", "95th percentile", "largest", "median, GPU named", "95th percentile, GPU named"], rows)}

Cases that are wrong by {LEAST_PERCENT:.0f} % or more:

{table(["case", "error", "reason"], [[case["name"], signed(case['error']), reason_of(case["name"])] for case in worst])}

Four numbers are fitted on these cases: experts of the fullest of n ranks take 1 + 0.3 (1 - 1/n) times their share of tokens
in the worst micro-batch; a run whose length is counted in samples has 64 ranks where nothing says how many, or 128 with 1,024 sequences a
step or more; overlapped tensor parallelism has eight buffers; two layers' activations
that go to the host are on the device beside those in use, as in the one case that has them. The rest follows from the source of Megatron-LM, Transformer Engine and
PyTorch.

## SimuMax's runs

Nothing is fitted on these {len(simumax)} runs of Megatron-LM on 8 B200 (`max_memory_allocated`, all 8 ranks of each). SimuMax claims errors of
-1.38 % to -0.06 %.

{table(["network", "runs", "median", "95th percentile", "largest"], by_network)}

{torchtitan}{nanotron}"""


def main():
    options = parser_of(__doc__).parse_args()
    if not has_data(options.data, "NVIDIA+Megatron-LM/golden.csv"):
        return 77
    cases, simumax = megatron_cases(options.data), simumax_cases(options.data)
    settings, torchtitan = nanotron_settings(options.data), torchtitan_cases(options.data)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        program = Program(options.emplace, scratch)

        def predict(case):
            plain = program.peaks(case, None)[-1]
            case["error"] = plain / case["peak"] - 1
            of_gpu = program.peaks(case, case["gpu"])[-1] if case["gpu"] else plain
            case["error_of_gpu"] = of_gpu / case["peak"] - 1

        def predict_all_ranks(case):
            case["errors"] = [peak / real - 1 for peak, real in zip(program.peaks(case, case["gpu"]), case["measured"])]

        def predict_nanotron(setting):
            setting["peaks"] = program.nanotron_peaks(setting["row"])
            setting["need"] = max((allocated for allocated, _ in setting["peaks"]), default=1 << 60)

        def predict_torchtitan(case):
            case["error"] = program.torchtitan_peak(case) / case["measured"] - 1

        list(pool.map(predict, cases))
        list(pool.map(predict_all_ranks, simumax))
        list(pool.map(predict_torchtitan, torchtitan))
        if options.check:
            settings = [setting for setting in settings if setting["index"] % SAMPLE == 0]
        list(pool.map(predict_nanotron, settings))
    if options.check:
        # What --page wrote of all settings stays, but for the line of the sample.
        nanotron = options.check.read_text(encoding="utf-8").partition("## nanotron's runs\n")
        nanotron = nanotron[1] + re.sub(r"Of each \d+th setting .*", nanotron_sample(settings), nanotron[2])
    else:
        nanotron = write_nanotron(settings)
    return write_or_check(write_page(cases, simumax, write_torchtitan(torchtitan), nanotron), options)


if __name__ == "__main__":
    sys.exit(main())
