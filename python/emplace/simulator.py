"""The simulator: step times and memory of placements."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emplace import _check, _core
from emplace.cluster import Cluster, Costs
from emplace.graph import Graph, Grouping

Placement = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Timeline:
    """What ran when in one step. Times in us from its start; each field is a dictionary of columns.

    ops: op, device, start_us, end_us, in the order of their starts. transfers: tensor, source, target, start_us,
    arrival_us. memory: device, time_us, in_use_bytes, which holds until the next row of the device.
    """
    ops: dict[str, npt.NDArray[Any]]
    transfers: dict[str, npt.NDArray[Any]]
    memory: dict[str, npt.NDArray[Any]]


class Simulator:
    """Predicts one training step of a placed graph. The same input gives the same bytes.

    A placement is an array of device numbers by op number. Any integers are taken; int16 is taken without a copy.
    """

    __slots__ = ("_simulator", "graph", "cluster", "costs", "engine")

    def __init__(self, graph: Graph, cluster: Cluster, costs: Costs | str = "", *, engine: str = "fifo",
                 collectives: str = "model") -> None:
        """costs: Costs of the graph and the cluster, or the name of a cost model; "" is the default of Costs.

        engine: of emplace.names("engines"). collectives: model, ring or tree.
        """
        self.graph = _check.instance("graph", graph, Graph)
        self.cluster = _check.instance("cluster", cluster, Cluster)
        if not isinstance(costs, (Costs, str)):
            _check.refuse("costs", costs, "Costs, or the name of a cost model")
        self.costs = costs if isinstance(costs, Costs) else Costs(graph, cluster, _check.text("costs", costs))
        self.engine = _check.text("engine", engine)
        self._simulator = _core.Simulator(graph._graph, cluster._cluster, self.costs._costs, engine=engine,
                                          collectives=_check.text("collectives", collectives))

    def evaluate(self, placements: npt.ArrayLike, *, grouping: Grouping | None = None, peak_memory: bool = True,
                 threads: int = 0, out: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None] | None = None
                 ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Simulates a batch of placements.

        placements: integers (batch, ops), or (batch, groups) with a grouping; one placement may leave out `batch`.
        peak_memory: False takes about half the time, and gives no peaks.
        threads: 0 is one for each core. Results do not depend on it. The interpreter is free meanwhile.
        out: arrays to write to instead of new ones, int64 as below.

        Returns step_ns (batch,), the step times in nanoseconds, and peak_bytes (batch, devices), the largest memory in
        use on each device, or None. Whether a placement fits is `fits(peak_bytes)`. Raises InputError at
        placements[ROW] of the first one that cannot run.
        """
        if out is not None and not (isinstance(out, (tuple, list)) and len(out) == 2):
            _check.refuse("out", out, "two arrays, or one and None")
        step_out, peak_out = (None, None) if out is None else out
        core_grouping = None if grouping is None else _check.instance("grouping", grouping, Grouping)._grouping
        return self._simulator.evaluate(as_placements(placements), core_grouping,
                                        _check.flag("peak_memory", peak_memory),
                                        _check.integer("threads", threads, 0, 1024), step_out, peak_out)

    def fits(self, peak_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether no device is over its memory: (batch,) for peaks (batch, devices)."""
        limits = self.cluster.memory_bytes
        peak_bytes = _check.integers("peak_bytes", peak_bytes)
        if peak_bytes.ndim == 0 or peak_bytes.shape[-1] != len(limits):
            _check.refuse("peak_bytes", peak_bytes, f"(batch, {len(limits)}): a number for each device")
        fits: npt.NDArray[np.bool_] = np.all((peak_bytes <= limits) | (limits < 0), axis=-1)
        return fits

    def report(self, placement: npt.ArrayLike, *, schedule: str = "", micro_batches: int = 1) -> dict[str, Any]:
        """What `emplace simulate --json` prints of one placement: step_time_us, lower_bound_us, a row per device, ..

        schedule: of emplace.names("schedules"), such as "1f1b", for a placement whose devices are the stages of a
        pipeline; the graph is then one micro-batch.
        """
        report: dict[str, Any] = json.loads(self._simulator.report_text(
            as_placements(placement, "placement"), _check.text("schedule", schedule),
            _check.integer("micro_batches", micro_batches, 1, 2**20)))
        return report

    def timeline(self, placement: npt.ArrayLike) -> Timeline:
        """When each op ran and what was sent, for one placement."""
        return Timeline(**self._simulator.timeline(as_placements(placement, "placement")))

    def save_timeline(self, placement: npt.ArrayLike, path: str | os.PathLike[str]) -> None:
        """Writes a picture if the name ends in .svg, else trace events for Perfetto and chrome://tracing."""
        self._simulator.save_timeline(as_placements(placement, "placement"), _check.path("path", path))

    def load_placement(self, path: str | os.PathLike[str]) -> Placement:
        """Reads a placement.json: (ops,). Raises InputError if it cannot run."""
        return self._simulator.load_placement(_check.path("path", path))

    def save_placement(self, placement: npt.ArrayLike, path: str | os.PathLike[str]) -> None:
        """Writes a placement.json."""
        self._simulator.save_placement(as_placements(placement, "placement"), _check.path("path", path))

    def __deepcopy__(self, memo: Any) -> Simulator:
        return self  # it cannot change; Gymnasium copies the arguments of environments

    def __repr__(self) -> str:
        return f"Simulator({self.graph!r}, {self.cluster!r}, {self.costs.text!r}, engine={self.engine!r})"


def as_placements(placements: npt.ArrayLike, name: str = "placements") -> Placement:
    """Device numbers as int16 in C order; the same array if it is that already. Raises InputError on others."""
    if isinstance(placements, np.ndarray) and placements.dtype == np.int16 and placements.flags.c_contiguous:
        return placements
    return np.ascontiguousarray(_check.integers(name, placements, -2**15, 2**15 - 1), np.int16)
