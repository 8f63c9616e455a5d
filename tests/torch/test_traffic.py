# environment: torch
"""What ranks exchange in a step of a small Llama on gloo, counted in PyTorch, is what emplace.plan says, to the byte."""

import collections
import contextlib
import json
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.utils._python_dispatch import TorchDispatchMode

import emplace
from emplace.torch import _workers

LAYERS, HIDDEN, HEADS, FF, VOCABULARY, SEQUENCE = 2, 64, 4, 128, 256, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

    def forward(self, x):
        def heads(y):
            return y.unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)), is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(HIDDEN, FF, bias=False), nn.Linear(HIDDEN, FF, bias=False)
        self.down = nn.Linear(FF, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def llama():
    return nn.Sequential(collections.OrderedDict(
        embed=nn.Embedding(VOCABULARY, HIDDEN), **{f"layer{i}": Block() for i in range(LAYERS)}, norm=nn.RMSNorm(HIDDEN),
        head=nn.Linear(HIDDEN, VOCABULARY, bias=False)))


def words(rows=1):
    return torch.zeros(rows, SEQUENCE, dtype=torch.long)


class Traffic(TorchDispatchMode):
    """Calls and bytes of each operation, of whole messages: what a rank has before a reduction, and after a gathering."""

    def __init__(self):
        super().__init__()
        self.counted = collections.defaultdict(lambda: [0, 0])

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # its own operations on parts come here too
        space, _, name = function._schema.name.partition("::")
        if space in ("c10d", "_c10d_functional"):
            self.count(name, args)
        return function(*args, **(kwargs or {}))

    def count(self, name, args):
        def size(tensors):
            tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
            return sum(each.numel() * each.element_size() for each in tensors if each.is_floating_point())
        sizes = {"_allgather_base_": lambda: ("all_gather", size(args[0])),
                 "all_gather_into_tensor": lambda: ("all_gather", size(args[0]) * args[1]),
                 "_reduce_scatter_base_": lambda: ("reduce_scatter", size(args[1])),
                 "reduce_scatter_tensor": lambda: ("reduce_scatter", size(args[0])),
                 "allreduce_": lambda: ("all_reduce", size(args[0])),
                 "all_reduce": lambda: ("all_reduce", size(args[0])),
                 "all_reduce_": lambda: ("all_reduce", size(args[0])),
                 "send": lambda: ("send_receive", size(args[0]))}
        if name not in sizes:
            if name.startswith(("wait", "_wrap_tensor", "recv", "barrier")):
                return
            raise AssertionError(f"an operation of another kind: {name}")
        operation, size_of = sizes[name]()
        if size_of > 0:
            self.counted[operation][0] += 1
            self.counted[operation][1] += size_of

    def result(self):
        return {operation: tuple(numbers) for operation, numbers in self.counted.items()}


def fsdp(rank, ranks, micro_batches):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model, mesh = llama(), init_device_mesh("cpu", (ranks,))
    halves = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for i in range(LAYERS):
        fully_shard(model.get_submodule(f"layer{i}"), mesh=mesh, mp_policy=halves, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, mp_policy=halves)
    with Traffic() as traffic:
        for _ in range(micro_batches):
            model(words()).float().sum().backward()
    return traffic.result()


def data_parallel(rank, ranks, micro_batches):
    model = nn.parallel.DistributedDataParallel(llama())
    with Traffic() as traffic:
        for i in range(micro_batches):
            with model.no_sync() if i + 1 < micro_batches else contextlib.nullcontext():
                model(words()).sum().backward()
    return traffic.result()


def tensor_parallel(rank, ranks, micro_batches, by_sequence=False):
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)
    between = Shard(1) if by_sequence else Replicate()
    enter = PrepareModuleInput(input_layouts=between, desired_input_layouts=Replicate())
    leave = RowwiseParallel(output_layouts=between)
    styles = {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
              "head": ColwiseParallel(input_layouts=between)}
    for i in range(LAYERS):
        of_layer = {"attention": enter, "mlp": enter, "attention.o": leave, "mlp.down": leave,
                    **{path: ColwiseParallel() for path in ("attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up")}}
        if by_sequence:
            of_layer |= {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
        styles |= {f"layer{i}.{path}": style for path, style in of_layer.items()}
    if by_sequence:
        styles["norm"] = SequenceParallel()
    model = parallelize_module(llama().bfloat16(), init_device_mesh("cpu", (ranks,)), styles)
    with Traffic() as traffic:
        for _ in range(micro_batches):
            model(words()).float().sum().backward()
    return traffic.result()


def pipeline(rank, ranks, micro_batches):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    modules = list(llama().bfloat16().children())
    cut = 1 + LAYERS // 2
    part = nn.Sequential(*(modules[:cut] if rank == 0 else modules[cut:]))
    stage = PipelineStage(part, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro_batches, loss_fn=lambda output, target: output.float().sum())
    with Traffic() as traffic:
        if rank == 0:
            schedule.step(words(micro_batches))
        else:
            schedule.step(target=words(micro_batches), losses=[])
    return traffic.result()


class TrafficTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def check(self, step, ranks, micro_batches, framework="pytorch", **only):
        """All ranks of these splits exchange as much."""
        measured = _workers.run(lambda rank: step(rank, ranks, micro_batches), _workers.Processes(ranks, seconds=120))
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN,
                  "intermediate_size": FF, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
                  "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE,
                  "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            answer = emplace.plan(path, "dgx-h100", gpus=ranks, sequence=SEQUENCE, framework=framework, all=True,
                                  global_batch=micro_batches * only.get("dp", 1),
                                  only={"micro_batch": 1, "recompute": "none", **only})
        plan, = answer.plans
        said = {row["operation"]: (row["calls"], row["bytes"]) for row in plan.communication}
        for rank, own in enumerate(measured):
            self.assertEqual(own, said, f"rank {rank}")

    def test_fsdp(self):
        self.check(fsdp, 4, 2, dp=4, zero=3)

    def test_data_parallelism(self):
        measured = {}
        self.check(lambda *given: measured.setdefault(0, {name: (1, size) for name, (_, size) in data_parallel(*given).items()}),
                   2, 2, dp=2, zero=0)  # in one bucket, or several

    def test_tensor_parallelism(self):
        self.check(tensor_parallel, 2, 2, tp=2, zero=0, sequence_parallel=False)

    def test_sequence_parallelism(self):
        self.check(lambda *given: tensor_parallel(*given, by_sequence=True), 2, 1, tp=2, zero=0, sequence_parallel=True)

    def test_a_pipeline(self):
        self.check(pipeline, 2, 4, pp=2, vpp=1, zero=0, stages="even")


if __name__ == "__main__":
    unittest.main()
