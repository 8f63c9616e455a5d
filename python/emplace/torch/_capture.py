"""A model's training step as PyTorch's own joint graph of the forward and the backward pass."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree as pytree

from emplace import InputError
from emplace.torch._attention import OneOpAttention

STEP_PREFIX = "model"  # of every module's path within _Step
CHECKPOINT = "emplace_checkpoint"  # name of the annotation of what torch.utils.checkpoint recomputes
IN_PLACE = "emplace_in_place"  # name of the annotation of operators that write their first argument


def load() -> None:
    """Imports what a capture needs of PyTorch. Captures run in forked processes, each of which would do it again."""
    import torch._functorch.aot_autograd
    import torch.export._trace  # noqa: F401


@dataclass
class JointGraph:
    """graph: of ATen operators, forward and backward. inputs: for each placeholder what it is, as (kind, name), kind
    being "parameter", "buffer", "input" or "gradient" (of the loss). gradients: the node of each parameter's gradient.
    """
    graph: torch.fx.Graph
    module: torch.fx.GraphModule
    inputs: dict[str, tuple[str, str]]
    gradients: dict[str, torch.fx.Node]
    way: str  # how it was captured
    exported: torch.fx.GraphModule  # the forward pass, with the model's own parameters


class _Step(nn.Module):
    """Calls a model and reduces its output to a loss."""

    def __init__(self, model: nn.Module, loss: Callable[[Any], torch.Tensor] | None,
                 autocast: torch.dtype | None = None) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._autocast = autocast

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with torch.autocast("cpu", self._autocast) if self._autocast else contextlib.nullcontext():
            output = self.model(*args, **kwargs)
            if self._loss is not None:
                return self._loss(output)
            return default_loss(output)


class OutputStructure:
    """How an output is put together from its tensors. Copies of a module share it."""

    def __init__(self) -> None:
        self._spec: Any = None
        self._leaves: list[Any] = []  # (value,) of what is not a tensor, None in place of the tensors

    def __deepcopy__(self, memo: Any) -> OutputStructure:
        return self

    def tensors_of(self, output: Any) -> list[torch.Tensor]:
        leaves, self._spec = pytree.tree_flatten(output)
        self._leaves = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    @property
    def num_tensors(self) -> int:
        return self._leaves.count(None)

    def output_of(self, tensors: Iterable[Any]) -> Any:
        given = iter(tensors)
        return pytree.tree_unflatten([next(given) if leaf is None else leaf[0] for leaf in self._leaves], self._spec)


class StepWithOutput(_Step):
    """The same step; it returns the loss and then the tensors of the model's output. The class of a step keeps their
    structure, since exports copy the instance."""

    structure = OutputStructure()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model(*args, **kwargs)
        tensors = self.structure.tensors_of(output)
        loss = self._loss(output) if self._loss is not None else default_loss(output)
        return (loss, *(tensor.detach() for tensor in tensors))


def default_loss(output: Any) -> torch.Tensor:
    """The loss that an output holds: its `loss`, itself if it is one number, else the sum of its float tensors."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own.sum() if own.dim() else own
    if isinstance(output, torch.Tensor) and output.dim() == 0 and output.is_floating_point():
        return output
    floats = [tensor for tensor in pytree.tree_leaves(_plain(output))
              if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.requires_grad]
    if not floats:
        raise InputError("model: its output has no float tensor that depends on a parameter (loss= computes one)")
    total = floats[0].sum()
    for tensor in floats[1:]:
        total = total + tensor.sum()
    return total


def _plain(output: Any) -> Any:
    """Outputs of transformers and other data classes as the dictionaries that they hold."""
    if isinstance(output, Mapping):
        return {key: _plain(value) for key, value in output.items()}
    if isinstance(output, (list, tuple)):
        return [_plain(value) for value in output]
    if isinstance(output, torch.Tensor) or not hasattr(output, "__dict__"):
        return output
    return {key: _plain(value) for key, value in vars(output).items() if isinstance(value, (torch.Tensor, list, tuple, dict))}


def joint_graph(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any],
                loss: Callable[[Any], torch.Tensor] | None, on_cpu: bool = False, make_step: type[_Step] = _Step) -> JointGraph:
    """Captures a step. Changes a model that is not on the CPU: for a process of its own. Raises InputError with PyTorch's
    reason."""
    args, kwargs = _without_memory(model, args, kwargs)
    kinds = [kind for kind in ("cuda", "cpu") if torch.is_autocast_enabled(kind)]
    step = make_step(model, loss, torch.get_autocast_dtype(kinds[0]) if kinds else None)
    with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False), OneOpAttention(on_cpu):
        with _autocast_of_cpu():
            exported, way = _export(step, args, kwargs)
        _mark_in_place(exported)
        _run_node_by_node(exported)
        return _joint(step, exported, way, args, kwargs)


def _without_memory(model: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Tensors of other devices than the CPU become fake CPU tensors, which have shapes and no memory.

    Without, captured graphs would depend on the device: operators of the meta device are decomposed differently, and a
    forked process must not use a GPU.
    """
    tensors = [*model.parameters(), *model.buffers(), *pytree.tree_leaves((args, kwargs))]
    if all(not isinstance(t, torch.Tensor) or t.device.type == "cpu" for t in tensors):
        return args, kwargs
    fakes = [t.fake_mode for t in tensors if isinstance(t, FakeTensor)]
    mode = fakes[0] if fakes else FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    made: dict[int, torch.Tensor] = {}

    def fake(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if id(tensor) not in made:
            with mode:
                new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, nn.Parameter):
                new = nn.Parameter(new, requires_grad=tensor.requires_grad)
            made[id(tensor)] = new
        return made[id(tensor)]

    for module in model.modules():
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None:
                    own[name] = fake(tensor)
    return pytree.tree_map(fake, (args, kwargs))


def _export(step: _Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.fx.GraphModule, str]:
    """The forward pass, and how it was found."""
    errors = []
    for way, strict, unnoticed in (("export", False, True), ("export, as an export", False, False),
                                    ("export, strict", True, False)):
        try:
            with _unnoticed(kwargs) if unnoticed else contextlib.nullcontext(), _marked_checkpoints():
                return torch.export.export(step, args, kwargs, strict=strict).module(check_guards=False), way
        except InputError:
            raise
        except Exception as error:  # PyTorch raises what it likes
            errors.append(error)
            if isinstance(error, GuardOnDataDependentSymNode):  # the other way cannot know the values either
                break
    error = errors[0]
    advice = ("write what depends on values of tensors with torch.where or torch.cond, or capture the parts of the model"
              if isinstance(error, GuardOnDataDependentSymNode) else
              "does model(*args, **kwargs) run? Then capture the parts of the model")
    raise InputError(f"{module_of(error, step.model)}: PyTorch cannot capture it: {reason(error)} ({advice})") from error


@contextlib.contextmanager
def _autocast_of_cpu() -> Iterator[None]:
    """Autocast for GPUs casts here, where the tensors are a CPU's, to the same type."""
    own = torch.autocast.__init__

    def init(self: Any, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        own(self, device_type, dtype, *args, **kwargs)

    torch.autocast.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.autocast.__init__ = own  # type: ignore[method-assign]


class _NodeByNode(nn.Module):
    """A graph whose nodes hand their modules and annotations to what is captured of them."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.graph_module = graph

    def forward(self, *args: Any) -> Any:
        return torch.fx.Interpreter(self.graph_module).run(*args)


def _run_node_by_node(exported: torch.fx.GraphModule) -> None:
    """What an export put aside because it runs under autocast or without gradients runs as the rest does."""
    for node in exported.graph.nodes:
        if getattr(node.target, "__name__", "") in ("wrap_with_autocast", "wrap_with_set_grad_enabled"):
            for part in node.all_input_nodes:
                inner = getattr(exported, str(part.target), None) if part.op == "get_attr" else None
                if isinstance(inner, torch.fx.GraphModule):
                    _run_node_by_node(inner)
                    setattr(exported, str(part.target), _NodeByNode(inner))


def _mark_in_place(exported: torch.fx.GraphModule) -> None:
    """Annotates the operators that write in place, which a joint graph turns into operators with results."""
    for module in exported.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
                    node.meta["custom"] = (node.meta.get("custom") or {}) | {IN_PLACE: True}


@contextlib.contextmanager
def _marked_checkpoints() -> Iterator[None]:
    """Annotates what runs under torch.utils.checkpoint with the number of the call, which an export loses. A number
    after which all of the call is recomputed, not just what the backward pass needs, ends in "all"."""
    from torch.fx import traceback as annotations
    from torch.utils import checkpoint

    count = itertools.count()

    def annotate(mark: str) -> Any:
        if not hasattr(annotations, "annotate"):
            raise InputError("model: uses torch.utils.checkpoint, which needs PyTorch 2.9 to be captured")
        return annotations.annotate({CHECKPOINT: mark})

    def without_reentrant(function: Any, preserve_rng_state: bool, context_fn: Any, determinism_check: str, debug: bool,
                          early_stop: bool, *args: Any, **kwargs: Any) -> Iterator[None]:
        if context_fn is not checkpoint.noop_context_fn:
            raise InputError("model: uses selective checkpointing (context_fn), which cannot be captured")
        with annotate(f"{next(count)}" if early_stop else f"{next(count)}all"):
            yield

    class Reentrant:
        @staticmethod
        def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
            with annotate(f"{next(count)}all"):
                return function(*args)

    own = checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction
    checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction = without_reentrant, Reentrant
    try:
        with annotations.preserve_node_meta():
            yield
    finally:
        checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction = own


@contextlib.contextmanager
def _unnoticed(kwargs: dict[str, Any]) -> Iterator[None]:
    """Only PyTorch's own modules learn that an export is going on.

    Models that ask do other work than in a step: those of transformers then write out causal masks and repeat the keys
    of grouped queries. They also look for packed sequences in position_ids, which has no values here; those that the
    model computes itself hold none. And they call grouped products, which PyTorch describes for bf16 alone; products of
    other types are an operator of theirs.
    """
    def asked(function: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: function() and sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch"

    replaced: list[tuple[Any, str, Any]] = [(torch.compiler, name, asked(getattr(torch.compiler, name)))
                                            for name in ("is_compiling", "is_exporting") if hasattr(torch.compiler, name)]
    masks = sys.modules.get("transformers.masking_utils")
    if hasattr(masks, "find_packed_sequence_indices") and kwargs.get("position_ids") is None:
        replaced.append((masks, "find_packed_sequence_indices", lambda position_ids: None))
    experts = sys.modules.get("transformers.integrations.moe")
    if hasattr(experts, "_can_use_grouped_mm"):
        can_use = experts._can_use_grouped_mm
        replaced.append((experts, "_can_use_grouped_mm", lambda rows, weight, offsets:
                         weight.dtype == torch.bfloat16 and can_use(rows, weight, offsets)))
    own = [(place, name, getattr(place, name)) for place, name, _ in replaced]
    for place, name, function in replaced:
        setattr(place, name, function)
    try:
        yield
    finally:
        for place, name, function in own:
            setattr(place, name, function)


def module_of(error: BaseException, model: nn.Module) -> str:
    """The innermost module whose code raised the error, with its class and, unless it is PyTorch's own, its line:
    "layers.3 (Block, model.py:12)"."""
    paths = {id(module): path or "model" for path, module in model.named_modules()}
    where = "model"
    for frame, line in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and id(owner) in paths:
            torchs = frame.f_globals.get("__name__", "").startswith("torch.")
            code = "" if torchs else f", {os.path.basename(frame.f_code.co_filename)}:{line}"
            where = f"{paths[id(owner)]} ({type(owner).__name__}{code})"
    return where


def reason(error: BaseException) -> str:
    """PyTorch's message in one line, without its advice on debugging."""
    lines = [line.partition("  (Size-like symbols")[0].strip() for line in str(error).splitlines()]
    text = next((line for line in lines if line), type(error).__name__)
    name = type(error).__name__
    return text if name in text else f"{name}: {text}"


def _joint(step: _Step, exported: torch.fx.GraphModule, way: str, args: tuple[Any, ...],
           kwargs: dict[str, Any]) -> JointGraph:
    from torch._functorch._aot_autograd import descriptors
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    names = _input_names(step.model, args, kwargs)
    for name, value in list(vars(exported).items()):  # tensors that the loss or the model's code holds
        if isinstance(value, torch.Tensor):
            delattr(exported, name)
            exported.register_buffer(name, value)
    args, kwargs = _in_mode_of(exported, (args, kwargs))
    try:
        with contextlib.ExitStack() as stack:
            joint = aot_export_joint_with_descriptors(stack, exported, args, kwargs)
    except Exception as error:
        raise InputError(f"model: PyTorch cannot differentiate it: {reason(error)}") from error
    module = joint.graph_module
    inputs: dict[str, tuple[str, str]] = {}
    gradients: dict[str, torch.fx.Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs[node.name] = _input_kind(node.meta.get("desc"), names, descriptors)
        elif node.op == "output":
            results = pytree.tree_leaves(node.args[0])
            for result, desc in zip(results, node.meta["desc"]):
                if isinstance(desc, descriptors.GradAOTOutput) and isinstance(desc.grad_of, descriptors.ParamAOTInput):
                    if isinstance(result, torch.fx.Node):
                        gradients[strip(desc.grad_of.target)] = result
    return JointGraph(module.graph, module, inputs, gradients, way, exported)


def _in_mode_of(exported: torch.fx.GraphModule, values: Any) -> Any:
    """The tensors of a call as the export saw them, in whose mode sizes may depend on data."""
    mode = detect_fake_mode([node.meta.get("val") for node in exported.graph.nodes])
    if mode is None or mode.shape_env is None:
        return values
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor if isinstance(tensor, FakeTensor) else
                                mode.from_tensor(tensor, static_shapes=True), values)


def _input_kind(desc: Any, names: list[str], descriptors: Any) -> tuple[str, str]:
    if isinstance(desc, descriptors.ParamAOTInput):
        return "parameter", strip(desc.target)
    if isinstance(desc, descriptors.BufferAOTInput):
        return "buffer", strip(desc.target)
    if isinstance(desc, descriptors.TangentAOTInput):
        return "gradient", "loss"
    if isinstance(desc, descriptors.PlainAOTInput) and desc.idx < len(names):
        return "input", names[desc.idx]
    return "input", str(desc)


def strip(path: str) -> str:
    """A module's or a tensor's path within the model."""
    if path == STEP_PREFIX:
        return ""
    return path[len(STEP_PREFIX) + 1:] if path.startswith(STEP_PREFIX + ".") else path


def _input_names(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The name of each leaf of the arguments: that of the parameter of `forward`, and its place in it."""
    try:
        parameters = [p.name for p in inspect.signature(model.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    parameters += [f"input{i}" for i in range(len(parameters), len(args))]
    names = []
    for name, value in (*zip(parameters, args), *kwargs.items()):
        leaves, _ = pytree.tree_flatten(value)
        names += [name] if len(leaves) == 1 else [f"{name}.{i}" for i in range(len(leaves))]
    return names


def named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """All modules but the model itself, each once, by path."""
    return ((path, module) for path, module in model.named_modules() if path)
