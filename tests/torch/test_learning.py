# environment: rl
"""PPO and MaskablePPO find a placement that is a fifth faster than the best single device, as in the example."""

import os
import sys
import time
import unittest

import emplace

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "python", "examples"))
import learn_placement  # noqa: E402

SHARE = 0.79  # of the single device, at which training ends
SECONDS = 55


def trial(instance, method, seed):
    """What the example measures, in ms: a row for the table of docs/python.md."""
    simulator = emplace.library(instance).load()
    grouping = emplace.Grouping(simulator.graph, "identity")
    single = learn_placement.single_device(simulator)
    begun = time.process_time()
    envs, model = learn_placement.learn(simulator, grouping, method, seed, SECONDS, SHARE * single)
    seconds = time.process_time() - begun
    evaluations = envs.vector.simulations
    step_ns, peak_bytes = simulator.evaluate(envs.vector.best, grouping=grouping)
    assert simulator.fits(peak_bytes).all()
    random = learn_placement.random_search(simulator, grouping, evaluations, seed)
    return {"single": single, "random": random, "learned": int(step_ns[0]), "actions": model.num_timesteps,
            "evaluations": evaluations, "seconds": seconds}


class LearningTest(unittest.TestCase):
    INSTANCES = ("cifar10-13-p2-4",)
    SEEDS = (1,)

    def test_learns_to_be_a_fifth_faster(self):
        for instance in self.INSTANCES:
            for seed in self.SEEDS:
                for method in ("PPO", "MaskablePPO"):
                    with self.subTest(instance, seed=seed, method=method):
                        row = trial(instance, method, seed)
                        print(f"| {instance} | {seed} | {method} | {row['single'] / 1e6:.1f} | {row['random'] / 1e6:.1f} | "
                              f"{row['learned'] / 1e6:.1f} | {row['actions']} | {row['evaluations']} | "
                              f"{row['seconds']:.1f} |", flush=True)
                        self.assertLessEqual(row["learned"], 0.8 * row["single"])
                        self.assertLess(row["learned"], row["random"])
                        self.assertLess(row["seconds"], 60)
