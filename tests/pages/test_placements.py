"""experiments/pages/shared/placements.py."""
import lzma
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from scratch_folder import ScratchFolderTest  # noqa: E402
from shared.archive import BadInput  # noqa: E402
from shared.paper_table import Row  # noqa: E402
from shared.placements import best_step, joined, picture, short, step_of  # noqa: E402

OPS = [{"name": "a", "layer": "encoder/lstm0"}, {"name": "b", "layer": "loss"}, {"name": "c", "layer": "loss"}]


def run(name, pid, start, length, tid=0):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length}


def events():
    names = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((0, "cpu:0"), (1, "gpu:0"), (2, "gpu:1"))
    ]
    transfer = run("a", 1, 4000, 1000, tid=1)
    return [*names, run("a", 1, 0, 4000), transfer, run("b", 2, 5000, 2000), run("c", 1, 7000, 3000)]


class StepTest(unittest.TestCase):
    def test_ops_are_counted_and_transfers_are_not(self):
        step = step_of(10000, OPS, events())
        self.assertEqual(step.layers, ["encoder/lstm0", "loss"])
        self.assertEqual(step.devices, ["gpu:0", "gpu:1"])
        self.assertEqual(
            [(bar.device, bar.start, bar.end) for bar in step.bars if bar.layer == "loss"],
            [("gpu:1", 5000, 7000), ("gpu:0", 7000, 10000)],
        )
        self.assertAlmostEqual(step.shares[0], 200 / 3)
        self.assertAlmostEqual(step.shares[1], 100 / 3)

    def test_a_layer_has_a_row_for_each_device(self):
        drawn = picture("what", {"ours": step_of(10000, OPS, events())}, 1)
        self.assertIn(">ours, 10 ms<", drawn)
        self.assertIn(">enc. 0<", drawn)
        paths = [line for line in drawn.splitlines() if line.startswith("<path")]
        self.assertEqual([path.count("M") for path in paths], [2, 1])
        heights = {
            path.split("M")[index].split("L")[0].split(" ")[1]
            for path in paths
            for index in range(1, path.count("M") + 1)
        }
        self.assertEqual(len(heights), 3)

    def test_bars_that_touch_are_one_and_short_ones_are_seen(self):
        self.assertEqual(joined([(5, 6), (0, 2), (2.5, 3)], 1), [(0, 3.5), (5, 6)])
        self.assertEqual(joined([(0, 0.1)], 1), [(0, 1)])

    def test_names_of_layers_are_short(self):
        self.assertEqual(
            [short(name) for name in ("encoder/embedding", "decoder/lstm1", "mixed_5b")], ["source", "dec. 1", "5b"]
        )


class Program:
    """Stands for a source with a folder of archives."""

    def __init__(self, folder):
        self.folder, self.program = folder, str(folder / "emplace")

    def path(self, file):
        return self.folder / file


class BestStepTest(ScratchFolderTest):
    def test_a_placement_of_another_trial_is_refused(self):
        (self.folder / "placements").mkdir()
        (self.folder / "placements" / "x.json.xz").write_bytes(lzma.compress(b"{}"))
        script = self.folder / "emplace"
        script.write_text(
            "#!/bin/sh\n"
            'for word; do last=$word; done; case $1 in generate) echo \'{"ops": []}\' > "$last" ;; '
            'simulate) echo \'{"traceEvents": []}\' > "$last"; echo \'{"step_time_us": 5000}\' ;; esac\n'
        )
        script.chmod(0o755)
        row = Row("NMT", 'nmt {"layers":2}', 2)

        class Found(list):
            def values(self):
                return list(self)

        source = Program(self.folder)
        self.assertEqual(best_step(source, row, "c", Found([6, 5]), "x").time, 5000)
        with self.assertRaisesRegex(BadInput, "x.json.xz: takes 5.000 ms, and the best of its trials 4.000"):
            best_step(source, row, "c", Found([4, 6]), "x")
        with self.assertRaisesRegex(BadInput, "y.json.xz: is not a placement"):
            best_step(source, row, "c", Found([5]), "y")


if __name__ == "__main__":
    unittest.main()
