#include "datasets/exporters/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "datasets/exporters/module_placement.h"
#include "datasets/exporters/tensor_parallel.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/modules.h"

namespace emplace::testing {
namespace {

using datasets::FrameworkInput;
using datasets::ModuleDevice;
using datasets::ParallelPlan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Cluster Gpus(std::size_t count) {
  return MakeCluster(count, {.bandwidth_gb_per_s = 10, .latency_micros = 1, .gap_micros = 0});
}

// Blocks 0 and 1 of four, and what comes before them, on device 0, the others on device 1.
Placement Halves(const Graph& graph, const Cluster& cluster) {
  const std::vector<ModuleDevice> modules = {{"m", DeviceId{0}},
                                             {"m.layers.2", DeviceId{1}},
                                             {"m.layers.3", DeviceId{1}},
                                             {"m.norm", DeviceId{1}},
                                             {"head", DeviceId{1}}};
  return datasets::PlaceModules(graph, cluster, modules);
}

ParallelPlan PlanOf(const std::string& text) {
  std::istringstream in(R"({"schema": "emplace.plan", "version": 1)" + (text.empty() ? "" : ", " + text) + "}");
  return datasets::ReadPlan(in, "plan.json");
}

std::string Write(std::string_view target, const ParallelPlan& plan, const Graph* graph = nullptr,
                  const Cluster* cluster = nullptr) {
  return datasets::FindFrameworkTarget(target).write(
      {.graph = graph, .cluster = cluster, .placement = nullptr, .plan = &plan});
}

TEST(ModulePlacementTest, APlacementIsTheFewestPathsThatSayIt) {
  const Graph graph = MakeLanguageModel(4);
  const Cluster cluster = Gpus(2);
  const Placement placement = Halves(graph, cluster);
  std::vector<std::string> paths;
  for (const ModuleDevice& module : datasets::ModuleDevices(graph, cluster, placement)) {
    paths.push_back(module.path + (module.device == DeviceId{0} ? "=0" : "=1"));
  }
  EXPECT_THAT(paths, ElementsAre("m.embed=0", "m.rotary=0", "m.layers.0=0", "m.layers.1=0", "m.layers.2=1",
                                 "m.layers.3=1", "m.norm=1", "head=1"));
  EXPECT_EQ(datasets::ModuleDevices(graph, cluster, Placement(graph.num_ops()))[0].path, "");
}

TEST(ModulePlacementTest, ADividedBlockIsRefusedWithItsDevices) {
  const Graph graph = MakeLanguageModel(2);
  const Cluster cluster = Gpus(2);
  Placement placement(graph.num_ops());
  placement[*graph.FindOp("m.layers.1.down/mm")] = DeviceId{1};
  EXPECT_THAT(ErrorOf([&] { datasets::ModuleDevices(graph, cluster, placement); }),
              ::testing::AllOf(HasSubstr("m.layers.1.down"), HasSubstr("is placed on"), HasSubstr("whole modules")));
}

TEST(ModulePlacementTest, AModuleWithoutADeviceAndTwoThatMustBeTogetherAreRefused) {
  const Graph graph = MakeLanguageModel(2, /*tied=*/true);
  const Cluster cluster = Gpus(2);
  const std::vector<ModuleDevice> some = {{"m.embed", DeviceId{0}}};
  EXPECT_THAT(ErrorOf([&] { datasets::PlaceModules(graph, cluster, some); }), HasSubstr("has no device"));
  const std::vector<ModuleDevice> apart = {{"m", DeviceId{0}}, {"head", DeviceId{1}}};
  EXPECT_THAT(ErrorOf([&] { datasets::PlaceModules(graph, cluster, apart); }), HasSubstr("what has to be beside it"));
}

TEST(ModulePlacementTest, StagesRunOneAfterTheOther) {
  const Graph graph = MakeLanguageModel(4);
  const Cluster cluster = Gpus(2);
  const auto stages = datasets::ModuleStages(graph, cluster, Halves(graph, cluster));
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_THAT(stages[0].modules, ElementsAre("m.embed", "m.rotary", "m.layers.0", "m.layers.1"));
  EXPECT_EQ(stages[1].first, "m.layers.2");
  const std::vector<ModuleDevice> turns = {{"m", DeviceId{0}}, {"m.layers.1", DeviceId{1}}, {"head", DeviceId{1}}};
  EXPECT_THAT(ErrorOf([&] { datasets::ModuleStages(graph, cluster, datasets::PlaceModules(graph, cluster, turns)); }),
              HasSubstr("is entered once"));
}

TEST(FrameworksTest, EveryFormatOfAPlacementComesBackToIt) {
  const Graph graph = MakeLanguageModel(4);
  const Cluster cluster = Gpus(2);
  const Placement placement = Halves(graph, cluster);
  const ParallelPlan plan = datasets::PlanOfPlacement(graph, cluster, placement, 8, "1f1b");
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.grad_accumulation, 8);
  EXPECT_EQ(datasets::PlacementOfPlan(graph, cluster, plan), placement);
  const FrameworkInput input = {.graph = &graph, .cluster = &cluster, .placement = &placement, .plan = nullptr};
  const std::string map = datasets::FindFrameworkTarget("device-map").write(input);
  EXPECT_THAT(map, HasSubstr("\"m.layers.2\": 1"));
  EXPECT_EQ(datasets::ReadDeviceMap(map, "map.json", graph, cluster), placement);
  EXPECT_EQ(datasets::ReadStages(Write("stages", plan), "stages.json", graph, cluster), placement);
  EXPECT_EQ(Write("split-spec", plan), "{\n \"m.layers.2\": \"BEGINNING\"\n}\n");
  EXPECT_EQ(datasets::ReadSplitSpec(Write("split-spec", plan), "split.json", graph, cluster), placement);
}

TEST(FrameworksTest, EveryTargetHasANameAndASummary) {
  for (const datasets::FrameworkTarget& target : datasets::AllFrameworkTargets()) {
    EXPECT_EQ(datasets::FindFrameworkTarget(target.name).summary, target.summary);
    EXPECT_FALSE(target.summary.empty());
  }
}

TEST(FrameworksTest, WrongFilesAreRefusedWithTheirPlace) {
  const Graph graph = MakeLanguageModel(2);
  const Cluster cluster = Gpus(2);
  EXPECT_EQ(ErrorOf([&] { datasets::ReadDeviceMap(R"({"m": 0, "head": 7})", "map.json", graph, cluster); }),
            "map.json: head: is on accelerator 7 (cluster \"" + cluster.name() + "\" has 2)");
  EXPECT_THAT(ErrorOf([&] { datasets::ReadDeviceMap("[]", "map.json", graph, cluster); }), HasSubstr("map.json: "));
  EXPECT_THAT(ErrorOf([&] { datasets::ReadStages(R"([["m"], "head"])", "s.json", graph, cluster); }),
              HasSubstr("s.json: "));
  EXPECT_THAT(ErrorOf([&] { datasets::ReadSplitSpec(R"({"m.layers.9": "BEGINNING"})", "s.json", graph, cluster); }),
              HasSubstr("is no module that runs"));
  EXPECT_THAT(ErrorOf([&] { datasets::FindFrameworkTarget("horovod"); }), HasSubstr("device-map"));
}

TEST(FrameworksTest, TensorParallelismDividesByColumnsThenByRows) {
  EXPECT_THAT(datasets::TensorParallelStyles(MakeLanguageModel(2)),
              ElementsAre(Pair("m.layers.0.up", "colwise"), Pair("m.layers.0.down", "rowwise"),
                          Pair("m.layers.1.up", "colwise"), Pair("m.layers.1.down", "rowwise")));
  const Graph graph = MakeLanguageModel(2);
  EXPECT_THAT(
      Write("fsdp", PlanOf(R"("dp": 2, "tp": 2, "zero": 3)"), &graph),
      ::testing::AllOf(HasSubstr("\"m.layers.1.up\": \"colwise\""), HasSubstr("\"reshard_after_forward\": true")));
}

TEST(FrameworksTest, LayersOfStagesFollowOneAnother) {
  const Graph graph = MakeLanguageModel(5);
  EXPECT_THAT(datasets::LayersOfStages(PlanOf(R"("pp": 2)"), &graph),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(datasets::LayersOfStages(PlanOf(R"("pp": 2, "stages": [["e", "l.0"], ["l.1", "n"]])"), nullptr),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(ErrorOf([] { datasets::LayersOfStages(PlanOf(R"("pp": 2, "stages": [["l.1"], ["l.0"]])"), nullptr); }),
            "stages[0]: has layer 1 where 0 follows (all layers in their order)");
  EXPECT_EQ(ErrorOf([] { datasets::LayersOfStages(PlanOf(R"("pp": 2, "stages": [["l.0"], ["l.1.mlp"]])"), nullptr); }),
            "stages[1]: has \"l.1.mlp\", which is inside of a layer (whole layers)");
}

TEST(FrameworksTest, MegatronHasALayoutAndFlags) {
  const ParallelPlan plan = PlanOf(R"("pp": 2, "tp": 4, "dp": 2, "zero": 1, "micro_batch": 2, "grad_accumulation": 8,
    "sequence_parallel": true, "recompute": 3, "stages": [[0, 1, 2], [3]])");
  EXPECT_EQ(
      Write("megatron", plan),
      "--tensor-model-parallel-size 4\n--pipeline-model-parallel-size 2\n--pipeline-model-parallel-layout Et*3|tL\n"
      "--context-parallel-size 1\n--sequence-parallel\n--micro-batch-size 2\n--global-batch-size 32\n"
      "--use-distributed-optimizer\n--overlap-grad-reduce\n--overlap-param-gather\n"
      "--recompute-granularity full\n--recompute-method block\n"
      "--recompute-num-layers 3\n");
  EXPECT_THAT(ErrorOf([] { Write("megatron", PlanOf(R"("pp": 2, "schedule": "zb-h1", "stages": [[0], [1]])")); }),
              HasSubstr("schedule: is zb-h1, which Megatron-LM cannot say"));
  EXPECT_THAT(ErrorOf([] { Write("megatron", PlanOf(R"("lora": 16)")); }),
              HasSubstr("lora: is 16, which Megatron-LM cannot say (none: Megatron-Bridge's recipes make adapters)"));
  for (const char* const target : {"deepspeed", "torchtitan"}) {
    EXPECT_THAT(ErrorOf([&] { Write(target, PlanOf(R"("lora": 16)")); }),
                HasSubstr("(none: the model's code makes adapters)"));
  }
}

TEST(FrameworksTest, OtherConfigurationsHaveTheirFieldsAndRefuseWhatTheyCannotSay) {
  EXPECT_EQ(
      Write("deepspeed", PlanOf(R"("dp": 4, "zero": 2, "micro_batch": 2, "grad_accumulation": 3)")),
      "{\n \"train_batch_size\": 24,\n \"train_micro_batch_size_per_gpu\": 2,\n \"gradient_accumulation_steps\": 3,\n"
      " \"zero_optimization\": {\n  \"stage\": 2\n }\n}\n");
  EXPECT_THAT(ErrorOf([] { Write("deepspeed", PlanOf(R"("pp": 2)")); }), HasSubstr("pp: is 2, which DeepSpeed"));
  EXPECT_THAT(ErrorOf([] { Write("deepspeed", PlanOf(R"("recompute": "full")")); }), HasSubstr("recompute: is full"));
  const std::string titan = Write("torchtitan", PlanOf(R"("pp": 2, "dp": 2, "zero": 3, "schedule": "gpipe",
    "grad_accumulation": 4, "stages": [["model.embed_tokens", "model.layers.0"], ["model.layers.1", "model.norm", "lm_head"]])"));
  for (const char* const part :
       {"\"data_parallel_shard_degree\": 2", "\"pipeline_parallel_schedule\": \"GPipe\"", "\"tok_embeddings\"",
        "\"layers.1\"", "\"norm\"", "\"lm_head\"", "\"local_batch_size\": 4"}) {
    EXPECT_THAT(titan, HasSubstr(part));
  }
  const std::string numbers = Write("torchtitan", PlanOf(R"("pp": 2, "zero": 3, "stages": [[0, 1], [2]])"));
  for (const char* const part :
       {"\"tok_embeddings\",\n    \"layers.0\",\n    \"layers.1\"", "\"layers.2\",\n    \"norm\",\n    \"lm_head\""}) {
    EXPECT_THAT(numbers, HasSubstr(part));
  }
  EXPECT_THAT(ErrorOf([] { Write("torchtitan", PlanOf(R"("dp": 2, "zero": 1)")); }), HasSubstr("zero: is 1"));
  EXPECT_EQ(Write("vllm", PlanOf(R"("pp": 2, "tp": 2, "stages": [[0, 1, 2], [3, 4]])")),
            "VLLM_PP_LAYER_PARTITION=3,2\n--pipeline-parallel-size 2\n--tensor-parallel-size 2\n");
  EXPECT_EQ(Write("llama.cpp", PlanOf(R"("pp": 2, "stages": [[0, 1], [2]])")),
            "-ngl 999\n-ot blk\\.(0|1)\\.=CUDA0,blk\\.(2)\\.=CUDA1,output=CUDA1\n");
  EXPECT_EQ(
      Write("schedule-csv", PlanOf(R"("pp": 2, "schedule": "gpipe", "grad_accumulation": 2, "stages": [[0], [1]])")),
      "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
}

TEST(FrameworksTest, ReplicasOfShardsAreSaidWhereTheFormatHasThem) {
  const Graph graph = MakeLanguageModel(2);
  const ParallelPlan plan = PlanOf(R"("dp": 8, "dp_replicate": 2, "zero": 3)");
  EXPECT_EQ(plan.dp_shard(), 4);
  EXPECT_THAT(Write("fsdp", plan, &graph), HasSubstr("\"dp_replicate\": 2,\n  \"dp_shard\": 4,\n  \"tp\": 1"));
  EXPECT_THAT(Write("torchtitan", plan), ::testing::AllOf(HasSubstr("\"data_parallel_replicate_degree\": 2"),
                                                          HasSubstr("\"data_parallel_shard_degree\": 4")));
  EXPECT_THAT(Write("megatron", plan), HasSubstr("--num-distributed-optimizer-instances 2\n"));
  EXPECT_THAT(ErrorOf([&] { Write("megatron", PlanOf(R"("dp": 8, "dp_replicate": 2, "zero": 2, "ep": 2)")); }),
              HasSubstr("dp_replicate: is 2, which Megatron-LM cannot say"));
  for (const char* const target : {"deepspeed", "vllm", "llama.cpp"}) {
    ParallelPlan alone = plan;
    if (std::string(target) == "llama.cpp") alone.dp = 1;  // which it refuses first
    EXPECT_THAT(ErrorOf([&] { Write(target, alone); }), HasSubstr("dp_replicate: is 2, which ")) << target;
  }
}

TEST(FrameworksTest, OnnxRuntimeHasOneGpu) {
  const Graph graph = MakeLanguageModel(2);
  const Cluster cluster = Gpus(2);
  const std::vector<ModuleDevice> modules = {{"", DeviceId{0}}, {"head", DeviceId{1}}};
  const Placement placement = datasets::PlaceModules(graph, cluster, modules);
  const FrameworkInput two = {.graph = &graph, .cluster = &cluster, .placement = &placement, .plan = nullptr};
  EXPECT_THAT(ErrorOf([&] { datasets::FindFrameworkTarget("onnxruntime").write(two); }), HasSubstr("has one GPU"));
  const Placement on_one(graph.num_ops());
  const FrameworkInput one = {.graph = &graph, .cluster = &cluster, .placement = &on_one, .plan = nullptr};
  EXPECT_THAT(datasets::FindFrameworkTarget("onnxruntime").write(one), HasSubstr("gpu:0(=on_gpu)"));
}

TEST(FrameworksTest, SplitSpecRefusesValuesThatSkipAStage) {
  const Graph graph = MakeLanguageModel(3);
  const Cluster cluster = Gpus(3);
  const std::vector<ModuleDevice> modules = {{"m", DeviceId{0}},
                                             {"m.layers.1", DeviceId{1}},
                                             {"m.layers.2", DeviceId{2}},
                                             {"m.norm", DeviceId{2}},
                                             {"head", DeviceId{2}}};
  const Placement placement = datasets::PlaceModules(graph, cluster, modules);
  const ParallelPlan plan = datasets::PlanOfPlacement(graph, cluster, placement, 4, "1f1b");
  EXPECT_THAT(ErrorOf([&] { Write("split-spec", plan, &graph, &cluster); }), HasSubstr("next stage only"));
}

TEST(ParallelPlanTest, APlanIsReadAndWrittenWhole) {
  const ParallelPlan plan = PlanOf(R"("network": "gpt", "set": {"layers": 4}, "dp": 2, "pp": 2, "recompute": 1)");
  EXPECT_EQ(plan.devices(), 4);
  std::stringstream text;
  datasets::WritePlan(text, plan);
  EXPECT_THAT(text.str(), HasSubstr(R"("rank_order":["tp","cp","dp","pp"])"));
  EXPECT_THAT(text.str(), ::testing::Not(HasSubstr("dp_replicate")));
  const ParallelPlan again = datasets::ReadPlan(text, "again.json");
  EXPECT_EQ(again.pp, 2);
  EXPECT_EQ(JsonText(again.recompute), "1");
  EXPECT_EQ(PlanOf(R"("pp": 2, "vpp": 3, "schedule": "interleaved")").schedule_name(), "interleaved:3");
  EXPECT_THAT(text.str(), ::testing::Not(HasSubstr("precision")));
  std::stringstream in_eight_bits;
  datasets::WritePlan(in_eight_bits, PlanOf(R"("precision": "mxfp8")"));
  EXPECT_EQ(datasets::ReadPlan(in_eight_bits, "again.json").precision, "mxfp8");
}

TEST(ParallelPlanTest, WrongPlansAreRefusedWithTheField) {
  const auto error = [](const std::string& text) { return ErrorOf([&] { PlanOf(text); }); };
  EXPECT_THAT(error(R"("pp": 0)"), HasSubstr("plan.json: pp: is 0"));
  EXPECT_THAT(error(R"("zero": 4)"), HasSubstr("zero"));
  EXPECT_THAT(error(R"("pq": 1)"), HasSubstr("plan.json: pq"));
  EXPECT_EQ(error(R"("dp": 4, "dp_replicate": 2)"),
            "plan.json: dp_replicate: is 2, but zero is 0, which shards nothing (1)");
  for (const char* const replicas : {"3", "4", "8"}) {
    EXPECT_EQ(
        error(std::string(R"("dp": 4, "zero": 3, "dp_replicate": )") + replicas),
        std::string("plan.json: dp_replicate: is ") + replicas + " (a divisor of dp, which is 4, and smaller than it)");
  }
  EXPECT_EQ(error(R"("dp": 4, "dp_replicate": 0)"), "plan.json: dp_replicate: is 0 (an integer from 1)");
  EXPECT_THAT(error(R"("recompute": "some")"), HasSubstr("recompute"));
  EXPECT_EQ(error(R"("precision": "int8")"), R"(plan.json: precision: is "int8" (bf16, fp8, mxfp8, nvfp4))");
  EXPECT_THAT(error(R"("schedule": "2f2b")"), HasSubstr("schedule"));
  EXPECT_THAT(error(R"("pp": 2, "stages": [["a"]])"), HasSubstr("stages: has 1 lists"));
  EXPECT_THAT(error(R"("pp": 2, "stages": [["a"], []])"), HasSubstr("stages[1]: is empty"));
  EXPECT_THAT(error(R"("vpp": 2)"), HasSubstr("vpp: is 2, but pp is 1"));
  EXPECT_THAT(error(R"("rank_order": ["tp", "tp", "dp", "pp"])"), HasSubstr("rank_order"));
}

}  // namespace
}  // namespace emplace::testing
