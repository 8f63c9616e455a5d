# environment: megatron
"""megatron-core reads what emplace writes: its own parser, and stages of a real GPTModel."""

import shlex
import unittest
import warnings

import torch

import emplace
import emplace.torch as et
from emplace.torch import _workers

warnings.simplefilter("ignore")
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.enums import LayerType  # noqa: E402
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: E402


def plan_of(counts, pp, **more):
    """Stages with so many layers each."""
    stages, layer = [], 0
    for count in counts:
        stages.append([f"model.layers.{layer + i}" for i in range(count)])
        layer += count
    stages[0].insert(0, "model.embed_tokens")
    stages[-1] += ["model.norm", "lm_head"]
    vpp = len(counts) // pp
    return {"schema": "emplace.plan", "version": 1, "pp": pp, "vpp": vpp, "schedule": "interleaved" if vpp > 1 else "1f1b",
            "grad_accumulation": 8, "stages": stages, **more}


def flags_of(plan):
    """The command line as a dictionary; flags without a value are True."""
    flags, words = {}, shlex.split(et.framework_text("megatron", plan))
    while words:
        flag = words.pop(0)
        flags[flag] = words.pop(0) if words and not words[0].startswith("--") else True
    return flags


class LayoutTest(unittest.TestCase):
    CASES = (((3, 1), 2), ((1, 2, 2, 1), 4), ((2, 3, 1, 2), 2), ((0, 4, 4, 0), 4), ((1, 1, 1, 1, 1, 1, 2, 4), 4))

    def test_the_parser_finds_the_layers_of_each_stage(self):
        for counts, pp in self.CASES:
            layout = flags_of(plan_of(counts, pp))["--pipeline-model-parallel-layout"]
            parsed = PipelineParallelLayerLayout(layout, pp)
            parsed.validate_layer_layout(sum(counts), None)
            for stage, count in enumerate(counts):
                kinds = parsed.layout[stage % pp][stage // pp]
                self.assertEqual(kinds.count(LayerType.decoder), count, layout)
                self.assertEqual(LayerType.embedding in kinds, stage == 0)
                self.assertEqual(LayerType.loss in kinds, stage == len(counts) - 1)

    def test_our_reader_and_megatrons_agree_on_layouts_with_repetitions(self):
        for layout, pp in (("Et*3|(tt|)*6,tL", 4), ("E|(t|)*6L", 8), ("Ett|t*10L", 2), ("E(tt|t|)*3L", 7)):
            parsed = PipelineParallelLayerLayout(layout, pp)
            text = f"--pipeline-model-parallel-size {pp} --pipeline-model-parallel-layout {layout} --global-batch-size 8"
            ours = et.plan_of(text, "megatron", devices=pp)["stages"]
            theirs = [parsed.layout[stage % pp][stage // pp].count(LayerType.decoder) for stage in range(len(ours))]
            self.assertEqual([sum(isinstance(layer, int) for layer in stage) for stage in ours], theirs)

    def test_flags_are_fields_of_its_configuration(self):
        plan = plan_of((2, 2), 2, tp=2, dp=2, zero=1, sequence_parallel=True, recompute=1, ep=2, etp=2)
        flags = flags_of(plan)
        fields = TransformerConfig.__dataclass_fields__
        for flag in flags:
            name = flag.removeprefix("--").replace("-", "_")
            if name not in ("micro_batch_size", "global_batch_size", "use_distributed_optimizer"):  # of the trainer
                self.assertIn(name, {*fields, *DistributedDataParallelConfig.__dataclass_fields__}, flag)
        self.assertEqual((flags["--global-batch-size"], flags["--recompute-method"]), ("16", "block"))
        again = et.plan_of(et.framework_text("megatron", plan), "megatron", devices=8)
        for field in ("tp", "dp", "pp", "zero", "sequence_parallel", "recompute", "ep", "etp", "grad_accumulation"):
            self.assertEqual(again[field], plan[field], field)


class ReplicasTest(unittest.TestCase):
    def test_instances_of_the_optimizer_are_the_plans_groups(self):
        for zero in (1, 2, 3):
            flags = flags_of({"schema": "emplace.plan", "version": 1, "dp": 4, "dp_replicate": 2, "zero": zero})
            self.assertEqual(flags["--num-distributed-optimizer-instances"], "2")
            self.assertIn("--use-distributed-optimizer", flags)
        self.assertIn("num_distributed_optimizer_instances", DistributedDataParallelConfig.__dataclass_fields__)
        groups = _workers.run(self.groups, _workers.Processes(4, seconds=120))
        self.assertEqual(groups, [([0, 1], [0, 2]), ([0, 1], [1, 3]), ([2, 3], [0, 2]), ([2, 3], [1, 3])])

    @staticmethod
    def groups(rank):
        """The ranks that a rank shards with, and its replicas."""
        parallel_state.initialize_model_parallel(num_distributed_optimizer_instances=2)
        shards = parallel_state.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=True)
        replicas = parallel_state.get_inter_distributed_optimizer_instance_group()
        return tuple(torch.distributed.get_process_group_ranks(group) for group in (shards, replicas))


class StagesTest(unittest.TestCase):
    """Each process builds its stages of a GPTModel: their layers have the numbers of the plan."""

    def test_stages_of_a_gpt_model_have_the_plans_layers(self):
        for counts, pp in (((3, 1), 2), ((2, 1, 1, 2), 2)):
            plan = plan_of(counts, pp)
            layout = flags_of(plan)["--pipeline-model-parallel-layout"]
            built = {}
            for stages in _workers.run(lambda rank: self.build(rank, layout, sum(counts), plan), _workers.Processes(pp, seconds=120)):
                built |= stages
            for stage, paths in enumerate(plan["stages"]):
                layers, pre, post = built[stage]
                self.assertEqual(layers, [int(path.rpartition(".")[2]) for path in paths if "layers" in path])
                self.assertEqual((pre, post), ("model.embed_tokens" in paths, "lm_head" in paths))

    @staticmethod
    def build(rank, layout, layers, plan):
        warnings.simplefilter("ignore")
        vpp = plan["vpp"] if plan["vpp"] > 1 else None
        parallel_state.initialize_model_parallel(pipeline_model_parallel_size=plan["pp"],
                                                 virtual_pipeline_model_parallel_size=vpp)
        config = TransformerConfig(num_layers=layers, hidden_size=16, num_attention_heads=2, use_cpu_initialization=True,
                                   pipeline_model_parallel_size=plan["pp"], pipeline_dtype=torch.float32,
                                   virtual_pipeline_model_parallel_size=vpp, pipeline_model_parallel_layout=layout)
        stages = {}
        for chunk in range(plan["vpp"]):
            number = chunk * plan["pp"] + rank
            pre, post = number == 0, number == plan["pp"] * plan["vpp"] - 1
            model = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=32, max_sequence_length=8, pre_process=pre,
                             post_process=post, vp_stage=chunk if vpp else None)
            names = dict(model.named_parameters())
            stages[number] = ([layer.layer_number - 1 for layer in model.decoder.layers],
                              any(name.startswith("embedding") for name in names),
                              any(name.startswith("output_layer") for name in names))
        return stages


if __name__ == "__main__":
    unittest.main()
