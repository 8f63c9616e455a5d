"""experiments/pages/shared/claims.py: effects, their test over graphs, and verdicts by the rule."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import BadInput, Trial, Trials  # noqa: E402
from shared.claims import (  # noqa: E402
    Effect,
    effect,
    effect_of,
    holm,
    log_change,
    percent_change,
    verdict,
    verdict_of_rows,
    verdict_of_tie,
)


def trial(label, seed, best, layers=2, gpus=2):
    spec = {
        "agent": {"label": label, "name": "random"},
        "seed": seed,
        "budget": {"evaluations": 4},
        "graph": {"model": "nmt", "set": {"layers": layers}, "grouping": {"name": label}},
        "cluster": {"devices": [f"gpu:{index}" for index in range(gpus)]},
    }
    return Trial({"spec": spec, "graphs": [{"best_step_time_us": best and best * 1000}]}, {})


def found(mean, low, high):
    return Effect(mean, low, high, graphs=8, seeds=5, faster=8, p=0.01)


class EffectTest(unittest.TestCase):
    def test_the_mean_is_over_seeds_then_rows_then_graphs(self):
        one = Trials([trial("a", 1, 50), trial("a", 2, 50), trial("a", 1, 100, gpus=4), trial("a", 1, 200, layers=4)])
        other = Trials(
            [trial("b", 1, 100), trial("b", 2, 200), trial("b", 1, 100, gpus=4), trial("b", 1, 100, layers=4)]
        )
        result = effect(one, other)
        nmt2 = ((math.log(0.5) + math.log(0.25)) / 2 + 0) / 2
        self.assertAlmostEqual(result.mean, 100 * (nmt2 + math.log(2)) / 2)
        self.assertEqual((result.graphs, result.seeds, result.faster, result.p), (2, 2, 1, None))
        back = result.reverse()
        self.assertEqual((back.mean, back.low, back.high), (-result.mean, -result.high, -result.low))
        self.assertEqual((back.graphs, back.faster), (2, 1))

    def test_an_agent_with_one_seed_is_compared_with_all_seeds_of_the_other(self):
        one = Trials([trial("a", 1, 50), trial("a", 2, 25)])
        result = effect(one, Trials([trial("b", 1, 100)]))
        self.assertAlmostEqual(result.mean, 100 * (math.log(0.5) + math.log(0.25)) / 2)
        self.assertEqual(result.seeds, 2)

    def test_rows_without_a_placement_are_left_out_and_counted(self):
        one = Trials([trial("a", 1, 50), trial("a", 1, 50, layers=4)])
        other = Trials([trial("b", 1, 100), trial("b", 1, None, layers=4)])
        result = effect(one, other)
        self.assertEqual((result.graphs, result.left_out, result.partly), (1, 1, 0))
        one.append(trial("a", 2, None))
        result = effect(one, other)
        self.assertEqual((result.graphs, result.left_out, result.partly), (1, 1, 1))
        with self.assertRaisesRegex(BadInput, "share no row"):
            effect(Trials([trial("a", 1, 50)]), Trials([trial("b", 1, 50, layers=8)]))

    def test_the_interval_is_of_graphs_and_of_seeds(self):
        of_graphs = effect_of([[[-10.0] * 5] if index % 2 else [[-20.0] * 5] for index in range(20)])
        self.assertAlmostEqual(of_graphs.mean, -15)
        # With 20 graphs the deviation of the mean is 5 / sqrt(20).
        self.assertAlmostEqual(of_graphs.low, -15 - 1.96 * 5 / math.sqrt(20), delta=0.4)
        self.assertAlmostEqual(of_graphs.high, -15 + 1.96 * 5 / math.sqrt(20), delta=0.4)
        of_seeds = effect_of([[[-20.0, -10.0] * 10]])
        self.assertAlmostEqual(of_seeds.high, -15 + 1.96 * 5 / math.sqrt(20), delta=0.4)
        self.assertEqual(effect_of([[[-3.0]]]), Effect(-3, -3, -3, 1, 1, 1, None))

    def test_six_graphs_are_tested_and_five_are_not(self):
        self.assertAlmostEqual(effect_of([[[-1.0 - index]] for index in range(6)]).p, 2 / 64)
        self.assertIsNone(effect_of([[[-1.0 - index]] for index in range(5)]).p)

    def test_holm_leaves_out_claims_without_a_test(self):
        self.assertEqual(holm([0.04, None, 0.01, 0.9]), [0.08, None, 0.03, 0.9])
        self.assertEqual(holm([0.03, 0.029]), [0.058, 0.058])
        self.assertEqual(holm([None]), [None])

    def test_changes_and_effects(self):
        self.assertAlmostEqual(log_change(-50), -69.3147, places=4)
        self.assertAlmostEqual(percent_change(log_change(-40)), -40)


class VerdictTest(unittest.TestCase):
    def test_a_claim_holds_if_interval_test_and_size_agree(self):
        self.assertEqual(verdict(found(-30, -40, -20), 0.01, -50), "holds")
        self.assertEqual(verdict(found(-30, -40, -20), None, None), "holds")
        self.assertEqual(verdict(found(-20, -40, -10), 0.01, -50), "holds in part")
        self.assertEqual(verdict(found(-30, -40, 1), 0.01, -50), "does not come out")
        self.assertEqual(verdict(found(-30, -40, -20), 0.06, -50), "does not come out")
        self.assertEqual(verdict(found(30, 20, 40), 0.01, -50), "does not come out")
        self.assertEqual(verdict(found(0, 0, 0), None, None), "does not come out")

    def test_a_tie_is_within_five_percent(self):
        self.assertEqual(verdict_of_tie(found(0, -5, 4.8)), "holds")
        self.assertEqual(verdict_of_tie(found(0, -5.2, 1)), "does not come out")
        self.assertEqual(verdict_of_tie(found(0, -1, 4.9)), "does not come out")

    def test_a_claim_of_rows_holds_in_part_if_most_do(self):
        self.assertEqual(verdict_of_rows(["holds", "holds"]), "holds")
        self.assertEqual(verdict_of_rows(["holds", "holds", "does not come out"]), "holds in part")
        self.assertEqual(verdict_of_rows(["holds", "holds in part"]), "holds in part")
        self.assertEqual(verdict_of_rows(["holds", "does not come out"]), "does not come out")


if __name__ == "__main__":
    unittest.main()
