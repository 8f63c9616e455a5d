"""Runs a model with every op on the device that a placement has it on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import fx, nn
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

import emplace
from emplace import InputError
from emplace.torch import _attention, _capture, _graph, _runner

_KERNELS = {_attention.FORWARD: _runner._attention, _attention.BACKWARD: _runner._attention_backward}


class Applied:
    """A model whose ops run where a placement has them. Calls take tensors of the same shapes as those of the capture.

    Each CPU device of the placement is a thread, which runs its ops in the order of the model and waits for what the others
    make. Weights are moved once, here; a tensor is moved once to each device that reads it.
    """

    def __init__(self, graph: emplace.Graph, placement: Sequence[int], devices: Sequence[torch.device],
                 model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], loss: Any) -> None:
        self._devices = list(devices)
        self._step = type("Step", (_capture.StepWithOutput,), {"structure": _capture.OutputStructure()})
        self._joint, op_of = _matching(graph, model, args, kwargs, loss, self._step)
        device_of = dict(zip(graph.op_names, placement))
        self._nodes = [node for node in self._joint.graph.nodes if node.op != "output"]
        self._part = {node: int(device_of[op]) for node, op in op_of.items()}
        self._follow_inputs()
        self._op_of = op_of
        self._weights = {node: self._weight(node) for node in self._nodes if self._is_weight(node)}
        output = next(node for node in self._joint.graph.nodes if node.op == "output")
        results = pytree.tree_leaves(output.args[0])
        self._loss, self._outputs = results[0], results[1:1 + self._step.structure.num_tensors]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output, without gradients."""
        return self._step.structure.output_of(self._run(args, kwargs, self._outputs))

    def gradients(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The loss, and its gradient by each parameter, by name."""
        names = list(self._joint.gradients)
        loss, *gradients = self._run(args, kwargs, [self._loss, *self._joint.gradients.values()])
        return loss, dict(zip(names, gradients))

    def partitions(self) -> fx.GraphModule:
        """The forward pass as a module that has a submodule for each device in use, called one after the other. Its
        arguments are the tensors of a call. Raises InputError where devices take turns."""
        nodes = _needed(self._outputs)
        self._refuse_turns(nodes)
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        targets = self._targets()
        for node in (each for each in self._nodes if each in nodes):
            copies[node] = graph.get_attr(targets[node]) if node in targets else graph.node_copy(node, copies.__getitem__)
            if node.target in _KERNEL_OF:
                copies[node].target = _KERNEL_OF[node.target]
        part_of = {copies[node]: self._part.get(node, 0) for node in nodes}
        graph.output(tuple(copies[node] for node in self._outputs))
        whole = fx.GraphModule(self._joint.exported, graph)
        return split_module(whole, whole, lambda node: part_of[node])

    # ---- Where nodes run

    def _follow_inputs(self) -> None:
        """What the graph does not have as an op is computed beside what it is computed from."""
        for node in self._nodes:
            if node not in self._part:
                self._part[node] = next((self._part[each] for each in node.all_input_nodes), 0)

    def _is_weight(self, node: fx.Node) -> bool:
        return node.op == "get_attr" or (node.op == "placeholder" and self._joint.inputs[node.name][0] in ("parameter", "buffer"))

    def _weight(self, node: fx.Node) -> torch.Tensor:
        if node.op == "get_attr":
            value = getattr(self._joint.module, str(node.target))
        else:
            owner, _, name = node.meta["desc"].target.rpartition(".")
            value = getattr(self._joint.exported.get_submodule(owner), name)
        return value.detach().to(self._devices[self._part[node]]) if isinstance(value, torch.Tensor) else value

    def _targets(self) -> dict[fx.Node, str]:
        """The attribute of the exported module that each weight is."""
        targets = {}
        for node in self._weights:
            if node.op == "placeholder":
                targets[node] = node.meta["desc"].target
            else:
                targets[node] = f"constant_{node.name}"
                setattr(self._joint.exported, targets[node], getattr(self._joint.module, str(node.target)))
        return targets

    def _refuse_turns(self, nodes: set[fx.Node]) -> None:
        edges: dict[int, dict[int, str]] = {}
        for node in (each for each in self._nodes if each in nodes and not self._is_weight(each)):
            for each in node.all_input_nodes:
                if not self._is_weight(each) and each.op != "placeholder" and self._part[each] != self._part[node]:
                    edges.setdefault(self._part[each], {}).setdefault(
                        self._part[node], f"{self._op_of.get(node, node.name)} reads {self._op_of.get(each, each.name)}")
        for start in edges:
            path = _way_back(edges, start)
            if path:
                told = ", and ".join(f"on device {b} {edges[a][b]} of device {a}" for a, b in zip(path, path[1:]))
                raise InputError(f"placement: devices take turns: {told} (one part for each device)")

    # ---- Running

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: list[Any]) -> list[Any]:
        needed = _needed(wanted)
        nodes = [node for node in self._nodes if node in needed]
        values = _Values(nodes, wanted)
        leaves = pytree.tree_leaves((args, dict(kwargs)))
        with ExitStack() as stack:
            submit: list[Callable[..., Future[Any]]] = [_now] * len(self._devices)
            if all(device.type == "cpu" for device in self._devices):
                submit = [stack.enter_context(ThreadPoolExecutor(1)).submit for _ in self._devices]
            for node in nodes:
                if node in self._weights:
                    values.set(node, _now(lambda: self._weights[node]))
                elif node.op == "placeholder":
                    values.set(node, _now(lambda: self._input(node, leaves)))
                else:
                    values.set(node, submit[self._part[node]](self._call, node, values))
            return [values.get(node, None) if isinstance(node, fx.Node) else node for node in wanted]

    def _input(self, node: fx.Node, leaves: list[Any]) -> Any:
        if self._joint.inputs[node.name][0] == "gradient":
            value = node.meta["val"]
            return torch.ones(value.shape, dtype=value.dtype, device=self._devices[self._part[node]])
        value = leaves[node.meta["desc"].idx]
        if not isinstance(value, torch.Tensor):
            return value
        expected = tuple(_graph.sizes(node.meta["val"].shape))
        if tuple(value.shape) != expected:
            raise InputError(f"arguments: tensor {node.meta['desc'].idx} has the shape {list(value.shape)} "
                             f"({list(expected)}, as in the capture)")
        return value

    def _call(self, node: fx.Node, values: _Values) -> Any:
        device = self._devices[self._part[node]]
        part = self._part[node]
        with torch.no_grad():
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: values.get(each, (part, device)))
            args, kwargs = pytree.tree_map_only(torch.device, lambda _: device, (args, dict(kwargs)))
            result = _KERNEL_OF.get(node.target, node.target)(*args, **kwargs)
        values.release(node)
        return result


class _Values:
    """Results by node, and their copies on other devices, until the last reader has run."""

    def __init__(self, nodes: Sequence[fx.Node], wanted: Sequence[Any]) -> None:
        self._results: dict[fx.Node, Future[Any]] = {}
        self._moved: dict[fx.Node, dict[int, Any]] = {}
        self._left = {node: 0 for node in nodes}
        for node in nodes:
            for each in node.all_input_nodes:
                self._left[each] += 1
        for node in wanted:
            if isinstance(node, fx.Node):
                self._left[node] += 1
        self._lock = threading.Lock()

    def set(self, node: fx.Node, result: Future[Any]) -> None:
        self._results[node] = result

    def get(self, node: fx.Node, to: tuple[int, torch.device] | None) -> Any:
        value = self._results[node].result()
        if to is None or not isinstance(value, torch.Tensor) or value.device == to[1]:
            return value
        moved = self._moved.setdefault(node, {})
        if to[0] not in moved:
            moved[to[0]] = value.to(to[1])
        return moved[to[0]]

    def release(self, reader: fx.Node) -> None:
        with self._lock:
            for node in reader.all_input_nodes:
                self._left[node] -= 1
                if self._left[node] == 0:
                    self._results.pop(node)
                    self._moved.pop(node, None)


_KERNEL_OF = {getattr(torch.ops.emplace, name.partition("::")[2]).default: kernel for name, kernel in _KERNELS.items()}


def _now(function: Callable[..., Any], *args: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*args))
    return future


def _needed(wanted: Sequence[Any]) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    pending = [node for node in wanted if isinstance(node, fx.Node)]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    return needed


def _way_back(edges: Mapping[int, Mapping[int, str]], start: int) -> list[int]:
    """The shortest cycle through a device; empty if there is none."""
    paths = [[start]]
    seen: set[int] = set()
    for path in paths:
        for after in edges.get(path[-1], {}):
            if after == start:
                return path + [start]
            if after not in seen:
                seen.add(after)
                paths.append(path + [after])
    return []


def _matching(graph: emplace.Graph, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], loss: Any,
              step: type[_capture.StepWithOutput]) -> tuple[_capture.JointGraph, dict[fx.Node, str]]:
    """The model's joint graph, and the op of the captured graph that each node is."""
    known = set(graph.op_names)
    missing = ""
    for on_cpu in (False, True):  # for whose kernels the graph was captured
        joint = _capture.joint_graph(model, args, kwargs, loss, on_cpu, step)
        writer = _graph.GraphWriter(joint, model, on_cpu)
        writer.ops(None)
        found = {node: writer.op_of(node) for node in joint.graph.nodes}
        op_of = {node: op for node, op in found.items() if op is not None}
        # A capture leaves out what only outputs need and the loss does not.
        results = next(node for node in joint.graph.nodes if node.op == "output").args[0]
        step_nodes = _needed([pytree.tree_leaves(results)[0], *joint.gradients.values()])
        missing = next((op for node, op in op_of.items() if op not in known and node in step_nodes), "")
        if not missing:
            return joint, {node: op for node, op in op_of.items() if op in known}
    raise InputError(f"placement: its graph has no op {missing} (a graph that et.capture has made of this model, with the "
                     "same arguments and loss)")
