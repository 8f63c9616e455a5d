"""The first tables of docs/results/replay.md, from the public traces in EMPLACE_REFERENCE_DATA."""
from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from shared.archive import ROOT, BadInput, Source
from shared.page import Value, cells_of, markdown

HTA, PARAM, LENS = "facebookresearch+HolisticTraceAnalysis", "facebookresearch+param", "AMD-AGI+TraceLens"
TRACES = {
    "TraceLens Falconsai": ("H100", LENS, "Falconsai_nsfw_image_detection__1016002.json.gz"),
    "TraceLens Qwen 1.5": ("H100", LENS, "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    "TraceLens eager_trace": ("B200", LENS, "eager_trace.json.gz"),
    "TraceLens BERT small": ("H100", LENS, "gaunernst_bert-small-uncased__1016001.json.gz"),
    "HTA trace": ("A100", HTA, "trace.json.gz"),
    "HTA event_sync": ("A100", HTA, "event_sync_trace.json.gz"),
    "HTA benchmark_result_2869224": ("A100", HTA, "benchmark_result_2869224_1695835535_trace.json.gz"),
    "HTA nccl_data": ("A100", HTA, "nccl_data.json.gz"),
    "HTA rank-0.Apr_03": ("V100", HTA, "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"),
    "param linear": ("RTX 2080 Ti", PARAM, "linear_kineto.json.gz"),
    "param resnet": ("RTX 2080 Ti", PARAM, "resnet_kineto.json.gz"),
    "param DLRM, 8 ranks": ("V100 x 8", PARAM, "dlrm_kineto.tar.gz"),
}


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    data = source.reference_data("the traces of TraceLens, HolisticTraceAnalysis and param")
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for _, project, name in TRACES.values():
            path = data / project / name
            if not path.is_file():
                raise BadInput(f"{path}: there is no such trace")
            if name.endswith(".tar.gz"):  # one file for each rank
                subprocess.run(["tar", "-xzf", path, "-C", scratch], check=True)
                path = next(entry for entry in Path(scratch).iterdir() if entry.is_dir())
            paths.append(str(path))
        done = subprocess.run(
            [ROOT / "tools/replay_table", "--emplace", source.program, *paths],
            capture_output=True,
            text=True,
            check=False,
        )
    lines = done.stdout.splitlines()
    if len(lines) < len(TRACES) + 2:
        raise BadInput(f"tools/replay_table: {done.stderr.strip() or 'a trace was refused'}")
    rows = [cells_of(line) for line in lines[2 : len(TRACES) + 2]]
    table = [cells_of(lines[0])[:-1]]  # without the seconds that the program took
    for (title, (gpu, _, _)), row in zip(TRACES.items(), rows):
        table.append([title, gpu, *row[2:-1]])
    found = re.search(r"median ([\d.]+) %, largest ([\d.]+) %. Starts: median of the medians ([\d.]+) %", lines[-1])
    figures = dict(zip(("error.median", "error.largest", "starts.median"), map(float, found.groups())))
    return figures, {"steps": markdown(table, left=2)}
