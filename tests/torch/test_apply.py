# environment: transformers
"""Placements and plans, applied by the real libraries: Accelerate, torch.distributed.pipelining, FSDP2, tensor parallel."""

import contextlib
import dataclasses
import functools
import importlib.machinery
import importlib.util
import io
import json
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import emplace
import emplace.torch as et
from emplace.torch import _devices, _validate

LAYERS = 4
STAGES = [["model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.layers.1"],
          ["model.layers.2", "model.layers.3", "model.norm", "lm_head"]]


def llama(**more):
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=100, **more)
    return LlamaForCausalLM(config).train()


def words(rows=2):
    return torch.randint(0, 100, (rows, 16), generator=torch.Generator().manual_seed(3))


def loss(output):
    return F.cross_entropy(output.logits.flatten(0, 1).float(), words().flatten())


def captured(model, optimizer="adam"):
    return et.capture(model, kwargs={"input_ids": words(), "use_cache": False}, loss=loss, optimizer=optimizer)


def placed(graph, stages, devices=2):
    """The placement of these stages, as if a search had found it."""
    cluster = emplace.Cluster("dgx-h100", gpus=devices)
    found = emplace.place(graph, cluster=cluster, grouping="modules", evaluations=1, agent="single_device")
    return dataclasses.replace(found, placement=et.placement_of(graph, cluster, stages))


class AccelerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.model = llama()
        cls.graph = captured(cls.model)
        cls.map = et.device_map(placed(cls.graph, STAGES))

    def dispatch(self, device_map, make=llama):
        """A forward pass on two devices of fake tensors, as Accelerate runs it."""
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
            model = make()
            for name, tensor in (*model.named_parameters(), *model.named_buffers()):
                device = max((path for path in device_map if path == "" or name == path or name.startswith(path + ".")), key=len)
                owner = model.get_submodule(name.rpartition(".")[0])
                fake = torch.empty(tensor.shape, dtype=tensor.dtype, device=f"lazy:{device_map[device]}")
                own = owner._parameters if name.rpartition(".")[2] in owner._parameters else owner._buffers
                own[name.rpartition(".")[2]] = torch.nn.Parameter(fake) if own is owner._parameters else fake
            named = {path: f"lazy:{device}" for path, device in device_map.items()}
            dispatch_model(model, named, main_device="lazy:0", force_hooks=True)
            return model(input_ids=torch.zeros(2, 16, dtype=torch.long, device="lazy:0"), use_cache=False).logits

    def test_every_tensor_of_the_model_is_covered_by_one_path(self):
        for name in self.model.state_dict():
            self.assertTrue(any(name == path or name.startswith(path + ".") for path in self.map), name)
        self.assertEqual(set(self.map.values()), {0, 1})

    def test_cpu_and_disk_run_with_equal_outputs(self):
        device_map = {path: "disk" if device else "cpu" for path, device in self.map.items()}
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            expected = self.model(input_ids=words(), use_cache=False).logits
            model = dispatch_model(llama(), device_map, main_device="cpu", offload_dir=folder, force_hooks=True)
            self.assertTrue(torch.equal(model(input_ids=words(), use_cache=False).logits, expected))

    def test_the_map_comes_back_to_the_same_placement(self):
        found = placed(self.graph, STAGES)
        for artefact in (et.device_map(found), et.stages(found), et.split_spec(found), et.plan(found)):
            again = et.placement_of(self.graph, found.simulator.cluster, artefact)
            self.assertTrue((again == found.placement).all(), artefact)

    def test_searches_with_modules_give_maps_that_accelerate_runs_on_two_devices(self):
        maps = (et.device_map(emplace.place(self.graph, cluster=emplace.Cluster("dgx-h100", gpus=2), grouping="modules",
                                            agent="random", evaluations=20, seed=seed)) for seed in range(20))
        device_map = next(each for each in maps if len(each) > 1)  # the best of 20 may be on one device
        self.assertEqual(self.dispatch(device_map).shape, (2, 16, 100))

    def test_a_map_that_divides_a_block_is_refused_as_accelerate_fails_with_it(self):
        divided = dict(self.map, **{"model.layers.1.mlp": 1})
        with self.assertRaises(Exception):
            self.dispatch(divided)
        cluster = emplace.Cluster("dgx-h100", gpus=2)
        with self.assertRaisesRegex(emplace.InputError, "have to be on one device"):
            found = placed(self.graph, STAGES)
            ops = [i for i, layer in enumerate(self.graph.op_layers) if layer.startswith("model.layers.1.mlp")]
            found.placement[ops] = found.placement[self.graph.find_op("lm_head.weight")]
            et.placement_of(self.graph, cluster, divided)
            et.device_map(found)

    def test_tied_weights_stay_together(self):
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=3, n_head=2, vocab_size=100, n_positions=16)).train()
        graph = captured(model)
        cluster = emplace.Cluster("dgx-h100", gpus=2)
        for seed in range(5):
            found = emplace.place(graph, cluster=cluster, grouping="modules", agent="random", evaluations=3, seed=seed)
            device_map = et.device_map(found)
            device = {name: device_map[max((path for path in device_map
                                            if path == "" or name == path or name.startswith(path + ".")), key=len)]
                      for name in model.state_dict()}
            self.assertEqual(device["lm_head.weight"], device["transformer.wte.weight"])


class ProcessesTest(unittest.TestCase):
    """Plans that run on gloo: the losses of three steps are those of the model on one process."""

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.model = llama()
        cls.graph = captured(cls.model, "sgd")
        cls.expected, _ = cls.run_plan({})

    @classmethod
    def run_plan(cls, plan):
        """The losses, and the measured and the simulated peak of each process without other divisions than of data."""
        from emplace.torch import _memory, _parallel, _recompute, _validate, _workers
        chosen = et._checked_plan({"schema": "emplace.plan", "version": 1, **plan})
        step = _validate.Step(cls.model, (), {"input_ids": words(), "use_cache": False}, loss, "sgd",
                              _recompute.blocks_of(chosen, cls.graph))
        workers = _workers.Processes(chosen["dp"] * chosen["tp"] * chosen["pp"], seconds=120)
        text = json.dumps(dict(chosen, pp=1, stages=[], recompute="none"))
        described = json.loads(emplace._core.framework_text("fsdp", cls.graph._graph, None, None, text))
        ranks = _validate.run_plan(step, chosen, described, 1, 2, workers)
        shards = chosen["dp"] // _parallel.replicas_of(chosen) if chosen["zero"] else 1
        units = described["fully_shard"] if chosen["zero"] else []
        simulated = _memory.simulated_peak(_memory.rank_ops(cls.graph, chosen, units, shards))
        return next(rank["losses"] for rank in reversed(ranks) if rank["losses"][0] is not None), (
            [rank["peak"] for rank in ranks], [simulated] * len(ranks))

    def check(self, **plan):
        losses, (measured, simulated) = self.run_plan(plan)
        for mine, theirs in zip(losses, self.expected, strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-6)
        # Not all of FSDP's and gloo's buffers are simulated, and DistributedDataParallel sometimes keeps its first buckets.
        if not plan.keys() & {"tp", "pp", "recompute"}:
            self.check_memory(measured, simulated, 40 if "dp" in plan else 3)

    def check_memory(self, measured, simulated, percent):
        for mine, theirs in zip(simulated, measured, strict=True):
            self.assertLess(abs(mine / theirs - 1), percent / 100, f"{mine}, measured {theirs}")

    def test_pipelines_of_two_stages(self):
        self.check(pp=2, grad_accumulation=4, schedule="1f1b", stages=STAGES)
        self.check(pp=2, grad_accumulation=4, schedule="gpipe", stages=STAGES)

    def test_a_pipeline_of_four_stages(self):
        stages = [["model.embed_tokens", "model.rotary_emb", "model.layers.0"], ["model.layers.1"], ["model.layers.2"],
                  ["model.layers.3", "model.norm", "lm_head"]]
        self.check(pp=4, grad_accumulation=4, schedule="1f1b", stages=stages)

    def test_data_parallel_and_fsdp(self):
        self.check(grad_accumulation=2)
        self.check(dp=2)
        self.check(dp=2, zero=2)
        self.check(dp=2, zero=3)

    def test_replicas_of_shards(self):
        self.check(dp=4, dp_replicate=2, zero=2)
        self.check(dp=4, dp_replicate=2, zero=3, recompute="full")

    def test_gradients_of_replicas_of_shards_are_means_over_all(self):
        from emplace.torch import _parallel, _workers
        chosen = et._checked_plan({"schema": "emplace.plan", "version": 1, "dp": 4, "dp_replicate": 2, "zero": 3})
        described = json.loads(et.framework_text("fsdp", chosen, self.graph))
        model, rows = llama(), words(4)

        def loss_of(model, rank):
            return F.cross_entropy(model(input_ids=rows[rank:rank + 1], use_cache=False).logits.flatten(0, 1), rows[rank])

        (sum(loss_of(model, rank) for rank in range(4)) / 4).backward()
        expected = {name: each.grad for name, each in model.named_parameters()}

        def work(rank):
            part = _parallel.shard(llama(), chosen, described, _parallel.mesh_of(chosen))
            loss_of(part, rank).backward()
            return {name: (each.grad.to_local(), each.grad.full_tensor()) for name, each in part.named_parameters()}

        ranks = _workers.run(work, _workers.Processes(4, seconds=120))
        for name, gradient in expected.items():
            for rank, gradients in enumerate(ranks):
                torch.testing.assert_close(gradients[name][1], gradient, atol=1e-6, rtol=1e-5, msg=name)
                torch.testing.assert_close(gradients[name][0], gradient.chunk(2)[rank % 2], atol=1e-6, rtol=1e-5, msg=name)

    def test_blocks_that_run_again(self):
        self.check(tp=2, recompute=2)
        self.check(pp=2, grad_accumulation=4, stages=STAGES, recompute="full")

    def test_tensor_parallel_and_its_mixture_with_fsdp(self):
        self.check(tp=2)
        self.check(tp=2, dp=2, zero=3)

    def test_sequence_parallel_and_its_mixture_with_fsdp(self):
        self.check(tp=2, sequence_parallel=True)
        self.check(tp=2, dp=2, zero=3, sequence_parallel=True)

    def test_gradients_of_tensor_and_sequence_parallel(self):
        from emplace.torch import _parallel, _workers
        model = llama()
        loss(model(input_ids=words(), use_cache=False)).backward()
        expected = {name: each.grad for name, each in model.named_parameters()}
        for sequence_parallel in (False, True):
            chosen = et._checked_plan({"schema": "emplace.plan", "version": 1, "tp": 2, "sequence_parallel": sequence_parallel})
            described = json.loads(et.framework_text("fsdp", chosen, self.graph))

            def work(rank, chosen=chosen, described=described):
                part = _parallel.shard(llama(), chosen, described, _parallel.mesh_of(chosen))
                loss(part(input_ids=words(), use_cache=False)).backward()
                return {name: each.grad.full_tensor() if hasattr(each.grad, "full_tensor") else each.grad
                        for name, each in part.named_parameters()}

            for gradients in _workers.run(work, _workers.Processes(2, seconds=120)):
                for name, gradient in gradients.items():
                    torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-5, msg=name)

    def test_weights_that_would_get_a_part_of_their_gradient_are_refused(self):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
                                             num_key_value_heads=2, head_dim=16, vocab_size=100)).train()
        plan = {"schema": "emplace.plan", "version": 1, "tp": 2}
        with self.assertRaisesRegex(emplace.InputError, "plan: tp: model.layers.0.self_attn.._norm has weights beside"):
            et.validate(model, plan, kwargs={"input_ids": words(), "use_cache": False}, loss=loss, device="cpu")

    def test_a_pipeline_of_replicas(self):
        self.check(pp=2, dp=2, grad_accumulation=2, stages=STAGES)

    def test_plans_that_cannot_be_run_are_refused(self):
        base = {"schema": "emplace.plan", "version": 1}
        for wrong, expected in (({"cp": 2}, "plan: cp: is 2"), ({"dp": 2, "zero": 1}, "plan: zero: is 1"),
                                ({"pp": 2, "tp": 2, "stages": STAGES}, "plan: pp: "), ({"pp": 0}, "plan: pp: is 0"),
                                ({"ppp": 2}, "plan: ppp: ")):
            with self.assertRaisesRegex(emplace.InputError, expected):
                et.validate(self.model, {**base, **wrong}, kwargs={"input_ids": words(), "use_cache": False}, loss=loss)
        with self.assertRaisesRegex(emplace.InputError, "processes: is 3, but the plan has 2"):
            et.validate(self.model, {**base, "dp": 2}, processes=3, loss=loss)

    def test_validate_simulates_tensor_parallel_and_fsdp(self):
        for degrees in ({"tp": 2}, {"dp": 4, "dp_replicate": 2, "zero": 3}):
            plan = {"schema": "emplace.plan", "version": 1, **degrees}
            result = et.validate(self.model, plan, kwargs={"input_ids": words(), "use_cache": False}, loss=loss, steps=2,
                                 warm_up=1, device="cpu")
            self.assertGreater(result.simulated_ms, 0)
            self.assertAlmostEqual(result.losses[0], self.expected[0], delta=1e-6)
            self.check_memory(result.measured_peak_bytes, result.simulated_peak_bytes, 40)

    def test_validate_sets_the_measured_step_beside_the_simulated_one(self):
        plan = {"schema": "emplace.plan", "version": 1, "pp": 2, "grad_accumulation": 2, "stages": STAGES}
        result = et.validate(self.model, plan, kwargs={"input_ids": words(), "use_cache": False}, loss=loss, processes=2,
                             steps=3, warm_up=1, device="cpu")
        self.assertEqual(len(result.steps_ms), 3)
        self.assertEqual(len(result.losses), 4)
        self.assertGreater(result.simulated_ms, 0)
        self.check_memory(result.measured_peak_bytes, result.simulated_peak_bytes, 40)
        self.assertAlmostEqual(result.losses[0], self.expected[0], delta=1e-6)


@contextlib.contextmanager
def gpus(count, initialised=False):
    """What PyTorch says on a machine with GPUs, in this process and in those forked from it."""
    with mock.patch.object(torch.cuda, "is_available", return_value=count > 0) as available, \
            mock.patch.object(torch.cuda, "device_count", return_value=count), \
            mock.patch.object(torch.cuda, "_is_in_bad_fork", return_value=initialised):
        yield available


class OnCpu(_devices.Gpus):
    kind, backend, message_sizes = "cpu", "gloo", (1 << 12, 1 << 16)

    def device(self, rank):
        return torch.device("cpu")


class DeviceTest(unittest.TestCase):
    """validate(device=): which devices it takes, and what it does on GPUs, with CUDA replaced by the CPU."""

    PLAN = {"schema": "emplace.plan", "version": 1, "dp": 2}

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    @staticmethod
    def ran(*arguments):
        """The exit status and the output of tools/torch_plans in this process."""
        path = str(pathlib.Path(os.environ["EMPLACE_ROOT"]) / "tools" / "torch_plans")
        loader = importlib.machinery.SourceFileLoader("torch_plans", path)
        tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("torch_plans", loader))
        loader.exec_module(tool)
        with mock.patch.object(sys, "argv", [path, *arguments]), io.StringIO() as output, \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            return tool.main(), output.getvalue()

    def test_gpus_are_taken_where_there_is_one_for_each_process(self):
        for device, count, expected in ((None, 0, "cpu"), (None, 1, "cpu"), (None, 2, "cuda"), ("cuda", 3, "cuda"),
                                        ("cpu", 3, "cpu")):
            with gpus(count):
                self.assertEqual(_devices.choose(device, 2).kind, expected, (device, count))

    def test_they_are_counted_in_another_process(self):
        with gpus(2) as available:
            _devices.choose(None, 2)
            available.assert_not_called()  # it can initialise CUDA

    def test_what_gpus_cannot_run_is_refused(self):
        model = torch.nn.Linear(2, 2)
        for count, initialised, more, expected in (
                (1, False, {"device": "cuda"}, "device: is 'cuda', and the number of GPUs here is 1 (2, one for each process)"),
                (2, True, {}, "device: CUDA is initialised in this process, so that processes forked from it cannot use GPUs (a "
                              "fresh process, or device=\"cpu\")"),
                (2, False, {"device": "mps"}, "device: is 'mps' ('cpu', 'cuda', or None for GPUs where there are enough)"),
                (2, False, {"threads": [1, 1]}, "threads: are of CPU processes, and the plan runs on GPUs (None, or "
                                                "device=\"cpu\")"),
                (2, False, {"speeds": [1, 0.5]}, "speeds: are of CPU processes, and the plan runs on GPUs (None, or "
                                                 "device=\"cpu\")")):
            with gpus(count, initialised), self.assertRaisesRegex(emplace.InputError, f"^{re.escape(expected)}$"):
                et.validate(model, self.PLAN, args=(torch.zeros(2, 2),), **more)
        with gpus(4), self.assertRaisesRegex(emplace.InputError, "plan: cp: is 2, which is not run on GPUs"):
            et.validate(model, {**self.PLAN, "cp": 2})
        with gpus(2, initialised=True):
            self.assertEqual(_devices.choose("cpu", 2).kind, "cpu")
            self.assertEqual(_devices.choose(None, 3).kind, "cpu")

    def test_a_message_takes_what_its_two_ranks_measure(self):
        idle, busy = {"send": [1.0, 1.0], "copy": [10.0, 40.0]}, {"send": [200.0, 2000.0], "copy": [10.0, 40.0]}
        processes = mock.Mock(devices=mock.Mock(message_sizes=(1000, 10000)))
        with mock.patch.object(_validate._workers, "run", return_value=[busy, busy, idle, idle]):
            messages = _validate.measure_messages(processes)
        self.assertAlmostEqual(messages["send"](10000), 2000)
        self.assertAlmostEqual(messages["copy"](10000), 40)

    def test_each_rank_has_its_own_gpu(self):
        found = _devices.Gpus()
        self.assertEqual((found.device(1), found.kind, found.backend), (torch.device("cuda:1"), "cuda", "nccl"))
        with mock.patch.object(torch.cuda, "set_device") as set_device:
            found.begin(1)
        set_device.assert_called_once_with(1)

    def test_plans_run_as_on_gpus_and_the_tool_prints_both_times(self):
        waits, peak, devices = multiprocessing.Value("i", 0), 5 << 20, OnCpu()

        def wait():
            with waits.get_lock():
                waits.value += 1

        results, validate = [], et.validate

        def recorded(*args, **more):
            results.append(validate(*args, **more))
            return results[-1]

        with mock.patch.object(_devices, "_count", lambda: (False, 2)), mock.patch.object(_devices, "Gpus", lambda: devices), \
                mock.patch.object(et, "validate", recorded), \
                mock.patch.object(_validate, "measure_messages", functools.cache(_validate.measure_messages)), \
                mock.patch.multiple(torch.cuda, set_device=mock.DEFAULT, current_device=lambda: 0, synchronize=wait,
                                    reset_peak_memory_stats=mock.DEFAULT, max_memory_allocated=lambda: peak):
            status, output = self.ran("--device", "cuda", "--width", "16", "--rows", "8", "--steps", "2")
        self.assertEqual(status, 0, output)
        for name, line in zip(("pipeline", "fsdp"), output.splitlines(), strict=True):
            found = re.fullmatch(name + r" on 2 of cpu: ([0-9.]+) ms measured, ([0-9.]+) ms simulated \([-+][0-9.]+ %\); "
                                 r"peak 5.0 MiB measured, ([0-9.]+) MiB simulated", line)
            self.assertTrue(found, line)
            self.assertGreater(min(float(found[1]), float(found[2])), 0)
        for mine, theirs in zip(*(result.losses for result in results), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-5)
        # Before and after each of 5 steps of 2 plans on 2 processes, and around each message.
        self.assertGreater(waits.value, 2 * 2 * 5 * 4)

    def test_the_tool_says_in_one_line_why_it_cannot_run(self):
        for arguments, expected, reason in ((["--device", "cuda"], 77, "pipeline: could not be run (device: is 'cuda', and"),
                                            (["zero"], 2, "tools/torch_plans: zero is not one of pipeline, fsdp")):
            with gpus(1):
                status, output = self.ran(*arguments)
            self.assertEqual((status, len(output.splitlines())), (expected, 1), output)
            self.assertIn(reason, output)


if __name__ == "__main__":
    unittest.main()
