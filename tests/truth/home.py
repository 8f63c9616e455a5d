#!/usr/bin/env python3
"""Compares the predicted speed and memory of llama.cpp with other people's measurements, and writes docs/results/home.md.

Usage: tests/truth/home.py --emplace PROGRAM --data FOLDER [--page FILE | --check FILE]

FOLDER is the reference data (EMPLACE_REFERENCE_DATA). --page writes the page; --check compares it with what comes out, and
fails where they differ. Exit status: 0 done, 1 the page differs, 77 the data is not there.
"""
import collections
import csv
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

from report import count_of, has_data, parser_of, percent, quantile, signed, spearman, table, wrapped, write_or_check  # noqa: E402

STRIX = ("lhl+strix-halo-testing/llama_bench.csv", "lhl+strix-halo-testing/results.csv")
BENCHES = "ggml-org+llama.cpp/benches.csv"
GEERLING = "geerlingguy+ai-benchmarks/table.csv"
PI = "b4rtaz+distributed-llama/table.csv"
RPC = "lhl+strix-halo-testing/rpc.csv"

# llama-bench's names of models, and the network and quantisation that they are.
BENCH_MODELS = {
    "llama 1B Q4_K - Medium": ("llama-3.2-1b", "q4_k_m"), "llama 7B Q4_0": ("llama-2-7b", "q4_0"),
    "llama 7B Q4_K - Medium": ("llama-2-7b", "q4_k_m"), "llama 8B Q4_K - Medium": ("llama-3.1-8b", "q4_k_m"),
    "llama 70B Q4_K - Medium": ("llama-3.1-70b", "q4_k_m"), "gemma3 27B Q4_K - Medium": ("gemma-3-27b", "q4_k_m"),
    "qwen3moe 235B.A22B Q3_K - Medium": ("qwen3-235b-a22b", "q3_k_m"), "gpt-oss 20B MXFP4 MoE": ("gpt-oss-20b", "mxfp4"),
    "dots1 142B Q4_K - Medium": ("dots.llm1", "q4_k_m"), "glm4moe 106B.A12B Q4_K - Medium": ("glm-4.5-air", "q4_k_m"),
    "hunyuan-moe A13B Q6_K": ("hunyuan-a13b", "q6_k"),
    "llama4 17Bx16E (Scout) Q4_K - Medium": ("llama-4-scout", "q4_k_m"), "qwen3moe 30B.A3B Q8_0": ("qwen3-30b-a3b", "q8_0"), "gemma3 4B Q4_0": ("gemma-3-4b", "q4_0")}
OLLAMA_MODELS = {
    "DeepSeek R1 14b": ("qwen2.5-14b", "q4_k_m"), "Llama 3.2:3b": ("llama-3.2-3b", "q4_k_m"),
    "Llama 3.1:70b": ("llama-3.1-70b", "q4_k_m"), "Llama 3.1:405b": ("llama-3.1-405b", "q4_k_m"),
    "gpt-oss 20b": ("gpt-oss-20b", "mxfp4"), "DeepSeek R1 671b": ("deepseek-v3", "q4_k_m")}
# A part of the name of a system, and the kind of device that computes there; the first that is found counts.
SYSTEMS = (
    ("4090", "rtx-4090"), ("5090", "rtx-5090"), ("3080 Ti", "rtx-3080-ti"), ("4070 Ti Super", "rtx-4070-ti-super"),
    ("4070 Ti", "rtx-4070-ti"), ("2080 Ti", "rtx-2080-ti"), ("RTX 3060", "rtx-3060"), ("4080", "rtx-4080"),
    ("A4000", "rtx-a4000"), ("A2000", "rtx-a2000"), ("M3 Ultra", "m3-ultra"), ("M1 Ultra", "m1-ultra"), ("M1 Max", "m1-max"),
    ("M4 Mac mini", "m4"), ("GB10", "gb10"), ("W7700", "radeon-pro-w7700"), ("R9700", "radeon-ai-pro-r9700"),
    ("7900 XT", "rx-7900-xt"), ("9070 XT", "rx-9070-xt"), ("6700 XT", "rx-6700-xt"), ("RX 7600", "rx-7600"),
    ("B580", "arc-b580"), ("Pro B50", "arc-pro-b50"), ("RX 580", "rx-580"), ("Pi 5 - ", "raspberry-pi-5"),
    ("Pi 500+ - 16GB", "raspberry-pi-5"), ("Framework Mainboard", "ryzen-ai-max-395"))
PI_MODELS = {"Llama 2 7B": ("llama-2-7b", "q4_0"), "Llama 2 13B": ("llama-2-13b", "q4_0"), "Llama 3 8B": ("llama-3-8b", "q4_0")}
OLLAMA_DEPTH = 200  # tokens; the table does not say how many
MEMORY_GIB = 2000   # of the one device: whether a model fits is not asked here
CALIBRATED_ON = "llama 7B Q4_K - Medium"


def read(folder, name):
    """Rows behind the lines that name source and licence."""
    with open(folder / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class Program:
    def __init__(self, path):
        self.path = path
        self.folder = Path(tempfile.mkdtemp())
        self.answers = {}

    def cluster(self, text):
        path = self.folder / f"{abs(hash(text))}.yaml"
        path.write_text(f"schema: emplace.cluster\nversion: 1\nname: home\n{text}\n")
        return str(path)

    def place(self, cluster, model, *arguments):
        """The plan, as JSON."""
        key = (cluster, model, arguments)
        if key not in self.answers:
            command = [self.path, "place", model[0], "--quantise", model[1], "--cluster", self.cluster(cluster), "--json",
                       "-o", str(self.folder / "p.json"), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)}: {done.stderr}")
            self.answers[key] = json.loads(done.stdout)
        return self.answers[key]

    def rate(self, kind, model, prompt, depth, *arguments):
        """Tokens per second on one device; `prompt` 0: of generation."""
        cluster = f"devices: [{{name: 'd:0', kind: {kind}, memory_gib: {MEMORY_GIB}}}]"
        asked = ("--objective", "prefill", "--prompt", str(prompt)) if prompt else ("--objective", "decode")
        return self.place(cluster, model, *asked, "--depth", str(depth), *arguments)["tokens_per_s"]


class Row:
    def __init__(self, source, device, model, test, measured, predicted, setting=""):
        self.source, self.device, self.model, self.test, self.setting = source, device, model, test, setting
        self.measured, self.predicted = measured, predicted

    @property
    def error(self):
        return self.predicted / self.measured - 1

    @property
    def is_prompt(self):
        return self.test.startswith("pp")


def benches(program, folder, left_out):
    rows = []
    for row in read(folder, BENCHES):
        model = BENCH_MODELS.get(row["model"])
        if model is None:
            left_out["network that emplace does not have"] += 1
            continue
        kind = "m2-ultra" if "MTL" in row["backend"] else "gb10"
        test, tokens, depth = re.match(r"(pp|tg)(\d+)(?: @ d(\d+))?", row["test"]).groups()
        tokens, depth = int(tokens), int(depth or 0)
        predicted = (program.rate(kind, model, tokens, depth) if test == "pp"
                     else program.rate(kind, model, 0, depth + tokens // 2))
        rows.append(Row("llama.cpp's benches", kind, row["model"], row["test"], float(row["t/s"].split()[0]), predicted))
    return rows


def geerling(program, folder, left_out):
    rows = []
    for row in read(folder, GEERLING):
        kind = next((kind for part, kind in SYSTEMS if part in row["system"]), None)
        if row["model"] not in OLLAMA_MODELS:
            left_out["network that emplace does not have"] += 1
        elif "Cluster" in row["system"] or "/" in row["where"]:
            left_out["several devices, divided in a way that is not given"] += 1
        elif kind is None or (row["where"] == "CPU" and kind != "raspberry-pi-5"):
            left_out["device that emplace does not have"] += 1
        else:
            predicted = program.rate(kind, OLLAMA_MODELS[row["model"]], 0, OLLAMA_DEPTH)
            rows.append(Row("geerlingguy/ai-benchmarks", kind, row["model"], "tg", float(row["tg_tok_s"]), predicted,
                            row["system"]))
    return rows


def raspberry(program, folder, left_out):
    rows = []
    for row in read(folder, PI):
        if row["unit"] != "ms" or "RasPi" not in row["config"]:
            left_out["virtual machine without a data sheet, bytes, or out of memory"] += 1
        elif not row["config"].startswith("1 x"):
            left_out["tensor parallelism, which llama.cpp does not have"] += 1
        elif row["section"] and row["model"] in PI_MODELS and row["value"].replace(".", "").isdigit():
            kind = "raspberry-pi-5" if "RasPi 5" in row["config"] else "raspberry-pi-4"
            rows.append(Row("distributed-llama", kind, row["model"], "tg", 1000 / float(row["value"]),
                            program.rate(kind, PI_MODELS[row["model"]], 0, 64)))
    return rows


def strix_tests(folder, left_out):
    """Measurements by test, the build, whether attention was fused, and the run: of those of one build, every second has the
    faster products of hipBLASLt, as rates of prompts show."""
    tests = []
    runs = collections.Counter()
    for name in STRIX:
        for row in read(folder, name):
            prompt, generated, depth = int(row["n_prompt"]), int(row["n_gen"]), int(row["n_depth"])
            rate = float(row["avg_ts"] or 0)
            if row["model_type"] not in BENCH_MODELS:
                left_out["network that emplace does not have"] += 1
            elif (prompt and generated) or rate <= 0 or row["n_ubatch"] != "512":
                left_out["prompt and generation in one, another micro-batch, or no rate"] += 1
            else:
                setting = (row.get("build") or row["backends"], row["flash_attn"])
                runs[(name, row["file"], row["model_type"], setting, prompt, generated, depth)] += 1
                setting = (*setting, f"run {2 - runs[(name, row['file'], row['model_type'], setting, prompt, generated, depth)] % 2}")
                tests.append((row["model_type"], prompt, generated, depth, rate, setting, row))
    return tests


def strix(program, tests):
    rows = []
    for model, prompt, generated, depth, rate, setting, _ in tests:
        predicted = program.rate("ryzen-ai-max-395", BENCH_MODELS[model], prompt, depth + generated // 2)
        rows.append(Row("strix-halo-testing", "ryzen-ai-max-395", model, f"pp{prompt}" if prompt else f"tg{generated}", rate,
                        predicted, " ".join(setting)))
    return rows


def calibrated(program, tests):
    """Other models, where one was measured with the same build: its prompts and its generation give the rates."""
    rows = []
    by_setting = collections.defaultdict(list)
    for test in tests:
        if test[6].get("build"):  # else builds are mixed
            by_setting[test[5]].append(test)
    for setting, of_setting in sorted(by_setting.items()):
        known = [test for test in of_setting if test[0] == CALIBRATED_ON and test[3] == 0]
        prompts = [test for test in known if test[1] >= 128]
        generations = [test for test in known if test[2]]
        if len({test[1] for test in prompts}) < 3 or len({test[2] for test in generations}) < 3:
            continue
        path = program.folder / f"bench{len(rows)}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            for test in prompts + generations:
                row = test[6]
                file.write(json.dumps({
                    "gpu_info": "Radeon 8060S", "model_type": row["model_type"], "model_size": int(row["model_size"]),
                    "model_n_params": int(row["model_n_params"]), "n_ubatch": 512, "n_prompt": test[1], "n_gen": test[2],
                    "n_depth": 0, "avg_ts": test[4]}) + "\n")
        for model, prompt, generated, depth, rate, _, _ in of_setting:
            if model == CALIBRATED_ON or 1 < prompt < 128:
                continue
            predicted = program.rate("ryzen-ai-max-395", BENCH_MODELS[model], prompt, depth + generated // 2, "--bench",
                                     f"ryzen-ai-max-395={path}")
            rows.append(Row("strix-halo-testing", "ryzen-ai-max-395", model, f"pp{prompt}" if prompt else f"tg{generated}",
                            rate, predicted, " ".join(setting)))
    return rows


def memory(program, tests):
    rows = []
    for model, prompt, generated, depth, _, setting, row in tests:
        peak = float(row.get("gtt_peak_mib") or 0) + float(row.get("vram_peak_mib") or 0)
        if peak <= 0:
            continue
        cluster = f"devices: [{{name: 'd:0', kind: ryzen-ai-max-395, memory_gib: {MEMORY_GIB}}}]"
        context = max(1, prompt + generated + depth)
        plan = program.place(cluster, BENCH_MODELS[model], "--context", str(context))
        # The weights are those of the file, which its header says.
        file_share = int(row["model_size"]) / plan["model_bytes"]
        predicted = sum(stage["bytes"] + (file_share - 1) * stage["weight_bytes"] for stage in plan["stages"])
        rows.append(Row("strix-halo-testing", "ryzen-ai-max-395", model, f"{context} tokens", peak, predicted / (1 << 20),
                        " ".join(setting)))
    return rows


def sizes(program, tests):
    """Bytes of the files' tensors, and those of the network with this quantisation."""
    cluster = f"devices: [{{name: 'd:0', kind: ryzen-ai-max-395, memory_gib: {MEMORY_GIB}}}]"
    files = sorted({(model, int(row["model_size"])) for model, *_, row in tests})
    return [[model, " ".join(BENCH_MODELS[model]), str(size), str(predicted), signed(predicted / size - 1)]
            for model, size in files for predicted in [program.place(cluster, BENCH_MODELS[model], "--context", "1")["model_bytes"]]]


def several(program, folder):
    """gpt-oss-120b over one to four machines, each with as little memory as makes all of them necessary."""
    measured = [(int(row["nodes"]), row["test"], float(row["t/s"].split()[0])) for row in read(folder, RPC)
                if row["nodes"].isdigit() and row["size"] == "60.87 GiB"]
    alone = {test: rate for nodes, test, rate in measured if nodes == 1}
    rows = []
    for nodes, test, rate in measured:
        devices = ", ".join(f"{{name: 'm{i}:0', kind: ryzen-ai-max-395, memory_gib: {64 / nodes + 2.5:.1f}}}"
                            for i in range(nodes))
        cluster = f"devices: [{devices}]\nlink: {{bandwidth_gb_per_s: 0.29, latency_us: 150}}"
        tokens = int(test[2:])
        asked = (("--objective", "prefill", "--prompt", str(tokens)) if test.startswith("pp")
                 else ("--objective", "decode", "--depth", str(tokens // 2)))
        plan = program.place(cluster, ("gpt-oss-120b", "mxfp4"), "--context", "1024", *asked)
        rows.append((nodes, len(plan["stages"]), test, rate, alone[test], plan["tokens_per_s"]))
    one = {test: predicted for nodes, _, test, _, _, predicted in rows if nodes == 1}
    # What one machine does is taken as measured: only what the others cost is predicted.
    return [(nodes, stages, test, rate, 1 / (1 / alone + 1 / predicted - 1 / one[test]))
            for nodes, stages, test, rate, alone, predicted in rows]


def summary(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row.error)
    return [[name, str(len(errors)), percent(statistics.median(map(abs, errors))), percent(quantile(list(map(abs, errors)), 0.95)),
             signed(statistics.mean(errors))] for name, errors in sorted(groups.items())]


def errors_of(rows):
    return statistics.median(abs(row.error) for row in rows)


HEAD = ["", "rows", "median", "95th percentile", "mean, signed"]


def make_page(program, folder):
    left_out = collections.Counter()
    tests = strix_tests(folder, left_out)
    rows = (benches(program, folder, left_out) + geerling(program, folder, left_out) + raspberry(program, folder, left_out) +
            strix(program, tests))
    decode = [row for row in rows if not row.is_prompt]
    prefill = [row for row in rows if row.is_prompt]
    known = calibrated(program, tests)
    known_decode = [row for row in known if not row.is_prompt or row.test == "pp1"]
    known_prefill = [row for row in known if row.is_prompt and row.test != "pp1"]
    peaks = memory(program, tests)
    together = several(program, folder)
    worst = sorted((row for row in decode), key=lambda row: -abs(row.error))[:10]
    order = spearman([row.measured for row in decode], [row.predicted for row in decode])
    by_device = [[name, *cells] for name, *cells in summary(decode, lambda row: row.device)]
    return wrapped(f"""# How fast is llama.cpp, and what does it need?

<!-- Generated by tests/truth/home.py: do not edit. -->

**How close are the tokens per second that `emplace place` predicts for a GGUF model to measured ones?** From the data sheet of
the device alone, {len(decode)} rates of generation are predicted within {percent(errors_of(decode))} in the median (Spearman
{order:.3f} over all), and {len(prefill)} rates of prompts within {percent(errors_of(prefill))}. Where one model was measured on the
machine, other models generate within {percent(errors_of(known_decode))} of the prediction, and read prompts within
{percent(errors_of(known_prefill))}. Peaks of memory are predicted within {percent(errors_of(peaks))}.

All measurements are other people's. [home.md](../home.md) describes the model.

## From the data sheet alone

Generation:

{table(HEAD, summary(decode, lambda row: row.source))}

Prompts:

{table(HEAD, summary(prefill, lambda row: row.source))}

Generation by device:

{table(HEAD, by_device)}

The worst rows of generation:

{table(["device", "model", "system or build", "measured", "predicted", "error"],
       [[row.device, row.model, row.setting, f"{row.measured:.1f}", f"{row.predicted:.1f}", signed(row.error)] for row in worst])}

Most of the worst rows are cards of AMD on a Raspberry Pi or another small board, whose drivers are not those of a PC. Prompts of
strix-halo-testing spread by a factor of three over builds and drivers of one machine, and over runs of one build with hipBLASLt and without. No
data sheet says which is used: that is most of the error of prompts. Two to 64 tokens at once are the other part: kernels for one token
serve up to eight, and those for many leave most of the device idle.

What was fitted: the parts of the data sheet's rates that each family of devices reaches, by hand, on the rows that the table of
datasets/inference/token_time.cc names; they are the same for all models and devices of a family.

## With one model measured

`--bench KIND=FILE` takes the rates of {CALIBRATED_ON} of llama-bench, by build, by whether attention is fused, and by run (the source has two of each build: with ROCm the
second is the one with hipBLASLt, which no column says, but the rates of prompts do), for all other models:

{table(HEAD, summary(known_decode, lambda row: "generation, " + row.model) + summary(known_prefill, lambda row: "prompts, " + row.model))}

## Several machines

gpt-oss-120b over one to four machines with a Ryzen AI Max+ 395 (strix-halo-testing, RPC of August 2025). What one machine does is taken as
measured; Ethernet of 2.5 Gb/s with 150 us a message is assumed, as the source does not describe its network.

{table(["machines", "test", "measured, tokens/s", "predicted", "error"],
       [[str(nodes), test, f"{rate:.2f}", f"{predicted:.2f}", signed(predicted / rate - 1)] for nodes, _, test, rate, predicted in together])}

The RPC of that time sent the graph to each server for each token, which today's does not: a server on the loopback device costs
0.36 ms a token here (llama-cpp-python 0.3.36), and 3 to 9 ms there. The prediction is for today's.

## Memory

Peaks of GPU memory, measured by strix-halo-testing while llama-bench ran, other programs' memory included:

{table(HEAD, summary(peaks, lambda row: row.model))}

`emplace memory --from llama.cpp` is compared with llama.cpp's own `llama-fit-params` in the tests: weights and caches within 1 MiB in 60
settings of eight models, buffers within 15 % in all, and 0.3 % in the median.

Bytes of the tensors by `--quantise`, and of the files. Those of dots1, gemma3, glm4moe, hunyuan-moe, llama4 and qwen3moe are
Unsloth's (UD), who choose types of their own for each tensor. Peaks above are predicted with the weights of the file, as its
header says them; speeds everywhere with those of `--quantise`.

{table(["model", "network", "file", "predicted", "error"], sizes(program, tests))}

## What is not predicted

{table(["reason", "rows"], [[reason, str(number)] for reason, number in sorted(left_out.items())])}

prima.cpp's table is not predicted: its devices keep parts of the models on disk, which is no tier of this model.

## How to repeat it

```
tests/truth/home.py --emplace PROGRAM --data FOLDER --page docs/results/home.md
```
""")


def main():
    arguments = parser_of(__doc__).parse_args()
    if not all(has_data(arguments.data, name) for name in (*STRIX, BENCHES, GEERLING, PI, RPC)):
        return 77
    return write_or_check(make_page(Program(arguments.emplace), arguments.data), arguments)


if __name__ == "__main__":
    sys.exit(main())
