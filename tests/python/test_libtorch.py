"""Searches that load LibTorch: in a process of their own, beside PyTorch, with the results of the program."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

import emplace
from emplace import _core
from testing import Case, fork, random_graph, run_program, small_cluster

ROOT = os.environ["EMPLACE_ROOT"]
AGENTS = ("hierarchical", "coloc_rl", "sgdp")

# What a script gets before its own lines.
HELPERS = """
import sys
import emplace
from testing import fork, small_cluster
def libtorches():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split()[-1] for line in maps if "libtorch_cpu" in line})
simulator = emplace.Simulator(fork(), small_cluster())
"""
SHOWN = "print([found.step_ns, found.placement.tolist(), found.episodes, hash(found.policy)], libtorches())\n"


def python(script, executable=sys.executable, **keywords):
    here = os.path.dirname(os.path.abspath(__file__))
    return subprocess.Popen([executable, "-c", HELPERS + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH":
                                            os.environ["PYTHONPATH"] + ":" + here}, **keywords)


def output(script, executable=sys.executable):
    process = python(script, executable)
    out, err = process.communicate(timeout=300)
    if process.returncode != 0:
        raise AssertionError(f"{process.returncode}: {out}{err}")
    return out


class ProcessTest(Case):
    def test_only_three_agents_need_libtorch_and_it_is_never_loaded_here(self):
        out = output("from emplace import _core\n"
                     "for agent in emplace.names('agents'):\n"
                     "    if _core.needs_libtorch({'agent': agent}): print(agent, end=' ')\n"
                     "    else:\n"
                     "        own = {'evaluations': 40} if _core.agent_defaults(agent)['searches'] else {}\n"
                     "        cluster = emplace.Cluster('p2.8xlarge', gpus=2)\n"
                     "        chain = emplace.Graph.from_arrays([[0, 1], [1, 2]], [9] * 3, [2.0] * 3)\n"
                     "        emplace.place(emplace.Simulator(chain, cluster), agent, **own)\n"
                     "emplace.place(simulator, 'sgdp', evaluations=2)\n"
                     "print(libtorches())")
        self.assertEqual(out, "hierarchical coloc_rl sgdp []\n")
        self.assertTrue(_core.needs_libtorch({"agent": "placeto", "settings": {"autograd": "true"}}))
        self.assertTrue(_core.needs_libtorch({"agent": "placeto", "torch_device": "cuda"}))

    def test_finds_what_a_search_in_one_process_finds(self):
        for agent in AGENTS:
            alone = output("import numpy as np\nfrom emplace import _core\n"
                           f"columns = _core.place(simulator._simulator, {{'agent': '{agent}', 'evaluations': 12, 'seed': 3}},"
                           " None, None, '', '')\ncolumns.pop('found')\n"
                           "columns['peak_bytes'] = np.array(columns['peak_bytes'])\n"
                           f"found = emplace.SearchResult(agent='{agent}', seed=3, **columns)\n" + SHOWN)
            apart = output(f"found = emplace.place(simulator, '{agent}', evaluations=12, seed=3)\n" + SHOWN)
            self.assertEqual(alone.rsplit("] [", 1)[0], apart.rsplit("] [", 1)[0], agent)
            self.assertIn("libtorch_cpu", alone)
            self.assertTrue(apart.endswith("] []\n"), apart)

    def test_finds_what_the_program_finds_with_a_start_groups_and_a_policy(self):
        graph = random_graph(30)
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=2))
        with tempfile.TemporaryDirectory() as folder:
            graph.save(f"{folder}/graph.json")
            status, _, err = run_program("place", "--graph", "graph.json", "--cluster", "dgx-a100", "--gpus", "2",
                                         "--agent", "sgdp", "--evaluations", "20", "--seed", "5", "-o", "p.json",
                                         "--policy-out", "policy.bin", cwd=folder)
            self.assertEqual(status, 0, err)
            found = emplace.place(simulator, "sgdp", evaluations=20, seed=5)
            self.assertEqual(simulator.load_placement(f"{folder}/p.json").tolist(), found.placement.tolist())
            with open(f"{folder}/policy.bin", "rb") as file:
                self.assertIn(found.policy, file.read())
            grouping = emplace.Grouping.from_labels(graph, np.arange(30) // 3)
            applied = emplace.place(simulator, "sgdp", grouping=grouping, start=np.zeros(30, np.int16), evaluations=20,
                                    policy=f"{folder}/policy.bin")
            self.assertEqual(applied.num_groups, 10)

    def test_errors_are_the_same(self):
        simulator = emplace.Simulator(fork(), small_cluster())
        self.assert_refused("settings: sgdp.x: unknown option", emplace.place, simulator, "sgdp", {"x": 1})
        self.assert_refused("nowhere.bin: ", emplace.place, simulator, "sgdp", policy="nowhere.bin")
        with self.assertRaises(emplace.InputError):
            emplace.place(simulator, "sgdp", grouping=emplace.Grouping(random_graph(9)))

    def test_ctrl_c_saves_the_checkpoint_and_the_process_ends_with_ours(self):
        search = ("print('begins', flush=True)\n"
                  "emplace.place(simulator, 'sgdp', evaluations=10**6, checkpoint=sys.argv[1])")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "search.bin")
            for sent, text in ((signal.SIGINT, "KeyboardInterrupt"), (signal.SIGKILL, "")):
                process = python(search.replace("sys.argv[1]", repr(path)))
                self.assertEqual(process.stdout.readline(), "begins\n")
                child = self.child_with_libtorch(process.pid)
                process.send_signal(sent)
                _, err = process.communicate(timeout=60)  # its end of the pipes is the child's, too
                self.assertTrue(err.rstrip().endswith(text), err)
                self.assertFalse(os.path.exists(f"/proc/{child}/exe"))
            self.assertTrue(os.path.exists(path))
            simulator = emplace.Simulator(fork(), small_cluster())
            self.assert_refused("belongs to another search", emplace.place, simulator, "sgdp", evaluations=7,
                                checkpoint=path)

    def test_a_process_that_is_killed_is_one_line(self):
        process = python("try: emplace.place(simulator, 'sgdp', evaluations=10**6)\n"
                         "except emplace.InputError as error: print(error)")
        os.kill(self.child_with_libtorch(process.pid), signal.SIGKILL)
        self.assertEqual(process.communicate(timeout=60)[0], "sgdp: its process was ended by signal 9 (Killed)\n")

    def child_with_libtorch(self, parent):
        for _ in range(600):
            with open(f"/proc/{parent}/task/{parent}/children", encoding="utf-8") as children:
                for child in children.read().split():
                    with open(f"/proc/{child}/maps", encoding="utf-8") as maps:
                        if "libtorch_cpu" in maps.read():
                            return int(child)
            time.sleep(0.05)
        self.fail("no child has loaded LibTorch")


class PickleTest(Case):
    """What the other process gets."""

    def check(self, simulator):
        core = simulator._simulator
        copy = pickle.loads(pickle.dumps(core))
        self.assertEqual(pickle.dumps(copy), pickle.dumps(core))
        with tempfile.TemporaryDirectory() as folder:  # a checkpoint belongs to exactly one problem
            choice = {"agent": "random_walk", "evaluations": 20}
            found = [_core.place(one, choice, None, None, f"{folder}/search.bin", "") for one in (core, copy)]
            self.assertEqual(found[0]["placement"].tolist(), found[1]["placement"].tolist())
            self.assertEqual(found[0]["step_ns"], copy.evaluate(found[1]["placement"])[0][0])

    def test_simulators(self):
        graph = emplace.generate("gpt", layers=1, batch=1)
        for cluster in (emplace.Cluster("p2.8xlarge", gpus=2), emplace.Cluster("dgx-h100", gpus=2),
                        emplace.Cluster("p2.8xlarge", devices=["gpu:0", "cpu:0"]), small_cluster()):
            graphs = [graph, random_graph(50)] if cluster.name != "pair" else [random_graph(50)]
            for one in graphs:
                self.check(emplace.Simulator(one, cluster))
        self.check(emplace.Simulator(graph, emplace.Cluster("dgx-h100", gpus=4), engine="flow", collectives="ring"))
        self.check(emplace.Simulator(emplace.transform(graph, data_parallel=2), emplace.Cluster("dgx-h100", gpus=2)))

    def test_issue_lanes_and_measured_times(self):
        lane = emplace.Cluster.from_yaml(small_cluster().to_yaml().replace(
            "kind: a", "kind: a, issue: {lane: host, host_us: 3.25, launch_latency_us: 2}"), "lanes.yaml")
        self.check(emplace.Simulator(random_graph(40), lane))
        folder = os.path.join(ROOT, "experiments/hardware/two-cores")
        cluster = emplace.Cluster(f"{folder}/cluster.yaml")
        graph = emplace.generate("rnnlm", layers=2, hidden=256, steps=16, batch=32, vocabulary=4000)
        self.check(emplace.Simulator(graph, cluster, emplace.Costs(graph, cluster, profile=f"{folder}/profile.json.gz")))


class PyTorchTest(Case):
    """A Python with PyTorch and NumPy 2: one LibTorch is loaded there, in either order."""

    @classmethod
    def setUpClass(cls):
        made = subprocess.run([os.path.join(ROOT, "tools/python_environment"), "torch"], capture_output=True, text=True,
                              check=False)
        if made.returncode == 77:
            raise cls.skipTest(cls, made.stderr)
        cls.python = made.stdout.strip()

    def test_arrays_are_those_of_numpy_2(self):
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([self.python, "-m", "unittest", "test_simulator", "test_env"], cwd=here,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_either_order(self):
        search = "found = emplace.place(simulator, 'hierarchical', evaluations=12)\n"
        wanted = output(search + SHOWN)
        use = "x = torch.ones(3, requires_grad=True); (x * x).sum().backward(); assert x.grad.tolist() == [2, 2, 2]\n"
        for script in ("import torch\n" + use + search + use, search + "import torch\n" + use + search + use):
            out = output(script + SHOWN, self.python)
            self.assertEqual(out.rsplit("] [", 1)[0], wanted.rsplit("] [", 1)[0])
            loaded = out.rsplit("] [", 1)[1]
            self.assertEqual(loaded.count("libtorch_cpu"), 1, loaded)
            self.assertIn("site-packages/torch/lib", loaded)
