"""Tests of experiments/pages/parts/placeto.py: how graphs and cells are laid out."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from parts.placeto import between_groups, cell_panel, layout, levels, size_of  # noqa: E402
from shared.chart import Point, Segments  # noqa: E402

OPS = [
    {"name": "a", "outputs": [{"dtype": "f32", "shape": [10]}]},
    {"name": "b", "inputs": ["a:0"], "outputs": [{"dtype": "i64", "shape": [2, 2]}, {"dtype": "f16", "shape": [3]}]},
    {"name": "c", "inputs": ["a:0"], "outputs": []},
    {"name": "d", "inputs": ["b:1", "c:0", "b:0"]},
]


class LayoutTest(unittest.TestCase):
    def test_a_tensor_takes_its_shape_times_its_type(self):
        self.assertEqual(size_of({"dtype": "f32", "shape": [3, 5]}), 60)
        self.assertEqual(size_of({"dtype": "i64", "shape": []}), 8)
        self.assertEqual(size_of({"dtype": "f16", "shape": [2]}), 4)
        self.assertEqual(size_of({"dtype": "bool", "shape": [7]}), 7)

    def test_tensors_within_a_group_are_not_sent(self):
        ops = [{**op, "outputs": op.get("outputs") or [{"dtype": "f32", "shape": []}]} for op in OPS]
        self.assertEqual(between_groups(ops, {"a": 0, "b": 0, "c": 1, "d": 2}), {(0, 1): 40, (0, 2): 38, (1, 2): 4})

    def test_a_group_is_at_the_mean_of_its_ops_longest_paths(self):
        self.assertEqual(levels(OPS, {"a": 0, "b": 1, "c": 0, "d": 2}), {0: 0.25, 1: 0.5, 2: 1})

    def test_groups_go_from_left_to_right_and_no_two_lie_on_each_other(self):
        at = {group: group / 99 for group in range(100)}
        places = layout(at, {(0, 50): 1.0})
        self.assertEqual(len(set(places.values())), 100)
        self.assertEqual((places[0][0], places[99][0]), (0, 1))
        xs = [places[group][0] for group in range(100)]
        self.assertEqual(xs, sorted(xs))
        self.assertTrue(all(0 <= y <= 1 for _, y in places.values()))

    def test_a_cell_has_its_nodes_an_input_and_an_output_that_reads_what_is_loose(self):
        panel = cell_panel("ptb", "tanh relu<0 identity<0 sigmoid<1")
        (lines,) = [mark for mark in panel.marks if isinstance(mark, Segments)]
        points = [mark for mark in panel.marks if isinstance(mark, Point)]
        self.assertEqual(
            [point.style.name for point in points], ["tanh", "ReLU", "identity", "sigmoid", "input x[t]", "mean"]
        )
        self.assertEqual(len(lines.ends), 4 + 2)
        output = (points[-1].x, points[-1].y)
        loose = {start for start, end in lines.ends if end == output}
        self.assertEqual(loose, {(points[2].x, points[2].y), (points[3].x, points[3].y)})


if __name__ == "__main__":
    unittest.main()
