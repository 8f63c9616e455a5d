"""Processes that run one program together, with torch.distributed."""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Any, Callable, NoReturn, Sequence

import torch
import torch.distributed as dist

from emplace import InputError
from emplace.torch import _devices, _process


_PERIOD = 0.01  # seconds


@dataclass(frozen=True)
class Processes:
    """Processes that stand for devices. threads: of each, one by default. speeds: of each, above 0 and at most 1: a process
    of speed 0.4 is stopped for 6 of each 10 ms. seconds: the limit of a run. devices: what they run on."""
    count: int
    threads: Sequence[int] | None = None
    speeds: Sequence[float] | None = None
    seconds: float = 600
    devices: _devices.Cpus = _devices.Cpus()


def run(function: Callable[[int], Any], processes: Processes) -> list[Any]:
    """function(rank) in each of forked processes that form a process group; their results, which are pickled.

    Raises InputError with the first error that a process raised, and after processes.seconds; no process is left.
    """
    folder = tempfile.mkdtemp(prefix="emplace_processes_")
    children: list[int] = []
    try:
        for rank in range(processes.count):
            children.append(_process.fork(functools.partial(_be_worker, function, rank, processes, folder)))
        _wait(children, folder, processes)
        results = []
        for rank in range(processes.count):
            with open(f"{folder}/result{rank}", "rb") as file:
                results.append(pickle.load(file))
        return results
    finally:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        shutil.rmtree(folder, ignore_errors=True)


def _wait(children: list[int], folder: str, processes: Processes) -> None:
    """Until all have ended. `children` keeps those that run."""
    begin = time.monotonic()
    ranks = {child: rank for rank, child in enumerate(children)}
    slow = {child: processes.speeds[rank] for child, rank in ranks.items() if processes.speeds and processes.speeds[rank] < 1}
    stopped: set[int] = set()
    while children:
        phase = (time.monotonic() - begin) % _PERIOD / _PERIOD
        for child, speed in slow.items():
            if (phase >= speed) == (child in stopped) or child not in children:
                continue
            os.kill(child, signal.SIGCONT if child in stopped else signal.SIGSTOP)
            stopped.symmetric_difference_update({child})
        for child in list(children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended == 0:
                continue
            children.remove(child)
            if status != 0:
                raise InputError(f"process {ranks[child]}: {_error_of(folder, ranks[child], status)}")
        if time.monotonic() > begin + processes.seconds:
            raise InputError(f"processes: take longer than {processes.seconds:g} s")
        time.sleep(0.0005 if slow else 0.002)


def _error_of(folder: str, rank: int, status: int) -> str:
    try:
        with open(f"{folder}/error{rank}", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return f"ended with status {status}"


def _be_worker(function: Callable[[int], Any], rank: int, processes: Processes, folder: str) -> NoReturn:
    """The process's life; it does not return."""
    status = 1
    try:
        warnings.simplefilter("ignore", FutureWarning)  # of names of collectives that PyTorch changes
        torch.set_num_threads(processes.threads[rank] if processes.threads else 1)
        devices = processes.devices
        devices.begin(rank)
        dist.init_process_group(devices.backend, init_method=f"file://{folder}/store", rank=rank, world_size=processes.count)
        result = function(rank)
        with open(f"{folder}/result{rank}.part", "wb") as file:
            pickle.dump(result, file)
        os.replace(f"{folder}/result{rank}.part", f"{folder}/result{rank}")
        devices.barrier()
        devices.end()
        status = 0
    except BaseException as error:
        with open(f"{folder}/error{rank}", "w", encoding="utf-8") as file:
            file.write(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
        if os.environ.get("EMPLACE_TRACEBACK"):
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
