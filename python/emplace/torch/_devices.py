"""What the processes of a plan run on: the CPU, or a GPU each."""

from __future__ import annotations

import torch
import torch.distributed as dist

from emplace import InputError, _check
from emplace.torch import _memory, _process


class Cpus:
    """Processes of the CPU. The methods are called in them; `begin` and `end` are the first and the last."""

    name = "CPU processes"
    kind = "cpu"
    backend = "gloo"
    copy_engine = False  # whether a device computes while it sends
    message_sizes: tuple[int, ...] = (1 << 12, 1 << 16, 1 << 19, 1 << 22, 1 << 24)  # of messages that are timed, in bytes

    def device(self, rank: int) -> torch.device:
        return torch.device("cpu")

    def begin(self, rank: int) -> None:
        pass

    def synchronize(self) -> None:
        """Waits for what the device still has to do."""

    def barrier(self) -> None:
        """Waits until all devices have done what they had to do."""
        dist.barrier()

    def allocations(self) -> _memory.Allocations:
        return _memory.Allocations()

    def end(self) -> None:
        pass


class Gpus(Cpus):
    """A GPU for each process."""

    name = "GPUs"
    kind = "cuda"
    backend = "nccl"
    copy_engine = True
    message_sizes = (*Cpus.message_sizes, 1 << 26, 1 << 28)

    def device(self, rank: int) -> torch.device:
        return torch.device("cuda", rank)

    def begin(self, rank: int) -> None:
        torch.cuda.set_device(rank)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def barrier(self) -> None:
        torch.cuda.synchronize()
        dist.barrier(device_ids=[torch.cuda.current_device()])
        torch.cuda.synchronize()

    def allocations(self) -> _memory.Allocations:
        return _memory.GpuAllocations()

    def end(self) -> None:
        dist.destroy_process_group()


def choose(device: str | None, processes: int) -> Cpus:
    """The devices that the argument `device` of `validate` names. None: GPUs, if there is one for each process.

    Raises InputError where there are too few GPUs, and where forked processes could not use them.
    """
    if device not in (None, "cpu", "cuda"):
        _check.refuse("device", device, "'cpu', 'cuda', or None for GPUs where there are enough")
    if device == "cpu":
        return Cpus()
    # Counting can initialise CUDA, and processes that are forked later cannot use it: a forked process counts.
    initialised, count = _process.call(_count, "device", seconds=120, memory_gib=16)
    if initialised:
        count = torch.cuda.device_count()
    if count < processes:
        if device is None:
            return Cpus()
        raise InputError(f"device: is 'cuda', and the number of GPUs here is {count} ({processes}, one for each process)")
    if initialised:
        raise InputError("device: CUDA is initialised in this process, so that processes forked from it cannot use GPUs "
                         "(a fresh process, or device=\"cpu\")")
    return Gpus()


def _count() -> tuple[bool, int]:
    """In a forked process: whether CUDA was initialised before the fork, and how many GPUs PyTorch finds."""
    initialised = bool(torch.cuda._is_in_bad_fork())
    return initialised, 0 if initialised or not torch.cuda.is_available() else torch.cuda.device_count()
