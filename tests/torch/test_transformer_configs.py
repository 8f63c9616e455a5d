# environment: transformers
"""Networks of a config.json of transformers: their parameters, and FLOP of a step."""

import json
import os
import subprocess
import tempfile
import unittest

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

import emplace
import emplace.torch as et

COMMON = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4)
GROUPED = dict(COMMON, num_key_value_heads=2, head_dim=16)
LATENT = dict(COMMON, num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
              moe_intermediate_size=10, n_routed_experts=8, num_experts_per_tok=2, n_group=1, topk_group=1,
              first_k_dense_replace=1)
# The families that the reader of config.json knows, each small.
CONFIGS = {
    "llama": transformers.LlamaConfig(**GROUPED, attention_bias=True, mlp_bias=True),
    "mistral": transformers.MistralConfig(**GROUPED, sliding_window=4),
    "mixtral": transformers.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": transformers.Qwen2Config(**COMMON, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**GROUPED),
    "qwen3_moe": transformers.Qwen3MoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=10),
    "deepseek_v2": transformers.DeepseekV2Config(**LATENT, q_lora_rank=None, n_shared_experts=2),
    "deepseek_v3": transformers.DeepseekV3Config(**LATENT, q_lora_rank=20, n_shared_experts=1,
                                                 num_nextn_predict_layers=0),
    "gpt_oss": transformers.GptOssConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
    "nemotron_h": transformers.NemotronHConfig(
        vocab_size=96, hidden_size=32, intermediate_size=48, layers_block_type=["linear_attention", "mlp", "full_attention",
                                                                                "moe"], num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, mamba_num_heads=8, mamba_head_dim=4, n_groups=2, ssm_state_size=6,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=10, moe_shared_expert_intermediate_size=14,
        moe_latent_size=12),
    "gemma2": transformers.Gemma2Config(**GROUPED),
    "gemma3_text": transformers.Gemma3TextConfig(**GROUPED),
    "gpt2": transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=16, attn_pdrop=0,
                                    bos_token_id=0, eos_token_id=0),
    "mpt": transformers.MptConfig(vocab_size=96, d_model=32, n_layers=3, n_heads=4, max_seq_len=16),
    "t5": transformers.T5Config(vocab_size=96, d_model=32, d_kv=16, d_ff=48, num_layers=3, num_heads=4,
                                feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}


def model_of(config):
    if config.model_type == "t5":
        return transformers.T5ForConditionalGeneration(config)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")


def generate(config, **options):
    """The graph that emplace generates of the config."""
    with tempfile.TemporaryDirectory() as folder:
        model, graph = os.path.join(folder, "config.json"), os.path.join(folder, "graph.json")
        config.to_json_file(model, use_diff=False)
        settings = [f"{key}={value}" for key, value in options.items()]
        subprocess.run([os.environ["EMPLACE_PROGRAM"], "generate", model, "--set", "precision=f32", *settings, "-o", graph],
                       check=True, capture_output=True)
        with open(graph, encoding="utf-8") as file:
            return json.load(file)


class TransformerConfigs(unittest.TestCase):
    def test_every_family_has_the_parameters_of_transformers(self):
        for name, config in CONFIGS.items():
            with self.subTest(name), torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config) if name != "t5" else model_of(config)
                expected = sum(parameter.numel() for parameter in model.parameters())
                ops = generate(config, sequence=8)["ops"]
                self.assertEqual(sum(op["persistent_bytes"] for op in ops if op["kind"] == "variable"), 4 * expected)

    def test_products_of_a_step_are_those_that_pytorch_counts(self):
        for name in ("llama", "mistral", "qwen2", "qwen3", "gpt2"):
            with self.subTest(name):
                config = CONFIGS[name]
                model = model_of(config)
                tokens = torch.zeros((2, 8), dtype=torch.long)
                with FlopCounterMode(display=False) as counter:
                    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
                ops = generate(config, batch=2, sequence=8)["ops"]

                def flop_of(kind):
                    return sum(op["flop"] for op in ops if op["kind"].startswith(kind))

                # The counter does not know the attention of CPUs; its formulas for that of GPUs take shapes.
                self.assertEqual(flop_of("matmul"), counter.get_total_flops())
                width = getattr(config, "head_dim", None) or config.hidden_size // 4
                heads = (2, 4, 8, width)
                self.assertEqual(flop_of("attention"), 3 * (sdpa_flop_count(heads, heads, heads) +
                                                            sdpa_backward_flop_count(heads, heads, heads, heads)))

    def test_plans_of_a_captured_model_are_those_of_its_config(self):
        tokens = torch.zeros((2, 16), dtype=torch.long)
        batch = {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False}
        for name in ("llama", "gpt2", "mixtral"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                config = CONFIGS[name]
                with torch.device("meta"):
                    model = model_of(config)
                graph = et.capture(model, kwargs=batch, optimizer="adam")
                answer = emplace.plan(graph, "dgx-h100", global_batch=32, only={"micro_batch": 2})
                self.assertIsNone(answer.by_modules)
                config.to_json_file(f"{folder}/config.json", use_diff=False)
                expected = emplace.plan(f"{folder}/config.json", "dgx-h100", sequence=16, global_batch=32,
                                        only={"micro_batch": 2})
                self.assertEqual([plan.to_dict() for plan in answer.plans], [plan.to_dict() for plan in expected.plans])
                pipeline = emplace.plan(graph, "dgx-h100", global_batch=32, only={"pp": 2, "vpp": 1}, framework="pytorch")
                stages = json.loads(pipeline.export("stages"))
                self.assertEqual(len(stages), 2)
                layers = [path for stage in stages for path in stage if path.split(".")[-1].isdigit()]
                self.assertEqual(len(layers), 3)


if __name__ == "__main__":
    unittest.main()
