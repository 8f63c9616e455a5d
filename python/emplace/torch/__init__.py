"""PyTorch in and out: the training graph of a model, and placements as frameworks read them.

    import emplace, emplace.torch as et
    graph = et.capture(model, kwargs=batch, optimizer="adam")
    plan = emplace.place(graph, cluster="dgx-h100", grouping="modules")
    et.device_map(plan)

Needs PyTorch 2.6 or newer. Nothing here runs the model on a GPU unless a function says so.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from typing import Any, Callable, Mapping, Sequence

import emplace
from emplace import InputError, _check

_OLDEST = (2, 6)

try:
    import torch
except ImportError as error:
    raise ImportError("emplace.torch needs PyTorch, which is not installed (pip install torch)") from error
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < _OLDEST:
    raise ImportError(f"emplace.torch needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or newer, this is {torch.__version__}")


class CapturedGraph(emplace.Graph):
    """The graph of a captured step. parameters: how many numbers the model's parameters have, tied ones once. flop: of
    the products of one step, forward and backward; that of each op is in `op_flop`."""

    __slots__ = ()

    @property
    def parameters(self) -> int:
        return int(self.metadata["torch"]["parameters"])

    @property
    def flop(self) -> int:  # type: ignore[override]
        return int(self.metadata["torch"]["flop"])


def capture(model: torch.nn.Module, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None,
            loss: Callable[[Any], torch.Tensor] | None = None, optimizer: Any = None, *, name: str = "",
            device: str = "gpu", program_order: bool = False,
            seconds: float = 600, memory_gib: float = 16) -> CapturedGraph:
    """The training step of a model, as PyTorch itself would run it: forward, backward and optimizer.

    No op is run and no memory is needed but what the model already has; a model made under torch.device("meta") has
    none. The capture runs in a process of its own.

    args, kwargs: of one call of the model. loss: a function of the model's output, which gives a tensor of one number;
    by default the output's `loss`, the output itself if it is one number, or the sum of its float tensors. optimizer:
    "sgd", "momentum", "adam", "adamw", "adafactor", or an optimizer of torch.optim; None for no updates. name: of the
    graph, by default the model's class. device: "gpu" or "cpu", whose kernels the step calls; on a CPU attention with
    dropout is several ops, and some kernels need more memory. program_order: each op waits for the one before, so that the memory
    of one device is simulated in PyTorch's own order; without, branches can run at the same time. seconds, memory_gib:
    limits of the capture.

    Raises InputError with PyTorch's reason if the model cannot be captured.
    """
    from emplace.torch import _capture, _optimizers, _process

    _check.instance("model", model, torch.nn.Module)
    if not isinstance(args, (tuple, list)):
        _check.refuse("args", args, "a tuple of the arguments of one call")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        _check.refuse("kwargs", kwargs, "a dictionary of the keyword arguments of one call")
    if loss is not None and not callable(loss):
        _check.refuse("loss", loss, "a function of the model's output")
    chosen = _optimizers.name_of(optimizer)
    if device not in ("gpu", "cpu"):
        _check.refuse("device", device, "'gpu' or 'cpu'")
    title = _check.text("name", name) or type(model).__name__
    _capture.load()
    text = _process.call(lambda: _captured_text(model, tuple(args), dict(kwargs or {}), loss, chosen, title, device == "cpu",
                                               _check.flag("program_order", program_order)),
                         "capture", _check.number("seconds", seconds, 0), _check.number("memory_gib", memory_gib, 0))
    return CapturedGraph.from_json(text, f"graph of {title}")


def _captured_text(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], loss: Any,
                   optimizer: str | None, name: str, on_cpu: bool, program_order: bool) -> str:
    from emplace.torch import _capture, _graph

    parameters = sum(p.numel() for p in model.parameters())
    tied = _graph.tied_parameters(model)
    joint = _capture.joint_graph(model, args, kwargs, loss, on_cpu)
    writer = _graph.GraphWriter(joint, model, on_cpu, program_order)
    ops = writer.ops(optimizer)
    keep_whole = sorted(set(getattr(model, "_no_split_modules", None) or []))
    modules = {path: type(module).__name__ for path, module in _capture.named_modules(model)}
    described = {"version": torch.__version__, "capture": joint.way, "parameters": parameters,
                 "flop": sum(op.get("flop", 0) for op in ops), "modules": modules, "keep_whole": keep_whole, "tied": tied,
                 "state_dict": {name: tensor.numel() * tensor.element_size()
                                for name, tensor in model.state_dict(keep_vars=True).items()
                                if isinstance(tensor, torch.Tensor)},
                 "without_module": writer.without_module}
    return json.dumps({"schema": "emplace.graph", "version": 1, "name": name, "metadata": {"torch": described}, "ops": ops})


def plan(placement: emplace.SearchResult, *, micro_batches: int = 1, schedule: str = "1f1b") -> dict[str, Any]:
    """A found placement whose devices are the stages of a pipeline as an emplace.plan, which may be edited.

    Raises InputError where devices take turns, so that one would have several stages.
    """
    graph, cluster, devices = _found(placement)
    text = emplace._core.plan_text(graph._graph, cluster._cluster, devices, _check.integer("micro_batches", micro_batches, 1),
                                   _check.text("schedule", schedule))
    return dict(json.loads(text))


def device_map(placement: emplace.SearchResult) -> dict[str, int | str]:
    """A found placement as Accelerate takes it: the device of each module, as few modules as say it.

    Raises InputError where a module is divided that frameworks keep whole (place(..., grouping="modules")).
    """
    graph, cluster, devices = _found(placement)
    return dict(json.loads(emplace._core.framework_text("device-map", graph._graph, cluster._cluster, devices, "")))


def stages(source: emplace.SearchResult | Mapping[str, Any]) -> list[list[str]]:
    """The modules of each stage of a placement or a plan, in the order in which they run."""
    return list(json.loads(_plan_target("stages", source)))


def split_spec(source: emplace.SearchResult | Mapping[str, Any]) -> dict[str, Any]:
    """The argument `split_spec` of torch.distributed.pipelining.pipeline: the module at which each stage begins."""
    from torch.distributed.pipelining import SplitPoint

    return {path: SplitPoint.BEGINNING for path in json.loads(_plan_target("split-spec", source))}


def schedule_csv(source: emplace.SearchResult | Mapping[str, Any], *, communication: bool = False) -> str:
    """The actions of each rank, as `_load_csv` of PyTorch's schedules reads them: format "compute_only", or
    "compute_comms" with what ranks send to one another."""
    return _plan_target("schedule-comms-csv" if communication else "schedule-csv", source)


def framework_text(target: str, source: emplace.SearchResult | Mapping[str, Any], graph: emplace.Graph | None = None) -> str:
    """What `emplace export --to` writes for `target`, from a placement or an emplace.plan.

    graph: of a plan; fsdp needs it, and others divide its layers evenly where the plan has no stages. Raises InputError on
    what the format cannot say.
    """
    name = _check.text("target", target)
    if not isinstance(source, emplace.SearchResult):
        if graph is not None:
            _check.instance("graph", graph, emplace.Graph)
        text = json.dumps(_checked_plan(source))
        return emplace._core.framework_text(name, None if graph is None else graph._graph, None, None, text)
    placed_graph, cluster, devices = _found(source)
    if name in ("device-map", "onnxruntime", "llama.cpp"):
        return emplace._core.framework_text(name, placed_graph._graph, cluster._cluster, devices, "")
    return _plan_target(name, source)


def placement_of(graph: emplace.Graph, cluster: emplace.Cluster, artefact: Any, target: str = "") -> Any:
    """The placement, int16 (ops,), that a device map, a split_spec, a list of stages or a plan says; or a text that
    `emplace export --to` has written for `target`: device-map, split-spec, stages, plan, llama.cpp or onnxruntime."""
    _check.instance("graph", graph, emplace.Graph)
    _check.instance("cluster", cluster, emplace.Cluster)
    if target:
        text = _check.text("artefact", artefact)
    elif isinstance(artefact, list):
        target = "stages"
    elif not isinstance(artefact, Mapping):
        _check.refuse("artefact", artefact, "a device map, a split_spec, a list of stages or a plan; or a text with a target")
    elif artefact.get("schema") == "emplace.plan":
        target = "plan"
    else:
        target = "split-spec" if all(getattr(value, "name", value) == "BEGINNING" for value in artefact.values()) \
            else "device-map"
    if not isinstance(artefact, str):
        text = json.dumps(artefact, default=lambda value: getattr(value, "name", str(value)))
    return emplace._core.read_framework_placement(_check.text("target", target), text, target, graph._graph, cluster._cluster)


def plan_of(text: str, target: str, *, devices: int = 0) -> dict[str, Any]:
    """The emplace.plan in a text that `emplace export --to` has written for `target`: schedule-csv, schedule-comms-csv,
    fsdp, torchtitan, megatron, deepspeed, vllm or llama.cpp. What the format does not say has its default.

    devices: how many accelerators there are, which Megatron-LM's flags do not say. Raises InputError on what the target
    does not write.
    """
    chosen = _check.text("target", target)
    return dict(json.loads(emplace._core.read_framework_plan(chosen, _check.text("text", text), chosen,
                                                             _check.integer("devices", devices, 0))))


def apply(model: torch.nn.Module, placement: emplace.SearchResult, args: tuple[Any, ...] = (),
          kwargs: Mapping[str, Any] | None = None, *, loss: Callable[[Any], torch.Tensor] | None = None,
          devices: Sequence[str | torch.device] | None = None) -> Any:
    """A model, or an exported one (`torch.export.export(..).module()`), whose ops run where a placement has them.

    placement: of a graph that `capture` made of this model with the same args, kwargs and loss; any op may be anywhere.
    devices: PyTorch's device for each device of the cluster; by default its GPUs, in their order, and where there are not as
    many, threads on the CPU.

    Returns an Applied: called as the model, it returns the model's output; `gradients` returns the loss and its gradients,
    and `partitions` a torch.fx.GraphModule with a part for each device. Raises InputError where the placement is of another
    graph.
    """
    from emplace.torch import _apply

    _check.instance("model", model, torch.nn.Module)
    graph, cluster, placed = _found(placement)
    if devices is None:
        gpus = [i for i, is_cpu in enumerate(cluster.is_cpu) if not is_cpu]
        enough = torch.cuda.is_available() and torch.cuda.device_count() >= len(gpus)
        chosen = [torch.device("cuda", gpus.index(i)) if enough and i in gpus else torch.device("cpu")
                  for i in range(len(cluster.device_names))]
    else:
        chosen = [_device(f"devices[{i}]", device, "a device of PyTorch") for i, device in enumerate(devices)]
        if len(chosen) != len(cluster.device_names):
            raise InputError(f"devices: has {len(chosen)} ({len(cluster.device_names)}, one for each device of the cluster)")
    return _apply.Applied(graph, placed, chosen, model, tuple(args), dict(kwargs or {}), loss)


def _found(placement: emplace.SearchResult) -> tuple[emplace.Graph, emplace.Cluster, Any]:
    _check.instance("placement", placement, emplace.SearchResult)
    if placement.placement is None or placement.simulator is None:
        raise InputError("placement: nothing that fits was found")
    return placement.simulator.graph, placement.simulator.cluster, placement.placement


def _device(argument: str, device: Any, allowed: str) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError):
        _check.refuse(argument, device, allowed)


def _plan_target(target: str, source: emplace.SearchResult | Mapping[str, Any]) -> str:
    chosen = json.dumps(_checked_plan(source))
    if isinstance(source, emplace.SearchResult):
        graph, cluster, _ = _found(source)
        return emplace._core.framework_text(target, graph._graph, cluster._cluster, None, chosen)
    return emplace._core.framework_text(target, None, None, None, chosen)


def profile(graph: emplace.Graph, device: str = "cpu", *, repeats: int = 10, seed: int = 1,
            path: str | None = None) -> dict[str, Any]:
    """Measures each op of a captured graph on this machine, in the order of the step, with tensors of its own shapes.

    device: cpu, with as many threads as torch.get_num_threads() says, or cuda. repeats: steps that are measured. path: a
    profile.json to write, for Costs(..., profile=path). Returns its content. The kind of device in it is "this-cpu" or
    "this-gpu".
    """
    from emplace.torch import _profile

    _check.instance("graph", graph, emplace.Graph)
    kind = _device("device", device, "cpu or cuda").type
    if kind not in _profile.KINDS:
        _check.refuse("device", device, "cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device: is {device!r}, and PyTorch finds no GPU here (cpu)")
    repeats, seed = _check.integer("repeats", repeats, 1, 10**6), _check.integer("seed", seed, 0)
    with _profile.reused_memory():
        measured = _profile.measure(graph, device, repeats, seed, alone=True)
    if path is not None:
        _profile.write(measured, _check.path("path", path))
    return measured


def validate(model: torch.nn.Module, plan: emplace.SearchResult | Mapping[str, Any], *, args: tuple[Any, ...] = (),
             kwargs: Mapping[str, Any] | None = None, loss: Callable[[Any], torch.Tensor] | None = None,
             optimizer: str = "sgd", processes: int | None = None, steps: int = 10, warm_up: int = 3,
             threads: list[int] | None = None, speeds: list[float] | None = None, seconds: float = 600,
             device: str | None = None) -> Any:
    """Runs a plan on processes of this machine, with PyTorch's own pipelines, FSDP and tensor parallelism on gloo or NCCL,
    and simulates it with op and message times that are measured here.

    model: on the CPU, with real weights; it is not changed. plan: a placement with stages, or an emplace.plan. args,
    kwargs: of one micro-batch. loss: of the model's output. processes: as many as the plan's degrees multiply to.
    steps: that are measured, after warm_up steps, of which the last gives the memory. threads: of each process, one by
    default. speeds: of each process, 1 by default: one of 0.4 is stopped for 6 of each 10 ms, as a device that is slower.
    seconds: the limit of each part. device: "cpu", or "cuda" for a GPU for each process; by default GPUs where there are as
    many, else the CPU. threads and speeds are of CPUs. For GPUs, nothing may have initialised CUDA in this process, the model
    has to fit on one of them, and other tensors that the loss reads have to be moved to the device of the output.

    With the plan's recompute, numbered blocks ("model.layers.3") run under torch.utils.checkpoint: all for "full", the first
    of each stage for a number of layers.

    Returns a Validation. Raises InputError where the plan cannot be run.
    """
    from emplace.torch import _capture, _devices, _optimizers, _recompute, _validate, _workers

    _check.instance("model", model, torch.nn.Module)
    steps, warm_up = _check.integer("steps", steps, 1), _check.integer("warm_up", warm_up, 1)
    chosen = _checked_plan(plan)
    needed = chosen["dp"] * chosen["tp"] * chosen["pp"]
    if processes is not None and processes != needed:
        raise InputError(f"processes: is {processes}, but the plan has {needed} (dp times tp times pp)")
    devices = _devices.choose(device, needed)
    for degree in ("cp", "ep", "vpp"):
        if chosen[degree] != 1:
            raise InputError(f"plan: {degree}: is {chosen[degree]}, which is not run on {devices.name} (1)")
    if chosen["zero"] == 1:
        raise InputError("plan: zero: is 1, which fully_shard does not do (0, 2 or 3)")
    if chosen["pp"] > 1 and (chosen["tp"] > 1 or chosen["zero"] > 0):
        raise InputError("plan: pp: goes with dp here, not with tp or zero")
    if chosen["pp"] > 1 and not (chosen["stages"] and all(isinstance(path, str) for paths in chosen["stages"] for path in paths)):
        raise InputError("plan: stages: are missing, or numbers of layers (paths of modules)")
    if chosen["recompute"] == "selective":
        raise InputError("plan: recompute: is 'selective', which is other ops in each framework (none, full, or a number of layers)")
    for given, numbers in (("threads", threads), ("speeds", speeds)):
        if numbers is not None and devices.kind != "cpu":
            raise InputError(f"{given}: are of CPU processes, and the plan runs on {devices.name} (None, or device=\"cpu\")")
        if numbers is not None and len(numbers) != needed:
            raise InputError(f"{given}: has {len(numbers)} numbers ({needed}, one for each process)")
    if speeds is not None and not all(0 < speed <= 1 for speed in speeds):
        _check.refuse("speeds", speeds, "numbers above 0 and at most 1")
    workers = _workers.Processes(needed, threads, speeds, seconds, devices)
    name = _optimizers.name_of(optimizer) or "sgd"
    step = _validate.Step(model, tuple(args), dict(kwargs or {}), loss or _capture.default_loss, name)
    described: dict[str, Any] = {}
    if chosen["pp"] == 1 or not _recompute.is_none(chosen):
        forward = capture(model, step.args, step.kwargs, loss=step.loss, seconds=seconds)
        step = dataclasses.replace(step, recompute=_recompute.blocks_of(chosen, forward))
        if chosen["pp"] == 1:
            text = json.dumps(dict(chosen, stages=[], recompute="none"))
            described = json.loads(emplace._core.framework_text("fsdp", forward._graph, None, None, text))
    ranks = _validate.run_plan(step, chosen, described, steps, warm_up, workers)
    simulated_ms, peaks = _validate.simulate(step, chosen, described, workers, max(5, steps))
    times = [max(rank["times"][i] for rank in ranks) for i in range(steps)]
    losses = [each for each in (rank["losses"] for rank in ranks) if each[0] is not None][-1]
    return _validate.Validation(plan=chosen, measured_ms=float(statistics.median(times)), simulated_ms=simulated_ms,
                                steps_ms=times, losses=losses, measured_peak_bytes=[rank["peak"] for rank in ranks],
                                simulated_peak_bytes=peaks, device=devices.kind)


def _checked_plan(source: emplace.SearchResult | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(source, emplace.SearchResult):
        return plan(source)
    if not isinstance(source, Mapping):
        _check.refuse("plan", source, "a SearchResult of emplace.place, or an emplace.plan")
    return dict(json.loads(emplace._core.checked_plan_text(json.dumps(dict(source)), "plan")))
