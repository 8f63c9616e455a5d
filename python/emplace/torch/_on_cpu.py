"""What PyTorch's CPU kernels need more memory for than those of GPUs."""

from __future__ import annotations

import math
from typing import Any

import torch

_BLOCK = 16  # channels that oneDNN keeps together, with AVX-512


def adapt(op: dict[str, Any], node: torch.fx.Node) -> None:
    """Changes the outputs and the temporary bytes of an op to those of a CPU."""
    if op["kind"] == "aten::native_dropout":  # the mask is a factor for each element, not a bit
        op["outputs"][1] = dict(op["outputs"][0])
        return
    temporary = _TEMPORARY.get(op["kind"])
    bytes_needed = temporary(*(_values(arg) for arg in node.args), made=_values(node)) if temporary else 0
    if bytes_needed > 0:
        op["temp_bytes"] = bytes_needed


def _values(arg: Any) -> Any:
    return arg.meta.get("val") if isinstance(arg, torch.fx.Node) else arg


def _bytes(value: torch.Tensor) -> int:
    return math.prod(int(size) for size in value.shape) * value.dtype.itemsize


def _product(first: torch.Tensor, second: torch.Tensor, *, made: torch.Tensor) -> int:
    """Matrices that lie neither by rows nor by columns are copied, one at a time."""
    copies = 0
    for matrices in (first, second):
        _, rows, columns = matrices.shape
        _, by_row, by_column = matrices.stride()
        if not ((by_column == 1 and by_row >= columns) or (by_row == 1 and by_column >= rows)):
            copies = max(copies, _bytes(matrices[0]))
    return copies


# oneDNN convolves in a layout of its own: each call copies its operands to it and its result back. Tensors of up to 3
# channels are read as they are.

def _convolution(given: torch.Tensor, weight: torch.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int, *, made: torch.Tensor) -> int:
    if given.dtype != torch.float32:
        return 0
    result = _blocked(made) if made.shape[1] > 3 else _bytes(made)
    copies = _read(given) + _weight(given, weight, groups) + result
    return max(copies - _bytes(made), result + (_bytes(made) if transposed else 0))


def _convolution_backward(gradient: torch.Tensor, given: torch.Tensor, weight: torch.Tensor, bias_sizes: Any, stride: Any,
                          padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,
                          mask: Any, *, made: Any) -> int:
    if gradient.dtype != torch.float32:
        return 0
    results = sum(_bytes(result) for result in made if result is not None)
    result = 0
    phases = []
    if mask[0]:
        result = _bytes(given)
        is_copied_twice = max(stride) > 1 and groups == 1 and not transposed
        phases += [_read(gradient) + _weight(given, weight, groups) + _blocked(given),
                   _blocked(given) + (1 + is_copied_twice) * result]
    if mask[1]:
        phases.append(result + _read(gradient) + _read(given) + _weight(given, weight, groups))
    return max(phases, default=0) - results


def _blocked(value: torch.Tensor) -> int:
    return _bytes(value) // value.shape[1] * (-(-value.shape[1] // _BLOCK) * _BLOCK)


def _read(value: torch.Tensor) -> int:
    return _blocked(value) if value.shape[1] > 3 else 0


def _weight(given: torch.Tensor, weight: torch.Tensor, groups: int) -> int:
    return 0 if given.shape[1] <= 3 or groups == given.shape[1] else _bytes(weight)


_TEMPORARY = {"aten::convolution": _convolution, "aten::convolution_backward": _convolution_backward,
              "aten::bmm": _product}
