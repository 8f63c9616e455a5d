"""Graphs to place: models, families, other projects' files, and the library of instances."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core
from emplace.cluster import Cluster, Costs
from emplace.graph import Graph
from emplace.simulator import Simulator


def generate(model: str, settings: Mapping[str, Any] | None = None, **more: Any) -> Graph:
    """The training graph of a model of emplace.names("models"), with its options: generate("nmt", layers=2)."""
    chosen = {**_check.settings("settings", settings), **_check.settings("settings", more)}
    return Graph(_core.generate(_check.text("model", model), chosen))


@dataclass(frozen=True)
class FamilyMember:
    """A graph of a family. training: belongs to the half for training agents. num_groups: number of groups to use."""
    graph: Graph
    training: bool
    num_groups: int
    drawn: dict[str, str]


def family(name: str, seed: int = 1) -> list[FamilyMember]:
    """The 32 graphs of a family of emplace.names("datasets"), generated from the seed."""
    return [FamilyMember(Graph(graph), training, groups, drawn)
            for graph, training, groups, drawn in _core.family(_check.text("name", name),
                                                                _check.integer("seed", seed, 0, _check.SEED))]


@dataclass(frozen=True)
class Imported:
    """The content of a file of another project. placement: int16 (ops,). notes: omissions. unexplained_percent: for a
    trace with times, 100 * (measured - simulated) / measured of the step time."""
    graph: Graph
    cluster: Cluster | None
    placement: npt.NDArray[np.int16] | None
    format: str
    notes: list[str]
    measured_step_us: float | None
    unexplained_percent: float | None
    attributed_percent: float | None


def import_files(*paths: str | os.PathLike[str], format: str = "", min_attributed_percent: float = 95,
                 times: str | os.PathLike[str] = "", inputs: Sequence[str] = (), step: str = "", nodes: int = 1,
                 cluster: str | os.PathLike[str] = "", comm_groups: str | os.PathLike[str] = "", nvlink: str = "",
                 training: str = "") -> Imported:
    """Reads another project's profile, trace or model, like `emplace import`.

    format: of emplace.names("importers"); found from the content by default. training: an optimizer (sgd, momentum,
    rmsprop or adam), which makes a training step of a forward graph. step: of a trace of several steps, "N" of
    ProfilerStep#N or "all"; the median one by default. cluster, comm_groups: of traces of several ranks without times,
    whose devices time them, and a file with the ranks of each process group. nvlink: of a topology without NVLink, a
    kind of GPU or GB/s. Of a format that is a cluster alone the graph has no ops.
    """
    core = _core.import_files([_check.path(f"paths[{i}]", path) for i, path in enumerate(paths)],
                              _check.text("format", format),
                              min_attributed_percent=_check.number("min_attributed_percent", min_attributed_percent, 0,
                                                                   100),
                              times=_check.path("times", times, may_be_empty=True),
                              inputs=_check.texts("inputs", inputs), step=_check.text("step", step),
                              nodes=_check.integer("nodes", nodes, 1, 2**20),
                              cluster=_check.path("cluster", cluster, may_be_empty=True),
                              comm_groups=_check.path("comm_groups", comm_groups, may_be_empty=True),
                              nvlink=_check.text("nvlink", nvlink), training=_check.text("training", training))
    graph, devices = Graph(core.pop("graph")), core.pop("cluster")
    return Imported(graph=graph, cluster=None if devices is None else Cluster("", _core_cluster=devices), **core)


def transform(graph: Graph, *, data_parallel: int = 1, tensor_parallel: int = 1, expert_parallel: int = 1,
              recompute: str = "", bucket_mib: float = 25, shard_optimizer: bool = False) -> Graph:
    """The graph of all ranks, or with recomputation, like `emplace transform`."""
    ranks = {"data_parallel": data_parallel, "tensor_parallel": tensor_parallel, "expert_parallel": expert_parallel}
    return Graph(_core.transform(_check.instance("graph", graph, Graph)._graph,
                                 **{name: _check.integer(name, value, 1) for name, value in ranks.items()},
                                 recompute=_check.text("recompute", recompute),
                                 bucket_mib=_check.number("bucket_mib", bucket_mib, 0),
                                 shard_optimizer=_check.flag("shard_optimizer", shard_optimizer)))


@dataclass(frozen=True)
class LibraryInstance:
    """A frozen placement problem. Times in ns; None if nothing is known yet."""
    name: str
    tier: str
    ops: int
    best_known_ns: int | None
    lower_bound_ns: int | None

    def load(self) -> Simulator:
        """The simulator, with graph, cluster and costs as attributes."""
        graph, cluster, costs = _core.library_problem(self.name)
        wrapped = Cluster("", _core_cluster=cluster)
        return Simulator(Graph(graph), wrapped, Costs._of(costs, wrapped))


def library(name: str | None = None) -> Any:
    """The list of instances, or the instance of that name. Raises InputError that names similar ones."""
    rows = [LibraryInstance(**row) for row in _core.library_rows()]
    if name is None:
        return rows
    _check.text("name", name)
    for row in rows:
        if row.name == name:
            return row
    _core.library_problem(name)  # says which names are near
    raise AssertionError(name)


def names(topic: str) -> dict[str, str]:
    """Names and descriptions of agents, models, datasets, clusters, engines, rewards, groupers, cost-models or
    importers."""
    return dict(_core.list_rows(_check.text("topic", topic)))


def improvement_table(runs: str | os.PathLike[str]) -> tuple[list[str], list[list[str]]]:
    """The table that `emplace sweep` prints for a folder RUNS/EXPERIMENT: its header, and a row for each agent.

    The best agents come first. A cell that lacks trials says how many it has, as in "12.3 (5 of 6)"; its agent comes
    after those that have all.
    """
    return _core.improvement_rows(_check.path("runs", runs))
