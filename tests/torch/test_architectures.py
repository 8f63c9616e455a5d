# environment: transformers
"""Captured steps of real architectures have PyTorch's parameters and FLOP. docs/results/architectures.md has all of them."""
import os
import statistics
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "tools"))

import torch_check  # noqa: E402
import torch_networks  # noqa: E402

# Each takes about a CPU second.
NETWORKS = """albert audio_spectrogram_transformer bart bert bloom blenderbot_small camembert clip deit dinov2
    dinov3_vit distilbert dpr electra ernie eurobert falcon fnet gemma gpt2 gpt_bigcode gpt_neo gpt_neox gptj
    granite gte helium ijepa imagegpt jais2 layoutlm llama lara_mini marian mbart metaclip_2 mistral mixtral modernbert
    moshi mpnet mpt mra mvp nomic_bert olmo openai opt pegasus persimmon phi phi3 pixio plbart qwen2 siglip vit vit_mae
    wav2vec2 whisper""".split()


class Architectures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch_check.warm_up()
        known = {network.name: network for network in torch_networks.of_transformers()}
        cls.rows = [torch_check.row_of(known[name], 120) for name in NETWORKS]

    def test_all_are_captured_with_exact_parameters(self):
        for row in self.rows:
            with self.subTest(row["name"]):
                self.assertEqual(row["outcome"], "captured", row.get("reason"))
                self.assertTrue(row["parameters_exact"])
                self.assertGreater(row["ops"], 0)

    def test_flop_are_those_of_pytorchs_counter_but_for_what_it_does_not_count(self):
        for row in self.rows:
            with self.subTest(row["name"]):
                self.assertTrue(row["flop_relation"].startswith("equal"), f"{row['flop']}, PyTorch: {row['counted']}")
                self.assertGreater(row["flop"], 0)

    def test_nearly_all_ops_have_the_path_of_a_module(self):
        shares = [row["with_module_percent"] for row in self.rows]
        self.assertGreaterEqual(statistics.median(shares), 95)
        self.assertGreater(min(shares), 70)

    def test_a_known_network_has_the_flop_that_one_computes_by_hand(self):
        # BERT, 2 layers of width 768 with 64 tokens: products of weights are 6 FLOP for each weight and token, forward and
        # backward. Attention: 2 + 5 products of 32 x 32 x 768 for each text.
        row = next(row for row in self.rows if row["name"] == "bert")
        tokens, width, vocabulary, layers = torch_networks.BATCH * torch_networks.LENGTH, 768, 30522, 2
        weights = layers * 12 * width * width + width * width + width * vocabulary
        attention = layers * 7 * 2 * torch_networks.BATCH * torch_networks.LENGTH ** 2 * width
        self.assertEqual(row["flop"], 6 * tokens * weights + attention)


if __name__ == "__main__":
    unittest.main()
