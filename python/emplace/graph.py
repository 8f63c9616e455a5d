"""Graphs of ops, and groupings of their ops."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core

PathLike = "str | os.PathLike[str]"


class Graph:
    """The op graph of one training step, immutable.

    Ops and tensors are numbered. The number of an op is its place in a topological order that depends on names and
    edges alone, so it may differ from the op's place in a file; `file_order` has that one. The arrays below are
    read-only views of the graph's own memory, which they keep alive. Sizes are in bytes.
    """

    __slots__ = ("_graph",)

    def __init__(self, core: _core.Graph) -> None:
        self._graph = _check.instance("core", core, _core.Graph)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads a graph.json, which may be compressed (.gz). Raises InputError with the file and the place in it."""
        return cls(_core.Graph.from_file(_check.path("path", path)))

    @classmethod
    def from_json(cls, text: str, name: str = "text") -> Graph:
        """Reads the text of a graph.json. Errors begin with `name`."""
        return cls(_core.Graph.from_json(_check.text("text", text), _check.text("name", name)))

    @classmethod
    def from_arrays(cls, edges: npt.ArrayLike, output_bytes: npt.ArrayLike, time_us: npt.ArrayLike | None = None, *,
                    name: str = "graph", names: Sequence[str] = (), kinds: Sequence[str] = (),
                    flop: npt.ArrayLike | None = None, temp_bytes: npt.ArrayLike | None = None,
                    persistent_bytes: npt.ArrayLike | None = None) -> Graph:
        """A graph whose ops have one output each.

        edges: integers (2, edges), producer and consumer of each, by row of the arrays below.
        output_bytes: integers (ops,), the size of each op's output.
        time_us: floats (ops,), the time of each op on every device; None if a cost model is to say it.
        names: of the ops; by default op0, op1, .. with leading zeros, so that ops in topological order keep their
        numbers. kinds: of the ops; by default "op". flop, temp_bytes, persistent_bytes: (ops,), 0 by default.
        Row i is op `file_order[i]`.
        """
        def sizes(argument: str, values: npt.ArrayLike | None) -> Any:
            return None if values is None else _check.integers(argument, values, 0)
        def amounts(argument: str, values: npt.ArrayLike | None) -> Any:
            return None if values is None else _check.numbers(argument, values, 0)
        pairs = _check.integers("edges", edges)
        return cls(_core.Graph.from_arrays(
            pairs.reshape(2, -1) if pairs.size == 0 else pairs, _check.integers("output_bytes", output_bytes, 0),
            amounts("time_us", time_us), name=_check.text("name", name), names=_check.texts("names", names),
            kinds=_check.texts("kinds", kinds), flop=amounts("flop", flop), temp_bytes=sizes("temp_bytes", temp_bytes),
            persistent_bytes=sizes("persistent_bytes", persistent_bytes)))

    @classmethod
    def from_networkx(cls, graph: Any, name: str | None = None) -> Graph:
        """The graph of a networkx.DiGraph or MultiDiGraph, whose nodes are ops.

        Attributes of a node: `kind` ("op" by default), `time_us` (a number, or a number for each device kind), `flop`,
        `temp_bytes`, `persistent_bytes`, `layer`, `attrs`, `colocate_with` (a node). An edge with `bytes` is a tensor;
        edges of one producer with the same `tensor` (0 by default) carry the same tensor, which is then sent to a
        device once. An edge without `bytes` only orders two ops.
        """
        if not all(hasattr(graph, needed) for needed in ("nodes", "in_edges", "out_edges")):
            _check.refuse("graph", graph, "a networkx.DiGraph or MultiDiGraph")
        if name is not None:
            _check.text("name", name)
        ops = []
        taken = {"kind", "time_us", "flop", "temp_bytes", "persistent_bytes", "layer", "attrs", "colocate_with"}
        outputs = {node: _outputs_of(graph, node) for node in graph.nodes}
        for node, data in graph.nodes(data=True):
            unknown = sorted(str(key) for key in data if key not in taken)
            if unknown:
                raise _core.InputError(f"node {node}: has the attribute {unknown[0]!r} ({', '.join(sorted(taken))})")
            op: dict[str, Any] = {"kind": "op", **data, "name": str(node)}
            if "colocate_with" in op:
                op["colocate_with"] = str(op["colocate_with"])
            op["outputs"] = [size for size, _ in outputs[node].values()]
            op["inputs"] = []
            op["control_inputs"] = []
            for producer, _, edge in graph.in_edges(node, data=True):
                if edge.get("bytes") is None:
                    op["control_inputs"].append(str(producer))
                else:
                    index = outputs[producer][edge.get("tensor", 0)][1]
                    op["inputs"].append(f"{producer}:{index}")
            ops.append(op)
        name = name or _check.text("graph.name", graph.name) or "graph"
        document = {"schema": "emplace.graph", "version": 1, "name": name, "ops": ops}
        try:
            text = json.dumps(document, default=_plain, allow_nan=False)
        except (TypeError, ValueError) as error:
            if isinstance(error, _core.InputError):
                raise
            raise _core.InputError(f"graph: has an attribute that JSON has not ({error})") from None
        return cls.from_json(text, f"graph {name}")

    def to_json(self) -> str:
        """The text of its graph.json."""
        return self._graph.to_json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a graph.json, whole or not at all; compressed if the name ends in .gz."""
        self._graph.save(_check.path("path", path))

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return self._graph.to_dot()

    @property
    def name(self) -> str:
        return self._graph.name

    @property
    def metadata(self) -> dict[str, Any]:
        """Additional information about the graph, as its file has it; a new dictionary."""
        return dict(json.loads(self._graph.metadata or "{}"))

    @property
    def num_ops(self) -> int:
        return self._graph.num_ops

    @property
    def num_tensors(self) -> int:
        return self._graph.num_tensors

    @property
    def num_edges(self) -> int:
        """Pairs of a producer and a consumer."""
        return self._graph.num_edges

    @property
    def op_names(self) -> list[str]:
        """The names of all ops, by number."""
        return self._graph.op_names

    @property
    def op_kinds(self) -> list[str]:
        return self._graph.op_kinds

    @property
    def op_layers(self) -> list[str]:
        """"" for ops of no layer."""
        return self._graph.op_layers

    @property
    def file_order(self) -> npt.NDArray[np.uint32]:
        """(ops,): the op of each place in the file, or of each row of from_arrays."""
        return self._graph.file_order

    @property
    def flop(self) -> npt.NDArray[np.float64]:
        """(ops,): a multiply-add is 2."""
        return self._graph.flop

    @property
    def op_flop(self) -> npt.NDArray[np.float64]:
        """(ops,): the same, also of graphs whose `flop` is that of the whole step (emplace.torch)."""
        return self._graph.flop

    @property
    def temp_bytes(self) -> npt.NDArray[np.int64]:
        """(ops,): memory that lives while the op runs."""
        return self._graph.temp_bytes

    @property
    def persistent_bytes(self) -> npt.NDArray[np.int64]:
        """(ops,): memory that lives the whole step."""
        return self._graph.persistent_bytes

    @property
    def tensor_bytes(self) -> npt.NDArray[np.int64]:
        """(tensors,)"""
        return self._graph.tensor_bytes

    @property
    def tensor_producers(self) -> npt.NDArray[np.uint32]:
        """(tensors,): the op that writes each."""
        return self._graph.tensor_producers

    @property
    def consumers(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The edges as compressed rows: starts (ops + 1,) and consumers (edges,).

        The consumers of op i are consumers[starts[i]:starts[i + 1]]; scipy.sparse.csr_array takes both as they are.
        """
        return self._graph.consumers

    @property
    def edge_index(self) -> npt.NDArray[np.int64]:
        """(2, edges): producer and consumer of each edge, a new array."""
        starts, consumers = self.consumers
        if len(starts) == 0:
            return np.zeros((2, 0), np.int64)
        first = starts.astype(np.int64)
        producers = np.repeat(np.arange(self.num_ops, dtype=np.int64), first[1:] - first[:-1])
        return np.stack([producers, consumers.astype(np.int64)])

    def find_op(self, name: str) -> int:
        """The number of an op. Raises KeyError if there is none of that name."""
        op = self._graph.find_op(_check.text("name", name))
        if op is None:
            raise KeyError(name)
        return op

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {self.num_ops} ops, {self.num_tensors} tensors)"


class Grouping:
    """Ops in groups, which are placed as one. Ops that must share a device are in one group."""

    __slots__ = ("_grouping", "_graph")

    def __init__(self, graph: Graph, name: str = "merge_and_colocate", groups: int = 256, *,
                 _core_grouping: Any = None) -> None:
        """name: of `emplace list groupers`. groups: at which merge_and_colocate stops."""
        self._graph = _check.instance("graph", graph, Graph)
        self._grouping = _core_grouping or _core.Grouping(graph._graph, _check.text("name", name),
                                                          _check.integer("groups", groups, 1, 2**32))

    @classmethod
    def from_labels(cls, graph: Graph, labels: npt.ArrayLike) -> Grouping:
        """labels: integers (ops,); ops with the same label share a group. Groups are numbered by their first op."""
        core = _check.instance("graph", graph, Graph)._graph
        return cls(graph, _core_grouping=_core.Grouping.from_labels(core, _check.integers("labels", labels, 0)))

    @classmethod
    def from_file(cls, graph: Graph, path: str | os.PathLike[str]) -> Grouping:
        """Reads a grouping.json."""
        core = _check.instance("graph", graph, Graph)._graph
        return cls(graph, _core_grouping=_core.Grouping.from_file(core, _check.path("path", path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a grouping.json."""
        self._grouping.save(self._graph._graph, _check.path("path", path))

    @property
    def num_groups(self) -> int:
        return self._grouping.num_groups

    @property
    def group_of_op(self) -> npt.NDArray[np.uint32]:
        """(ops,)"""
        return self._grouping.group_of_op

    def expand(self, placements: npt.ArrayLike) -> npt.NDArray[np.int16]:
        """Placements of groups, (groups,) or (batch, groups), as placements of ops."""
        groups = _check.integers("placements", placements, -2**15, 2**15 - 1)
        if groups.ndim not in (1, 2) or groups.shape[-1] != self.num_groups:
            _check.refuse("placements", groups, f"(batch, {self.num_groups}): a device for each group")
        return np.ascontiguousarray(groups.astype(np.int16)[..., self.group_of_op])

    def __deepcopy__(self, memo: Any) -> Grouping:
        return self  # it cannot change

    def __repr__(self) -> str:
        return f"Grouping({self.num_groups} groups of {self._grouping.num_ops} ops)"


def _outputs_of(graph: Any, node: Any) -> dict[Any, tuple[int, int]]:
    """Bytes and number of each tensor of a node, by its name on the edges."""
    outputs: dict[Any, tuple[int, int]] = {}
    for _, consumer, edge in graph.out_edges(node, data=True):
        size = edge.get("bytes")
        if size is None:
            continue
        try:
            known = outputs.setdefault(edge.get("tensor", 0), (size, len(outputs)))
        except TypeError:
            _check.refuse(f"edge {node} -> {consumer}: tensor", edge["tensor"], "a name or a number")
        if known[0] != size:
            raise _core.InputError(f"edge {node} -> {consumer}: has {size} bytes, another edge of its tensor {known[0]} "
                                   "(one size; `tensor` tells tensors apart)")
    return outputs


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise _core.InputError(f"{value!r}: is of type {type(value).__name__} (what JSON has)")
