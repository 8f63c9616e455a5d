# environment: rl
"""The environments as Gymnasium and Stable-Baselines3 check and use them."""

import subprocess
import sys
import unittest
import warnings

import gymnasium
import gymnasium.utils.env_checker
import numpy as np
import sb3_contrib
import stable_baselines3.common.env_checker
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.env_util import make_vec_env

import emplace
from emplace.env import PlacementEnv
from emplace.sb3 import Environments


def small_problem():
    graph = emplace.generate("rnnlm", layers=1, steps=2)
    simulator = emplace.Simulator(graph, emplace.Cluster("p2.8xlarge", gpus=2), "roofline")
    return {"simulator": simulator, "grouping": emplace.Grouping(graph, "merge_and_colocate", groups=8)}


def bound_problem():
    """Two ops, the first of which runs on the first device alone."""
    graph = emplace.Graph.from_json('{"schema": "emplace.graph", "version": 1, "name": "g", "ops": ['
                                    '{"name": "x", "kind": "op", "time_us": {"a": 1.0}},'
                                    '{"name": "y", "kind": "op", "inputs": [], "time_us": 1.0}]}')
    cluster = emplace.Cluster.from_yaml('{schema: emplace.cluster, version: 1, name: pair, devices: [{name: "gpu:0", kind: a}, '
                                        '{name: "gpu:1", kind: b}], link: {bandwidth_gb_per_s: 1, latency_us: 0}}', "pair.yaml")
    return {"simulator": emplace.Simulator(graph, cluster), "grouping": emplace.Grouping(graph, "identity")}


class CheckTest(unittest.TestCase):
    def test_both_checks(self):
        for options in ({}, {"start": "random"}, {"start": "single_device"}, {"reward": "final"}):
            with self.subTest(**options), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                env = gymnasium.make("emplace/Placement-v0", **small_problem(), **options).unwrapped
                self.assertIsInstance(env, PlacementEnv)
                gymnasium.utils.env_checker.check_env(env)
                stable_baselines3.common.env_checker.check_env(env)

    def test_both_checks_of_graphs(self):
        for options in ({"observation": "graph"}, {"whole": True}):
            with self.subTest(**options), warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*has an unconventional shape")
                env = gymnasium.make("emplace/Placement-v0", **small_problem(), **options).unwrapped
                self.assertIsInstance(env, PlacementEnv)
                gymnasium.utils.env_checker.check_env(env)
                stable_baselines3.common.env_checker.check_env(env)


class MakeTest(unittest.TestCase):
    def test_the_id_is_known_after_import_emplace(self):
        first = ("import emplace, gymnasium", "import gymnasium, emplace")
        make = ("graph = emplace.generate('rnnlm', layers=1, steps=2); simulator = emplace.Simulator(graph, "
                "emplace.Cluster('p2.8xlarge', gpus=2), 'roofline'); env = gymnasium.make('{}', simulator=simulator); "
                "env.reset(seed=1); env.step(1)")
        for text in (*(f"{line}; {make.format('emplace/Placement-v0')}" for line in first),
                     f"import gymnasium, emplace; {make.format('emplace.env:emplace/Placement-v0')}"):
            subprocess.run([sys.executable, "-c", text], check=True)

    def test_make_vec_env(self):
        envs = make_vec_env("emplace/Placement-v0", n_envs=3, seed=1, env_kwargs=small_problem())
        observations = envs.reset()
        self.assertEqual(observations.shape, (3, 11 + 8 * 3))
        for _ in range(8):
            observations, rewards, ended, infos = envs.step(np.array([1, 1, 1]))
        self.assertTrue(ended.all())
        self.assertEqual({info["step_ns"] for info in infos}, {infos[0]["step_ns"]})
        self.assertEqual(rewards.tolist(), [0] * 3)  # nothing moved

    def test_environments_in_cpp_are_those_of_make_vec_env(self):
        options = {**small_problem(), "start": "random"}
        ours = Environments(**options, num_envs=3)
        theirs = make_vec_env(PlacementEnv, n_envs=3, env_kwargs=options)
        ours.seed(5)
        theirs.seed(5)
        rng = np.random.default_rng(1)
        np.testing.assert_array_equal(ours.reset(), theirs.reset())
        for _ in range(20):
            actions = rng.integers(0, 3, 3)
            for one, other in zip(ours.step(actions)[:3], theirs.step(actions)[:3]):
                np.testing.assert_array_equal(one, other)


class MaskTest(unittest.TestCase):
    def test_masked_actions_are_never_taken(self):
        problem = bound_problem()
        for envs in (make_vec_env("emplace/Placement-v0", n_envs=2, env_kwargs=problem), Environments(**problem, num_envs=2)):
            self.assertTrue(is_masking_supported(envs))
            envs.reset()
            self.assertEqual(get_action_masks(envs).tolist(), [[True, False]] * 2)
            # A device that is not allowed raises InputError.
            sb3_contrib.MaskablePPO("MlpPolicy", envs, n_steps=16, batch_size=16, seed=1, device="cpu").learn(64)
        with self.assertRaisesRegex(emplace.InputError, "where group 0 has no time"):
            stable_baselines3.PPO("MlpPolicy", Environments(**problem, num_envs=2), n_steps=16, batch_size=16, seed=1,
                                  device="cpu").learn(64)
