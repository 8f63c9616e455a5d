"""Tests of experiments/pages/shared/paper_table.py."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from shared.archive import BadInput, Report, Trial, Trials  # noqa: E402
from shared.claims import judged, percent_change  # noqa: E402
from shared.paper_table import PaperTable, Row, published_figures  # noqa: E402

ROWS = {
    "inception": Row("Inception-V3, 2", 'inception_v3 {"batch":1}', 2),
    "resnet": Row("ResNet-152, 2", 'resnet {"batch":128,"layers":152}', 2),
    "nmt4": Row("NMT, 4 layers, 4", 'nmt {"layers":4}', 4),
}
TIMES = {"gpu": 150.0, "hierarchical": 120.0, "hierarchical, slow": 135.0}


def trial(label, row, best, seed):
    model, settings = ROWS[row].model, {key: int(value) for key, value in ROWS[row].settings.items()}
    record = {
        "spec": {
            "agent": {"name": "a", "label": label},
            "graph": {"model": model, "set": settings},
            "cluster": {"devices": ["cpu:0", *(f"gpu:{i}" for i in range(ROWS[row].gpus))]},
            "budget": {"evaluations": 10},
            "seed": seed,
        },
        "graphs": [{"best_step_time_us": best and 1000 * best, "num_devices": ROWS[row].gpus + 1}],
    }
    return Trial(record, {})


class FakeArchive:
    """On Inception-V3 each agent has its time, on ResNet only the planner finds something; NMT has one agent."""

    name = "fake"

    def __init__(self):
        self.trials = Trials(
            trial(label, "inception", time + seed, seed) for label, time in TIMES.items() for seed in (1, 2)
        )
        self.trials += [trial("gpu", "resnet", None, 1), trial("hierarchical", "resnet", 900.0, 1)]
        self.trials += [trial("gpu", "nmt4", 2000.0, 1)]

    def where(self, *conditions):
        return self.trials.where(*conditions)

    def expect_labels(self, labels):
        assert {each.label for each in self.trials} <= set(labels)

    def report(self):
        cells = []
        for (label, model, _), trials in self.trials.by("agent.label", "graph.model", "gpus").items():
            row = next(row for row in ROWS.values() if row.model == model)
            mean = trials.mean()
            of_cell = {"metric": "step_time", "agent": label, "column": row.column, "published": ""}
            of_cell |= {key: str(1000 * mean) if mean else "" for key in ("mean", "low_95", "high_95")}
            cells.append(of_cell)
        return Report(cells)


def table():
    return PaperTable("hierarchical", FakeArchive(), ROWS, list(TIMES))


class PaperTableTest(unittest.TestCase):
    def test_published_figures_are_those_of_the_rows(self):
        found = published_figures("hierarchical", ROWS, "step_time")
        self.assertEqual(found["inception", "scotch"], 930)
        self.assertEqual(found["resnet", "gpu"], 1180)  # the paper has no batch size
        self.assertEqual(found["nmt4", "hierarchical"], 1690)
        self.assertNotIn(("nmt4", "gpu"), found)  # out of memory
        self.assertEqual({row for row, _ in found}, set(ROWS))
        self.assertEqual(published_figures("hierarchical", ROWS, "step_time_worst")["nmt4", "random grouping"], 6910)

    def test_a_cell_without_runs_still_has_what_is_published(self):
        cells = table().cells
        self.assertAlmostEqual(cells["inception", "hierarchical"].mean, 121.5)
        self.assertEqual((cells["resnet", "gpu"].mean, cells["nmt4", "hierarchical"].mean), (None, None))
        self.assertEqual(cells["nmt4", "hierarchical"].published, 1690)

    def test_a_cell_says_what_is_missing_and_how_many_seeds_found_something(self):
        archive = FakeArchive()
        archive.trials.append(trial("hierarchical", "resnet", None, 2))
        of = PaperTable("hierarchical", archive, ROWS, list(TIMES))
        self.assertEqual(of.text("inception", "gpu", {}, spread=True), "152 [152, 152] (150)")
        self.assertEqual(of.text("resnet", "hierarchical", {}, spread=False), "900, 1 of 2 seeds (1180)")
        self.assertEqual(of.text("resnet", "gpu", {}, spread=True), "– (1180)")
        self.assertEqual(of.text("nmt4", "gpu", {("nmt4", "gpu"): "OOM"}, spread=False), "2000 (OOM)")
        self.assertEqual(of.text("nmt4", "hierarchical", {}, spread=False), " (1690)")

    def test_a_claim_has_both_settings_and_the_published_effect(self):
        best, published = ("hierarchical", "gpu"), ("hierarchical, slow", "gpu")
        claim = table().claim("c", "text", best, published, ["inception"])
        self.assertAlmostEqual(percent_change(claim.found.mean), -19.8, 1)
        self.assertAlmostEqual(percent_change(claim.as_published.mean), -9.9, 1)
        self.assertAlmostEqual(percent_change(claim.expected), 100 * (130 / 150 - 1))
        self.assertEqual((claim.published, judged([claim])[0][2]), ("−13 %", "holds"))

    def test_what_is_published_may_be_of_the_best_settings(self):
        of = table()
        of.published = {("inception", "hierarchical, slow"): 130.0, ("inception", "gpu"): 150.0}
        claim = of.claim("c", "text", ("hierarchical, slow", "gpu"), ("hierarchical", "gpu"), ["inception"])
        self.assertAlmostEqual(percent_change(claim.expected), 100 * (130 / 150 - 1))

    def test_a_claim_without_an_effect_has_a_verdict_if_both_ran(self):
        unfit = table().claim("c", "text", ("hierarchical", "gpu"), None, ["resnet"], tie=True)
        self.assertEqual((unfit.found, judged([unfit])[0][2]), (None, "cannot be tested here"))
        lost = table().claim("c", "text", ("gpu", "hierarchical"), None, ["resnet"])
        self.assertEqual((lost.found, judged([lost])[0][2]), (None, "does not come out"))
        not_run = table().claim("c", "text", ("hierarchical", "gpu"), None, ["nmt4"])
        self.assertEqual((not_run.found, judged([not_run])[0][2]), (None, "open"))

    def test_two_trials_of_a_seed_are_refused(self):
        archive = FakeArchive()
        archive.trials.append(trial("gpu", "nmt4", 2100.0, 1))
        with self.assertRaisesRegex(BadInput, "fake: has 2 trials of gpu on NMT, 4 layers, 4, seed 1"):
            PaperTable("hierarchical", archive, ROWS, list(TIMES))


if __name__ == "__main__":
    unittest.main()
