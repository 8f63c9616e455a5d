"""Runs a search in a process of its own, for agents whose networks are LibTorch's: two LibTorches in one process would
end it, and this one may have PyTorch's, or import it later."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from emplace import _core

_PROGRAM = "import sys; sys.path[:] = {path!r}; from emplace import _process; _process.main({descriptor})"
_ERRORS = {"InputError": _core.InputError, "MemoryError": MemoryError}  # others are RuntimeErrors, as _core's are


def place(*arguments: Any) -> dict[str, Any]:
    """What _core.place returns or raises for the arguments. Ctrl-C ends the search there as it does here."""
    agent = arguments[1]["agent"]
    ours, theirs = multiprocessing.Pipe()
    with ours:
        with theirs:
            try:
                child = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM.format(path=_import_path(), descriptor=theirs.fileno())],
                    stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
            except (OSError, TypeError, ValueError) as error:  # the last two where Python does not know its own path
                raise _core.InputError(f"{agent}: its process cannot be started ({error})") from None
        try:
            return _outcome(agent, child, ours, arguments)
        except BaseException:  # of Ctrl-C, or of another signal's handler
            try:
                ours.send_bytes(b"stop")
                child.wait()  # while it saves its checkpoint
            except OSError:
                pass  # it has ended
            raise
        finally:
            child.kill()
            child.wait()


def _outcome(agent: str, child: subprocess.Popen[bytes], connection: Connection, arguments: Any) -> dict[str, Any]:
    try:
        connection.send_bytes(pickle.dumps(arguments))
        kind, content = connection.recv()
    except (EOFError, OSError):
        code = child.wait()
        how = f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with status {code}"
        raise _core.InputError(f"{agent}: its process {how}") from None
    if kind != "found":
        raise _ERRORS.get(kind, RuntimeError)(content)
    found: dict[str, Any] = content
    return found


def _import_path() -> list[str]:
    """Where this process finds modules, with this package first: the folder may have been imported in another way."""
    return [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path]


def main(descriptor: int) -> None:
    """The other process: runs one search, and ends with the process that started it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection = Connection(descriptor)
    try:
        arguments = pickle.loads(connection.recv_bytes())
        threading.Thread(target=_listen, args=(connection,), daemon=True).start()
        answer: Any
        try:
            answer = ("found", _core.place(*arguments))
        except Exception as error:  # pylint: disable=broad-except
            answer = (type(error).__name__, str(error))
        connection.send(answer)
        os._exit(0)  # LibTorch's end takes time
    except (KeyboardInterrupt, EOFError, OSError):
        os._exit(1)


def _listen(connection: Connection) -> None:
    """Interrupts the search when it is to stop, and ends this process when the other one has ended."""
    try:
        connection.recv_bytes()
        _thread.interrupt_main()
        connection.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
