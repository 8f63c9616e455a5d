# environment: torch
"""Traces that PyTorch's profiler writes here are imported and replayed: a step takes as long as it was measured."""

import collections
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

PROGRAM = os.environ["EMPLACE_PROGRAM"]
STEPS = 3


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                                    nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(x + self.layers(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(100, 32), nn.LSTM(32, 48, 2, batch_first=True), nn.Linear(48, 100)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


class Gpt(nn.Module):
    """One block with causal attention; the head is the embedding."""

    def __init__(self, size=64):
        super().__init__()
        self.embed = nn.Embedding(100, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        x = self.embed(x)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return x @ self.embed.weight.T


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(500, 32, mode="sum")
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.head(self.bags(x))


class Mixture(nn.Module):
    """Each row goes to the best of four experts."""

    def __init__(self, size=32):
        super().__init__()
        self.gate = nn.Linear(size, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(size, 64), nn.GELU(), nn.Linear(64, size)) for _ in range(4))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero().squeeze(-1)
            y = y.index_add(0, rows, expert(x[rows]) * weights[rows, None])
        return y


def tokens(batch, length):
    return torch.randint(100, (batch, length))


def cnn():
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
                         nn.Linear(32 * 13 * 13, 10))


def upsampling():
    return nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))


# Model and input.
NETWORKS = {
    "mlp": lambda: (mlp(), torch.randn(64, 64)),
    "cnn": lambda: (cnn(), torch.randn(8, 3, 32, 32)),
    "resnet": lambda: (nn.Sequential(nn.Conv2d(3, 16, 3), Residual(16), Residual(16)), torch.randn(4, 3, 16, 16)),
    "lstm": lambda: (Recurrent(), tokens(4, 12)),
    "encoder": lambda: (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), torch.randn(4, 16, 32)),
    "gpt": lambda: (Gpt(), tokens(4, 32)),
    "bags": lambda: (Bags(), tokens(64, 8)),
    "upsampling": lambda: (upsampling(), torch.randn(4, 3, 32, 32)),
    "mixture": lambda: (Mixture(), torch.randn(64, 32)),
    "compiled": lambda: (torch.compile(mlp(), backend="aot_eager"), torch.randn(64, 64)),
}


def emplace(*arguments):
    """What the program prints, and its messages; it must succeed."""
    run = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(f"{arguments}: status {run.returncode}: {run.stderr}")
    return run.stdout, run.stderr


class Recording:
    """Three steps of training, with both kinds of trace, and what PyTorch says of the times."""

    def __init__(self, folder, model, data):
        self.trace, self.et = os.path.join(folder, "trace.json"), os.path.join(folder, "et.json")
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step():
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

        def keep(profiler):
            profiler.export_chrome_trace(self.trace)
            self.self_times = {row.key: row.self_cpu_time_total for row in profiler.key_averages()}

        step()
        observer = ExecutionTraceObserver()
        observer.register_callback(self.et)
        with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
                     record_shapes=True, profile_memory=True, on_trace_ready=keep,
                     execution_trace_observer=observer) as profiler:
            for _ in range(STEPS + 1):
                step()
                profiler.step()
        with open(self.trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.steps = {event["name"]: event for event in events if event["name"].startswith("ProfilerStep#")}
        self.ops = [event for event in events if event.get("cat") == "cpu_op"]
        self.allocations = [event for event in events if event["name"] == "[memory]"]

    def ops_of(self, step):
        return [event for event in self.ops if step["ts"] <= event["ts"] < step["ts"] + step["dur"]]

    def peak_of(self, step):
        allocations = sorted(self.allocations, key=lambda event: event["ts"])
        before = [event for event in allocations if event["ts"] < step["ts"]]
        inside = [event for event in allocations if step["ts"] <= event["ts"] < step["ts"] + step["dur"]]
        first = before[-1]["args"]["Total Allocated"] if before else \
            inside[0]["args"]["Total Allocated"] - inside[0]["args"]["Bytes"]
        return max([first] + [event["args"]["Total Allocated"] for event in inside])


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        torch.manual_seed(0)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def check_replay(self, recording):
        """A step takes as long as it was measured, its op ranges are there, and so is the memory."""
        replay = json.loads(emplace("replay", recording.trace, "--json")[0])
        step = recording.steps["ProfilerStep#" + replay["step"]]
        self.assertEqual(replay["steps"], STEPS)
        self.assertAlmostEqual(replay["measured_step_time_us"], step["dur"], delta=0.01)
        self.assertAlmostEqual(replay["step_time_us"] / step["dur"], 1, delta=0.02)
        self.assertEqual(replay["activities"], len(recording.ops_of(step)))
        self.assertGreater(replay["activities"], 0)
        self.assertEqual(replay["streams"], [])
        self.assertGreaterEqual(len(replay["threads"]), 1)
        self.assertEqual(replay["measured_peak_bytes"], recording.peak_of(step))
        self.assertAlmostEqual(replay["peak_bytes"] / replay["measured_peak_bytes"], 1, delta=0.1)
        self.assertIn("allocated at the peak", emplace("replay", recording.trace)[0])

    def check_graph(self, recording):
        """Operators have the times that PyTorch says are theirs, and the graph simulates to the measured step."""
        files = [self.path(name) for name in ("graph.json", "threads.yaml", "placement.json")]
        graph_file, cluster, placement = files
        emplace("import", recording.trace, "-o", graph_file, "--cluster-out", cluster, "--placement-out", placement,
                "--step", "all")
        with open(graph_file, encoding="utf-8") as file:
            graph = json.load(file)
        times = collections.Counter()
        for op in graph["ops"]:
            times[op["attrs"].get("op", "")] += op["time_us"]["host-cpu"]
        operators = {name: time for name, time in recording.self_times.items() if name.startswith("aten::")}
        self.assertGreater(len(operators), 5)
        for name, time in operators.items():
            self.assertAlmostEqual(times[name], time, delta=0.02 + 1e-3 * time, msg=name)
        shapes = [op["attrs"] for op in graph["ops"] if "input_dims" in op["attrs"]]
        self.assertGreater(len(shapes), 5)
        simulated = json.loads(emplace("simulate", graph_file, "--cluster", cluster, "--placement", placement, "--json")[0])
        measured = graph["metadata"]["measured"]["step_time_us"]
        self.assertAlmostEqual(simulated["step_time_us"] / measured, 1, delta=0.02)

    def check_execution_trace(self, recording):
        """The Execution Trace of the same steps is read, and gets times from the trace."""
        graph_file = self.path("et_graph.json")
        messages = emplace("import", recording.et, "--from", "pytorch-et", "-o", graph_file, "--times", recording.trace)[1]
        self.assertIn("% of", messages)
        with open(graph_file, encoding="utf-8") as file:
            ops = [op for op in json.load(file)["ops"] if op["kind"] not in ("input", "variable")]
        self.assertGreater(len(ops), 5)
        timed = [op for op in ops if "time_us" in op]
        self.assertGreater(len(timed), 0.95 * len(ops))
        self.assertGreater(sum(op["time_us"]["host-cpu"] for op in timed), 0)

    def test_networks(self):
        for name, make in NETWORKS.items():
            with self.subTest(name):
                recording = Recording(self.folder, *make())
                self.check_replay(recording)
                self.check_graph(recording)
                self.check_execution_trace(recording)

    @unittest.skipUnless(shutil.which("g++"), "torch.compile needs a compiler")
    def test_compiled_network(self):
        with mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": self.path("inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}):
            recording = Recording(self.folder, torch.compile(mlp()), torch.randn(64, 64))
        self.check_replay(recording)
        self.check_graph(recording)
        self.check_execution_trace(recording)

    def test_threads(self):
        """Where a thread waits for another one, it does so in the simulation."""
        model, data = mlp(), torch.randn(256, 64)

        def work(result):
            result.append(model(data).square().mean())

        options = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        with profile(activities=[ProfilerActivity.CPU], experimental_config=options) as profiler:
            for _ in range(2):
                result = []
                thread = threading.Thread(target=work, args=(result,))
                thread.start()
                thread.join()
                result[0].backward()
        trace = self.path("threads.json")
        profiler.export_chrome_trace(trace)
        replay = json.loads(emplace("replay", trace, "--json")[0])
        self.assertGreaterEqual(len(replay["threads"]), 2)
        self.assertAlmostEqual(replay["step_time_us"] / replay["measured_step_time_us"], 1, delta=0.05)


if __name__ == "__main__":
    unittest.main()
