# environment: rl
"""The environments as Gymnasium and Stable-Baselines3 check and use them."""

import unittest
import warnings

import gymnasium.utils.env_checker
import stable_baselines3.common.env_checker

import emplace
from emplace.env import PlacementEnv


def small_problem():
    graph = emplace.generate("rnnlm", layers=1, steps=2)
    simulator = emplace.Simulator(graph, emplace.Cluster("p2.8xlarge", gpus=2), "roofline")
    return simulator, emplace.Grouping(graph, "merge_and_colocate", groups=8)


class CheckTest(unittest.TestCase):
    def test_both_checks(self):
        for options in ({}, {"start": "random"}, {"reward": "final"}, {"whole": True}):
            with self.subTest(**options), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                env = PlacementEnv(*small_problem(), **options)
                gymnasium.utils.env_checker.check_env(env, skip_render_check=True)
                stable_baselines3.common.env_checker.check_env(env)
