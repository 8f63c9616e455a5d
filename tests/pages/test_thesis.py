"""experiments/pages/thesis.py: what is published, which families count, and the tables of whole families."""

import functools
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

import thesis  # noqa: E402
from parts import thesis_claims, thesis_pictures, thesis_tables  # noqa: E402
from parts.thesis_runs import (  # noqa: E402
    AGENTS,
    EMBEDDINGS,
    GPUS,
    TUNED_AGENTS,
    Runs,
    allowed,
    improvement,
    published_figures,
    seconds_of_a_gain,
)
from shared.archive import BadInput, Report, Trial, Trials  # noqa: E402
from shared.claims import judged  # noqa: E402

BEST = {"annealing": 500, "local search": 510, "pgnn": 650, "graphsage": 700, "placeto": 750, "random walk": 660}


def trial(family, label, gpus, index, seed, best):
    spec = {
        "agent": {"label": label, "name": label.partition(",")[0]},
        "seed": seed,
        "budget": {"episodes": 20},
        "graph": {"dataset": family, "seed": 42, "index": index},
        "cluster": {"devices": [f"gpu:{number}" for number in range(gpus)]},
    }
    episodes = [
        {"argmax": True, "entropy": 0.5, "mean_step_time_us": None},
        {"argmax": False, "entropy": 0.7, "mean_step_time_us": None},
        {"argmax": False, "entropy": 0.9, "mean_step_time_us": None},
    ]
    graph = {
        "num_devices": gpus,
        "num_groups": 100 + index,
        "best_step_time_us": best * 1000,
        "single_device_step_time_us": 1000000,
        "lower_bound_us": 1000000 / gpus,
        "trace": [[1, 1000000], [150, best * 1000], [2001, best * 1000]],
        "episodes": episodes,
    }
    timing = {"policy_seconds": 1.0, "simulator_seconds": 0.5, "policy_seconds_per_episode": 0.05}
    return Trial({"spec": spec, "graphs": [graph], "revision": "0123456789"}, timing)


class FakeArchive:
    """Two graphs and two seeds for each cell. Its report has the means of the trials."""

    name = "fake"

    def __init__(self, families, tuned=()):
        self.trials = Trials(
            trial(family, label, gpus, index, seed, BEST[label.partition(",")[0]] + 2 * index + 10 * seed)
            for family in families
            for label in (AGENTS | TUNED_AGENTS if family in tuned else AGENTS)
            for gpus in GPUS
            for index in (1, 2)
            for seed in (1, 2)
        )

    def where(self, *conditions):
        return self.trials.where(*conditions)

    @functools.lru_cache
    def report(self, *conditions):
        trials = self.where(*conditions)
        families = sorted({one.get("graph.dataset") for one in trials})
        values = {
            "pc_ratio": lambda t: improvement(t) / 0.05,
            "policy_seconds": lambda t: t.timing["policy_seconds_per_episode"],
        }
        values |= {"lower_bound_ratio": lambda t: t.ratio}
        rows = []
        for metric in ("improvement", "thesis_improvement", "policy_seconds", "pc_ratio", "lower_bound_ratio"):
            value = values.get(metric, improvement)
            for label in dict.fromkeys(one.label for one in trials):
                cells = {"overall": ("agent.label=" + label,)} if len(families) > 1 else {}
                for family in families:
                    counts = sorted({one.gpus for one in trials})
                    start = f"{family}, " if len(families) > 1 else ""
                    own = ("agent.label=" + label, "graph.dataset=" + family)
                    cells["all" if len(counts) == 1 else start + "average"] = own
                    cells |= {f"{start}{gpus} GPUs": (*own, f"gpus={gpus}") for gpus in counts}
                for column, where in cells.items():
                    mean = trials.where(*where).mean(value)
                    rows.append(
                        {"metric": metric, "agent": label, "column": column, "mean": mean, "low_95": mean - 1}
                        | {"high_95": mean + 1, "published": ""}
                    )
        return Report(rows)


def runs_of(*families, tuned=()):
    return Runs(FakeArchive(families, tuned), published_figures(), runs_of_a_cell=4)


def rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


class PublishedTest(unittest.TestCase):
    def test_figures_are_those_of_the_tables(self):
        published = published_figures()
        self.assertEqual(published["thesis_improvement", "pgnn", "nmt", 8], 42.399)
        self.assertEqual(published["policy_seconds", "placeto", "ptb", 0], 328.0)
        self.assertEqual(published["pc_ratio", "graphsage", "", 0], 0.368)
        self.assertEqual(len(published), 3 * (3 * (4 + 4 + 1) + 3))


class RunsTest(unittest.TestCase):
    def test_only_whole_clusters_count(self):
        archive = FakeArchive(["nmt", "ptb"])
        for trial in archive.where("graph.dataset=ptb", "seed=2", "gpus=5", "gpus=8", "agent.label=annealing"):
            archive.trials.remove(trial)
        runs = Runs(archive, published_figures(), runs_of_a_cell=4)
        self.assertEqual(runs.counts, {"cifar10": [], "nmt": GPUS, "ptb": [3]})
        self.assertEqual((runs.families, runs.all_there), (["nmt", "ptb"], False))
        self.assertAlmostEqual(runs.cell("improvement", "annealing", "nmt").mean, 48.2)
        self.assertAlmostEqual(runs.cell("improvement", "annealing", "ptb").mean, 48.2)
        self.assertAlmostEqual(runs.cell("improvement", "annealing", "ptb", 3).mean, 48.2)
        for family, gpus in (("cifar10", 0), ("ptb", 8), ("", 0)):
            self.assertIsNone(runs.cell("improvement", "annealing", family, gpus).mean)
        self.assertEqual(runs.published_value("thesis_improvement", "pgnn", "ptb"), 17.930)
        self.assertEqual(runs.published_value("thesis_improvement", "pgnn", "nmt"), 37.327)
        self.assertIn("17.9", " ".join(thesis.main_table(runs)))
        self.assertIn("ptb, 3 GPUs", thesis_pictures.all_pictures(runs)["thesis_graphs.svg"])
        self.assertEqual(len(thesis_tables.all_tables(runs)[1]["bounds"]), 2 + 4)

    def test_without_a_whole_family_the_archive_is_refused(self):
        with self.assertRaisesRegex(BadInput, "fake: no family has all runs of each agent"):
            Runs(FakeArchive(["nmt"]), {}, runs_of_a_cell=5)

    def test_all_three_have_an_overall_value(self):
        runs = runs_of("cifar10", "nmt", "ptb")
        self.assertTrue(runs.all_there)
        self.assertAlmostEqual(runs.cell("improvement", "annealing", "").mean, 48.2)
        self.assertAlmostEqual(runs.cell("improvement", "annealing", "ptb", 5).mean, 48.2)

    def test_values_are_by_graph_and_seed(self):
        found = runs_of("nmt").over_graphs("annealing", "nmt", 3, improvement)
        self.assertEqual(sorted(found), [1, 2])
        for value, expected in zip(found[2], [48.6, 47.6]):
            self.assertAlmostEqual(value, expected)
        self.assertAlmostEqual(runs_of("nmt").trials("annealing", ["nmt"], [8]).mean(allowed), 87.5)


class TableTest(unittest.TestCase):
    def test_a_family_that_is_missing_is_a_dash(self):
        main = rows(thesis.main_table(runs_of("nmt")))
        self.assertEqual(main[0][:2] + main[0][3:], ["annealing", "–", "–", "–"])
        self.assertEqual(main[0][2], "**48.2** [47.2, 49.2]")
        pgnn = next(row for row in main if row[0] == "P-GNN, as published")
        self.assertEqual(pgnn[1:], ["– (35.3)", "33.2 [32.2, 34.2] (37.3)", "– (20.9)", "– (31.2)"])

    def test_ours_stand_beside_the_published_cells(self):
        table = rows(thesis_tables.all_tables(runs_of("nmt"))[1]["improvements"])
        self.assertEqual(table[2][1:4], ["P-GNN", "33.2 / 33.2 (30.2)", "33.2 / 33.2 (39.4)"])
        self.assertEqual(table[6][-1], "– / – (31.2)")
        ratios = rows(thesis_tables.all_tables(runs_of("nmt"))[1]["ratios"])
        self.assertEqual(ratios[2][2], "664 / 664 (0.633)")  # 30.232 / 47.787

    def test_the_summary_has_the_changes_of_the_thesis(self):
        summary = rows(thesis_tables.summary_table(runs_of("cifar10", "nmt", "ptb")))
        self.assertEqual(summary[3][2:6], ["25.4", "+1.2 %", "143.3", "+11.6 %"])
        self.assertEqual(summary[6][2:8], ["31.2", "+24.0 %", "173.3", "−7.0 %", "0.387", "+14.2 %"])

    def test_seeds_and_their_order(self):
        table, figures = thesis_tables.seed_table(runs_of("nmt"))
        self.assertEqual(rows(table)[0][1:3], ["annealing", "48.2 (47.7 to 48.7)"])
        self.assertAlmostEqual(figures["nmt.annealing.3.seeds.span"], 1.0)
        self.assertAlmostEqual(figures["nmt.annealing.seeds.deviation"], 0.5**0.5)
        self.assertEqual(rows(thesis_tables.order_table(runs_of("nmt")))[0][3:], ["P-GNN, GraphSAGE, Placeto"] * 2)


class ClaimTest(unittest.TestCase):
    def test_claims_are_judged_by_the_rule(self):
        runs = runs_of("nmt", "ptb")
        pairs = [(f"{one}, as published", f"{other}, as published") for one, other in thesis_claims.CLAIMS]
        wide = thesis_claims.scopes(runs, runs.families)
        found = thesis_claims.found_of(runs, wide, pairs)
        self.assertEqual(sorted({scope for scope, _, _ in found}), ["nmt", "nmt + ptb", "ptb"])
        first = found["nmt", *pairs[0]]
        self.assertLess(first.change, -10)
        self.assertIsNone(first.p)  # two graphs
        self.assertTrue(first.text().endswith(", 2 of 2"))
        table = rows(thesis_claims.pair_table(runs, wide, {"as published": found, "corrected": dict(recoded(found))}))
        self.assertEqual(table[0][:2], ["nmt", "P-GNN before Placeto"])
        self.assertEqual(table[2][1], "Placeto before GraphSAGE")  # as the thesis has it on nmt
        self.assertEqual([table[0][4], table[2][4]], ["holds", "does not come out"])
        self.assertEqual(table[8][:2], ["", "GraphSAGE ties with Placeto"])

    def test_what_no_placement_gains_cannot_be_tested(self):
        published = {
            **published_figures(),
            ("thesis_improvement", "pgnn", "ptb", 0): 50.0,
        }  # annealing finds 48.8 % at most
        runs = Runs(FakeArchive(["cifar10", "nmt", "ptb"]), published, runs_of_a_cell=4)
        self.assertEqual([thesis_claims.reachable(runs, family) for family in runs.families], [True, True, False])
        scopes = thesis_claims.scopes(runs, runs.families)
        self.assertEqual(list(scopes), ["cifar10", "nmt", "ptb", "all three", "cifar10 + nmt"])
        self.assertEqual(scopes["cifar10 + nmt"], ["cifar10", "nmt"])
        figures, tables = thesis_claims.all_claims(runs)
        verdicts = [row[4] for row in rows(tables["claims"]) if row[1] == "P-GNN before Placeto"]
        self.assertEqual(verdicts, ["holds", "holds", "cannot be tested here", "cannot be tested here", "holds"])
        self.assertEqual(figures["all.pgnn_corrected.random_walk.faster"], 6)

    def test_a_published_effect_is_of_what_is_left_of_the_step(self):
        published = {("thesis_improvement", "pgnn", "nmt", gpus): 50 for gpus in GPUS}
        published |= {("thesis_improvement", "placeto", "nmt", gpus): 0 for gpus in GPUS}
        effect = thesis_claims.published_effect(Runs(FakeArchive(["nmt"]), published, 4), ["nmt"], "pgnn", "placeto")
        self.assertAlmostEqual(effect, -69.3147, places=3)

    def test_without_runs_of_the_best_settings_claims_are_open(self):
        for tuned in ((), ("nmt",)):
            listed = thesis_claims.claims(runs_of("nmt", "ptb", tuned=tuned))
            self.assertEqual({text for _, _, text in judged(listed)}, {"open"})
            self.assertEqual(listed[0].as_published.graphs, 4)

    def test_the_rule_is_on_the_families_that_can_test(self):
        archive = FakeArchive(["nmt", "ptb"], ["nmt", "ptb"])
        for each in archive.where("agent.label=pgnn, tuned"):
            each.graph["best_step_time_us"] *= 1.2
            each.timing["policy_seconds_per_episode"] = 0.005
        for each in archive.where("agent.label=placeto, tuned", "gpus=8"):
            each.graph["best_step_time_us"] *= 0.5
        runs = Runs(archive, published_figures(), 4)
        verdicts = {claim.name: text for claim, _, text in judged(thesis_claims.claims(runs))}
        self.assertEqual(verdicts["pgnn.placeto"], "does not come out")
        self.assertEqual(verdicts["graphsage.placeto"], "does not come out")
        # Seconds are those of another machine and program.
        self.assertEqual([verdicts["ratio.placeto"], verdicts["ratio.graphsage"]], ["cannot be tested here"] * 2)
        self.assertEqual([verdicts["devices.placeto"], verdicts["devices.pgnn"]], ["holds", "does not come out"])
        listed = {claim.name: claim for claim in thesis_claims.claims(runs)}
        self.assertLess(listed["pgnn.placeto"].as_published.mean, -10)  # another code, another effect
        self.assertLess(listed["ratio.placeto"].found.high, 0)
        self.assertAlmostEqual(listed["ratio.placeto"].expected, 100 * ratio_of_cells("placeto"), places=6)
        tables = thesis_claims.all_claims(runs)[1]
        self.assertEqual(tables["claims_tuned"][0].count("verdict"), 1)
        self.assertEqual(rows(tables["controls_tuned"])[2][1], "P-GNN")
        devices = rows(tables["devices"])
        self.assertEqual([row[1] for row in devices[3:5]], ["random walk, no network", "annealing, no network"])
        self.assertEqual(devices[0][5], "−50.0 [−50.0, −50.0], 2 of 2")
        self.assertEqual(devices[4][3:], ["0.0 [0.0, 0.0], 0 of 2", "", ""])

    def test_a_family_without_the_best_settings_is_a_dash(self):
        runs = runs_of("cifar10", "nmt", tuned=["nmt"])
        table = {row[0]: row for row in rows(thesis.main_table(runs))}
        self.assertEqual(table["P-GNN, best settings"][1:], ["–", "33.2 [32.2, 34.2]", "–", "–"])
        tuned = rows(thesis_tables.tuned_table(runs))
        self.assertEqual(
            [row[:2] for row in tuned[:2]], [["nmt", "Placeto, best settings"], ["", "GraphSAGE, best settings"]]
        )
        self.assertEqual(len(tuned), 4)
        self.assertEqual(tuned[0][5], "23.2 [22.2, 24.2]")
        ran = rows(thesis_tables.run_table(runs))
        self.assertEqual(
            [row[:3] for row in ran[::2]], [["cifar10", "3 / 5 / 8", "108"], ["nmt, best settings", "3 / 5 / 8", "48"]]
        )
        figures = thesis.family_figures(runs)
        self.assertAlmostEqual(figures["nmt.placeto_tuned"], 23.2)
        self.assertNotIn("cifar10.placeto_tuned", figures)

    def test_without_a_gain_there_is_no_ratio(self):
        self.assertIsNone(seconds_of_a_gain(trial("nmt", "pgnn, tuned", 3, 1, 1, 1000)))
        self.assertAlmostEqual(seconds_of_a_gain(trial("nmt", "pgnn, tuned", 3, 1, 1, 500)), 0.001)

    def test_published_effects_are_weighted_by_our_graphs(self):
        runs = Runs(FakeArchive(["nmt", "ptb"]), published_figures(), 4)
        runs.num_graphs = {"nmt": 17, "ptb": 8}.get
        self.assertAlmostEqual(thesis_claims.over_families(runs, ["nmt", "ptb"], {"nmt": 1.0, "ptb": 4.5}.get), 2.12)
        self.assertEqual(runs_of("nmt").num_graphs("nmt"), 2)

    def test_more_devices_are_compared_on_the_same_graphs(self):
        archive = FakeArchive(["nmt", "ptb"])
        for each in archive.where("gpus=8", "agent.name=pgnn"):
            each.graph["best_step_time_us"] *= 0.9
        for each in archive.where("gpus=8", "graph.dataset=ptb", "agent.label=annealing"):
            archive.trials.remove(each)
        table = rows(thesis_claims.device_table(Runs(archive, published_figures(), 4))[0])
        self.assertEqual(table[2][1:3], ["P-GNN", "−17.4"])  # what is left: 57.601 of 69.768
        self.assertEqual(table[2][3], "−10.0 [−10.0, −10.0], 2 of 2")
        self.assertEqual(table[0][3], "0.0 [0.0, 0.0], 0 of 2")
        self.assertEqual(table[5][3:], ["–", "–"])


def ratio_of_cells(other):
    """Mean logarithm of Placeto's P-C ratio over P-GNN's in the thesis's cells of nmt and ptb."""
    published = published_figures()

    def ratio(agent, family, gpus):
        return published["thesis_improvement", agent, family, gpus] / published["policy_seconds", agent, family, gpus]

    cells = [(family, gpus) for family in ("nmt", "ptb") for gpus in GPUS]
    return sum(math.log(ratio(other, *cell) / ratio("pgnn", *cell)) for cell in cells) / len(cells)


def recoded(found):
    for (scope, *pair), each in found.items():
        yield (scope, *(label.replace("as published", "corrected") for label in pair)), each


class PictureTest(unittest.TestCase):
    def test_pictures_show_each_family_that_is_there(self):
        one, two = (thesis_pictures.all_pictures(runs_of(*families)) for families in (["nmt"], ["nmt", "ptb"]))
        self.assertEqual(sorted(one), sorted(two))
        for name, text in one.items():
            self.assertIn("nmt" if name != "thesis_seconds.svg" else "8 GPUs", text)
            self.assertGreater(two[name].count("\n"), text.count("\n"))
        self.assertNotIn("all three", two["thesis_improvement.svg"])
        for name in EMBEDDINGS.values():
            self.assertIn(f"{name}, published", one["thesis_improvement.svg"])

    def test_an_episode_is_a_pass_over_the_groups(self):
        one = trial("nmt", "annealing", 3, 1, 1, 500)  # found after 150 evaluations, with 101 groups
        self.assertEqual([thesis_pictures.after(one, episode) for episode in (0, 1, 2)], [1, 1, 0.5])


if __name__ == "__main__":
    unittest.main()
