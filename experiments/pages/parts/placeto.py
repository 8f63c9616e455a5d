"""Pictures of docs/results/placeto.md: graphs of families with placements, and recurrent cells."""
from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.archive import BadInput, Source
from shared.chart import Axis, Panel, Point, Segments, Style, chart

FAMILY_SEED = "42"  # of the experiments
GRAPHS = ["cifar10_00", "cifar10_03", "cifar10_10"]
CELLS = ["ptb_00", "ptb_04", "ptb_11"]
DEVICES = {
    "gpu:0": Style("GPU 0", "#0072b2"),
    "gpu:1": Style("GPU 1", "#d55e00"),
    "gpu:2": Style("GPU 2", "#009e73"),
    "gpu:3": Style("GPU 3", "#e69f00"),
}
TENSORS = [  # up to this many bytes
    (2e6, Style("up to 2 MB", "#dddddd", width=0.3)),
    (2e7, Style("up to 20 MB", "#bbbbbb", width=0.5)),
    (math.inf, Style("more", "#999999", width=0.9)),
]
FUNCTIONS = {
    "identity": Style("identity", "#999999"),
    "sigmoid": Style("sigmoid", "#0072b2"),
    "tanh": Style("tanh", "#d55e00"),
    "relu": Style("ReLU", "#009e73"),
}
INPUT, OUTPUT = Style("input x[t]", "#333333", "square", hollow=True), Style("mean", "#333333", "diamond", hollow=True)
COLUMNS = 36  # of groups, in the order of their ops

_Place = tuple[float, float]


def pictures(source: Source) -> dict[str, str]:
    """The paper's figures 6 and 7."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for family in ("cifar10", "ptb"):
            _run(source, "dataset", family, "--seed", FAMILY_SEED, "-o", str(folder / family))
        panels = [graph_panel(source, folder, name) for name in GRAPHS]
        cells = {graph["name"]: graph["cell"] for graph in _read(folder / "ptb" / "dataset.json")["graphs"]}
    legend = [*DEVICES.values(), *(Style(style.name, style.colour, "square") for _, style in TENSORS)]
    return {
        "placeto_graphs.svg": chart("Graphs of cifar10 with placements on four GPUs", panels, legend, 3),
        "placeto_cells.svg": chart(
            "Recurrent cells of ptb's graphs",
            [cell_panel(name, cells[name]) for name in CELLS],
            [*FUNCTIONS.values(), INPUT, OUTPUT],
            3,
        ),
    }


def _run(source: Source, *arguments: str) -> None:
    done = subprocess.run([source.program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BadInput(f"emplace {arguments[0]}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes())


def graph_panel(source: Source, folder: Path, name: str) -> Panel:
    """Groups by their ops' order, sized by what they cost; on the GPUs of a placement that annealing found."""
    graph, grouping = (folder / "cifar10" / part / (name + ".json") for part in ("graphs", "groupings"))
    placement, timeline = folder / "placement.json", folder / "timeline.json"
    settings = "--cluster p2.8xlarge --gpus 4 --costs roofline --agent annealing --set use_cpus=false".split()
    files = ["--graph", graph, "--grouping", grouping, "-o", placement, "--timeline", timeline]
    _run(source, "place", *settings, *map(str, files))
    ops, groups = _read(graph)["ops"], _read(grouping)["groups"]
    devices = _read(placement)["devices"]
    cost: dict[int, float] = {}
    for event in _read(timeline)["traceEvents"]:
        if event["ph"] == "X" and event["name"] in groups:
            cost[groups[event["name"]]] = cost.get(groups[event["name"]], 0) + event["dur"]
    tensors = between_groups(ops, groups)
    places = layout(levels(ops, groups), tensors)
    marks: list[Point | Segments] = []
    low = 0.0
    for high, style in TENSORS:
        ends = [(places[a], places[b]) for (a, b), size in tensors.items() if low < size <= high]
        marks.append(Segments(ends, style))
        low = high
    largest = max(cost.values())
    of_group = {groups[op]: device for op, device in devices.items()}
    for group, (x, y) in places.items():
        size = 0.8 + 6 * math.sqrt(cost.get(group, 0) / largest)
        marks.append(Point(x, y, DEVICES[of_group[group]], size=size))
    return bare_panel(name, marks)


def bare_panel(title: str, marks: Sequence[Point | Segments]) -> Panel:
    """x and y are from 0 to 1."""
    axis = Axis("", -0.05, 1.05, bare=True)
    return Panel(title, axis, axis, marks)


def producers(op: Mapping[str, Any]) -> list[str]:
    return [tensor.rsplit(":", 1)[0] for tensor in op.get("inputs", ())]


def size_of(output: Mapping[str, Any]) -> float:
    """Bytes of an output tensor."""
    bits = int("".join(filter(str.isdigit, output["dtype"])) or 8)
    return math.prod(output["shape"]) * bits / 8


def between_groups(ops: Sequence[Mapping[str, Any]], groups: Mapping[str, int]) -> dict[tuple[int, int], float]:
    """Bytes that go from a group to another one."""
    outputs = {op["name"]: [size_of(output) for output in op.get("outputs", ())] for op in ops}
    sent: dict[tuple[int, int], float] = {}
    for op in ops:
        for tensor in op.get("inputs", ()):
            name, _, index = tensor.rpartition(":")
            pair = groups[name], groups[op["name"]]
            if pair[0] != pair[1]:
                sent[pair] = sent.get(pair, 0) + max(outputs[name][int(index)], 1)
    return sent


def levels(ops: Sequence[Mapping[str, Any]], groups: Mapping[str, int]) -> dict[int, float]:
    """For each group the mean, over its ops, of the longest path that leads there: from 0 to 1."""
    depth: dict[str, int] = {}
    for op in ops:  # producers come first in a file
        depth[op["name"]] = max((depth[name] + 1 for name in producers(op)), default=0)
    of_group: dict[int, list[int]] = {}
    for name, group in groups.items():
        of_group.setdefault(group, []).append(depth[name])
    deepest = max(depth.values()) or 1
    return {group: sum(values) / len(values) / deepest for group, values in sorted(of_group.items())}


def layout(at: Mapping[int, float], tensors: Mapping[tuple[int, int], float]) -> dict[int, _Place]:
    """Groups in columns of equally many. In a column they are in the order of the mean height of what they read."""
    columns: dict[int, list[int]] = {}
    for rank, group in enumerate(sorted(at, key=lambda group: (at[group], group))):
        columns.setdefault(rank * COLUMNS // len(at), []).append(group)
    read: dict[int, list[int]] = {}
    for producer, consumer in tensors:
        read.setdefault(consumer, []).append(producer)
    fullest = max(map(len, columns.values()))
    places: dict[int, _Place] = {}
    for column in sorted(columns):

        def height(group: int) -> tuple[float, int]:
            known = [places[other][1] for other in read.get(group, ()) if other in places]
            return (sum(known) / len(known) if known else 0.5), group

        members = sorted(columns[column], key=height)
        for index, group in enumerate(members):
            places[group] = column / (COLUMNS - 1), 0.5 + (index - (len(members) - 1) / 2) / fullest
    return places


def cell_panel(name: str, cell: str) -> Panel:
    """A cell as dataset.json has it: the functions of its nodes, each but the first with `<` and the node that it reads."""
    nodes = [part.partition("<") for part in cell.split()]
    reads = [int(node) if node else -1 for _, _, node in nodes]
    depth = [1]
    for node in reads[1:]:
        depth.append(depth[node] + 1)
    last = max(depth) + 1
    of_depth: dict[int, list[int]] = {}
    for node, level in enumerate(depth):
        of_depth.setdefault(level, []).append(node)
    widest = max(map(len, of_depth.values()))
    places: list[_Place] = [(0, 0)] * len(nodes)
    for level, members in of_depth.items():
        members.sort(key=lambda node: (places[reads[node]][1] if reads[node] >= 0 else 0.5, node))
        for index, node in enumerate(members):
            places[node] = level / last, 0.5 + (index - (len(members) - 1) / 2) / widest
    first, end = (0.0, 0.5), (1.0, 0.5)
    loose = [node for node in range(len(nodes)) if node not in reads]
    ends = [(first if node < 0 else places[node], place) for node, place in zip(reads, places)]
    ends += [(places[node], end) for node in loose]
    marks: list[Point | Segments] = [Segments(ends, Style("", "#999999"))]
    marks += [Point(*place, FUNCTIONS[kind], size=6) for (kind, _, _), place in zip(nodes, places)]
    marks += [Point(*first, INPUT, size=5), Point(*end, OUTPUT, size=5)]
    return bare_panel(name, marks)
