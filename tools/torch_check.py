"""Captures a network's training step and compares it with what PyTorch says of the same step."""
from __future__ import annotations

import gc
import json
import logging
import os
import resource
import sys
import time
import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (FlopCounterMode, conv_flop_count, flop_registry, sdpa_backward_flop_count,
                                      sdpa_flop_count)
from torch_networks import Call, Network

import emplace.torch as et
from emplace import InputError
from emplace.torch import _attention, _capture, _process

TRIES = 16  # calls of a network
ELAPSED = 60  # times the CPU time, at most
UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


def warm_up() -> None:
    """Captures a small network here, so that the processes of others begin with all modules loaded."""
    import transformers.integrations.moe  # noqa: F401
    import transformers.modeling_layers  # noqa: F401
    import transformers.models.llama.modeling_llama  # noqa: F401

    warnings.simplefilter("ignore")
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    model(torch.zeros(1, 3, 8, 8))
    et._captured_text(model, (torch.zeros(1, 3, 8, 8),), {}, None, "adam", "warm-up", False, False)
    gc.collect()
    gc.freeze()


def row_of(network: Network, seconds: float) -> dict[str, Any]:
    """The first call that is captured; if there is none, the reason of the first that runs, or of the first at all.

    seconds: of CPU time, of one step of the work. The limits of elapsed time are far longer, since other programs run.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))  # each child has its own
    row: dict[str, Any] = {"library": network.library, "name": network.name}
    reasons = []  # (the step runs, reason)
    with_values = []  # calls whose steps read values of tensors, which are tried last
    calls = network.calls()
    for _ in range(TRIES):
        try:
            call = next(calls)
        except StopIteration:
            break
        except Exception as error:
            reasons.append((False, "not built: " + one_line(error)))
            break
        row["parameters"] = sum(p.numel() for p in call.model.parameters())
        try:
            counted = reference(call, ELAPSED * seconds)
        except InputError as error:
            if str(error).startswith("data: "):
                with_values.append(call)
            else:
                reasons.append((False, "the step does not run: " + str(error)))
            continue
        try:
            return {**row, **captured(call, counted, ELAPSED * seconds)}
        except InputError as error:
            reasons.append((True, str(error)))
    for call in with_values[:1]:
        try:
            return {**row, "parameters": sum(p.numel() for p in call.model.parameters()),
                    **captured(call, None, ELAPSED * seconds)}
        except InputError as error:
            reasons.append((True, str(error)))
    runs, reason = max(reasons, key=lambda pair: pair[0], default=(False, "nothing here builds it"))
    outcome = "not captured" if runs else "not built" if "not built" in reason else "no inputs"
    return {**row, "outcome": outcome, "reason": reason}


def captured(call: Call, counted: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
    begun = time.monotonic()
    graph = et.capture(call.model, call.args, call.kwargs, optimizer="adam", seconds=seconds, memory_gib=8)
    row = {"outcome": "captured", "inputs": call.what, "seconds": time.monotonic() - begun,
           "mebibytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}
    described = graph.metadata["torch"]
    kinds = [op["kind"] for op in json.loads(graph.to_json())["ops"] if op.get("pass") != "update"]
    row["way"] = described["capture"]
    calls = sum(kind not in ("variable", "input") for kind in kinds)
    row["ops"] = calls
    row["parameters_exact"] = graph.parameters == sum(p.numel() for p in call.model.parameters())
    row["with_module_percent"] = 100 * (1 - sum(described["without_module"].values()) / max(calls, 1))
    row["gflop"] = graph.flop / 1e9
    row["flop"] = graph.flop
    if counted is None:
        return {**row, "flop_relation": "not counted"}
    row["gflop_torch"] = counted["raw"] / 1e9
    row["counted"] = counted
    differences = {name: value for name, value in counted["differences"].items() if name != "unused"}
    left_out = counted["right"] - counted["differences"].get("unused", 0) - graph.flop
    if left_out:
        differences["unused"] = -left_out
    if not is_sum_of_some(left_out, counted.pop("unused_calls")):
        row["flop_relation"] = "differs"
    else:
        row["flop_relation"] = "equal but " + ", ".join(sorted(differences)) if differences else "equal"
    return row


def is_sum_of_some(total: int, numbers: list[int]) -> bool:
    sums = {0}
    for number in numbers:
        sums |= {each + number for each in sums if each + number <= total}
    return total in sums


def reference(call: Call, seconds: float) -> dict[str, Any]:
    """What PyTorch counts while the step runs with tensors without memory, or with real ones where they are needed."""
    try:
        return _process.call(lambda: counted_flop(call, False), "step", seconds, 8)
    except InputError:
        if any(tensor.device.type != "cpu" for tensor in call.model.parameters()):
            raise
        torch.manual_seed(0)
        return _process.call(lambda: counted_flop(call, True), "step", seconds, 8)


def counted_flop(call: Call, real: bool) -> dict[str, Any]:
    def meta(value):
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    args, kwargs = (call.args, call.kwargs) if real else \
        _capture._without_memory(call.model, *pytree.tree_map(meta, (call.args, call.kwargs)))
    if "transformers.integrations.moe" in sys.modules:  # as it does while exporting: no operator for other types than bf16
        sys.modules["transformers.integrations.moe"]._can_use_grouped_mm = lambda *_: False
    mapping, differences = corrections()
    try:
        with _attention.OneOpAttention(False), FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            with uses(counter) as log:
                loss = _capture._Step(call.model, None)(*args, **kwargs)
                loss.backward()
        unused_calls = log.unused([loss, *(parameter.grad for parameter in call.model.parameters())])
        differences["unused"] = -sum(unused_calls)
    except UNKNOWN as error:
        raise InputError("data: " + one_line(error)) from error
    except InputError:
        raise
    except Exception as error:
        if "SymInt" in str(error):
            raise InputError("data: " + one_line(error)) from error
        if os.environ.get("EMPLACE_TRACE"):
            import traceback

            traceback.print_exc()
        raise InputError(one_line(error)) from error
    found = {name: value for name, value in differences.items() if value}
    right = counter.get_total_flops() + found.get("unused", 0)
    return {"right": right, "raw": right - sum(found.values()), "differences": found, "unused_calls": unused_calls}


def uses(counter: FlopCounterMode) -> Any:
    """A mode that knows which operators compute nothing that the loss or a gradient of a parameter depends on. PyTorch's
    graph leaves out those of them that it notices."""
    def memories(values):
        return [leaf.untyped_storage() for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]

    class Uses(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = []  # (FLOP, memories that it reads, memories that it writes)

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            before = counter.get_total_flops()
            result = function(*args, **(kwargs or {}))
            flop = counter.get_total_flops() - before
            read, written = memories((args, kwargs)), memories(result)
            if function._schema.is_mutable:
                written = written + read
            gradients = memories(result[:2]) if function is torch.ops.aten.convolution_backward.default else []
            if len(gradients) == 2:  # each is as much work
                self.calls += [(flop // 2, read, [gradient]) for gradient in gradients]
                flop = 0
            self.calls.append((flop, read, written))
            return result

        def unused(self, results):
            """The FLOP of each of these operators."""
            needed = {memory._cdata for memory in memories(results)}
            found = []
            for count, read, written in reversed(self.calls):
                if any(memory._cdata in needed for memory in written):
                    needed.update(memory._cdata for memory in read)
                elif count:
                    found.append(count)
            return found

    return Uses()


def corrections() -> tuple[dict[Any, Any], dict[str, int]]:
    """Formulas of what PyTorch's counter does not count, or counts wrong, and how much more each of them counts.

    They are PyTorch's own where it has one: of attention, which it does not count on CPUs, and of convolutions.
    Each step of an LSTM multiplies a row of the input and one of the state by the weights, forward and in each of two
    gradients; nobody reads the gradient of the first state, which its kernel computes.
    """
    differences = {}

    def raw(formula):
        formula._get_raw = True
        return formula

    def add(name, right, counted):
        differences[name] = differences.get(name, 0) + right - counted
        return right

    def of_heads(tensor):  # (batch, heads, length, width)
        batch = 1
        for size in tensor.shape[:-3]:
            batch *= size
        return batch, tensor.shape[-3] if tensor.dim() > 2 else 1, *tensor.shape[-2:]

    @raw
    def attention(query, key, value, *rest, out_val=None, **kwargs):
        return add("attention", sdpa_flop_count(*map(of_heads, (query, key, value))), 0)

    @raw
    def attention_backward(gradient, query, key, value, *rest, out_val=None, **kwargs):
        return add("attention", sdpa_backward_flop_count(*map(of_heads, (gradient, query, key, value))), 0)

    @raw
    def convolution_backward(*args, out_val=None, **kwargs):
        counted = flop_registry[torch.ops.aten.convolution_backward](*args, out_val=out_val, **kwargs)
        gradient, given, weight, transposed, mask = *args[:3], args[7], args[10]
        forward = conv_flop_count(list(given.shape), list(weight.shape), list(gradient.shape), transposed)
        return add("grouped convolutions", forward * sum(mask[:2]), counted)  # each gradient is as much as the forward

    def product(rows, weight):  # each row meets the matrix of one expert
        return 2 * rows.shape[0] * weight.shape[-2] * weight.shape[-1]

    @raw
    def grouped(first, second, *rest, out_val=None, **kwargs):
        if first.dim() == 2 and second.dim() == 2:  # the gradient of the weights
            return add("experts", 2 * first.shape[0] * first.shape[1] * second.shape[1], 0)
        return add("experts", product(first, second), 0)

    @raw
    def grouped_backward(rows, weight, *rest, out_val=None, **kwargs):
        return add("experts", 2 * product(rows, weight), 0)

    def recurrence(given, input_weight, state_weight):  # given: (length, batch, width)
        return 2 * given.shape[0] * given.shape[1] * (input_weight.numel() + state_weight.numel())

    @raw
    def lstm(given, input_weight, state_weight, *rest, out_val=None, **kwargs):
        return add("recurrences", recurrence(given, input_weight, state_weight), 0)

    @raw
    def lstm_backward(given, input_weight, state_weight, *rest, out_val=None, **kwargs):
        first = 2 * given.shape[1] * state_weight.numel()
        return add("recurrences", 2 * recurrence(given, input_weight, state_weight) - first, 0)

    mapping = {torch.ops.aten.mkldnn_rnn_layer: lstm, torch.ops.aten.mkldnn_rnn_layer_backward: lstm_backward,
               torch.ops.emplace.attention: attention, torch.ops.emplace.attention_backward: attention_backward,
               torch.ops.aten.convolution_backward: convolution_backward, torch.ops.aten._grouped_mm: grouped}
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        mapping[torch.ops.transformers.grouped_mm_fallback] = grouped
        mapping[torch.ops.transformers.grouped_mm_fallback_backward] = grouped_backward
    return mapping, differences


def one_line(error: BaseException) -> str:
    return _capture.reason(error)[:200]
