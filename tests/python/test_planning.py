"""emplace.plan, beside the command."""

import json
import tempfile

import emplace
from testing import Case, run_program

QUESTION = ("llama-3-8b", "--cluster", "dgx-h100", "--global-batch", "32")


def found(**options):
    return emplace.plan("llama-3-8b", "dgx-h100", global_batch=32, **options)


class PlanTest(Case):
    def test_finds_what_the_command_finds(self):
        answer = found(nodes=2, gpus=8, sequence=2048, only={"cp": 1, "sequence_parallel": False}, set={"layers": 16})
        status, out, _ = run_program("plan", *QUESTION, "--nodes", "2", "--gpus", "8", "--sequence", "2048", "--only",
                                     "cp=1,sequence_parallel=false", "--set", "layers=16", "--json")
        self.assertEqual(status, 0)
        told = json.loads(out)
        self.assertEqual(answer.to_dict(), told)
        self.assertEqual([plan.to_dict() for plan in answer.plans], told["plans"])
        self.assertEqual((answer.legal, answer.refused, answer.lower_bound_us, answer.gpus),
                         (told["legal"], told["refused"], told["lower_bound_us"], 8))
        best = answer.plans[0]
        self.assertIs(answer.best, best)
        self.assertEqual(best.dp * best.tp * best.pp * best.cp, 8)
        self.assertEqual(sum(best.memory.values()), best.peak_bytes)
        self.assertAlmostEqual(sum(best.time_us.values()), best.step_time_us, delta=1e-3)
        self.assertAlmostEqual(best.tokens_per_s, 32 * 2048 / best.step_time_us * 1e6, delta=1)
        self.assertIsNone(answer.nearest)
        self.assertEqual(found(threads=1), found(threads=3))

    def test_adapters_are_those_of_the_command(self):
        answer = found(lora=8, lora_targets="q_proj,v_proj", set={"layers": 4}, only={"pp": 1, "cp": 1})
        status, out, _ = run_program("plan", *QUESTION, "--lora", "8", "--lora-targets", "q_proj,v_proj", "--set", "layers=4",
                                     "--only", "pp=1,cp=1", "--json")
        self.assertEqual(status, 0)
        self.assertEqual(answer.to_dict(), json.loads(out))
        self.assertEqual((answer.lora["rank"], answer.lora["trained_parameters"]), (8, 4 * 8 * (2 * 4096 + 4096 + 1024)))
        self.assertIsNone(found(only={"dp": 8}).lora)
        for options, text in (({"lora": 0}, "lora: is 0"), ({"lora": 8, "lora_targets": "atention"}, "did you mean attention?"),
                              ({"lora_targets": "attention"}, "lora_targets: needs a rank")):
            with self.assertRaisesRegex(emplace.InputError, text.replace("?", r"\?")):
                found(**options)

    def test_a_cluster_object_and_all_plans(self):
        answer = emplace.plan("llama-3-8b", emplace.Cluster("dgx-h100", gpus=4), global_batch=32, all=True,
                              framework="fsdp")
        self.assertEqual((answer.gpus, answer.framework, len(answer.plans)), (4, "fsdp", answer.legal))
        self.assertEqual({plan.fits for plan in answer.plans}, {True, False})
        self.assertTrue(answer.best.fits)

    def test_the_best_plan_is_written_as_the_command_writes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            answer = found(only={"pp": 2})
            for name, more in (("plan.json", ()), ("flags", ("--to", "megatron"))):
                status, _, err = run_program("plan", *QUESTION, "--only", "pp=2", "-o", name, *more, cwd=folder)
                self.assertEqual(status, 0, err)
            answer.write(f"{folder}/own.json")
            with open(f"{folder}/own.json", encoding="utf-8") as own, open(f"{folder}/plan.json", encoding="utf-8") as file:
                self.assertEqual(own.read(), file.read())
            with open(f"{folder}/flags", encoding="utf-8") as file:
                self.assertEqual(answer.export("megatron"), file.read())
            self.assert_refused("no/own.json: cannot be written", answer.write, f"{folder}/no/own.json")
            self.assert_refused("jax", answer.export, "jax")

    def test_where_nothing_fits_the_nearest_is_there(self):
        answer = emplace.plan("llama-3-70b", "dgx-h100", global_batch=64, only={"tp": 8})
        self.assertEqual((answer.plans, answer.fitting, answer.best), ([], 0, None))
        self.assertFalse(answer.nearest.fits)
        self.assertEqual(answer.nearest.to_dict(), answer.to_dict()["nearest"])
        self.assertIn("--tensor-model-parallel-size", answer.nearest.export("megatron"))
        self.assert_refused("plan: none fits", answer.write, "plan.json")

    def test_objectives_over_accelerators(self):
        question = {"only": {"cp": 1, "micro_batch": 1}, "price": 2}
        fewest = found(objective="gpus", **question)
        self.assertEqual({plan.gpus for plan in fewest.plans}, {fewest.best.gpus})
        cheapest = found(objective="cost", **question)
        costs = [plan.cost_of_billion_tokens for plan in cheapest.plans]
        self.assertEqual(costs, sorted(costs))
        self.assertEqual((cheapest.objective, cheapest.price, cheapest.within_s), ("cost", 2, None))
        self.assertIsNone(found(only=question["only"]).best.cost_of_step)
        late = found(objective="gpus", within=0.1, only=question["only"])
        self.assertEqual((late.plans, late.nearest, late.within_s), ([], None, 0.1))
        self.assertEqual(late.fastest.to_dict(), late.to_dict()["fastest"])
        self.assertTrue(late.fastest.fits)

    def test_a_config_of_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
                json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024,
                           "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 4,
                           "num_hidden_layers": 12, "vocab_size": 32000, "max_position_embeddings": 2048,
                           "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}, file)
            answer = emplace.plan(f"{folder}/config.json", "dgx-h100", global_batch=16)
            self.assertEqual(answer.sequence, 2048)
            self.assertTrue(answer.best.fits)

    def test_a_graph_is_planned_as_the_network_that_it_is_of(self):
        graph = emplace.generate("llama-3-8b", {"layers": 4})
        answer = emplace.plan(graph, "dgx-h100", global_batch=32)
        self.assertEqual([plan.to_dict() for plan in answer.plans],
                         [plan.to_dict() for plan in found(set={"layers": 4}).plans])
        self.assertIsNone(answer.by_modules)
        cut = emplace.plan(graph, "dgx-h100", global_batch=32, only={"pp": 2, "vpp": 1}).best
        self.assertEqual(sum(json.loads(cut.export("stages")), [])[:2], ["model.embed_tokens", "model.rotary_emb"])
        with tempfile.TemporaryDirectory() as folder:
            images = emplace.generate("resnet", {"batch": 8})
            images.save(f"{folder}/resnet.json.gz")
            by_file = emplace.plan(f"{folder}/resnet.json.gz", "dgx-h100", global_batch=64)
            self.assertEqual(by_file, emplace.plan(images, "dgx-h100", global_batch=64))
            self.assertEqual(by_file.framework, "pytorch")
            self.assertIn("attention", by_file.by_modules)
            self.assert_refused("sequence: does not go with resnet", emplace.plan, images, "dgx-h100", global_batch=64,
                                sequence=8)

    def test_bad_arguments_are_told_by_name(self):
        def refused(text, *arguments, **options):
            self.assert_refused(text, emplace.plan, *(arguments or ("llama-3-8b", "dgx-h100")),
                                **{"global_batch": 8, **options})
        refused("did you mean llama-3-70b?", "llama-3-70", "dgx-h100")
        refused("did you mean dgx-h100?", "llama-3-8b", "dgx-h10")
        refused("global_batch: is 0", global_batch=0)
        refused("sequence: is 1.5", sequence=1.5)
        refused("gpus: is 9 (a multiple of the 1 nodes, at most 8)", gpus=9)
        refused("framework: is \"mega\"", framework="mega")
        refused("only: has \"tpp\"", only={"tpp": 1})
        refused("plan: no plan has what only asks for", only={"pp": 64})
        refused("set: layers: ", set={"layers": "x"})
        refused("cluster: is 3", "llama-3-8b", 3)
        refused("threads: is -1", threads=-1)
        refused("within: needs another objective than step_time", within=1)
        refused("price: is missing", objective="cost")
        refused("objective: is \"time\"", objective="time")
        refused("price: is 'much'", price="much")
