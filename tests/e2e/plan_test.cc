// emplace plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

// Networks have few layers and questions few plans where a test is not about them: under sanitizers a search of all
// plans of a large network takes seconds.
class PlanTest : public EmplaceTest {};

TEST_F(PlanTest, TheBestPlanComesFirstWithItsReasons) {
  const Ran ran = Emplace("plan llama-3-8b --cluster dgx-h100 --nodes 2 --global-batch 16");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("llama-3-8b on 16 x h100, 16 sequences of 4096 tokens a step, as megatron runs it"));
  EXPECT_THAT(ran.out, HasSubstr("Plan 1: a step of "));
  EXPECT_THAT(ran.out, HasSubstr("Plan 2 "));
  EXPECT_THAT(ran.out, HasSubstr("legal plans"));
  EXPECT_EQ(Emplace("plan llama-3-8b --cluster dgx-h100 --nodes 2 --global-batch 16 --threads 1").out, ran.out);
}

TEST_F(PlanTest, JsonHasTheFieldsOfPlans) {
  const Ran ran = Emplace("plan llama-3-8b --cluster dgx-h100 --global-batch 32 --all --only zero=1,cp=1 --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.plans");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("plans").size(), json.at("legal"));
  std::set<bool> fits;
  for (const auto& plan : json.at("plans")) {
    EXPECT_EQ(plan.at("zero"), 1);
    EXPECT_EQ(plan.at("cp"), 1);
    EXPECT_EQ(plan.at("ep"), 1);
    EXPECT_EQ(plan.at("dp").get<int>() * plan.at("tp").get<int>() * plan.at("pp").get<int>(), 8);
    EXPECT_EQ(plan.at("schedule"), plan.at("vpp") == 1 ? "1f1b" : "interleaved");
    double bytes = 0;
    for (const auto& [name, of_class] : plan.at("memory").items()) bytes += of_class.get<double>();
    EXPECT_EQ(bytes, plan.at("peak_bytes").get<double>());
    double micros = 0;
    for (const auto& [name, part] : plan.at("time_us").items()) micros += part.get<double>();
    EXPECT_NEAR(micros, plan.at("step_time_us").get<double>(), 1e-6 * micros);
    EXPECT_NEAR(plan.at("tokens_per_s").get<double>(), 32 * 4096 / plan.at("step_time_us").get<double>() * 1e6, 1);
    EXPECT_LT(plan.at("mfu_percent"), 100);
    fits.insert(plan.at("fits").get<bool>());
  }
  EXPECT_EQ(fits, (std::set<bool>{false, true}));
}

TEST_F(PlanTest, ObjectivesOverAcceleratorsShowTheirNumberAndTheCost) {
  const std::string question = "plan llama-3-8b --cluster dgx-h100 --global-batch 32 --only cp=1,micro_batch=1 ";
  const Ran fewest = Emplace(question + "--objective gpus --price 2");
  ASSERT_EQ(fewest.status, 0) << fewest.err;
  EXPECT_THAT(fewest.out, HasSubstr("llama-3-8b on at most 8 x h100"));
  EXPECT_THAT(fewest.out, HasSubstr("as megatron runs it: fewest GPUs"));
  EXPECT_THAT(fewest.out, HasSubstr("cost of step  of 1e9 tokens"));
  const auto json = nlohmann::json::parse(Emplace(question + "--objective cost --price 2 --json").out);
  EXPECT_EQ(json.at("objective"), "cost");
  EXPECT_EQ(json.at("price"), 2);
  const auto& best = json.at("plans")[0];
  const double gpus = best.at("gpus").get<double>();
  EXPECT_EQ(gpus, best.at("dp").get<double>() * best.at("tp").get<double>() * best.at("pp").get<double>());
  EXPECT_NEAR(best.at("cost_of_step").get<double>(), 2 * gpus * best.at("step_time_us").get<double>() / 3.6e9, 1e-9);
  const Ran late = Emplace(question + "--objective gpus --within 0.1");
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.out, HasSubstr("No plan that fits has a step of 0.1 s or less. The fastest, "));
  for (const auto& [options, told] : {std::pair<std::string, std::string>{"--within 1", "--within: needs another"},
                                      {"--objective cost", "--price: is missing"},
                                      {"--objective time", "--objective: is \"time\""},
                                      {"--objective cost --price x", "--price"}}) {
    const Ran ran = Emplace(question + options);
    EXPECT_EQ(ran.status, 2) << options;
    EXPECT_THAT(ran.err, HasSubstr(told));
  }
  EXPECT_EQ(Emplace("plan --check x.json --objective gpus --cluster dgx-h100").status, 2);
}

TEST_F(PlanTest, ThePlanIsWrittenForOthersToRead) {
  const std::string question = "plan llama-3-8b --cluster dgx-h100 --global-batch 32 --set layers=8 ";
  ASSERT_EQ(Emplace(question + "-o plan.json").status, 0);
  const Ran memory = Emplace("memory --plan plan.json --cluster dgx-h100 --json");
  ASSERT_EQ(memory.status, 0) << memory.err;
  const auto best = nlohmann::json::parse(Emplace(question + "--json").out).at("plans")[0];
  EXPECT_EQ(nlohmann::json::parse(memory.out).at("ranks")[0].at("peak_allocated_bytes"), best.at("peak_bytes"));
  for (const std::string target : {"megatron", "torchtitan", "deepspeed"}) {
    const Ran ran = Emplace(question + "--to " + target + " -o recipe");
    EXPECT_EQ(ran.status, 0) << target << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("recipe: written for " + target));
  }
  // Overlaps that predicted times assume are switched on.
  ASSERT_EQ(Emplace(question + "--framework megatron-bridge --only tp=2,zero=1 --to megatron -o recipe").status, 0);
  for (const std::string flag : {"--overlap-grad-reduce", "--overlap-param-gather", "--tp-comm-overlap"}) {
    EXPECT_THAT(Read("recipe"), HasSubstr(flag + "\n"));
  }
  EXPECT_NE(Emplace("plan llama-3-8b --cluster dgx-h100 --check recipe --set layers=8").status, 2);
  // A pipeline, whose stages are numbers of layers.
  ASSERT_EQ(Emplace(question + "--only pp=4 --to torchtitan -o recipe").status, 0);
  EXPECT_EQ(Emplace("plan llama-3-8b --cluster dgx-h100 --check recipe --set layers=8").status, 0);
  // What DeepSpeed's configuration cannot say is left to the next plan.
  const Ran next = Emplace("plan llama-3-8b --cluster dgx-h100 --gpus 4 --global-batch 32 --to deepspeed -o recipe");
  EXPECT_EQ(next.status, 0) << next.err;
  // Standard output has the plan alone.
  const Ran alone = Emplace(question + "-o -");
  EXPECT_EQ(nlohmann::json::parse(alone.out).at("schema"), "emplace.plan");
}

TEST_F(PlanTest, NetworksWithAnEncoderHavePlans) {
  for (const std::string batch : {"8", "64"}) {
    const std::string question = "plan t5-small --cluster dgx-h100 --sequence 512 --global-batch " + batch;
    const Ran ran = Emplace(question + " --all --json");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto json = nlohmann::json::parse(ran.out);
    for (const auto& plan : json.at("plans")) {
      EXPECT_EQ(plan.at("cp"), 1);
      EXPECT_LT(plan.at("mfu_percent"), 100);
    }
  }
}

TEST_F(PlanTest, SchedulesAreNamedAndTheirStepsSimulated) {
  const std::string question =
      "plan llama-3-8b --cluster dgx-h100 --nodes 2 --global-batch 32 --set layers=8 --only pp=4,micro_batch=1";
  const Ran turns = Emplace(question);
  ASSERT_EQ(turns.status, 0) << turns.err;
  EXPECT_THAT(turns.out, HasSubstr(", was simulated; the closed form estimates a step of "));
  const Ran h1 = Emplace(question + ",schedule=zb-h1");
  ASSERT_EQ(h1.status, 0) << h1.err;
  EXPECT_THAT(h1.out, HasSubstr("megatron has no schedule zb-h1 (it has 1f1b, interleaved)."));
  EXPECT_THAT(h1.out, HasSubstr("zb-h1  "));
  for (const std::string schedule : {"zb-v", "dualpipe"}) {
    ASSERT_EQ(Emplace(question + ",schedule=" + schedule + " -o plan.json --report page.html").status, 0) << schedule;
    const Ran again = Emplace("plan --check plan.json --cluster dgx-h100 --nodes 2 --json");
    const auto json = nlohmann::json::parse(again.out);
    EXPECT_EQ(json.at("checked").at("schedule"), schedule);
    EXPECT_THAT(json.at("notes")[0].get<std::string>(), HasSubstr("megatron has no schedule " + schedule));
  }
  const Ran titan = Emplace(
      "plan mixtral-8x7b --cluster dgx-h100 --nodes 2 --global-batch 32 --framework torchtitan --only "
      "tp=1,micro_batch=1");
  EXPECT_THAT(titan.out, HasSubstr("mixtral-8x7b is none: Megatron-LM's is shown."));
  Write("t5.json", R"({"schema": "emplace.plan", "version": 1, "network": "t5-small", "cp": 2, "dp": 4})");
  EXPECT_THAT(Emplace("plan --check t5.json --cluster dgx-h100 --sequence 512").out,
              HasSubstr("not legal: cp: is 2 (1: the network has an encoder)"));
}

TEST_F(PlanTest, AGraphIsPlannedByThePathsOfItsModules) {
  ASSERT_EQ(Emplace("generate llama-3-8b --set layers=4 -o llama.json").status, 0);
  ASSERT_EQ(Emplace("generate resnet --set batch=8 -o resnet.json").status, 0);
  const std::string where = " --cluster dgx-h100 --global-batch 64";
  const auto plans = [&](const std::string& network) {
    return nlohmann::json::parse(Emplace("plan " + network + where + " --json").out).at("plans");
  };
  EXPECT_EQ(plans("llama.json"), plans("llama-3-8b --set layers=4"));
  const Ran resnet = Emplace("plan resnet.json" + where);
  EXPECT_THAT(resnet.out, HasSubstr("resnet.json on 8 x h100, 64 samples a step, as pytorch runs it"));
  EXPECT_THAT(resnet.out, HasSubstr("tp needs pairs of linear modules"));
  // Targets that name modules, and a plan that comes back.
  const Ran fsdp = Emplace("plan llama.json" + where + " --to fsdp -o -");
  EXPECT_THAT(fsdp.out, HasSubstr("\"model.layers.3\""));
  const Ran split = Emplace("plan llama.json" + where + " --only pp=2,vpp=1 --to split-spec -o -");
  EXPECT_EQ(nlohmann::json::parse(split.out).begin().value(), "BEGINNING");
  ASSERT_EQ(Emplace("plan llama.json" + where + " --only pp=2 -o cut.json").status, 0);
  EXPECT_THAT(Emplace("plan --check cut.json --cluster dgx-h100").out, HasSubstr("cut.json: a step of"));
  EXPECT_THAT(Emplace("plan llama-3-8b" + where + " --to fsdp -o -").err,
              HasSubstr("--to: is fsdp, which names the modules of a graph"));
  EXPECT_THAT(Emplace("plan llama.json --set layers=2" + where).err, HasSubstr("--set: does not go with llama.json"));
}

TEST_F(PlanTest, ASearchStartsFromTheStagesOfAPlan) {
  ASSERT_EQ(Emplace("generate llama-3-8b --set layers=4 -o llama.json").status, 0);
  const Ran plan = Emplace("plan llama.json --cluster dgx-h100 --global-batch 64 --only pp=2,vpp=1 -o plan.json");
  ASSERT_EQ(plan.status, 0) << plan.err;
  // The first evaluation of a walk is of its start.
  const Ran placed = Emplace(
      "place llama.json --cluster dgx-h100 --agent random_walk --evaluations 1 --start plan.json -o placement.json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  const Ran stages =
      Emplace("export --graph llama.json --cluster dgx-h100 --placement placement.json --to stages -o -");
  ASSERT_EQ(stages.status, 0) << stages.err;
  const auto layers = [](const nlohmann::json& of) {
    std::vector<std::set<std::string>> found;
    for (const auto& stage : of) {
      found.emplace_back();
      for (const std::string path : stage) {
        if (path.find("layers.") != std::string::npos) found.back().insert(path);
      }
    }
    return found;
  };
  const auto expected = layers(nlohmann::json::parse(Read("plan.json")).at("stages"));
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(layers(nlohmann::json::parse(stages.out)), expected);
}

TEST_F(PlanTest, ASweepOfPlansGoesOnAndIsReported) {
  Write("sweep.yaml",
        "schema: emplace.experiment\nversion: 1\nname: machines\nplans:\n  network: llama-3-8b\n"
        "  cluster: [dgx-h100, dgx-a100]\n  global_batch: 32\n  only: {cp: 1, micro_batch: 1}\n");
  const Ran sweep = Emplace("sweep sweep.yaml -o runs");
  ASSERT_EQ(sweep.status, 0) << sweep.err;
  EXPECT_THAT(sweep.out, HasSubstr("dgx-a100"));
  EXPECT_EQ(Emplace("sweep sweep.yaml -o runs").out, sweep.out);
  EXPECT_THAT(Emplace("sweep sweep.yaml --dry-run").out, HasSubstr("2 cells"));
  ASSERT_EQ(Emplace("report runs/machines").status, 0);
  EXPECT_THAT(Read("runs/machines/report.md"), HasSubstr("dgx-a100"));
  EXPECT_THAT(Emplace("sweep sweep.yaml --plan").err, HasSubstr("--plan: does not go with"));
}

TEST_F(PlanTest, FilesToCheckAreToldApart) {
  const std::string question = "plan llama-3-8b --cluster dgx-h100 --check ";
  const auto told = [&](const std::string& text) {
    Write("checked", text);
    const Ran ran = Emplace(question + "checked");
    EXPECT_EQ(ran.status, 2) << text;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(told(R"({"schema": "emplace.plan", "ver)"), HasSubstr("checked: line 1, column 32: not valid JSON"));
  EXPECT_THAT(told(""), HasSubstr("checked"));
  EXPECT_THAT(told("{}"), HasSubstr("is no plan"));
  EXPECT_THAT(told("[1]"), HasSubstr("is no plan"));
  EXPECT_THAT(told("--tensor-model-parallel-siz 2"), HasSubstr("is not a flag"));
  Write("checked", R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 3}})");
  EXPECT_EQ(Emplace(question + "checked").out, Emplace(question + "checked --framework deepspeed").out);
}

TEST_F(PlanTest, APlanOfOnesOwnIsCheckedBesideTheBest) {
  Write("args.json", R"({"model": "gpt", "num-layers": 8, "hidden-size": 4096, "num-attention-heads": 32,
    "seq-length": 4096, "micro-batch-size": 1, "global-batch-size": 128, "tensor-model-parallel-size": 4,
    "sequence-parallel": true, "bf16": true, "use-distributed-optimizer": true})");
  const Ran megatron = Emplace("plan --check args.json --cluster dgx-h100 --nodes 2");
  ASSERT_EQ(megatron.status, 0) << megatron.err;
  EXPECT_THAT(megatron.out, HasSubstr("args.json: a step of "));
  EXPECT_THAT(megatron.out, HasSubstr("tp 1 instead of 4"));
  EXPECT_THAT(megatron.out, HasSubstr("times as fast:"));
  const std::string cluster = " --cluster dgx-h100 ";
  for (const std::string target : {"megatron", "torchtitan", "deepspeed"}) {
    ASSERT_EQ(
        Emplace("plan llama-3-8b --set layers=8 --global-batch 32 --to " + target + " -o recipe" + cluster).status, 0);
    const Ran ran = Emplace("plan llama-3-8b --set layers=8 --check recipe --framework " + target + cluster + "--json");
    ASSERT_EQ(ran.status, 0) << target << ran.err;
    const auto json = nlohmann::json::parse(ran.out);
    EXPECT_EQ(json.at("checked").at("step_time_us"), json.at("plans")[0].at("step_time_us")) << target;
  }
  Write("large.json", R"({"schema": "emplace.plan", "version": 1, "network": "llama-3-8b", "dp": 8})");
  const Ran large = Emplace("plan --check large.json" + cluster);
  EXPECT_EQ(large.status, 1);
  EXPECT_THAT(large.out, HasSubstr("GiB too many"));
  Write("illegal.json",
        R"({"schema": "emplace.plan", "version": 1, "network": "llama-3-8b", "dp": 2, "pp": 4, "ep": 2})");
  EXPECT_THAT(Emplace("plan --check illegal.json" + cluster).out, HasSubstr("not legal: ep: is 2"));
  Write("few.json", R"({"schema": "emplace.plan", "version": 1, "network": "llama-3-8b", "dp": 4})");
  const Ran few = Emplace("plan --check few.json" + cluster);
  EXPECT_EQ(few.status, 2);
  EXPECT_THAT(few.err, HasSubstr("dp: times tp, pp and cp is 4 (the 8 accelerators of dgx-h100)"));
  for (const std::string wrong : {"none.json", "g.json", "args.json --only tp=1", "large.json --global-batch 3"}) {
    const Ran ran = Emplace("plan --check " + wrong + cluster);
    EXPECT_EQ(ran.status, 2) << wrong << ran.out;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  }
}

TEST_F(PlanTest, TheReportIsAPageOfItsOwn) {
  const std::string question = "plan llama-3-8b --cluster dgx-h100 --global-batch 32 --set layers=8 --only pp=2 ";
  const Ran ran = Emplace(question + "--report page.html");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("page.html: written"));
  EXPECT_EQ(ran.out, Emplace(question).out);
  const std::string page = Read("page.html");
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0U);
  for (const char* const heading :
       {"Best plans", "Where the step goes", "Memory", "Schedule", "Step time against memory"}) {
    EXPECT_THAT(page, HasSubstr(std::string(">") + heading + "</h2>"));
  }
  // Its pictures are whole XML, and nothing is loaded.
  EXPECT_EQ(Shell("python3 -c 'import re, xml.dom.minidom as m; s = re.findall(\"<svg.*?</svg>\", "
                  "open(\"page.html\").read(), re.S); [m.parseString(one) for one in s]; print(len(s))'")
                .out,
            "3\n");
  EXPECT_THAT(page, ::testing::Not(HasSubstr("src=")));
  EXPECT_EQ(
      Emplace("plan llama-3-70b --cluster dgx-h100 --global-batch 64 --only tp=8,micro_batch=1 --report none.html")
          .status,
      1);
  EXPECT_THAT(Read("none.html"), HasSubstr("No plan fits."));
}

TEST_F(PlanTest, AdaptersAreTrainedBesideAFrozenNetwork) {
  const std::string question = "plan llama-3-8b --set layers=4 --cluster dgx-h100 --global-batch 8 --only pp=1,cp=1";
  const Ran ran = Emplace(question + " --lora 8 --lora-targets q_proj,v_proj -o plan.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  // 4 layers of width 4,096, with queries of 4,096 and values of 1,024.
  EXPECT_THAT(ran.out, HasSubstr("Trains 425,984 of "));
  EXPECT_THAT(ran.out, HasSubstr(" parameters: adapters of rank 8 at q_proj,v_proj.\n"));
  const auto json = nlohmann::json::parse(Emplace(question + " --lora 8 --json").out);
  EXPECT_EQ(json.at("lora").at("rank"), 8);
  EXPECT_EQ(json.at("lora").at("targets"), "linear_qkv,linear_proj,linear_fc1,linear_fc2");
  EXPECT_EQ(json.at("lora").at("trained_parameters"),
            4 * 8 * ((4096 + 6144) + (4096 + 4096) + (4096 + 2 * 14336) + (14336 + 4096)));
  // The plan that is written is one of adapters.
  const Ran memory = Emplace("memory --plan plan.json --cluster dgx-h100");
  ASSERT_EQ(memory.status, 0) << memory.err;
  EXPECT_THAT(memory.out, HasSubstr("Adapters of rank 8 at q_proj,v_proj; all else is frozen."));
  const Ran check = Emplace("plan --check plan.json --cluster dgx-h100");
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("adapters of rank 8 at q_proj,v_proj"));
  const auto memory_json = nlohmann::json::parse(
      Emplace("memory llama-3-8b --set layers=4 --plan dp=8,zero=1,lora=4 --lora-targets linear_fc2 --json").out);
  EXPECT_EQ(memory_json.at("lora").at("targets"), "down_proj");
}

TEST_F(PlanTest, WhatCannotBeIsToldInOneLine) {
  const auto told = [&](const std::string& arguments, int status) {
    const Ran ran = Emplace("plan " + arguments);
    EXPECT_EQ(ran.status, status) << arguments;
    EXPECT_TRUE(status != 2 || IsOneLine(ran.err)) << ran.err;
    return ran.err + ran.out;
  };
  EXPECT_THAT(told("llama-3-70 --cluster dgx-h100 --global-batch 8", 2), HasSubstr("did you mean llama-3-70b?"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h10 --global-batch 8", 2), HasSubstr("did you mean dgx-h100?"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100", 2), HasSubstr("--global-batch"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 0", 2), HasSubstr("--global-batch"));
  EXPECT_THAT(told("--cluster dgx-h100 --global-batch 8", 2), HasSubstr("NETWORK"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 7 --only dp=8", 2),
              HasSubstr("dp does not divide the global batch"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --only pp=64", 2), HasSubstr("no plan has"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --only tp", 2), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --framework jax", 2), HasSubstr("megatron"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --gpus 9", 2), HasSubstr("--gpus"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --only dp=8 --explain 99", 2),
              HasSubstr("--explain"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --to jax -o x", 2), HasSubstr("jax"));
  for (const std::string target : {"device-map", "onnxruntime", "fsdp", "vllm"}) {
    EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 -o x --to " + target, 2), HasSubstr("torchtitan"));
  }
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --gpus 0", 2), HasSubstr("--gpus: is 0"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --lora 0", 2), HasSubstr("--lora: is \"0\""));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --lora-targets attention", 2),
              HasSubstr("--lora-targets: needs a rank (--lora)"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --lora 8 --lora-targets atention", 2),
              HasSubstr("did you mean attention?"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --lora 8 --framework torchtitan", 2),
              HasSubstr("--lora: does not go with --framework torchtitan"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --only dp=8 --lora 8 --to deepspeed -o x", 2),
              HasSubstr("lora: is 8, which DeepSpeed's configuration cannot say"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --json -o -", 2), HasSubstr("--json"));
  EXPECT_THAT(told("llama-3-8b --cluster dgx-h100 --global-batch 8 --report x.pdf", 2),
              HasSubstr("x.pdf: is not a name for a page (a name that ends in .html)"));
  const std::string nothing = told("llama-3-70b --cluster dgx-h100 --global-batch 64 --only tp=8,micro_batch=1", 1);
  EXPECT_THAT(nothing, HasSubstr("No plan fits"));
  EXPECT_THAT(nothing, HasSubstr("GiB too much"));
}

}  // namespace
}  // namespace emplace::testing
