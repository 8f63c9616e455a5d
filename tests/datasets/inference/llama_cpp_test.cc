#include "datasets/inference/llama_cpp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "datasets/importers/gguf.h"
#include "datasets/importers/importers.h"
#include "datasets/inference/inference_plan.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace llama_cpp_test {

using datasets::LlamaCppArguments;
using datasets::LlamaCppMemory;
using datasets::LlamaCppSplit;
using datasets::ReadLlamaCppArguments;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMiB = 1 << 20;

// A client with a CPU, and two machines with one device each.
Cluster ThreeMachines() {
  return Cluster::Uniform(
      "three",
      {{.name = "cpu:0", .kind = "cpu-core", .memory = Bytes{std::int64_t{64} << 30}, .is_cpu = true},
       {.name = "one", .kind = "a100", .memory = Bytes{std::int64_t{24} << 30}},
       {.name = "two", .kind = "a100", .memory = Bytes{std::int64_t{24} << 30}}},
      {.bandwidth_gb_per_s = 0.125, .latency_micros = 100});
}

LlamaCppArguments Read(const std::string& arguments) {
  return ReadLlamaCppArguments("llama-server " + arguments, "run.sh");
}
std::string Refused(const std::string& arguments) {
  return Refusal([&] { Read(arguments); });
}

// Layers on the CPU and on three servers, as the verbose log of llama.cpp's tools says them (llama-cpp-python 0.3.36,
// llama-fit-params -v with header-only models): settings that were drawn at random.
TEST(LlamaCppTest, LayersAreWhereItsLogSaysThem) {
  struct Row {
    std::size_t layers;
    std::int64_t gpu_layers;
    std::vector<double> split;
    std::array<int, 4> counts;  // CPU, RPC0, RPC1, RPC2
  };
  const std::vector<Row> rows = {
      {48, 36, {1, 1, 1}, {13, 12, 12, 12}},
      {48, 49, {1, 8, 0}, {0, 6, 43, 0}},
      {62, 999, {0, 0, 3}, {0, 0, 0, 63}},
      {62, 62, {0.46, 0.28, 1.0}, {1, 17, 10, 35}},
      {28, 29, {1, 1, 1}, {0, 10, 10, 9}},
      {32, 33, {0.38, 0.71, 0.42}, {0, 9, 15, 9}},
      {28, 28, {4, 1, 2}, {1, 16, 4, 8}},
      {48, 49, {13, 4, 13}, {0, 22, 6, 21}},
      {80, 80, {1, 1, 1}, {1, 27, 27, 26}},
      {80, 28, {4, 0, 9}, {53, 9, 0, 19}},
      {32, 32, {9, 7, 2}, {1, 16, 13, 3}},
      {32, 999, {0.74, 0.39, 0.42}, {0, 16, 9, 8}},
      {62, 999, {2, 3, 7}, {0, 11, 16, 36}},
      {32, 32, {0.06, 0.18, 0.37}, {1, 4, 9, 19}},
      {32, 5, {1, 4, 5}, {28, 1, 2, 2}},
      {28, 999, {1, 20, 22}, {0, 1, 14, 14}},
      {48, 999, {14, 24, 11}, {0, 14, 24, 11}},
      {62, 30, {7, 8, 1}, {33, 14, 15, 1}},
      {32, 32, {0.3, 0.68, 0.2}, {1, 9, 18, 5}},
      {48, 49, {5, 6, 4}, {0, 17, 19, 13}},
      {48, 48, {3, 2, 2}, {1, 21, 14, 13}},
      {32, 29, {23, 27, 27}, {4, 9, 10, 10}},
      {80, 52, {1, 1, 1}, {29, 18, 17, 17}},
      {62, 62, {1, 1, 1}, {1, 21, 21, 20}},
      {80, 80, {5, 8, 8}, {1, 20, 30, 30}},
      {32, 27, {0.2, 0.89, 0.01}, {6, 5, 22, 0}},
      {48, 49, {0.24, 0.39, 0.09}, {0, 17, 26, 6}},
      {28, 999, {1, 1, 1}, {0, 10, 10, 9}},
  };
  for (const Row& row : rows) {
    const std::vector<int> devices = datasets::LayerDevices(row.layers, row.gpu_layers, row.split);
    std::array<int, 4> counts = {};
    for (const int device : devices) ++counts[static_cast<std::size_t>(device + 1)];
    EXPECT_EQ(counts, row.counts) << row.layers << " layers, " << row.gpu_layers << ", " << row.split[0];
    EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end()));
  }
}

// MiB of weights, caches and buffers that llama-fit-params prints (--fit-print on, without repacking) for header-only
// models: 32 layers of 4,096 in q4_0, 80 of 8,192 in q8_0, and 32 of 4,096 with 8 experts in q4_0.
TEST(LlamaCppTest, MemoryIsWhatItsOwnToolSays) {
  const std::map<char, GgufShape> shapes = {{'a',
                                             {.layers = 32,
                                              .width = 4096,
                                              .heads = 32,
                                              .kv_heads = 8,
                                              .head_width = 128,
                                              .feed_forward = 14336,
                                              .vocabulary = 128256}},
                                            {'b',
                                             {.layers = 80,
                                              .width = 8192,
                                              .heads = 64,
                                              .kv_heads = 8,
                                              .head_width = 128,
                                              .feed_forward = 28672,
                                              .vocabulary = 128256,
                                              .type = "q8_0"}},
                                            {'c',
                                             {.layers = 32,
                                              .width = 4096,
                                              .heads = 32,
                                              .kv_heads = 8,
                                              .head_width = 128,
                                              .feed_forward = 14336,
                                              .vocabulary = 32000,
                                              .experts = 8,
                                              .used_experts = 2,
                                              .expert_width = 14336}}};
  struct Row {
    char model;
    std::string arguments;
    std::array<std::array<int, 3>, 3> devices;  // RPC0, RPC1, Host
  };
  const std::vector<Row> rows = {
      {'a', "-c 4096 -ngl 0", {{{0, 0, 0}, {0, 0, 0}, {4308, 512, 266}}}},
      {'a', "-c 8192 -ngl 999 -ts 1,1", {{{1989, 544, 172}, {2037, 480, 354}, {281, 0, 72}}}},
      {'a', "-c 16384 -ngl 15 -ts 3,1", {{{1404, 768, 116}, {515, 128, 258}, {2388, 1152, 132}}}},
      {'a',
       R"(-c 4096 -ngl 999 -ts 1,3 -ot 'blk\.(0|1|2|3)\.ffn_.*=CPU')",
       {{{675, 144, 104}, {2973, 368, 258}, {659, 0, 104}}}},
      {'a',
       "-c 32768 -ngl 20 -ts 2,1 -ctk q8_0 -ctv q8_0 -fa on",
       {{{1638, 952, 132}, {866, 340, 258}, {1803, 884, 140}}}},
      {'a', "-c 8192 -ngl 999 -ts 2,3 -ub 256", {{{1638, 448, 86}, {2388, 576, 177}, {281, 0, 36}}}},
      {'b', "-c 4096 -ngl 0", {{{0, 0, 0}, {0, 0, 0}, {71494, 1280, 282}}}},
      {'b', "-c 8192 -ngl 999 -ts 1,1", {{{35549, 1312, 312}, {34880, 1248, 426}, {1064, 0, 112}}}},
      {'b', "-c 16384 -ngl 15 -ts 3,1", {{{10404, 768, 216}, {2798, 128, 266}, {58290, 4224, 248}}}},
      {'b',
       "-c 32768 -ngl 20 -ts 2,1 -ctk q8_0 -ctv q8_0 -fa on",
       {{{12138, 952, 232}, {5399, 340, 282}, {53955, 4148, 248}}}},
      {'c', "-c 4096 -ngl 0", {{{0, 0, 0}, {0, 0, 0}, {25057, 512, 204}}}},
      {'c', "-c 8192 -ngl 999 -ts 1,1", {{{13237, 544, 256}, {11750, 480, 288}, {70, 0, 72}}}},
      {'c', "-c 16384 -ngl 15 -ts 3,1", {{{9343, 768, 208}, {1627, 128, 200}, {14086, 1152, 216}}}},
      {'c', "-c 8192 -ngl 999 -ts 1,1 --n-cpu-moe 9", {{{6433, 544, 192}, {11750, 480, 192}, {6874, 0, 192}}}},
      {'c', "-c 8192 -ngl 999 -ts 1,1 -ot exps=CPU", {{{385, 544, 48}, {410, 480, 70}, {24262, 0, 192}}}},
  };
  const Cluster cluster = ThreeMachines();
  for (const Row& row : rows) {
    const datasets::InferenceModel model = MakeInferenceModel(shapes.at(row.model));
    const LlamaCppSplit split = datasets::SplitOf(Read("--rpc a:1,b:2 " + row.arguments), model, cluster);
    ASSERT_EQ(split.devices.size(), 3U);
    for (std::size_t d = 0; d < 3; ++d) {
      const LlamaCppMemory& device = split.devices[d];
      const auto& [weights, caches, compute] = row.devices[d];
      const std::string what = std::string(1, row.model) + " " + row.arguments + " " + device.name;
      EXPECT_NEAR(static_cast<double>(device.weights) / kMiB, weights, 1) << what;
      EXPECT_NEAR(static_cast<double>(device.caches) / kMiB, caches, 1) << what;
      EXPECT_NEAR(static_cast<double>(device.compute) / kMiB, compute, 0.15 * compute) << what;
    }
  }
}

TEST(LlamaCppTest, ArgumentsAreReadAsAShellGivesThem) {
  const LlamaCppArguments read = ReadLlamaCppArguments(
      "#!/bin/sh\n# a comment -ngl 3\nexec llama-server -m 'my model.gguf' -c 8192 \\\n -ngl 20 -ts 3,1 --rpc "
      "a:50052,b:50052 "
      "-dev RPC1,RPC0 -ot 'blk\\.(1|2)\\.ffn_.*=CPU,output=RPC0' -ctk q8_0 -np 2 -ub 256 --mlock -t 4\n",
      "run.sh");
  EXPECT_EQ(read.context, 8192);
  EXPECT_EQ(read.gpu_layers, 20);
  EXPECT_THAT(read.tensor_split, ElementsAre(3, 1));
  EXPECT_THAT(read.servers, ElementsAre("a:50052", "b:50052"));
  EXPECT_THAT(read.devices, ElementsAre("RPC1", "RPC0"));
  EXPECT_THAT(read.overrides, ElementsAre(std::pair("blk\\.(1|2)\\.ffn_.*", "CPU"), std::pair("output", "RPC0")));
  EXPECT_EQ(read.key_type, "q8_0");
  EXPECT_EQ(read.value_type, "f16");
  EXPECT_EQ(read.parallel, 2);
  EXPECT_EQ(read.micro_batch, 256);
  EXPECT_THAT(read.ignored, ElementsAre("-m", "--mlock", "-t"));
  EXPECT_TRUE(Read("-dev none").is_without_devices);
  EXPECT_EQ(Read("--n-cpu-moe 2").overrides.size(), 2U);
  EXPECT_EQ(Read("--cpu-moe").overrides.front().second, "CPU");
}

TEST(LlamaCppTest, WhatIsNotModelledIsRefusedByName) {
  EXPECT_THAT(Refused("--split-mode row"), HasSubstr("run.sh: --split-mode: is not modelled: expected -c, "));
  EXPECT_EQ(Refused("-ngl 1.5"), "run.sh: -ngl: \"1.5\": expected an integer from 0 to 2^30");
  EXPECT_EQ(Refused("-ts 1,-1"), "run.sh: -ts: \"-1\": expected shares of at least 0");
  EXPECT_EQ(Refused("-ot exps"), "run.sh: -ot: \"exps\": expected PATTERN=DEVICE");
  EXPECT_EQ(Refused("-c"), "run.sh: -c: has no value, or is not known");
  EXPECT_EQ(Refused(""), "run.sh: has no arguments of llama.cpp: expected -ngl, -ts and the like");
  const datasets::InferenceModel model = MakeInferenceModel({});
  const auto refused = [&](const std::string& arguments) {
    return Refusal([&] { datasets::SplitOf(Read(arguments), model, ThreeMachines()); });
  };
  EXPECT_EQ(refused("--rpc a:1 -dev CUDA0"), "-dev: \"CUDA0\": expected one of RPC0");
  EXPECT_EQ(refused("--rpc a:1 -ts 1,2"), "-ts: has 2 shares: expected at most 1, one a device");
  EXPECT_EQ(refused("--rpc a:1,b:1 -ts 0,0"), "-ts: all shares are 0");
  EXPECT_EQ(refused("--rpc a:1,b:1,c:1 -ngl 1"), "--rpc: c:1: the cluster has no device on another machine for it");
  EXPECT_EQ(refused("--rpc a:1 -ot x=CUDA7"), "-ot: \"CUDA7\": expected CPU or a device of -dev");
  EXPECT_EQ(refused("--rpc a:1 -ot (=CPU"), "-ot: \"(\": expected a regular expression");
  EXPECT_EQ(refused("--rpc a:1 -ctk q9"), "-ctk: \"q9\": expected a type such as f16 or q8_0");
}

TEST(LlamaCppTest, APlanComesBackFromItsScript) {
  const std::string bytes = MakeGguf({.layers = 12,
                                      .width = 1024,
                                      .heads = 8,
                                      .head_width = 128,
                                      .experts = 8,
                                      .used_experts = 2,
                                      .expert_width = 2048})
                                .Bytes();
  std::vector<std::string> notes;
  const datasets::InferenceModel model = datasets::ReadInferenceModel(ReadGgufBytes(bytes), &notes);
  const Graph graph = datasets::ImportGguf(std::vector{datasets::ImportSource("m.gguf", bytes)}, {}).graph;
  EXPECT_TRUE(datasets::IsInferenceGraph(graph));
  std::vector<Device> devices = {
      {.name = "cpu:0", .kind = "cpu-core", .memory = Bytes{std::int64_t{4} << 30}, .is_cpu = true},
      {.name = "gpu:0", .kind = "a100", .memory = Bytes{std::int64_t{700} << 20}},
      {.name = "gpu:1", .kind = "h100", .memory = Bytes{std::int64_t{650} << 20}}};
  const Cluster local = Cluster::Uniform("local", devices, {.bandwidth_gb_per_s = 20, .latency_micros = 8});
  const Cluster remote = Cluster::Uniform("remote", devices, {.bandwidth_gb_per_s = 0.3, .latency_micros = 100});
  for (const Cluster& cluster : {local, remote}) {
    datasets::InferenceOptions options;
    options.context = 512;
    options.client = "cpu:0";
    const std::optional<datasets::InferencePlan> plan = datasets::PlanInference(model, cluster, options);
    ASSERT_TRUE(plan.has_value()) << cluster.name();
    const std::string script = datasets::LlamaCppScript(*plan, model, cluster, options, "m.gguf");
    const Placement placement = datasets::PlacementOf(ReadLlamaCppArguments(script, "run.sh"), graph, cluster);
    EXPECT_EQ(placement, datasets::PlacementOf(*plan, graph)) << script;
    EXPECT_GT(plan->stages.size(), 1U) << script;
  }
}

}  // namespace llama_cpp_test
}  // namespace emplace::testing
