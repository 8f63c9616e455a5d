"""Searches for placements with agents."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core
from emplace.graph import Grouping
from emplace.simulator import Simulator, as_placements

# Agents that load LibTorch, into a process that may have PyTorch's own.
_WITH_LIBTORCH = ("hierarchical", "coloc_rl", "sgdp")


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    placement: int16 (ops,), None if nothing that fits was found. step_ns: its step time in nanoseconds. peak_bytes:
    (devices,). trace: evaluations so far and the best step time in us, at each improvement. fitting: evaluations whose
    placement fits. overflow_bytes: if nothing fits, by how much the nearest is over. episodes: of learning agents,
    rows of evaluations, last step time, best step time (us), entropy; of more than 256 episodes only some. policy:
    what a learning agent learned.
    """
    agent: str
    seed: int
    placement: npt.NDArray[np.int16] | None
    step_ns: int | None
    peak_bytes: npt.NDArray[np.int64] | None
    evaluations: int
    num_groups: int
    fitting: int
    single_device_us: float
    overflow_bytes: float | None
    trace: list[tuple[int, float]]
    note: str
    episodes: list[tuple[int, float, float, float]] = field(repr=False)
    policy: bytes = field(repr=False)


def place(simulator: Simulator, agent: str | type = "multilevel_search", settings: Mapping[str, Any] | None = None, *,
          grouping: Grouping | str = "", groups: int = 256, evaluations: int | None = None, objective: str = "",
          reward: str = "", schedule: str = "", micro_batches: int | None = None, seed: int = 1, threads: int = 0,
          start: npt.ArrayLike | None = None, checkpoint: str | os.PathLike[str] = "",
          policy: str | os.PathLike[str] = "") -> SearchResult:
    """Searches for a placement with a short step time; the options are those of `emplace place`.

    agent: a name of emplace.names("agents"), or an agent in Python: a class that can be imported, or "module:Class"
    (see docs/python.md). settings: its options. grouping: a Grouping, or the name of a grouper; "" is the agent's own
    choice. evaluations: the budget; None is the agent's own. start: a placement of ops to start from. checkpoint: a file
    to resume from and to save to. policy: a file with a learned policy to apply.

    The same arguments give the same result, whatever the number of threads. Ctrl-C ends the search with
    KeyboardInterrupt.
    """
    _check.instance("simulator", simulator, Simulator)
    name = _agent_name("agent", agent)
    if name in _WITH_LIBTORCH and "torch" in sys.modules:
        raise _core.InputError(f"--agent: {name} needs LibTorch, of which this process already has PyTorch's "
                               "(run `emplace place`, or do not import torch)")
    if not isinstance(grouping, (Grouping, str)):
        _check.refuse("grouping", grouping, "a Grouping, or the name of a grouper")
    given, by_name = ((grouping._grouping, "") if isinstance(grouping, Grouping)
                      else (None, _check.text("grouping", grouping)))
    core = _core.place(simulator._simulator, name, _check.settings("settings", settings), by_name, given,
                       _check.integer("groups", groups, 1, 2**32), _budget("evaluations", evaluations),
                       _check.text("objective", objective), _check.text("reward", reward),
                       _check.text("schedule", schedule), _budget("micro_batches", micro_batches),
                       _check.integer("seed", seed, 0, _check.SEED), _check.integer("threads", threads, 0, 1024),
                       None if start is None else as_placements(start, "start"),
                       _check.path("checkpoint", checkpoint, may_be_empty=True),
                       _check.path("policy", policy, may_be_empty=True))
    found = core.pop("found")
    core["peak_bytes"] = np.array(core["peak_bytes"], np.int64) if found else None
    return SearchResult(agent=name, seed=seed, **core)


def compare(simulator: Simulator, agents: Sequence[str | type], *, seed: int = 1, **options: Any) -> list[SearchResult]:
    """Runs several agents on one problem; `options` as for place(). A budget is for those that search."""
    if isinstance(agents, str) or not isinstance(agents, Sequence):
        _check.refuse("agents", agents, "a list of agents")
    results = []
    for i, agent in enumerate(agents):
        own = dict(options)
        if not _core.agent_defaults(_agent_name(f"agents[{i}]", agent))["searches"]:
            own.pop("evaluations", None)
            own.pop("start", None)
        results.append(place(simulator, agent, seed=seed, **own))
    return results


def _budget(name: str, value: int | None) -> int:
    return 0 if value is None else _check.integer(name, value, 1, 2**40)


def _agent_name(argument: str, agent: str | type) -> str:
    if isinstance(agent, str):
        return _check.text(argument, agent)
    if not isinstance(agent, type):
        _check.refuse(argument, agent, "an agent's name, or a class")
    if agent.__module__ == "__main__":
        raise _core.InputError(f"--agent: {agent.__qualname__} is of __main__, which another process cannot import "
                               "(a module of its own)")
    return f"{agent.__module__}:{agent.__qualname__}"
