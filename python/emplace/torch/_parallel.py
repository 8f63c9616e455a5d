"""A model made parallel as a plan says, with PyTorch's own means, in a process of a process group."""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils import _pytree as pytree

from emplace import InputError
from emplace.torch._stages import Flat, split

Loss = Callable[[Any], torch.Tensor]


def replicas_of(plan: Mapping[str, Any]) -> int:
    """How many groups shard the same weights: plans say it where it is not 1."""
    return int(plan.get("dp_replicate", 1))


def mesh_of(plan: Mapping[str, Any], kind: str = "cpu") -> DeviceMesh:
    """Dimensions pp, dp and tp, or dp_replicate and dp_shard for dp; ranks of tp are next to each other."""
    replicas = replicas_of(plan)
    data = {"dp": plan["dp"]} if replicas == 1 else {"dp_replicate": replicas, "dp_shard": plan["dp"] // replicas}
    sizes = {"pp": plan["pp"], **data, "tp": plan["tp"]}
    return init_device_mesh(kind, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def shard(model: nn.Module, plan: Mapping[str, Any], described: Mapping[str, Any], mesh: DeviceMesh) -> nn.Module:
    """Tensor parallelism, then data parallelism. described: what `--to fsdp` writes."""
    if plan["tp"] > 1:
        styles = described["parallelize_plan"]
        _refuse_weights_beside(model, styles)
        if described["sequence_parallel"]:
            _sequence_parallel(model, styles, mesh["tp"])
        _tensor_parallel(model, styles, mesh["tp"], described["sequence_parallel"])
    if plan["dp"] > 1 and plan["zero"] >= 2:
        from torch.distributed.fsdp import fully_shard

        data = mesh["dp"] if replicas_of(plan) == 1 else mesh["dp_replicate", "dp_shard"]
        for path in described["fully_shard"]:
            fully_shard(model.get_submodule(path), mesh=data, reshard_after_forward=described["reshard_after_forward"])
    elif plan["dp"] > 1:
        return nn.parallel.DistributedDataParallel(model, process_group=mesh["dp"].get_group())
    return model


def _tensor_parallel(model: nn.Module, styles: Mapping[str, str], mesh: DeviceMesh, by_sequence: bool) -> None:
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if not styles:
        raise InputError("plan: tp: no linear modules in numbered blocks can be divided (tp 1)")
    made = {"colwise": ColwiseParallel(),
            "rowwise": RowwiseParallel(output_layouts=Shard(1), use_local_output=False) if by_sequence else RowwiseParallel()}
    parallelize_module(model, mesh, {path: made[style] for path, style in styles.items()})


def _parents(styles: Mapping[str, str]) -> set[str]:
    """The modules whose linear modules are divided, such as attention; what they compute in between is divided too."""
    return {path.rpartition(".")[0] for path in styles}


def _own_weights(model: nn.Module) -> dict[str, nn.Module]:
    return {path: module for path, module in model.named_modules() if any(True for _ in module.parameters(recurse=False))}


def _refuse_weights_beside(model: nn.Module, styles: Mapping[str, str]) -> None:
    """Such as norms of single heads: each rank would have the gradient of its own heads only."""
    parents = _parents(styles)
    for path in _own_weights(model):
        if path not in styles and (path in parents or path.rpartition(".")[0] in parents):
            raise InputError(f"plan: tp: {path} has weights beside modules that are divided (tp 1)")


def _sequence_parallel(model: nn.Module, styles: Mapping[str, str], mesh: DeviceMesh) -> None:
    """Divides what is between the divided modules along the sequence, dimension 1: norms and residuals.

    Embeddings hand on each rank's part of the sequence, norms take and give one, divided modules gather the whole and their
    last ones scatter it, and what comes after the blocks gathers it.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import PrepareModuleOutput, SequenceParallel, parallelize_module

    def gather(tensors: Any, local: bool) -> Any:
        def whole(x: DTensor) -> Any:
            x = x.redistribute(placements=[Replicate()])
            return x.to_local() if local else x
        return pytree.tree_map_only(DTensor, whole, tensors)

    embeddings = [path for path, module in _own_weights(model).items() if isinstance(module, nn.Embedding)]
    norms = [path for path, module in _own_weights(model).items()
             if not list(module.children()) and all(weight.dim() == 1 for weight in module.parameters())]
    in_blocks = {re.match(r"(.*?\.)?\d+\.", path + ".").group(0) for path in styles}  # type: ignore[union-attr]
    for path, module in _own_weights(model).items():
        if path in styles or path in embeddings or path in norms:
            continue
        if any(path.startswith(block) for block in in_blocks):
            raise InputError(f"plan: sequence_parallel: {path} is of class {type(module).__name__} (embeddings, norms, and "
                             "linear modules that are divided)")
        module.register_forward_pre_hook(lambda _, args, kwargs: gather((args, kwargs), True), with_kwargs=True)
    if not embeddings or not norms:
        raise InputError("plan: sequence_parallel: the model has no embeddings and norms of classes that are known (false)")
    for path in _parents(styles):
        model.get_submodule(path).register_forward_pre_hook(lambda _, args, kwargs: gather((args, kwargs), False),
                                                            with_kwargs=True)
    scatter = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1), use_local_output=False)
    parallelize_module(model, mesh, {path: SequenceParallel() for path in norms} | {path: scatter for path in embeddings})


def local_shard(model: nn.Module, styles: Mapping[str, str], ranks: int) -> None:
    """Replaces the linear modules by the part of one of `ranks` tensor parallel ranks, with the collectives between."""
    for path, style in styles.items():
        linear = model.get_submodule(path)
        if not isinstance(linear, nn.Linear):
            raise InputError(f"plan: tp: {path} is of class {type(linear).__name__} (Linear)")
        divided = linear.out_features if style == "colwise" else linear.in_features
        if divided % ranks != 0:
            raise InputError(f"plan: tp: {path} has {divided} features (a multiple of {ranks})")
        size = (linear.in_features, divided // ranks) if style == "colwise" else (divided // ranks, linear.out_features)
        part = nn.Linear(*size, bias=linear.bias is not None, dtype=linear.weight.dtype, device=linear.weight.device)
        model.set_submodule(path, _Columns(part) if style == "colwise" else _Rows(part))


class _Columns(nn.Module):
    """Its input is whole on every rank: the gradients of all ranks' parts are added."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(torch.ops.emplace.reduce_gradient(x), self.weight, self.bias)


class _Rows(_Columns):
    """Its output is the sum of all ranks' parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.emplace.all_reduce(nn.functional.linear(x, self.weight)) + (0 if self.bias is None else self.bias)


@torch.library.custom_op("emplace::all_reduce", mutates_args=())
def all_reduce(x: torch.Tensor) -> torch.Tensor:
    """The sum over the ranks of a tensor parallel group."""
    x = x.clone()
    if dist.is_initialized():
        dist.all_reduce(x)
    return x


@torch.library.custom_op("emplace::reduce_gradient", mutates_args=())
def reduce_gradient(x: torch.Tensor) -> torch.Tensor:
    """Its input; its gradient is the sum over the ranks."""
    return x.clone()


all_reduce.register_fake(torch.empty_like)
reduce_gradient.register_fake(torch.empty_like)
all_reduce.register_autograd(lambda ctx, gradient: gradient)
reduce_gradient.register_autograd(lambda ctx, gradient: torch.ops.emplace.all_reduce(gradient))


def pipeline_step(model: nn.Module, plan: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], loss: Loss,
                  mesh: DeviceMesh, device: torch.device,
                  recompute: Collection[str] = ()) -> tuple[nn.Module, Callable[[], float | torch.Tensor | None]]:
    """The rank's part of a model, and a function that runs a step of all micro-batches and returns the mean loss on the
    last stage's rank. args, kwargs: of one micro-batch. device: where they and the model are; only the part stays there.
    recompute: the blocks that run again in the backward pass."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    schedules = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
    if plan["schedule"] not in schedules or plan["vpp"] > 1:
        raise InputError(f"plan: schedule: is {plan['schedule']!r}, which is not run here ({', '.join(schedules)})")
    flat = Flat(model, args, kwargs)
    rank = mesh["pp"].get_local_rank()
    part = split(flat, plan["stages"], recompute)[rank]
    model.to("cpu")  # so that the weights of other stages leave a GPU
    part.to(device)
    stage = PipelineStage(part, rank, plan["pp"], device, group=mesh["pp"].get_group())
    count = plan["grad_accumulation"]
    losses: list[torch.Tensor] = []
    schedule = schedules[plan["schedule"]](stage, count, loss_fn=lambda output, _: loss(flat.whole(output)))
    batch = tuple(torch.cat([each] * count) for each in flat.inputs)
    target = torch.zeros(count)

    def step() -> float | torch.Tensor | None:
        losses.clear()
        if rank == 0:
            schedule.step(*batch)
        else:
            schedule.step(target=target, losses=losses)
        return number(torch.stack([each.detach() for each in losses]).mean()) if losses else None

    return part, step


def number(tensor: torch.Tensor) -> float | torch.Tensor:
    """The number in a tensor on the CPU. One on a GPU is returned as it is: reading it would wait for the GPU."""
    return tensor.item() if tensor.device.type == "cpu" else tensor.detach()
