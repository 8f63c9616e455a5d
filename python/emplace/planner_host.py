"""Runs a planner in Python for `emplace library score --tier plans MODULE:FUNCTION`, which starts this script.

The function gets a cell, a dict with its network, its cluster and its legal settings. It returns one of these settings,
or several, the best first; or it yields them, and each `yield` returns what was measured: the time of a step in seconds,
or None if the setting did not run. Lines are exchanged as with a program (docs/library.md)."""

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from typing import Any


def settings_of(proposed: Any) -> Generator[Any, Any, None]:
    """The generator of what a planner proposes, whichever way it does."""
    if proposed is None:
        return
    if isinstance(proposed, dict):
        yield proposed
    elif hasattr(proposed, "send"):
        yield from proposed
    else:
        for setting in proposed:
            yield setting


def exchange(cell: Any, function: Callable[[Any], Any], read: Callable[[], str], write: Callable[[Any], None]) -> None:
    settings = settings_of(function(cell))
    answer = None
    while True:
        try:
            setting = settings.send(answer)
        except StopIteration:
            return
        write(setting)
        line = read()
        if not line:
            settings.close()
            return
        answer = json.loads(line).get("step_s")


def described(error: BaseException) -> str:
    """The error as one line, with the last line of the planner's own files that raised it."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != "<string>" and not frame.filename.startswith("<frozen")]
    own = [frame for frame in frames if not frame.filename.startswith(os.path.dirname(importlib.__file__))]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: {text}" if own else text


def end_with_the_program() -> None:
    """Has the kernel kill this process when its parent ends, even while the planner computes (prctl(2) of Linux)."""
    set_parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    except (AttributeError, OSError):
        pass  # then it ends with its input


def main() -> None:
    end_with_the_program()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the planner prints is no proposal

    def write(value: Any) -> None:
        output.write(json.dumps(value, allow_nan=False) + "\n")
        output.flush()

    try:
        module, name = sys.argv[1].split(":", 1)
        sys.path[0] = os.getcwd()
        function = getattr(importlib.import_module(module), name)
        exchange(json.loads(sys.stdin.readline()), function, sys.stdin.readline, write)
    except BrokenPipeError:
        os._exit(0)  # the program has ended, or has heard enough
    except BaseException as error:  # pylint: disable=broad-except
        if os.environ.get("EMPLACE_TRACEBACK"):
            traceback.print_exc()
        write({"error": described(error)})


if __name__ == "__main__":
    main()
