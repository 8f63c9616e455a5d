#!/usr/bin/env python3
# Writes the files of torch.export that tests read: tests/datasets/importers/data/*.pt2. tools/make_pt2_samples runs it.
# Usage: make_pt2.py FOLDER [NAME...]      Needs PyTorch 2.6 and torchvision (Debian 13: python3-torchvision).
#        make_pt2.py --squeeze FILE TARGET  Only makes a file of torch.export.save small, as below.
# "2.13/core" is made by `$(tools/python_environment torch) tests/testing/make_pt2.py tests/datasets/importers/data 2.13/core`;
# the others in 2.13 are the squeezed files of small networks, of transformers too, that PyTorch 2.13 exported.
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


class CoreOps(nn.Module):
    """A call of every operator of PyTorch's core ATen IR that has a tensor as its result, on parts of one parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(2, 8, 4, 16))

    def forward(self, index, mask):
        a = torch.ops.aten
        image = self.weight * 2
        x = image[:, :, 0]
        m, row, volume = x[0], x[0, 0], image[:, None]
        number, whole = x[0, 0, 0], index + 0
        ones = torch.ones(8)
        y = []
        for name in ("abs acos acosh alias asin asinh atan atanh ceil clone cos cosh elu erf exp expm1 floor gelu hardtanh "
                     "isinf isnan leaky_relu log log10 log1p log2 logical_not mean neg nonzero prod reciprocal relu round rsqrt "
                     "sigmoid sign sin sinh sqrt tan tanh trunc any argmax argmin max_pool2d_with_indices").split():
            operator = getattr(a, name).default
            y.append(operator(image, [2, 2]) if name.startswith("max_pool") else operator(x))
        for name in "eq ge gt le lt ne".split():
            y += [getattr(a, name).Scalar(x, 1), getattr(a, name).Tensor(x, x)]
        for name in "add div fmod mul remainder sub".split():
            y += [getattr(a, name).Scalar(x, 2), getattr(a, name).Tensor(x, x + 1)]
        for name in "bitwise_and bitwise_or bitwise_xor".split():
            y += [getattr(a, name).Scalar(whole, 1), getattr(a, name).Tensor(whole, whole)]
        for name in "atan2 logical_and logical_or logical_xor maximum minimum".split():
            y.append(getattr(a, name).default(x, x))
        y += [a.pow.Scalar(2, x), a.pow.Tensor_Scalar(x, 3), a.pow.Tensor_Tensor(x, x), a.bitwise_not(whole),
              a.div.Scalar_mode(x, 2, rounding_mode="floor"), a.div.Tensor_mode(x, x, rounding_mode="trunc"),
              a.clamp(x, 0, 1), a.clamp.Tensor(x, number), a.where.self(mask, x, x), a.fill.Scalar(x, 1), a.copy(x, x),
              a._to_copy(x, dtype=torch.float64), a._softmax(x, -1, False), a._log_softmax(x, -1, False)]
        y += [a.amax(x, [1]), a.amin(x, [1]), a.any.dim(mask, 1), a.any.dims(mask, [1, 2]), a.max.dim(x, 1), a.min.dim(x, 1),
              a.mean.dim(x, [1]), a.prod.dim_int(x, 1), a.sum.dim_IntList(x, [1]), a.var.correction(x, [1], correction=1),
              a.var.dim(x, [1]), a.cumsum(x, 1), a.sort(x), a.topk(x, 3), a._cdist_forward(x, x, 2.0, None), a._pdist_forward(m.contiguous())]
        y += [a.addmm(row, m, torch.ones(16, 16)), a.bmm(x, x.mT), a.mm(m, m.T),
              a.convolution(image, torch.ones(3, 8, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
              a.convolution_backward(torch.ones(2, 3, 3, 15), image, torch.ones(3, 8, 2, 2), [3], [1, 1], [0, 0], [1, 1], False,
                                     [0, 0], 1, [True, True, False])]
        y += [a._adaptive_avg_pool2d(image, [2, 3]), a._adaptive_avg_pool2d_backward(torch.ones(2, 8, 2, 3), image),
              a._adaptive_avg_pool3d(volume, [2, 2, 3]), a.avg_pool2d(image, [2, 2]),
              a.avg_pool2d_backward(torch.ones(2, 8, 2, 8), image, [2, 2], [2, 2], [0, 0], False, True, None),
              a.avg_pool3d(volume, [2, 2, 2]), a.max_pool3d_with_indices(volume, [2, 2, 2]),
              a.max_pool2d_with_indices_backward(torch.ones(2, 8, 2, 8), image, [2, 2], [2, 2], [0, 0], [1, 1], False,
                                                 torch.zeros(2, 8, 2, 8, dtype=torch.int64)),
              a.upsample_bilinear2d.vec(image, [8, 32], False, None), a.upsample_nearest2d.vec(image, [8, 32], None),
              a.grid_sampler_2d(image, torch.zeros(2, 3, 3, 2), 0, 0, False)]
        y += [a.native_layer_norm(x, [16], row, row, 1e-5), a.native_group_norm(x, ones, ones, 2, 8, 16, 2, 1e-5),
              a.native_layer_norm_backward(x, x, [16], torch.ones(2, 8, 1), torch.ones(2, 8, 1), row, row, [True, True, True]),
              a.native_group_norm_backward(x, x, torch.ones(2, 2), torch.ones(2, 2), ones, 2, 8, 16, 2, [True, True, True]),
              a._native_batch_norm_legit.no_stats(x, ones, ones, True, 0.1, 1e-5),
              a._native_batch_norm_legit_no_training(x, ones, ones, ones, ones, 0.1, 1e-5), a.native_dropout(x, 0.5, True)]
        y += [a.as_strided(x, [2, 3], [8, 1]), a.cat([x, x]), a.col2im(x.reshape(2, 16, 8), [3, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
              a.constant_pad_nd(x, [1, 1]), a.diagonal(m), a.expand(row, [8, 16]), a.flip(x, [0]), a.permute(x, [2, 0, 1]),
              a.reflection_pad1d(x, [1, 1]), a.reflection_pad2d(image, [1, 1, 1, 1]), a.reflection_pad3d(volume, [1] * 6),
              a.replication_pad2d(image, [1, 1, 1, 1]), a.replication_pad3d(volume, [1] * 6), a.repeat(x, [2, 1, 1]),
              a.select.int(x, 0, 1), a.slice.Tensor(x, 1, 2, 4), a.split_with_sizes(x, [3, 5], 1), a.squeeze.dim(volume, 1),
              a.squeeze.dims(volume, [1]), a.unsqueeze(x, 0), a.view(x, [16, 16]), a.slice_scatter(x, x[:, :2], 1, 2, 4),
              a.select_scatter(x, m, 0, 1)]
        y += [a.embedding(m, index), a.embedding_dense_backward(torch.ones(3, 16), index, 8, -1, False),
              a._embedding_bag(m, index, torch.zeros(1, dtype=torch.int64)), a.gather(m, 0, index[:, None]),
              a.index.Tensor(m, [index]), a.index_put(m, [index], m[:3]), a.index_select(m, 0, index),
              a.masked_scatter(x, mask, x), a.scatter.src(m, 0, index[:, None], m), a.scatter.value(m, 0, index[:, None], 1),
              a.scatter_add(m, 0, index[:, None], m), a.scatter_reduce.two(m, 0, index[:, None], m, "amax")]
        y += [a._fft_r2c(x, [2], 0, True), a._fft_c2r(torch.view_as_complex(x.reshape(2, 8, 8, 2)), [2], 0, 14),
              a.arange.start_step(0, 8), a.empty.memory_format([2]), a.empty_strided([2], [1]), a.full([2], 1), a.full_like(x, 1),
              a.rand([2]), a.randn([2]), a.randperm(4), a.scalar_tensor(1.0)]
        return [t for each in y for t in (each if isinstance(each, (tuple, list)) else [each]) if t is not None]


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


def core():
    return CoreOps(), (torch.tensor([0, 2, 1]), torch.ones(2, 8, 16, dtype=torch.bool)), None


# Exported for training where a model of inference would be another one.
SAMPLES = {"resnet50": (resnet50, False), "encoder": (encoder, True), "word_model": (word_model, True),
           "branches": (branches, False), "doubled": (doubled, False), "half_linear": (half_linear, False)}
# Those that PyTorch 2.13 writes, with the core ATen IR of that version.
NEW_SAMPLES = {"2.13/core": (core, False)}


def squeeze(archive, target):
    """The archive without stack traces and compressed, its dates those of no day."""
    pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as write:
        for name in read.namelist():
            content = read.read(name)
            inner = name.split("/", 1)[-1]
            if inner.startswith("data/"):
                continue  # weights, which are not read
            if name == "serialized_exported_program.json" or inner.startswith("models/"):
                program = json.loads(content)
                if "guards_code" in program:
                    program["guards_code"] = []
                for node in program["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
                content = json.dumps(program, separators=(",", ":")).encode()
            write.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)


def main():
    if sys.argv[1] == "--squeeze":
        squeeze(sys.argv[2], sys.argv[3])
        return
    folder = pathlib.Path(sys.argv[1])
    all_samples = {**SAMPLES, **NEW_SAMPLES}
    for name in sys.argv[2:] or SAMPLES:
        make, training = all_samples[name]
        torch.manual_seed(1)
        model, args, shapes = make()
        model.train(training)
        if name in SAMPLES:
            model.to("meta")
            args = torch.utils._pytree.tree_map(lambda tensor: tensor.to("meta"), args)
        exported = torch.export.export(model, args, dynamic_shapes=shapes, strict=name not in NEW_SAMPLES)
        archive = io.BytesIO()
        torch.export.save(exported, archive)
        squeeze(archive, folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
