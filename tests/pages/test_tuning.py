"""experiments/pages/tuning.py: settings with 1,000 updates, and those of Post's methods."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import NamedTrials, Trial  # noqa: E402
from tuning import FAMILIES, of_methods, with_more_updates  # noqa: E402

PAPER = "T 10, C 5, rate 0.1"
CHOSEN = "T 1, C 1, rate 0.001"


def trial(label, family, ratio, drawn=(), gradient=None):
    """Whose best step is `ratio` times a lower bound of 1 ms. drawn: of each episode, in ms; a single GPU takes 2."""
    spec = {
        "agent": {"label": label, "name": "hierarchical"},
        "seed": 1,
        "budget": {"evaluations": 4000},
        "graph": {"dataset": family},
        "cluster": {"devices": ["gpu:0"]},
    }
    learned = {} if gradient is None else {"gradient_norm": gradient}
    graph = {
        "best_step_time_us": 1000 * ratio,
        "lower_bound_us": 1000,
        "single_device_step_time_us": 2000,
        "episodes": [{"argmax": False, "entropy": 0.5, "mean_step_time_us": 1000 * time, **learned} for time in drawn],
    }
    return Trial(
        {"spec": spec, "graphs": [graph], "revision": "0123456789"}, {"policy_seconds": 60, "simulator_seconds": 0}
    )


def archive(settings, walk=4.0):
    """settings: of each the ratio on each family, what is drawn, and the gradient's norm."""
    found = NamedTrials("hierarchical_rates")
    for setting, (ratio, drawn, gradient) in settings.items():
        found.trials += [trial("hierarchical: " + setting, family, ratio, drawn, gradient) for family in FAMILIES]
    found.trials += [trial("random walk", family, walk) for family in FAMILIES]
    return found


class WithMoreUpdatesTest(unittest.TestCase):
    def setUp(self):
        better, same = [4.0] * 9 + [2.0], [2.0] * 10
        self.figures, self.table = with_more_updates(
            archive({PAPER: (4.0, same, None), "T 10, C 5, rate 0.0003": (2.0, better, 0.25), CHOSEN: (2.5, same, 10)})
        )

    def test_the_best_setting_is_first_and_compared_with_the_paper_the_choice_and_the_walk(self):
        self.assertEqual(self.figures["rates.hierarchical.setting"], "T 10, C 5, rate 0.0003")
        self.assertAlmostEqual(self.figures["rates.hierarchical.gain"], 50)
        self.assertAlmostEqual(self.figures["rates.hierarchical.chosen"], 20)
        self.assertAlmostEqual(self.figures["rates.hierarchical.walk"], 50)
        self.assertTrue(self.table[2].startswith("| `hierarchical` | T 10, C 5, rate 0.0003 | **2.000** | **2.000** |"))
        self.assertTrue(self.table[-1].startswith("| `random_walk` | | 4.000 |"))

    def test_what_is_drawn_is_in_parts_of_a_single_gpu(self):
        key = "rates.hierarchical.T_10_C_5_rate_0_0003"
        self.assertAlmostEqual(self.figures[key + ".first"], 2)
        self.assertAlmostEqual(self.figures[key + ".last"], 1)
        self.assertAlmostEqual(self.figures["rates.hierarchical.ptb.last"], 1)

    def test_without_a_gradient_there_is_a_dash(self):
        self.assertTrue(self.table[2].endswith(" 2.00 | 1.00 | 0.500 | 2e-01 |"), self.table[2])
        self.assertTrue(self.table[4].endswith(" 1.00 | 1.00 | 0.500 | – |"), self.table[4])


class OfMethodsTest(unittest.TestCase):
    def test_the_setting_with_the_smallest_geometric_mean_is_first(self):
        times = {
            "policy gradient, rate 1": (700, 1100, 4800),
            "policy gradient, rate 30": (600, 900, 4200),
            "PPO, rate 1": (640, 980, 4600),
            # A smaller sum than the next, but a larger product.
            "cross-entropy, elite 0.1": (600, 800, 3700),
            "cross-entropy, elite 0.2": (500, 700, 4000),
            "Post, rate 1": (570, 740, 3800),
            "random": (710, 1140, 4780),
        }
        found = NamedTrials("post_rates")
        for label, row in times.items():
            found.trials += [trial(label, family, time) for family, time in zip(FAMILIES, row)]
        second = trial("random", FAMILIES[0], 710)
        second.record["spec"]["seed"] = 2
        second.graph["best_step_time_us"] *= 1.1
        found.trials.append(second)
        figures, tables = of_methods(found)
        self.assertEqual(figures["methods.trials"], 22)
        self.assertAlmostEqual(figures["methods.seeds.apart"], 10)
        self.assertEqual(
            tables["methods"][2:4],
            ["| policy gradient | rate 30 | 600 | 900 | 4200 |", "| | rate 1 (default) | 700 | 1100 | 4800 |"],
        )
        self.assertEqual(
            tables["methods_best"][4], "| cross-entropy | elite 0.2 | 500 | 700 | 4000 | 600 | 800 | 3700 |"
        )
        self.assertEqual(tables["methods_best"][-1], "| random | | 746 | 1140 | 4780 | | | |")


if __name__ == "__main__":
    unittest.main()
