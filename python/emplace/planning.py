"""How to train a network on a cluster: which parallelism, does it fit, how fast."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import dataclass, field
from typing import Any, Mapping

from emplace import _check, _core
from emplace.cluster import Cluster
from emplace.graph import Graph


@dataclass(frozen=True)
class Plan:
    """A way to divide a network over a cluster, with its predicted step. The fields are those of `emplace.plans`
    (docs/formats.md).

    gpus: the number of its accelerators. cost_of_step, cost_of_billion_tokens: in the unit of the price, if there is
    one. recompute: "none", "selective", "full", or a number of layers. memory: bytes of the fullest rank at its peak, by
    class. estimated_us: the step by the schedule's closed form, where step_time_us is simulated. time_us: what the slowest
    rank spends the step on. communication: the operations of the rank that communicates most, with the group of ranks,
    calls and bytes. refused: why the framework does not start with the plan.
    """
    dp: int
    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    zero: int
    micro_batch: int
    grad_accumulation: int
    sequence_parallel: bool
    recompute: str | int
    precision: str
    schedule: str
    step_time_us: float
    gpus: int
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    mfu_percent: float
    peak_bytes: int
    peak_reserved_bytes: int
    needed_bytes: int
    fits: bool
    fullest_pipeline_rank: int
    memory: dict[str, int]
    time_us: dict[str, float]
    communication: list[dict[str, Any]]
    refused: str | None = None
    estimated_us: float | None = None
    cost_of_step: float | None = None
    cost_of_billion_tokens: float | None = None
    _text: str = field(default="", repr=False, compare=False)  # plan.json
    _graph: Graph | None = field(default=None, repr=False, compare=False)  # that it is a plan of

    def to_dict(self) -> dict[str, Any]:
        """The plan as `emplace plan --json` prints it."""
        return {name: copy.copy(value) for name, value in vars(self).items()
                if name not in ("_text", "_graph") and value is not None}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes a plan.json, as `emplace plan -o` does."""
        _core.write_text(self._text, _check.path("path", path))

    def export(self, target: str) -> str:
        """What `emplace plan --to` writes for a framework: megatron, torchtitan, deepspeed, .. and, of a graph, fsdp,
        stages and split-spec."""
        graph = None if self._graph is None else self._graph._graph
        return _core.framework_text(_check.text("target", target), graph, None, None, self._text)


@dataclass(frozen=True)
class PlanSearch:
    """The answer of emplace.plan.

    plans: the best first. legal: the number of legal plans; checked: of those whose memory was looked at; fitting: of
    those that fit. notes: what to know of all plans. complete: False if the search was stopped early. refused: numbers of
    illegal plans, by the reason.
    nearest: the smallest plan, if none fits; fastest: the fastest that fits, if none is within within_s.
    lower_bound_us: no plan takes less on all accelerators. by_modules: why a graph is planned by its modules, and not as
    a Transformer. lora: rank and targets of the adapters that are trained, trained_parameters and parameters.
    """
    network: str
    cluster: str
    gpus: int
    framework: str
    global_batch: int
    sequence: int
    objective: str
    legal: int
    checked: int
    fitting: int
    complete: bool
    lower_bound_us: float
    notes: list[str]
    refused: dict[str, int]
    plans: list[Plan]
    nearest: Plan | None = None
    by_modules: str | None = None
    fastest: Plan | None = None
    within_s: float | None = None
    price: float | None = None
    lora: dict[str, Any] | None = None
    _json: str = field(default="", repr=False, compare=False)

    @property
    def best(self) -> Plan | None:
        """The first plan that fits, if there is one."""
        return next((plan for plan in self.plans if plan.fits), None)

    def to_dict(self) -> dict[str, Any]:
        """What `emplace plan --json` prints."""
        return dict(json.loads(self._json))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the best plan as a plan.json. Raises InputError if no plan fits."""
        self._need_best().write(path)

    def export(self, target: str) -> str:
        """The best plan for a framework (Plan.export). Raises InputError if no plan fits."""
        return self._need_best().export(target)

    def _need_best(self) -> Plan:
        best = self.best
        if best is None:
            raise _core.InputError("plan: none fits (`nearest` is the smallest)")
        return best


def plan(network: str | os.PathLike[str] | Graph, cluster: str | os.PathLike[str] | Cluster, *, nodes: int = 1,
         gpus: int | None = None, global_batch: int, sequence: int | None = None, framework: str | None = None,
         lora: int | None = None, lora_targets: str | None = None, set: Mapping[str, Any] | None = None, only: Mapping[str, Any] | None = None, all: bool = False,
         threads: int = 0, seconds: float = 0, objective: str = "step_time", within: float | None = None,
         price: float | None = None) -> PlanSearch:
    """Which way to train a network on a cluster is fastest and fits, like `emplace plan`.

    network: a name, such as "llama-3-8b", the path of a config.json of Hugging Face's, or a PyTorch model: what
    emplace.torch.capture returns, or the path of a graph.json or a .pt2. cluster: a Cluster, a shipped
    one's name, or a cluster.yaml. nodes: copies of it, joined by the network that it names. gpus: how many accelerators
    of all nodes to use. global_batch: sequences of a step. sequence: tokens of a sequence; by default 4096, or the
    longest of the network if that is shorter, and that of a graph. framework: whose habits and constants count:
    megatron, nanotron, fsdp, deepspeed, torchtitan or pytorch; by default megatron, and pytorch for graphs of other
    networks than Transformers. lora: the rank of adapters that are trained beside frozen weights; by default, all
    weights are. lora_targets: the modules that have them, "attention", "all-linear" (the default), or names such as
    "q_proj,v_proj". set: other values of the network's fields. only: parts of plans that stay as they are,
    {"tp": 8, "recompute": "full"}. all: every legal plan, those that do not fit too; otherwise the 20 best that fit.
    threads: one for each core by default; the answer is the same. seconds: stop then, with the best plans so far.
    objective: what is best: step_time, or, trying fewer accelerators too, tokens_per_s_per_gpu, gpus (the fewest) or
    cost. within: the most seconds that a step may take, with one of the last three. price: of an accelerator for an
    hour; plans then have their cost, which the objective cost needs.

    Raises InputError where no plan is legal, and where objective, within and price do not go together.
    """
    where = cluster if isinstance(cluster, Cluster) else Cluster(_check.path("cluster", cluster))
    graph = network if isinstance(network, Graph) else None
    text, written = _core.search_plans(
        where._cluster, graph=None if graph is None else graph._graph,
        network="" if isinstance(network, Graph) else _check.path("network", network),
        nodes=_check.integer("nodes", nodes, 1, 1024),
        gpus=None if gpus is None else _check.integer("gpus", gpus, 1, 2**30),
        global_batch=_check.integer("global_batch", global_batch, 1, 2**24),
        sequence=None if sequence is None else _check.integer("sequence", sequence, 1, 2**28),
        framework=None if framework is None else _check.text("framework", framework),
        lora=None if lora is None else _check.integer("lora", lora, 1, 2**16),
        lora_targets=None if lora_targets is None else _check.text("lora_targets", lora_targets), set=_check.settings("set", set),
        only=_check.settings("only", only), all=_check.flag("all", all),
        threads=_check.integer("threads", threads, 0, 1024), seconds=_check.number("seconds", seconds, 0, 1e6),
        objective=_check.text("objective", objective),
        within=None if within is None else _check.number("within", within, 0, 1e9),
        price=None if price is None else _check.number("price", price, 0, 1e9))
    row = json.loads(text)
    del row["schema"], row["version"]
    plans = [Plan(**each, _text=own, _graph=graph) for each, own in zip(row.pop("plans"), written)]
    # Where no plan answers the question, there is at most one of these.
    for name in ("nearest", "fastest"):
        if name in row:
            row[name] = Plan(**row[name], _text=written[-1], _graph=graph)
    return PlanSearch(**row, plans=plans, _json=text)
