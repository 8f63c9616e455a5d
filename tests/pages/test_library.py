"""experiments/pages: ratios to the best known step of an instance, and a shootout on instances that is not complete."""

import math
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

import library_shootout  # noqa: E402
from parts.library_shootout import EIGHT, Runs, corrected  # noqa: E402
from parts.library_tables import learned_table, long_instance_table, long_table, main_table  # noqa: E402
from parts.library_tables import nothing_table, test_table  # noqa: E402
from shared.archive import BadInput, Trial, Trials  # noqa: E402
from shared.library import best_known_ratio, instance_of, read_library  # noqa: E402

LIBRARY = read_library()
FOUR, EIGHT_OF_IT, LAYERED = "fork-82-equal-4", "fork-82-equal-8", "layered-50-equal-4"


def trial(label, budget, instance, seed=1, ratio=1.0, groups=50, ops=50):
    """Whose best step is `ratio` times the best known one; None: nothing fits."""
    agent = label.rpartition(" on ")[0].replace(" ", "_")
    spec = {
        "agent": {"label": label, "name": agent},
        "seed": seed,
        "budget": {"evaluations": budget},
        "graph": {"instance": instance},
        "cluster": {"devices": [f"gpu:{index}" for index in range(8 if instance.endswith("8") else 4)]},
    }
    best = None if ratio is None else ratio * LIBRARY[instance].best_known * 1000
    graph = {"best_step_time_us": best, "num_groups": groups, "num_ops": ops, "evaluations": budget}
    return Trial({"spec": spec, "graphs": [graph]}, {"policy_seconds": 0.25, "simulator_seconds": 0.5})


class Runnable:
    """What a page needs of an archive."""

    name = "shootout_library"

    def __init__(self, *trials):
        self.trials = Trials(trials)


def on_all(label, budget, *ratios):
    """On three instances, in the order of FOUR, EIGHT_OF_IT, LAYERED."""
    return [trial(label, budget, instance, ratio=r) for instance, r in zip((FOUR, EIGHT_OF_IT, LAYERED), ratios)]


class LibraryTest(unittest.TestCase):
    def test_every_instance_has_its_recipe_and_its_best_known_step(self):
        rows = (Path(os.environ["EMPLACE_ROOT"]) / "datasets/library/instances.yaml").read_text().count("  - {name: ")
        self.assertEqual(len(LIBRARY), rows)
        fork = LIBRARY[FOUR]
        self.assertEqual((fork.ops, fork.family), (82, "synthetic: fork_join"))
        self.assertEqual(fork.graph, LIBRARY[EIGHT_OF_IT].graph)
        self.assertGreaterEqual(fork.best_known, fork.lower_bound)
        self.assertEqual(LIBRARY["inception-v3-p2-4"].family, "model: inception_v3")

    def test_a_row_that_cannot_be_read_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "best_known.yaml").write_text("results:\n  - {broken\n", encoding="utf-8")
            with self.assertRaisesRegex(BadInput, r"best_known.yaml:2: is not a row"):
                read_library(Path(folder))
            Path(folder, "best_known.yaml").unlink()
            with self.assertRaisesRegex(BadInput, "cannot be read"):
                read_library(Path(folder))

    def test_the_ratio_is_at_most_ten_and_ten_where_nothing_fits(self):
        for ratio, expected in [(1.5, 1.5), (0.9, 0.9), (11, 10), (None, 10)]:
            self.assertAlmostEqual(best_known_ratio(trial("random on ops", 1, FOUR, ratio=ratio), LIBRARY), expected)
        self.assertEqual(instance_of(trial("random on ops", 1, FOUR), LIBRARY).name, FOUR)
        with self.assertRaisesRegex(BadInput, "fork-82-equal-4 is not an instance"):
            best_known_ratio(trial("random on ops", 1, FOUR), {})


class RunsTest(unittest.TestCase):
    def test_agents_that_evaluate_nothing_count_with_every_budget(self):
        runs = Runs(Runnable(*on_all("heft on ops", 1, 2, 2, 4), *on_all("annealing on ops", 100, 1, 1, 1)))
        self.assertEqual(runs.order(100), ["annealing on ops", "heft on ops"])
        self.assertEqual(runs.order(1), ["heft on ops"])
        self.assertAlmostEqual(math.exp(runs.mean("heft on ops", 100).mean / 100), 16 ** (1 / 3))
        self.assertAlmostEqual(runs.mean_on("heft on ops", 100, [FOUR]), 2)

    def test_an_agent_that_lacks_an_instance_is_shown_with_their_number_and_cannot_be_best(self):
        runs = Runs(Runnable(*on_all("annealing on ops", 1, 2, 2, 2), *on_all("random on ops", 1, 1)))
        self.assertEqual(runs.complete(1), ["annealing on ops"])
        table = main_table(runs, "ops")
        self.assertIn("| `annealing` | **2.00** [2.00, 2.00] |", table)
        self.assertIn("| `random` | 1.00 [1.00, 1.00] (1 of 3) |", table)
        self.assertIsNone(runs.mean_on("random on ops", 1, [FOUR, LAYERED]))

    def test_ranks_share_places_and_put_nothing_last(self):
        runs = Runs(
            Runnable(
                trial("annealing on ops", 1, FOUR, ratio=1),
                trial("random on ops", 1, FOUR, ratio=1),
                trial("post on ops", 1, FOUR, ratio=None),
            )
        )
        self.assertEqual(runs.ranks(1), {"annealing on ops": 1.5, "random on ops": 1.5, "post on ops": 3})
        self.assertEqual(runs.nothing("post on ops", 1), {FOUR})
        self.assertIsNone(runs.step_time("post on ops", 1, FOUR))
        self.assertEqual(nothing_table(runs)[2:], ["| `post` on ops | 1 |"])

    def test_kinds_and_pairs_of_four_and_eight_devices_are_those_of_the_library(self):
        runs = Runs(Runnable(*on_all("random on ops", 1, 1, 1, 1)))
        self.assertEqual(runs.instances, [name for name in LIBRARY if name in (FOUR, EIGHT_OF_IT, LAYERED)])
        self.assertEqual(runs.eights(), [(FOUR, EIGHT_OF_IT)])
        kinds = runs.kinds()
        self.assertEqual(kinds["layered graphs"], [LAYERED])
        self.assertEqual(set(kinds["forks, trees, chains"]), {FOUR, EIGHT_OF_IT})
        self.assertEqual((kinds[EIGHT], kinds["networks"]), ([EIGHT_OF_IT], []))

    def test_what_is_compared(self):
        labels = ("annealing on groups", "random walk on groups", "post on groups")
        trials = [each for label in labels for budget in (10, 100) for each in on_all(label, budget, 1, 1, 1.5)]
        trials += on_all("post on groups", 1000, 1, 2, None)
        runs = Runs(Runnable(*trials, *on_all("random walk on groups", 1000, 2, 2, 1)))
        pairs = {(each.budget, each.first, each.second) for each in runs.comparisons}
        self.assertIn((100, "post on groups", "annealing on groups"), pairs)
        self.assertNotIn((10, "post on groups", "random walk on groups"), pairs)
        against_walk = runs.learned(1000, "post on groups", "random walk")
        # The two forks are one graph; of the layered one Post found nothing.
        self.assertAlmostEqual(against_walk.effect.mean, -100 * math.log(2) / 2)
        self.assertEqual((against_walk.effect.graphs, against_walk.effect.left_out), (1, 1))
        self.assertEqual((against_walk.p, against_walk.word), (None, "level with"))
        self.assertIsNone(runs.learned(1000, "post on groups", "annealing"))
        self.assertTrue(any("| 0 of 1 |" in line or "| 1 of 1 |" in line for line in test_table(runs)))
        self.assertIsNone(runs.compare(1000, "post on groups", "random walk on groups", only={LAYERED}))
        self.assertEqual(corrected([None]), [])

    def test_agents_that_learn_are_shown_on_the_instances_of_all_of_them(self):
        trials = [
            *on_all("post on groups", 1000, 1, 2, 4),
            *on_all("random walk on groups", 1000, 2, 2, 2),
            *on_all("random on ops", 1000, 1, 1, 1),
            trial("sgdp on groups", 1000, EIGHT_OF_IT, ratio=None),
            trial("sgdp on groups", 1000, LAYERED, ratio=2),
        ]
        runs = Runs(Runnable(*trials))
        self.assertEqual(set(runs.learned_on(1000)), {EIGHT_OF_IT, LAYERED})
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in learned_table(runs)]
        self.assertEqual(table[0][1], "ratio on 2 instances")
        self.assertEqual(
            [row[0] for row in table[2:]],
            ["`random` on ops", "`random_walk` on groups", "`post` on groups", "`sgdp` on groups"],
        )
        self.assertTrue(table[4][1].startswith("2.83 ["))
        self.assertEqual([row[2] for row in table[2:]], ["0", "0", "0", "1"])
        self.assertEqual(table[5][3:], ["0.25", "0.75"])
        self.assertEqual(len(learned_table(Runs(Runnable(*on_all("random on ops", 1000, 1, 1, 1))))), 2)
        apart = [trial("post on groups", 1000, FOUR), trial("sgdp on groups", 1000, LAYERED)]
        self.assertEqual(len(learned_table(Runs(Runnable(*apart)))), 2)
        alone = [*on_all("post on groups", 1000, 1, 2, 4), trial("random walk on groups", 1000, FOUR)]
        self.assertEqual(len(learned_table(Runs(Runnable(*alone)))), 2 + 1)

    def test_many_evaluations_stand_beside_the_largest_other_budget_on_the_same_instances(self):
        runs = Runs(Runnable(*on_all("post on ops", 100, 2, 2, 8), *on_all("annealing on ops", 100, 1.5, 1.5, 8)))
        pairs = [("post on ops", 1.5, 3), ("annealing on ops", 1.0005, 1.5)]
        minute = Runs(
            Runnable(*(trial(label, 5000, FOUR, seed, r) for label, *of in pairs for seed, r in enumerate(of)))
        )
        self.assertEqual(
            [[cell.strip() for cell in line.strip("|").split("|")] for line in long_table(runs, minute)][::2],
            [
                ["agent", "100 evaluations", "5,000", "at the best known step", "CPU s, mean and longest"],
                ["`annealing` on ops", "1.50 [1.50, 1.50]", "1.23 [1.00, 1.50]", "1 of 1", "0.75, 0.75"],
            ],
        )
        self.assertEqual(long_instance_table(minute)[2:], [f"| `{FOUR}` | **1.225** | 2.121 |"])

    def test_ops_against_groups_is_of_instances_where_they_differ(self):
        runs = Runs(
            Runnable(
                *on_all("annealing on ops", 100, 1, 1, 1),
                trial("annealing on groups", 100, FOUR, ratio=3),
                trial("annealing on groups", 100, LAYERED, ratio=2, groups=10),
            )
        )
        self.assertEqual(runs.merged, {LAYERED})
        (found,) = runs.ops_or_groups
        self.assertAlmostEqual(found.effect.mean, -100 * math.log(2))

    def test_a_label_says_what_is_placed(self):
        with self.assertRaisesRegex(BadInput, "random: a label ends with"):
            Runs(Runnable(trial("random", 1, FOUR)))


class PageTest(unittest.TestCase):
    def described(self, *trials):
        archive = Runnable(*trials)
        for each in archive.trials:
            each.record["revision"] = "0123456789"

        class Source:
            @staticmethod
            def archive(name):
                return archive

        return library_shootout.describe(Source)

    def test_the_answer_names_the_best_of_each_budget_and_kind(self):
        figures, tables = self.described(
            *on_all("heft on ops", 1, 2, 2, 1.25),
            *on_all("annealing on ops", 10, 1, 1, 1.5),
            *on_all("annealing on ops", 1000, 1, 1, 1.5),
        )
        answer = "\n".join(tables["answer"])
        self.assertIn("- `annealing` on ops is the best agent with 10 and 1,000 evaluations.", answer)
        self.assertIn("  Its steps take 1.14 and 1.14 times the best known ones.", answer)
        self.assertIn("is the best on 2 of 3 kinds of instances.\n  On layered graphs it is `heft` on ops.", answer)
        self.assertIn("on 1 of 1 graphs that have both", answer)
        self.assertEqual((figures["leader.middle"], figures["leader.middle.placed"]), ("`annealing`", "ops"))
        self.assertEqual((figures["graphs"], figures["instances"], figures["records"]), (2, 3, 0))

    def test_one_agent_with_one_budget_is_enough(self):
        figures, tables = self.described(trial("random on groups", 10, LAYERED, ratio=0.5))
        self.assertEqual((figures["middle"], figures["records"]), (10, 1))
        self.assertEqual(tables["ops"][2:], ["| instances | 1 |"])
        self.assertEqual(len(tables["tests"]), 2)


if __name__ == "__main__":
    unittest.main()
