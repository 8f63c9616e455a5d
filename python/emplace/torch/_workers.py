"""Processes that run one program together, with torch.distributed on gloo."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from emplace import InputError


def run(function: Callable[[int], Any], processes: int, seconds: float = 600, threads: Sequence[int] | None = None) -> list[Any]:
    """function(rank) in each of forked processes that form a process group; their results, which are pickled.

    threads: of each process, one by default. Raises InputError with the first error that a process raised, and after
    `seconds`; no process is left.
    """
    folder = tempfile.mkdtemp(prefix="emplace_processes_")
    children: list[int] = []
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                _be_worker(function, rank, processes, folder, 1 if threads is None else threads[rank])
            children.append(child)
        _wait(children, folder, seconds)
        results = []
        for rank in range(processes):
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


def _wait(children: list[int], folder: str, seconds: float) -> None:
    """Until all have ended. `children` keeps those that run."""
    end = time.monotonic() + seconds
    ranks = {child: rank for rank, child in enumerate(children)}
    while children:
        for child in list(children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended == 0:
                continue
            children.remove(child)
            if status != 0:
                raise InputError(f"process {ranks[child]}: {_error_of(folder, ranks[child], status)}")
        if time.monotonic() > end:
            raise InputError(f"processes: take longer than {seconds:g} s")
        time.sleep(0.002)


def _error_of(folder: str, rank: int, status: int) -> str:
    try:
        with open(f"{folder}/error{rank}", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return f"ended with status {status}"


def _be_worker(function: Callable[[int], Any], rank: int, processes: int, folder: str, threads: int) -> None:
    """The process's life; it does not return."""
    status = 1
    try:
        torch.set_num_threads(threads)
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes)
        result = function(rank)
        with open(f"{folder}/result{rank}.part", "wb") as file:
            pickle.dump(result, file)
        os.replace(f"{folder}/result{rank}.part", f"{folder}/result{rank}")
        dist.barrier()
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
