"""Tests of experiments/pages/shared/published.py."""
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import BadInput  # noqa: E402
from shared.published import Figure, read_published  # noqa: E402


class PublishedTest(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "p.yaml").write_text(text, encoding="utf-8")
            return read_published("p", Path(folder))

    def test_figures_have_what_a_line_says(self):
        found = self.read(
            "figures:\n"
            '  - {match: {graph.model: nmt, graph.set.layers: "2", agent.label: ppo only}, metric: step_time, value: 3.5e+2, '
            'place: "table 1, NMT"}\n'
            "  - {match: {agent.name: a}, over: {num_devices: [3, 5]}, metric: step_time, missing: out of memory, rank: 1, "
            'place: "b"}\n'
        )
        first = {"graph.model": "nmt", "graph.set.layers": "2", "agent.label": "ppo only"}
        self.assertEqual(found, [Figure(first, "step_time", 350.0), Figure({"agent.name": "a"}, "step_time", None)])

    def test_all_files_can_be_read(self):
        counts = {name: len(read_published(name)) for name in ("hierarchical", "placeto", "post", "sgdp", "thesis")}
        self.assertEqual(counts, {"hierarchical": 60, "placeto": 8, "post": 66, "sgdp": 56, "thesis": 90})

    def test_another_form_is_refused(self):
        with self.assertRaisesRegex(BadInput, "p.yaml: line 2: has a figure of another form than"):
            self.read("figures:\n  - {match: {agent.name: a}, value: 3}\n")
        with self.assertRaisesRegex(BadInput, "p.yaml: has no figure"):
            self.read("figures:\n")


if __name__ == "__main__":
    unittest.main()
