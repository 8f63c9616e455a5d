"""Tests of experiments/pages/real_rewards.py: curves of rewards that were simulated or measured."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from real_rewards import curve, fifths, measured_fifths, smooth  # noqa: E402
from shared.archive import Trial  # noqa: E402


def trial(source, episodes, checks):
    spec = {"agent": {"name": "a"}, "seed": 1, "cluster": {"devices": ["cpu:0"]}, "hardware": {"reward_source": source}}
    record = {"spec": spec, "graphs": [{"single_device_step_time_us": 10000, "episodes": episodes}]}
    found = [
        {"evaluation": evaluation, "simulated_us": simulated, "measured_us": 1} for evaluation, simulated in checks
    ]
    return Trial(record, {"hardware": {"checks": found}})


def episode(evaluations, mean, last=1, argmax=False):
    return {"evaluations": evaluations, "mean_step_time_us": mean, "step_time_us": last, "argmax": argmax}


class CurveTest(unittest.TestCase):
    def test_simulated_rewards_are_as_the_agent_saw_them(self):
        episodes = [episode(2, 7000), episode(4, 5000), episode(5, 1000, argmax=True)]
        self.assertEqual(curve(trial("simulator", episodes, [])), [(2, 7), (4, 5)])

    def test_an_agent_that_changes_a_placement_has_the_ends_of_its_episodes(self):
        self.assertEqual(curve(trial("simulator", [episode(3, None, 8000)], [])), [(3, 8)])
        checks = [(1, 9000), (2, 8000), (3, 6000)]
        self.assertEqual(curve(trial("hardware", [episode(3, None, 4000)], checks)), [(3, 6)])

    def test_of_measured_rewards_the_simulated_times_of_an_episode_are_averaged(self):
        checks = [(1, 9000), (2, 7000), (3, 6000), (4, 2000)]
        self.assertEqual(curve(trial("hardware", [episode(2, 1), episode(4, 1)], checks)), [(2, 8), (4, 4)])

    def test_fifths_are_parts_of_one_core(self):
        episodes = [episode(index, 1000 * index) for index in range(1, 11)]
        self.assertEqual(fifths(trial("simulator", episodes, [])), (15, 95))

    def test_measured_times_have_fifths_too(self):
        found = trial("hardware", [], [])
        found.timing["hardware"]["checks"] = [{"measured_us": 1000 * time} for time in (4, 6, 0, 0, 0, 0, 0, 0, 1, 3)]
        self.assertEqual(measured_fifths(found), (5, 2))

    def test_a_long_curve_is_averaged(self):
        points = [(index, float(index)) for index in range(40)]
        self.assertEqual(smooth(points)[0], (0.5, 0.5))
        self.assertEqual(len(smooth(points)), 20)
        self.assertEqual(smooth(points[:20]), points[:20])


if __name__ == "__main__":
    unittest.main()
