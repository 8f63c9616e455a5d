"""experiments/pages/shared/chart.py: axes, panels and the bytes of an SVG; and how tools/recompute compares them."""

import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree
from importlib.machinery import SourceFileLoader
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import BadInput  # noqa: E402
from shared.chart import Axis, Line, Panel, Point, Segments, Style, around, chart, round_step  # noqa: E402
from shared.page import check_pictures  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
OURS = Style("ours", "#0072b2")
THEIRS = Style("theirs & others", "#d55e00", "square", hollow=True)
DASHED = Style("average", "#009e73", dashed=True)


def elements(text, tag):
    return xml.etree.ElementTree.fromstring(text).iter(SVG + tag)


class AxisTest(unittest.TestCase):
    def test_a_value_is_a_part_of_the_axis(self):
        linear, log = Axis("x", 10, 20), Axis("x", 0.01, 100, log=True)
        self.assertEqual([linear.part(value) for value in (10, 15, 20, 5, 30)], [0, 0.5, 1, 0, 1])
        self.assertAlmostEqual(log.part(1), 0.5)
        self.assertAlmostEqual(log.part(10), 0.75)

    def test_ticks_are_round(self):
        for axis, expected in [
            (Axis("x", 0, 60), ["0", "20", "40", "60"]),
            (Axis("x", -0.1, 0.31), ["−0.1", "0.0", "0.1", "0.2", "0.3"]),
            (Axis("x", 0.005, 150, log=True), ["0.01", "0.1", "1", "10", "100"]),
            (Axis("x", 0.4, 1.1, log=True), ["0.5", "1"]),
            (Axis("x", 0, 2, names={1.0: "5 GPUs", 0.0: "3 GPUs"}), ["3 GPUs", "5 GPUs"]),
        ]:
            self.assertEqual([text for _, text in axis.ticks()], expected)

    def test_a_bare_axis_has_no_ticks(self):
        self.assertEqual(Axis("x", 0, 60, bare=True).ticks(), [])

    def test_steps_are_one_two_or_five_times_a_power_of_ten(self):
        self.assertEqual([round_step(step) for step in (1, 1.1, 12, 30, 51)], [1, 2, 20, 50, 100])

    def test_an_axis_shows_all_values_with_room(self):
        low, high = around([10, 20])
        self.assertTrue(low < 10 and high > 20)
        low, high = around([3, 3])
        self.assertTrue(low < 3 < high)
        low, high = around([0.1, 10], log=True)
        self.assertTrue(0 < low < 0.1 and high > 10)


class SegmentsTest(unittest.TestCase):
    def test_segments_are_one_path_in_their_own_width(self):
        axis = Axis("", 0, 1, bare=True)
        marks = [Segments([((0, 0), (1, 1)), ((0, 1), (1, 0))], Style("", "#999999", width=0.5))]
        (path,) = elements(chart("A graph", [Panel("graph", axis, axis, marks)], [OURS], 1), "path")
        self.assertEqual(path.get("stroke-width"), "0.5")
        self.assertEqual(path.get("d"), "M56.0 216.0L306.0 26.0 M56.0 26.0L306.0 216.0")


class ChartTest(unittest.TestCase):
    def drawn(self, panels=1):
        marks = [
            Point(1, 25, OURS, 20, 30),
            Point(2, 50, THEIRS),
            Line([(0, 0), (4, 100)], DASHED),
        ]
        panel = Panel("a < b", Axis("episode", 0, 4), Axis("gain, %", 0, 100), marks)
        return chart("gain", [panel] * panels, [OURS, THEIRS, DASHED], 2)

    def test_the_same_values_give_the_same_bytes(self):
        self.assertEqual(self.drawn(), self.drawn())

    def test_points_stand_where_their_values_are(self):
        text = self.drawn()
        circle = next(elements(text, "circle"))  # of the plot; the legend's is last
        frame = [rect for rect in elements(text, "rect") if rect.get("fill") == "none"][0]
        left, top, width, height = (float(frame.get(key)) for key in ("x", "y", "width", "height"))
        self.assertAlmostEqual(float(circle.get("cx")), left + width / 4, delta=0.06)
        self.assertAlmostEqual(float(circle.get("cy")), top + 0.75 * height, delta=0.06)
        line = next(elements(text, "polyline"))
        self.assertEqual(line.get("points"), f"{left:.1f},{top + height:.1f} {left + width:.1f},{top:.1f}")
        self.assertEqual(line.get("stroke-dasharray"), "5 3")

    def test_hollow_points_are_white_inside(self):
        polygons = list(elements(self.drawn(), "polygon"))
        self.assertEqual({polygon.get("fill") for polygon in polygons}, {"white"})

    def test_an_interval_is_a_line_through_its_point(self):
        lines = [line for line in elements(self.drawn(), "line") if line.get("stroke") == OURS.colour]
        self.assertEqual(len(lines), 1)
        self.assertEqual(lines[0].get("x1"), lines[0].get("x2"))
        self.assertNotEqual(lines[0].get("y1"), lines[0].get("y2"))

    def test_panels_are_in_rows(self):
        frames = [rect for rect in elements(self.drawn(3), "rect") if rect.get("fill") == "none"]
        self.assertEqual(len({frame.get("x") for frame in frames}), 2)
        self.assertEqual(len({frame.get("y") for frame in frames}), 2)
        self.assertIn("theirs &amp; others", self.drawn())
        self.assertIn("a &lt; b", self.drawn())


class PictureTest(unittest.TestCase):
    def test_a_picture_is_compared_by_its_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.svg").write_text("<svg/>", encoding="utf-8")
            Path(folder, "b.svg").write_text("<svg />", encoding="utf-8")
            text = "![a](figures/a.svg)\n\n![b](figures/b.svg) ![c](figures/c.svg)\n"
            checks = check_pictures("p.md", text, Path(folder), dict.fromkeys(["a.svg", "b.svg", "c.svg"], "<svg/>"))
        self.assertEqual(
            [(check.line, check.figure, check.agrees) for check in checks],
            [(1, "figures/a.svg", True), (3, "figures/b.svg", False), (3, "figures/c.svg", False)],
        )
        self.assertEqual(checks[2].page, "(nothing)")

    def test_a_picture_that_the_page_does_not_show_is_refused(self):
        with self.assertRaisesRegex(BadInput, r"p.md: does not show .* \(figures/a.svg is expected\)"):
            check_pictures("p.md", "![a](a.svg)\n", Path("."), {"a.svg": ""})


class RecomputeTest(unittest.TestCase):
    def test_pictures_are_written_and_then_agree(self):
        loader = SourceFileLoader("recompute", os.path.join(os.environ["EMPLACE_ROOT"], "tools", "recompute"))
        recompute = types.ModuleType("recompute")
        recompute.__file__ = loader.path
        loader.exec_module(recompute)
        drawn = {"gain.svg": "<svg/>\n"}
        recompute.described = lambda name, source: ({"a": 5}, {}, drawn)
        template = recompute.Template("p.md.j2", "{{ a | number }}\n![gain](figures/gain.svg)\n")

        def differing(write):
            options = types.SimpleNamespace(literals=False, differences=True, write=write)
            with contextlib.redirect_stdout(io.StringIO()):
                return recompute.recompute(page, template, options, None)

        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "post.md")
            page.write_text(template.render({"a": 4}).text, encoding="utf-8")
            self.assertEqual([differing(write) for write in (False, True, False)], [2, 2, 0])
            self.assertEqual(Path(folder, "figures", "gain.svg").read_text(encoding="utf-8"), "<svg/>\n")
            self.assertEqual(os.listdir(Path(folder, "figures")), ["gain.svg"])
            drawn["gain.svg"] = "<svg></svg>\n"
            self.assertEqual(differing(False), 1)


if __name__ == "__main__":
    unittest.main()
