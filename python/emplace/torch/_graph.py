"""From PyTorch's joint graph to the ops of a graph.json."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import Any, Iterator

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from emplace.torch import _attention, _capture, _on_cpu, _optimizers
from emplace.torch._capture import JointGraph

DTYPES = {torch.bool: "bool", torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.float16: "f16",
          torch.bfloat16: "bf16", torch.int32: "i32", torch.float32: "f32", torch.int64: "i64", torch.float64: "f64"}
_SIZES = {name: dtype.itemsize for dtype, name in DTYPES.items()}
_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2,
                   torch.channels_last_3d: 3}
# Operators of no schema that says so: they hand on the memory of their first argument.
_VIEWS = {"aten::_unsafe_view", "aten::detach", "aten::alias", "aten::lift_fresh",
          "aten::lift_fresh_copy"}
# What graphs call the operators of _attention.py.
_KINDS = {_attention.FORWARD: "aten::scaled_dot_product_attention",
          _attention.BACKWARD: "aten::scaled_dot_product_attention_backward"}


@dataclass(frozen=True)
class _Memory:
    """A tensor of the graph: output `index` of an op."""
    op: str
    index: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class GraphWriter:
    """Turns a joint graph into ops. Views are no ops: who reads a view reads the memory behind it, with the view's
    shape, strides and offset in attr `input_views`. An op that writes in place has no outputs: who reads what it wrote
    reads the memory that it wrote to, and has the op among its control inputs."""

    def __init__(self, joint: JointGraph, model: nn.Module, on_cpu: bool = False,
                 program_order: bool = False) -> None:
        self._joint = joint
        self._program_order = program_order
        self._on_cpu = on_cpu
        self._ops: list[dict[str, Any]] = []
        self._values: dict[torch.fx.Node, Any] = {}  # _Memory, a list of them, or None
        self._in_place = _InPlace(joint.graph)
        self._writers: dict[str, str] = {}  # by "op:output", the last op that wrote it in place
        self._readers: dict[str, list[str]] = {}  # those since then
        self._again = _recomputed_nodes(joint.graph)  # by checkpoint, until they are recomputed
        self._recomputed: dict[str, dict[torch.fx.Node, Any]] = {}  # their values then, by checkpoint
        self._scope: dict[torch.fx.Node, Any] = {}  # those of the checkpoint that the node belongs to
        self._is_recomputing = False
        self._begins_checkpoint = False  # the next op does
        self._held = 0  # bytes while its backward pass runs
        self._layers: dict[str, str] = {}  # of each op
        self._position: dict[str, int] = {}
        self._passes: dict[str, str] = {}  # of each op that computes
        self._names = {alias: first for first, aliases in tied_parameters(model).items() for alias in aliases}
        self._state = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
        self._gradient_layers = {node: name.rpartition(".")[0] for name, node in joint.gradients.items()}
        self._without_module: dict[str, int] = {}
        self._last_backward = ""
        self._last_call = ""
        self._functions: dict[str, Any] = {}  # the number of the function of the backward pass that an op belongs to

    def ops(self, optimizer: str | None) -> list[dict[str, Any]]:
        assume_sizes(self._joint.graph)
        for node in self._joint.graph.nodes:
            if node.op == "placeholder":
                self._add_placeholder(node)
            elif node.op == "get_attr":
                self._add_constant(node)
            elif node.op == "call_function":
                if _is_backward(node):
                    self._enter_checkpoint(_checkpoint_of(node))
                self._add_call(node)
        self._add_updates(optimizer)
        self._hold_what_functions_read()
        return self._ops

    def op_of(self, node: torch.fx.Node) -> str | None:
        """The op that a node's result is, or whose memory it is a view of; None for what is no tensor."""
        memories = pytree.tree_leaves(self._values.get(node))
        return next((memory.op for memory in memories if isinstance(memory, _Memory)), None)

    @property
    def without_module(self) -> dict[str, int]:
        """How many ops of each kind PyTorch names no module for. They have the layer of the last of their inputs to be made."""
        return dict(sorted(self._without_module.items()))

    # ---- Sources

    def _add_placeholder(self, node: torch.fx.Node) -> None:
        kind, name = self._joint.inputs[node.name]
        value = node.meta.get("val")
        name = self._names.get(name, name)
        if kind == "buffer" and name not in self._state:
            name = f"constant/{name}"
        if not isinstance(value, torch.Tensor):
            self._values[node] = None
        elif name.startswith("constant/"):
            self._emit({"name": name, "kind": "variable", "outputs": [output_of(value)], "pass": "forward",
                        "attrs": {"constant": True}})
            self._values[node] = self._memory(name, 0, value)
        elif kind in ("parameter", "buffer"):
            if name not in self._layers:
                self._add_variable(name, value, {} if kind == "parameter" else {"buffer": True})
            self._values[node] = self._memory(name, 0, value)
        else:
            name = "loss/gradient" if kind == "gradient" else name
            self._emit({"name": name, "kind": "input", "outputs": [output_of(value)],
                        "pass": "backward" if kind == "gradient" else "forward"})
            self._values[node] = self._memory(name, 0, value)

    def _add_variable(self, name: str, value: torch.Tensor, attrs: dict[str, Any]) -> None:
        owner = name.rpartition(".")[0]
        op = {"name": name, "kind": "variable", "outputs": [output_of(value)], "pass": "forward", "layer": owner}
        if attrs:
            op["attrs"] = attrs
        self._emit(op)

    def _add_constant(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if value is None:
            value = getattr(self._joint.module, str(node.target), None)
        if not isinstance(value, torch.Tensor):
            self._values[node] = None
            return
        name = f"constant/{node.name}"
        self._emit({"name": name, "kind": "variable", "outputs": [output_of(value)], "pass": "forward",
                    "attrs": {"constant": True}})
        self._values[node] = self._memory(name, 0, value)

    # ---- Calls

    def _enter_checkpoint(self, mark: str) -> None:
        """The backward pass of a checkpoint begins with computing its values again."""
        nodes = self._again.pop(mark, [])
        self._scope = self._recomputed.setdefault(mark, {}) if mark else {}
        self._is_recomputing = True
        for node in nodes:
            self._add_call(node)
        self._is_recomputing = False
        self._begins_checkpoint = self._begins_checkpoint or bool(nodes)
        if nodes or not mark:
            self._held = sum(self._result_bytes(node) for node in nodes if _is_result(node)) if mark.endswith("all") else 0

    def _result_bytes(self, node: torch.fx.Node) -> int:
        """The size of the second result of a checkpoint with its own backward pass, which holds it until that is over."""
        memory = self._value_of(node)
        return math.prod(memory.shape) * node.meta["val"].dtype.itemsize if isinstance(memory, _Memory) else 0

    def _value_of(self, node: torch.fx.Node) -> Any:
        return self._scope[node] if node in self._scope else self._values.get(node)

    def _keep(self, node: torch.fx.Node, value: Any) -> None:
        (self._scope if self._is_recomputing else self._values)[node] = value

    def _add_call(self, node: torch.fx.Node) -> None:
        if _is_item(node):
            of = self._value_of(node.args[0])
            self._keep(node, of[node.args[1]] if isinstance(of, (list, tuple)) else None)
            return
        value = node.meta.get("val")
        tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if not tensors:  # an assertion, or arithmetic on sizes
            self._keep(node, None)
            return
        source = self._viewed(node)
        if source is not None:
            self._keep(node, [source] * len(value) if isinstance(value, (list, tuple)) else source)
            return
        if node in self._in_place.scatters:  # of what was written in place
            self._keep(node, self._value_of(node.args[0]))
            return
        self._emit_call(node, value)

    def _viewed(self, node: torch.fx.Node) -> _Memory | None:
        """The memory that a view's result lies in."""
        if not is_view(node):
            return None
        first = node.args[0] if node.args else None
        memory = self._value_of(first) if isinstance(first, torch.fx.Node) else None
        return memory if isinstance(memory, _Memory) else None

    def _emit_call(self, node: torch.fx.Node, value: Any) -> None:
        inputs: list[str] = []
        views: list[Any] = []
        kind = kind_of(node.target)
        written: dict[int, _Memory] = {}  # by result
        if self._is_in_place(node):
            kind = kind_of(in_place_operator(node.target))
            written = {0: self._value_of(node.args[0])}
        elif kind == "aten::_native_batch_norm_legit_functional":  # its statistics are new in a joint graph
            kind = "aten::native_batch_norm"
            written = {3: self._value_of(node.args[3]), 4: self._value_of(node.args[4])}
        args = [self._argument(arg, inputs, views) for arg in node.args]
        kwargs = {key: self._argument(arg, inputs, views) for key, arg in node.kwargs.items()}
        attrs: dict[str, Any] = {"args": args}
        if kwargs:
            attrs["kwargs"] = kwargs
        if any(view is not None for view in views):
            attrs["input_views"] = views
        place = source_line(node)
        if place:
            attrs["source"] = place
        layer = self._layer_of(node)
        if layer is None:
            # The sum of the gradients of a tensor that several modules read belongs where the last of them is made, which is
            # the first of these modules in the forward pass.
            makers = [name.partition(":")[0] for name in inputs]
            layer = self._layers[max(makers, key=self._position.__getitem__)] if makers else ""
            if not (layer and _is_sum_of_gradients(node)):
                self._without_module[kind] = self._without_module.get(kind, 0) + 1
        is_backward = self._is_recomputing or _is_backward(node)
        name = f"{layer}/{node.name}" if layer else node.name
        if self._is_recomputing:
            name += "/recomputed"
            attrs["recomputed"] = True
        op: dict[str, Any] = {"name": name, "kind": kind, "inputs": inputs, "outputs": [], "attrs": attrs,
                              "pass": "backward" if is_backward else "forward", "layer": layer}
        flop = flop_of(node)
        if flop:
            op["flop"] = flop
        leaves = list(value) if isinstance(value, (list, tuple)) else [value]
        memories: list[Any] = []
        for i, leaf in enumerate(leaves):
            if i in written:
                memories.append(written[i])
            elif isinstance(leaf, torch.Tensor):
                memories.append(self._memory(name, len(op["outputs"]), leaf))
                op["outputs"].append(output_of(leaf))
            else:
                memories.append(None)
        after = self._writes_and_reads(name, inputs, list(written.values()))
        if self._last_call and (self._program_order or self._begins_checkpoint):
            after.append(self._last_call)
        elif self._last_call and not self._waits(inputs, is_backward):
            after += [self._last_call] if is_backward else self._met_later(node)
        if after:
            op["control_inputs"] = list(dict.fromkeys(after))
        self._begins_checkpoint = False
        if self._on_cpu:
            _on_cpu.adapt(op, node)
        if written:
            op["colocate_with"] = next(iter(written.values())).op
        if self._held and _checkpoint_of(node):
            op["temp_bytes"] = op.get("temp_bytes", 0) + self._held
        self._emit(op)
        self._keep(node, memories if isinstance(value, (list, tuple)) else memories[0])
        self._last_call = name
        if is_backward and not self._is_recomputing:
            self._functions[name] = node.meta.get("seq_nr")
        if is_backward:
            self._last_backward = name

    def _is_in_place(self, node: torch.fx.Node) -> bool:
        """Sums of gradients only within a module: the sum of several modules' may be on another device than the first of them."""
        if node not in self._in_place.writes or not isinstance(self._value_of(node.args[0]), _Memory):
            return False
        return not _is_sum_of_gradients(node) or len({self._layers.get(str(self.op_of(arg))) for arg in node.all_input_nodes}) == 1

    def _writes_and_reads(self, name: str, inputs: list[str], written: list[_Memory]) -> list[str]:
        """The ops that an op follows because they wrote in place what it reads, or read what it writes in place."""
        after = [self._writers[memory] for memory in inputs if memory in self._writers]
        for memory in inputs:
            self._readers.setdefault(memory, []).append(name)
        for memory in (f"{each.op}:{each.index}" for each in written):
            after += [reader for reader in self._readers[memory] if reader != name]
            self._readers[memory] = []
            self._writers[memory] = name
        return after

    def _waits(self, inputs: list[str], is_backward: bool) -> bool:
        """Whether the inputs keep an op from running long before its turn, as a program does not, and from holding its
        results until then: one is computed in the step, for a backward op in the backward pass."""
        producers = (self._passes.get(name.rpartition(":")[0]) for name in inputs)
        return any(found == "backward" or (found == "forward" and not is_backward) for found in producers)

    def _met_later(self, node: torch.fx.Node) -> list[str]:
        """The latest op before a forward op whose result is needed together with its own: in a pipeline the op in front of it
        in the program may be on a later stage, such as one that shifts labels."""
        begin = self._in_place.position[node]
        seen = {node}
        users = list(node.users)
        while users:
            given = [arg for user in users if not _is_backward(user) for arg in user.all_input_nodes
                     if self._in_place.position[arg] < begin]
            ops = [op for op in map(self.op_of, given) if op in self._passes]
            if ops:
                return [max(ops, key=self._position.__getitem__)]
            seen.update(users)
            users = list(dict.fromkeys(user for each in users for user in each.users if user not in seen))
        return []

    def _argument(self, arg: Any, inputs: list[str], views: list[Any]) -> Any:
        """An argument as attr `args` has it (docs/profiling.md); tensors are added to the inputs."""
        if isinstance(arg, torch.fx.Node):
            memory = self._value_of(arg)
            value = arg.meta.get("val")
            if isinstance(memory, _Memory) and isinstance(value, torch.Tensor):
                inputs.append(f"{memory.op}:{memory.index}")
                shape, strides = sizes(value.shape), sizes(value.stride())
                offset = _hint(value.storage_offset())
                same = shape == memory.shape and strides == memory.strides and offset == 0
                views.append(None if same else [list(shape), list(strides), offset])
                return f"%{len(inputs) - 1}"
            return _hint(value) if isinstance(value, (int, torch.SymInt)) else None
        if isinstance(arg, (list, tuple)):
            return [self._argument(each, inputs, views) for each in arg]
        return constant(arg)

    def _layer_of(self, node: torch.fx.Node) -> str | None:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        if stack:
            return module_path(stack)
        # The sum of the gradients of a parameter that is used several times belongs to the parameter's module.
        if kind_of(node.target) == "aten::add.Tensor":
            return self._gradient_layers.get(node)
        return None

    # ---- The end of the step

    def _add_updates(self, optimizer: str | None) -> None:
        """An update of each parameter with a gradient, after the whole backward pass as optimizers are called.

        What is not updated is held to the end of the step as well, by an op of no cost that reads it.
        """
        after = [self._last_backward] if self._last_backward else []
        gradients = {self._names.get(name, name): self._values.get(node)
                     for name, node in self._joint.gradients.items()}
        for variable in [op for op in self._ops if op["kind"] == "variable"]:
            name = variable["name"]
            gradient = gradients.get(name)
            common = {"pass": "update", "layer": variable.get("layer", ""), "colocate_with": name,
                      "control_inputs": after}
            if isinstance(gradient, _Memory) and optimizer is not None:
                shape = variable["outputs"][0]["shape"]
                for state in _optimizers.states(optimizer, shape, variable["outputs"][0].get("dtype", "f32")):
                    self._emit({"name": f"{name}/{state.name}", "kind": "variable", "outputs": [state.output],
                                "pass": "update", "layer": common["layer"], "colocate_with": name,
                                "attrs": {"optimizer_state": True}})
                self._emit(_optimizers.update(optimizer, variable, f"{gradient.op}:{gradient.index}") | common)
            else:
                held = [f"{name}:0"] + ([f"{gradient.op}:{gradient.index}"] if isinstance(gradient, _Memory) else [])
                self._emit(_holder(name, held) | common)
        read_last = {name.rpartition(":")[0] for op in self._ops if op["pass"] == "backward" for name in op.get("inputs", [])}
        for given in [op for op in self._ops if op["kind"] == "input" and op["pass"] == "forward"]:
            if given["name"] not in read_last:  # the caller holds the arguments
                self._emit(_holder(given["name"], [f"{given['name']}:0"]) |
                           {"pass": "update", "layer": "", "colocate_with": given["name"], "control_inputs": after})

    def _hold_what_functions_read(self) -> None:
        """A function of the backward pass frees what it reads when it returns, not when its last op that needs it ends.
        Until then it is temporary memory of the ops that follow."""
        tensor_bytes = {f"{op['name']}:{i}": output_bytes(output)
                        for op in self._ops for i, output in enumerate(op.get("outputs", []))}
        last_reader = {name: op["name"] for op in self._ops for name in op.get("inputs", [])}
        function = None
        held = 0
        for op in self._ops:
            if self._functions.get(op["name"]) != function:
                function = self._functions.get(op["name"])
                held = 0
            if function is None:
                continue
            if held:
                op["temp_bytes"] = op.get("temp_bytes", 0) + held
            held += sum(tensor_bytes[name] for name in set(op["inputs"]) if last_reader[name] == op["name"])

    # ---- Helpers

    def _emit(self, op: dict[str, Any]) -> None:
        self._layers[op["name"]] = op.get("layer", "")
        self._position[op["name"]] = len(self._ops)
        if op["kind"] not in ("variable", "input"):
            self._passes[op["name"]] = op["pass"]
        self._ops.append(op)

    @staticmethod
    def _memory(op: str, index: int, value: torch.Tensor) -> _Memory:
        return _Memory(op, index, sizes(value.shape), sizes(value.stride()))


def _holder(name: str, held: list[str]) -> dict[str, Any]:
    """An op that reads tensors at the end of the step."""
    return {"name": f"{name}/held", "kind": "aten::detach", "inputs": held, "attrs": {"args": ["%0"]}}


def _is_backward(node: torch.fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward"


def _checkpoint_of(node: torch.fx.Node) -> str:
    return (node.meta.get("custom") or {}).get(_capture.CHECKPOINT, "")


def _is_result(node: torch.fx.Node) -> bool:
    """Whether the forward pass reads a node of a checkpoint outside of it."""
    return any(_checkpoint_of(user) != _checkpoint_of(node) and not _is_backward(user) for user in node.users)


_SCATTERS = {"aten::select_scatter", "aten::slice_scatter", "aten::diagonal_scatter", "aten::as_strided_scatter"}


class _InPlace:
    """Which nodes of a joint graph PyTorch runs in place.

    Those are what the program wrote so, and `copy`, if nobody reads the old values later: an operator that saves them for
    the backward pass has to copy them anyway.

    writes: nodes that write the memory of their first argument. scatters: nodes that put a part that was written in place
    back into the whole, which has it already. position: of each node in the program.
    """

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.writes: set[torch.fx.Node] = set()
        self.scatters: set[torch.fx.Node] = set()
        self._whole: dict[torch.fx.Node, torch.fx.Node] = {}  # the node behind a view
        self._readers: dict[torch.fx.Node, list[torch.fx.Node]] = {}
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        for node in graph.nodes:
            base = node.args[0] if node.args else None
            is_part = isinstance(base, torch.fx.Node) and is_view(base if _is_item(node) else node)
            self._whole[node] = self._whole[base] if is_part else node
            if not is_part:
                for whole in {self._whole[arg] for arg in node.all_input_nodes}:
                    self._readers.setdefault(whole, []).append(node)
        for node in graph.nodes:
            self._look_at(node)

    def _look_at(self, node: torch.fx.Node) -> None:
        if not (node.args and isinstance(node.args[0], torch.fx.Node) and in_place_operator(node.target)) or _checkpoint_of(node):
            return
        is_written = not _is_backward(node) and (node.meta.get("custom") or {}).get(_capture.IN_PLACE)
        if not is_written and not _is_sum_of_gradients(node) and node.target._schema.name != "aten::copy":
            return
        whole = self._whole[node.args[0]]
        scatters: list[torch.fx.Node] = []
        part = node
        while len(part.users) == 1:
            user = next(iter(part.users))
            if kind_of(user.target).partition(".")[0] not in _SCATTERS or user.args[1] is not part or \
                    self._whole[user.args[0]] is not whole:
                break
            scatters.append(user)
            part = user
        if any(self.position[reader] > self.position[node] and reader not in scatters for reader in self._readers[whole]):
            return
        # All of the memory that is written is in the result.
        old, new = (each.meta["val"] for each in ((scatters[-1] if scatters else node).args[0], part))
        behind = whole.meta["val"]
        if not isinstance(behind, torch.Tensor) or sizes(old.shape) != sizes(new.shape) or old.dtype != new.dtype or \
                math.prod(sizes(behind.shape)) != math.prod(sizes(new.shape)) or sizes(old.stride()) != sizes(new.stride()):
            return
        self.writes.add(node)
        self.scatters.update(scatters)


def _is_sum_of_gradients(node: torch.fx.Node) -> bool:
    return _is_backward(node) and kind_of(node.target) == "aten::add.Tensor" and not (
        node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack"))


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node's result lies in the memory of its first argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    aliases = [result.alias_info for result in schema.returns]
    return bool(aliases) and all(info is not None and not info.is_write for info in aliases) or schema.name in _VIEWS


def _is_item(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem" and not isinstance(node.target, torch._ops.OpOverload)


def in_place_operator(target: Any) -> Any:
    """The operator that does in place what another one does, None if there is none."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, target._schema.name.partition("::")[2] + "_", None)
    return getattr(packet, target._overloadname, None)


def _recomputed_nodes(graph: torch.fx.Graph) -> dict[str, list[torch.fx.Node]]:
    """What each checkpoint computes again: all up to the last value that its backward pass needs."""
    nodes: dict[str, list[torch.fx.Node]] = {}
    needed: dict[str, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        mark = _checkpoint_of(node)
        if mark and _is_backward(node):
            needed.setdefault(mark, set()).update(node.all_input_nodes)
        elif mark and node.op == "call_function":
            nodes.setdefault(mark, []).append(node)
    again = {}
    for mark, found in nodes.items():
        ends = [i + 1 for i, node in enumerate(found) if node in needed.get(mark, ())]
        again[mark] = found if mark.endswith("all") else found[:max(ends, default=0)]
    return again


def tied_parameters(model: nn.Module) -> dict[str, list[str]]:
    """For each parameter or buffer with several names its first name and the others."""
    first: dict[int, str] = {}
    others: dict[str, list[str]] = {}
    everything: Iterator[tuple[str, torch.Tensor]] = (
        pair for named in (model.named_parameters, model.named_buffers) for pair in named(remove_duplicate=False))
    for name, tensor in everything:
        known = first.setdefault(id(tensor), name)
        if known != name:
            others.setdefault(known, []).append(name)
    return others


def sizes(values: Any) -> tuple[int, ...]:
    """Sizes or strides as numbers; a size that only the run decides counts as `assume_sizes` says, or as 1."""
    return tuple(value if type(value) is int else _hint(value) for value in values)


def _hint(size: Any) -> int:
    if type(size) is int:
        return size
    node = getattr(size, "node", None)
    symbols = getattr(getattr(node, "expr", None), "free_symbols", None)
    if not symbols:
        return int(size)
    return int(node.expr.xreplace({symbol: _known_value(node.shape_env, symbol) for symbol in symbols}))


def _known_value(environment: Any, symbol: Any) -> int:
    backed = "backed_var_to_val" if hasattr(environment, "backed_var_to_val") else "var_to_val"  # before 2.13
    for name in ("var_to_hint_override", backed):
        value = getattr(environment, name, {}).get(symbol)
        if value is not None:
            return int(value)
    return 1


_SELECTIONS = {"aten::nonzero", "aten::masked_select", "aten::unique_consecutive", "aten::_unique2", "aten::unique_dim"}


def assume_sizes(graph: torch.fx.Graph) -> None:
    """Says of results that hold some of a tensor's elements, which only the run decides, that they hold all of them."""
    for node in graph.nodes:
        symbols = node.meta.get("unbacked_bindings") or {}
        given = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], torch.fx.Node) else None
        if symbols and isinstance(given, torch.Tensor) and isinstance(node.target, torch._ops.OpOverload) and \
                node.target._schema.name in _SELECTIONS:
            value = next(leaf for leaf in pytree.tree_leaves(node.meta["val"]) if isinstance(leaf, torch.Tensor))
            environment = value.fake_mode.shape_env
            for symbol in symbols:
                environment.var_to_hint_override[symbol] = math.prod(sizes(given.shape))


def output_of(value: torch.Tensor) -> dict[str, Any]:
    shape = list(sizes(value.shape))
    dtype = DTYPES.get(value.dtype)
    if dtype is not None:
        return {"dtype": dtype, "shape": shape}
    return {"bytes": math.prod(shape) * value.dtype.itemsize}


def output_bytes(output: dict[str, Any]) -> int:
    return output["bytes"] if "bytes" in output else math.prod(output["shape"]) * _SIZES[output["dtype"]]


def kind_of(target: Any) -> str:
    """ "aten::add.Tensor", as TorchScript names operators."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name
        if name in _KINDS:
            return _KINDS[name]
        return name + (f".{target._schema.overload_name}" if target._schema.overload_name else "")
    namespace = getattr(target, "namespace", None) or "torch"
    name = getattr(target, "_name", None) or getattr(target, "__name__", "") or "call"
    return f"{namespace}::{re.sub('[^A-Za-z0-9_.]', '_', str(name))}"


def constant(value: Any) -> Any:
    """A value as attr `args` has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return {"str": value} if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, torch.SymInt):
        return _hint(value)
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPES.get(value, str(value).removeprefix("torch."))}
    if isinstance(value, torch.device):
        return {"device": True}
    if isinstance(value, torch.layout):
        return {"layout": 0}
    if isinstance(value, torch.memory_format):
        return {"memory_format": _MEMORY_FORMATS.get(value, 0)}
    return {"str": str(value)}


_STRICT_PATH = re.compile(r"^L\['self'\]\.?|^L__self__\.?|^_export_root\.?")


def module_path(stack: dict[str, tuple[str, Any]]) -> str | None:
    """The path of the innermost module of nn_module_stack; None if that is the step around the model."""
    path = _STRICT_PATH.sub("", next(reversed(stack.values()))[0])
    path = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", path).replace("slice(None, ", "")
    path = re.sub(r"@\d+$", "", path)  # a module that is called several times
    if not path:
        return None
    return _capture.strip(path)


_TORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def source_line(node: torch.fx.Node) -> str:
    """ "file.py:12" of the innermost frame outside of PyTorch, of the forward call for a backward op."""
    trace = node.meta.get("stack_trace") or node.meta.get("fwd_stack_trace") or ""
    frames = _FRAME.findall(trace)
    for file, line in reversed(frames):
        if not file.startswith((_TORCH, "<")) and not file.endswith("emplace/torch/_capture.py"):
            return f"{os.path.basename(os.path.dirname(file))}/{os.path.basename(file)}:{line}"
    return ""


def flop_of(node: torch.fx.Node) -> int:
    """FLOP of a product as torch.utils.flop_counter counts it; 0 for other operators.

    Three are counted by their definition, since PyTorch's counter is wrong or does not know them: gradients of grouped
    convolutions, of which each is as much work as the forward convolution, attention, and the products of experts.
    """
    target = node.target
    value = node.meta.get("val")
    args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda arg: arg.meta.get("val"), (list(node.args), dict(node.kwargs)))
    args, kwargs, value = pytree.tree_map(_with_known_sizes, (args, kwargs, value))
    if not isinstance(target, torch._ops.OpOverload):
        return 0
    name = target._schema.name
    if name == _attention.FORWARD:
        return attention_flop(*args[:3], products_of_keys=1, products_of_values=1)
    if name == _attention.BACKWARD:
        return attention_flop(*args[1:4], products_of_keys=3, products_of_values=2)
    if name == "aten::convolution_backward":
        return convolution_backward_flop(*args)
    if name in GROUPED:
        return grouped_flop(*args[:2]) * GROUPED[name]
    count = flop_registry.get(target._overloadpacket)
    return int(count(*args, **kwargs, out_val=value)) if count else 0


def _with_known_sizes(value: Any) -> Any:
    """Sizes that depend on data as numbers."""
    if isinstance(value, torch.SymInt):
        return _hint(value)
    if isinstance(value, torch.Tensor) and not all(type(size) is int for size in value.shape):
        return torch.empty(sizes(value.shape), dtype=value.dtype, device="meta")
    return value


def attention_flop(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, products_of_keys: int,
                   products_of_values: int) -> int:
    """2 FLOP for each pair of a query and a key, each head and each product, with the sizes of a key or a value."""
    pairs = math.prod(sizes(query.shape[:-1])) * sizes(key.shape)[-2]
    return 2 * pairs * (products_of_keys * sizes(query.shape)[-1] + products_of_values * sizes(value.shape)[-1])


def convolution_backward_flop(*args: Any) -> int:
    """The FLOP of a call of aten::convolution_backward with these arguments."""
    return _convolution_flop(*args[:3], transposed=args[7]) * sum(map(bool, args[10][:2]))


# How many products of the size of the first two arguments' an operator has.
GROUPED = {"aten::_grouped_mm": 1, "transformers::grouped_mm_fallback": 1, "transformers::grouped_mm_fallback_backward": 2}


def grouped_flop(first: torch.Tensor, second: torch.Tensor) -> int:
    """The FLOP of products of matrices whose rows or columns are divided among groups: each meets its group's matrix."""
    first_shape, second_shape = sizes(first.shape), sizes(second.shape)
    if len(first_shape) > len(second_shape):
        return 2 * math.prod(second_shape) * first_shape[-2]
    return 2 * math.prod(first_shape) * second_shape[-1]


def _convolution_flop(gradient: torch.Tensor, given: torch.Tensor, weight: torch.Tensor, transposed: bool) -> int:
    """The FLOP of one product of a convolution: each element of the weight meets each place of the result, of a transposed one
    each place of what it is given. weight: [out, in / groups, ...], of a transposed one [in, out / groups, ...]."""
    places = sizes((given if transposed else gradient).shape)
    return 2 * places[0] * math.prod(places[2:]) * math.prod(sizes(weight.shape))
