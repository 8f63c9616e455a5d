"""Op times of a captured graph on this machine."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gc
import json
import os
import platform
import statistics
import time
from typing import Any, Iterator

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import emplace
from emplace import InputError
from emplace.torch._runner import GraphRunner

_SLOW_PROBE = 1.15  # times the fastest one
_MARK = "emplace_op_"
KINDS = {"cpu": "this-cpu", "cuda": "this-gpu"}


def measure(graph: emplace.Graph, device: str, repeats: int, seed: int, alone: bool = False,
            trimmed: float = 0.1) -> dict[str, Any]:
    """profile.json as a dictionary: the times of each op, run in the order of the step on tensors of its own shapes.

    On CPUs an op's time is that of its call. On GPUs it is that of its kernels, from PyTorch's profiler, and `host_us` that
    of the call. alone: on CPUs, the time of the operators that the call reaches, from PyTorch's profiler, without what
    other programs on the same core add to it. `mean_us` leaves out the share
    `trimmed` of the samples at either end.
    """
    runner = GraphRunner(graph, device, seed)
    data = runner.data()
    samples = _on_gpu(runner, data, repeats) if runner.device.type == "cuda" else _on_cpu(runner, data, repeats, alone)
    kind = KINDS[runner.device.type]
    signatures = dict(zip(graph.op_names, graph._graph.signatures))
    by_signature: dict[str, list[tuple[float, float]]] = {}
    for call, times in zip(runner.calls, samples):
        by_signature.setdefault(signatures[call.name], []).extend(times)
    ops = []
    for signature, times in by_signature.items():
        device_us = sorted(each for each, _ in times)
        row = {"signature": signature, "device": kind, "samples": len(times), "median_us": statistics.median(device_us),
               "mean_us": _trimmed_mean(device_us, trimmed), "p10_us": device_us[len(device_us) // 10],
               "p90_us": device_us[-1 - len(device_us) // 10]}
        if runner.device.type == "cuda":
            host_us = statistics.median(host for _, host in times)
            row |= {"host_us": host_us, "device_us": row["median_us"]}
        ops.append(row)
    # What is held to the end of the step takes no time.
    held = {signatures[name] for name, each in zip(graph.op_names, graph.op_kinds) if each == "aten::detach"}
    ops += [{"signature": signature, "device": kind, "median_us": 0} for signature in sorted(held)]
    host = {"cpu": _cpu_name(), "torch": torch.__version__, "threads": str(torch.get_num_threads())}
    if runner.device.type == "cuda":
        host["gpu"] = torch.cuda.get_device_name(runner.device)
    return {"schema": "emplace.profile", "version": 1,
            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "host": host,
            "devices": [{"kind": kind, "backend": "torch.profiler" if alone or runner.device.type == "cuda" else "clock"}],
            "ops": ops}


def write(measured: dict[str, Any], path: str) -> None:
    """The file appears whole or not at all."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(measured, file, indent=1)
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        if os.path.exists(part):
            os.remove(part)


@contextlib.contextmanager
def reused_memory() -> Iterator[None]:
    """Large tensors reuse memory, as they do where `emplace profile` runs. With the defaults of glibc, the kernel maps and
    clears the pages of a tensor of a few MB each time, which takes several times as long as an op that writes them."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # not glibc
        yield
        return
    mmap_max, trim_threshold, top_pad = -4, -1, -2
    try:
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(top_pad, 64 << 20)
        yield
    finally:
        mallopt(mmap_max, 65536)
        mallopt(trim_threshold, 128 << 10)
        mallopt(top_pad, 128 << 10)
        ctypes.CDLL(None).malloc_trim(0)


def _on_cpu(runner: GraphRunner, data: Any, repeats: int, alone: bool) -> list[list[tuple[float, float]]]:
    samples: list[list[tuple[float, float]]] = [[] for _ in runner.calls]
    probes: list[int] = []  # of each sample, the slower one of those before and after it

    def probe() -> int:  # arithmetic that leaves the caches to the ops
        begin = time.perf_counter_ns()
        sum(range(2000))
        return time.perf_counter_ns() - begin

    def timed(i: int, call: Any) -> None:
        begin = time.perf_counter_ns()
        call()
        micros = (time.perf_counter_ns() - begin) / 1e3
        samples[i].append((micros, micros))

    def between_probes(i: int, call: Any) -> None:
        before = probe()
        with record_function(f"{_MARK}{i}"):
            call()
        probes.append(max(before, probe()))

    with torch.no_grad():
        for _ in range(2):  # the first runs fill caches and allocate
            runner.run(data)
        gc.collect()
        gc.disable()
        try:
            if not alone:
                for _ in range(repeats):
                    runner.run(data, timed)
                return samples
            added = _added_by_event()
            with profile(activities=[ProfilerActivity.CPU]) as trace:
                for _ in range(repeats):
                    runner.run(data, between_probes)
        finally:
            gc.enable()
    for i, micros in _times_of_operators(trace, added):
        samples[i].append((micros, micros))
    return [_undisturbed(each, probes[i::len(samples)], min(probes)) for i, each in enumerate(samples)]


def _added_by_event() -> float:
    """What PyTorch's profiler adds to the time of an operator for each operator that it calls, in us."""
    number, product = torch.ones(1), torch.ops.aten.mul.Scalar

    def calls() -> float:
        begin = time.perf_counter_ns()
        for _ in range(200):
            product(number, 2)
        return (time.perf_counter_ns() - begin) / 200e3

    rounds = 10
    alone = min(calls() for _ in range(rounds))
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        recorded = min(calls() for _ in range(rounds))
    return max(0.0, recorded - alone) / (len(trace.events()) / (200 * rounds))


def _times_of_operators(trace: Any, added: float) -> Iterator[tuple[int, float]]:
    """For each op the time of the operators that it calls, without that of Python around them and of the profiler within."""
    def called(event: Any) -> int:
        return sum(1 + called(each) for each in event.cpu_children)

    for event in trace.events():
        if event.name.startswith(_MARK):
            own = [each for each in event.cpu_children if not each.name.startswith(_MARK)]
            yield int(event.name[len(_MARK):]), sum(
                max(0.0, each.time_range.elapsed_us() - added * called(each)) for each in own or [event])


def _undisturbed(samples: list[tuple[float, float]], probes: list[int], fastest: int) -> list[tuple[float, float]]:
    """Those between two fast probes, or all if there are none: a program on the same core slows both down."""
    return [sample for sample, probe in zip(samples, probes) if probe <= _SLOW_PROBE * fastest] or samples


def _on_gpu(runner: GraphRunner, data: Any, repeats: int) -> list[list[tuple[float, float]]]:
    def named(i: int, call: Any) -> None:
        with record_function(f"{_MARK}{i}"):
            call()

    samples: list[list[tuple[float, float]]] = [[] for _ in runner.calls]
    with torch.no_grad():
        runner.run(data)
        for _ in range(repeats):
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
                runner.run(data, named)
                torch.cuda.synchronize()
            for event in trace.events():
                if event.name.startswith(_MARK) and event.device_type == torch.autograd.DeviceType.CPU:
                    samples[int(event.name[len(_MARK):])].append((float(event.device_time_total), float(event.cpu_time_total)))
    return samples


def _trimmed_mean(ordered: list[float], trimmed: float) -> float:
    """Without a share of the samples at either end."""
    cut = int(len(ordered) * trimmed)
    return statistics.fmean(ordered[cut:len(ordered) - cut])


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine() or os.uname().machine
