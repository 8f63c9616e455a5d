"""Tests of experiments/pages/reality.py: the order of placements."""
import gzip
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from reality import QUANTILES, SEARCHES, TYPICAL, Case, pairs, ranks, read, spearman, speed_table  # noqa: E402
from scratch_folder import ScratchFolderTest  # noqa: E402
from shared.archive import BadInput  # noqa: E402


APART = QUANTILES["apart"]


def case(simulated, rounds):
    return Case("a", simulated, None, 1.0, 1.0, 1.0, rounds)


class OrderTest(unittest.TestCase):
    def test_equal_values_share_a_rank(self):
        self.assertEqual(ranks([30, 10, 20, 20]), [4, 1, 2.5, 2.5])

    def test_the_rank_correlation_is_that_of_ranks(self):
        self.assertAlmostEqual(spearman([1, 2, 3, 4], [10, 200, 3000, 40000]), 1)
        self.assertAlmostEqual(spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        self.assertAlmostEqual(spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]), 0.8)

    def test_pairs_are_compared_within_rounds(self):
        weather = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 1.0, 0.7, 1.0, 1.4]  # of the machine, the same for both
        slow = case(1.0, [100 * w * (1.04 + 0.001 * (i % 3)) for i, w in enumerate(weather)])
        fast = case(1.5, [100 * w for w in weather])
        self.assertEqual(pairs([slow, fast], APART), (1, []))
        wrong = Case("b", 0.9, None, 1.0, 1.0, 1.0, fast.rounds)
        apart, [(one, other, shorter)] = pairs([wrong, slow], APART)
        self.assertEqual((apart, one, other), (1, slow, wrong))
        self.assertAlmostEqual(shorter, 100 * (1 - 1 / 1.041), delta=0.1)

    def test_what_is_certainly_apart_differs_by_more(self):
        slow, fast = case(1.0, [103.0, 101.0] * 5), case(1.5, [100.0] * 10)
        self.assertEqual((pairs([slow, fast], APART), pairs([slow, fast], QUANTILES["certain"])), ((1, []), (0, [])))

    def test_a_pair_that_cannot_be_told_apart_does_not_count(self):
        noise = [1.1, 0.9, 1.2, 0.8, 1.05, 0.95, 1.1, 0.9, 1.0, 1.0]
        self.assertEqual(pairs([case(1.0, [100.0] * 10), case(1.5, [100 * value for value in noise])], APART), (0, []))

    def test_placements_that_are_equal_in_the_simulator_have_no_order(self):
        self.assertEqual(
            pairs([case(1.0, [100.0 + i for i in range(10)]), case(1.0, [50.0 + i for i in range(10)])], APART), (0, [])
        )


def validation(rounds=10):
    """Every placement twice as fast as the one before, in the simulator and for real."""
    cases = [
        {
            "label": f"runs/reality/rnnlm/{name}.json",
            "simulated_us": 900.0 / 2**index,
            "interleaved_us": 800.0 / 2**index,
            "speed_up": 2.0**index,
            "speed_up_95": [1.9**index, 2.1**index],
            "measured_steps_us": [1.0 + index] * rounds,
        }
        for index, name in enumerate(["single_device", *sorted({*SEARCHES, *TYPICAL} - {"single_device"})])
    ]
    return {"schema": "emplace.validation", "cases": cases, "summary": {"spearman": 1}}


class ReadTest(ScratchFolderTest):
    def write(self, record):
        path = self.folder / "rnnlm.validation.json.gz"
        path.write_bytes(gzip.compress(json.dumps(record).encode()))

    def refuses(self, record, reason):
        self.write(record)
        with self.assertRaisesRegex(BadInput, reason):
            read("rnnlm", self.folder)

    def test_speeds_are_over_one_core(self):
        self.write(validation())
        found, summary = read("rnnlm", self.folder)
        second = found["annealing"]
        self.assertEqual((second.simulated, second.moment, second.measured), (2, 2, 2))
        self.assertEqual(summary, {"spearman": 1})
        table = speed_table(found)
        self.assertEqual(table[-1], "| `single_device` (typical) | 1.00 | 1.00 | 1.00 [1.00, 1.00] | 20 | 20 |")
        self.assertEqual(table[-2], "| `annealing` | 2.00 | 2.00 | 2.00 [1.90, 2.10] | 19 | 19 |")

    def test_other_placements_are_refused(self):
        record = validation()
        self.refuses({**record, "cases": record["cases"][1:]}, "rnnlm has other placements than multilevel_search")

    def test_other_numbers_of_rounds_are_refused(self):
        self.refuses(validation(rounds=9), "single_device has 9 rounds, not 10")
        record = validation()
        del record["cases"][0]["measured_steps_us"]
        self.refuses(record, "single_device has 0 rounds, not 10")

    def test_a_file_without_op_times_of_the_moment_is_refused(self):
        record = validation()
        del record["cases"][3]["interleaved_us"]
        self.refuses(record, "rnnlm has no 'interleaved_us'")


if __name__ == "__main__":
    unittest.main()
