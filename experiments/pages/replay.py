"""The tables of docs/results/replay.md, from the public traces in EMPLACE_REFERENCE_DATA."""
from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.archive import ROOT, BadInput, Source, run_emplace
from shared.page import Value, cells_of, markdown
from shared.table import bold

HTA, PARAM, LENS = "facebookresearch+HolisticTraceAnalysis", "facebookresearch+param", "AMD-AGI+TraceLens"
DLRM = "dlrm_kineto.tar.gz"
TRACES = {
    "TraceLens Falconsai": ("H100", LENS, "Falconsai_nsfw_image_detection__1016002.json.gz"),
    "TraceLens Qwen 1.5": ("H100", LENS, "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    "TraceLens eager_trace": ("B200", LENS, "eager_trace.json.gz"),
    "TraceLens BERT small": ("H100", LENS, "gaunernst_bert-small-uncased__1016001.json.gz"),
    "TraceLens Qwen 1.5 on MI300X": ("MI300X", LENS, "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    "TraceLens ResNet with checkpoints": ("MI300X", LENS, "mi300/resnet_act_checkpoint.json.gz"),
    "TraceLens sglang decode": ("MI300X", LENS, "inference/sglang_Qwen3-8B_decode.json.gz"),
    "TraceLens unit gemm_01": ("not said", LENS, "unit/gemm_01_compute_few_tiles.json"),
    "HTA trace": ("A100", HTA, "trace.json.gz"),
    "HTA overlaid_critical_path": ("A100", HTA, "overlaid_critical_path_trace.json.gz"),
    "HTA event_sync": ("A100", HTA, "event_sync_trace.json.gz"),
    "HTA benchmark_result_2869224": ("A100", HTA, "benchmark_result_2869224_1695835535_trace.json.gz"),
    "HTA benchmark_result_924719": ("A100", HTA, "benchmark_result_924719_1679055439_trace.json.gz"),
    "HTA nccl_data": ("A100", HTA, "nccl_data.json.gz"),
    "HTA rank-0.Apr_03": ("V100", HTA, "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"),
    "HTA hta_control": ("A100", HTA, "hta_control.json.gz"),
    "HTA hta_rank0": ("A100", HTA, "hta_rank0.json.gz"),
    "param linear": ("RTX 2080 Ti", PARAM, "linear_kineto.json.gz"),
    "param resnet": ("RTX 2080 Ti", PARAM, "resnet_kineto.json.gz"),
    "param DLRM, 8 ranks": ("V100 x 8", PARAM, DLRM),
}
LEAST_SHARE = 1.0  # classes with less of the device time, %, are left out
_Check = dict[str, Any]


@dataclass(frozen=True)
class Compared:
    """A trace whose operators are compared with roofline's times. With `times` it is an Execution Trace, and `times` the
    Kineto trace of the same step."""

    title: str
    short: str  # where it is one of several
    gpu: str
    trace: str
    times: str = ""


COMPARED = [
    Compared("TraceLens Falconsai (ViT)", "ViT", "H100", f"{LENS}/Falconsai_nsfw_image_detection__1016002.json.gz"),
    Compared("TraceLens Qwen 1.5", "Qwen 1.5", "H100", f"{LENS}/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    Compared("TraceLens BERT small", "BERT small", "H100", f"{LENS}/gaunernst_bert-small-uncased__1016001.json.gz"),
    Compared("TraceLens eager_trace", "eager_trace", "B200", f"{LENS}/eager_trace.json.gz"),
    Compared("param linear", "linear", "RTX 2080 Ti", f"{PARAM}/linear_et.json.gz", f"{PARAM}/linear_kineto.json.gz"),
    Compared(
        "param DLRM, rank 0",
        "DLRM rank 0",
        "V100",
        "dlrm_pytorch_et/dlrm_eg_0.json",
        "dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json",
    ),
]
NOTHING, ITSELF = "nothing", "itself"
OF_ANOTHER_GPU = ("three models on H100", "linear, RTX 2080 Ti", "DLRM, V100", "eager_trace, B200")
SOURCES = {  # short names of the traces that operators' times are carried over from
    NOTHING: (),
    "three models on H100": ("Qwen 1.5", "ViT", "BERT small"),
    "linear, RTX 2080 Ti": ("linear",),
    "DLRM, V100": ("DLRM rank 0",),
    "eager_trace, B200": ("eager_trace",),
    "ViT and BERT, H100 too": ("ViT", "BERT small"),
    "Qwen and BERT, H100 too": ("Qwen 1.5", "BERT small"),
    "Qwen and ViT, H100 too": ("Qwen 1.5", "ViT"),
}
# What each trace is scaled from, in the order of the page.
SCALED = {
    "eager_trace": (NOTHING, "three models on H100", "linear, RTX 2080 Ti", "DLRM, V100", ITSELF),
    "linear": (NOTHING, "three models on H100", "DLRM, V100", "eager_trace, B200", ITSELF),
    "DLRM rank 0": (NOTHING, "three models on H100", "linear, RTX 2080 Ti", "eager_trace, B200", ITSELF),
    "Qwen 1.5": (NOTHING, "DLRM, V100", "eager_trace, B200", "linear, RTX 2080 Ti", "ViT and BERT, H100 too"),
    "ViT": (NOTHING, "DLRM, V100", "eager_trace, B200", "linear, RTX 2080 Ti", "Qwen and BERT, H100 too"),
    "BERT small": (NOTHING, "DLRM, V100", "eager_trace, B200", "linear, RTX 2080 Ti", "Qwen and ViT, H100 too"),
}


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    data = source.reference_data("the traces of TraceLens, HolisticTraceAnalysis and param")
    with tempfile.TemporaryDirectory(prefix="replay.") as scratch:
        for name in ("dlrm_kineto.tar.gz", "dlrm_pytorch_et.tar.gz"):  # one file for each rank
            archive = existing(data / PARAM / name)
            done = subprocess.run(["tar", "-xzf", archive, "-C", scratch], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BadInput(f"{archive}: cannot be unpacked ({(done.stderr.strip().splitlines() or ['tar'])[0]})")
        figures, steps = simulated_steps(source.program, data, Path(scratch))
        checks = Checks(source.program, data, Path(scratch))
        tables = {"steps": steps, "roofline": roofline_table(checks), "scaled": scaled_table(checks)}
        figures |= scaled_figures(checks)
    return figures, tables


def existing(path: Path) -> Path:
    if not path.is_file():
        raise BadInput(f"{path}: there is no such trace")
    return path


def simulated_steps(program: str, data: Path, scratch: Path) -> tuple[dict[str, Value], list[str]]:
    titles, paths = [], []
    for title, (gpu, project, name) in TRACES.items():
        titles.append((title, gpu))
        paths.append(str(scratch / name.removesuffix(".tar.gz") if name == DLRM else existing(data / project / name)))
    for rank, path in enumerate(sorted((scratch / DLRM.removesuffix(".tar.gz")).iterdir())):
        titles.append((f"param DLRM, rank {rank}", "V100"))
        paths.append(str(path))
    command = [ROOT / "tools/replay_table", "--emplace", program, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if len(lines) < len(titles) + 2:
        raise BadInput(f"tools/replay_table: {done.stderr.strip() or 'it ended too early'}")
    timed = 2  # seconds and MiB of the program differ from run to run
    rows = [cells_of(line) for line in lines[2 : len(titles) + 2]]
    table = [cells_of(lines[0])[:-timed]]
    for (title, gpu), row in zip(titles, rows):
        table.append([title, gpu, *row[2:-timed]])
    errors = r"median ([\d.]+) %, largest ([\d.]+) %, within 2 % in (\d+) of (\d+)."
    found = re.search(errors + r" Starts: median of the medians ([\d.]+) %", lines[-1])
    names = ("error.median", "error.largest", "error.near", "error.traces", "starts.median")
    numbers = [float(text) if "." in text else int(text) for text in found.groups()]
    figures: dict[str, Value] = dict(zip(names, numbers))
    return figures, markdown(table, words=[0, 1, table[0].index("said")])


class Checks:
    """What `emplace replay --roofline --json` says of the traces."""

    def __init__(self, program: str, data: Path, scratch: Path) -> None:
        self._program, self._data, self._scratch = program, data, scratch
        self._made: dict[tuple[str, tuple[str, ...]], _Check] = {}

    def of(self, trace: Compared, scaled_from: str = NOTHING) -> _Check:
        names = (trace.short,) if scaled_from == ITSELF else SOURCES[scaled_from]
        key = (trace.short, names)
        if key not in self._made:
            options = [word for name in names for word in ("--scale-from", self._times_of(name))]
            self._made[key] = json.loads(
                run_emplace(self._program, "replay", "--roofline", "--json", *self._files(trace), *options)
            )
        return self._made[key]

    def _path(self, name: str) -> Path:
        unpacked = self._scratch / name
        return unpacked if unpacked.is_file() else existing(self._data / name)

    def _files(self, trace: Compared) -> list[str | Path]:
        files: list[str | Path] = [self._path(trace.trace)]
        return [*files, "--times", self._path(trace.times), "--min-attributed", "90"] if trace.times else files

    def _times_of(self, name: str) -> Path:
        """A file of the trace's operators with their times: an Execution Trace has none of its own."""
        trace = next(each for each in COMPARED if each.short == name)
        if not trace.times:
            return self._path(trace.trace)
        graph = self._scratch / (name + ".graph.json")
        if not graph.is_file():
            run_emplace(self._program, "import", *self._files(trace), "-o", graph)
        return graph


def share_of(part: _Check, check: _Check) -> float:
    """% of the trace's device time."""
    of = check["total"]["measured_us"] + check["transfers_us"] + check["unknown_us"]
    return 100 * part["measured_us"] / of


def roofline_table(checks: Checks) -> list[str]:
    title = ["trace", "GPU", "class", "calls", "measured, ms", "of the device time, %", "ratio"]
    table = [[*title, "median error, %", "90 % of calls within, %"]]
    for trace in COMPARED:
        check = checks.of(trace)
        for part in [*check["classes"], check["total"]]:
            share = share_of(part, check)
            if share < LEAST_SHARE:
                continue
            name = bold("all compared") if part is check["total"] else part["name"]
            numbers = [f"{part['measured_us'] / 1000:.3f}", f"{share:.1f}", f"{part['ratio']:.2f}"]
            errors = [f"{100 * part['error'][key]:.0f}" for key in ("median", "p90")]
            table.append([trace.title, trace.gpu, name, f"{part['calls']}", *numbers, *errors])
    return markdown(table, left=3)


def scaled_table(checks: Checks) -> list[str]:
    title = ["trace", "calls", "scaled from", "total, predicted / measured", "error of a call, mean, %", "median, %"]
    table = [[*title, "90 % within, %", "step, error %"]]
    for short, sources in SCALED.items():
        trace = next(each for each in COMPARED if each.short == short)
        for scaled_from in sources:
            check = checks.of(trace, scaled_from)
            total = check["total"]
            first = scaled_from == NOTHING
            errors = [f"{100 * total['error'][key]:.0f}" for key in ("mean", "median", "p90")]
            calls = f"{total['calls']}" if first else ""
            name = f"{short}, {trace.gpu}" if first else ""
            table.append([name, calls, scaled_from, f"{total['ratio']:.2f}", *errors, step_error(check)])
    return markdown(table, words=[title.index("scaled from")])


def step_error(check: _Check) -> str:
    """The error of the step with the predicted times; nothing for an Execution Trace."""
    step = check.get("step")
    return f"{100 * (step['simulated_us'] / step['measured_us'] - 1):+.2f}" if step else ""


def scaled_figures(checks: Checks) -> dict[str, Value]:
    ratios, errors = [], {NOTHING: [], ITSELF: [], "another": []}
    for short, sources in SCALED.items():
        trace = next(each for each in COMPARED if each.short == short)
        for scaled_from in sources:
            total = checks.of(trace, scaled_from)["total"]
            kind = "another" if scaled_from in OF_ANOTHER_GPU else scaled_from
            if kind in errors:
                errors[kind].append(100 * total["error"]["mean"])
            if kind == "another":
                ratios.append(total["ratio"])
    plain = [checks.of(trace)["total"]["ratio"] for trace in COMPARED]
    figures: dict[str, Value] = {"ratio.min": min(plain), "ratio.max": max(plain)}
    for key, kind in (("another", "another"), ("unscaled", NOTHING), ("itself", ITSELF)):
        figures |= {f"scaled.{key}.min": min(errors[kind]), f"scaled.{key}.max": max(errors[kind])}
    figures["scaled.totals"] = len(ratios)
    figures["scaled.totals.near"] = sum(abs(ratio - 1) <= 0.2 for ratio in ratios)
    qwen = checks.of(COMPARED[1])["step"]
    figures["qwen.step"] = qwen["simulated_us"] / 1000
    figures["qwen.step.less"] = 100 * (1 - qwen["simulated_us"] / qwen["measured_us"])
    return figures
