"""Runs a function in a process of its own, with limits: PyTorch can abort a process, or take hours and all memory."""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
import time
from typing import Any, Callable, NoReturn

from emplace import InputError


_PR_SET_PDEATHSIG = 1  # prctl(2)


def fork(life: Callable[[], NoReturn]) -> int:
    """The ID of a forked process that runs life(), and which Linux ends when its parent ends in whichever way."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        except (OSError, AttributeError):  # another system
            pass
        if os.getppid() == parent:
            life()
        os._exit(1)
    return child


def call(function: Callable[[], Any], what: str, seconds: float, memory_gib: float) -> Any:
    """The result of function() in a forked process, which sees all of this one's objects and changes none.

    what: of what errors speak, such as "capture". The result is pickled. Raises InputError if the function raises one,
    if it takes longer than `seconds` or if the process grows by more than `memory_gib`, and if the process dies.
    """
    reading, writing = os.pipe()
    child = fork(lambda: _run(function, what, reading, writing))
    os.close(writing)
    try:
        data = _read(reading, child, what, seconds, memory_gib)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(reading)
    _, status = os.waitpid(child, 0)
    if not data:
        died = f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else \
            f"exit status {os.WEXITSTATUS(status)}"
        raise InputError(f"{what}: PyTorch ended its process ({died})")
    result, error = pickle.loads(data)
    if error is not None:
        raise InputError(error)
    return result


def _run(function: Callable[[], Any], what: str, reading: int, writing: int) -> NoReturn:
    """The child's life. It ends here, without the parent's handlers at exit, and what PyTorch prints is not shown."""
    try:
        os.close(reading)
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silence, stream)
        try:
            result: tuple[Any, str | None] = (function(), None)
        except InputError as error:
            result = (None, str(error))
        except Exception as error:
            lines = str(error).splitlines() or [""]
            result = (None, f"{what}: {type(error).__name__}: {lines[0]}")
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    finally:
        os._exit(1)


def _read(reading: int, child: int, what: str, seconds: float, memory_gib: float) -> bytes:
    end = time.monotonic() + seconds
    before = _resident_bytes(child)
    parts = []
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise InputError(f"{what}: takes longer than {seconds:g} s (a larger seconds=, or a smaller model)")
        if (_resident_bytes(child) - before) / 2**30 > memory_gib:
            raise InputError(f"{what}: takes more than {memory_gib:g} GiB of memory (a larger memory_gib=, or a model made "
                             'under torch.device("meta"))')
        ready, _, _ = select.select([reading], [], [], min(left, 0.05))
        if ready:
            part = os.read(reading, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)


def _resident_bytes(process: int) -> int:
    """0 where the system does not say."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
