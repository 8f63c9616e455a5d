# environment: torch
"""emplace.torch.capture: the graph of a step is the step."""

import json
import os
import select
import signal
import time
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import emplace
import emplace.torch as et
from emplace.torch import _runner


class Block(nn.Module):
    """Attention and a network of two layers, each beside a residual connection."""

    def __init__(self, size, heads, dropout=0.0, causal=True):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.heads, self.dropout, self.causal = heads, dropout, causal

    def forward(self, x, mask=None):
        batch, rows, size = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, self.causal and mask is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, rows, size))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    """A small language model whose head is its embedding."""

    def __init__(self, layers=2, size=32, words=50, dropout=0.0, tied=True):
        super().__init__()
        self.embed, self.position = nn.Embedding(words, size), nn.Embedding(16, size)
        self.layers = nn.ModuleList(Block(size, 4, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, words, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, words, labels=None):
        x = self.embed(words) + self.position(torch.arange(words.shape[1], device=words.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return logits if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, groups=4)
        self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(16 * 3 * 3, 10)

    def forward(self, x):
        x = F.relu(self.bn(self.conv1(x)), inplace=True)
        return F.log_softmax(self.fc(self.pool(self.conv2(x)).flatten(1)), -1)


class Masked(nn.Module):
    """Writes in place: whole tensors, parts of them, and a buffer."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        y = self.first(x).relu_()
        z = self.second(y)
        z.add_(y)
        z[:, 3] = y[:, 4]
        z[1:, :4].mul_(2)
        z = F.silu(z, inplace=True)  # its gradient needs the old values: they are copied
        return self.last(z[:, :32]).square().mean()


def ops_of(graph):
    return json.loads(graph.to_json())["ops"]


def run_captured(graph, model, inputs, loss):
    """The loss and the gradients that the graph's own ops compute, by name of the parameter."""
    runner = _runner.GraphRunner(graph)
    data = runner.data()
    given = {**dict(model.named_parameters()), **dict(model.named_buffers()), **inputs}
    for name in list(data):
        if name[:-2] in given:
            data[name] = given[name[:-2]].detach().clone()
    data["loss/gradient:0"] = torch.ones(())
    held = {op["inputs"][1]: op["colocate_with"] for op in ops_of(graph)
            if op["name"].endswith("/held") and len(op["inputs"]) > 1}
    tensors = dict(data)
    for call in runner.calls:
        arguments, named = call.arguments(tensors)
        tensors.update(zip(call.outputs, _runner._tensors(call.function(*arguments, **named))))
    return tensors[loss], {parameter: tensors[name] for name, parameter in held.items()}


def words(rows=2):
    return torch.randint(0, 50, (rows, 16), generator=torch.Generator().manual_seed(3))


class CaptureTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        torch.set_num_threads(1)

    def check_gradients(self, model, inputs, loss_op, **kwargs):
        """The graph's ops give the model's own loss and gradients, bit for bit."""
        graph = et.capture(model, kwargs=inputs, **kwargs)
        output = model(**inputs)
        loss = kwargs["loss"](output) if "loss" in kwargs else output
        loss.backward()
        computed, gradients = run_captured(graph, model, inputs, loss_op)
        self.assertEqual(computed.item(), loss.item())
        self.assertEqual(set(gradients), {name for name, p in model.named_parameters() if p.grad is not None})
        for name, parameter in model.named_parameters():
            mine, theirs = gradients[name].flatten().sort()[0], parameter.grad.flatten().sort()[0]
            self.assertTrue(torch.equal(mine, theirs), name)
        return graph

    def test_the_ops_compute_the_loss_and_the_gradients_of_a_language_model(self):
        graph = self.check_gradients(Language().train(), {"words": words(), "labels": words()}, "nll_loss_forward:0")
        self.assertEqual({op["pass"] for op in ops_of(graph)}, {"forward", "backward", "update"})

    def test_what_a_model_writes_in_place_has_no_memory_of_its_own(self):
        graph = self.check_gradients(Masked(), {"x": torch.randn(8, 16)}, "mean:0")
        ops = {op["name"]: op for op in ops_of(graph)}
        written = {op["kind"]: op for op in ops.values() if op["pass"] == "forward" and "outputs" not in op}
        self.assertEqual(set(written), {"aten::add_.Tensor", "aten::relu_", "aten::copy_", "aten::mul_.Tensor", "aten::silu_"})
        self.assertFalse([kind for kind in graph.op_kinds if "scatter" in kind])
        self.assertEqual(written["aten::copy_"]["attrs"]["input_views"][0], [[8], [32], 3])
        self.assertEqual(written["aten::mul_.Tensor"]["attrs"]["input_views"], [[[7, 4], [32, 1], 32]])
        # Whoever reads what was written follows the op that wrote it, and silu_ follows the copy of what it overwrites.
        second = next(op for op in ops.values() if op["kind"] == "aten::addmm" and op["layer"] == "second")
        self.assertIn("first/addmm:0", second["inputs"])
        self.assertEqual(second["control_inputs"], ["relu"])
        self.assertIn("clone", written["aten::silu_"]["control_inputs"])

    def test_the_ops_compute_the_gradients_of_convolutions_and_batch_norm(self):
        model = Vision().train()
        # Batch norm changes its buffers: the graph runs on those of before.
        graph = et.capture(model, (torch.randn(4, 3, 16, 16),), loss=lambda out: out.square().sum())
        kinds = {op["kind"] for op in ops_of(graph)}
        self.assertIn("aten::convolution_backward", kinds)
        self.assertEqual(graph.metadata["torch"]["state_dict"]["bn.running_mean"], 32)

    def test_attention_is_one_op_forward_and_backward_with_dropout_masks_and_on_the_meta_device(self):
        x = torch.randn(2, 16, 32)
        mask = torch.zeros(16, 16)
        for model, args in ((Block(32, 4), (x,)), (Block(32, 4, dropout=0.1), (x,)), (Block(32, 4), (x, mask)),
                            (Block(32, 4).to("meta"), (x.to("meta"),))):
            kinds = [op["kind"] for op in ops_of(et.capture(model.train(), args))]
            self.assertEqual(kinds.count("aten::scaled_dot_product_attention"), 1)
            self.assertEqual(kinds.count("aten::scaled_dot_product_attention_backward"), 1)
            self.assertNotIn("aten::_softmax", kinds)

    def test_tied_weights_are_one_variable_and_count_once(self):
        model = Language()
        graph = et.capture(model, kwargs={"words": words(), "labels": words()}, optimizer="adam")
        self.assertEqual(graph.parameters, sum(p.numel() for p in model.parameters()))
        self.assertEqual(graph.metadata["torch"]["tied"], {"embed.weight": ["head.weight"]})
        names = [op["name"] for op in ops_of(graph) if op["kind"] == "variable"]
        self.assertIn("embed.weight", names)
        self.assertNotIn("head.weight", names)
        updates = [op for op in ops_of(graph) if op["kind"] == "aten::_fused_adam_"]
        self.assertEqual(len(updates), len(list(model.parameters())))

    def test_flop_equal_those_of_pytorch_and_attention_which_it_does_not_count_on_cpus(self):
        model = Language()
        inputs = {"words": words(), "labels": words()}
        with FlopCounterMode(display=False) as counter:
            model(**inputs).backward()
        attention = 2 * 2 * 4 * 16 * 16 * 8  # of one product: 2 FLOP, batch, heads, queries, keys, size
        graph = et.capture(model, kwargs=inputs)
        self.assertEqual(graph.flop, counter.get_total_flops() + 2 * (2 + 5) * attention)

    def test_each_gradient_of_a_grouped_convolution_is_as_much_work_as_the_convolution(self):
        for groups in (1, 4, 16):
            model = nn.Conv2d(16, 16, 3, groups=groups)
            graph = et.capture(model, (torch.randn(2, 16, 8, 8),))
            forward = 2 * 2 * 16 * 6 * 6 * 16 // groups * 9
            self.assertEqual(graph.flop, 2 * forward)  # the input of the network needs no gradient

    def test_ops_say_where_they_come_from(self):
        graph = et.capture(Language(), kwargs={"words": words(), "labels": words()})
        by_layer = {}
        for op in ops_of(graph):
            by_layer.setdefault((op.get("layer"), op["pass"]), []).append(op)
        for layer in ("embed", "layers.0.qkv", "layers.1.down", "head"):
            self.assertTrue(by_layer[layer, "forward"], layer)
            self.assertTrue(by_layer[layer, "backward"], layer)
        gelu = next(op for op in ops_of(graph) if op["kind"] == "aten::gelu")
        self.assertRegex(gelu["attrs"]["source"], r"test_capture\.py:\d+$")
        self.assertEqual(gelu["layer"], "layers.0")

    def test_optimizers_have_their_states(self):
        model = nn.Linear(4, 3)
        expected = {"sgd": [], "momentum": [12 * 4], "adam": [48, 48, 4], "adamw": [48, 48, 4], "adafactor": [12, 16, 4]}
        for name, sizes in expected.items():
            graph = et.capture(model, (torch.randn(2, 4),), optimizer=name)
            states = [op for op in ops_of(graph) if op["name"].startswith("weight/") and op["kind"] == "variable"]
            self.assertEqual([4 * torch.Size(op["outputs"][0]["shape"]).numel() for op in states], sizes, name)
        made = torch.optim.SGD(model.parameters(), momentum=0.9, lr=0.1)
        kinds = [op["name"] for op in ops_of(et.capture(model, (torch.randn(2, 4),), optimizer=made))]
        self.assertIn("weight/momentum", kinds)

    def test_the_graph_is_simulated_placed_and_saved_like_any_other(self):
        graph = et.capture(Language(), kwargs={"words": words(), "labels": words()}, optimizer="adam")
        again = emplace.Graph.from_json(graph.to_json())
        self.assertEqual(again.num_ops, graph.num_ops)
        found = emplace.place(graph, cluster="dgx-h100", grouping="modules", evaluations=50)
        self.assertGreater(found.step_ns, 0)

    def test_arguments_that_only_the_last_stage_reads_leave_a_pipeline_a_pipeline(self):
        model = Language(tied=False).train()

        class Shifted(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.position, self.layers, self.norm, self.head = model.children()

            def forward(self, words, labels):
                return model.forward(words, F.pad(labels, (0, 1))[:, 1:])

        graph = et.capture(Shifted(), kwargs={"words": words(), "labels": words()}, optimizer="adam")
        self.assertIn("labels/held", graph.op_names)
        stages = [["embed", "position", "layers.0"], ["layers.1", "norm", "head"]]
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-h100"), "roofline")
        placement = et.placement_of(graph, simulator.cluster, stages)
        report = simulator.report(placement, schedule="1f1b", micro_batches=4)
        self.assertGreater(report["step_time_us"], 0)
        self.assertEqual([bool(device["ops"]) for device in report["devices"][1:4]], [True, True, False])

    def test_attention_on_gpus_is_called_as_their_kernels_expect(self):
        # Without a GPU: PyTorch's descriptions of the kernels check the arguments.
        with mock.patch.object(torch.Tensor, "is_cuda", True):
            for dtype, masked in ((torch.float32, False), (torch.float32, True), (torch.bfloat16, False), (torch.bfloat16, True)):
                query = torch.empty(2, 8, 33, 64, dtype=dtype, device="meta")
                key = value = torch.empty(2, 2, 17, 64, dtype=dtype, device="meta")
                mask = torch.ones(33, 17, dtype=torch.bool, device="meta") if masked else None
                given = (query, key, value, mask)
                output, sums = _runner._attention(*given, 0.1, False, None)
                gradients = _runner._attention_backward(output, *given, output, sums, 0.1, False, None, False)
                self.assertEqual((output.shape, sums.shape), (query.shape, query.shape[:3]))
                self.assertEqual([each.shape for each in gradients], [query.shape, key.shape, value.shape])

    def test_kernels_read_the_state_of_dropout_where_it_is(self):
        query = torch.empty(1, device="meta")
        states = [_runner._dropout_state(query, flash) for flash in (True, False)]
        self.assertEqual([(each.device.type, each.dtype, each.numel()) for each in states],
                         [("meta", torch.uint64, 2), ("cpu", torch.int64, 1)])

    def test_profile_has_a_time_for_each_op(self):
        graph = et.capture(Language(), kwargs={"words": words(), "labels": words()}, optimizer="adam")
        profile = et.profile(graph, repeats=2)
        signatures = {row["signature"] for row in profile["ops"]}
        for signature, kind in zip(graph._graph.signatures, graph.op_kinds):
            if kind not in ("input", "variable"):
                self.assertIn(signature, signatures)
        self.assertTrue(all(row["median_us"] >= 0 for row in profile["ops"]))


class RefusedTest(unittest.TestCase):
    def refused(self, expected, function):
        with self.assertRaises(emplace.InputError) as caught:
            function()
        self.assertRegex(str(caught.exception), expected)
        self.assertNotIn("\n", str(caught.exception))

    def test_a_model_that_depends_on_its_data_is_refused_with_pytorchs_reason(self):
        class Data(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x
        model = nn.Sequential(nn.Linear(3, 3), Data())
        self.refused(r"^1 \(Data, test_capture\.py:\d+\): PyTorch cannot capture it: GuardOnDataDependentSymNode: .* "
                     r"\(write what depends on values of tensors with torch\.where", lambda: et.capture(model, (torch.randn(3),)))
        self.refused(r"^0 \(Linear\): PyTorch cannot capture it: RuntimeError: .*does model\(\*args, \*\*kwargs\) run\?",
                     lambda: et.capture(model, (torch.randn(4),)))

    def test_a_loss_that_depends_on_no_parameter_is_refused(self):
        self.refused("^model: ", lambda: et.capture(nn.ReLU(), (torch.randn(3),)))

    def test_a_process_that_dies_is_said(self):
        class Dies(nn.Module):
            def forward(self, x):
                import os
                os.abort()
        self.refused("^capture: PyTorch ended its process \\(signal SIGABRT\\)$",
                     lambda: et.capture(Dies(), (torch.randn(3),)))

    def test_a_killed_parent_leaves_no_process(self):
        reading, writing = os.pipe()

        class Slow(nn.Module):
            def forward(self, x):
                os.write(writing, b"started")
                time.sleep(60)
        parent = os.fork()
        if parent == 0:
            et.capture(Slow(), (torch.randn(3),))
        os.close(writing)
        self.assertEqual(os.read(reading, 100), b"started")
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        ready, _, _ = select.select([reading], [], [], 20)
        self.assertTrue(ready)
        self.assertEqual(os.read(reading, 1), b"")  # nobody has the other side open
        os.close(reading)

    def test_limits_of_time_and_memory_hold(self):
        class Slow(nn.Module):
            def forward(self, x):
                import time
                time.sleep(20)
        class Large(nn.Module):
            def forward(self, x):
                import time
                self.held = b"x" * 2**29
                time.sleep(20)
        self.refused("^capture: takes longer than 0.5 s", lambda: et.capture(Slow(), (torch.randn(3),), seconds=0.5))
        self.refused("^capture: takes more than 0.25 GiB", lambda: et.capture(Large(), (torch.randn(3),), memory_gib=0.25))

    def test_wrong_arguments_are_named(self):
        model = nn.Linear(2, 2)
        self.refused("^model: ", lambda: et.capture("model"))
        self.refused("^args: ", lambda: et.capture(model, torch.randn(2, 2)))
        self.refused("^kwargs: ", lambda: et.capture(model, kwargs=[1]))
        self.refused("^loss: ", lambda: et.capture(model, (torch.randn(2, 2),), loss=3))
        self.refused("^optimizer: is 'lion' ", lambda: et.capture(model, (torch.randn(2, 2),), optimizer="lion"))
        graph = et.capture(model, (torch.randn(2, 2),))
        self.refused("^device: is 'tpu' \\(cpu or cuda\\)$", lambda: et.profile(graph, device="tpu"))
        self.refused("^device: is 'meta' \\(cpu or cuda\\)$", lambda: et.profile(graph, device="meta"))
        self.refused("^device: is 3.5 ", lambda: et.profile(graph, device=3.5))


if __name__ == "__main__":
    unittest.main()
