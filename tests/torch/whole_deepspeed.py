# environment: deepspeed
"""Two processes train by the configurations of plans with DeepSpeed: losses are those of one process."""

import json
import os
import unittest
import warnings

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed  # noqa: E402
import deepspeed.comm.torch as communication  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import emplace.torch as et  # noqa: E402
from emplace.torch import _workers  # noqa: E402

communication.build_shm_op = lambda: None  # else DeepSpeed compiles its own messages for minutes
STEPS, ROWS = 3, 8


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 3))


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, 8, generator=generator), torch.randint(3, (ROWS,), generator=generator)


def losses_of_one():
    model, (rows, target) = network(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class TrainingTest(unittest.TestCase):
    def check(self, **fields):
        plan = {"schema": "emplace.plan", "version": 1, "dp": 2, "micro_batch": 2, "grad_accumulation": 2, **fields}
        config = json.loads(et.framework_text("deepspeed", plan))
        config["zero_allow_untested_optimizer"] = True  # plain SGD, as the process alone has it

        def work(rank):
            warnings.simplefilter("ignore")
            os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
            model = network()
            engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                                              config=dict(config), dist_init_required=False)
            rows, target = data()
            losses = []
            for _ in range(STEPS):
                total = 0.0
                for i in range(plan["grad_accumulation"]):
                    begin = (i * plan["dp"] + rank) * plan["micro_batch"]
                    part = slice(begin, begin + plan["micro_batch"])
                    loss = F.cross_entropy(engine(rows[part]), target[part])
                    engine.backward(loss)
                    engine.step()
                    total += loss.item() / plan["grad_accumulation"]
                mean = torch.tensor(total)
                dist.all_reduce(mean)
                losses.append(mean.item() / 2)
            return losses, engine.zero_optimization_stage()

        for losses, stage in _workers.run(work, _workers.Processes(2, seconds=300)):
            self.assertEqual(stage, plan.get("zero", 0))
            for mine, expected in zip(losses, losses_of_one(), strict=True):
                self.assertAlmostEqual(mine, expected, delta=1e-6)

    def test_every_stage_of_zero(self):
        for zero in range(4):
            with self.subTest(zero=zero):
                self.check(zero=zero)


if __name__ == "__main__":
    unittest.main()
