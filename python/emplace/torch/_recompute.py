"""Blocks of layers that run again in the backward pass, as a plan's `recompute` says."""

from __future__ import annotations

import functools
import re
from typing import Any, Iterable, Mapping

from torch import nn
from torch.utils.checkpoint import checkpoint

import emplace
from emplace import InputError

_BLOCK = re.compile(r"(?:.*?\.)?[0-9]+(?=\.|$)")  # "model.layers.3" of "model.layers.3.mlp.experts.7"


def is_none(plan: Mapping[str, Any]) -> bool:
    return plan["recompute"] in ("none", 0)


def blocks_of(plan: Mapping[str, Any], graph: emplace.Graph) -> list[str]:
    """The paths of the blocks that run again, in the order in which the graph runs them: all for "full", the first ones of
    each stage for a number of layers."""
    if is_none(plan):
        return []
    layers = graph.op_layers
    matches = (_BLOCK.match(layers[op]) for op in graph.file_order)
    blocks = list(dict.fromkeys(match.group() for match in matches if match))
    if not blocks:
        raise InputError("plan: recompute: the model has no numbered layers that can run again (none)")
    by_stage: dict[int, list[str]] = {}
    for block in blocks:
        by_stage.setdefault(_stage_of(block, plan["stages"] if plan["pp"] > 1 else []), []).append(block)
    count = None if plan["recompute"] == "full" else plan["recompute"]
    return [block for some in by_stage.values() for block in some[:count]]


def _stage_of(block: str, stages: list[list[str]]) -> int:
    stage_of = {path: index for index, paths in enumerate(stages) for path in paths}
    parts = block.split(".")
    around = [".".join(parts[:end]) for end in range(len(parts), -1, -1)]
    found = {stage for path, stage in stage_of.items() if path.startswith(block + ".")}
    found |= {stage_of[path] for path in [path for path in around if path in stage_of][:1]}
    if len(found) > 1:
        raise InputError(f"plan: recompute: {block} is in more than one stage (whole layers)")
    return found.pop() if found else 0


def run_again(modules: Iterable[nn.Module]) -> None:
    """The backward pass runs each module again, of which only the inputs are kept. Paths stay what they are."""
    for module in modules:
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)  # type: ignore[method-assign]
