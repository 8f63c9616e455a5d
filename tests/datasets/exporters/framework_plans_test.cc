#include "datasets/exporters/framework_plans.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/exporters/frameworks.h"
#include "datasets/exporters/module_placement.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/modules.h"

namespace emplace::testing {
namespace {

using datasets::FindFrameworkTarget;
using datasets::ModuleDevice;
using datasets::ParallelPlan;
using datasets::ReadFrameworkPlan;
using ::testing::HasSubstr;

constexpr int kLayers = 12;

std::string Text(const ParallelPlan& plan) {
  std::ostringstream text;
  datasets::WritePlan(text, plan);
  return std::move(text).str();
}

// Any plan that ReadPlan takes, with paths of torchtitan's models as stages.
ParallelPlan RandomPlan(std::mt19937* random) {
  const auto one_of = [&]<typename T>(const std::vector<T>& values) { return values[(*random)() % values.size()]; };
  ParallelPlan plan;
  const std::vector<std::int64_t> degrees = {1, 1, 2, 4};
  plan.dp = one_of(degrees);
  plan.tp = one_of(degrees);
  plan.pp = one_of(degrees);
  plan.cp = one_of(std::vector<std::int64_t>{1, 1, 1, 2});
  plan.ep = one_of(std::vector<std::int64_t>{1, 1, plan.tp * plan.dp});
  plan.etp = one_of(std::vector<std::int64_t>{1, 1, 1, 2});
  plan.zero = one_of(std::vector<std::int64_t>{0, 0, 1, 2, 3});
  if (plan.zero > 0 && plan.dp > 1) plan.dp_replicate = one_of(std::vector<std::int64_t>{1, plan.dp / 2});
  plan.micro_batch = one_of(std::vector<std::int64_t>{1, 2, 3});
  plan.grad_accumulation = 8 * one_of(degrees);
  plan.sequence_parallel = plan.tp > 1 && one_of(degrees) > 1;
  plan.recompute = one_of(std::vector<JsonValue>{ToJson("none"), ToJson("none"), ToJson("selective"), ToJson("full"),
                                                 ToJson(std::int64_t{2})});
  if (one_of(degrees) == 2) plan.rank_order = {"tp", "cp", "pp", "dp"};
  if (plan.pp > 1) {
    plan.schedule = one_of(std::vector<std::string>{"gpipe", "1f1b", "1f1b", "interleaved", "zb-h1", "zb-v"});
    if (plan.schedule == "interleaved") plan.vpp = one_of(std::vector<std::int64_t>{2, 3});
    if (plan.schedule == "zb-v") plan.vpp = 2;
    // Cuts between layers, at distinct places.
    std::vector<int> cuts(kLayers - 1);
    for (int i = 0; i < kLayers - 1; ++i) cuts[static_cast<std::size_t>(i)] = i + 1;
    std::shuffle(cuts.begin(), cuts.end(), *random);
    cuts.resize(static_cast<std::size_t>(plan.pp * plan.vpp - 1));
    plan.stages.resize(cuts.size() + 1);
    for (int layer = 0; layer < kLayers; ++layer) {
      const auto stage = std::count_if(cuts.begin(), cuts.end(), [&](int cut) { return cut <= layer; });
      plan.stages[static_cast<std::size_t>(stage)].push_back(ToJson(fmt::format("layers.{}", layer)));
    }
    plan.stages.front().insert(plan.stages.front().begin(), ToJson("tok_embeddings"));
    plan.stages.back().push_back(ToJson("norm"));
    plan.stages.back().push_back(ToJson("lm_head"));
  }
  std::istringstream text(Text(plan));
  return datasets::ReadPlan(text, "random plan");  // what comes of it is one
}

// The part of a plan that a format says; the rest has its default.
ParallelPlan WhatItSays(const std::string& target, const ParallelPlan& plan) {
  ParallelPlan said;
  const auto layers_only = [&] {
    if (plan.stages.empty()) return;
    for (const auto& layers : datasets::LayersOfStages(plan, nullptr)) {
      said.stages.emplace_back();
      for (const std::int64_t layer : layers) said.stages.back().push_back(ToJson(layer));
    }
  };
  const bool is_server = target == "vllm" || target == "llama.cpp";
  const bool is_schedule = target.starts_with("schedule");
  if (!is_server) said.grad_accumulation = plan.grad_accumulation;
  if (!is_server && !is_schedule) {
    said.zero = plan.zero;
    said.dp_replicate = plan.dp_replicate;
    said.micro_batch = plan.micro_batch;
    if (target != "deepspeed") said.sequence_parallel = plan.sequence_parallel;
  }
  if (!is_schedule) {
    said.dp = plan.dp;
    said.tp = plan.tp;
  }
  said.pp = plan.pp;
  said.vpp = plan.vpp;
  if (!is_server) said.schedule = plan.schedule;
  if (target == "llama.cpp" && plan.vpp > 1) said.schedule = "interleaved";
  if (target == "megatron" || target == "torchtitan") {
    said.cp = plan.cp;
    said.ep = plan.ep;
    said.etp = plan.etp;
    said.recompute = plan.recompute;
  }
  if (target == "vllm") said.ep = plan.ep;
  if (target == "megatron") said.rank_order = plan.rank_order;
  if (target == "torchtitan") said.stages = plan.stages;
  if (target == "megatron" || is_server) layers_only();
  return said;
}

TEST(FrameworkPlansTest, EveryFormatComesBackToThePlan) {
  const Graph graph = MakeLanguageModel(kLayers);
  std::mt19937 random(7);
  std::map<std::string, int> written;
  std::map<std::string, int> with_replicas;
  for (int i = 0; i < 4000; ++i) {
    const ParallelPlan plan = RandomPlan(&random);
    for (const std::string_view name : datasets::PlanFormats()) {
      const std::string target(name);
      std::string text;
      try {
        text = FindFrameworkTarget(target).write({.graph = &graph, .plan = &plan});
      } catch (const InputError&) {
        continue;  // the format cannot say this plan
      }
      if (++(plan.dp_replicate > 1 ? with_replicas : written)[target] > 40) continue;
      const ParallelPlan again = ReadFrameworkPlan(target, text, "file", plan.devices());
      ParallelPlan expected = WhatItSays(target, plan);
      if (target == "llama.cpp" && expected.stages.empty()) {
        for (int layer = 0; layer < kLayers; ++layer) {
          if (layer == 0) expected.stages.emplace_back();
          expected.stages.back().push_back(ToJson(std::int64_t{layer}));
        }
      }
      EXPECT_EQ(Text(again), Text(expected)) << target << ":\n" << text;
      EXPECT_EQ(FindFrameworkTarget(target).write({.graph = &graph, .plan = &again}), text);
    }
  }
  for (const std::string_view name : datasets::PlanFormats()) EXPECT_GE(written[std::string(name)], 30) << name;
  for (const char* const name : {"fsdp", "torchtitan", "megatron"}) EXPECT_GE(with_replicas[name], 10) << name;
  for (const char* const name : {"deepspeed", "vllm", "llama.cpp"}) EXPECT_EQ(with_replicas[name], 0) << name;
}

TEST(FrameworkPlansTest, EveryTargetHasAReader) {
  for (const datasets::FrameworkTarget& target : datasets::AllFrameworkTargets()) {
    const auto has = [&](const auto& names) {
      return std::find(names.begin(), names.end(), target.name) != names.end();
    };
    EXPECT_TRUE(has(datasets::PlanFormats()) || has(datasets::PlacementFormats())) << target.name;
  }
}

TEST(FrameworkPlansTest, PlacementsComeBackFromLlamaCppAndOnnxRuntime) {
  const Graph graph = MakeLanguageModel(6);
  const Cluster gpus = MakeCluster(3, {.bandwidth_gb_per_s = 10, .latency_micros = 1, .gap_micros = 0});
  for (int first = 1; first < 5; ++first) {
    for (int second = first + 1; second < 6; ++second) {
      std::vector<ModuleDevice> modules = {{"m", DeviceId{0}}, {"m.norm", DeviceId{2}}, {"head", DeviceId{2}}};
      for (int layer = first; layer < 6; ++layer) {
        modules.push_back({fmt::format("m.layers.{}", layer), layer < second ? DeviceId{1} : DeviceId{2}});
      }
      const Placement placement = datasets::PlaceModules(graph, gpus, modules);
      const std::string flags =
          FindFrameworkTarget("llama.cpp").write({.graph = &graph, .cluster = &gpus, .placement = &placement});
      EXPECT_EQ(datasets::ReadLlamaCpp(flags, "flags", graph, gpus), placement) << flags;
      EXPECT_EQ(datasets::ReadLlamaCppRules(flags).output, "CUDA2");
    }
  }
  const Placement on_one(graph.num_ops());
  const std::string json =
      FindFrameworkTarget("onnxruntime").write({.graph = &graph, .cluster = &gpus, .placement = &on_one});
  EXPECT_EQ(datasets::ReadOnnxRuntime(json, "ort.json", graph, gpus), on_one);
  EXPECT_EQ(datasets::ReadFrameworkPlacement("onnxruntime", json, "ort.json", graph, gpus), on_one);
  EXPECT_EQ(datasets::Accelerators(gpus).size(), 3U);
  EXPECT_THAT(datasets::PlacementFormats(), ::testing::Contains("plan"));
}

// Source: configs.py of torchtitan 0.3.0, ParallelismConfig and TrainingConfig.
TEST(FrameworkPlansTest, TorchtitansFieldsAreThoseOfItsConfiguration) {
  const std::vector<std::string> known = {"data_parallel_replicate_degree",
                                          "data_parallel_shard_degree",
                                          "fsdp_reshard_after_forward",
                                          "tensor_parallel_degree",
                                          "enable_sequence_parallel",
                                          "pipeline_parallel_degree",
                                          "module_fqns_per_model_part",
                                          "pipeline_parallel_schedule",
                                          "pipeline_parallel_microbatch_size",
                                          "context_parallel_degree",
                                          "expert_parallel_degree",
                                          "local_batch_size",
                                          "global_batch_size"};
  std::mt19937 random(3);
  std::set<std::string> seen;
  for (int i = 0; i < 400; ++i) {
    const ParallelPlan plan = RandomPlan(&random);
    std::string text;
    try {
      text = FindFrameworkTarget("torchtitan").write({.graph = nullptr, .plan = &plan});
    } catch (const InputError&) {
      continue;
    }
    const JsonValue root = ParseJson(text);
    for (const std::string_view part : {"parallelism", "training"}) {
      for (const JsonMember& member : std::get<JsonObject>(FindMember(root, part)->data)) seen.insert(member.key);
    }
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(known));
}

TEST(FrameworkPlansTest, MegatronsLayoutsMayRepeatGroups) {
  const ParallelPlan plan = ReadFrameworkPlan("megatron",
                                              "--pipeline-model-parallel-size 4 --micro-batch-size 1 "
                                              "--global-batch-size 8 --pipeline-model-parallel-layout Et*3|(tt|)*6,L",
                                              "flags", 8);
  EXPECT_EQ(plan.vpp, 2);
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.grad_accumulation, 4);
  EXPECT_EQ(plan.stages[1].size(), 2U);
  EXPECT_EQ(JsonText(plan.stages[1][0]), "3");
}

TEST(FrameworkPlansTest, MegatronSaysThePartsOfAHybridsLayersAndTorchtitanHasNone) {
  ParallelPlan plan;
  plan.network = "nemotron-3-super-120b-a12b";
  plan.set = {{"layers", "6"}, {"pattern", "MEM*EM"}};
  plan.dp = 2;
  const std::string whole = FindFrameworkTarget("megatron").write({.plan = &plan});
  EXPECT_THAT(whole, HasSubstr("--hybrid-layer-pattern MEM*EM/*E/*E\n--mtp-use-repeated-layer\n"));
  EXPECT_TRUE(ReadFrameworkPlan("megatron", whole, "file", 2).stages.empty());
  plan.pp = 2;
  plan.AddStage(std::vector<int>{0, 1, 2, 3});
  plan.AddStage(std::vector<int>{4, 5});
  const std::string text = FindFrameworkTarget("megatron").write({.plan = &plan});
  EXPECT_THAT(text, HasSubstr("--hybrid-layer-pattern MEM*|EM/*E/*E\n"));
  EXPECT_THAT(text, Not(HasSubstr("layout")));
  const ParallelPlan read = ReadFrameworkPlan("megatron", text, "file", 4);
  ASSERT_EQ(read.stages.size(), 2U);
  EXPECT_EQ(read.stages[0].size(), 4U);
  EXPECT_EQ(JsonText(read.stages[1][0]), "4");
  try {
    FindFrameworkTarget("torchtitan").write({.plan = &plan});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("network: is nemotron-3-super-120b-a12b, which torchtitan cannot say"));
  }
}

TEST(FrameworkPlansTest, MegatronSaysThePrecisionOfProductsAndOthersDoNot) {
  for (const auto& [precision, flags] :
       std::map<std::string, std::string>{{"fp8", "--fp8-format hybrid\n--fp8-recipe tensorwise\n"},
                                          {"mxfp8", "--fp8-format e4m3\n--fp8-recipe mxfp8\n"},
                                          {"nvfp4", "--fp4-format e2m1\n--fp4-recipe nvfp4\n"}}) {
    ParallelPlan plan;
    plan.dp = 4;
    plan.precision = precision;
    const std::string text = FindFrameworkTarget("megatron").write({.plan = &plan});
    EXPECT_THAT(text, HasSubstr(flags));
    EXPECT_EQ(ReadFrameworkPlan("megatron", text, "file", 4).precision, precision);
    for (const char* const target : {"deepspeed", "torchtitan", "fsdp"}) {
      EXPECT_THROW(FindFrameworkTarget(target).write({.plan = &plan}), InputError) << target;
    }
  }
  const std::string flags = "--global-batch-size 8 --fp8-format hybrid";
  EXPECT_EQ(ReadFrameworkPlan("megatron", flags, "file", 8).precision, "fp8");
  EXPECT_THROW(ReadFrameworkPlan("megatron", flags + " --fp8-recipe custom", "file", 8), InputError);
}

TEST(FrameworkPlansTest, WhatIsNotKnownIsRefusedWithItsPlace) {
  const auto error = [](std::string_view target, const std::string& text) {
    return ErrorOf([&] { ReadFrameworkPlan(target, text, "file", 2); });
  };
  EXPECT_THAT(error("megatron", "--lr 1"), HasSubstr("file: --lr: is not a flag of a plan for Megatron-LM ("));
  EXPECT_EQ(error("megatron", "--micro-batch-size"), "file: --micro-batch-size: has no value");
  EXPECT_THAT(error("megatron", "--micro-batch-size x"), HasSubstr("file: --micro-batch-size: is \"x\""));
  EXPECT_THAT(error("megatron", "--pipeline-model-parallel-layout Et|tmL"), HasSubstr("has \"m\" ("));
  EXPECT_THAT(error("megatron", "--pipeline-model-parallel-layout E(t|tL"), HasSubstr("no \")\""));
  EXPECT_THAT(error("megatron", "--pipeline-model-parallel-layout tE|tL"), HasSubstr("E first, L last"));
  EXPECT_EQ(error("megatron", "--micro-batch-size 1 --micro-batch-size 2"),
            "file: --micro-batch-size: is given twice (once)");
  EXPECT_THAT(error("megatron", "--global-batch-size 3"), HasSubstr("--global-batch-size: is 3 (a multiple of"));
  EXPECT_THAT(ErrorOf([] { ReadFrameworkPlan("megatron", "--global-batch-size 3", "file"); }),
              HasSubstr("needs the number of devices"));
  EXPECT_THAT(error("deepspeed", R"({"fp16": {}})"), HasSubstr("file: fp16"));
  EXPECT_THAT(error("deepspeed", R"({"train_batch_size": 5, "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 1}})"),
              HasSubstr("train_batch_size: is 5"));
  EXPECT_THAT(error("torchtitan", R"({"parallelism": {"pipeline_parallel_degree": 2, "pipeline_parallel_schedule": "X"},
    "training": {"local_batch_size": 1, "global_batch_size": 1}, "activation_checkpoint": null})"),
              HasSubstr("pipeline_parallel_schedule: is \"X\""));
  EXPECT_THAT(error("torchtitan", R"({"parallelism": {"data_parallel_shard_degree": 2},
    "training": {"local_batch_size": 1, "global_batch_size": 2}, "activation_checkpoint": null})"),
              HasSubstr("file: parallelism.fsdp_reshard_after_forward: is missing"));
  EXPECT_THAT(error("megatron", "--num-distributed-optimizer-instances 2 --global-batch-size 2"),
              HasSubstr("file: dp_replicate: is 2, but zero is 0"));
  EXPECT_THAT(error("vllm", "--gpu-memory-utilization 0.9"), HasSubstr("file: --gpu-memory-utilization: "));
  EXPECT_THAT(error("llama.cpp", "-ngl 12"), HasSubstr("file: -ngl: is not 999"));
  EXPECT_THAT(error("llama.cpp", "-ngl 999 -ot exps=CPU"), HasSubstr("file: -ot: has the pattern \"exps\""));
  EXPECT_THAT(error("schedule-csv", "0F0,0F1,0B1,0B0\n"), HasSubstr("is no schedule of"));
  EXPECT_THAT(error("fsdp", "{}"), HasSubstr("file: mesh: is missing"));
  for (const char* const mesh : {R"("tp": 2)", R"("dp": 4, "dp_replicate": 2, "dp_shard": 2, "tp": 1)",
                                 R"("dp_replicate": 2, "tp": 1)", R"("dp": 2, "dp_shard": 2, "tp": 1)"}) {
    EXPECT_THAT(error("fsdp", fmt::format(R"({{"mesh": {{{}}}, "fully_shard": [""], "reshard_after_forward": true,
      "micro_batch": 1, "grad_accumulation": 1, "sequence_parallel": false, "parallelize_plan": {{}}}})",
                                          mesh)),
                HasSubstr("file: mesh"))
        << mesh;
  }
  EXPECT_THAT(error("horovod", ""), HasSubstr("unknown --from"));

  const Graph graph = MakeLanguageModel(2);
  const Cluster gpus = MakeCluster(2, {.bandwidth_gb_per_s = 10, .latency_micros = 1, .gap_micros = 0});
  const auto placed = [&](std::string_view target, const std::string& text) {
    return ErrorOf([&] { datasets::ReadFrameworkPlacement(target, text, "file", graph, gpus); });
  };
  EXPECT_THAT(placed("llama.cpp", R"(-ot blk\.(0)\.=CUDA0)"), HasSubstr("has no rule for \"m.layers.1\""));
  EXPECT_THAT(placed("llama.cpp", R"(-ot blk\.(0|1)\.=CUDA7)"), HasSubstr("is on accelerator 7"));
  EXPECT_THAT(placed("onnxruntime", R"json({"session.layer_assignment_settings": "npu(=a)", "layer_ann": {}})json"),
              HasSubstr("session.layer_assignment_settings"));
  EXPECT_THAT(
      placed("onnxruntime", R"json({"session.layer_assignment_settings": "gpu:0(=a)", "layer_ann": {"x": "a"}})json"),
      HasSubstr("is no op of the graph"));
}

}  // namespace
}  // namespace emplace::testing
