"""Searches, networks, families, importers and the library."""

import json
import os
import signal
import subprocess
import sys
import tempfile

import numpy as np

import emplace
from testing import Case, chain, fork, random_graph, run_program, small_cluster


class PlaceTest(Case):
    def test_finds_what_the_program_finds(self):
        graph = random_graph(80)
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=4))
        found = emplace.place(simulator, "annealing", {"final_ratio": 0.01}, evaluations=300, seed=5)
        with tempfile.TemporaryDirectory() as folder:
            graph.save(f"{folder}/graph.json")
            status, _, _ = run_program("place", "--graph", "graph.json", "--cluster", "dgx-a100", "--gpus", "4",
                                       "--agent", "annealing", "--set", "final_ratio=0.01", "--evaluations", "300",
                                       "--seed", "5", "-o", "p.json", cwd=folder)
            self.assertEqual(status, 0)
            self.assertEqual(simulator.load_placement(f"{folder}/p.json").tolist(), found.placement.tolist())
        steps, peaks = simulator.evaluate(found.placement)
        self.assertEqual(found.step_ns, steps[0])
        self.assertEqual(found.peak_bytes.tolist(), peaks[0].tolist())
        self.assertEqual(found.evaluations, 300)
        self.assertEqual(found.trace[-1], (300, found.step_ns / 1000))
        self.assertLess(found.step_ns / 1000, found.single_device_us)

    def test_result_does_not_depend_on_threads(self):
        simulator = emplace.Simulator(random_graph(60), emplace.Cluster("dgx-a100", gpus=2))
        one, three = (emplace.place(simulator, evaluations=200, threads=threads) for threads in (1, 3))
        self.assertEqual(one.placement.tobytes(), three.placement.tobytes())

    def test_options(self):
        graph = fork()
        simulator = emplace.Simulator(graph, small_cluster())
        grouping = emplace.Grouping.from_labels(graph, [0, 1, 1, 1, 2, 2, 2, 0])
        found = emplace.place(simulator, "local_search", grouping=grouping, start=np.zeros(8, np.int16), evaluations=50)
        self.assertEqual(found.num_groups, 3)
        self.assertEqual(emplace.place(simulator, "local_search", grouping="identity", evaluations=9).num_groups, 8)
        self.assert_refused("start: has another shape", emplace.place, simulator, start=[0])
        self.assert_refused("does not search", emplace.place, simulator, "metis", start=np.zeros(8, np.int16))
        throughput = emplace.place(simulator, "dp_contiguous", objective="throughput")
        self.assertIsNotNone(throughput.placement)

    def test_whole_modules_beside_single_ops(self):
        graph = emplace.Graph.from_json(
            '{"schema": "emplace.graph", "version": 1, "name": "modules", "ops": ['
            '{"name": "a", "kind": "test", "outputs": [10], "time_us": 4, "layer": "m"},'
            '{"name": "b", "kind": "test", "outputs": [10], "time_us": 4, "layer": "m"}]}')
        simulator = emplace.Simulator(graph, small_cluster())
        found = emplace.place(simulator, grouping="modules", evaluations=20)
        self.assertEqual((found.step_ns, found.single_ops_us), (8000, 4))
        self.assertIsNone(emplace.place(simulator, grouping="ops", evaluations=20).single_ops_us)
        self.assertIsNone(emplace.place(simulator, "heft", grouping="modules").single_ops_us)

    def test_nothing_fits(self):
        graph = emplace.Graph.from_arrays([[], []], [1], [1.0], persistent_bytes=[2**31])
        cluster = small_cluster().keep(devices=["gpu:0"])
        found = emplace.place(emplace.Simulator(graph, cluster), "single_device")
        self.assertIsNone(found.placement)
        self.assertIsNone(found.step_ns)
        self.assertGreater(found.overflow_bytes, 2**30 - 1)

    def test_checkpoints(self):
        simulator = emplace.Simulator(random_graph(40), emplace.Cluster("dgx-a100", gpus=2))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "search.bin")
            first = emplace.place(simulator, "annealing", evaluations=100, checkpoint=path)
            self.assertTrue(os.path.exists(path))
            again = emplace.place(simulator, "annealing", evaluations=100, checkpoint=path)
            self.assertEqual(first.placement.tobytes(), again.placement.tobytes())
            self.assert_refused("belongs to another search", emplace.place, simulator, "annealing", evaluations=101,
                                checkpoint=path)

    def test_learning_agents(self):
        simulator = emplace.Simulator(fork(), small_cluster())
        found = emplace.place(simulator, "placeto", evaluations=60, grouping="identity")
        self.assertTrue(found.episodes)
        self.assertTrue(found.policy)

    def test_interrupts(self):
        search = ("import emplace; from testing import *; s = emplace.Simulator(fork(), small_cluster()); "
                  "print('begins', flush=True); emplace.place(s, 'annealing', evaluations=10**9)")
        process = subprocess.Popen([sys.executable, "-c", search], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual(process.stdout.readline(), "begins\n")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", err)
        self.assertNotEqual(process.returncode, 0)

    def test_compare(self):
        simulator = emplace.Simulator(fork(), small_cluster())
        results = emplace.compare(simulator, ["single_device", "metis", "annealing"], evaluations=40)
        self.assertEqual([result.agent for result in results], ["single_device", "metis", "annealing"])
        self.assertEqual([result.evaluations for result in results], [1, 1, 40])
        self.assertLessEqual(results[2].step_ns, results[0].step_ns)


class DatasetTest(Case):
    def test_generate(self):
        graph = emplace.generate("rnnlm", layers=1, steps=4)
        with tempfile.TemporaryDirectory() as folder:
            run_program("generate", "rnnlm", "--set", "layers=1", "steps=4", "-o", f"{folder}/g.json")
            self.assertEqual(emplace.Graph.from_file(f"{folder}/g.json").to_json(), graph.to_json())
        self.assert_refused("rnnlm", emplace.generate, "rnnlm", layers="x")

    def test_family(self):
        members = emplace.family("cifar10", seed=2)
        self.assertEqual(len(members), 32)
        self.assertEqual(sum(member.training for member in members), 16)
        self.assertGreater(members[0].num_groups, 1)
        self.assertIn("batch", members[0].drawn)

    def test_import(self):
        with tempfile.TemporaryDirectory() as folder:
            chain().save(f"{folder}/g.json")
            imported = emplace.import_files(f"{folder}/g.json")
            self.assertEqual(imported.format, "emplace")
            self.assertEqual(imported.graph.to_json(), chain().to_json())
            self.assertIsNone(imported.cluster)
            with open(f"{folder}/x", "w", encoding="utf-8") as file:
                file.write("what is this?")
            self.assert_refused(f"{folder}/x", emplace.import_files, f"{folder}/x")

    def test_import_of_one_step(self):
        events = []
        for step, start in ((1, 1000), (2, 3000)):
            for name, category, begin, micros, thread, args in (
                    (f"ProfilerStep#{step}", "user_annotation", 0, 900 * step, 1, {}),
                    ("cudaLaunchKernel", "cuda_runtime", 0, 5, 1, {"correlation": step}),
                    ("gemm", "kernel", 5, 900 * step - 5, 7, {"correlation": step, "device": 0, "stream": 7})):
                events.append({"ph": "X", "name": name, "cat": category, "pid": 1, "tid": thread, "ts": start + begin,
                               "dur": micros, "args": args})
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/trace.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file)
            for step, micros in (("1", 900), ("2", 1800)):
                imported = emplace.import_files(path, step=step)
                self.assertAlmostEqual(imported.measured_step_us, micros)
                self.assertAlmostEqual(imported.unexplained_percent, 0, delta=1)
            self.assert_refused(f"{path}: ", emplace.import_files, path, step="3")
            self.assert_refused(f"{path}: ", emplace.import_files, path, step="third")

    def test_transform(self):
        graph = emplace.generate("gpt", layers=1, batch=1)
        two = emplace.transform(graph, data_parallel=2)
        self.assertGreater(two.num_ops, 2 * graph.num_ops)
        self.assert_refused("is one of several ranks already", emplace.transform, two, data_parallel=2)

    def test_library(self):
        instances = emplace.library()
        self.assertGreater(len(instances), 200)
        instance = next(row for row in instances if row.tier == "tiny" and row.best_known_ns)
        self.assertEqual(emplace.library(instance.name), instance)
        simulator = instance.load()
        self.assertEqual(simulator.graph.num_ops, instance.ops)
        found = emplace.place(simulator, evaluations=500)
        self.assertGreaterEqual(found.step_ns, instance.best_known_ns)
        self.assertGreaterEqual(instance.best_known_ns, instance.lower_bound_ns)

    def test_names(self):
        self.assertIn("multilevel_search", emplace.names("agents"))
        for topic in ("models", "datasets", "clusters", "engines", "rewards", "groupers", "cost-models", "importers"):
            _, out, _ = run_program("list", topic, "--json")
            self.assertEqual(list(emplace.names(topic)), [row["name"] for row in json.loads(out)])
        self.assert_refused("topic: is", emplace.names, "colours")
