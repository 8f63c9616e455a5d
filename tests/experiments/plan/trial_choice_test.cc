#include "experiments/plan/trial_choice.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

// A spec with every field.
constexpr const char* kWhole =
    R"({"schema":"emplace.trial_spec","version":1,"experiment":"x",)"
    R"("together":[{"dataset":"nmt","seed":5,"index":3,"groups":0},{"file":"/g.json","fingerprint":"ab","groups":9},)"
    R"({"model":"rnnlm","set":{"cell":"lstm","hidden":64},"groups":256}],)"
    R"("transfer":[{"model":"nmt","set":{},"groups":0}],"grouping":{"name":"merge_and_colocate","groups":12},)"
    R"("cluster":{"name":"desk","file":"/c.yaml","fingerprint":"cd","devices":["gpu:0"],"memory":"unlimited"},)"
    R"("engine":"fifo","costs":"profile: /p.json","profile_fingerprint":"ef",)"
    R"("agent":{"label":"my placeto","name":"placeto","set":{"episodes":"20"}},"budget":{"episodes":20},)"
    R"("reward":"runtime","torch_device":"cuda","hardware":{"reward_source":"mixed","share":0.5,"validate_every":2,)"
    R"("warmups":1,"steps":3,"statistic":"mean","patience":0.5,"interleave":true},"seed":9223372036854775807})";

TEST(TrialChoiceTest, WhatIsReadIsWrittenAgain) {
  const experiments::TrialChoice choice = experiments::ReadTrialChoice(ParseJson(kWhole));
  EXPECT_EQ(JsonText(experiments::TrialChoiceToJson(choice)), kWhole);
  EXPECT_EQ(choice.graphs().size(), 3U);
  EXPECT_EQ(choice.costs_choice().profile, "/p.json");
  EXPECT_EQ(choice.statistic, "mean");
  EXPECT_TRUE(choice.measure_best);
}

TEST(TrialChoiceTest, ASpecThatNobodyWroteIsRefused) {
  const auto refusal = [](const std::string& text) {
    return ErrorOf([&] { experiments::ReadTrialChoice(ParseJson(text)); });
  };
  EXPECT_EQ(refusal("{}"), "schema: is missing (\"emplace.trial_spec\")");
  const std::string head = R"({"schema": "emplace.trial_spec", "version": 1)";
  EXPECT_EQ(refusal(head + "}"), "graph: is missing (a graph)");
  EXPECT_EQ(refusal(head + R"(, "graphs": 3})").rfind("graphs: unknown key (schema, ", 0), 0U);
  EXPECT_EQ(refusal(head + R"(, "graph": {}})"),
            "graph: model: is missing (a dataset, an instance, a file or a model)");
  EXPECT_EQ(refusal(head + R"(, "graph": {"dataset": "nmt", "seed": 1, "index": 32}})"),
            "graph: index: is the number 32 (an integer from 0 to 31)");
  EXPECT_EQ(refusal(head + R"(, "together": []})"), "together: is a list of 0 elements (a list of at least one graph)");
  std::string whole = kWhole;
  whole.replace(whole.find(R"(["gpu:0"])"), 9, "[]");
  EXPECT_EQ(refusal(whole), "cluster: devices: is a list of 0 elements (a list of at least one device)");
}

TEST(TrialChoiceTest, RealDevicesRunTheOpsOfOneGraph) {
  experiments::RefuseSeveralGraphs(/*together=*/false, /*transfer=*/false);
  EXPECT_EQ(ErrorOf([] {
              experiments::RefuseSeveralGraphs(/*together=*/true, /*transfer=*/false);
            }).rfind("graphs.together: ", 0),
            0U);
  EXPECT_EQ(
      ErrorOf([] { experiments::RefuseSeveralGraphs(/*together=*/false, /*transfer=*/true); }).rfind("transfer: ", 0),
      0U);
}

}  // namespace
}  // namespace emplace::testing
