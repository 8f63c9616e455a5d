// emplace calibrate.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class CalibrateTest : public EmplaceTest {
 protected:
  // Element-wise ops that take 20 us and a byte a picosecond.
  std::string Kernels(int rows) {
    std::string text = "kind,bytes,time_us\n";
    for (int i = 1; i <= rows; ++i) text += fmt::format("elementwise,{},{}\n", i * 1'000'000, 20 + i);
    return text;
  }
};

TEST_F(CalibrateTest, SimulationsTakeTheTimesOfTheFile) {
  Write("k.csv", Kernels(40));
  Write("relu.json", R"({"schema": "emplace.graph", "version": 1, "name": "r", "ops": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [2500000]}]},
    {"name": "y", "kind": "relu", "inputs": ["x"], "outputs": [{"dtype": "f32", "shape": [2500000]}]}]})");
  const Ran ran = Emplace("calibrate k.csv --kind h100 -o mine.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("curves of h100 from 40 measured ops"));
  EXPECT_THAT(ran.out, HasSubstr("not seen, and left as they are: product, convolution, attention"));
  EXPECT_THAT(ran.out, HasSubstr("use them: --costs mine.yaml"));
  const auto micros = [&](const std::string& costs) {
    const Ran listed = Emplace("inspect relu.json --cluster dgx-h100 --gpus 1 --ops --json --costs " + costs);
    EXPECT_EQ(listed.status, 0) << listed.err;
    const auto json = nlohmann::json::parse(listed.out);
    for (const auto& op : json.at("op_times")) {
      if (op.at("device_kind") == "h100") return op.at("time_us").get<double>();
    }
    return 0.0;
  };
  EXPECT_LT(micros("curves"), 15);
  EXPECT_NEAR(micros("mine.yaml"), 40, 3);
  EXPECT_THAT(Emplace("inspect relu.json --cluster dgx-a100 --gpus 1 --costs mine.yaml").out,
              HasSubstr("; no device is of kind h100, whose curves mine.yaml has"));
  EXPECT_THAT(Emplace("simulate relu.json --cluster dgx-h100 --costs mine.yaml,mine.yaml --placement p.json").err,
              HasSubstr("mine.yaml: kind: is \"h100\", which another file has as well (each kind once)"));
  EXPECT_THAT(Emplace("simulate relu.json --cluster dgx-h100 --costs g.json --placement p.json").err,
              HasSubstr("g.json: schema: unknown key (kind, like,"));
}

TEST_F(CalibrateTest, ExperimentsTakeTheFileBesideThem) {
  Write("k.csv", Kernels(40));
  Write("relu.json", R"({"schema": "emplace.graph", "version": 1, "name": "r", "ops": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [2500000]}]},
    {"name": "y", "kind": "relu", "inputs": ["x"], "outputs": [{"dtype": "f32", "shape": [2500000]}]}]})");
  ASSERT_EQ(Emplace("calibrate k.csv --kind h100 -o mine.yaml").status, 0);
  Write("x.yaml", R"(schema: emplace.experiment
version: 1
name: own
graphs: {files: [relu.json]}
cluster: {name: dgx-h100, gpus: 1}
costs: mine.yaml
agent: {name: random_walk}
budget: {evaluations: 5}
)");
  const Ran ran = Emplace("sweep x.yaml -o runs");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Ran times = Shell("cat runs/own/*/trial.json");
  ASSERT_EQ(times.status, 0) << times.err;
  EXPECT_NEAR(nlohmann::json::parse(times.out).at("graphs")[0].at("lower_bound_us").get<double>(), 40, 3);
}

TEST_F(CalibrateTest, LlamaBenchGivesTheRatesOfProducts) {
  const auto line = [](double parameters, double bytes, int prompt, int generated) {
    const double micros = prompt > 0 ? 2 * parameters * prompt / 30e6 : 300 + bytes / 200e3;
    return fmt::format(
        R"({{"gpu_info": "NVIDIA L4", "model_type": "m {0}", "model_size": {1}, "model_n_params": {0}, "n_ubatch": 512, )"
        R"("n_prompt": {2}, "n_gen": {3}, "n_depth": 0, "avg_ts": {4}}})"
        "\n",
        parameters, bytes, prompt, generated, (prompt > 0 ? prompt : 1) / micros * 1e6);
  };
  std::string text;
  for (const int count : {128, 256, 512}) text += line(8e9, 5e9, count, 0) + line(8e9, 5e9, 0, count);
  Write("few.jsonl", text);
  const Ran few = Emplace("calibrate few.jsonl --kind l4 -o few.yaml");
  EXPECT_EQ(few.status, 0) << few.err;
  EXPECT_THAT(few.out, HasSubstr("models of one size do not tell what a token takes beside its weights"));
  Write("bench.jsonl", text + line(1e9, 0.8e9, 0, 64));
  const Ran ran = Emplace("calibrate bench.jsonl --kind l4 -o l4.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("sustained rates of l4 (NVIDIA L4) from 2 models"));
  EXPECT_THAT(ran.out, HasSubstr("compute  30 TFLOP/s, 25 % of the peak in half precision: the fastest of 3 prompts"));
  EXPECT_THAT(ran.out, HasSubstr("memory   200 GB/s, 67 % of the data sheet's: 4 of generation"));
  EXPECT_THAT(ran.out, HasSubstr("each generated token takes 300 us"));
  EXPECT_THAT(ran.out, HasSubstr("not seen, and left as they are: "));
  const auto json = nlohmann::json::parse(Emplace("calibrate bench.jsonl --kind l4 -o l4.yaml --json").out);
  EXPECT_NEAR(json.at("sustained_tflop_per_s").get<double>(), 30, 1e-6);
  Write("c.yaml", "schema: emplace.cluster\nversion: 1\nname: one\ndevices:\n  - {name: \"gpu:0\", kind: l4}\n");
  Write("m.json", R"({"schema": "emplace.graph", "version": 1, "name": "m", "ops": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [8192, 16384]}]},
    {"name": "w", "kind": "variable", "outputs": [{"dtype": "bf16", "shape": [16384, 16384]}]},
    {"name": "y", "kind": "matmul", "inputs": ["x", "w"], "outputs": [{"dtype": "bf16", "shape": [8192, 16384]}]}]})");
  const Ran listed = Emplace("inspect m.json --cluster c.yaml --ops --json --costs l4.yaml");
  ASSERT_EQ(listed.status, 0) << listed.err;
  const double micros = nlohmann::json::parse(listed.out).at("op_times")[0].at("time_us");
  EXPECT_NEAR(micros, 2.0 * 8192 * 16384 * 16384 / 30e6, 0.1 * micros);
  Write("two.jsonl", line(8e9, 5e9, 512, 0) + line(8e9, 5e9, 0, 128));
  ExpectRefused(Emplace("calibrate two.jsonl --kind l4 -o x.yaml"),
                "two.jsonl: has 1 of prompts and 1 of generation that can be used (at least 3 of each: llama-bench -p "
                "256,512,1024 -n 32,64,128)");
  ExpectRefused(Emplace("calibrate bench.jsonl -o x.yaml"), "--kind: is missing: llama-bench names no kind of device");
}

TEST_F(CalibrateTest, WhatCannotBeFittedIsRefused) {
  Write("few.csv", Kernels(7));
  ExpectRefused(Emplace("calibrate few.csv --kind h100 -o x.yaml"),
                "few.csv: has too few distinct shapes: elementwise f32 has 7 (at least 8 of a curve)");
  Write("k.csv", Kernels(8));
  ExpectRefused(Emplace("calibrate k.csv -o x.yaml"),
                "--kind: is missing: a table of kernels does not name its device");
  ExpectRefused(Emplace("calibrate k.csv --kind mine -o x.yaml"),
                "--kind: is \"mine\", whose rates are not known (a name in `emplace list devices`, or --cluster with a "
                "file whose `kinds` has it)");
  ExpectRefused(Emplace("calibrate k.csv --kind k80 -o x.yaml"),
                "--multiprocessors: is missing: nothing says how many \"k80\" has (or --like with a kind that is like "
                "it)");
  ExpectRefused(Emplace("calibrate k.csv --kind k80 --like tpu -o x.yaml"),
                "--like: is \"tpu\", a kind without curves (one that `--costs curves` knows)");
  ExpectRefused(Emplace("calibrate k.csv --kind h100 -o x"),
                "-o: is \"x\" (a name that ends in .yaml, so that --costs takes it for a file)");
  ExpectRefused(Emplace("calibrate g.json --kind h100 -o x.yaml"),
                "g.json: has no op with a measured time on a device (a Kineto trace, a profile or a CSV)");
  Write("profile.json", R"({"schema": "emplace.profile", "version": 1, "devices": [], "ops": [], "links": []})");
  ExpectRefused(Emplace("calibrate profile.json --kind h100 -o x.yaml"),
                "profile.json: is a profile, which has no shapes of calls (--graph with the graph that was profiled)");
}

}  // namespace
}  // namespace emplace::testing
