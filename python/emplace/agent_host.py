"""Runs an agent written as a Python class, in a process of its own for each search.

The program starts it as `python3 -c THIS_TEXT FD MODULE:CLASS` and sends requests over the socket FD. Each request and
each answer is one line of JSON. It needs only the standard library; if numpy is installed, arrays are numpy arrays. What
the agent prints goes to standard error.
"""

import base64
import importlib
import inspect
import itertools
import json
import os
import pickle
import random
import select
import signal
import socket
import sys
import traceback

try:
    import numpy
except ImportError:
    numpy = None

try:
    import ctypes
except ImportError:
    ctypes = None

MOST_PLACEMENTS = 2**20  # in one proposal
MOST_CHARACTERS = 1000  # in a message; the program may shorten it further


def array(values, dtype):
    """The values as a numpy array or, without numpy, unchanged."""
    return values if numpy is None else numpy.array(values, dtype)


class Problem:
    """What an agent knows about a graph: groups of ops in topological order, and devices."""

    def __init__(self, question):
        for key in ("index", "num_groups", "num_devices", "group_names", "device_names", "accelerators", "evaluations", "num_graphs"):
            setattr(self, key, question[key])
        self.is_cpu = array(question["is_cpu"], bool)
        self.time_us = array([[float("nan") if one is None else one for one in row] for row in question["time_us"]],
                             float)
        self.allowed = array([[one is not None for one in row] for row in question["time_us"]], bool)
        for key in ("persistent_bytes", "temp_bytes", "output_bytes"):
            setattr(self, key, array(question[key], "int64"))
        edges = question["edges"]
        self.edges = edges if numpy is None else numpy.array(edges, "int64").reshape(2, -1)
        self.start = None if question["start"] is None else array(question["start"], "int16")


class Results:
    """The results of a proposal: step_us, fits and reward, with one value for each placement."""

    def __init__(self, question):
        self.step_us = array(question["step_us"], float)
        self.fits = array(question["fits"], bool)
        self.reward = array(question["reward"], float)

    def __len__(self):
        return len(self.step_us)


def setting(text):
    """The value of an option: a bool, an int or a float if the text is one, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def whole(device):
    """The index of a device as an int. Raises ValueError for a fraction."""
    number = int(device)
    if number != device:
        raise ValueError(f"{device} is not the number of a device")
    return number


def devices_of(placement):
    """The device indices of a placement, which may be an array, as ints."""
    devices = placement.tolist() if hasattr(placement, "tolist") else list(placement)
    return [device if type(device) is int else whole(device) for device in devices]


def shortened(thing):
    """The thing as valid Unicode text of limited length."""
    return str(thing)[:MOST_CHARACTERS].encode(errors="replace").decode()


def pickled(thing):
    """The thing as text."""
    return base64.b64encode(pickle.dumps(thing, protocol=4)).decode()


def unpickled(text):
    return pickle.loads(base64.b64decode(text))


class Host:
    def __init__(self, name):
        self.name = name
        self.agent = None
        self.problems = {}
        self.proposed = None

    def make(self, question):
        module, _, path = self.name.partition(":")
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        for needed in ("propose", "observe"):
            if not callable(getattr(found, needed, None)):
                raise TypeError(f"{self.name} has no function {needed} (a class with propose and observe)")
        settings = {key: setting(text) for key, text in question["settings"].items()}
        self.agent = found(**settings)
        return {"has_policy": all(callable(getattr(found, name, None)) for name in ("policy", "load_policy"))}

    def problem(self, question):
        problem = Problem(question)
        self.problems[problem.index] = problem
        return {}

    def propose(self, question):
        seed = question["seed"]
        rng = random.Random(seed) if numpy is None else numpy.random.default_rng(seed)
        problem = self.problems[question["index"]]
        placements = self.agent.propose(problem, rng)
        # Placements beyond the budget would not be evaluated, and the iterator may be infinite.
        most = min(max(problem.evaluations, 1), MOST_PLACEMENTS + 1)
        try:
            self.proposed = [devices_of(placement) for placement in itertools.islice(iter(placements), most)]
        except (TypeError, ValueError) as error:
            raise TypeError(f"propose returned a {type(placements).__name__} that is not a list of placements, each a "
                            f"device for each group ({error})") from None
        return {"placements": self.proposed}

    def observe(self, question):
        results = Results(question)
        placements = array(self.proposed[:len(results)], "int16")
        self.agent.observe(self.problems[question["index"]], placements, results)
        try:
            return {"note": shortened(self.call("note", ""))}
        except Exception as error:  # pylint: disable=broad-except
            return {"note": "note() failed: " + described(error, self.agent)["error"]}  # must not end the search

    def save(self, question):
        return {"state": pickled(self.agent.state() if hasattr(self.agent, "state") else self.agent.__dict__)}

    def policy(self, question):
        return {"state": pickled(self.agent.policy())}

    def load_policy(self, question):
        self.agent.load_policy(unpickled(question["state"]))
        return {}

    def load(self, question):
        state = unpickled(question["state"])
        if hasattr(self.agent, "restore"):
            self.agent.restore(state)
        else:
            self.agent.__dict__.update(state)
        return {}

    def call(self, function, default):
        """The result of an optional function of the agent, or the default if it has none."""
        return getattr(self.agent, function)() if hasattr(self.agent, function) else default

    def answer(self, question):
        answer = getattr(self, question["ask"])(question)
        answer["finished"] = bool(self.call("finished", False))
        return answer


def described(error, agent):
    """The error as one line, and the line of the agent's file that raised it."""
    try:
        text = " ".join(shortened(error).split())
    except BaseException as nested:  # pylint: disable=broad-except
        text = f"its text could not be formatted ({type(nested).__name__})"
    answer = {"error": type(error).__name__ + (": " + text if text else "")}
    if isinstance(error, SyntaxError) and error.filename:
        answer["error"] = f"{type(error).__name__}: {error.msg}"
        answer["place"] = f"{error.filename}:{error.lineno}"
        return answer
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != "<string>" and not frame.filename.startswith("<frozen")]
    own = None
    try:
        own = inspect.getfile(type(agent))
    except Exception:  # pylint: disable=broad-except
        pass
    own_frames = [frame for frame in frames if frame.filename == own]
    if own_frames or frames:
        frame = (own_frames or frames)[-1]
        if not frame.filename.startswith(os.path.dirname(importlib.__file__)):
            answer["place"] = f"{frame.filename}:{frame.lineno}"
    return answer


def end_with_the_program(descriptor):
    """Has the kernel kill this process when its parent ends, even while the agent computes (prctl(2) of Linux)."""
    set_parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    except (AttributeError, OSError):
        return  # then it ends after the agent's next answer
    poll = select.poll()
    poll.register(descriptor, 0)
    if poll.poll(0):  # the other end is closed, so the program has ended already
        os._exit(1)


def lines_of(stream):
    """Yields lines until the program closes its end, even if it has not read all answers."""
    while True:
        try:
            line = stream.readline()
        except OSError:
            return
        if not line:
            return
        yield line


def main():
    descriptor, name = int(sys.argv[1]), sys.argv[2]
    for each in (signal.SIGINT, signal.SIGTERM):  # the program decides what these signals end
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # so that a background process group may print to the terminal
    end_with_the_program(descriptor)
    os.dup2(2, 1)
    host = Host(name)
    stream = socket.socket(fileno=descriptor).makefile("rwb")
    for line in lines_of(stream):
        try:
            answer = host.answer(json.loads(line))
        # This includes the agent's SystemExit and KeyboardInterrupt: only the end of the requests ends this process.
        except BaseException as error:  # pylint: disable=broad-except
            answer = described(error, host.agent)
            if os.environ.get("EMPLACE_TRACEBACK"):
                traceback.print_exc()
        try:
            stream.write(json.dumps(answer, allow_nan=False).encode() + b"\n")
            stream.flush()
        except OSError:  # the program has ended, or the agent has closed the socket
            os._exit(1)


if __name__ == "__main__":
    main()
