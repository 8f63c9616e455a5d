"""The environments: a contract of ours everywhere, and Gymnasium's own checks where it is installed."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import emplace
from emplace.env import AutoresetMode, PlacementEnv, VectorEnv
from testing import Case, fork, random_graph, small_cluster

HAS_GYMNASIUM = importlib.util.find_spec("gymnasium") is not None


def small_problem():
    graph = fork()
    simulator = emplace.Simulator(graph, small_cluster())
    return simulator, emplace.Grouping(graph, "identity")


def larger_problem():
    graph = random_graph(60)
    simulator = emplace.Simulator(graph, emplace.Cluster("dgx-a100", gpus=3).keep(devices=["gpu:0", "gpu:1", "gpu:2"]))
    return simulator, emplace.Grouping(graph, "merge_and_colocate", groups=20)


class ContractTest(Case):
    """What Gymnasium asks of an environment."""

    def check(self, env, actions, seed=3):
        first, info = env.reset(seed=seed)
        again, _ = env.reset(seed=seed)
        self.assertTrue(env.observation_space.contains(first), first)
        self.assertIsInstance(info, dict)
        for key in first:
            self.assertEqual(first[key].tobytes(), again[key].tobytes())
        rewards = []
        for action in actions:
            self.assertTrue(env.action_space.contains(action))
            before = {key: array.copy() for key, array in first.items()}
            observation, reward, terminated, truncated, info = env.step(action)
            for key in first:  # earlier observations do not change
                self.assertEqual(first[key].tobytes(), before[key].tobytes())
            self.assertTrue(env.observation_space.contains(observation))
            self.assertIsInstance(reward, float)
            self.assertIs(type(terminated), bool)
            self.assertIs(truncated, False)
            first = observation
            rewards.append(reward)
        self.assertTrue(terminated)
        return rewards, info

    def test_group_by_group(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping, observation="graph", start="single_device")
        placement = [0, 0, 0, 0, 1, 1, 1, 0]
        rewards, info = self.check(env, placement)
        self.assertEqual(env.placement.tolist(), placement)
        step_ns = simulator.evaluate(placement)[0][0]
        self.assertEqual(info, {"step_ns": step_ns, "fits": True})
        self.assertAlmostEqual(sum(rewards), 8 * (1 - step_ns / 400_000))
        self.assert_refused("episode that is over", env.step, 0)

    def test_whole_placements(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping, whole=True)
        placement = np.array([0, 0, 0, 0, 1, 1, 1, 0])
        rewards, info = self.check(env, [placement])
        self.assertAlmostEqual(rewards[0], 1 - simulator.evaluate(placement)[0][0] / 400_000)

    def test_final_reward(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping, observation="graph", reward="final")
        placement = [0, 0, 0, 0, 1, 1, 1, 0]
        rewards, _ = self.check(env, placement)
        self.assertEqual(rewards[:-1], [0.0] * 7)
        self.assertAlmostEqual(rewards[-1], -simulator.evaluate(placement)[0][0] / 400_000)

    def test_observations_of_the_graph(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping, observation="graph")
        observation, _ = env.reset(seed=1)
        nodes = observation["nodes"]
        self.assertEqual(nodes.shape, (8, 7))
        self.assertEqual(nodes[:, 0].tolist(), [1] * 8)  # equal times
        self.assertEqual(nodes[:, 3].tolist(), [1] + [0] * 7)
        self.assertEqual(nodes[:, 5].tolist(), [1] * 8)
        self.assertEqual(observation["edge_index"].tolist(), simulator.graph.edge_index.tolist())
        observation, *_ = env.step(1)
        nodes = observation["nodes"]
        self.assertEqual(nodes[:, 3].tolist(), [0, 1] + [0] * 6)
        self.assertEqual(nodes[:, 4].tolist(), [1] + [0] * 7)
        self.assertEqual(nodes[0, 5:].tolist(), [0, 1])

    def test_observations_of_the_next_group(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping)
        self.assertEqual(env.observation_space.shape, (11 + 8 * 2,))
        first, _ = env.reset(seed=1)
        self.assertTrue(env.observation_space.contains(first))
        # The first of eight equal ops, whose six readers are all of its neighbours; all on the first device. The longest
        # path is three ops, and an op is an eighth of the step.
        one = np.log1p(1) / np.log1p(8)
        mean_bytes = 1000.0  # of an edge; the last op receives the most, 6000 bytes
        self.assertAlmostEqual(first[0], 1)
        self.assertAlmostEqual(first[1], one, places=6)
        self.assertEqual(first[2:7].tolist(), [1, 0, 1, 0, 0])
        self.assertEqual(first[7:11].tolist(), [0, 1, 0, 1])
        by_device = first[11:].reshape(8, 2)
        expected = [[1, 1], [1, 0], [one, one], [0, 0], [1, 0], [1, 0], [0, 0], [1, 0]]
        np.testing.assert_allclose(by_device, expected, rtol=1e-6)
        second, *_ = env.step(1)
        by_device = second[11:].reshape(8, 2)
        sent = np.log1p(1000 / mean_bytes) / np.log1p(6000 / mean_bytes)
        expected = [[1, 1], [1, 0], [one, one], [0, sent], [sent, 0], [7 / 8, 1 / 8], [0, 1], [1, 0]]
        np.testing.assert_allclose(by_device, expected, rtol=1e-6)
        self.assertAlmostEqual(second[4], 1)
        self.assertAlmostEqual(second[5], 1 / 3, places=6)
        self.assertAlmostEqual(second[6], 1 / 8, places=6)
        for _ in range(7):
            last, *_ = env.step(0)
        self.assertEqual(last.tolist(), [0] * 27)
        self.assertTrue(env.observation_space.contains(last))

    def test_the_best_start(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping)
        env.reset(seed=1)
        placement = [0, 0, 0, 0, 1, 1, 1, 0]
        total = sum(env.step(device)[1] for device in placement)
        self.assertAlmostEqual(total, 8 * (1 - simulator.evaluate(placement)[0][0] / 400_000))
        self.assertEqual(env.best.tolist(), placement)
        env.reset()
        self.assertEqual(env.placement.tolist(), placement)
        for _ in range(8):
            env.step(0)
        env.reset()
        self.assertEqual(env.placement.tolist(), placement)
        env.reset(seed=1)
        self.assertEqual(env.placement.tolist(), [0] * 8)
        # All environments of a vector share the best; with any autoreset mode.
        for mode in AutoresetMode:
            many = VectorEnv(simulator, grouping, num_envs=2, autoreset_mode=mode)
            many.reset(seed=1)
            for device in placement:
                many.step([0, device])
            self.assertEqual(many.best.tolist(), placement)
            if mode is AutoresetMode.NEXT_STEP:
                many.step([0, 0])
            elif mode is AutoresetMode.DISABLED:
                many.reset(options={"reset_mask": np.array([True, True])})
            self.assertEqual(many.placements.tolist(), [placement, placement], mode)

    def test_action_mask(self):
        graph = emplace.Graph.from_json('{"schema": "emplace.graph", "version": 1, "name": "g", "ops": ['
                                        '{"name": "x", "kind": "op", "time_us": {"a": 1.0}},'
                                        '{"name": "y", "kind": "op", "inputs": [], "time_us": 1.0}]}')
        simulator = emplace.Simulator(graph, small_cluster())
        env = PlacementEnv(simulator, emplace.Grouping(graph, "identity"), observation="graph")
        observation, _ = env.reset(seed=1)
        self.assertEqual(observation["action_mask"].tolist(), [1, 0])
        self.assertEqual(env.action_masks().tolist(), [True, False])
        self.assert_refused("actions[0]: is 1, where group 0 has no time (see action_mask)", env.step, 1)
        self.assert_refused("actions[0]: is 2 (0 to 1)", env.step, 2)
        observation, *_ = env.step(0)
        self.assertEqual(observation["action_mask"].tolist(), [1, 1])
        env = PlacementEnv(simulator, emplace.Grouping(graph, "identity"), whole=True)
        whole, _ = env.reset(seed=1)
        self.assertEqual(whole["action_mask"].tolist(), [[1, 0], [1, 1]])
        self.assertEqual(env.action_masks().tolist(), [True, False, True, True])
        many = VectorEnv(simulator, emplace.Grouping(graph, "identity"), num_envs=2)
        many.reset(seed=1)
        self.assertEqual(many.action_masks().tolist(), [[True, False]] * 2)

    def test_memory_penalty(self):
        graph = emplace.Graph.from_arrays([[0], [1]], [1, 1], [1.0, 1.0], persistent_bytes=[2**30, 2**29])
        env = PlacementEnv(emplace.Simulator(graph, small_cluster()), emplace.Grouping(graph, "identity"),
                           memory_penalty=4.0)
        _, info = env.reset(seed=1)
        self.assertFalse(info["fits"])
        _, reward, _, _, info = env.step(1)
        self.assertTrue(info["fits"])
        self.assertAlmostEqual(reward, 2 * (4 * 0.5 - 0.0005), places=6)  # 1 byte goes to the other device in 1 ns of 2 us

    def test_random_starts(self):
        simulator, grouping = larger_problem()
        env = PlacementEnv(simulator, grouping, observation="graph", start="random")
        starts = []
        for seed in (1, 1, 2, None):
            env.reset(seed=seed)
            starts.append(env.placement.tolist())
        self.assertEqual(starts[0], starts[1])
        self.assertNotEqual(starts[1], starts[2])
        self.assertNotEqual(starts[2], starts[3])

    def test_snapshots(self):
        simulator, grouping = larger_problem()
        env = PlacementEnv(simulator, grouping, observation="graph", start="random")
        env.reset(seed=4)
        for action in (0, 1, 2):
            env.step(action)
        kept = env.snapshot()

        def play():
            trace = []
            for action in (1, 2, 0, 1):
                observation, reward, *_ = env.step(action)
                trace.append((reward, observation["nodes"].tobytes()))
            env.reset()
            trace.append(env.placement.tobytes())
            return trace
        first = play()
        other = PlacementEnv(simulator, grouping, observation="graph", start="random")
        observation = env.restore(kept)
        self.assertEqual(observation["nodes"].tobytes(), other.restore(kept)["nodes"].tobytes())
        self.assertEqual(play(), first)
        env, before = other, env
        self.assertEqual(play(), first)
        self.assert_refused("snapshot: is not of an environment", before.restore, kept[:-1])
        self.assert_refused("snapshot: is not of an environment", before.restore, b"x" * len(kept))
        self.assert_refused("snapshot: is not", PlacementEnv(*small_problem()).restore, kept)
        # As many groups and devices, and another problem.
        cluster = emplace.Cluster("dgx-h100", gpus=3).keep(devices=["gpu:0", "gpu:1", "gpu:2"])
        faster = emplace.Simulator(random_graph(60), cluster)
        self.assert_refused("snapshot: is not of an environment", PlacementEnv(faster, grouping).restore, kept)
        self.assert_refused("snapshot: is not of an environment",
                            PlacementEnv(simulator, grouping, memory_penalty=5).restore, kept)
        # No bit may change, in the checksum neither.
        for bit in range(8 * len(kept)):
            damaged = bytearray(kept)
            damaged[bit // 8] ^= 1 << bit % 8
            self.assert_refused("snapshot: is not", before.restore, bytes(damaged))
        before.restore(kept)

    def test_render_and_options(self):
        simulator, grouping = small_problem()
        env = PlacementEnv(simulator, grouping, render_mode="ansi")
        env.reset(seed=1)
        self.assertEqual(env.render(), "step 400.0 us; groups: gpu:0 8, gpu:1 0")
        env.close()
        env = PlacementEnv(simulator, grouping, render_mode="rgb_array")
        env.reset(seed=1)
        env.step(1)
        picture = env.render()
        self.assertEqual(picture.shape, (16, 8, 3))
        self.assertEqual(picture[::8, :2, 0].tolist(), [[255, 0], [0, 255]])
        self.assert_refused("render_mode", PlacementEnv, simulator, grouping, render_mode="human")
        self.assert_refused("start: is", PlacementEnv, simulator, grouping, start="x")
        self.assert_refused("observation: is", PlacementEnv, simulator, grouping, observation="x")
        self.assert_refused("observation: is", PlacementEnv, simulator, grouping, observation="group", whole=True)
        self.assert_refused("reward: is", PlacementEnv, simulator, grouping, reward="x")
        self.assertEqual(PlacementEnv(simulator).num_groups, 8)


class VectorTest(Case):
    def play(self, steps, **options):
        simulator, grouping = larger_problem()
        env = VectorEnv(simulator, grouping, num_envs=5, observation="graph", start="random", **options)
        rng = np.random.default_rng(0)
        trace = [{key: array.copy() for key, array in env.reset(seed=11)[0].items()}]
        rows = []
        for _ in range(steps):
            observation, rewards, ended, truncated, info = env.step(rng.integers(0, 3, 5))
            self.assertFalse(truncated.any())
            trace.append({key: array.copy() for key, array in observation.items()})
            rows.append((rewards, ended, info))
        return env, trace, rows

    def test_equals_single_environments(self):
        env, trace, rows = self.play(20)
        simulator, grouping = larger_problem()
        rng = np.random.default_rng(0)
        actions = [rng.integers(0, 3, 5) for _ in range(20)]
        for i in range(5):
            single = PlacementEnv(simulator, grouping, observation="graph", start="random")
            observation, _ = single.reset(seed=11 + i)
            self.assertEqual(observation["nodes"].tobytes(), trace[0]["nodes"][i].tobytes())
            for step in range(20):
                observation, reward, terminated, _, info = single.step(actions[step][i])
                self.assertEqual(observation["nodes"].tobytes(), trace[step + 1]["nodes"][i].tobytes())
                self.assertEqual((reward, terminated), (rows[step][0][i], rows[step][1][i]))
                self.assertEqual(info["step_ns"], rows[step][2]["step_ns"][i])

    def test_any_number_of_threads_gives_the_same_bytes(self):
        _, one, rows = self.play(30, threads=1)
        _, four, other = self.play(30, threads=4)
        for a, b in zip(one, four):
            self.assertEqual(a["nodes"].tobytes(), b["nodes"].tobytes())
        self.assertEqual([row[0].tobytes() for row in rows], [row[0].tobytes() for row in other])

    def test_next_step(self):
        env, trace, rows = self.play(22)
        self.assertTrue(rows[19][1].all())  # 20 groups
        self.assertEqual(trace[20]["nodes"][:, :, 4].min(), 1)  # the last observation of the episode
        self.assertFalse(rows[20][1].any())
        self.assertEqual(rows[20][0].tolist(), [0] * 5)  # the action was not used
        self.assertEqual(trace[21]["nodes"][:, :, 4].max(), 0)
        self.assertEqual(trace[22]["nodes"][:, :, 4].sum(axis=1).tolist(), [1] * 5)
        self.assertEqual(env.metadata["autoreset_mode"], AutoresetMode.NEXT_STEP)

    def test_same_step(self):
        _, by_next, next_rows = self.play(20)
        _, trace, rows = self.play(21, autoreset_mode=AutoresetMode.SAME_STEP)
        info = rows[19][2]
        self.assertTrue(info["_final_obs"].all())
        self.assertEqual(info["final_obs"]["nodes"].tobytes(), by_next[20]["nodes"].tobytes())
        self.assertEqual(info["step_ns"].tolist(), next_rows[19][2]["step_ns"].tolist())
        self.assertEqual(rows[19][0].tobytes(), next_rows[19][0].tobytes())
        self.assertEqual(trace[20]["nodes"][:, :, 4].max(), 0)  # a new episode
        self.assertNotIn("final_obs", rows[20][2])

    def test_disabled(self):
        env, _, rows = self.play(20, autoreset_mode=AutoresetMode.DISABLED)
        self.assert_refused("actions[0]: is for an episode that is over", env.step, np.zeros(5, int))
        mask = np.array([True, True, False, True, True])
        env.reset(options={"reset_mask": mask})
        self.assert_refused("actions[2]: is for an episode that is over", env.step, np.zeros(5, int))
        env.reset(options={"reset_mask": ~mask})
        env.step(np.zeros(5, int))

    def test_arrays_without_a_copy(self):
        env, _, _ = self.play(3, copy=False)
        observation = env.observe()
        before = observation["nodes"].copy()
        again, *_ = env.step(np.ones(5, int))
        self.assertTrue(np.shares_memory(observation["nodes"], again["nodes"]))
        self.assertFalse(np.array_equal(before, again["nodes"]))
        self.assertFalse(again["nodes"].flags.writeable)

    def test_whole_placements(self):
        simulator, grouping = larger_problem()
        env = VectorEnv(simulator, grouping, num_envs=4, whole=True, autoreset_mode=AutoresetMode.SAME_STEP)
        env.reset(seed=1)
        placements = np.random.default_rng(2).integers(0, 3, (4, 20))
        _, rewards, ended, _, info = env.step(placements)
        self.assertTrue(ended.all())
        steps, _ = simulator.evaluate(placements, grouping=grouping)
        self.assertEqual(info["step_ns"].tolist(), steps.tolist())
        base = simulator.evaluate(np.zeros(20, int), grouping=grouping)[0][0]
        np.testing.assert_allclose(rewards, 1 - steps / base)
        self.assert_refused("actions: has another shape ((num_envs, num_groups))", env.step, placements[:, :3])

    def test_snapshots_go_between_environments(self):
        env, _, _ = self.play(7)
        kept = env.snapshot(1)
        env.restore(4, kept)
        observation = env.observe()
        self.assertEqual(observation["nodes"][1].tobytes(), observation["nodes"][4].tobytes())
        _, rewards, *_ = env.step(np.full(5, 2))
        self.assertEqual(rewards[1], rewards[4])

    def test_refuses(self):
        simulator, grouping = larger_problem()
        self.assert_refused("num_envs: is 0", VectorEnv, simulator, grouping, num_envs=0)
        env = VectorEnv(simulator, grouping, num_envs=2)
        self.assert_refused("actions[0]: is for an episode that is over", env.step, [0, 0])
        env.reset(seed=[1, None])
        self.assert_refused("actions: has another shape ((num_envs,))", env.step, [0])
        self.assert_refused("seed: has another length", env.reset, seed=[1, 2, 3])
        self.assert_refused("actions[1]: is 3 (0 to 2)", env.step, [0, 3])
        env.step([0, 2])
        self.assertEqual(env.placements[:, 0].tolist(), [0, 2])  # the refused step changed nothing
        self.assertEqual(env.action_space.nvec.tolist(), [3, 3])
        self.assertGreaterEqual(env.simulations, 3)


# What the environments take from Gymnasium, in files of a package of that name.
GYMNASIUM = {
    "__init__.py": """
import random
class Env:
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.np_random = random.Random(seed)
registry = {}
def register(id, entry_point):
    registry[id] = entry_point
from gymnasium import spaces, vector
""",
    "spaces.py": "from emplace._spaces import Box, Dict, Discrete, MultiDiscrete",
    "vector/__init__.py": """
import enum
class VectorEnv: pass
class AutoresetMode(enum.Enum):
    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"
""",
    "vector/utils.py": "from emplace._spaces import batch_space",
}
USE_IT = """
import gymnasium
from emplace.env import AutoresetMode, PlacementEnv, VectorEnv
from test_env import small_problem
env = PlacementEnv(*small_problem())
assert isinstance(env, gymnasium.Env)
env.reset(seed=1)
assert env.np_random.random() == __import__("random").Random(1).random()
assert env.action_space.contains(env.action_space.sample())
vector = VectorEnv(*small_problem(), num_envs=2)
assert isinstance(vector, gymnasium.vector.VectorEnv)
assert vector.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
assert vector.observation_space.contains(vector.reset(seed=1)[0])
assert gymnasium.registry == {"emplace/Placement-v0": "emplace.env:PlacementEnv"}
"""


class GymnasiumsClassesTest(Case):
    @unittest.skipIf(HAS_GYMNASIUM, "the real one is there")
    def test_are_used_where_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in GYMNASIUM.items():
                path = os.path.join(folder, "gymnasium", name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            path = os.pathsep.join([folder, os.path.dirname(os.path.abspath(__file__)), os.environ["PYTHONPATH"]])
            done = subprocess.run([sys.executable, "-c", USE_IT], env={**os.environ, "PYTHONPATH": path},
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipUnless(HAS_GYMNASIUM, "Gymnasium is not installed")
class GymnasiumTest(Case):
    def test_check_env(self):
        from gymnasium.utils.env_checker import check_env
        simulator, grouping = larger_problem()
        for options in ({}, {"observation": "graph"}, {"whole": True}, {"start": "random", "reward": "final"}):
            check_env(PlacementEnv(simulator, grouping, **options), skip_render_check=True)

    def test_vector_spaces(self):
        simulator, grouping = larger_problem()
        vector = VectorEnv(simulator, grouping, num_envs=3)
        observation, _ = vector.reset(seed=1)
        self.assertIn(observation, vector.observation_space)
        observation, *_ = vector.step(vector.action_space.sample())
        self.assertIn(observation, vector.observation_space)
