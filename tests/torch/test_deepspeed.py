# environment: deepspeed
"""DeepSpeed's own configuration class reads what emplace writes; whole_deepspeed.py trains with it."""

import json
import os
import unittest
from unittest import mock

os.environ["DS_ACCELERATOR"] = "cpu"
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402

import emplace  # noqa: E402
import emplace.torch as et  # noqa: E402


class Ranks:
    """What DeepSpeedConfig asks for the number of data parallel ranks."""

    def __init__(self, dp):
        self.get_data_parallel_world_size = lambda: dp


def config_of(config, dp):
    with mock.patch("deepspeed.runtime.config.dist.get_rank", return_value=0):
        return DeepSpeedConfig(config, mpu=Ranks(dp))


def plan_of(**fields):
    return {"schema": "emplace.plan", "version": 1, **fields}


class ConfigTest(unittest.TestCase):
    def test_the_configuration_has_the_plans_values(self):
        for zero in range(4):
            for dp in (1, 2, 8):
                plan = plan_of(dp=dp, zero=zero, micro_batch=2, grad_accumulation=3)
                text = et.framework_text("deepspeed", plan)
                config = config_of(json.loads(text), dp)
                self.assertEqual(config.zero_optimization_stage, zero)
                self.assertEqual(config.zero_enabled, zero > 0)
                self.assertEqual(config.train_batch_size, 6 * dp)
                self.assertEqual(config.train_micro_batch_size_per_gpu, 2)
                self.assertEqual(config.gradient_accumulation_steps, 3)
                again = et.plan_of(text, "deepspeed")
                for field in ("dp", "zero", "micro_batch", "grad_accumulation"):
                    self.assertEqual(again[field], plan[field])

    def test_tensor_parallelism_is_a_field_of_its_own(self):
        text = et.framework_text("deepspeed", plan_of(dp=2, tp=2))
        config = config_of(json.loads(text), 2)
        self.assertEqual(config.tensor_parallel_config.autotp_size, 2)
        self.assertEqual(et.plan_of(text, "deepspeed")["tp"], 2)

    def test_other_numbers_of_ranks_and_other_stages_are_refused_by_deepspeed(self):
        config = json.loads(et.framework_text("deepspeed", plan_of(dp=4, zero=2)))
        with self.assertRaises(AssertionError):
            config_of(dict(config), 3)
        with self.assertRaises(Exception):
            config_of(dict(config, zero_optimization={"stage": 4}), 4)

    def test_deepspeed_has_no_replicas_of_shards(self):
        config = json.loads(et.framework_text("deepspeed", plan_of(dp=4, zero=3)))
        with self.assertRaisesRegex(Exception, "MiCS ZeRO-3 sharding has been removed"):
            config_of(config | {"zero_optimization": {"stage": 3, "mics_shard_size": 2}}, 4)

    def test_what_the_configuration_cannot_say_is_refused(self):
        for fields, expected in (({"pp": 2}, "pp: is 2"), ({"cp": 2}, "cp: is 2"), ({"recompute": "full"}, "recompute: is full"),
                                 ({"dp": 4, "dp_replicate": 2, "zero": 3}, "dp_replicate: is 2"),
                                 ({"sequence_parallel": True}, "sequence_parallel: is true"),
                                 ({"rank_order": ["tp", "cp", "pp", "dp"]}, "rank_order: is tp-cp-pp-dp")):
            with self.assertRaisesRegex(emplace.InputError, expected + ", which DeepSpeed's configuration cannot say"):
                et.framework_text("deepspeed", plan_of(**fields))


if __name__ == "__main__":
    unittest.main()
