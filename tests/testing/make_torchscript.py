#!/usr/bin/env python3
"""Writes TorchScript modules for tests of the import.

Usage: make_torchscript.py FOLDER small        the hand-made modules of tests/profiler/data
       make_torchscript.py FOLDER NETWORK...   resnet50, vgg16, googlenet, densenet121, inception_v3, mobilenet_v3_small
                                               (torchvision's), lstm, encoder
       make_torchscript.py FOLDER zeros NETWORK...   the same with weights that are zero, which take no seconds to draw
The weights are random: what a module executes does not depend on them.
Exit status: 0 done, 77 Python has no torchvision or no PyTorch
"""

import os
import sys
import zipfile
from typing import Dict, Tuple

NO_TORCHVISION = 77

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(NO_TORCHVISION)


class Aliases(nn.Module):
    """A view, and operators in place on the array and on its view."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, bias=False)
        self.fc = nn.Linear(8, 3)
        nn.init.constant_(self.conv.weight, -1.0)
        nn.init.constant_(self.fc.weight, 0.5)
        nn.init.constant_(self.fc.bias, 0.25)

    def forward(self, x):
        h = self.conv(x)
        oldest = h * 2
        flat = h.view(-1, 8)
        flat.add_(1)
        old = h.sign()
        h.relu_()
        return self.fc(flat) + (h + old + oldest).sum()


class Halves(nn.Module):
    """Both halves of an array overwritten; then all of it is read."""

    def forward(self, x):
        h = x * 2
        parts = h.chunk(2, 1)
        parts[0].add_(1)
        parts[1].mul_(3)
        return parts[0].neg(), h.exp()


class Shared(nn.Module):
    """One linear layer used twice, two outputs, a buffer, a constant and a parameter that is not used."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU())
        self.norm = nn.BatchNorm1d(4)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        h = self.encoder(self.encoder(x))
        return self.norm(h), {"scaled": h * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])}


class Words(nn.Module):
    """Row numbers go in."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 4)

    def forward(self, words, factor: float = 1.0):
        return self.table(words) * factor


class Arguments(nn.Module):
    """Arguments of every type."""

    def forward(self, x, mask, rows):
        h = torch.cat([x, x.masked_fill(mask, float("-inf"))], dim=1)
        h = nn.functional.gelu(h, approximate="tanh")[:, rows]
        return h.sum(dim=[0, 1], dtype=torch.float64), torch.zeros(2, dtype=torch.int32, device=x.device)


class Forked(nn.Module):
    """Half of it in another thread."""

    def forward(self, x):
        other = torch.jit.fork(torch.neg, x)
        return x + torch.jit.wait(other)


class Unreturned(nn.Module):
    """An operator that returns nothing of what it writes."""

    def forward(self, x):
        parts = [x * 2, x * 3]
        torch._foreach_add_(parts, 1)
        return torch.cat(parts)


class Spectrum(nn.Module):
    """Complex numbers."""

    def forward(self, x):
        return torch.view_as_real(torch.fft.fft(x))


class Recurrent(nn.Module):
    """The language model of PyTorch's examples: 2 layers of LSTM between an embedding and a linear layer."""

    def __init__(self, words=1000, width=64):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2)
        self.decoder = nn.Linear(width, words)

    def forward(self, words):
        return self.decoder(self.lstm(self.embedding(words))[0])


class Named(nn.Module):
    """Results by name, and states that come as a pair."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x, states: Tuple[torch.Tensor, torch.Tensor]) -> Dict[str, torch.Tensor]:
        hidden, memory = self.cell(x, states)
        return {"hidden": hidden, "memory": memory}


class Patches(nn.Module):
    """What tracing makes of sizes: integers that the graph computes."""

    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(1, 2, 2, stride=2)

    def forward(self, x):
        y = self.project(x)
        half = torch.div(torch.tensor(y.shape[1]), 2, rounding_mode="trunc")
        return y.view(y.size(0), y.size(1) // 2, -1) * half, y


class Encoder(nn.Module):
    """Transformer layers over word numbers, and the next word's scores."""

    def __init__(self, words=4000, width=256, heads=4, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.decoder = nn.Linear(width, words)

    def forward(self, words):
        return self.decoder(self.encoder(self.embedding(words)))


def network(name):
    if name == "encoder":
        return Encoder()
    if name == "lstm":
        return Recurrent()
    try:
        import torchvision
    except ImportError:
        sys.exit(NO_TORCHVISION)

    options = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}.get(name, {})
    return getattr(torchvision.models, name)(weights=None, **options)


def main(folder, names):
    torch.manual_seed(1)
    if names[0] == "zeros":
        names = names[1:]
        for draw in ("kaiming_normal_", "kaiming_uniform_", "normal_", "trunc_normal_", "uniform_"):
            setattr(nn.init, draw, lambda array, *_, **__: nn.init.zeros_(array))
    if names == ["small"]:
        modules = {"aliases": Aliases(), "halves": Halves(), "shared": Shared(), "words": Words()}
        modules.update({"arguments": Arguments(), "forked": Forked(), "spectrum": Spectrum()})
        modules["unreturned"] = Unreturned()
        modules["recurrent"] = Recurrent(words=20, width=8)
        modules["lstm"] = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        modules["named"] = Named()
        modules["patches"] = torch.jit.trace(Patches(), torch.ones(3, 1, 4, 4))
    else:
        modules = {name: network(name) for name in names}
    for name, module in modules.items():
        script = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
        torch.jit.save(script, os.path.join(folder, name + ".pt"))
    if names == ["small"]:
        write_with_unknown_operator(os.path.join(folder, "halves.pt"), os.path.join(folder, "later.pt"))


def write_with_unknown_operator(module, file):
    """The module as one of a later PyTorch: its code has an operator that none has."""
    with zipfile.ZipFile(module) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            content = old.read(info).replace(b"torch.neg(", b"torch.negg(")
            new.writestr(zipfile.ZipInfo(info.filename), content)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
