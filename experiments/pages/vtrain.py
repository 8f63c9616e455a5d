"""The tables of docs/results/vtrain.md, from vTrain's measurements in EMPLACE_REFERENCE_DATA, and from what was predicted
of them: experiments/results/vtrain.csv.xz."""
from __future__ import annotations

import csv
import json
import re
import subprocess
import tempfile
from pathlib import Path

from shared.archive import ROOT, BadInput, Source, run_emplace
from shared.page import Value, cells_of, markdown
from shared.table import signed

NOT_SHOWN = ("layers ", "micro-batches ")  # slices that the page leaves out


MIB = 1 << 20
GPUS = (2, 4, 8)
FITTED = {  # numbers of the cluster vtrain-a100 that --fit found
    "host_us": r"host_us: ([\d.]+)",
    "before_pass_us": r"launch_latency_us: ([\d.]+)",
    "launch_us": r"(?m)^    launch_us: ([\d.]+)",
    "products": r"compute_efficiency: \{\s*matrix-product: ([\d.]+)",
    "elementwise": r"elementwise: ([\d.]+)",
    "reductions": r"reduction: ([\d.]+)",
    "optimizer": r"optimizer: ([\d.]+)",
}


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    folder = source.reference_data("the files of VIA-Research/vTrain") / "VIA-Research+vTrain"
    figures, slices = iterations(source.path("vtrain.csv.xz"), folder / "ground_truth_single.csv")
    errors = {gpus: all_reduce_errors(source.program, folder, gpus) for gpus in GPUS}
    tables = {"slices": slices, "all_reduces": all_reduces_table(errors), "powers": powers_table(errors)}
    return figures | fitted_figures(), tables


def fitted_figures() -> dict[str, Value]:
    path = ROOT / "experiments" / "clusters" / "vtrain-a100.yaml"
    text = path.read_text(encoding="utf-8")
    figures: dict[str, Value] = {}
    for name, pattern in FITTED.items():
        found = re.findall(pattern + r"[,}]*\s*\}?\s*# fitted", text)
        if len(found) != 1:
            raise BadInput(f"{path}: has {len(found)} fitted numbers {name} (one is expected)")
        figures["fitted." + name] = float(found[0])
    return figures


def measured_all_reduces(path: Path) -> dict[int, float]:
    """Times in us by the bytes of a message."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return {int(row[0]): float(row[3]) / 1000 for row in list(csv.reader(file))[1:]}
    except (OSError, ValueError, IndexError) as error:
        raise BadInput(f"{path}: is not a table of all-reduces of vTrain ({error})") from error


def predicted_all_reduces(program: str, gpus: int, sizes: list[int]) -> list[float]:
    """Times in us of the cluster dgx-a100: of a step with one all-reduce after the other."""
    ops, devices = [], {}
    for rank in range(gpus):
        for index, size in enumerate(sizes):
            part, total, last = f"r{rank}/part{index}", f"r{rank}/sum{index}", f"r{rank}/sum{index - 1}"
            output, attrs = {"bytes": size}, {"group": f"sum{index}"}
            ops.append({"name": part, "kind": "part", "outputs": [output], "time_us": 0})
            ops[-1]["control_inputs"] = [last] if index else []
            ops.append({"name": total, "kind": "all_reduce", "inputs": [part], "outputs": [output], "attrs": attrs})
            devices |= {part: f"gpu:{rank}", total: f"gpu:{rank}"}
    with tempfile.TemporaryDirectory(prefix="vtrain.") as scratch:
        folder = Path(scratch)
        files = {
            "graph": {"schema": "emplace.graph", "version": 1, "ops": ops},
            "placement": {"schema": "emplace.placement", "version": 1, "devices": devices},
        }
        arguments = ["simulate", "--cluster", "dgx-a100", "--timeline", folder / "timeline.json"]
        for name, content in files.items():
            (folder / (name + ".json")).write_text(json.dumps(content), encoding="utf-8")
            arguments += ["--" + name, folder / (name + ".json")]
        run_emplace(program, *arguments)
        events = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    times = {}  # of the device: an op's launch on the issue lane has its name too
    for event in events:
        if event["ph"] == "X":
            times[event["name"]] = max(times.get(event["name"], 0), event["dur"])
    return [times[f"r0/sum{index}"] for index in range(len(sizes))]


def all_reduce_errors(program: str, folder: Path, gpus: int) -> dict[int, float]:
    """The errors of predicted times, %, by the bytes of a message."""
    measured = measured_all_reduces(folder / f"trace_a100_AR_GPU{gpus}_1M_1024M_LUT")
    predicted = predicted_all_reduces(program, gpus, list(measured))
    return {size: 100 * (says / is_ - 1) for (size, is_), says in zip(measured.items(), predicted)}


def all_reduces_table(errors: dict[int, dict[int, float]]) -> list[str]:
    """The two sizes of two and of eight GPUs that were fitted are left out."""
    table = [["GPUs", "sizes held out", "error, median, %", "90th percentile", "largest"]]
    for gpus, of in errors.items():
        fitted = () if gpus == 4 else (MIB, 1024 * MIB)
        held_out = sorted(abs(error) for size, error in of.items() if size not in fitted)
        ends = (held_out[len(held_out) // 2], held_out[len(held_out) * 9 // 10], held_out[-1])
        table.append([str(gpus), f"{len(held_out):,}", *(f"{error:.1f}" for error in ends)])
    return markdown(table, left=0)


def powers_table(errors: dict[int, dict[int, float]]) -> list[str]:
    sizes = [1 << power for power in range(11)]
    table = [["MiB", *(f"{size:,}" for size in sizes)]]
    table += [[f"{gpus} GPUs, %", *(signed(of[size * MIB]) for size in sizes)] for gpus, of in errors.items()]
    return markdown(table)


def iterations(predictions: Path, file: Path) -> tuple[dict[str, Value], list[str]]:
    """What tools/vtrain_table says, and its table."""
    command = [ROOT / "tools/vtrain_table", "--predictions", predictions, file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3:
        raise BadInput(f"tools/vtrain_table: {(done.stderr.strip().splitlines() or ['no table'])[-1]}")
    rows = [cells_of(line) for line in lines if line.startswith("| ")]
    table = [row for row in rows if not row[0].startswith(NOT_SHOWN)]
    by_name = {row[0].strip("*"): row for row in rows}
    held_out, eight, everything = by_name["held out"], by_name["tensor 8"], by_name["all"]
    lines_found = re.search(r"Of (\d+) rows.*?, (\d+) lie", done.stdout)
    return {
        "held_out.rows": int(held_out[1]),
        "held_out.error": float(held_out[2]),
        "held_out.rank": float(held_out[7]),
        "tensor8.error": float(eight[2]),
        "tensor8.signed": -float(eight[6]),
        "rows": int(everything[1]),
        "on_lines.of": int(lines_found[1]),
        "on_lines": int(lines_found[2]),
    }, markdown(table)
