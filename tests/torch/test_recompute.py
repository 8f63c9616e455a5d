# environment: torch
"""A plan's recomputation, run by torch.utils.checkpoint and simulated: blocks run again in the backward pass."""

import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import emplace
import emplace.torch as et
from emplace.torch import _recompute, _stages, _validate

BLOCKS, ROWS, WIDTH, WIDE = 4, 2048, 32, 256
STAGES = [["embed", "layers.0", "layers.1"], ["layers.2", "layers.3", "head"]]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.middle, self.down = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDTH)

    def forward(self, x, scale):
        return x + self.down(torch.tanh(self.middle(torch.tanh(self.up(x * scale)))))


class Network(nn.Module):
    """Its blocks read a constant that is computed before them, as causal masks are."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)
        self.layers = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x):
        x, scale = self.embed(x), torch.arange(1, WIDTH + 1) / WIDTH
        for layer in self.layers:
            x = layer(x, scale)
        return self.head(x)


def rows():
    return torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1))


def loss(output):
    return F.mse_loss(output, torch.ones(ROWS, 3))


def plan_of(**more):
    return et._checked_plan({"schema": "emplace.plan", "version": 1, **more})


def flop_of(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


class RecomputeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.graph = et.capture(Network(), (rows(),), loss=loss)

    def test_blocks_are_the_first_of_each_stage(self):
        layers = [f"layers.{i}" for i in range(BLOCKS)]
        for recompute, stages, expected in (("none", [], []), (0, [], []), ("full", [], layers), (2, [], layers[:2]), (9, [], layers),
                                            (1, STAGES, ["layers.0", "layers.2"]), ("full", STAGES, layers)):
            plan = plan_of(pp=max(1, len(stages)), stages=stages, recompute=recompute)
            self.assertEqual(_recompute.blocks_of(plan, self.graph), expected)

    def test_each_product_that_runs_again_is_in_the_captured_step(self):
        def step(model):
            loss(model(rows())).backward()

        model, again = Network(), Network()
        _recompute.run_again(again.layers)
        graph = et.capture(again, (rows(),), loss=loss)
        self.assertEqual(self.graph.flop, flop_of(lambda: step(model)))
        self.assertEqual(graph.flop, flop_of(lambda: step(again)))
        # The last product of a block is not needed by the backward pass.
        self.assertEqual(graph.flop - self.graph.flop, BLOCKS * 2 * ROWS * (WIDTH * WIDE + WIDE * WIDE))
        for (name, mine), (other, theirs) in zip(again.named_parameters(), model.named_parameters(), strict=True):
            self.assertEqual(name, other)
            self.assertTrue(torch.equal(mine.grad, theirs.grad), name)

    def test_stages_run_the_same_products_again(self):
        model, whole = Network(), Network()
        _recompute.run_again(whole.layers[i] for i in (0, 2))
        parts = _stages.split(_stages.Flat(model, (rows(),), {}), STAGES, ["layers.0", "layers.2"])
        flop = flop_of(lambda: loss(parts[1](*parts[0](rows()))[0]).backward())
        self.assertEqual(flop, flop_of(lambda: loss(whole(rows())).backward()))
        for (name, mine), (_, theirs) in zip(model.named_parameters(), whole.named_parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, atol=0, rtol=0, msg=name)

    def test_the_measured_and_the_simulated_step_run_blocks_again(self):
        measure = _validate.measure_ops

        def measured(graph, processes, repeats):
            """Real profiles but for their times, which other programs on this machine would change."""
            profiles = measure(graph, processes, repeats)
            for row in (row for profile in profiles for row in profile["ops"]):
                row.update({key: 100 for key in row if key.endswith("_us")})
            return profiles

        for more in ({}, {"pp": 2, "stages": STAGES, "grad_accumulation": 2}):
            with mock.patch.object(_validate, "measure_ops", measured):
                plain, full = (et.validate(Network(), plan_of(recompute=recompute, **more), args=(rows(),), loss=loss, steps=2,
                                           warm_up=1, device="cpu") for recompute in ("none", "full"))
            for mine, theirs in zip(full.losses, plain.losses, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-6 * abs(theirs))
            self.assertGreater(full.simulated_ms, plain.simulated_ms)
            for mine, theirs in zip(full.simulated_peak_bytes, plain.simulated_peak_bytes, strict=True):
                self.assertLess(mine, theirs)

    def test_what_cannot_run_again_is_refused(self):
        validate = lambda model, args=(rows(),), **more: et.validate(model, plan_of(**more), args=args)
        for expected, model, more in (
                ("^plan: recompute: is 'selective'", Network(), {"recompute": "selective"}),
                ("^plan: recompute: the model has no numbered layers", nn.Linear(4, 1), {"recompute": 1}),
                (r"^plan: recompute: layers.1 is in more than one stage", Network(),
                 {"pp": 2, "recompute": "full", "stages": [["embed", "layers.0", "layers.1.up"],
                                                           ["layers.1", "layers.2", "layers.3", "head"]]}),
                ("^plan: stages: are missing, or numbers", Network(), {"pp": 2, "stages": [[0, 1], [2, 3]]}),
                ("^plan: stages: are missing, or numbers", Network(), {"pp": 2})):
            with self.assertRaisesRegex(emplace.InputError, expected):
                validate(model, **more)


if __name__ == "__main__":
    unittest.main()
