"""The memory of a rank's step: what PyTorch allocates, and what a graph says."""

from __future__ import annotations

import itertools
import json
import math
import os
from typing import Any, Mapping, Sequence

import numpy as np
import torch
from torch.utils import _pytree as pytree

import emplace
from emplace.torch._graph import output_bytes

_MARK = "emplace_counted_from_here"
_CLUSTER = """
schema: emplace.cluster
version: 1
name: rank
devices: [{name: "cpu:0", kind: host}]
kinds: [{name: host, class: cpu, peak_tflop_per_s: 1, memory_bandwidth_gb_per_s: 10}]
"""


def storages_of(*values: Any) -> dict[int, int]:
    """The bytes behind tensors, modules' parameters and buffers, and structures of them, by address; those of the
    rank's part of a distributed tensor."""
    tensors: list[Any] = []
    for value in values:
        tensors += [*value.parameters(), *value.buffers()] if isinstance(value, torch.nn.Module) else pytree.tree_leaves(value)
    own = (getattr(tensor, "_local_tensor", tensor) for tensor in tensors)
    storages = (tensor.untyped_storage() for tensor in own if isinstance(tensor, torch.Tensor))
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


class Allocations:
    """A record of what the CPU's allocator gives out and takes back in the meantime. It does not see that what was allocated
    before is taken back."""

    def __enter__(self) -> Allocations:
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it announces each profile
        self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self._profiler.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._profiler.__exit__(*error)

    def count_from_here(self) -> None:
        """What is allocated before counts only as long as it is held."""
        with torch.profiler.record_function(_MARK):
            pass

    def peak(self, held: int = 0) -> int:
        """The largest number of bytes that were given out and not yet taken back. held: those that had been given out before
        the record began."""
        events = self._profiler.profiler.kineto_results.events()
        begin = max((event.start_ns() for event in events if event.name() == _MARK), default=0)
        changes = sorted((event.start_ns(), i, event.nbytes()) for i, event in enumerate(events) if event.name() == "[memory]")
        sums = itertools.accumulate(size for _, _, size in changes)
        return held + max((size for (at, _, _), size in zip(changes, sums) if at >= begin), default=0)


class GpuAllocations(Allocations):
    """The same from the statistics of the current GPU's allocator, which also count what was allocated before."""

    def __enter__(self) -> GpuAllocations:
        return self

    def __exit__(self, *error: Any) -> None:
        self._peak = torch.cuda.max_memory_allocated()

    def count_from_here(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def peak(self, held: int = 0) -> int:
        return self._peak


def simulated_peak(ops: list[dict[str, Any]]) -> int:
    """The peak in bytes of a graph's ops on one device. Times do not matter, so that each op has the same."""
    document = {"schema": "emplace.graph", "version": 1, "name": "rank", "ops": [dict(op, time_us=1) for op in ops]}
    simulator = emplace.Simulator(emplace.Graph.from_json(json.dumps(document)), emplace.Cluster.from_yaml(_CLUSTER), "measured")
    _, peak = simulator.evaluate(np.zeros(len(ops), np.int16))
    return int(peak[0, 0])


def rank_ops(graph: emplace.Graph, plan: Mapping[str, Any], units: Sequence[str], shards: int) -> list[dict[str, Any]]:
    """The ops of one rank of data parallelism, in PyTorch's order, as they hold memory.

    units: the modules that `fully_shard` wraps, "" for what is in no other. shards: ranks of a group of FSDP, 1 for others.
    With shards, the rank holds its part of each weight, of its gradient and of the optimizer's states. The weights of a unit
    are gathered where its first op reads them, in the backward pass while the unit before runs; with ZeRO 3 they are freed in
    between. Gradients of a unit are copied together, and scattered; weights are gathered together, in a buffer of FSDP's and
    one of gloo's. With several micro-batches, gradients stay to the end.
    DistributedDataParallel holds a second copy of all gradients.
    """
    ops: list[dict[str, Any]] = json.loads(graph.to_json())["ops"]
    updated = {op["inputs"][0].rpartition(":")[0] for op in ops if _is_update(op)}
    sizes = {op["name"]: output_bytes(op["outputs"][0]) for op in ops if op["name"] in updated}
    paths = sorted((path for path in units if path), key=len, reverse=True)
    unit_of = {name: next((path for path in paths if name.startswith(path + ".")), "") for name in sizes}
    new: list[dict[str, Any]] = []
    if shards > 1:
        ops = _sharded(ops, sizes, unit_of, shards, plan["zero"] == 3)
    elif plan["dp"] > 1:
        new += _kept("buckets", sum(sizes.values()))
    if plan["grad_accumulation"] > 1:
        for name in sizes:
            new += _kept(f"{name}/sum_of_gradients", sizes[name] // shards)
    return in_program_order(ops + new)


def _is_update(op: Mapping[str, Any]) -> bool:
    return op["pass"] == "update" and op["kind"].startswith("aten::_fused_")


def _kept(name: str, size: int) -> list[dict[str, Any]]:
    """What is held in the whole step, and the op that holds it."""
    return [{"name": name, "kind": "variable", "pass": "update", "outputs": [{"bytes": size}]},
            {"name": f"{name}/held", "kind": "aten::detach", "pass": "update", "inputs": [f"{name}:0"]}]


def in_program_order(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ops, each of which now waits for the one before it."""
    last = None
    for op in ops:
        if op["kind"] not in ("variable", "input"):
            if last is not None:
                op["control_inputs"] = [last]
            last = op["name"]
    return ops


def _sharded(ops: list[dict[str, Any]], sizes: Mapping[str, int], unit_of: Mapping[str, str], shards: int,
             frees: bool) -> list[dict[str, Any]]:
    members: dict[str, list[str]] = {}
    for name, unit in unit_of.items():
        members.setdefault(unit, []).append(name)
    gradient_of: dict[str, str] = {}  # the tensor, by the weight's name
    for op in filter(_is_update, ops):
        name = op["inputs"][0].rpartition(":")[0]
        gradient_of[name] = op["inputs"][1]
        op["inputs"][1] = f"{name}/scattered:0"
        op["temp_bytes"] = op.get("temp_bytes", 0) // shards
    for op in ops:  # the rank's part
        owner = op["name"] if op["name"] in sizes else op.get("colocate_with", "")
        if op["kind"] == "variable" and owner in sizes and op["outputs"][0].get("shape") != []:
            op["outputs"] = [{"bytes": math.ceil(output_bytes(op["outputs"][0]) / shards)}]
    position = {op["name"]: i for i, op in enumerate(ops)}
    last_gradient: dict[int, list[str]] = {}
    for unit, names in members.items():
        last = max(position[gradient_of[name].rpartition(":")[0]] for name in names)
        last_gradient.setdefault(last, []).append(unit)
    reads: dict[tuple[str, str], int] = {}  # the first op of each unit in each pass
    for i, op in enumerate(ops):
        for tensor in op.get("inputs", ()):
            unit = unit_of.get(tensor.rpartition(":")[0])
            if unit is not None and op["pass"] in ("forward", "backward"):
                reads.setdefault((unit, op["pass"]), i)
    backward = sorted((i, unit) for (unit, of), i in reads.items() if of == "backward")
    gathers: dict[int, list[tuple[str, str]]] = {}
    for (unit, of), i in reads.items():
        if of == "forward":
            gathers.setdefault(i, []).append((unit, of))
    if frees:
        for (before, _), (_, unit) in zip([backward[0], *backward], backward):  # while the unit before runs
            if unit:
                gathers.setdefault(before, []).append((unit, "backward"))
    result: list[dict[str, Any]] = []
    gathered: dict[tuple[str, str], str] = {}  # by the weight's tensor and the pass
    flat = None
    for i, op in enumerate(ops):
        for unit, of in gathers.get(i, ()):
            for name in members[unit]:
                gathered[f"{name}:0", of] = f"{name}/gathered_{of}:0"
                result.append({"name": f"{name}/gathered_{of}", "kind": "emplace::all_gather", "pass": of, "inputs": [f"{name}:0"],
                               "outputs": [{"bytes": sizes[name]}], "temp_bytes": 2 * sum(sizes[each] for each in members[unit])})
        if op["pass"] in ("forward", "backward"):
            op["inputs"] = [gathered.get((tensor, op["pass"])) or gathered.get((tensor, "forward")) or tensor
                            for tensor in op.get("inputs", [])]
        result.append(op)
        for unit in last_gradient.get(i, ()):
            tensors = [gradient_of[name] for name in members[unit]]
            together = {"name": f"gradients of {unit or 'others'}", "kind": "emplace::copy", "pass": "backward",
                        "inputs": tensors + ([f"{flat}:0"] if flat else []),
                        "outputs": [{"bytes": sum(sizes[name] for name in members[unit])}]}
            flat = together["name"]
            result.append(together)
            result += [{"name": f"{name}/scattered", "kind": "emplace::reduce_scatter", "pass": "backward", "inputs": [f"{flat}:0"],
                        "outputs": [{"bytes": math.ceil(sizes[name] / shards)}]} for name in members[unit]]
    return result
