"""Measured beside simulated steps of plans on two processes: the page docs/results/apply.md (tools/apply_table)."""

import datetime
import os
import statistics
import sys

import torch
import torch.nn.functional as F
import transformers
from accelerate import infer_auto_device_map
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, ViTConfig, ViTForImageClassification)

import emplace
import emplace.torch as et
from emplace.torch import _profile, _validate, _workers

STEPS = 12
ROUNDS = 3  # of all plans one after another, so that a disturbance meets one round of several plans


def llama():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                                         num_key_value_heads=2, vocab_size=4000)).train()
    words = torch.randint(0, 4000, (2, 128))
    labels = torch.randint(0, 4000, (256,))
    return model, {"input_ids": words, "use_cache": False}, lambda out: F.cross_entropy(out.logits.flatten(0, 1), labels)


def gpt2():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_embd=384, n_layer=6, n_head=6, vocab_size=4000, n_positions=128, resid_pdrop=0,
                                       embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=False, bos_token_id=0,
                                       eos_token_id=0)).train()
    words = torch.randint(0, 4000, (2, 128))
    labels = torch.randint(0, 4000, (256,))
    return model, {"input_ids": words, "use_cache": False}, lambda out: F.cross_entropy(out.logits.flatten(0, 1), labels)


def vit():
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=6,
                                                num_attention_heads=6, image_size=96, patch_size=8, num_labels=100)).train()
    labels = torch.randint(0, 100, (4,))
    return model, {"pixel_values": torch.randn(4, 3, 96, 96)}, lambda out: F.cross_entropy(out.logits, labels)


def stages(prefix, layers, cut, before, after):
    blocks = [f"{prefix}.{i}" for i in range(layers)]
    return [before + blocks[:cut], blocks[cut:] + after]


def llama_stages(cut):
    return stages("model.layers", 6, cut, ["model.embed_tokens", "model.rotary_emb"], ["model.norm", "lm_head"])


def gpt2_stages(cut):
    return stages("transformer.h", 6, cut, ["transformer.wte", "transformer.wpe", "transformer.drop"],
                  ["transformer.ln_f", "lm_head"])


PLANS = [
    ("Llama", llama, "one process", {}),
    ("Llama", llama, "data parallel", {"dp": 2}),
    ("Llama", llama, "FSDP, ZeRO 3", {"dp": 2, "zero": 3}),
    ("Llama", llama, "tensor parallel", {"tp": 2}),
    ("Llama", llama, "pipeline, 1f1b, 3 + 3 layers", {"pp": 2, "grad_accumulation": 6, "stages": llama_stages(3)}),
    ("Llama", llama, "pipeline, gpipe, 4 + 2 layers", {"pp": 2, "grad_accumulation": 6, "schedule": "gpipe",
                                                       "stages": llama_stages(4)}),
    ("GPT-2", gpt2, "data parallel, 3 micro-batches", {"dp": 2, "grad_accumulation": 3}),
    ("GPT-2", gpt2, "pipeline, 1f1b, 2 + 4 layers", {"pp": 2, "grad_accumulation": 6, "stages": gpt2_stages(2)}),
    ("ViT", vit, "FSDP, ZeRO 2", {"dp": 2, "zero": 2}),
    ("ViT", vit, "tensor parallel, 2 micro-batches", {"tp": 2, "grad_accumulation": 2}),
]


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0] * len(values)
    for rank, i in enumerate(order):
        found[i] = rank
    return found


def spearman(first, second):
    return statistics.correlation(ranks(first), ranks(second))


class Rounds:
    """A plan's results, a round each. measured_ms, simulated_ms: the medians of the rounds."""

    def __init__(self):
        self.results = []

    def add(self, name, model, fields, **settings):
        plan = {"schema": "emplace.plan", "version": 1, **fields}
        self.results.append(et.validate(model, plan, steps=STEPS, device="cpu", **settings))
        print(name, self.results[-1], file=sys.stderr)

    @property
    def measured_ms(self):
        return statistics.median(result.measured_ms for result in self.results)

    @property
    def simulated_ms(self):
        return statistics.median(result.simulated_ms for result in self.results)

    @property
    def error_percent(self):
        return 100 * (self.simulated_ms / self.measured_ms - 1)

    def memory(self):
        """The measured and the simulated peak of the process whose measured one is largest, in MiB."""
        pairs = zip(self.results[0].measured_peak_bytes, self.results[0].simulated_peak_bytes)
        return " | ".join(f"{size / 2**20:.1f}" for size in max(pairs))

    def cells(self):
        times = sorted(ms for result in self.results for ms in result.steps_ms)
        return (f"{self.measured_ms:.1f} | {times[len(times) // 10]:.1f} to {times[-1 - len(times) // 10]:.1f} | "
                f"{self.simulated_ms:.1f} | {self.error_percent:+.1f}")


def run_plans():
    rows = [(network, words, Rounds()) for network, _, words, _ in PLANS]
    failures = {}
    for _ in range(ROUNDS):
        for (_, make, words, fields), (_, _, rounds) in zip(PLANS, rows):
            model, kwargs, loss = make()
            try:
                rounds.add(words, model, fields, kwargs=kwargs, loss=loss)
            except emplace.InputError as error:
                failures[words] = str(error)
    return [(network, words, rounds, failures.get(words)) for network, words, rounds in rows]


def unequal_devices():
    """The found split of the Llama on a process at full speed and one at 0.4, beside even splits: rows of name, stages and
    result."""
    model, kwargs, loss = llama()
    speeds, micro_batches = [1.0, 0.4], 6
    processes = _workers.Processes(2, speeds=speeds)
    graph = et.capture(model, kwargs=kwargs, loss=loss, optimizer="sgd")
    profiles = _validate.measure_ops(graph, processes, STEPS)
    simulator = _validate._simulator(graph, profiles, _validate.measure_messages(processes))
    found = emplace.place(simulator, grouping="layers", schedule="1f1b", micro_batches=micro_batches, evaluations=300)
    bytes_each = sum(p.numel() * p.element_size() for p in model.parameters()) * 0.55
    balanced = infer_auto_device_map(model, max_memory={0: int(bytes_each), 1: int(2 * bytes_each)},
                                     no_split_module_classes=model._no_split_modules)
    by_memory = [[path for path, device in balanced.items() if device == rank and path != "model.rotary_emb"] for rank in (0, 1)]
    by_memory[0].append("model.rotary_emb")
    # A stage runs where the search put it: on the slow device, if that comes first.
    first = found.placement[graph.find_op(next(name for name in graph.op_names if name.startswith(et.stages(found)[0][0] + "/")))]
    turned = list(reversed(speeds)) if first == 1 else speeds
    splits = (("found by emplace", et.stages(found)), ("even split, 3 + 3 layers", llama_stages(3)),
              ("Accelerate's balanced map", by_memory))
    rows = [(name, sum(path.startswith("model.layers.") for path in parts[0]), Rounds()) for name, parts in splits]
    for _ in range(ROUNDS):
        for (name, parts), (_, _, rounds) in zip(splits, rows):
            rounds.add(name, model, {"pp": 2, "grad_accumulation": micro_batches, "stages": parts}, kwargs=kwargs, loss=loss,
                       speeds=turned if name == "found by emplace" else speeds)
    return rows


def page(rows, unequal):
    good = [(rounds.measured_ms, rounds.simulated_ms) for _, _, rounds, failure in rows if failure is None]
    errors = [100 * abs(simulated / measured - 1) for measured, simulated in good]
    lines = [
        "# Plans on two cores: measured beside simulated", "",
        "`et.validate` runs each plan on two processes of one thread each, with PyTorch's pipelines, FSDP, tensor parallelism and",
        "DistributedDataParallel on gloo, and simulates it from op and message times that it measures on the same machine just",
        f"after. A step is the median of {STEPS}, after 3 that are not counted. All plans run {ROUNDS} times, one after another; measured and",
        "simulated times are the medians of these rounds. `tools/apply_table build/release` makes this page.", "",
        f"Measured on {datetime.date.today()} on two cores of a {_profile._cpu_name()}, PyTorch {torch.__version__}, transformers "
        f"{transformers.__version__}.", "",
        "| network | plan | measured ms | p10 to p90 | simulated ms | error % | measured MiB | simulated MiB | loss, first step |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|"]
    for network, words, rounds, failure in rows:
        if failure is not None:
            lines.append(f"| {network} | {words} | failed: {failure} | | | | | | |")
        else:
            lines.append(f"| {network} | {words} | {rounds.cells()} | {rounds.memory()} | {rounds.results[0].losses[0]:.5f} |")
    lines += ["", f"- {len(good)} of {len(rows)} plans ran.",
              f"- The median of the absolute errors is {statistics.median(errors):.1f} %, the largest {max(errors):.1f} %.",
              f"- Spearman's rank correlation of simulated and measured steps is {spearman(*zip(*good)):.3f}.", "",
              "Nothing is fitted to these steps. Processes have a core each, so messages are counted after the ops that they follow.",
              "Memory is the peak of tensors, in the process that has most; the simulation lacks some buffers of FSDP and gloo.",
              "", "## Unequal devices", "",
              "The second process is stopped for 6 of each 10 ms. The found split is that of 300 evaluations with the grouping",
              "`layers`, on op times measured on both processes, and may put the first stage on the slow one. Accelerate's map balances",
              "bytes.", "",
              "| split | layers in the first stage | measured ms | p10 to p90 | simulated ms | error % |",
              "|---|---:|---:|---|---:|---:|"]
    lines += [f"| {name} | {layers} | {rounds.cells()} |" for name, layers, rounds in unequal]
    best = unequal[0][2].measured_ms
    lines += ["", *(f"- The found split takes {100 * (1 - best / rounds.measured_ms):.0f} % less time than the {name}."
                    for name, _, rounds in unequal[1:]), ""]
    return "\n".join(lines)


def main():
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = page(run_plans(), unequal_devices())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
