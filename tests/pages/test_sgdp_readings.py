"""Tests of experiments/pages/parts/sgdp_readings.py: what the published settings of SGDP can mean."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from parts.sgdp_readings import FAMILIES, readings  # noqa: E402
from shared.archive import NamedTrials, Trial  # noqa: E402


def trial(name, settings, family, best, seed=1, entropies=(1.0, 1.0), drawn=(100, 100)):
    spec = {
        "agent": {"label": settings or name, "name": name, "set": dict(pair.split("=") for pair in settings.split())},
        "seed": seed,
        "graph": {"dataset": family, "seed": 42, "index": 3},
        "budget": {"evaluations": 800},
        "cluster": {"devices": ["cpu:0", "gpu:0", "gpu:1"]},
    }
    episodes = [
        {"argmax": False, "entropy": entropy, "mean_step_time_us": None if step is None else 1000 * step}
        for entropy, step in zip(entropies, drawn)
    ]
    graph = {"best_step_time_us": 1000 * best, "episodes": episodes}
    return Trial(
        {"spec": spec, "graphs": [graph], "revision": "0123456789"}, {"policy_seconds": 30, "simulator_seconds": 30}
    )


def settings(rate, entropy, ratio, baseline, more=""):
    return f"learning_rate={rate} entropy={entropy} ratio={ratio} baseline={baseline} {more}".strip()


class FakeSource:
    def __init__(self, trials):
        self._archive = NamedTrials("sgdp_settings")
        self._archive.trials += trials

    def archive(self, name):
        assert name == "sgdp_settings"
        return self._archive


def everything():
    """Where entropies are given, a policy has learned; best steps of seed 2 are longer by 10 ms."""
    learned = {"entropies": (1.0, 0.5), "drawn": (100, 80)}
    rows = [
        (settings(0.001, 0.5, "node", "cumulative"), 100, {}),
        (settings(0.001, 0.5, "joint", "cumulative"), 90, learned),
        (settings(0.001, 0.5, "joint", "cumulative", "entropy_over=sum"), 95, {}),
        (
            settings(0.001, 0.5, "joint", "batch", "neighbour_ids=true"),
            85,
            {"entropies": (1, 0), "drawn": (None, None)},
        ),
        (settings(0.0001, 0.5, "joint", "cumulative"), 84, learned),
        (settings(0.0001, 0.5, "joint", "batch"), 88, learned),
        (settings(0.0001, 0.005, "node", "cumulative"), 84, learned),
        (settings(0.0001, 0.005, "node", "batch"), 80, learned),
    ]
    trials = [
        trial("sgdp", of, family, best + 10 * (seed - 1), seed, **more)
        for of, best, more in rows
        for family in FAMILIES
        for seed in (1, 2)
    ]
    trials += [
        trial(name, "", family, best) for name, best in (("random", 120), ("annealing", 70)) for family in FAMILIES
    ]
    return trials


class ReadingsTest(unittest.TestCase):
    def test_each_reading_is_a_row_with_the_published_weight_first(self):
        _, tables = readings(FakeSource(everything()))
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables["readings"]]
        self.assertEqual(cells[2][:6], ["node", "mean", "cumulative", "", "0.001", "0.5"])
        self.assertEqual(cells[3], ["joint", "mean", "batch", "yes", "0.001", "0.5", *3 * ["90 (0.00; –)"]])
        self.assertEqual(cells[4], ["joint", "mean", "cumulative", "", "0.001", "0.5", *3 * ["95 (0.50; −20 %)"]])
        self.assertEqual(cells[5][:6], ["joint", "sum", "cumulative", "", "0.001", "0.5"])
        self.assertEqual([row[4:6] for row in cells[6:10]], [["0.0001", "0.5"]] * 2 + [["0.0001", "0.005"]] * 2)
        self.assertEqual(cells[10], ["`random`", *5 * [""], "120", "120", "120"])
        self.assertEqual(cells[11][-1], "70")

    def test_figures_count_what_stays_uniform_and_what_the_baseline_gains(self):
        figures, _ = readings(FakeSource(everything()))
        self.assertEqual(figures["readings.published"], 4)
        self.assertEqual(figures["readings.uniform"], 2)
        self.assertEqual((figures["readings.learn"], figures["readings.learn.joint"]), (2, 2))
        self.assertEqual(figures["readings.joint"], 2)
        # With node the batch's baseline is better on every graph and seed, with joint on none.
        self.assertEqual((figures["readings.batch.wins"], figures["readings.batch.of"]), (6, 12))
        self.assertAlmostEqual(figures["readings.joint.slower"], 100 * (93 / 85 - 1))
        self.assertEqual(figures["readings.trials"], 8 * 6 + 6)


if __name__ == "__main__":
    unittest.main()
