"""Runs a plan on processes or GPUs of this machine and sets the measured step beside the simulated one."""

from __future__ import annotations

import copy
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils import _pytree as pytree

import emplace
from emplace.torch import _devices, _memory, _parallel, _profile, _recompute, _workers
from emplace.torch._workers import Processes

Loss = Callable[[Any], torch.Tensor]
_BUCKET_BYTES = 25 << 20  # of DistributedDataParallel


@dataclass(frozen=True)
class Validation:
    """A plan's step, measured and simulated.

    measured_ms, simulated_ms: of a step, in the median. steps_ms: of each measured step. losses: of each step, warm-up
    included. measured_peak_bytes, simulated_peak_bytes: of tensors on each process, the largest sum at any time of a step.
    device: "cpu" or "cuda", on which the plan ran.
    """
    plan: dict[str, Any]
    measured_ms: float
    simulated_ms: float
    steps_ms: list[float] = field(repr=False)
    losses: list[float] = field(repr=False)
    measured_peak_bytes: list[int]
    simulated_peak_bytes: list[int]
    device: str = field(default="cpu", repr=False)

    @property
    def error_percent(self) -> float:
        """By how much the simulated step is longer than the measured one."""
        return 100 * (self.simulated_ms / self.measured_ms - 1)


@dataclass(frozen=True)
class Step:
    """What is run: a model, one micro-batch of its arguments, a loss of its output and an optimizer's name. recompute: the
    paths of the blocks that run again in the backward pass."""
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loss: Loss
    optimizer: str
    recompute: Sequence[str] = ()

    def on(self, device: torch.device) -> Step:
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda each: each.to(device), (self.args, self.kwargs))
        return replace(self, model=self.model.to(device), args=args, kwargs=kwargs)

    def run_again(self, model: nn.Module) -> None:
        _recompute.run_again(model.get_submodule(path) for path in self.recompute)


def optimizer_of(name: str, parameters: Any) -> torch.optim.Optimizer:
    made = {"sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
            "momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
            "adam": lambda: torch.optim.Adam(parameters, lr=1e-3),
            "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-3),
            "adafactor": lambda: torch.optim.Adafactor(parameters)}
    return made[name]()


# ---- Measuring

def run_plan(given: Step, plan: Mapping[str, Any], described: Mapping[str, Any], steps: int, warm_up: int,
             processes: Processes) -> list[dict[str, Any]]:
    """Runs the plan for real. What each process saw: times, losses, peak memory in bytes, of the last warm-up step."""
    devices = processes.devices

    def work(rank: int) -> dict[str, Any]:
        device = devices.device(rank)
        mesh = _parallel.mesh_of(plan, devices.kind)
        step = given.on(device)
        before = _memory.storages_of(step.model)

        def prepare() -> tuple[nn.Module, Callable[[], Any]]:
            if plan["pp"] > 1:
                return _parallel.pipeline_step(step.model, plan, step.args, step.kwargs, step.loss, mesh, device, step.recompute)
            return _plain_step(step, plan, described, mesh)

        def once() -> tuple[float, Any]:
            devices.barrier()
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = run_step()
            if plan["pp"] > 1 and plan["dp"] > 1:
                _average_gradients(part, mesh["dp"].get_group())
            optimizer.step()
            devices.barrier()
            elapsed = (time.perf_counter() - begin) * 1e3
            return elapsed, None if loss is None else float(loss)

        with devices.allocations() as allocations:
            part, run_step = prepare()
            held = {address: size for address, size in _memory.storages_of(part).items() if address in before}
            held |= _memory.storages_of(step.args, step.kwargs)
            optimizer = optimizer_of(step.optimizer, part.parameters())
            first = [once() for _ in range(warm_up - 1)]
            allocations.count_from_here()
            first.append(once())
        measured = [once() for _ in range(steps)]
        return {"times": [ms for ms, _ in measured], "losses": [loss for _, loss in first + measured],
                "peak": allocations.peak(sum(held.values()))}

    return _workers.run(work, processes)


def _plain_step(step: Step, plan: Mapping[str, Any], described: Mapping[str, Any],
                mesh: Any) -> tuple[nn.Module, Callable[[], float | torch.Tensor]]:
    step.run_again(step.model)
    model = _parallel.shard(step.model, plan, described, mesh)
    count = plan["grad_accumulation"]

    def run_step() -> float | torch.Tensor:
        total: float | torch.Tensor = 0.0
        for _ in range(count):
            loss = step.loss(model(*step.args, **step.kwargs))
            (loss / count).backward()
            total += _parallel.number(loss) / count
        return total

    return model, run_step


def _average_gradients(part: nn.Module, group: Any) -> None:
    for parameter in part.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad /= dist.get_world_size(group)


# ---- Costs of this machine

@dataclass(frozen=True)
class Line:
    """A time that grows with the bytes: microseconds, and microseconds for each byte."""
    micros: float
    micros_per_byte: float

    def __call__(self, size: float) -> float:
        return self.micros + size * self.micros_per_byte

    @classmethod
    def fit(cls, sizes: Sequence[int], micros: Sequence[float]) -> Line:
        """Least squares of relative errors."""
        weights = [1 / each for each in micros]
        rows = np.array([[weight, size * weight] for size, weight in zip(sizes, weights)])
        (a, b), *_ = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)
        return cls(max(0.0, float(a)), max(0.0, float(b)))


def measure_messages(processes: Processes) -> dict[str, Line]:
    """The times of collectives of gloo or NCCL over all processes, of a message between two, and of a copy in memory.

    Collectives of smaller groups, which several groups of a plan call at the same time, are taken to last as long as one of
    all processes with the same bytes for each. A smaller group has fewer exchanges to make, so that the estimate is too long
    rather than too short.
    """

    sizes = processes.devices.message_sizes

    def work(rank: int) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {}
        device = processes.devices.device(rank)
        for size in sizes:
            count = processes.count
            whole = torch.zeros(max(count, size // 4 // count * count), device=device)
            part = torch.zeros(whole.numel() // count, device=device)
            calls: dict[str, Callable[[], Any]] = {"copy": lambda: torch.empty_like(whole).copy_(whole)}
            if count > 1:
                calls |= {"all_reduce": lambda: dist.all_reduce(whole), "send": lambda: _ping_pong(whole, rank),
                          "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
                          "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole)}
            for name, call in calls.items():
                average = statistics.fmean if processes.speeds else statistics.median
                micros = _micros_of(call, processes.devices, average, repeats=15 if size < 1 << 20 else 7)
                times.setdefault(name, []).append(micros / (2 if name == "send" else 1))
        return times

    ranks = _workers.run(work, processes)
    taking_part = {name: ranks[:2] if name == "send" else ranks for name in ranks[0]}
    return {name: Line.fit(sizes, [statistics.fmean(rank[name][i] for rank in those) for i in range(len(sizes))])
            for name, those in taking_part.items()}


def _ping_pong(tensor: torch.Tensor, rank: int) -> None:
    for sender in (0, 1):
        if rank == sender:
            dist.send(tensor, 1 - sender)
        elif rank == 1 - sender:
            dist.recv(tensor, sender)


def _micros_of(call: Callable[[], Any], devices: _devices.Cpus,
               average: Callable[[list[float]], float] = statistics.median, repeats: int = 15) -> float:
    times = []
    for i in range(repeats + 2):
        devices.barrier()
        begin = time.perf_counter_ns()
        call()
        devices.synchronize()
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return average(times[2:])


def measure_wrapping(plan: Mapping[str, Any], processes: Processes, messages: Mapping[str, Line]) -> float:
    """What PyTorch's own code for tensor parallelism or FSDP takes for each pair of linear modules or each sharded module,
    in microseconds: a step of tiny modules with it less one without, less the messages."""
    if plan["tp"] == 1 and plan["zero"] < 2:
        return 0.0
    pairs = 8
    devices = processes.devices

    def work(rank: int) -> float:
        device = devices.device(rank)
        mesh = _parallel.mesh_of(plan, devices.kind)
        times = []
        for wrapped in (False, True):
            model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)) for _ in range(pairs))).to(device)
            if wrapped:
                styles = {f"{i}.{j}": ("colwise", "rowwise")[j] for i in range(pairs) for j in (0, 1)}
                paths = [str(i) for i in range(pairs)]
                _parallel.shard(model, plan, {"parallelize_plan": styles, "fully_shard": paths,
                                              "reshard_after_forward": plan["zero"] == 3, "sequence_parallel": False}, mesh)
            x = torch.randn(16, 16, requires_grad=True, device=device)
            times.append(_micros_of(lambda: model(x).sum().backward(), devices))
        return times[1] - times[0]

    per_pair = statistics.fmean(_workers.run(work, processes)) / pairs
    size = 16 * 16 * 4
    small = 0.0
    if plan["tp"] > 1:
        small += 2 * messages["all_reduce"](size)
    if plan["zero"] >= 2:
        small += (2 if plan["zero"] == 3 else 1) * messages["all_gather"](2 * size) + messages["reduce_scatter"](2 * size)
        replicas = _parallel.replicas_of(plan)
        if replicas > 1:
            small += messages["all_reduce"](2 * size * replicas / plan["dp"])
    return max(0.0, per_pair - small)


def measure_ops(graph: emplace.Graph, processes: Processes, repeats: int) -> list[dict[str, Any]]:
    """The graph's profile in each of processes that measure at the same time, as they run at the same time.

    A process that is stopped now and then takes the pauses within few of its ops, which a trimmed mean would leave out.
    """
    trimmed = 0.0 if processes.speeds else 0.1
    return _workers.run(lambda rank: _profile.measure(graph, processes.devices.kind, repeats, 1, trimmed=trimmed), processes)


# ---- Simulating

def simulate(step: Step, plan: Mapping[str, Any], described: Mapping[str, Any], processes: Processes,
             repeats: int) -> tuple[float, list[int]]:
    """The step in ms and each device's peak in bytes, from op times and message times that are measured here."""
    import emplace.torch as et

    messages = measure_messages(processes)
    model = step.model
    if plan["tp"] > 1 or step.recompute:
        model = copy.deepcopy(model)
    if plan["tp"] > 1:
        _parallel.local_shard(model, described["parallelize_plan"], plan["tp"])
    step.run_again(model)
    graph = et.capture(model, step.args, step.kwargs, loss=step.loss, optimizer=step.optimizer, seconds=processes.seconds)
    profiles = measure_ops(graph, processes, repeats)
    _set_message_times(graph, profiles, messages)
    if plan["pp"] > 1:
        return _simulate_pipeline(graph, plan, profiles, messages, processes.devices.copy_engine)
    simulator = _simulator(graph, profiles[:1], messages)
    step_ns, _ = simulator.evaluate(np.zeros(graph.num_ops, np.int16))
    update_ms = _update_ms(graph, profiles[0])
    once_ms = step_ns[0] / 1e6 - update_ms
    share = plan["dp"] // _parallel.replicas_of(plan) if plan["zero"] >= 2 else 1
    exchange_ms = _exchange_ms(graph, plan, described, messages)
    # Each pair of divided modules, or each sharded module, in each micro-batch.
    count = len(described["parallelize_plan"]) / 2 if plan["tp"] > 1 else len(described["fully_shard"])
    wrapping_ms = measure_wrapping(plan, processes, messages) * count * plan["grad_accumulation"] / 1e3
    total = once_ms * plan["grad_accumulation"] + update_ms / share + exchange_ms + wrapping_ms
    units = described["fully_shard"] if plan["zero"] >= 2 else []
    peak = _memory.simulated_peak(_memory.rank_ops(graph, plan, units, share))
    return float(total), [peak] * processes.count


def _simulate_pipeline(graph: emplace.Graph, plan: Mapping[str, Any], profiles: list[dict[str, Any]],
                       messages: Mapping[str, Line], copy_engine: bool) -> tuple[float, list[int]]:
    import emplace.torch as et

    ranks = plan["pp"]
    stride = plan["dp"] * plan["tp"]
    simulator = _simulator(graph, [profiles[rank * stride] for rank in range(ranks)], messages, copy_engine)
    placement = et.placement_of(graph, simulator.cluster, plan["stages"])
    report = simulator.report(placement, schedule=plan["schedule"], micro_batches=plan["grad_accumulation"])
    total = report["step_time_us"] / 1e3
    if plan["dp"] > 1:  # the gradients of the largest stage, at the end
        sizes = [0] * ranks
        for op, device, size in zip(graph.op_names, placement, _parameter_bytes(graph)):
            sizes[int(device)] += size
        total += messages["all_reduce"](max(sizes)) / 1e3
    return float(total), [device["peak_bytes"] for device in report["devices"]]


def _simulator(graph: emplace.Graph, profiles: list[dict[str, Any]], messages: Mapping[str, Line],
               copy_engine: bool = False) -> emplace.Simulator:
    """A simulator with one device for each profile. Devices have kinds of their own, since they may be unlike."""
    merged = dict(profiles[0], devices=[], ops=[])
    for i, profile in enumerate(profiles):
        merged["devices"].append({"kind": f"process-{i}", "backend": "clock"})
        merged["ops"] += [dict(op, device=f"process-{i}") for op in profile["ops"]]
    link = messages.get("send", Line(0, 1e-4))
    devices = [{"name": f"process:{i}", "kind": f"process-{i}", "copy_engine": copy_engine} for i in range(len(profiles))]
    cluster = {"schema": "emplace.cluster", "version": 1, "name": "processes of this machine", "devices": devices,
               "link": {"bandwidth_gb_per_s": min(1e6, 1e-3 / max(link.micros_per_byte, 1e-9)), "latency_us": link.micros}}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("profile.json", merged), ("cluster.yaml", cluster)):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                json.dump(content, file)
        here = emplace.Cluster(f"{folder}/cluster.yaml")
        return emplace.Simulator(graph, here, emplace.Costs(graph, here, profile=f"{folder}/profile.json"))


def _set_message_times(graph: emplace.Graph, profiles: list[dict[str, Any]], messages: Mapping[str, Line]) -> None:
    """Collectives within a step take what a message of their size takes; they were profiled on one process alone."""
    signatures = graph._graph.signatures
    times = {}
    for signature, kind, op in zip(signatures, graph.op_kinds, range(graph.num_ops)):
        if kind == "emplace::reduce_gradient":
            times[signature] = 0.0
        elif kind == "emplace::all_reduce":
            times[signature] = messages["all_reduce"](_output_bytes(graph, op))
    for profile in profiles:
        for row in profile["ops"]:
            if row["signature"] in times:
                row["median_us"] = row["mean_us"] = row["p10_us"] = row["p90_us"] = times[row["signature"]]


def _output_bytes(graph: emplace.Graph, op: int) -> int:
    return int(graph.tensor_bytes[graph.tensor_producers == op].sum())


def _parameter_bytes(graph: emplace.Graph) -> list[int]:
    """The bytes of the parameter that each op holds, 0 for others."""
    sizes = [0] * graph.num_ops
    tied = graph.metadata["torch"]["state_dict"]
    for tensor, producer in enumerate(graph.tensor_producers):
        name = graph.op_names[producer]
        if graph.op_kinds[producer] == "variable" and name in tied:
            sizes[producer] = int(graph.tensor_bytes[tensor])
    return sizes


def _update_ms(graph: emplace.Graph, profile: Mapping[str, Any]) -> float:
    times = {row["signature"]: row.get("mean_us", row["median_us"]) for row in profile["ops"]}
    return sum(times[signature] for signature, kind in zip(graph._graph.signatures, graph.op_kinds)
               if kind.startswith("aten::_fused_")) / 1e3


def _exchange_ms(graph: emplace.Graph, plan: Mapping[str, Any], described: Mapping[str, Any],
                 messages: Mapping[str, Line]) -> float:
    """What data parallel ranks exchange in a step. Processes have one core each, so it does not overlap with ops."""
    if plan["dp"] == 1:
        return 0.0
    by_unit: dict[str, int] = {}
    units = [path for path in described.get("fully_shard", []) if path]
    for name, size in zip(graph.op_names, _parameter_bytes(graph)):
        if size:
            unit = next((path for path in units if name.startswith(path + ".")), "")
            by_unit[unit] = by_unit.get(unit, 0) + size
    total = sum(by_unit.values())
    if plan["zero"] < 2:  # buckets are filled, reduced and read
        full, rest = divmod(total, _BUCKET_BYTES)
        micros = full * messages["all_reduce"](_BUCKET_BYTES) + messages["all_reduce"](rest) + 2 * messages["copy"](total)
        return micros / 1e3
    # Weights are gathered and copied to where modules read them, again before the backward pass unless they are kept;
    # gradients are copied together and scattered, and each part is summed over the replicas.
    replicas = _parallel.replicas_of(plan)
    shards = plan["dp"] // replicas
    gathers = 2 if plan["zero"] == 3 else 1
    micros = 0.0
    for size in by_unit.values():
        micros += gathers * (messages["all_gather"](size) + 2 * messages["copy"](size))
        micros += messages["reduce_scatter"](size) + messages["copy"](size)
        if replicas > 1:
            micros += messages["all_reduce"](size / shards)
    return micros * plan["grad_accumulation"] / 1e3
