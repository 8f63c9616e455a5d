"""experiments/pages/parts/placeto_transfer.py: what a policy places that it has not seen, and the claims on it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from parts.placeto_transfer import METHODS, Placements, transfer, transfer_claims  # noqa: E402
from shared.archive import BadInput, Trial, Trials  # noqa: E402
from shared.claims import judged  # noqa: E402

FAMILIES = ["cifar10", "nmt", "ptb"]
TIMES = {
    "trained on others": 600,
    "not trained": 900,
    "trained on the graph": 610,
    "METIS": 700,
    "a random placement": 950,
}


def graph_record(family, index, time=None):
    record = {"graph": f"{family}_{index:02}", "num_devices": 5, "single_device_step_time_us": 1000e3}
    return record if time is None else record | {"step_time_us": time * 1e3}


def trials(family, label, seed):
    time = TIMES[label.partition(",")[0]] + seed
    spec = {
        "agent": {"label": label, "name": "placeto"},
        "seed": seed,
        "graph": {"dataset": family},
        "cluster": {"devices": ["gpu:0"]},
    }
    timing = {"policy_seconds": 1.0, "simulator_seconds": 0.5}
    if "others" in label or "not" in label:
        placed = [graph_record(family, index, time + index) for index in (1, 4, 7, 12)]
        record = {"spec": spec, "revision": "0123456789", "graphs": [graph_record(family, 2), graph_record(family, 3)]}
        return [Trial(record | {"transfer": placed}, timing, index) for index in (0, 1)]
    found = []
    for index in (1, 4, 7, 12):
        graph = graph_record(family, index) | {"best_step_time_us": 1e3}
        if "trained" in label:
            ends = [5e3, (time + index) * 1e3]
            graph["episodes"] = [{"argmax": end > 5e3, "step_time_us": end} for end in ends]
        else:
            graph["best_step_time_us"] = (time + index) * 1e3
        found.append(Trial({"spec": spec, "revision": "0123456789", "graphs": [graph]}, timing))
    return found


class FakeSource:
    name = "placeto_transfer"

    def __init__(self, leave_out=""):
        self.trials = Trials(
            trial
            for family in FAMILIES
            for label in METHODS
            for seed in ([1] if label == "METIS" else [1, 2, 3, 4, 5])
            for trial in trials(family, label, seed)
            if label != leave_out or seed != 5 and (label != "METIS" or trial.graph["graph"] != "nmt_04")
        )

    def archive(self, name):
        assert name == self.name
        return self

    def expect_labels(self, labels):
        unknown = {trial.label for trial in self.trials} - set(labels)
        if unknown:
            raise BadInput(f"no place for {unknown}")


class TransferTest(unittest.TestCase):
    def test_what_is_placed_is_each_graph_of_the_test_half(self):
        placed = Placements(FakeSource()).of("trained on others")
        self.assertEqual(len(placed), 3 * 4 * 5)
        self.assertEqual([placed[0].graph, placed[0].seed, placed[0].step_time], ["cifar10_01", 1, 602])

    def test_a_policy_of_the_graph_itself_counts_where_its_last_episode_ends(self):
        placed = Placements(FakeSource()).of("trained on the graph, best settings")
        self.assertEqual(placed[0].step_time, 612)

    def test_the_claims_are_judged_by_the_rule(self):
        listed = judged(transfer_claims(FakeSource()))
        self.assertEqual([verdict for _, _, verdict in listed], ["holds", "holds", "holds"])
        self.assertEqual([claim.found.graphs for claim, _, _ in listed], [12, 12, 12])
        self.assertLess(listed[0][0].found.mean, -45)
        self.assertIsNone(listed[2][0].as_published)  # a policy of the graph has not run with the paper's settings

    def test_a_claim_with_a_seed_missing_is_open(self):
        listed = judged(transfer_claims(FakeSource(leave_out="not trained, best settings")))
        self.assertEqual([verdict for _, _, verdict in listed], ["holds", "open", "holds"])

    def test_the_table_has_means_over_graphs_and_seeds(self):
        figures, tables = transfer(FakeSource())
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables["transfer"]]
        self.assertEqual(rows[0], ["method", *FAMILIES, "all"])
        self.assertEqual(rows[2], ["trained on others, best settings", *["**39.1**"] * 4])
        self.assertEqual(rows[7][1], "29.3")
        self.assertAlmostEqual(figures["transfer.all.a_random_placement"], 100 * (1 - 0.959))
        self.assertEqual(figures["transfer.against.METIS.faster"], 12)
        self.assertLess(figures["transfer.against.a_random_placement.change"], -30)
        self.assertEqual(figures["transfer.trials"], 3 * (4 * 5 + 4 * 5 + 4 * 5 + 4))

    def test_what_cannot_be_read_is_refused(self):
        drawn = FakeSource()
        drawn.trials.where("agent.label=trained on the graph, best settings")[3].graph["episodes"].pop()
        with self.assertRaisesRegex(
            BadInput, "trained on the graph, best settings: cifar10_.*the last episode is drawn"
        ):
            Placements(drawn)
        large = FakeSource()
        large.trials.where("agent.label=not trained")[0].transfers[1]["step_time_us"] = None
        with self.assertRaisesRegex(BadInput, "placeto_transfer: not trained: cifar10_04: a placement does not fit"):
            Placements(large)

    def test_a_graph_twice_and_another_one_never_is_not_whole(self):
        source = FakeSource(leave_out="METIS")
        self.assertFalse(Placements(source).whole("METIS"))
        source.trials.append(source.trials.where("agent.label=METIS")[0])
        self.assertEqual(len(Placements(source).of("METIS")), 12)
        self.assertFalse(Placements(source).whole("METIS"))

    def test_methods_that_are_not_whole_have_a_dash(self):
        tables = transfer(FakeSource(leave_out="a random placement"))[1]
        self.assertEqual(tables["transfer"][-1].count("–"), 4)


if __name__ == "__main__":
    unittest.main()
