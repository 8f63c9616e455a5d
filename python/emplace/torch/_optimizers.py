"""The updates of optimizers, one op for each parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from emplace import InputError


@dataclass(frozen=True)
class State:
    name: str
    output: dict[str, Any]


@dataclass(frozen=True)
class _Optimizer:
    kind: str  # of the update op
    states: tuple[str, ...]  # tensors as large as the parameter
    temporary: int  # tensors as large as the parameter that live during the update
    has_step: bool = True


# The operator is PyTorch's fused one, whose work is that of the update in one pass. The temporary tensors are those of
# torch.optim with foreach=False: Adam holds the root of the second moment and its quotient by the bias correction.
OPTIMIZERS = {
    "sgd": _Optimizer("aten::_fused_sgd_", (), 0, has_step=False),
    "momentum": _Optimizer("aten::_fused_sgd_", ("momentum_buffer",), 0, has_step=False),
    "adam": _Optimizer("aten::_fused_adam_", ("exp_avg", "exp_avg_sq"), 2),
    "adamw": _Optimizer("aten::_fused_adamw_", ("exp_avg", "exp_avg_sq"), 2),
    "adafactor": _Optimizer("aten::_fused_adafactor_", (), 2),
}


def name_of(optimizer: Any) -> str | None:
    """The name in OPTIMIZERS of a name or an object of torch.optim. Raises InputError on others."""
    if optimizer is None or (isinstance(optimizer, str) and optimizer in OPTIMIZERS):
        return optimizer
    if isinstance(optimizer, torch.optim.SGD):
        return "momentum" if any(group.get("momentum", 0) for group in optimizer.param_groups) else "sgd"
    for kind, name in ((torch.optim.AdamW, "adamw"), (torch.optim.Adam, "adam"), (torch.optim.Adafactor, "adafactor")):
        if isinstance(optimizer, kind):
            return name
    raise InputError(f"optimizer: is {optimizer if isinstance(optimizer, str) else type(optimizer).__name__!r} "
                     f"(one of {', '.join(OPTIMIZERS)}, or an optimizer of torch.optim of these kinds)")


def states(optimizer: str, shape: list[int], dtype: str) -> list[State]:
    """The tensors that an optimizer keeps for a parameter."""
    row = OPTIMIZERS[optimizer]
    kept = [State(name, {"dtype": dtype, "shape": shape}) for name in row.states]
    if optimizer == "adafactor":
        if len(shape) > 1:  # sums of squares by row and by column
            kept += [State("row_var", {"dtype": dtype, "shape": [*shape[:-1], 1]}),
                     State("col_var", {"dtype": dtype, "shape": [*shape[:-2], 1, shape[-1]]})]
        else:
            kept.append(State("variance", {"dtype": dtype, "shape": shape}))
    if row.has_step:
        kept.append(State("step", {"dtype": "f32", "shape": []}))
    return kept


def update(optimizer: str, variable: dict[str, Any], gradient: str) -> dict[str, Any]:
    """The op that updates `variable`."""
    row = OPTIMIZERS[optimizer]
    shape = variable["outputs"][0]["shape"]
    name = variable["name"]
    inputs = [f"{name}:0", gradient] + [f"{name}/{state.name}:0" for state in states(optimizer, shape, "f32")]
    lists: list[Any] = [[f"%{i}"] for i in range(len(inputs))]
    if optimizer == "sgd":
        lists.append([])
    if optimizer in ("adam", "adamw"):
        lists.insert(4, [])  # the largest second moments, which only amsgrad keeps
    bytes_each = math.prod(shape) * _BYTES.get(variable["outputs"][0].get("dtype", "f32"), 4)
    return {"name": f"{name}/{optimizer}", "kind": row.kind, "inputs": inputs, "attrs": {"args": lists},
            "temp_bytes": row.temporary * bytes_each}


_BYTES = {"f16": 2, "bf16": 2, "f64": 8}
