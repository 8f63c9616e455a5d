# environment: torchtitan
"""torchtitan's configuration, its division of a model and its schedules, by the files of plans."""

import dataclasses
import json
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed import activation_checkpoint, pipeline_parallel

import emplace.torch as et
from emplace.torch import _workers

LAYERS, WIDTH, COUNT = 8, 8, 4


class Network(nn.Module):
    """With the names of torchtitan's models; a part without some of the modules hands its input on."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tok_embeddings = nn.Embedding(16, WIDTH)
        self.layers = nn.ModuleDict({str(i): nn.Linear(WIDTH, WIDTH) for i in range(LAYERS)})
        self.norm, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16)

    def forward(self, x):
        x = self.tok_embeddings(x) if self.tok_embeddings else x
        for layer in self.layers.values():
            x = x + F.gelu(layer(x))
        x = self.norm(x) if self.norm else x
        return self.lm_head(x) if self.lm_head else x


def loss_of(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten()), None


def plan_of(schedule, cuts, **more):
    stages, bounds = [], [0, *cuts, LAYERS]
    for begin, end in zip(bounds, bounds[1:]):
        stages.append([f"model.layers.{i}" for i in range(begin, end)])
    stages[0].insert(0, "model.embed_tokens")
    stages[-1] += ["model.norm", "lm_head"]
    return {"schema": "emplace.plan", "version": 1, "pp": 2, "vpp": len(stages) // 2, "schedule": schedule,
            "grad_accumulation": COUNT, "stages": stages, **more}


class TorchtitanTest(unittest.TestCase):
    PLANS = (("1f1b", (3,)), ("gpipe", (4,)), ("interleaved", (1, 4, 6)), ("zb-v", (2, 4, 7)))

    def test_fields_are_those_of_its_configuration(self):
        fields = {field.name for field in dataclasses.fields(ParallelismConfig)}
        training = {field.name for field in dataclasses.fields(TrainingConfig)}
        for more in ({}, {"dp": 2, "zero": 2}, {"dp": 2, "zero": 3, "recompute": "full"},
                     {"dp": 4, "dp_replicate": 2, "zero": 3},
                     {"tp": 2, "cp": 2, "ep": 2, "sequence_parallel": True, "recompute": "selective"}):
            told = json.loads(et.framework_text("torchtitan", plan_of("1f1b", (3,), **more)))
            self.assertLessEqual(set(told["parallelism"]), fields)
            self.assertLessEqual(set(told["training"]), training)
            parallelism = ParallelismConfig(**told["parallelism"])
            self.assertEqual(parallelism.enable_sequence_parallel, more.get("sequence_parallel", True))
            if told["activation_checkpoint"]:
                self.assertTrue(hasattr(getattr(activation_checkpoint, told["activation_checkpoint"]), "Config"))

    def test_stages_and_schedules_are_those_of_the_plan(self):
        words = torch.randint(16, (COUNT, 6), generator=torch.Generator().manual_seed(1))
        target = torch.randint(16, (COUNT, 6), generator=torch.Generator().manual_seed(2))
        whole = Network()
        loss = loss_of(whole(words), target)[0]
        loss.backward()
        expected = {name: each.grad for name, each in whole.named_parameters()}
        for schedule, cuts in self.PLANS:
            plan = plan_of(schedule, cuts)
            told = json.loads(et.framework_text("torchtitan", plan))
            for csv in (False, True) if len(cuts) > 1 else (False,):
                with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                    file.write(et.schedule_csv(plan))
                    file.flush()
                    more = {"pipeline_parallel_schedule_csv": file.name} if csv else {}
                    ranks = _workers.run(lambda rank: self.work(rank, told, more, words, target),
                                          _workers.Processes(2, seconds=120))
                names, losses = {}, []
                for rank in ranks:
                    names |= rank["names"]
                    losses += rank["losses"]
                    for name, gradient in rank["gradients"].items():  # sums: torchtitan does not divide them
                        torch.testing.assert_close(gradient / COUNT, expected[name], atol=1e-6, rtol=1e-5, msg=name)
                self.assertAlmostEqual(sum(losses) / COUNT, loss.item(), delta=1e-6)
                for stage, paths in enumerate(told["parallelism"]["module_fqns_per_model_part"]):
                    self.assertEqual(names[stage], {name for name in expected if name.rpartition(".")[0] in paths})

    @staticmethod
    def work(rank, told, more, words, target):
        parallelism = ParallelismConfig(**told["parallelism"], **more)
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))
        stages, parts = pipeline_parallel._pipeline_module_split(
            Network(), mesh, parallelism.pipeline_parallel_schedule, torch.device("cpu"),
            parallelism.module_fqns_per_model_part)
        schedule = pipeline_parallel._build_pipeline_schedule(
            parallelism=parallelism, local_batch_size=told["training"]["local_batch_size"], stages=stages, loss_fn=loss_of)
        losses = []
        first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
        schedule.step(*([words] if first else []), target=target if last else None, losses=losses if last else None)
        return {"names": {stage.stage_index: {name for name, _ in part.named_parameters()} for stage, part in zip(stages, parts)},
                "losses": [each.item() for each in losses],
                "gradients": {name: each.grad for part in parts for name, each in part.named_parameters()}}


if __name__ == "__main__":
    unittest.main()
