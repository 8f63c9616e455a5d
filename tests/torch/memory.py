"""The peak memory of a training step on a CPU: of a real one, as MemTracker says, and as emplace simulates it."""

import gc
import json

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from emplace.torch import _memory
from emplace.torch._capture import default_loss

OPTIMIZERS = {"sgd": lambda of: torch.optim.SGD(of, 1e-4), "momentum": lambda of: torch.optim.SGD(of, 1e-4, momentum=0.9),
              "adam": lambda of: torch.optim.Adam(of), "adamw": lambda of: torch.optim.AdamW(of)}


def step(model, args, kwargs, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss = default_loss(model(*args, **kwargs))
    loss.backward()
    optimizer.step()


def real_peak(model, args, kwargs, optimizer):
    """Bytes, from each allocation of the second step on top of what parameters, optimizer and arguments hold."""
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    step(model, args, kwargs, optimizer)
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    held = _memory.storages_of(model, args, kwargs, [list(state.values()) for state in optimizer.state.values()])
    with _memory.Allocations() as allocations:
        step(model, args, kwargs, optimizer)
    return sum(held.values()) + allocations.peak()


def real_flop(model, args, kwargs, optimizer):
    """What PyTorch counts in a step."""
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    with FlopCounterMode(display=False) as counter:
        step(model, args, kwargs, optimizer)
    return counter.get_total_flops()


def tracked_peak(model, args, kwargs, optimizer):
    """Bytes, of two steps on fake tensors, which replace those of the model."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    mode = FakeTensorMode()
    fakes = {}
    for module in model.modules():
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None:
                    own[name] = fakes.setdefault(id(tensor), mode.from_tensor(tensor))
    args, kwargs = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
    with mode:
        optimizer = OPTIMIZERS[optimizer](model.parameters())
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *args, *kwargs.values())
        with tracker:
            step(model, args, kwargs, optimizer)
            tracker.reset_mod_stats()
            step(model, args, kwargs, optimizer)
        return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


def ops(graph):
    return json.loads(graph.to_json())["ops"]


def simulated_peak(graph, in_order=False):
    """Bytes, with the whole graph on one device.

    in_order: as if captured with program_order=True.
    """
    return _memory.simulated_peak(_memory.in_program_order(ops(graph)) if in_order else ops(graph))
