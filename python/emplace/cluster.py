"""Clusters of devices, and the times of ops on them."""

from __future__ import annotations

import os
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core
from emplace.graph import Graph


class Cluster:
    """Devices and the links between them. The number of a device is its position in the list."""

    __slots__ = ("_cluster",)

    def __init__(self, name: str | os.PathLike[str], *, nodes: int = 1, devices: Sequence[str] = (),
                 gpus: int | None = None, unlimited_memory: bool = False,
                 _core_cluster: _core.Cluster | None = None) -> None:
        """name: a cluster.yaml, or the name of a shipped cluster (emplace.names("clusters")).

        nodes: copies, joined by the network that the file names. devices: names of those to keep. gpus: keep the first
        accelerators and every CPU. unlimited_memory: no device runs out of memory.
        """
        self._cluster = _core_cluster or _core.Cluster(_check.path("name", name),
                                                       nodes=_check.integer("nodes", nodes, 1, 1024),
                                                       **_kept(devices, gpus, unlimited_memory))

    @classmethod
    def from_yaml(cls, text: str, name: str = "text") -> Cluster:
        """Reads the text of a cluster.yaml. Errors begin with `name`."""
        return cls(name, _core_cluster=_core.Cluster.from_yaml(_check.text("text", text), _check.text("name", name)))

    def keep(self, *, devices: Sequence[str] = (), gpus: int | None = None, unlimited_memory: bool = False) -> Cluster:
        """A part of the cluster, as for the constructor."""
        kept = self._cluster.keep(**_kept(devices, gpus, unlimited_memory))
        return Cluster(self.name, _core_cluster=kept)

    def to_yaml(self) -> str:
        return self._cluster.to_yaml()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a cluster.yaml."""
        self._cluster.save(_check.path("path", path))

    @property
    def name(self) -> str:
        return self._cluster.name

    @property
    def num_devices(self) -> int:
        return self._cluster.num_devices

    @property
    def device_names(self) -> list[str]:
        return self._cluster.device_names

    @property
    def device_kinds(self) -> list[str]:
        return self._cluster.device_kinds

    @property
    def memory_bytes(self) -> npt.NDArray[np.int64]:
        """(devices,): -1 for no limit."""
        return self._cluster.memory_bytes

    @property
    def is_cpu(self) -> npt.NDArray[np.bool_]:
        """(devices,)"""
        return self._cluster.is_cpu

    @property
    def bandwidth_gb_per_s(self) -> npt.NDArray[np.float64]:
        """(devices, devices): from row to column; 0 without a link, and on the diagonal."""
        return self._cluster.bandwidth_gb_per_s

    @property
    def latency_us(self) -> npt.NDArray[np.float64]:
        """(devices, devices)"""
        return self._cluster.latency_us

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.num_devices} devices)"


class Costs:
    """The time of every op of a graph on every device of a cluster."""

    __slots__ = ("_costs", "_cluster")

    def __init__(self, graph: Graph, cluster: Cluster, model: str = "", *, profile: str | os.PathLike[str] = "",
                 tf32: str = "", runtime: str = "") -> None:
        """model: measured (the graph's own times), roofline, curves, or a device.yaml of `emplace calibrate`; with a profile,
        for the ops that it lacks. "": measured if every op has a time, else curves if all accelerators have them, else
        roofline; none beside a profile.

        profile: a profile.json. tf32: of roofline and curves, which f32 products devices compute in TF32: none, convolutions or
        all. runtime: of curves, what runs the kernels: pytorch, tensorflow, tensorflow2 or paddlepaddle. Raises InputError if
        an op has no time.
        """
        self._cluster = _check.instance("cluster", cluster, Cluster)
        self._costs = _core.Costs(_check.instance("graph", graph, Graph)._graph, cluster._cluster,
                                  _check.text("model", model),
                                  profile=_check.path("profile", profile, may_be_empty=True),
                                  tf32=_check.text("tf32", tf32), runtime=_check.text("runtime", runtime))

    @classmethod
    def _of(cls, core: _core.Costs, cluster: Cluster) -> Costs:
        costs = cls.__new__(cls)
        costs._costs = core
        costs._cluster = cluster
        return costs

    @property
    def text(self) -> str:
        """The source of the times, as in results."""
        return self._costs.text

    @property
    def detail(self) -> str:
        """With curves, how many ops each curve timed, and which took roofline; "" where `text` says all."""
        return self._costs.detail

    @property
    def fallback_ops(self) -> int:
        """The number of ops that the profile lacks."""
        return self._costs.fallback_ops

    @property
    def time_us(self) -> npt.NDArray[np.float64]:
        """(ops, devices), a new array; NaN where an op cannot run."""
        return self._costs.micros(self._cluster._cluster)

    def __repr__(self) -> str:
        return f"Costs({self.text!r})"


def _kept(devices: Sequence[str], gpus: int | None, unlimited_memory: bool) -> dict[str, Any]:
    return {"devices": _check.texts("devices", devices),
            "gpus": None if gpus is None else _check.integer("gpus", gpus, 0),
            "unlimited_memory": _check.flag("unlimited_memory", unlimited_memory)}
