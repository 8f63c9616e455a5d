"""Every argument of every public function: a value of the wrong type is an InputError which begins with the
name of the argument."""

import inspect
import os
import tempfile

import numpy as np

import emplace
import emplace.env
from testing import Case, fork, small_cluster

NAN = float("nan")
# What no argument of these kinds takes, by the type in the signature.
BAD = {
    "int": [0.5, 2.0, NAN, "1", b"1", True, -1, 10**30, [1], np.array([1, 2, 3])],
    "float": [NAN, float("inf"), -float("inf"), -1, -0.5, 10**400, "1", b"", True, [1.0]],
    "bool": [1, 0, "yes", b"", 0.5, [True]],
    "str": [b"x", 1, 0.5, "a\0b", "\ud800", ["x"]],
    "str | os.PathLike[str]": [b"x", 1, 0.5, "a\0b", ["x"]],
    "Sequence[str]": ["x", b"x", 1, [b"x"], [1], ["a\0b"], [None]],
    "npt.ArrayLike": [["x"], b"x", [NAN], [float("inf")], [None], [[1, 2], [3]], [2**70], [1j], [True, False], object()],
    "Mapping[str, Any]": [1, "x", [1], {1: 2}, {"a": NAN}, {"a": None}, {"a": b"x"}, {"a\0": 1}],
    "Graph": [1, "x"], "Cluster": [1, "x"], "Simulator": [1, "x"], "Grouping": [1, "x"],
}
# Where 0 means nothing.
FROM_ONE = {"evaluations", "groups", "micro_batches", "num_envs", "nodes", "data_parallel", "tensor_parallel",
            "expert_parallel"}
INTEGERS = {"edges", "output_bytes", "temp_bytes", "persistent_bytes", "labels", "placements", "placement", "start",
            "actions", "peak_bytes"}


class ArgumentsTest(Case):
    def setUp(self):
        self.graph = fork()
        self.cluster = small_cluster()
        self.simulator = emplace.Simulator(self.graph, self.cluster)
        self.grouping = emplace.Grouping(self.graph, "identity")
        self.env = emplace.env.PlacementEnv(self.simulator, self.grouping)
        self.vector = emplace.env.VectorEnv(self.simulator, self.grouping, num_envs=2)
        self.env.reset(seed=1)
        self.vector.reset(seed=1)

    def calls(self, folder):
        """Each public function with arguments that it takes."""
        graph, cluster, simulator, grouping = self.graph, self.cluster, self.simulator, self.grouping
        ops, file = np.zeros(8, np.int16), os.path.join(folder, "file")
        costs = {"graph": graph, "cluster": cluster}
        arrays = {"edges": [[0], [1]], "output_bytes": [1, 1], "time_us": [1.0, 1.0], "flop": [1, 1],
                  "temp_bytes": [1, 1], "persistent_bytes": [1, 1]}
        env = {"simulator": simulator, "grouping": grouping}
        return [
            (emplace.Cluster, {"name": "p2.8xlarge"}),
            (emplace.improvement_table, {"runs": folder}),
            (emplace.Cluster.from_yaml, {"text": cluster.to_yaml()}),
            (cluster.keep, {}),
            (cluster.save, {"path": file}),
            (emplace.Costs, costs),
            (emplace.Graph.from_file, {"path": file}),
            (emplace.Graph.from_json, {"text": graph.to_json()}),
            (emplace.Graph.from_arrays, arrays),
            (graph.save, {"path": file}),
            (graph.find_op, {"name": graph.op_names[0]}),
            (emplace.Grouping, {"graph": graph}),
            (emplace.Grouping.from_labels, {"graph": graph, "labels": np.zeros(8, int)}),
            (emplace.Grouping.from_file, {"graph": graph, "path": file}),
            (grouping.save, {"path": file}),
            (grouping.expand, {"placements": ops}),
            (emplace.Simulator, costs),
            (simulator.evaluate, {"placements": [ops]}),
            (simulator.fits, {"peak_bytes": np.zeros((1, 2), np.int64)}),
            (simulator.report, {"placement": ops}),
            (simulator.timeline, {"placement": ops}),
            (simulator.save_timeline, {"placement": ops, "path": file}),
            (simulator.load_placement, {"path": file}),
            (simulator.save_placement, {"placement": ops, "path": file}),
            (emplace.place, {"simulator": simulator, "agent": "single_device"}),
            (emplace.compare, {"simulator": simulator, "agents": ["single_device"]}),
            (emplace.generate, {"model": "rnnlm", "settings": {"layers": 1, "steps": 2}}),
            (emplace.family, {"name": "ptb"}),
            (emplace.transform, {"graph": graph}),
            (emplace.plan, {"network": "llama-3-8b", "cluster": "dgx-h100", "global_batch": 8}),
            (emplace.library, {}),
            (emplace.names, {"topic": "agents"}),
            (emplace.env.PlacementEnv, env),
            (self.env.reset, {"seed": 1}),
            (emplace.env.VectorEnv, {**env, "num_envs": 2}),
            (self.vector.reset, {"seed": 1}),
            (self.vector.step, {"actions": [0, 0]}),
            (self.vector.snapshot, {"env": 0}),
        ]

    def bad_values(self, parameter):
        """What is to be refused for this parameter, by its annotation."""
        kinds = str(parameter.annotation).replace(" | None", "")
        for kind in sorted(BAD, key=len, reverse=True):  # the longest that the annotation begins with
            if kinds.startswith(kind) and (kinds == kind or kinds[len(kind)] == " "):
                break
        else:
            return
        yield from BAD[kind]
        if kind == "int" and parameter.name in FROM_ONE:
            yield 0
        if kind == "npt.ArrayLike" and parameter.name in INTEGERS:
            yield from ([0.5, 0.5], np.array([1.0, 2.0]), [-2**40, 0])
        if kind not in ("Mapping[str, Any]",) and parameter.default is not None and "None" not in str(
                parameter.annotation):
            yield None

    def test_every_bad_argument_is_refused_by_name(self):
        tried, seen = 0, set()
        with tempfile.TemporaryDirectory() as folder:
            for function, good in self.calls(folder):
                seen.add(function.__qualname__)
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.name.startswith("_") or parameter.kind is parameter.VAR_KEYWORD:
                        continue
                    for value in self.bad_values(parameter):
                        where = f"{function.__qualname__}({parameter.name}={value!r})"
                        with self.subTest(where):
                            with self.assertRaises(emplace.InputError) as caught:
                                function(**{**good, parameter.name: value})
                            text = str(caught.exception)
                            self.assertRegex(text, rf"^(-*){parameter.name}\b", where)
                            self.assertEqual(text.count("\n"), 0)
                            self.assertLess(len(text), 400)
                        tried += 1
        self.assertGreater(tried, 500)
        # Nothing public is left out but what needs files, networkx or no argument.
        for module in (emplace, emplace.env):
            for name in getattr(module, "__all__", ("PlacementEnv", "VectorEnv")):
                thing = getattr(module, name)
                if inspect.isfunction(thing):
                    self.assertIn(name, seen | {"import_files"})
                elif inspect.isclass(thing) and thing.__module__ in ("emplace.cluster", "emplace.graph",
                                                                     "emplace.simulator", "emplace.env"):
                    for member, one in inspect.getmembers(thing, callable):
                        if member.startswith("_") or name == "Timeline" or not hasattr(one, "__code__"):
                            continue
                        if not one.__module__.startswith("emplace"):
                            continue  # of Gymnasium's class
                        if len(inspect.signature(one).parameters) > (0 if inspect.ismethod(one) else 1):
                            self.assertIn(f"{name}.{member}", seen | {
                                "Graph.from_networkx", "PlacementEnv.step", "PlacementEnv.restore", "VectorEnv.restore",
                                "VectorEnv.close"})

    def test_what_is_taken(self):
        self.assertEqual(emplace.place(self.simulator, "annealing", evaluations=np.int32(9)).evaluations, 9)
        self.assertEqual(self.grouping.expand(np.ones(8, np.uint8)).dtype, np.int16)
        env = emplace.env.PlacementEnv(self.simulator, memory_penalty=np.float32(2))
        env.reset(seed=np.int64(3))
        for action in (0, np.int64(0), np.array(0), [0]):
            env.step(action)
        with tempfile.TemporaryDirectory() as folder:
            path = os.fsdecode(os.path.join(os.fsencode(folder), b"\xff.json"))  # no UTF-8
            self.graph.save(path)
            self.assertEqual(emplace.Graph.from_file(path).num_ops, 8)

    def test_imported_files(self):
        for name, value in (("min_attributed_percent", NAN), ("min_attributed_percent", 101), ("nodes", 0),
                            ("nodes", 1.5), ("inputs", "x"), ("format", 1), ("training", b"x"), ("times", b"x"), ("step", 3),
                            ("cluster", b"x"), ("comm_groups", 1), ("nvlink", 300)):
            self.assert_refused(f"{name}: is", emplace.import_files, "file", **{name: value})
        self.assert_refused("paths[1]: is", emplace.import_files, "file", "a\0b")

    def test_actions(self):
        for action in (0.5, NAN, "0", None, True, [0, 0], [0.5], 2**70, []):
            self.assert_refused("action", self.env.step, action)
        whole = emplace.env.PlacementEnv(self.simulator, self.grouping, whole=True)
        whole.reset(seed=1)
        for action in ([0.5] * 8, [0] * 7, 0, ["0"] * 8, [NAN] * 8, None):
            self.assert_refused("action", whole.step, action)
        for actions in ([0.5, 0.5], [0], [[0, 0]], [NAN, 0], "00"):
            self.assert_refused("actions", self.vector.step, actions)

    def test_environments(self):
        make = emplace.env.VectorEnv
        self.assert_refused("autoreset_mode: is 'next_step'", make, self.simulator, num_envs=2, autoreset_mode="next_step")
        self.assert_refused("reset_mask", self.vector.reset, options={"reset_mask": [1, 0]})
        self.assert_refused("reset_mask", self.vector.reset, options={"reset_mask": np.ones(3, bool)})
        self.assert_refused("options", self.vector.reset, options=[1])
        self.assert_refused("seed[1]: is -1", self.vector.reset, seed=[1, -1])
        self.assert_refused("seed: is -1", self.env.reset, seed=-1)
        for bad in ("x", None, 5, [1]):
            self.assert_refused("snapshot: is", self.env.restore, bad)
            self.assert_refused("snapshot: is", self.vector.restore, 0, bad)
        self.assert_refused("env: is 2", self.vector.restore, 2, self.vector.snapshot(0))

    def test_graphs_are_of_the_core(self):
        self.assert_refused("core: is 'x'", emplace.Graph, "x")

    def test_outputs(self):
        for out in (1, (None,), "xy", np.zeros(2)):
            self.assert_refused("out", self.simulator.evaluate, [np.zeros(8, int)], out=out)

    def test_networks_of_networkx(self):
        self.assert_refused("graph: is", emplace.Graph.from_networkx, 1)
        try:
            import networkx
        except ImportError:
            self.skipTest("networkx is absent")
        for key, value in (("time_us", NAN), ("flop", object()), ("temp_bytes", 0.5), ("kind", b"x"), ("layer", 1)):
            network = networkx.DiGraph(name="one")
            network.add_node("a", **{key: value})
            with self.assertRaises(emplace.InputError, msg=key):
                emplace.Graph.from_networkx(network)
        network = networkx.DiGraph(name="two")
        network.add_edge("a", "b", bytes=1, tensor=[1])
        self.assert_refused("edge a -> b: tensor: is [1]", emplace.Graph.from_networkx, network)
        network.edges["a", "b"].update(bytes=0.5, tensor=0)
        self.assert_refused("ops[0].outputs[0]", emplace.Graph.from_networkx, network)
