"""Tests of experiments/pages/parts/sgdp.py: networks, policies for several of them, transfer and a large graph."""
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from parts.sgdp import (
    BEST,
    ROWS,
    TABLE_2,
    TRANSFERRED,
    batch,
    large,
    row_of,
    several_claims,
    title,
    transfer,
    zero_shot,
)  # noqa: E402
from shared.archive import BadInput, NamedTrials, Trial  # noqa: E402

GRAPHS = {
    "rnnlm2": {"model": "rnnlm", "set": {"layers": 2}},
    "rnnlm4": {"model": "rnnlm", "set": {"layers": 4}},
    "nmt2": {"model": "nmt", "set": {"layers": 2}},
    "nmt4": {"model": "nmt", "set": {"layers": 4}},
    "transformer2": {"model": "transformer_xl", "set": {"layers": 2}},
    "transformer4": {"model": "transformer_xl", "set": {"layers": 4}},
    "transformer8": {"model": "transformer_xl", "set": {"layers": 8}},
    "inception32": {"model": "inception_v3", "set": {"batch": 32}},
    "amoebanet": {"model": "amoebanet", "set": {"batch": 64, "image_size": 224, "filters": 128}},
    "wavenet2": {"model": "wavenet", "set": {"stacks": 2}},
    "wavenet4": {"model": "wavenet", "set": {"stacks": 4}},
}


def trial(label, graph, best, seed=1, **more):
    spec = {
        "agent": {"label": label, "name": "sgdp"},
        "seed": seed,
        "graph": graph,
        "budget": {"evaluations": 800},
        "cluster": {"devices": ["cpu:0", "gpu:0", "gpu:1"]},
    }
    spec.update(more.pop("spec", {}))
    result = {"best_step_time_us": None if best is None else 1000 * best, "lower_bound_us": 1000, "num_ops": 50001}
    result |= {"single_device_step_time_us": 80000, "start_step_time_us": 80000}
    result.update(more.pop("graphs", {}))
    record = {"spec": spec, "graphs": more.pop("parts", [result]), "revision": "0123456789", **more}
    return record, {"policy_seconds": 30.0, "simulator_seconds": 30.0}


class FakeSource:
    def __init__(self, **archives):
        self._archives = {}
        for name, trials in archives.items():
            runs = self._archives[name] = NamedTrials(name)
            runs.trials += [Trial(record, timing, i) for record, timing in trials for i in range(len(record["graphs"]))]

    def archive(self, name):
        return self._archives[name]


def alone(times):
    """A trial of each network and agent with each of two seeds. RNNLM with 4 layers does not fit on a single GPU."""
    return [
        trial(
            label, GRAPHS[row], times(label), seed, graphs={"start_step_time_us": 90000 if row == "rnnlm4" else 80000}
        )
        for row in TABLE_2
        for label in (BEST, "expert", "random walk", "annealing")
        for seed in (1, 2)
    ]


class NetworkTest(unittest.TestCase):
    def test_a_network_is_known_by_its_settings(self):
        for row, graph in GRAPHS.items():
            self.assertEqual(row_of(graph), row)
        self.assertEqual(title("nmt4"), "GNMT, 4 layers")
        self.assertTrue(set(TABLE_2) <= set(ROWS) and set(TRANSFERRED) <= set(ROWS))


def together():
    """A trial on all networks with each of two seeds."""
    return [
        trial(
            BEST,
            {},
            None,
            seed,
            spec={"together": [GRAPHS[row] for row in TABLE_2]},
            parts=[
                {"best_step_time_us": 90000 if row == "nmt2" else 100000 if row == "nmt4" else 110000}
                for row in TABLE_2
            ],
        )
        for seed in (1, 2)
    ]


class BatchTest(unittest.TestCase):
    def test_one_policy_for_all_is_compared_with_one_each(self):
        times = {BEST: 100, "expert": 220, "random walk": 100, "annealing": 80}
        figures, tables = batch(FakeSource(sgdp_batch=[*together(), *alone(times.get)]))
        self.assertEqual((figures["batch.ahead"], figures["batch.behind"]), (1, 9))
        self.assertIn("| GNMT, 2 layers | 100 | 90, −10.0 [−10.0, −10.0] | 0 | 220 | 100 | **80** |", tables["batch"])
        self.assertAlmostEqual(figures["batch.expert"], 51.3, delta=0.1)
        self.assertGreater(figures["batch.annealing.slower"], 30)


class TransferTest(unittest.TestCase):
    def moved(self, label, row, likeliest, best, seed):
        found = {"step_time_us": likeliest if best else None, "best_step_time_us": best}
        return trial(label, GRAPHS["nmt2"], 1, seed, spec={"transfer": [GRAPHS[row]]}, transfer=[found])

    def source(self, batch, seeds=2):
        trials = []
        for row in TRANSFERRED:
            fits = row != "wavenet4"
            trials += [self.moved("zero-shot", row, 80000, 80000, 1)]
            trials += [
                self.moved("zero-shot", row, 70000, 70000 if fits or seed > 2 else None, seed)
                for seed in range(2, seeds + 1)
            ]
            trials += [self.moved("fine-tuned", row, 1, 60000, seed) for seed in range(1, seeds + 1)]
        return FakeSource(sgdp_transfer=trials, sgdp_batch=batch)

    def test_a_seed_that_finds_nothing_that_fits_is_told(self):
        figures, tables = transfer(self.source(alone(lambda label: 100)))
        self.assertEqual((figures["transfer.on_one"], figures["transfer.fitting"]), (5, 11))
        self.assertIn("| GNMT, 4 layers | 75 | 75 | **60** | 100 | 100 | 80 |", tables["transfer"])
        self.assertIn("| RNNLM, 4 layers | 75 | 75 | **60** | 100 | 100 | does not fit |", tables["transfer"])
        self.assertIn("| WaveNet, 4 stacks | 80, 1 of 2 seeds | 80 | **60** | 100 | 100 | 80 |", tables["transfer"])

    def test_claims_are_of_the_likeliest_placement_and_of_the_best_tuned_one(self):
        times = {BEST: 60, "expert": 75, "random walk": 100, "annealing": 80}
        batch = [*together(), *alone(times.get)]
        found = {claim.name: claim for claim in several_claims(self.source(batch, seeds=5))}
        self.assertEqual((found["zero"].found.graphs, found["zero"].found.partly), (6, 1))
        slower, faster = (100 * math.log(time / 75) for time in (80, 70))  # of the two seeds that both sides have
        self.assertAlmostEqual(found["zero"].found.mean, (5 * (slower + faster) / 2 + slower) / 6)
        self.assertAlmostEqual(found["tuned"].found.mean, 100 * math.log(60 / 75))
        self.assertAlmostEqual(found["tuned_alone"].found.mean, 0)
        self.assertTrue(found["tuned_alone"].tie and not found["batch"].tie)
        self.assertGreater(found["batch"].found.low, 30)

    def test_with_fewer_than_five_seeds_claims_are_open(self):
        found = several_claims(self.source([*together(), *alone(lambda label: 100)]))
        self.assertEqual([claim.settled for claim in found], [""] + 4 * ["open"])
        self.assertEqual([claim.found is None for claim in found], [False] + 4 * [True])

    def test_what_fits_nowhere_has_no_time(self):
        record, timing = self.moved("zero-shot", "nmt4", 70000, None, 1)
        self.assertIsNone(zero_shot(Trial(record, timing)))


class LargeTest(unittest.TestCase):
    EPISODES = [
        {"argmax": False, "mean_step_time_us": 1000.0 * mean, "step_time_us": 1} for mean in (40, 40, *range(1, 9), 44)
    ]

    def of(self, *labels):
        more = {"episodes": self.EPISODES, "evaluations": 60}
        return FakeSource(sgdp_large=[trial(label, {}, 2 + i, graphs=more) for i, label in enumerate(labels)])

    def test_what_is_drawn_at_the_end_is_compared_with_the_first(self):
        figures, tables = large(self.of("expert", "search on ops", "sgdp, node ratio"))
        self.assertEqual((figures["large.ops"], figures["large.s"], figures["large.times"]), ("50,001", 1, 2))
        self.assertAlmostEqual(figures["large.slower"], 100 * (26 / 40 - 1))
        self.assertIn("| SGDP | 4 | +300 | 60.0 |", tables["large"])

    def test_an_agent_without_a_place_is_refused(self):
        with self.assertRaisesRegex(BadInput, "sgdp_large: its page has no place for post"):
            large(self.of("expert", "search on ops", "sgdp, node ratio", "post"))


if __name__ == "__main__":
    unittest.main()
