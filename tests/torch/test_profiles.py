# environment: torch
"""tools/torch_profiles: the two profilers on the same graph."""

import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import types
import unittest
from unittest import mock

import torch

import emplace.torch as et
from emplace.torch import _optimizers, _profile, _runner

TOOL = pathlib.Path(os.environ["EMPLACE_ROOT"]) / "tools" / "torch_profiles"


def load():
    loader = importlib.machinery.SourceFileLoader("torch_profiles", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("torch_profiles", loader))
    loader.exec_module(module)
    return module


def profile(**times):
    return {"ops": [{"signature": signature, "median_us": time} for signature, time in times.items()]}


class ReportTest(unittest.TestCase):
    counts = {"a": 2, "b": 1, "c": 1, "held": 1}

    def test_profiles_are_joined_by_signature(self):
        ours = profile(a=2.0, b=6.0, c=5.0, mine=1.0, held=0)
        theirs = profile(a=1.0, b=4.0, c=5.0, held=0)
        # Ratios 2, 1.5 and 1; sums 2 * 2 + 6 + 5 = 15 and 2 * 1 + 4 + 5 = 11.
        lines = load().report("net", self.counts, [ours], [theirs], 1)
        self.assertEqual(lines[0], "net: 4 distinct ops in both profiles, 1 only in that of emplace.torch.profile, "
                                   "0 only in that of emplace profile")
        self.assertIn(": 1.500 in the median of ops, 1.000 to 2.000 from p10 to p90, 1.364 for the sum", lines[1])
        self.assertEqual(lines[2:], ["  2 of a: 2.0 and 1.0 us"])

    def test_noise_is_that_of_consecutive_runs(self):
        module = load()
        runs = [profile(a=1.0, b=4.0, c=5.0), profile(a=2.0, b=4.0, c=5.0), profile(a=2.0, b=4.0, c=10.0)]
        # Four of six ratios are 1; sums 11, 13 and 18.
        ops, sums = module.noise(runs, self.counts)
        self.assertEqual(ops, 1)
        self.assertAlmostEqual(sums, (13 / 11 + 18 / 13) / 2)
        self.assertEqual(module.times_of(runs)["c"], 5)
        self.assertIn("from run to run", module.report("net", self.counts, runs, runs)[2])

    def test_nothing_in_common(self):
        module = load()
        with self.assertRaises(module.NotMeasured):
            module.report("net", self.counts, [profile(a=1.0)], [profile(b=1.0)])


class AloneTest(unittest.TestCase):
    def test_samples_beside_slow_probes_are_left_out(self):
        samples = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
        self.assertEqual(_profile._undisturbed(samples, [100, 120, 110], 100), [samples[0], samples[2]])
        self.assertEqual(_profile._undisturbed(samples, [200, 220, 210], 100), samples)

    def test_a_large_tensor_reuses_memory(self):
        def faults():
            torch.empty(2**22).zero_()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(10):
                torch.empty(2**22).zero_()
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        with _profile.reused_memory():
            self.assertLess(faults(), 20000)  # without: 4096 pages in each of 10 tensors


    def test_what_the_profiler_adds_to_nested_operators_is_left_out(self):
        def event(name, micros, *called):
            return types.SimpleNamespace(name=name, cpu_children=called,
                                         time_range=types.SimpleNamespace(elapsed_us=lambda: micros))
        first = event("aten::a", 10.0, event("aten::b", 4.0, event("aten::c", 1.0)), event("aten::c", 1.0))
        trace = types.SimpleNamespace(events=lambda: [event("emplace_op_0", 90.0, first, event("aten::d", 5.0)), first,
                                                      event("emplace_op_7", 4.0)])
        self.assertEqual(list(_profile._times_of_operators(trace, 0.5)), [(0, 10 - 3 * 0.5 + 5), (7, 4)])
        self.assertTrue(0 <= _profile._added_by_event() < 10)


class OpsTest(unittest.TestCase):
    """Ops that a graph has and PyTorch has under another name."""

    def test_an_update_is_that_of_torch_optim_on_the_graphs_own_state(self):
        for name, made in (("sgd", torch.optim.SGD), ("momentum", functools.partial(torch.optim.SGD, momentum=0.9)),
                           ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW),
                           ("adafactor", functools.partial(torch.optim.Adafactor, weight_decay=0.0))):
            for shape in ([4, 6], [5]):
                parameter = torch.nn.Parameter(torch.randn(shape))
                mine, state = parameter.detach().clone(), [
                    torch.zeros(each.output["shape"]) for each in _optimizers.states(name, shape, "f32")]
                optimizer, update = made([parameter], lr=1e-6, foreach=False), _runner._Update(name)
                inputs = [mine, torch.empty(mine.numel()), *state]
                lists = _optimizers.update(name, {"name": "w", "outputs": [{"shape": shape}]}, "g:0")["attrs"]["args"]
                for _ in range(3):
                    parameter.grad = torch.randn(shape)
                    optimizer.step()
                    inputs[1].copy_(parameter.grad.flatten())
                    update(*([inputs[int(each[1:])] for each in given] for given in lists))
                self.assertTrue(torch.equal(mine, parameter.detach()), (name, shape))

    def test_dropout_on_a_cpu_keeps_factors(self):
        graph = et.capture(torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Dropout(0.75)), (torch.randn(4, 8),),
                           device="cpu")
        op = next(op for op in json.loads(graph.to_json())["ops"] if op["kind"] == "aten::native_dropout")
        output, factor = _runner._function_of(op)(torch.full((64,), 2.0), 0.75, True)
        self.assertEqual(set(factor.tolist()) | {0.0, 4.0}, {0.0, 4.0})
        self.assertTrue(torch.equal(output, 2 * factor))
        self.assertTrue(torch.equal(_runner._dropout_backward(torch.full((64,), 3.0), factor, 4.0), 3 * factor))
        mask = factor > 0
        self.assertTrue(torch.equal(_runner._dropout_backward(torch.full((64,), 3.0), mask, 4.0), 12.0 * mask))
        self.assertEqual(len(et.profile(graph, repeats=1)["ops"]), len(
            {signature for signature, kind in zip(graph._graph.signatures, graph.op_kinds) if kind not in ("input", "variable")}))


class ToolTest(unittest.TestCase):
    def ran(self, *arguments):
        """The exit status and the output of a run in this process, which has imported PyTorch."""
        with mock.patch.object(sys, "argv", [str(TOOL), *arguments]), io.StringIO() as output, \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = load().main()
            return status, output.getvalue()

    def test_both_profilers_measure_the_same_ops_on_a_cpu(self):
        status, output = self.ran(os.environ["EMPLACE_PROGRAM"], "--repeats", "2", "--seconds", "0.02", "recommender")
        self.assertEqual(status, 0, output)
        first, second = output.splitlines()
        found = re.fullmatch(r"recommender on cpu: (\d+) distinct ops in both profiles, 0 only in that of emplace.torch.profile, "
                             r"0 only in that of emplace profile", first)
        self.assertTrue(found, first)
        self.assertGreater(int(found[1]), 30)
        median = float(re.search(r": ([0-9.]+) in the median of ops", second)[1])
        self.assertTrue(0.1 < median < 10, second)

    def test_where_it_cannot_run_it_says_why_in_one_line(self):
        for arguments, expected in ((["nothing", "--device", "cuda", "cnn"], 77), (["/bin/false", "cnn"], 1),
                                    (["nothing", "no_network"], 2)):
            with mock.patch.object(torch.cuda, "is_available", return_value=False):
                status, output = self.ran(*arguments)
            self.assertEqual(status, expected, output)
            self.assertEqual(len(output.splitlines()), 1, output)

    def test_a_python_without_emplace_skips_it(self):
        ran = subprocess.run([sys.executable, TOOL, "nothing", "cnn"], capture_output=True, text=True, check=False,
                             env={**os.environ, "PYTHONPATH": ""})
        self.assertEqual(ran.returncode, 77, ran.stdout + ran.stderr)
        self.assertEqual(len((ran.stdout + ran.stderr).splitlines()), 1, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
