"""experiments/pages: the thesis's variants and controls, whose effects are known by construction."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from parts.thesis_controls import (
    FAST,
    LONG_WALK,
    VARIANTS_OF,
    Controls,
    longer,
    queueing,
    starts,
    variants,
)  # noqa: E402
from parts.thesis_runs import EMBEDDINGS, FAMILIES  # noqa: E402
from shared.archive import BadInput, Trial, Trials  # noqa: E402


def trial(label, family, index, seed, best, entropy=0.5, cluster=None):
    """On a graph whose step takes 1,000 ms on one GPU."""
    devices = {"devices": [f"gpu:{number}" for number in range(5)]}
    spec = {
        "agent": {"label": label, "name": label.partition(",")[0]},
        "seed": seed,
        "budget": {"episodes": 20},
        "graph": {"dataset": family, "seed": 42, "index": index},
        "cluster": {"file": cluster, **devices} if cluster else {"name": "p2.8xlarge", **devices},
    }
    graph = {
        "best_step_time_us": best * 1000,
        "single_device_step_time_us": 1000000,
        "episodes": [
            {"argmax": False, "entropy": entropy},
            {"argmax": True, "entropy": entropy, "step_time_us": 1.1 * best * 1000},
        ],
    }
    timing = {"policy_seconds": 30.0, "simulator_seconds": 30.0}
    return Trial({"spec": spec, "graphs": [graph], "revision": "0123456789"}, timing)


class FakeArchive:
    """The step time of each label, by place, in ms, on all graphs with all seeds."""

    name = "fake"

    def __init__(self, graphs, seeds, times, entropy=lambda label: 0.5):
        self.trials = Trials()
        for label, of_place in times.items():
            for place, best in of_place.items():
                cluster = "../clusters/p2-fast-links.yaml" if place == FAST else None
                family = place.partition(",")[0]
                self.trials += [
                    trial(label, family, index, seed, best, entropy(label), cluster)
                    for index in range(graphs)
                    for seed in range(1, seeds + 1)
                ]


def everywhere(time, *more):
    return {place: time for place in (*FAMILIES, *more)}


def rows(table):
    """The cells, with the first one of the row before where it is empty."""
    found = []
    for line in table[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


class ControlsTest(unittest.TestCase):
    def test_an_archive_that_is_not_whole_is_refused(self):
        archive = FakeArchive(3, 1, {"random walk": everywhere(700), "annealing": everywhere(500)})
        labels = ["random walk", "annealing"]
        with self.assertRaisesRegex(BadInput, "fake: its table has no place for annealing on cifar10"):
            Controls(archive, ["random walk"], FAMILIES, 3)
        with self.assertRaisesRegex(BadInput, "fake: heft: 0 trials on cifar10, 3 are expected"):
            Controls(archive, [*labels, "heft"], FAMILIES, 3)
        with self.assertRaisesRegex(BadInput, "fake: random walk: 3 trials on cifar10, 4 are expected"):
            Controls(archive, labels, FAMILIES, 4)
        del archive.trials[-1]
        with self.assertRaisesRegex(BadInput, "fake: annealing: 2 trials on ptb, 3 are expected"):
            Controls(archive, labels, FAMILIES, 3)

    def test_variants_are_compared_with_the_corrected_code(self):
        corrected = {"placeto": 800, "graphsage": 600, "pgnn": 500}
        times = {"random walk": everywhere(700)}
        for agent, endings in VARIANTS_OF.items():
            times |= {f"{agent}, {ending}": everywhere(corrected[agent]) for ending in endings}
            times[f"{agent}, sign"] = everywhere(1.1 * corrected[agent]) | {"cifar10": 100}  # which does not count
        times["pgnn, its authors'"] = everywhere(400)
        table, figures = variants(FakeArchive(2, 5, times))
        by_row = {(row[0], row[1]): row[2:] for row in rows(table)}
        self.assertEqual(len(by_row), 17)
        for name, gains in [
            ("Placeto", ["20.0", "12.0"]),
            ("GraphSAGE", ["40.0", "34.0"]),
            ("P-GNN", ["50.0", "45.0"]),
        ]:
            self.assertEqual(by_row[name, "as published"], [gains[0]] * 3 + ["0.50", "0.0 [0.0, 0.0]"])
            self.assertEqual(by_row[name, "corrected"][-1], "")
            sign = by_row[name, "the code's sign alone"]
            self.assertEqual(sign, ["90.0", gains[1], gains[1], "0.50", "+10.0 [10.0, 10.0]"])
        self.assertAlmostEqual(figures["variants.pgnn_its_authors.less"], 20)
        self.assertAlmostEqual(figures["variants.graphsage_text.walk.change"], -100 / 7)
        self.assertEqual(figures["variants.trials"], 510)
        self.assertAlmostEqual(figures["variants.cpu_minutes"], 510)

    def test_starts_are_compared_where_spreading_helps(self):
        times = {"random walk": everywhere(700, FAST)}
        entropies = {}
        for agent in EMBEDDINGS:
            for ending, time in [("untrained", 770), ("untrained, near uniform", 700), ("corrected", 693)]:
                label = f"{agent}, {ending}"
                times[label] = everywhere(time, FAST) | {"cifar10": 100}
                entropies[label] = 1 if "uniform" in ending else 0.004
        times["placeto, untrained"] = everywhere(840, FAST)
        tables, figures = starts(FakeArchive(8, 1, times, lambda label: entropies.get(label, 1)))
        tests = rows(tables["starts_tests"])
        self.assertEqual([row[1].partition(",")[0] for row in tests], ["+20.0 [20.0", "0.0 [0.0", "−17.5 [−17.5"])
        self.assertEqual([row[2].partition(",")[0] for row in tests], ["+10.0 [10.0", "0.0 [0.0", "−10.0 [−10.0"])
        self.assertTrue(tests[1][1].endswith("p 1.00"))
        self.assertEqual(figures["starts.graphs"], 24)  # cifar10's are counted on fast links alone
        table = rows(tables["starts"])
        gains = ["23.0", "90.0", "23.0", "23.0"]
        self.assertEqual(table[3], ["GraphSAGE", "untrained", *gains, "0.0040 / 0.0040 / 0.0040"])
        self.assertEqual(table[-1], ["random walk", "", "30.0", "30.0", "30.0", "30.0", "1"])

    def test_with_queues_rows_are_in_the_order_of_their_gain(self):
        times = {"random walk": everywhere(700), "annealing": everywhere(500)}
        times |= {f"{agent}, as published": everywhere(630 + index) for index, agent in enumerate(EMBEDDINGS)}
        table, figures = queueing(FakeArchive(8, 2, times))
        names = [row[0] for row in rows(table)]
        self.assertEqual(
            names, ["annealing", *(f"{name}, as published" for name in EMBEDDINGS.values()), "random walk"]
        )
        self.assertEqual(rows(table)[-1][-1], "–")
        self.assertAlmostEqual(figures["queueing.placeto_as_published.less"], 10)
        self.assertAlmostEqual(figures["queueing.placeto_as_published.high"], -10)

    def test_with_more_episodes_each_is_compared_with_a_walk_of_as_many_passes(self):
        times = {label: {"nmt": 600} for label in ("random walk", "local search", "annealing")}
        times[LONG_WALK] = {"nmt": 540}
        for agent in EMBEDDINGS:
            times |= {f"{agent}, {ending}": {"nmt": 540} for ending in ("corrected", "our settings")}
        table, figures = longer(FakeArchive(8, 2, times))
        by_agent = {row[0]: row[1:] for row in rows(table)}
        self.assertEqual(by_agent["P-GNN, our settings"], ["46.0", "0.0 [0.0, 0.0], p 1.00", "40.6", "0.50"])
        self.assertTrue(by_agent["P-GNN, corrected"][1].startswith("−10.0 [−10.0, −10.0], p "))
        self.assertTrue(by_agent["annealing"][1].startswith("+11.1 [11.1, 11.1], p "))
        self.assertEqual(by_agent["annealing"][2:], ["–", "–"])
        self.assertEqual([by_agent[f"random walk, {passes} passes"][1] for passes in (240, 300)], ["–", "–"])
        self.assertAlmostEqual(figures["long.placeto_corrected.less"], 10)
        self.assertEqual(figures["long.placeto_corrected.faster"], figures["long.graphs"])


if __name__ == "__main__":
    unittest.main()
