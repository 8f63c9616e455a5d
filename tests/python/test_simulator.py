"""Graphs, clusters, costs and the evaluation of placements."""

import gc
import json
import multiprocessing
import os
import pickle
import tempfile
import threading

import networkx
import numpy as np

import emplace
from testing import Case, chain, fork, random_graph, run_program, small_cluster


class GraphTest(Case):
    def test_arrays_are_views_that_keep_the_graph_alive(self):
        graph = emplace.Graph.from_arrays([[0, 0], [1, 2]], [10, 20, 30], [1, 2, 3], flop=[5, 6, 7],
                                          persistent_bytes=[1, 2, 3], temp_bytes=[4, 5, 6])
        flop, tensor_bytes = graph.flop, graph.tensor_bytes
        self.assertEqual(flop.__array_interface__["data"], graph.flop.__array_interface__["data"])
        self.assertFalse(flop.flags.writeable)
        self.assertFalse(flop.flags.owndata)
        starts, consumers = graph.consumers
        names = graph.op_names
        persistent, temp = graph.persistent_bytes, graph.temp_bytes
        del graph
        gc.collect()
        self.assertEqual(names, ["op0", "op1", "op2"])
        self.assertEqual(flop.tolist(), [5, 6, 7])
        self.assertEqual(tensor_bytes.tolist(), [10, 20, 30])
        self.assertEqual(starts.tolist(), [0, 2, 2, 2])
        self.assertEqual(consumers.tolist(), [1, 2])
        self.assertEqual(persistent.tolist(), [1, 2, 3])
        self.assertEqual(temp.tolist(), [4, 5, 6])

    def test_rows_may_be_in_any_order(self):
        graph = emplace.Graph.from_arrays([[2, 1], [1, 0]], [1, 2, 3], [1, 1, 1], names=["c", "b", "a"])
        self.assertEqual(graph.op_names, ["a", "b", "c"])
        self.assertEqual(graph.file_order.tolist(), [2, 1, 0])
        self.assertEqual(graph.edge_index.tolist(), [[0, 1], [1, 2]])
        self.assertEqual(graph.find_op("c"), 2)
        self.assertEqual(graph.tensor_producers.tolist(), [0, 1, 2])
        with self.assertRaises(KeyError):
            graph.find_op("d")

    def test_refuses_wrong_arrays(self):
        make = emplace.Graph.from_arrays
        self.assert_refused("edges[1, 0]: is 3 (0 to 1)", make, [[0], [3]], [1, 1])
        self.assert_refused("edges: has another shape ((2, edges))", make, [0, 1], [1, 1])
        self.assert_refused("time_us: has another shape ((2,), a number for each op)", make, [[], []], [1, 1], [1.0])
        self.assert_refused("names: has 1 texts", make, [[], []], [1, 1], names=["a"])
        self.assert_refused("output_bytes: is an array of float64 (of integers)", make, [[], []], [1.5, 1])
        self.assert_refused("cycle", make, [[0, 1], [1, 0]], [1, 1])

    def test_json_goes_there_and_back(self):
        graph = fork()
        again = emplace.Graph.from_json(graph.to_json())
        self.assertEqual(again.to_json(), graph.to_json())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.json.gz")
            graph.save(path)
            self.assertEqual(emplace.Graph.from_file(path).to_json(), graph.to_json())

    def test_networkx(self):
        network = networkx.MultiDiGraph(name="net")
        network.add_node("w", kind="variable", persistent_bytes=8)
        network.add_node("a", time_us=3.0, flop=np.float64(7))
        network.add_node("b", time_us={"a": 1.0, "b": 2.0}, colocate_with="w")
        network.add_edge("w", "a", bytes=8)
        network.add_edge("a", "b", bytes=16)
        network.add_edge("a", "b", bytes=32, tensor=1)
        network.add_edge("w", "b")
        graph = emplace.Graph.from_networkx(network)
        ops = {op["name"]: op for op in json.loads(graph.to_json())["ops"]}
        self.assertEqual(ops["b"]["inputs"], ["a:0", "a:1"])
        self.assertEqual(ops["b"]["control_inputs"], ["w"])
        self.assertEqual([out["bytes"] if isinstance(out, dict) else out for out in ops["a"]["outputs"]], [16, 32])
        self.assertEqual(graph.name, "net")
        self.assertEqual(graph.flop[graph.find_op("a")], 7)
        network.add_edge("w", "b", bytes=9)
        self.assert_refused("edge w -> b: has 9 bytes", emplace.Graph.from_networkx, network)
        network.nodes["a"]["colour"] = 1
        network.remove_edge("w", "b", key=1)
        self.assert_refused("node a: has the attribute 'colour'", emplace.Graph.from_networkx, network)


class EvaluateTest(Case):
    def setUp(self):
        self.simulator = emplace.Simulator(chain(), small_cluster())

    def test_times_by_hand(self):
        steps, peaks = self.simulator.evaluate([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]])
        self.assertEqual(steps.tolist(), [40_000, 41_000, 43_000])  # 10 us an op, 1 us a transfer
        self.assertEqual(steps.dtype, np.int64)
        self.assertEqual(peaks.shape, (3, 2))
        self.assertEqual(peaks[0, 1], 0)
        self.assertTrue(self.simulator.fits(peaks).all())

    def test_one_placement_and_no_peaks(self):
        steps, peaks = self.simulator.evaluate(np.array([0, 0, 1, 1], np.int16), peak_memory=False)
        self.assertEqual(steps.tolist(), [41_000])
        self.assertIsNone(peaks)

    def test_memory_limits(self):
        graph = emplace.Graph.from_arrays([[0], [1]], [1, 1], [1.0, 1.0], persistent_bytes=[2**30, 2])
        simulator = emplace.Simulator(graph, small_cluster())
        _, peaks = simulator.evaluate([[0, 0], [0, 1], [1, 1]])
        self.assertEqual(simulator.fits(peaks).tolist(), [False, False, True])
        self.assertEqual(simulator.cluster.memory_bytes.tolist(), [2**30, -1])

    def test_any_number_of_threads_gives_the_same_bytes(self):
        graph = random_graph(500)
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=4))
        rng = np.random.default_rng(3)
        placements = rng.integers(0, simulator.cluster.num_devices, (200, graph.num_ops)).astype(np.int16)
        steps, peaks = simulator.evaluate(placements, threads=1)
        for threads in (2, 3, 7):
            again = simulator.evaluate(placements, threads=threads)
            self.assertEqual(again[0].tobytes(), steps.tobytes())
            self.assertEqual(again[1].tobytes(), peaks.tobytes())
        self.assertGreater(len(set(steps.tolist())), 190)

    def test_agrees_with_the_program(self):
        graph = random_graph(60)
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=2))
        placement = np.random.default_rng(1).integers(1, 3, graph.num_ops).astype(np.int16)
        with tempfile.TemporaryDirectory() as folder:
            graph.save(f"{folder}/graph.json")
            simulator.save_placement(placement, f"{folder}/placement.json")
            status, out, _ = run_program("simulate", "--graph", "graph.json", "--cluster", "dgx-a100", "--gpus", "2",
                                         "--placement", "placement.json", "--json", cwd=folder)
            self.assertEqual(status, 0)
            self.assertEqual(json.loads(out), simulator.report(placement))
            self.assertEqual(simulator.load_placement(f"{folder}/placement.json").tolist(), placement.tolist())
        steps, peaks = simulator.evaluate(placement)
        report = simulator.report(placement)
        self.assertEqual(steps[0], round(report["step_time_us"] * 1000))
        self.assertEqual(peaks[0].tolist(), [row["peak_bytes"] for row in report["devices"]])

    def test_arrays_of_the_caller(self):
        steps, peaks = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
        placements = np.array([[0, 0, 0, 0], [0, 0, 1, 1]], np.int16)
        returned = self.simulator.evaluate(placements, out=(steps, peaks))
        self.assertIs(returned[0], steps)
        self.assertIs(returned[1], peaks)
        self.assertEqual(steps.tolist(), [40_000, 41_000])
        self.assert_refused("out[0]: is another array (a writable C-contiguous array of int64 and shape (2,))",
                            self.simulator.evaluate, placements, out=(np.zeros(3, np.int64), peaks))
        self.assert_refused("out[1]", self.simulator.evaluate, placements, out=(steps, np.zeros((2, 2))))
        self.assert_refused("out[0]: is not an array", self.simulator.evaluate, placements, out=([0, 0], peaks))
        steps.flags.writeable = False
        self.assert_refused("out[0]", self.simulator.evaluate, placements, out=(steps, peaks))

    def test_groups(self):
        graph = fork()
        simulator = emplace.Simulator(graph, small_cluster())
        grouping = emplace.Grouping.from_labels(graph, np.array([0, 1, 1, 1, 2, 2, 2, 0]))
        self.assertEqual(grouping.num_groups, 3)
        groups = np.array([[0, 0, 1], [1, 0, 1]], np.int16)
        steps, _ = simulator.evaluate(groups, grouping=grouping)
        self.assertEqual(steps.tolist(), simulator.evaluate(grouping.expand(groups))[0].tolist())
        self.assert_refused("a device for each of 3 groups", simulator.evaluate, [[0, 0]], grouping=grouping)
        with tempfile.TemporaryDirectory() as folder:
            grouping.save(f"{folder}/groups.json")
            again = emplace.Grouping.from_file(graph, f"{folder}/groups.json")
        self.assertEqual(again.group_of_op.tolist(), grouping.group_of_op.tolist())
        self.assertEqual(emplace.Grouping(graph, "merge_and_colocate", groups=2).num_groups, 2)

    def test_refuses_wrong_placements(self):
        evaluate = self.simulator.evaluate
        self.assert_refused("placements[1, 2]: is 2 (0 to 1)", evaluate, [[0, 0, 0, 0], [0, 0, 2, 0]])
        self.assert_refused("placements[0, 0]: is -1 (0 to 1)", evaluate, [[-1, 0, 0, 0]])
        self.assert_refused("has shape (1, 3)", evaluate, [[0, 0, 0]])
        self.assert_refused("is an array of float64", evaluate, [[0.0, 0, 0, 0]])
        self.assert_refused("placements: has 40000", evaluate, [[40000, 0, 0, 0]])
        graph = emplace.Graph.from_json(json.dumps(
            {"schema": "emplace.graph", "version": 1, "name": "g",
             "ops": [{"name": "x", "kind": "op", "time_us": {"a": 1.0}},
                     {"name": "y", "kind": "op", "time_us": 1.0, "colocate_with": "z"},
                     {"name": "z", "kind": "op", "time_us": 1.0}]}))
        simulator = emplace.Simulator(graph, small_cluster())
        self.assert_refused('placements[1]: devices["x"]: the op has no time on device "gpu:1"', simulator.evaluate,
                            [[0, 0, 0], [1, 0, 0]])
        self.assert_refused('placements[0]: devices["z"]: the op is on', simulator.evaluate, [[0, 0, 1]])

    def test_the_first_bad_row_is_named(self):
        placements = np.zeros((100, 4), np.int16)
        placements[17, 1] = placements[60, 0] = 5
        for threads in (1, 4):
            self.assert_refused("placements[17, 1]", self.simulator.evaluate, placements, threads=threads)

    def test_timelines(self):
        timeline = self.simulator.timeline([0, 0, 1, 1])
        self.assertEqual(timeline.ops["start_us"].tolist(), [0, 10, 21, 31])
        self.assertEqual(timeline.ops["end_us"].tolist(), [10, 20, 31, 41])
        self.assertEqual(timeline.ops["op"].tolist(), [0, 1, 2, 3])
        self.assertEqual(timeline.transfers["source"].tolist(), [0])
        self.assertEqual(timeline.transfers["target"].tolist(), [1])
        self.assertEqual(timeline.transfers["arrival_us"].tolist(), [21])
        _, peaks = self.simulator.evaluate([0, 0, 1, 1])
        for device in (0, 1):
            used = timeline.memory["in_use_bytes"][timeline.memory["device"] == device]
            self.assertEqual(used.max(), peaks[0, device])
        with tempfile.TemporaryDirectory() as folder:
            self.simulator.save_timeline([0, 0, 1, 1], f"{folder}/t.svg")
            self.simulator.save_timeline([0, 0, 1, 1], f"{folder}/t.json")
            with open(f"{folder}/t.svg", encoding="utf-8") as file:
                self.assertIn("<svg", file.read())
            with open(f"{folder}/t.json", encoding="utf-8") as file:
                self.assertTrue(json.load(file))

    def test_the_interpreter_is_free_meanwhile(self):
        graph = random_graph(3000)
        simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=2))
        placements = np.ones((400, graph.num_ops), np.int16)
        finished = threading.Event()
        results = []

        def evaluate():
            results.append(simulator.evaluate(placements)[0])
            finished.set()

        worker = threading.Thread(target=evaluate)
        worker.start()
        turns = 0
        while not finished.is_set():
            turns += 1
        worker.join()
        self.assertGreater(turns, 100)
        self.assertEqual(len(results[0]), 400)

    def test_several_threads_of_python_at_once(self):
        placements = np.array([[0, 0, 0, 0], [0, 0, 1, 1]] * 50, np.int16)
        results = [None] * 4

        def evaluate(i):
            results[i] = self.simulator.evaluate(placements, threads=2)[0].tolist()

        workers = [threading.Thread(target=evaluate, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(results, [[40_000, 41_000] * 50] * 4)

    def test_after_a_fork(self):
        placements = np.zeros((50, 4), np.int16)
        self.simulator.evaluate(placements, threads=3)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            sums = pool.map(self.sum_of_steps, [placements] * 4)
        self.assertEqual(sums, [50 * 40_000] * 4)

    def sum_of_steps(self, placements):
        return int(self.simulator.evaluate(placements, threads=3)[0].sum())

    def __getstate__(self):  # a pool of processes sends the method by name; the simulator is there after the fork
        return {}

    def __setstate__(self, state):
        self.simulator = emplace.Simulator(chain(), small_cluster())


class ErrorTest(Case):
    """Errors have the text of the command line's."""

    def assert_same_error(self, function, *arguments, cwd):
        status, _, err = run_program(*arguments, cwd=cwd)
        self.assertEqual(status, 2)
        here = os.getcwd()
        os.chdir(cwd)
        try:
            with self.assertRaises(emplace.InputError) as caught:
                function()
        finally:
            os.chdir(here)
        # The command line alone adds dashes.
        self.assertEqual(err.strip().removeprefix("emplace: ").removeprefix("--"),
                         str(caught.exception).replace("settings:", "set:"))

    def test_same_text(self):
        with tempfile.TemporaryDirectory() as folder:
            chain().save(f"{folder}/graph.json")
            with open(f"{folder}/bad.json", "w", encoding="utf-8") as file:
                file.write('{"schema": "emplace.graph", "version": 1, "name": "g", "ops": [{"name": "a"}]}')
            inspect = ["inspect", "--cluster", "dgx-a100"]
            self.assert_same_error(lambda: emplace.Graph.from_file("bad.json"), *inspect, "bad.json", cwd=folder)
            self.assert_same_error(lambda: emplace.Graph.from_file("none.json"), *inspect, "none.json", cwd=folder)
            self.assert_same_error(lambda: emplace.Cluster("none"), "inspect", "graph.json", "--cluster",
                                   "none", cwd=folder)
            self.assert_same_error(lambda: emplace.Cluster("dgx-a100", gpus=99), *inspect, "--gpus", "99", "graph.json",
                                   cwd=folder)
            place = ["place", "--graph", "graph.json", "--cluster", "dgx-a100", "-o", "out.json"]
            self.assert_same_error(lambda: emplace.Cluster("p2.8xlarge", nodes=2), "inspect", "graph.json",
                                   "--cluster", "p2.8xlarge", "--nodes", "2", cwd=folder)
            self.assertEqual(len(emplace.Cluster("dgx-a100", nodes=2, gpus=12).device_names), 14)
            cluster = emplace.Cluster("dgx-a100")
            self.assert_same_error(lambda: emplace.Costs(emplace.Graph.from_file("graph.json"), cluster, "roofline"),
                                   *place, "--costs", "roofline", cwd=folder)
            self.assert_same_error(lambda: emplace.Costs(emplace.Graph.from_file("graph.json"), cluster, "guess"),
                                   *place, "--costs", "guess", cwd=folder)

            def simulator(**options):
                return emplace.Simulator(emplace.Graph.from_file("graph.json"), cluster, **options)
            self.assert_same_error(lambda: simulator(engine="x"), *place, "--engine", "x", cwd=folder)
            self.assert_same_error(lambda: emplace.place(simulator(), "nobody"), *place, "--agent", "nobody", cwd=folder)
            self.assert_same_error(lambda: emplace.place(simulator(), "annealing", {"x": 1}), *place, "--agent",
                                   "annealing", "--set", "x=1", cwd=folder)
            self.assert_same_error(lambda: emplace.place(simulator(), reward="x"), *place, "--reward", "x", cwd=folder)
            self.assert_same_error(lambda: emplace.generate("x"), "generate", "x", "-o", "x.json", cwd=folder)
            self.assert_same_error(lambda: emplace.library("tiny-x"), "library", "show", "tiny-x", cwd=folder)
            self.assertFalse(os.path.exists(f"{folder}/out.json"))

    def test_an_input_error_is_a_value_error(self):
        self.assertTrue(issubclass(emplace.InputError, ValueError))
        self.assertEqual(emplace.InputError.__module__, "emplace")


class ClusterTest(Case):
    def test_properties(self):
        cluster = emplace.Cluster("p2.8xlarge", gpus=2)
        self.assertEqual(cluster.device_names, ["cpu:0", "gpu:0", "gpu:1"])
        self.assertEqual(cluster.is_cpu.tolist(), [True, False, False])
        self.assertEqual(cluster.bandwidth_gb_per_s.shape, (3, 3))
        self.assertEqual(cluster.bandwidth_gb_per_s[0, 0], 0)
        self.assertGreater(cluster.bandwidth_gb_per_s[1, 2], 0)
        self.assertEqual(cluster.latency_us.shape, (3, 3))
        self.assertEqual(cluster.keep(devices=["gpu:1"]).device_kinds, ["k80"])
        self.assertEqual(cluster.keep(unlimited_memory=True).memory_bytes.tolist(), [-1, -1, -1])
        self.assertEqual(emplace.Cluster.from_yaml(cluster.to_yaml()).to_yaml(), cluster.to_yaml())
        with tempfile.TemporaryDirectory() as folder:
            cluster.save(f"{folder}/c.yaml")
            self.assertEqual(emplace.Cluster(f"{folder}/c.yaml").to_yaml(), cluster.to_yaml())

    def test_curves(self):
        graph = emplace.transform(emplace.generate("gpt", layers=1, precision="bf16"), data_parallel=2)
        cluster = emplace.Cluster("dgx-h100", gpus=2)
        default, roofline = (emplace.Simulator(graph, cluster, costs) for costs in ("", "roofline"))
        self.assertEqual(default.costs.text, "curves")
        self.assertRegex(default.costs.detail, r"\d+ product.*; by roofline \d+.*; [1-9]\d* of \d+ collectives")
        self.assertEqual(emplace.Costs(graph, emplace.Cluster("p2.8xlarge", gpus=2)).text, "roofline")
        slow = emplace.Costs(graph, cluster, runtime="tensorflow")
        self.assertEqual(slow.text, "curves, runtime tensorflow")
        self.assertGreater(slow.time_us.sum(), default.costs.time_us.sum())
        placement = emplace.place(default, "expert").placement
        report = default.report(placement)
        self.assertEqual((report["costs"], report["costs_detail"]), ("curves", default.costs.detail))
        self.assertNotEqual(report["step_time_us"], roofline.report(placement)["step_time_us"])
        # The times of collectives come along into another process.
        again = pickle.loads(pickle.dumps(default._simulator))
        self.assertEqual(json.loads(again.report_text(placement, "", 1)), report)

    def test_costs(self):
        costs = emplace.Costs(chain(), small_cluster())
        self.assertEqual(costs.time_us.tolist(), [[10, 10]] * 4)
        self.assertEqual((costs.text, costs.fallback_ops), ("measured", 0))
        self.assertEqual(costs.detail, "")
        other = emplace.Costs(fork(), small_cluster())
        self.assert_refused("costs: are of another graph", emplace.Simulator, chain(), small_cluster(), other)
