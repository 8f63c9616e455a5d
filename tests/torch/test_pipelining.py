# environment: torch
"""torch.distributed.pipelining reads what emplace writes: split_spec by pipeline(), schedules by its own runtime."""

import dataclasses
import tempfile
import unittest
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, pipeline, schedules

import emplace
import emplace.torch as et
from emplace.torch import _workers

WIDTH, BLOCKS = 8, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    """Blocks as in a language model."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(4, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Convolutions(nn.Module):
    """Modules without numbered blocks around them."""

    def __init__(self):
        super().__init__()
        self.stem, self.middle = nn.Conv2d(1, 4, 3, padding=1), nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
        self.tail, self.head = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.tail(self.middle(F.relu(self.stem(x)))).mean((2, 3)))


def stages_of(cuts):
    """Paths of the network's modules, cut before these blocks."""
    stages, bounds = [], [0, *cuts, BLOCKS]
    for begin, end in zip(bounds, bounds[1:]):
        stages.append([f"layers.{i}" for i in range(begin, end)])
    stages[0].insert(0, "embed")
    stages[-1] += ["norm", "head"]
    return stages


def plan_of(schedule, ranks, micro_batches, **more):
    name, _, chunks = schedule.partition(":")
    vpp = int(chunks) if chunks else 2 if name == "zb-v" else 1
    return {"schema": "emplace.plan", "version": 1, "pp": ranks, "vpp": vpp, "schedule": name,
            "grad_accumulation": micro_batches, **more}


class SplitSpecTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def check(self, model, args, stages):
        """pipeline() cuts the model where the plan does: each stage has the parameters of the plan's modules."""
        graph = et.capture(model, args)
        cluster = emplace.Cluster("dgx-h100", gpus=len(stages))
        found = emplace.place(graph, cluster=cluster, grouping="modules", evaluations=1, agent="single_device")
        found = dataclasses.replace(found, placement=et.placement_of(graph, cluster, stages))
        spec = et.split_spec(found)
        pipe = pipeline(model, args, split_spec=spec)
        self.assertEqual(pipe.num_stages, len(stages))
        for paths, number in zip(et.stages(found), range(len(stages))):
            expected = {name for name, _ in model.named_parameters()
                        if any(name.startswith(path + ".") for path in paths)}
            self.assertEqual({name for name, _ in pipe.get_stage_module(number).named_parameters()}, expected)
        value = args
        with torch.no_grad():
            for number in range(len(stages)):
                value = pipe.get_stage_module(number)(*value)
                value = value if isinstance(value, tuple) else (value,)
            self.assertTrue(torch.equal(value[0], model(*args)))

    def test_blocks_in_two_and_in_four_stages(self):
        for cuts in ((3,), (1, 4, 6)):
            self.check(Network(), (torch.randn(2, 4),), stages_of(cuts))

    def test_modules_without_blocks(self):
        self.check(Convolutions(), (torch.randn(2, 1, 6, 6),), [["stem", "middle"], ["tail", "head"]])


class ScheduleTest(unittest.TestCase):
    """Without processes: a runtime that knows only the number of stages reads the CSV files."""

    SCHEDULES = ("gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v")

    def runtime(self, plan):
        stage = mock.Mock(num_stages=plan["pp"] * plan["vpp"], group_size=plan["pp"], group_rank=0)
        return schedules._PipelineScheduleRuntime([stage], plan["grad_accumulation"])

    def load(self, plan, text, form):
        runtime = self.runtime(plan)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            runtime._load_csv(file.name, format=form)
        return runtime

    def simulate(self, runtime):
        """_simulate_comms_compute, which does not know sharding and the reduction of gradients."""
        other = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
        orders = {rank: [action for action in order if action.computation_type.value not in other]
                  for rank, order in runtime.pipeline_order_with_comms.items()}
        counts = {rank: len(order) for rank, order in orders.items()}
        simulated = schedules._simulate_comms_compute(orders, lambda s: runtime.stage_index_to_group_rank[s],
                                                      runtime._num_stages)
        for rank, order in simulated.items():
            self.assertEqual(len([action for action in order if action is not None]), counts[rank])

    def plans(self):
        for name in self.SCHEDULES:
            for ranks in (2, 4):
                yield plan_of(name, ranks, 2 * ranks)

    def test_schedules_are_valid_and_their_communication_has_no_deadlock(self):
        for plan in self.plans():
            with self.subTest(plan=plan):
                runtime = self.load(plan, et.schedule_csv(plan), "compute_only")
                self.assertEqual(len(runtime.stage_index_to_group_rank), plan["pp"] * plan["vpp"])
                self.simulate(runtime)

    def test_communication_is_what_pytorch_makes_of_the_actions(self):
        for plan in self.plans():
            with self.subTest(plan=plan):
                runtime = self.load(plan, et.schedule_csv(plan, communication=True), "compute_comms")
                self.simulate(runtime)
                compute = self.load(plan, et.schedule_csv(plan), "compute_only")
                reduced = {rank: schedules._add_reduce_grad(order, plan["grad_accumulation"])
                           for rank, order in compute.pipeline_order.items()}
                expected = schedules._add_send_recv(reduced, lambda s: compute.stage_index_to_group_rank[s],
                                                    compute._num_stages)
                self.assertEqual(runtime.pipeline_order_with_comms, expected)

    def test_both_files_come_back_to_the_schedule(self):
        for plan in self.plans():
            for target, communication in (("schedule-csv", False), ("schedule-comms-csv", True)):
                again = et.plan_of(et.schedule_csv(plan, communication=communication), target)
                for field in ("pp", "vpp", "schedule", "grad_accumulation"):
                    self.assertEqual(again[field], plan[field], plan)

    def test_a_schedule_with_a_missing_receive_is_found_out(self):
        plan = plan_of("1f1b", 2, 2)
        text = et.schedule_csv(plan, communication=True).replace("1RECV_F1,", "")
        with self.assertRaisesRegex(ValueError, "not progressing"), mock.patch("builtins.print"):
            self.simulate(self.load(plan, text, "compute_comms"))

    def test_sharded_stages_are_refused(self):
        with self.assertRaisesRegex(emplace.InputError, "zero: is 3, which schedule-comms-csv cannot say"):
            et.schedule_csv(plan_of("1f1b", 2, 2, zero=3), communication=True)


class RunTest(unittest.TestCase):
    """Two processes run the file with communication: losses and gradients are those of one process."""

    def test_gradients_of_files_with_communication(self):
        torch.set_num_threads(1)
        model, count = Network(), 4
        rows = torch.randn(2 * count, 4, generator=torch.Generator().manual_seed(1))
        target = torch.randint(3, (2 * count,), generator=torch.Generator().manual_seed(2))
        whole = Network()
        loss = F.cross_entropy(whole(rows), target)
        loss.backward()
        expected = {name: each.grad for name, each in whole.named_parameters()}
        for name, cuts in (("1f1b", (4,)), ("interleaved:2", (2, 4, 6)), ("zb-v", (2, 4, 6))):
            plan = plan_of(name, 2, count)
            stages = stages_of(cuts)
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write(et.schedule_csv(plan, communication=True))
                file.flush()
                losses = []
                for rank in _workers.run(lambda rank: self.work(rank, model, plan, stages, file.name, rows, target),
                                         _workers.Processes(2, seconds=60)):
                    losses += rank["losses"]
                    for parameter, gradient in rank["gradients"].items():
                        torch.testing.assert_close(gradient, expected[parameter], atol=1e-6, rtol=1e-5)
            self.assertAlmostEqual(sum(losses) / count, loss.item(), delta=1e-6)

    @staticmethod
    def work(rank, model, plan, stages, file, rows, target):
        text = et.schedule_csv(plan)
        own = sorted({int(cell.split("F")[0]) for cell in text.splitlines()[rank].split(",") if "F" in cell})
        parts = {}
        for number in own:
            modules = [model.get_submodule(path) for path in stages[number]]
            parts[number] = PipelineStage(nn.Sequential(*modules), number, len(stages), torch.device("cpu"))
        runtime = schedules._PipelineScheduleRuntime(list(parts.values()), plan["grad_accumulation"], F.cross_entropy)
        runtime._load_csv(file, format="compute_comms")
        losses = []
        last = len(stages) - 1 in own
        runtime.step(*([rows] if 0 in own else []), target=target if last else None, losses=losses if last else None)
        dist.barrier()
        names = {each: name for name, each in model.named_parameters()}
        return {"losses": [each.item() for each in losses],
                "gradients": {names[each]: each.grad for part in parts.values() for each in part.submod.parameters()}}


if __name__ == "__main__":
    unittest.main()
