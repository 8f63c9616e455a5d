"""Attention as one op while a model is captured.

PyTorch chooses the kernel of scaled_dot_product_attention by device: on fake CPU tensors it stays one op except with
dropout, on the meta device it is always decomposed, and on fake CUDA tensors it fails where gradients are needed. So
the capture replaces it by a custom operator with a gradient of its own. A device's kernel is chosen when the op runs.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.overrides import TorchFunctionMode

FORWARD = "emplace::attention"
BACKWARD = "emplace::attention_backward"


@torch.library.custom_op(FORWARD, mutates_args=())
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Optional[torch.Tensor],
              dropout: float, is_causal: bool, scale: Optional[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the logarithm of each row's sum of exponentials, which the backward pass needs."""
    raise NotImplementedError("emplace::attention describes a step and does not run")


@attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Optional[torch.Tensor], dropout: float,
      is_causal: bool, scale: Optional[float]) -> tuple[torch.Tensor, torch.Tensor]:
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    heads = tuple(query.shape[-3:-2]) if query.dim() > 2 else ()
    if OneOpAttention.is_on_cpu and query.shape[-1] == value.shape[-1]:  # as the queries lie
        output = torch.empty_like(query)
    else:
        output = _rows_of_heads(query.new_empty((*batch, *heads, query.shape[-2], value.shape[-1])))
    return output, query.new_empty((*batch, *heads, query.shape[-2]), dtype=torch.float32)


@torch.library.custom_op(BACKWARD, mutates_args=())
def attention_backward(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                       mask: Optional[torch.Tensor], output: torch.Tensor, logsumexp: torch.Tensor, dropout: float,
                       is_causal: bool, scale: Optional[float], learned_mask: bool) -> list[torch.Tensor]:
    """The gradients of query, key and value, and that of the mask if it is learned."""
    raise NotImplementedError("emplace::attention_backward describes a step and does not run")


@attention_backward.register_fake
def _(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
      mask: Optional[torch.Tensor], output: torch.Tensor, logsumexp: torch.Tensor, dropout: float,
      is_causal: bool, scale: Optional[float], learned_mask: bool) -> list[torch.Tensor]:
    return [_rows_of_heads(query), _rows_of_heads(key), _rows_of_heads(value)] + (
        [torch.empty_like(mask)] if mask is not None and learned_mask else [])


def _rows_of_heads(like: torch.Tensor) -> torch.Tensor:
    """A new tensor as the kernels of GPUs return it: in memory the heads of a row are next to each other."""
    if like.dim() < 3:
        return like.new_empty(like.shape)
    *batch, heads, rows, size = like.shape
    return like.new_empty((*batch, rows, heads, size)).transpose(-3, -2)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, key, value, mask, ctx.dropout, ctx.is_causal, ctx.scale = inputs
    ctx.learned_mask = mask is not None and mask.requires_grad
    ctx.save_for_backward(query, key, value, mask, *output)


def _gradients(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    query, key, value, mask, output, logsumexp = ctx.saved_tensors
    gradients = torch.ops.emplace.attention_backward(gradient, query, key, value, mask, output, logsumexp, ctx.dropout,
                                                     ctx.is_causal, ctx.scale, ctx.learned_mask)
    return (*gradients, *([] if ctx.learned_mask else [None]), None, None, None)


attention.register_autograd(_gradients, setup_context=_save)


class OneOpAttention(TorchFunctionMode):
    """Calls the custom operator wherever scaled_dot_product_attention is called, under any name.

    on_cpu: not with dropout or a learned mask, for which CPUs have no kernel: then it is the ops that PyTorch decomposes
    it to. Dropout of nothing is left out, as PyTorch does outside of captures.
    """

    is_on_cpu = False  # for the description of the operator, which is one for all captures of a process

    def __init__(self, on_cpu: bool) -> None:
        super().__init__()
        OneOpAttention.is_on_cpu = on_cpu

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if function in (torch.nn.functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention):
            mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
            dropout = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
            if not (self.is_on_cpu and (dropout or (mask is not None and mask.requires_grad))):
                return _call(*args, **kwargs)
        elif function is torch.nn.functional.dropout and _drops_nothing(*args, **kwargs):
            return args[0] if args else kwargs["input"]
        return function(*args, **kwargs)


def _drops_nothing(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> bool:
    return not training or p == 0


def _call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
          dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
          enable_gqa: bool = False) -> torch.Tensor:
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        attn_mask = attn_mask.to(dtype) if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    # Grouped queries show in the number of heads.
    return torch.ops.emplace.attention(query, key, value, attn_mask, float(dropout_p), bool(is_causal), scale)[0]
