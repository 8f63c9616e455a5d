"""Searches for placements with agents."""

from __future__ import annotations

import difflib
import inspect
import os
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core, _process
from emplace.cluster import Cluster, Costs
from emplace.graph import Graph, Grouping
from emplace.simulator import Simulator, as_placements


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    placement: int16 (ops,), None if nothing that fits was found. step_ns: its step time in nanoseconds. peak_bytes:
    (devices,). trace: evaluations so far and the best step time in us, at each improvement. fitting: evaluations whose
    placement fits. single_ops_us: with a grouping of whole modules, modules or layers, the step time of a further search
    that moves single ops, which frameworks do not, from this placement. overflow_bytes: if nothing fits, by how much the nearest is over. episodes: of learning agents,
    rows of evaluations, last step time, best step time (us), entropy; of more than 256 episodes only some. policy:
    what a learning agent learned. simulator: of the problem.
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
    single_ops_us: float | None
    overflow_bytes: float | None
    trace: list[tuple[int, float]]
    note: str
    episodes: list[tuple[int, float, float, float]] = field(repr=False)
    policy: bytes = field(repr=False)
    simulator: Simulator | None = field(default=None, repr=False, compare=False)


# What may be given by keyword, as the program's options are made of the same list.
_SETTINGS = {row["keyword"]: row for row in _core.search_settings()}


def place(simulator: Simulator | Graph, agent: str | type = "multilevel_search",
          settings: Mapping[str, Any] | None = None, *, cluster: Cluster | str | None = None, costs: Costs | str = "",
          grouping: Grouping | str = "", start: npt.ArrayLike | str | None = None,
          checkpoint: str | os.PathLike[str] = "", policy: str | os.PathLike[str] = "", **options: Any) -> SearchResult:
    """Searches for a placement with a short step time; the options are those of `emplace place`.

    simulator: of the problem; or its graph, with `cluster` (one, or its file or shipped name) and `costs` (as of a
    Simulator).
    agent: a name of emplace.names("agents"), or an agent in Python: a class that can be imported, or "module:Class"
    (see docs/python.md). settings: its options. grouping: a Grouping, or the name of a grouper; "" is the agent's own
    choice. start: a placement of ops to start from, or the name of one. checkpoint: a file to resume from and to save
    to. policy: a file with a learned policy to apply.

    A search that needs LibTorch runs in a process of its own, because this one may have PyTorch's.
    The same arguments give the same result, whatever the number of threads. Ctrl-C ends the search with
    KeyboardInterrupt. Raises InputError on a wrong value, and on two that do not go together.
    """
    simulator = _simulator_of(simulator, cluster, costs)
    name = _agent_name("agent", agent)
    if not isinstance(grouping, (Grouping, str)):
        _check.refuse("grouping", grouping, "a Grouping, or the name of a grouper")
    by_name = {"agent": name, "settings": _check.settings("settings", settings), **options}
    if isinstance(grouping, str):
        by_name["grouping"] = grouping
    if isinstance(start, str):
        by_name["start"] = start
    checked = {key: _checked(key, value) for key, value in by_name.items() if not _is_default(key, value)}
    run = _process.place if _core.needs_libtorch(checked) else _core.place
    core = run(simulator._simulator, checked, grouping.group_of_op if isinstance(grouping, Grouping) else None,
               None if start is None or isinstance(start, str) else as_placements(start, "start"),
               _check.path("checkpoint", checkpoint, may_be_empty=True),
               _check.path("policy", policy, may_be_empty=True))
    found = core.pop("found")
    core["peak_bytes"] = np.array(core["peak_bytes"], np.int64) if found else None
    return SearchResult(agent=name, seed=options.get("seed", 1), simulator=simulator, **core)


def _simulator_of(problem: Simulator | Graph, cluster: Cluster | str | None, costs: Costs | str) -> Simulator:
    if isinstance(problem, Simulator):
        if cluster is not None or costs != "":
            given = "costs" if cluster is None else "cluster"
            raise _core.InputError(f"{given}: the simulator has one already (a graph instead of the simulator)")
        return problem
    if not isinstance(problem, Graph):
        _check.refuse("simulator", problem, "a Simulator, or a Graph with cluster=")
    if cluster is None:
        raise _core.InputError("cluster: is missing (where the graph is placed)")
    return Simulator(problem, cluster if isinstance(cluster, Cluster) else Cluster(_check.text("cluster", cluster)), costs)


def _is_default(keyword: str, value: Any) -> bool:
    """Whether a setting is left to its default: by None, an empty text, or 0 threads."""
    row = _SETTINGS.get(keyword)
    if row is None:
        return False
    if row["kind"] == "text":
        return isinstance(value, str) and value == ""
    return row["least"] > 0 and (value is None or (keyword == "threads" and value is not False and value == 0))


def _checked(keyword: str, value: Any) -> Any:
    row = _SETTINGS.get(keyword)
    if row is None:
        close = difflib.get_close_matches(keyword, _SETTINGS, 1)
        raise TypeError(f"place() got an unexpected keyword argument '{keyword}'" +
                        (f"; did you mean '{close[0]}'?" if close else ""))
    if row["kind"] == "integer":
        return _check.integer(keyword, value, row["least"], row["most"])
    if row["kind"] == "number":
        return _check.number(keyword, value, row["low"], row["high"])
    return value if row["kind"] == "options" else _check.text(keyword, value)


def _describe() -> None:
    """Gives place() the keywords of the list, in its signature and its documentation."""
    signature = inspect.signature(place)
    named = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    rows = [row for keyword, row in _SETTINGS.items() if keyword not in signature.parameters]
    more = [inspect.Parameter(row["keyword"], inspect.Parameter.KEYWORD_ONLY, default=None) for row in rows]
    place.__signature__ = signature.replace(parameters=named + more)  # type: ignore[attr-defined]
    place.__doc__ = f"{(place.__doc__ or '').rstrip()}\n\n" + "\n".join(
        f"    {row['keyword']}: {row['help']}" for row in rows) + "\n    "


_describe()


def compare(simulator: Simulator, agents: Sequence[str | type], *, seed: int = 1, **options: Any) -> list[SearchResult]:
    """Runs several agents on one problem; `options` as for place(). A budget is for those that search."""
    if isinstance(agents, str) or not isinstance(agents, Sequence):
        _check.refuse("agents", agents, "a list of agents")
    results = []
    for i, agent in enumerate(agents):
        own = dict(options)
        if not _core.agent_defaults(_agent_name(f"agents[{i}]", agent))["searches"]:
            own.pop("evaluations", None)
            own.pop("episodes", None)
            own.pop("start", None)
        results.append(place(simulator, agent, seed=seed, **own))
    return results


def _agent_name(argument: str, agent: str | type) -> str:
    if isinstance(agent, str):
        return _check.text(argument, agent)
    if not isinstance(agent, type):
        _check.refuse(argument, agent, "an agent's name, or a class")
    if agent.__module__ == "__main__":
        raise _core.InputError(f"agent: {agent.__qualname__} is of __main__, which another process cannot import "
                               "(a module of its own)")
    return f"{agent.__module__}:{agent.__qualname__}"
