# environment: transformers
"""et.apply: a model whose ops run where a placement has them, whatever it is."""

import dataclasses
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM

import emplace
import emplace.torch as et


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("scale", torch.full((16,), 0.5))

    def forward(self, x, flag=True):
        kept = x
        for layer in self.layers:
            x = F.gelu(layer(x)).view(x.shape) * self.scale
        return {"first": self.norm(x + kept), "second": (x.t().contiguous(), kept.sum()), "flag": flag}


def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, vocab_size=100))


WORDS = torch.randint(0, 100, (2, 16), generator=torch.Generator().manual_seed(3))


def of_output(output):
    return F.cross_entropy(output.logits.flatten(0, 1).float(), WORDS.flatten())


def placed(graph, devices, assign):
    cluster = emplace.Cluster("dgx-h100", gpus=devices)
    found = emplace.place(graph, cluster=cluster, evaluations=1, agent="single_device")
    return dataclasses.replace(found, placement=np.array(assign, np.int16))


def scattered(graph, devices, seed=0):
    return placed(graph, devices, np.random.default_rng(seed).integers(0, devices, graph.num_ops))


class _Unmoved:
    """Values that are not moved to the device that reads them."""

    def __init__(self, values):
        self.release = values.release
        self.get = lambda node, to: values.get(node, None)


class ApplyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def test_scattered_ops_give_the_models_output(self):
        model = Network().eval()
        x = torch.randn(8, 16)
        graph = et.capture(model, (x,))
        with torch.no_grad():
            expected = model(x)
        for seed in range(3):
            got = et.apply(model, scattered(graph, 3, seed), (x,))(x)
            self.assertTrue(torch.equal(got["first"], expected["first"]))
            self.assertTrue(torch.equal(got["second"][0], expected["second"][0]))
            self.assertTrue(torch.equal(got["second"][1], expected["second"][1]))
            self.assertIs(got["flag"], True)

    def test_an_exported_module_is_a_model_too(self):
        x = torch.randn(8, 16)
        exported = torch.export.export(Network().eval(), (x,)).module()
        graph = et.capture(exported, (x,))
        got = et.apply(exported, scattered(graph, 2), (x,))(x)
        with torch.no_grad():
            self.assertTrue(torch.equal(got["first"], exported(x)["first"]))

    def test_loss_and_gradients_of_a_language_model(self):
        model = llama().train()
        kwargs = {"input_ids": WORDS, "use_cache": False}
        graph = et.capture(model, kwargs=kwargs, loss=of_output, optimizer="adam")
        applied = et.apply(model, scattered(graph, 4), kwargs=kwargs, loss=of_output)
        loss = of_output(model(**kwargs))
        loss.backward()
        got, gradients = applied.gradients(**kwargs)
        self.assertAlmostEqual(got.item(), loss.item(), delta=1e-6)
        self.assertEqual(set(gradients), {name for name, _ in model.named_parameters()})
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-6, rtol=1e-5, msg=name)
        with torch.no_grad():
            torch.testing.assert_close(applied(**kwargs).logits, model(**kwargs).logits, atol=1e-6, rtol=1e-5)

    def test_every_op_reads_its_own_device_only(self):
        model = Network().eval()
        x = torch.randn(8, 16)
        found = scattered(et.capture(model, (x,)), 3)
        applied = et.apply(model, found, (x,))
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:  # refuses ops on tensors of several devices
            applied._devices = [torch.device("lazy", i) for i in range(len(applied._devices))]
            applied._weights = {node: mode.from_tensor(value).to(applied._devices[applied._part[node]])
                                for node, value in applied._weights.items()}
            got = applied(mode.from_tensor(x))
            self.assertEqual((got["first"].shape, got["first"].device.type), ((8, 16), "lazy"))
            node = next(each for each in applied._nodes if each.name.startswith("addmm"))
            applied._devices[applied._part[node]] = torch.device("lazy", 9)  # now a weight lies elsewhere
            applied._call = lambda node, values: type(applied)._call(applied, node, _Unmoved(values))
            with self.assertRaises(Exception):
                applied(mode.from_tensor(x))

    def test_meta_devices_need_no_memory(self):
        with torch.device("meta"):
            model, x = Network().eval(), torch.empty(8, 16)
        graph = et.capture(model, (x,))
        got = et.apply(model, scattered(graph, 2), (x,), devices=["meta"] * 3)(x)
        self.assertEqual((got["first"].shape, got["first"].device.type), ((8, 16), "meta"))

    def test_parts_that_follow_one_another_are_a_graph_module(self):
        model = Network().eval()
        x = torch.randn(8, 16)
        graph = et.capture(model, (x,))
        begin = next(i for i, name in enumerate(graph.op_names) if name.startswith("layers.2/"))
        parts = et.apply(model, placed(graph, 2, np.arange(graph.num_ops) >= begin), (x,)).partitions()
        self.assertEqual(len([name for name, _ in parts.named_children() if name.startswith("submod")]), 2)
        with torch.no_grad():
            self.assertTrue(torch.equal(parts(x)[0], model(x)["first"]))

    def test_devices_that_take_turns_have_no_parts(self):
        model = Network().eval()
        x = torch.randn(8, 16)
        graph = et.capture(model, (x,))
        turns = [int(layer in ("layers.1", "layers.3")) for layer in graph.op_layers]
        applied = et.apply(model, placed(graph, 2, turns), (x,))
        self.assertTrue(torch.equal(applied(x)["first"], model(x)["first"]))
        with self.assertRaisesRegex(emplace.InputError, "devices take turns: on device . .* reads .* of device"):
            applied.partitions()

    def test_other_graphs_and_other_shapes_are_refused(self):
        model = Network().eval()
        x = torch.randn(8, 16)
        graph = et.capture(model, (x,))
        other = et.capture(nn.Linear(16, 16), (x,))
        with self.assertRaisesRegex(emplace.InputError, "placement: its graph has no op"):
            et.apply(model, scattered(other, 2), (x,))
        with self.assertRaisesRegex(emplace.InputError, r"tensor 0 has the shape \[4, 16\]"):
            et.apply(model, scattered(graph, 2), (x,))(torch.randn(4, 16))
        with self.assertRaisesRegex(emplace.InputError, "devices: has 1 "):
            et.apply(model, scattered(graph, 2), (x,), devices=["cpu"])


if __name__ == "__main__":
    unittest.main()
