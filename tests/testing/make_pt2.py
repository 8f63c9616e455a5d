#!/usr/bin/env python3
# Writes the files of torch.export that tests read: tests/datasets/importers/data/*.pt2. tools/make_pt2_samples runs it.
# Usage: make_pt2.py FOLDER [NAME...]      Needs PyTorch 2.6 and torchvision (Debian 13: python3-torchvision).
#
# Weights are on the device "meta", which has shapes and no numbers: so a file of ResNet-50 is small. The archives are
# compressed, stack traces are cut out; else they are as torch.export.save wrote them.
import io
import json
import pathlib
import sys
import zipfile

import torch
from torch import nn
from torch.export import Dim


class Encoder(nn.Module):
    """An embedding, two encoder layers and a head; any batch, any even length."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class WordModel(nn.Module):
    """A language model with two LSTM layers, and its loss."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 32)
        self.lstm = nn.LSTM(32, 48, num_layers=2, batch_first=True)
        self.decoder = nn.Linear(48, 1000)

    def forward(self, tokens, labels):
        states, _ = self.lstm(self.embedding(tokens))
        logits = self.decoder(states)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Branches(nn.Module):
    """Two inputs, one of them in a dictionary; outputs in a dictionary; views, writes in place, a part without gradients."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
        self.norm = nn.GroupNorm(2, 8)
        self.gate = nn.Linear(8, 8)
        self.unused = nn.Linear(3, 3)
        self.register_buffer("offset", torch.zeros(8))

    def forward(self, image, more):
        x = nn.functional.silu(self.norm(self.conv(image)))
        pooled = x.mean((2, 3)) + self.offset
        gated = self.gate(pooled).sigmoid_() * more["scale"]
        with torch.no_grad():
            best = gated.argmax(1)
        first, second = gated[:, :4], gated[:, 4:]
        first.add_(1)
        second = second * 2
        return {"gated": gated, "more": [first, second], "best": best}


def doubled():
    """Sizes that are computed from a dimension: the batch is cut in two, and doubled."""

    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, x, y):
            a, b = x.reshape(2, x.shape[0] // 2, 6)
            return torch.cat([self.linear(a), self.linear(b), self.linear(y)]), a.new_zeros(x.shape[0] // 2, 3)

    half = Dim("half", min=1, max=512)
    return Doubled(), (torch.zeros(8, 6), torch.zeros(5, 6)), {"x": {0: 2 * half}, "y": {0: Dim("more", min=2, max=512)}}


def resnet50():
    import torchvision
    return torchvision.models.resnet50(), (torch.zeros(2, 3, 224, 224),), {"x": {0: Dim("batch", min=1, max=1024)}}


def encoder():
    return Encoder(), (torch.zeros(4, 16, dtype=torch.int64),), {"tokens": {0: Dim("batch", max=512), 1: Dim("length", max=512)}}


def word_model():
    return WordModel(), (torch.zeros(4, 6, dtype=torch.int64), torch.zeros(4, 6, dtype=torch.int64)), None


def branches():
    more = {"scale": torch.zeros(2, 8)}
    return Branches(), (torch.zeros(2, 4, 16, 16), more), None


def half_linear():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(torch.bfloat16), (
        torch.zeros(8, 16, dtype=torch.bfloat16),), None


# Exported for training where a model of inference would be another one.
SAMPLES = {"resnet50": (resnet50, False), "encoder": (encoder, True), "word_model": (word_model, True),
           "branches": (branches, False), "doubled": (doubled, False), "half_linear": (half_linear, False)}


def squeeze(archive, target):
    """The archive without stack traces and compressed, its dates those of no day."""
    with zipfile.ZipFile(archive) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as write:
        for name in read.namelist():
            content = read.read(name)
            if name == "serialized_exported_program.json":
                program = json.loads(content)
                for node in program["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
                content = json.dumps(program, separators=(",", ":")).encode()
            write.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or SAMPLES:
        make, training = SAMPLES[name]
        torch.manual_seed(1)
        model, args, shapes = make()
        model.train(training).to("meta")
        args = torch.utils._pytree.tree_map(lambda tensor: tensor.to("meta"), args)
        exported = torch.export.export(model, args, dynamic_shapes=shapes)
        archive = io.BytesIO()
        torch.export.save(exported, archive)
        squeeze(archive, folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
