// emplace transform.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class TransformCommandTest : public EmplaceTest {
 protected:
  void SetUp() override {
    EmplaceTest::SetUp();
    ASSERT_EQ(
        Emplace("generate gpt --set layers=1 d_model=8 heads=2 sequence=4 batch=2 vocabulary=12 -o gpt.json").status,
        0);
  }
};

TEST_F(TransformCommandTest, WritesAllRanksAndSaysWhatEachExchanges) {
  const Ran ran = Emplace("transform gpt.json --tensor-parallel 2 --data-parallel 2 -o ranks.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("ops on 4 ranks\n"));
  EXPECT_THAT(ran.out, HasSubstr("all_reduce      20            10"));  // 9 of tensors in 2 replicas, 1 of each part
  const auto graph = nlohmann::json::parse(Shell("cat ranks.json").out);
  EXPECT_EQ(graph.at("metadata").at("parallel").at("tensor"), 2);
  std::size_t ops = 0;
  for (const auto& op : graph.at("ops")) ops += op.at("name").get<std::string>().starts_with("r1/t1/") ? 1 : 0;
  EXPECT_GT(ops, graph.at("ops").size() / 5);
}

TEST_F(TransformCommandTest, PlacementsAreSearchedWithTheCollectivesThatAreAskedFor) {
  ASSERT_EQ(Emplace("transform gpt.json --data-parallel 2 -o replicas.json").status, 0);
  const std::string problem = "--graph replicas.json --cluster dgx-a100 --gpus 2 --costs roofline --json ";
  const auto step = [&](const std::string& command) {
    const Ran ran = Emplace(command);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("step_time_us").get<double>();
  };
  const double found = step("place " + problem + "--agent megatron --collectives tree -o found.json");
  EXPECT_EQ(found, step("simulate " + problem + "--collectives tree --placement found.json"));
  EXPECT_NE(found, step("simulate " + problem + "--placement found.json"));
}

TEST_F(TransformCommandTest, AGraphOnStandardOutputIsAloneThere) {
  const Ran ran = Shell("$emplace transform - --recompute full -o - < gpt.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out).at("name"), "gpt");
}

TEST_F(TransformCommandTest, WhatCannotBeDoneIsRefusedInOneLine) {
  ExpectRefused(Emplace("transform gpt.json -o o.json"),
                "nothing to do (--tensor-parallel, --data-parallel, --expert-parallel or --recompute)");
  ExpectRefused(Emplace("transform gpt.json --tensor-parallel 4 -o o.json"),
                "gpt.json: --tensor-parallel: 4 does not divide heads, of which there are 2");
  ExpectRefused(Emplace("transform g.json --tensor-parallel 2 -o o.json"),
                "g.json: --tensor-parallel: the graph is not one of the models gpt, bert and llama");
  ExpectRefused(Emplace("transform gpt.json --shard-optimizer -o o.json"),
                "gpt.json: --shard-optimizer: needs replicas (at least 2)");
  EXPECT_EQ(Emplace("transform gpt.json --data-parallel 0 -o o.json").status, 2);
  EXPECT_EQ(Emplace("transform gpt.json --bucket-mib -1 --data-parallel 2 -o o.json").status, 2);
  ExpectRefused(Emplace("transform gpt.json --data-parallel 2 -o gpt.json"),
                "gpt.json: would be overwritten, but is also read (another name)");
  ASSERT_EQ(Emplace("transform gpt.json --data-parallel 2 -o two.json").status, 0);
  ExpectRefused(Emplace("transform two.json --data-parallel 2 -o o.json"),
                "two.json: metadata.parallel: the graph is one of several ranks already (the graph of one)");
  EXPECT_EQ(Shell("ls o.json 2>/dev/null").out, "");
}

}  // namespace
}  // namespace emplace::testing
