"""experiments/pages/replay.py and vtrain.py, whose pages are of others' files."""
import os
import sys
import unittest
from importlib import import_module
from pathlib import Path

PAGES = Path(os.environ["EMPLACE_ROOT"]) / "experiments" / "pages"
sys.path.insert(0, str(PAGES))

REPLAY, VTRAIN = import_module("replay"), import_module("vtrain")


def part(name, micros, ratio=0.5, error=0.25):
    errors = {"mean": error, "median": error, "p90": 2 * error}
    return {"name": name, "calls": 3, "measured_us": micros, "ratio": ratio, "error": errors}


class Checks:
    """Stands for what `emplace replay --roofline` says: nearer with times of other traces."""

    def of(self, trace, scaled_from=REPLAY.NOTHING):
        ratio = 0.5 if scaled_from == REPLAY.NOTHING else 0.9
        check = {"classes": [part("copy", 985), part("gather", 5)], "total": part("all", 990, ratio, 1 - ratio)}
        check |= {"transfers_us": 4, "unknown_us": 6}
        if not trace.times:
            check["step"] = {"measured_us": 2000, "simulated_us": 1900}
        return check


class ReplayTest(unittest.TestCase):
    def test_classes_with_less_than_a_hundredth_of_the_time_are_left_out(self):
        table = REPLAY.roofline_table(Checks())
        self.assertEqual(len(table), 2 + 2 * len(REPLAY.COMPARED))
        self.assertEqual(table[2], "| TraceLens Falconsai (ViT) | H100 | copy | 3 | 0.985 | 98.5 | 0.50 | 25 | 50 |")
        self.assertEqual(
            table[3], "| TraceLens Falconsai (ViT) | H100 | **all compared** | 3 | 0.990 | 99.0 | 0.50 | 50 | 100 |"
        )

    def test_execution_traces_have_no_step(self):
        table = REPLAY.scaled_table(Checks())
        self.assertEqual(table[2], "| eager_trace, B200 | 3 | nothing | 0.50 | 50 | 50 | 100 | -5.00 |")
        self.assertEqual(table[7], "| linear, RTX 2080 Ti | 3 | nothing | 0.50 | 50 | 50 | 100 | |")
        self.assertEqual(table[8], "| | | three models on H100 | 0.90 | 10 | 10 | 20 | |")

    def test_traces_of_other_gpus_are_counted_apart(self):
        figures = REPLAY.scaled_figures(Checks())
        # Each of six traces is scaled from three others on other GPUs.
        self.assertEqual((figures["scaled.totals"], figures["scaled.totals.near"]), (18, 18))
        self.assertAlmostEqual(figures["scaled.another.max"], 10)
        self.assertAlmostEqual(figures["scaled.unscaled.min"], 50)
        self.assertAlmostEqual(figures["qwen.step.less"], 5)


class VtrainTest(unittest.TestCase):
    def test_fitted_sizes_are_left_out(self):
        errors = {gpus: {size * VTRAIN.MIB: 50.0 for size in (1, 1024)} for gpus in VTRAIN.GPUS}
        for of in errors.values():
            of |= {2 * VTRAIN.MIB: -3.0, 3 * VTRAIN.MIB: 1.0, 4 * VTRAIN.MIB: 2.0}
        table = VTRAIN.all_reduces_table(errors)
        self.assertEqual(
            table[2:], ["| 2 | 3 | 2.0 | 3.0 | 3.0 |", "| 4 | 5 | 3.0 | 50.0 | 50.0 |", "| 8 | 3 | 2.0 | 3.0 | 3.0 |"]
        )

    def test_powers_of_two_have_signs(self):
        errors = {2: {(1 << power) * VTRAIN.MIB: 0.5 - power for power in range(11)}}
        table = VTRAIN.powers_table(errors)
        self.assertEqual(
            table[2], "| 2 GPUs, % | +0.5 | −0.5 | −1.5 | −2.5 | −3.5 | −4.5 | −5.5 | −6.5 | −7.5 | −8.5 | −9.5 |"
        )

    def test_fitted_numbers_are_those_of_the_cluster(self):
        figures = VTRAIN.fitted_figures()
        self.assertEqual(len(figures), 7)
        self.assertTrue(0.5 < figures["fitted.products"] < 0.6 < figures["fitted.elementwise"] < 1)
        self.assertTrue(1 < figures["fitted.launch_us"] < figures["fitted.host_us"] < figures["fitted.before_pass_us"])


if __name__ == "__main__":
    unittest.main()
