"""Pictures of archived placements: which device runs the ops of which layer, and when in the step."""
from __future__ import annotations

import json
import lzma
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.archive import BadInput, Source, Trials, run_emplace
from shared.chart import Axis, Panel, Segments, Style, chart
from shared.paper_table import Row

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555"]
SHORT = {  # of names of layers, for which an axis has little room
    "encoder/embedding": "source",
    "decoder/embedding": "target",
    "encoder/": "enc. ",
    "decoder/": "dec. ",
    "lstm": "",
    "projection": "project.",
    "mixed_": "",
}
OPS = 0  # the row of a device's ops in a timeline; others are of transfers
LEAST = 0.004  # of the step: a shorter bar would not be seen, and a shorter gap neither


@dataclass(frozen=True)
class Bar:
    """An op's run, us."""

    layer: str
    device: str
    start: float
    end: float


@dataclass(frozen=True)
class Step:
    """A simulated step. Layers are in the order of the graph."""

    time: float  # us
    layers: list[str]
    devices: list[str]
    bars: list[Bar]

    @property
    def shares(self) -> list[float]:
        """% of the ops on each device that has any, most first."""
        counts = Counter(bar.device for bar in self.bars)
        return sorted((100 * count / len(self.bars) for count in counts.values()), reverse=True)


def best_step(source: Source, row: Row, cluster: str, trials: Trials, file: str) -> Step:
    """The step of the best placement that these trials found, experiments/results/placements/FILE.json.xz."""
    path = source.path(f"placements/{file}.json.xz")
    try:
        placement = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise BadInput(f"{path}: is not a placement ({error})") from error
    with tempfile.TemporaryDirectory(prefix="placements.") as scratch:
        folder = Path(scratch)
        graph = folder / "graph.json"
        (folder / "placement.json").write_bytes(placement)
        settings = [word for key, value in row.settings.items() for word in ("--set", f"{key}={value}")]
        run_emplace(source.program, "generate", row.model, *settings, "-o", graph)
        problem = ["--graph", graph, "--cluster", cluster, "--gpus", str(row.gpus), "--costs", "roofline"]
        simulate = ["simulate", *problem, "--json"]
        files = ["--placement", folder / "placement.json", "--timeline", folder / "timeline.json"]
        result = json.loads(run_emplace(source.program, *simulate, *files))
        events = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
        ops = json.loads(graph.read_text(encoding="utf-8"))["ops"]
    step = step_of(result["step_time_us"], ops, events)
    if abs(step.time / 1000 - min(trials.values())) > 0.0005:
        raise BadInput(
            f"{path}: takes {step.time / 1000:.3f} ms, and the best of its trials {min(trials.values()):.3f}"
        )
    return step


def step_of(time: float, ops: list[dict[str, Any]], events: list[dict[str, Any]]) -> Step:
    """From a graph's ops and the events of a timeline."""
    layer_of = {op["name"]: op.get("layer", "") for op in ops}
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    bars = [
        Bar(layer_of[event["name"]], names[event["pid"]], event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["ph"] == "X" and event["tid"] == OPS
    ]
    used = {bar.device for bar in bars}
    return Step(time, list(dict.fromkeys(layer_of.values())), [name for name in names.values() if name in used], bars)


def picture(title: str, steps: dict[str, Step], columns: int) -> str:
    """A panel for each step, by its title. A layer has a row for each device."""
    devices = list(dict.fromkeys(device for step in steps.values() for device in step.devices))
    styles = {device: Style(device, colour, width=2) for device, colour in zip(sorted(devices), COLOURS)}
    panels = [_panel(f"{name}, {step.time / 1000:.0f} ms", step, styles) for name, step in steps.items()]
    return chart(title, panels, list(styles.values()), columns)


def _panel(title: str, step: Step, styles: dict[str, Style]) -> Panel:
    marks = []
    for place, device in enumerate(step.devices):
        ends = []
        for row, layer in enumerate(step.layers):
            y = len(step.layers) - 1 - row + 0.35 - 0.7 * (place + 0.5) / len(step.devices)
            bars = [(bar.start, bar.end) for bar in step.bars if bar.layer == layer and bar.device == device]
            ends += [((start / 1000, y), (end / 1000, y)) for start, end in joined(bars, LEAST * step.time)]
        marks.append(Segments(ends, styles[device]))
    names = {float(len(step.layers) - 1 - row): short(layer) for row, layer in enumerate(step.layers)}
    return Panel(title, Axis("ms", 0, step.time / 1000), Axis("", -0.6, len(step.layers) - 0.4, names=names), marks)


def joined(bars: list[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """The bars at least so long; those with a smaller gap between them are one."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(bars):
        end = max(end, start + least)
        if found and start - found[-1][1] < least:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def short(layer: str) -> str:
    for long, instead in SHORT.items():
        layer = layer.replace(long, instead)
    return layer
