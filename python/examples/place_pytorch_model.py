"""From a PyTorch model to a plan that runs: capture, place whole blocks as a pipeline, write the plan, run it on two processes.

    python3 place_pytorch_model.py [PLAN.json]

Needs PyTorch. The model is a small language model of eight blocks, the machine two GPUs of a DGX H100, which are simulated.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

import emplace
import emplace.torch as et

SIZE, WORDS, LENGTH = 128, 500, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, SIZE))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.layers = nn.ModuleList(Block() for _ in range(8))
        self.norm, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, WORDS)

    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    words, labels = torch.randint(0, WORDS, (2, LENGTH)), torch.randint(0, WORDS, (2 * LENGTH,))

    def loss(logits):
        return F.cross_entropy(logits.flatten(0, 1), labels.to(logits.device))

    # One micro-batch: what each stage of the pipeline gets at a time.
    graph = et.capture(model, (words,), loss=loss, optimizer="sgd")
    print(f"{graph}: {graph.parameters:,} parameters, {graph.flop / 1e9:.2f} GFLOP")
    found = emplace.place(graph, cluster=emplace.Cluster("dgx-h100", gpus=2), grouping="layers", schedule="1f1b",
                          micro_batches=4, evaluations=300)
    plan = et.plan(found, micro_batches=4)
    for stage in plan["stages"]:
        print("stage:", *stage)
    print("device map:", et.device_map(found))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(plan, file, indent=1)

    result = et.validate(model, plan, args=(words,), loss=loss, processes=plan["pp"], steps=3, warm_up=1)
    print(f"on {plan['pp']} processes: {result.measured_ms:.1f} ms measured, {result.simulated_ms:.1f} ms simulated")
    print("losses:", *(f"{each:.4f}" for each in result.losses))


main()
