"""Runs the ops of a captured graph with PyTorch, one by one, on tensors of their own shapes and strides."""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Iterable

import torch
from torch.optim import _adafactor, adam, adamw, sgd

import emplace
from emplace import InputError
from emplace.torch._graph import DTYPES, _MEMORY_FORMATS

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_FORMAT_OF = {number: memory_format for memory_format, number in _MEMORY_FORMATS.items()}
Tensors = dict[str, torch.Tensor]


class GraphRunner:
    """The ops of a graph as calls, in the order of the file, which is that of the model.

    run() makes the data of the sources, calls each op, and drops a tensor after its last reader, as PyTorch would. What the
    ops compute is not what the model would: weights are random numbers.
    """

    def __init__(self, graph: emplace.Graph, device: str | torch.device = "cpu", seed: int = 1) -> None:
        self.device = torch.device(device)
        ops = json.loads(graph.to_json())["ops"]
        self.sources = [op for op in ops if op["kind"] in ("input", "variable")]
        self.calls = [_Call(op, self.device) for op in ops if op["kind"] not in ("input", "variable", "aten::detach")]
        self._seed = seed
        last: dict[str, int] = {}
        for i, call in enumerate(self.calls):
            for name in call.inputs:
                last[name] = i
        self._dropped: list[list[str]] = [[] for _ in self.calls]
        kept = {f"{op['name']}:0" for op in self.sources}
        for name, i in last.items():
            if name not in kept:
                self._dropped[i].append(name)

    def data(self) -> Tensors:
        """New tensors of all sources."""
        generator = torch.Generator().manual_seed(self._seed)
        return {f"{op['name']}:0": _source(op, generator).to(self.device) for op in self.sources}

    def run(self, data: Tensors, around: Callable[[int, Callable[[], None]], None] | None = None) -> None:
        """Calls every op once. around(i, call): calls it; call i is that of self.calls."""
        tensors = dict(data)
        for i, call in enumerate(self.calls):
            arguments = call.arguments(tensors)
            results: list[torch.Tensor] = []

            def invoke() -> None:
                results.extend(_tensors(call.function(*arguments[0], **arguments[1])))

            if around is None:
                invoke()
            else:
                around(i, invoke)
            tensors.update(zip(call.outputs, results))
            del arguments, results
            for name in self._dropped[i]:
                tensors.pop(name, None)


class _Call:
    """An op: its function, and how its arguments are made."""

    def __init__(self, op: dict[str, Any], device: torch.device) -> None:
        self.name = op["name"]
        self.kind = op["kind"]
        self.layer = op.get("layer", "")
        self.inputs = [name if ":" in name else name + ":0" for name in op.get("inputs", [])]
        self.outputs = [f"{op['name']}:{i}" for i in range(len(op.get("outputs", [])))]
        attrs = op.get("attrs", {})
        self._args = attrs.get("args", [])
        self._kwargs = attrs.get("kwargs", {})
        self._views = attrs.get("input_views") or [None] * len(self.inputs)
        self._device = device
        self.function = _function_of(op)

    def arguments(self, tensors: Tensors) -> tuple[list[Any], dict[str, Any]]:
        given = []
        for name, view in zip(self.inputs, self._views):
            tensor = tensors[name]
            given.append(tensor if view is None else tensor.as_strided(view[0], view[1], view[2] + tensor.storage_offset()))
        return ([self._value(each, given) for each in self._args],
                {key: self._value(each, given) for key, each in self._kwargs.items()})

    def _value(self, arg: Any, given: list[torch.Tensor]) -> Any:
        if isinstance(arg, str) and arg.startswith("%"):
            return given[int(arg[1:])]
        if isinstance(arg, list):
            return [self._value(each, given) for each in arg]
        if isinstance(arg, dict):
            (tag, value), = arg.items()
            if tag == "float":
                return float(value)
            if tag == "dtype":
                return _BY_NAME.get(value) or getattr(torch, value)
            if tag == "device":
                return self._device
            if tag == "memory_format":
                return _FORMAT_OF[value]
            return torch.strided if tag == "layout" else value
        return arg


def _function_of(op: dict[str, Any]) -> Callable[..., Any]:
    kind = op["kind"]
    known = {"aten::scaled_dot_product_attention": _attention,
             "aten::scaled_dot_product_attention_backward": _attention_backward,
             "aten::native_dropout_backward": _dropout_backward}
    if kind in known:
        return known[kind]
    if kind == "aten::native_dropout" and op["outputs"][1].get("dtype") != "bool":
        return _dropout_by_factor
    if kind.startswith("aten::_fused_") and op.get("pass") == "update":
        return _Update(op["name"].rpartition("/")[2])
    namespace, _, name = kind.partition("::")
    name, _, overload = name.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):
        raise InputError(f"graph: op {op['name']} is of kind {kind}, which PyTorch {torch.__version__} does not have "
                         "(an operator that is registered in this process)") from None


def _tensors(result: Any) -> Iterable[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [each for each in result if isinstance(each, torch.Tensor)]
    return []


def _source(op: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
    output = op["outputs"][0]
    shape = output.get("shape", [output.get("bytes", 0)])
    dtype = _BY_NAME.get(output.get("dtype", "u8"), torch.uint8)
    if not dtype.is_floating_point:
        bound = op.get("attrs", {}).get("bound", 1)
        return torch.randint(0, max(1, int(bound)), shape, generator=generator).to(dtype)
    if op.get("attrs", {}).get("buffer") or op.get("attrs", {}).get("optimizer_state"):
        return torch.ones(shape, dtype=dtype)
    scale = 1 / math.sqrt(max(1, shape[-1])) if op["kind"] == "variable" and shape else 1.0
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


# ---- Operators that a captured graph has and PyTorch has under another name

def _heads_alike(query: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Keys or values of grouped queries, repeated as PyTorch does."""
    groups = query.shape[-3] // other.shape[-3] if query.dim() > 2 else 1
    return other if groups == 1 else other.repeat_interleave(groups, -3)


def _added(mask: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    """A mask as the kernels take it: a number that is added to each score."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill_(~mask, float("-inf"))


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout: float,
               is_causal: bool, scale: float | None) -> tuple[torch.Tensor, ...]:
    key, value, mask = _heads_alike(query, key), _heads_alike(query, value), _added(mask, query)
    aten = torch.ops.aten
    if not query.is_cuda:
        return aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)
    if _is_flash(query, mask):
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout, is_causal, scale=scale)[:2]
    output, logsumexp = aten._scaled_dot_product_efficient_attention(query, key, value, _bias(mask, query, key), True, dropout,
                                                                     is_causal, scale=scale)[:2]
    return output, logsumexp[..., :query.shape[-2]]


def _bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A mask for each head, in rows of multiples of 16, as the kernel of GPUs reads it."""
    if mask is None:
        return None
    columns = key.shape[-2]
    return torch.nn.functional.pad(mask, (0, -columns % 16))[..., :columns].expand(*query.shape[:-1], columns)


def _dropout_state(query: torch.Tensor, flash: bool) -> torch.Tensor:
    """Where random numbers start: a number on the host, but for newer flash kernels a pair on the GPU."""
    returned = torch.ops.aten._scaled_dot_product_flash_attention.default._schema.returns
    if flash and any(each.name == "rng_state" for each in returned):
        return torch.zeros(2, dtype=torch.uint64, device=query.device)
    return torch.zeros((), dtype=torch.int64)


def _is_flash(query: torch.Tensor, mask: torch.Tensor | None) -> bool:
    return mask is None and query.dtype in (torch.float16, torch.bfloat16)


def _attention_backward(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                        mask: torch.Tensor | None, output: torch.Tensor, logsumexp: torch.Tensor, dropout: float,
                        is_causal: bool, scale: float | None, learned_mask: bool) -> Any:
    heads = key.shape[-3]
    key, value, mask = _heads_alike(query, key), _heads_alike(query, value), _added(mask, query)
    aten = torch.ops.aten
    if not query.is_cuda:
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, key, value, output, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale)
    else:
        rows = query.shape[-2]
        state = _dropout_state(query, _is_flash(query, mask))
        if _is_flash(query, mask):
            gradients = aten._scaled_dot_product_flash_attention_backward(
                gradient, query, key, value, output, logsumexp, None, None, rows, key.shape[-2], dropout, is_causal, state,
                state, scale=scale)
        else:
            padded = torch.nn.functional.pad(logsumexp, (0, -rows % 32))  # as its kernel reads it
            gradients = aten._scaled_dot_product_efficient_attention_backward(
                gradient, query, key, value, _bias(mask, query, key), output, padded, state, state, dropout,
                [True, True, True, learned_mask], is_causal, scale=scale)[:3]
    groups = query.shape[-3] // heads
    if groups > 1:  # the sum over the queries of a group
        shape = (*key.shape[:-3], heads, groups, *key.shape[-2:])
        gradients = (gradients[0], *(each.reshape(shape).sum(-3) for each in gradients[1:]))
    # As the capture describes them: in memory the heads of a row are next to each other.
    gradients = tuple(each.transpose(-3, -2).contiguous().transpose(-3, -2) for each in gradients)
    return (*gradients, torch.empty_like(mask)) if learned_mask and mask is not None else gradients


def _dropout_by_factor(given: torch.Tensor, probability: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """As PyTorch does it on a CPU, where it keeps the factor of each element instead of a mask."""
    factor = torch.empty_like(given).bernoulli_(1 - probability)
    if probability < 1:
        factor.div_(1 - probability)
    return given * factor, factor


def _dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return gradient * mask
    return torch.ops.aten.native_dropout_backward(gradient, mask, scale)


class _Update:
    """An optimizer's step for one parameter, as torch.optim does it on CPUs, on the state that the graph has."""

    def __init__(self, optimizer: str) -> None:
        self._optimizer = optimizer

    def __call__(self, parameters: list[torch.Tensor], gradients: list[torch.Tensor], *state: list[torch.Tensor]) -> None:
        gradients = [gradients[0].reshape(parameters[0].shape)]
        rate = 1e-6  # so small that weights stay finite
        if self._optimizer in ("sgd", "momentum"):
            kept: list[torch.Tensor | None] = [*state[0]] or [None]
            sgd.sgd(parameters, gradients, kept, foreach=False, weight_decay=0.0, momentum=0.9 if state[0] else 0.0, lr=rate,
                    dampening=0.0, nesterov=False, maximize=False)
        elif self._optimizer == "adafactor":
            row, column, variance = (*state[:2], [None]) if len(state) == 3 else ([None], [None], state[0])
            _adafactor.adafactor(parameters, gradients, row, column, variance, state[-1], foreach=False, d=1.0, lr=rate,
                                 beta2_decay=-0.8, weight_decay=0.0, eps1=None, eps2=1e-3, maximize=False)
        else:
            function = adamw.adamw if self._optimizer == "adamw" else adam.adam
            function(parameters, gradients, *state, foreach=False, amsgrad=False, beta1=0.9, beta2=0.999, lr=rate,
                     weight_decay=1e-2 if self._optimizer == "adamw" else 0.0, eps=1e-8, maximize=False)
