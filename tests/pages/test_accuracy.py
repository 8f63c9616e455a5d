"""Tests of experiments/pages/accuracy.py: what it reads of a validation."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from accuracy import best_of, of_errors, panel, says, speed_table  # noqa: E402
from shared.chart import Point  # noqa: E402


def case(label, simulated, speed):
    return {
        "label": label,
        "simulated_us": simulated,
        "interleaved_us": simulated / 2,
        "speed_up": speed,
        "speed_up_95": [speed - 0.1, speed + 0.1],
    }


RUN = {
    "schema": "emplace.validation",
    "verdict": ["fast (the simulator says 1.86)", "the order is kept"],
    "cases": [case("slow", 200.0, 1.0), case("fast", 100.0, 1.5), {"label": "not run", "simulated_us": 50.0}],
    "summary": {"reference_us": 200.0, "contention": {"measured": 1.02, "costs": 1.1}},
}


class AccuracyTest(unittest.TestCase):
    def test_the_best_placement_is_one_that_ran(self):
        self.assertEqual(best_of(RUN)["label"], "fast")
        self.assertEqual(says(RUN), 1.86)
        self.assertIn("| RNNLM | 1.50 | 1.40 to 1.60 | 1.86 | 1.02 | 1.10 |", speed_table({"RNNLM": RUN}, "model"))

    def test_errors_are_in_percent(self):
        errors = {"median_step_error": 0.0166, "p90_step_error": 0.0614, "spearman": 0.98529}
        self.assertEqual(of_errors(errors), "1.7 / 6.1 / 0.985")

    def test_a_placement_has_a_point_for_each_prediction(self):
        points = [mark for mark in panel("RNNLM", RUN).marks if isinstance(mark, Point)]
        self.assertEqual([(point.x, point.y) for point in points], [(1, 1), (2, 1), (2, 1.5), (4, 1.5)])


if __name__ == "__main__":
    unittest.main()
