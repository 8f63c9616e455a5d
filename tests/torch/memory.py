"""The peak memory of a training step on a CPU: of a real one, as MemTracker says, and as emplace simulates it."""

import gc
import json

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

import emplace
from emplace.torch._capture import default_loss

CPU = """
schema: emplace.cluster
version: 1
name: cpu
devices:
  - {name: "cpu:0", kind: host}
kinds:
  - {name: host, class: cpu, peak_tflop_per_s: 0.1, memory_bandwidth_gb_per_s: 20}
"""
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
    held = [*model.parameters(), *model.buffers(), *pytree.tree_leaves((args, kwargs)),
            *(value for state in optimizer.state.values() for value in state.values())]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
                for tensor in held if isinstance(tensor, torch.Tensor)}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(model, args, kwargs, optimizer)
    events = [(event.start_ns(), i, event.nbytes()) for i, event in enumerate(profiler.profiler.kineto_results.events())
              if event.name() == "[memory]"]
    return sum(storages.values()) + int(max(np.cumsum([size for _, _, size in sorted(events)])))


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
    """Bytes, with the whole graph on one device. Times do not matter, so that each op has the same.

    in_order: as if captured with program_order=True.
    """
    document = json.loads(graph.to_json())
    last = None
    for op in document["ops"]:  # in the order in which they were captured
        op["time_us"] = 1
        if in_order and op["kind"] not in ("variable", "input"):
            if last and op["pass"] != "update":
                op["control_inputs"] = [last]
            last = op["name"]
    simulator = emplace.Simulator(emplace.Graph.from_json(json.dumps(document)), emplace.Cluster.from_yaml(CPU), "measured")
    _, peak = simulator.evaluate(np.zeros(graph.num_ops, np.int16))
    return int(peak[0, 0])
