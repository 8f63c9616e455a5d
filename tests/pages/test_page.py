"""experiments/pages/shared: how a page is compared with what was computed, and how trials are selected."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import (
    BadInput,
    Cell,
    Report,
    Trial,
    Trials,
    extremes,
    geometric_mean,
    percent_faster,
)  # noqa: E402
from shared.page import as_shown, check_page, markdown, marked, unmarked  # noqa: E402
from shared.table import bold_best, number, p_value, seconds, signed  # noqa: E402


def trial(label="a", seed=1, best=800.0, layers=2, **more):
    spec = {
        "agent": {"label": label, "name": "random"},
        "seed": seed,
        "budget": {"evaluations": 4},
        "graph": {"model": "nmt", "set": {"layers": layers}},
        "cluster": {"devices": ["cpu:0", "gpu:0", "gpu:1"]},
    }
    graph = {
        "num_devices": 3,
        "best_step_time_us": best and best * 1000,
        "start_step_time_us": 1000000,
        "single_device_step_time_us": 1000000,
        "lower_bound_us": 400000,
        "evaluations": 4,
        "trace": [[1, 1000000], [3, best and best * 1000], [4, best and best * 1000]],
        "episodes": [
            {"evaluations": 2, "argmax": False, "mean_step_time_us": 1200000, "entropy": 1},
            {"evaluations": 4, "argmax": False, "mean_step_time_us": 900000, "entropy": 0.5},
            {"evaluations": 4, "argmax": True, "mean_step_time_us": None, "entropy": 0.5},
        ],
        **more,
    }
    return Trial({"spec": spec, "graphs": [graph]}, {"policy_seconds": 1.0, "simulator_seconds": 0.5})


class PageTest(unittest.TestCase):
    def test_a_value_is_shown_as_the_page_shows_it(self):
        for value, shown, expected in [
            (42.46, "42.5", "42.5"),
            (42.44, "42.5", "42.4"),
            (2400, "2,400", "2,400"),
            (-0.4, "5", "0"),
            (-3.6, "−4", "−4"),
            (-3.6, "-4", "-4"),
            (3.6, "+4", "+4"),
            (12, "twelve", "twelve"),
            (9.4, "Ten", "Nine"),
            (30, "ten", "30"),
            (0.00001, "< 0.0001", "< 0.0001"),
            (0.02, "< 0.0001", "0.02"),
            ("3db9656", "4e00000", "3db9656"),
        ]:
            self.assertEqual(as_shown(value, shown), expected, (value, shown))

    def test_figures_are_found_behind_their_numbers(self):
        text = "It takes 42.5<!--= a --> ms, **−3<!--= b -->** % of\n| x | 1,000<!--= c --> | twelve<!--= d --> |\n"
        page = check_page("p.md", text, {"a": 42.46, "b": -3.2, "c": 1001, "d": 12}, {})
        self.assertEqual(
            [(check.line, check.figure, check.page, check.archive) for check in page.checks],
            [(1, "a", "42.5", "42.5"), (1, "b", "−3", "−3"), (2, "c", "1,000", "1,001"), (2, "d", "twelve", "twelve")],
        )
        self.assertEqual([check.agrees for check in page.checks], [True, True, False, True])
        self.assertEqual(page.text, text.replace("1,000", "1,001"))

    def test_marks_in_code_are_no_marks(self):
        text = "`1<!--= x -->` and 2<!--= p:a --> `3`\n"
        self.assertEqual(marked(text), ["p:a"])
        self.assertEqual([check.figure for check in check_page("p.md", text, {"p:a": 2}, {}).checks], ["p:a"])

    def test_a_table_is_compared_cell_by_cell_and_written(self):
        text = "before\n<!-- table: t -->\n| a | b |\n| --- | ---: |\n| x | 1 |\n| y | 2 |\n<!-- end table -->\nafter\n"
        page = check_page("p.md", text, {}, {"t": markdown([["a", "b"], ["x", "1"], ["y", "3"], ["z", ""]])})
        wrong = [check for check in page.checks if not check.agrees]
        self.assertEqual(
            [(check.line, check.figure, check.page, check.archive) for check in wrong],
            [(6, "t[y, b]", "2", "3"), (7, "t[z, a]", "(nothing)", "z"), (7, "t[z, b]", "(nothing)", "")],
        )
        self.assertEqual(page.text, text.replace("| y | 2 |", "| y | 3 |\n| z | |"))

    def test_what_is_not_computed_is_refused(self):
        for text, refusal in [
            ("1<!--= x -->\n", "p.md:1: figure x is not computed by experiments/pages"),
            ("no number <!--= a -->\n", "p.md:1: no number before the mark of a"),
            ("\n<!-- table: t -->\n| a |\n", "p.md:2: table t does not end (a line <!-- end table --> is expected)"),
            ("<!-- table: u -->\n<!-- end table -->\n", "p.md:1: table u is not computed (one of t)"),
        ]:
            with self.assertRaises(BadInput) as caught:
                check_page("p.md", text, {"a": 1}, {"t": markdown([["a"]])})
            self.assertEqual(str(caught.exception), refusal)

    def test_numbers_that_are_traced_to_nothing_are_listed(self):
        text = (
            "# 1 heading\n5 runs of `x 6`, 7<!--= a --> and [8](y9.md) of v10, 1,200\n```sh\n11\n```\n"
            "<!-- table: t -->\n| 12 |\n<!-- end table -->\n"
        )
        self.assertEqual([(line, shown) for line, shown, _ in unmarked(text)], [(2, "5"), (2, "8"), (2, "1,200")])


class TableTest(unittest.TestCase):
    def test_numbers_have_the_typography_of_the_pages(self):
        self.assertEqual(
            [number(None), number(-1.26, 1), number(-0.04, 1), signed(2.5), signed(-2.5), signed(0)],
            ["–", "−1.3", "0.0", "+2.5", "−2.5", "0.0"],
        )
        self.assertEqual(
            [p_value(0.00005), p_value(0.0058), p_value(0.037), p_value(0.44)], ["< 0.0001", "0.0058", "0.037", "0.44"]
        )
        self.assertEqual([seconds(0.001), seconds(0.02), seconds(36.2)], ["< 0.01", "0.02", "36"])

    def test_the_best_is_bold_also_where_others_show_the_same(self):
        self.assertEqual(
            bold_best(["2", "1 [0, 2]", "1", "–"], [2.0, 0.9, 1.1, None]), ["2", "**1** [0, 2]", "**1**", "–"]
        )


class ArchiveTest(unittest.TestCase):
    def test_trials_are_selected_as_reports_select_them(self):
        trials = Trials([trial("a", 2), trial("a", 1, 700), trial("b", 1, layers=4), trial("c", 1, None)])
        self.assertEqual(trials.where("agent.label=a").values(), [700, 800])
        self.assertEqual(len(trials.where("agent.label=a", "agent.label=b", "seed=1")), 2)
        self.assertEqual(len(trials.where("graph.set.layers=4", "num_devices=3", "gpus=2")), 1)
        self.assertEqual(sorted(trials.by("agent.label")), ["a", "b", "c"])
        self.assertEqual(trials.by("agent.label", "seed")["a", "1"].mean(), 700)
        self.assertIsNone(trials.where("agent.label=c").mean())
        with self.assertRaisesRegex(BadInput, "no trial has agent.label=d"):
            trials.where("agent.label=d")

    def test_a_trial_says_what_its_files_say(self):
        one = trial()
        self.assertEqual((one.best, one.start, one.single_device, one.ratio), (800, 1000, 1000, 2))
        self.assertEqual((one.best_after(2), one.best_after(3)), (1000, 800))
        self.assertEqual((one.drawn(0), one.drawn(-1), len(one.episodes)), (1200, 900, 2))
        self.assertEqual((one.policy_seconds, one.cpu_seconds), (1, 1.5))

    def test_means(self):
        self.assertAlmostEqual(geometric_mean([1, 4]), 2)
        self.assertEqual(percent_faster(75, 100), 25)
        self.assertEqual(extremes([3, 1, 2]), (1, 3))

    def test_a_cell_of_a_report_is_in_ms(self):
        report = Report(
            [
                {
                    "metric": "step_time",
                    "agent": "a",
                    "column": "overall",
                    "mean": "1500",
                    "low_95": "",
                    "high_95": "",
                    "published": "2",
                }
            ]
        )
        self.assertEqual(report.cell("step_time", "a", "overall"), Cell(1.5, None, None, 2))
        with self.assertRaisesRegex(BadInput, "no cell rank, a, overall"):
            report.cell("rank", "a", "overall")


if __name__ == "__main__":
    unittest.main()
