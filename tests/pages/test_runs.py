"""experiments/pages/runs.py."""
import os
import sys
import unittest
from importlib import import_module
from pathlib import Path

PAGES = Path(os.environ["EMPLACE_ROOT"]) / "experiments" / "pages"
sys.path.insert(0, str(PAGES))
RUNS = import_module("runs")


class Rows:
    def rows(self, file):
        assert file == "rerun.csv"
        keys = ("archive", "seconds_archived", "seconds_now", "difference")
        return [
            dict(zip(keys, row))
            for row in (
                ("b", "4", "1", ""),
                ("a", "10", "5", "x was 1, is 2"),
                ("b", "4", "3", ""),
                ("a", "7", "", "failed"),
            )
        ]


class RunAgainTest(unittest.TestCase):
    def test_minutes_of_an_archive_are_scaled_by_its_drawn_trials(self):
        table, figures = RUNS.run_again(Rows(), {"a": 120, "b": 60, "c": 600})
        self.assertEqual(table[2:], ["| `a` | 2 | 0 | 10 | 5 | 60 |", "| `b` | 2 | 2 | 8 | 4 | 30 |"])
        self.assertEqual(figures["again.hours"], 1.5)
        self.assertEqual(figures["again.hours.two_cores"], 0.75)
        self.assertEqual(figures["again.archived"], 3)
        self.assertEqual(figures["again.part"], 0.5)
        self.assertEqual((figures["again.trials"], figures["again.agree"], figures["again.archives"]), (4, 2, 2))

    def test_archives_for_further_questions_are_counted_apart(self):
        class More(Rows):
            def rows(self, file):
                return [*super().rows(file), dict(zip(super().rows(file)[0], ("thesis_fifo", "1", "1", "")))]

        _, figures = RUNS.run_again(More(), {"a": 120, "b": 60, "thesis_fifo": 30})
        self.assertEqual(figures["again.hours"], 2)
        self.assertEqual(figures["again.hours.without_further"], 1.5)
        self.assertEqual(figures["again.hours.without_further.two_cores"], 0.75)


if __name__ == "__main__":
    unittest.main()
