# environment: transformers
"""The peak memory of training steps as simulated, beside that of real steps on this CPU."""

import unittest

import memory
import networks
import test_capture
import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import emplace
import emplace.torch as et


class CheckpointedLanguage(test_capture.Language):
    def forward(self, words, labels):
        x = self.embed(words)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False, **self.options)
        return torch.nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def check(self, name, percent, program_order=False, **options):
        torch.manual_seed(0)
        model, args, kwargs, optimizer = networks.NETWORKS[name](**options)
        graph = et.capture(model, args, kwargs, optimizer=optimizer, device="cpu", program_order=program_order)
        simulated = memory.simulated_peak(graph)
        real = memory.real_peak(model, args, kwargs, optimizer)
        self.assertLess(abs(simulated / real - 1), percent / 100, f"{name}: simulated {simulated}, real {real}")
        return graph, (model, args, kwargs, optimizer)

    def test_dropout_has_a_factor_for_each_element(self):
        self.check("mlp_dropout", 1)

    def test_convolutions_copy_to_their_layout(self):
        self.check("densenet", 3)

    def test_ops_in_place(self):
        self.check("frozen", 1)

    def test_branches_in_the_order_of_the_program(self):
        self.check("resnet", 3, program_order=True)

    def test_attention_with_dropout(self):
        self.check("gpt2", 1, n_layer=2, n_embd=128, vocabulary=1000)

    def test_grouped_queries(self):
        self.check("llama", 1, num_hidden_layers=1, hidden_size=128, vocabulary=1000)

    def test_autocast(self):
        graph, _ = self.check("mlp_autocast", 1)
        self.assertEqual({"bf16"}, {op["outputs"][0]["dtype"] for op in memory.ops(graph) if op["kind"] == "aten::addmm"})

    def test_recomputation(self):
        for name, options in (("gpt2_checkpointed", {"n_layer": 2, "n_embd": 128}), ("resnet_checkpointed", {}),
                              ("mlp_checkpointed", {"width": 128})):
            with self.subTest(name):
                graph, step = self.check(name, 1, program_order=True, **options)
                recomputed = [op for op in memory.ops(graph) if op.get("attrs", {}).get("recomputed")]
                self.assertEqual({"backward"}, {op["pass"] for op in recomputed})
                self.assertTrue(all(op["name"].endswith("/recomputed") for op in recomputed))
                self.assertEqual(memory.real_flop(*step), graph.flop)

    def test_recomputed_ops_compute_the_same(self):
        torch.manual_seed(1)
        model = CheckpointedLanguage(size=32).train()
        model.options = {}
        inputs = {"words": test_capture.words(), "labels": test_capture.words()}
        graph = et.capture(model, kwargs=inputs)
        loss = model(**inputs)
        loss.backward()
        computed, gradients = test_capture.run_captured(graph, model, inputs, "nll_loss_forward:0")
        self.assertEqual(loss.item(), computed.item())
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                mine, theirs = gradients[name].flatten().sort()[0], parameter.grad.flatten().sort()[0]
                self.assertTrue(torch.equal(mine, theirs), name)

    def test_refused(self):
        model = CheckpointedLanguage().train()
        model.options = {"context_fn": lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default])}
        with self.assertRaisesRegex(emplace.InputError, r"^model: uses selective checkpointing \(context_fn\), which cannot be"):
            et.capture(model, (test_capture.words(), test_capture.words()))
        with self.assertRaisesRegex(emplace.InputError, "^device: .*'gpu' or 'cpu'"):
            et.capture(model, (), device="tpu")


if __name__ == "__main__":
    unittest.main()
