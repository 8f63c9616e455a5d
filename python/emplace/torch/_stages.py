"""A model cut into the stages of a plan, each a module that gives its values to the next."""

from __future__ import annotations

import itertools
import operator
from typing import Any, Collection, Mapping

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from emplace import InputError
from emplace.torch import _capture, _graph, _recompute


class Flat(nn.Module):
    """Takes the tensors of a call's arguments and returns those of its output, each one after the other, since stages
    exchange nothing else. `whole` puts the output together again."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self._given, self._call = pytree.tree_flatten((args, kwargs))
        self._output = _capture.OutputStructure()
        self.inputs = tuple(leaf for leaf in self._given if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> Any:
        next_tensor = iter(tensors)
        args, kwargs = pytree.tree_unflatten(
            [next(next_tensor) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._given], self._call)
        results = tuple(self._output.tensors_of(self.model(*args, **kwargs)))
        return results if len(results) > 1 else results[0]

    def whole(self, tensors: Any) -> Any:
        return self._output.output_of(tensors if isinstance(tensors, (list, tuple)) else [tensors])


def split(flat: Flat, stages: list[list[str]], recompute: Collection[str] = ()) -> list[fx.GraphModule]:
    """The stages of a model, with its own parameters. Stage 0 takes the model's inputs, and each other one what the stage
    before gives it, also what only a later one reads. What depends on nothing but buffers is computed in each stage that
    reads it.

    stages: paths of modules. recompute: those of blocks that run again in the backward pass. Raises InputError where PyTorch
    cannot capture the model, and where stages take turns.
    """
    try:
        exported = torch.export.export(flat, flat.inputs, strict=False).module(check_guards=False)
    except Exception as error:
        raise InputError(f"{_capture.module_of(error, flat.model)}: PyTorch cannot capture it: {_capture.reason(error)}") from error
    stage_of = {path: index for index, paths in enumerate(stages) for path in paths}
    nodes = [node for node in exported.graph.nodes if node.op in ("call_function", "get_attr", "placeholder")]
    output = next(node for node in exported.graph.nodes if node.op == "output")
    parameters = dict(exported.named_parameters())
    constant: set[fx.Node] = set()
    place: dict[fx.Node, int] = {}
    for node in nodes:
        if node.op == "get_attr" and node.target not in parameters:
            constant.add(node)
        elif node.op == "call_function" and all(each in constant for each in node.all_input_nodes):
            constant.add(node)
        elif node.op == "placeholder":
            place[node] = 0
    for node in nodes:
        if node in constant or node in place or node.op == "get_attr":
            continue
        earliest = max((place[each] for each in node.all_input_nodes if each in place), default=0)
        wanted = _stage_of_node(node, stage_of)
        if wanted is not None and wanted < earliest:
            raise InputError(f"plan: stages: {_graph.module_path(node.meta['nn_module_stack'])} is in stage {wanted} and reads a "
                             f"value of stage {earliest} (stages in the order of the model)")
        place[node] = earliest if wanted is None else wanted
    last = len(stages) - 1
    needed_until = {node: max([place[user] for user in node.users if user in place] + [stage]) for node, stage in place.items()}
    for node in output.all_input_nodes:
        needed_until[node] = last
    given: list[fx.Node] = [node for node in nodes if node.op == "placeholder"]
    modules = []
    for stage in range(len(stages)):
        own = [node for node in nodes if place.get(node) == stage and node.op == "call_function"]
        if stage == last:
            results = output.args[0]
        else:
            results = tuple(node for node in place if place[node] <= stage < needed_until[node] and _is_tensor(node))
        modules.append(_stage(exported, given, own, results, recompute))
        given = list(results) if stage < last else []
    return modules


def _stage_of_node(node: fx.Node, stage_of: Mapping[str, int]) -> int | None:
    """That of the longest path that the node's module is below; None for own calls of modules that are divided."""
    path = _path_around(node, stage_of)
    return stage_of.get("" if path is None else path)


def _path_around(node: fx.Node, paths: Collection[str]) -> str | None:
    """The longest of the paths that the node's module is below."""
    stack = node.meta.get("nn_module_stack")
    path = _graph.module_path(stack) if stack else None
    while path and path not in paths:
        path = path.rpartition(".")[0]
    return path or None


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _stage(exported: fx.GraphModule, given: list[fx.Node], own: list[fx.Node], results: Any,
           recompute: Collection[str] = ()) -> fx.GraphModule:
    """A module of the nodes `own`, which takes `given` and returns `results`."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {node: graph.placeholder(f"input_{i}") for i, node in enumerate(given)}

    def copy(node: fx.Node) -> fx.Node:
        if node not in copies:  # constants and weights, where they are first read
            for each in node.all_input_nodes:
                copy(each)
            copies[node] = graph.node_copy(node, lambda each: copies[each])
        return copies[node]

    for path, nodes in itertools.groupby(own, lambda node: _path_around(node, recompute)):
        if path is None:
            for node in nodes:
                copy(node)
        else:
            copies |= _block(exported, graph, list(nodes), copy)
    graph.output(fx.node.map_arg(results, copy))
    return fx.GraphModule(exported, graph)


def _block(exported: fx.GraphModule, graph: fx.Graph, nodes: list[fx.Node], copy: Any) -> dict[fx.Node, fx.Node]:
    """Adds a call of a module of these nodes that runs again in the backward pass. The copies of those that others read."""
    own = set(nodes)
    given = list(dict.fromkeys(each for node in nodes for each in node.all_input_nodes
                               if each not in own and each.op != "get_attr"))
    results = tuple(node for node in nodes if any(user not in own for user in node.users))
    block = _stage(exported, given, nodes, results)
    _recompute.run_again([block])
    name = f"block_{nodes[0].name}"
    exported.add_submodule(name, block)
    call = graph.call_module(name, tuple(copy(each) for each in given))
    return {node: graph.call_function(operator.getitem, (call, i)) for i, node in enumerate(results)}
