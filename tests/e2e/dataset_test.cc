// emplace dataset, and --grouping with a file.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class DatasetTest : public EmplaceTest {};

TEST_F(DatasetTest, WritesTheFamilyWithItsGroupingsAndAnIndexLengthy) {
  const Ran ran = Emplace("dataset cifar10 --seed 42 -o family");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  const auto index = nlohmann::json::parse(Read("family/dataset.json"));
  EXPECT_EQ(index.at("schema"), "emplace.dataset");
  EXPECT_EQ(index.at("seed"), 42);
  ASSERT_EQ(index.at("graphs").size(), 32U);
  const auto& row = index.at("graphs")[7];
  EXPECT_EQ(row.at("name"), "cifar10_07");
  const auto graph = nlohmann::json::parse(Read("family/" + row.at("graph").get<std::string>()));
  EXPECT_EQ(graph.at("ops").size(), row.at("ops"));
  const auto grouping = nlohmann::json::parse(Read("family/" + row.at("grouping").get<std::string>()));
  EXPECT_EQ(grouping.at("groups").size(), row.at("ops"));
  // The graph and the grouping can be used together.
  const Ran placed = Emplace(
      "place --graph family/graphs/cifar10_07.json --grouping family/groupings/cifar10_07.json --cluster p2.8xlarge "
      "--gpus 2 --costs roofline --agent random --evaluations 3 -o placed.json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_NE(placed.out.find(std::to_string(row.at("groups").get<int>()) + " groups"), std::string::npos) << placed.err;
}

TEST_F(DatasetTest, TheSameSeedGivesTheSameBytesLengthy) {
  ASSERT_EQ(Emplace("dataset cifar10 --seed 3 -o a").status, 0);
  ASSERT_EQ(Emplace("dataset cifar10 --seed 3 -o b").status, 0);
  EXPECT_EQ(Shell("diff -r a b").status, 0);
}

TEST_F(DatasetTest, BadWordsAreRefused) {
  ExpectRefused(Emplace("dataset imagenet -o x"), "unknown dataset \"imagenet\" (cifar10, ptb, nmt)");
  const Ran ran = Emplace("dataset cifar10 -o g.json");  // a file has this name
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
}

TEST_F(DatasetTest, AGroupingOfAnotherGraphIsRefused) {
  Write("groups.json", R"({"schema": "emplace.grouping", "version": 1, "groups": {"a": 0, "z": 0}})");
  const Ran ran = Emplace("place --graph g.json --cluster c.yaml --agent random --grouping groups.json -o best.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "groups.json: groups[\"z\"]: is not an op of graph \"pair\" (which has 2 ops)\n");
  Write("groups.json", R"({"schema": "emplace.grouping", "version": 1, "groups": {"a": 5, "b": 5}})");
  EXPECT_EQ(Emplace("place --graph g.json --cluster c.yaml --agent random --grouping groups.json -o best.json").status,
            0);
  EXPECT_EQ(Emplace("place --graph g.json --cluster c.yaml --agent random --grouping none.json -o best.json").status,
            2);
}

TEST_F(DatasetTest, WhatIsReadIsNotWrittenOver) {
  Write("groups.json", R"({"schema": "emplace.grouping", "version": 1, "groups": {"a": 0, "b": 0}})");
  const Ran ran = Emplace("place --graph g.json --cluster c.yaml --agent random --grouping groups.json -o groups.json");
  ExpectRefused(ran, "groups.json: would be overwritten, but is also read (another name)");
  EXPECT_NE(Read("groups.json").find("emplace.grouping"), std::string::npos);
}

TEST_F(DatasetTest, SeedsAndFoldersAreChecked) {
  for (const std::string seed : {"-1", "x", "99999999999999999999"}) {
    const Ran ran = Emplace("dataset cifar10 -o d --seed " + seed);
    EXPECT_EQ(ran.status, 2) << seed;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  }
  EXPECT_EQ(Emplace("dataset cifar10 -o -").status, 2);
  EXPECT_EQ(Emplace("dataset cifar10 -o ''").status, 2);
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
}

TEST_F(DatasetTest, AFamilyThatCannotBeFinishedIsNotBegun) {
  ASSERT_EQ(Shell("mkdir -p d/dataset.json").status, 0);
  const Ran ran = Emplace("dataset cifar10 -o d");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  EXPECT_EQ(Shell("ls d/graphs").out, "");
}

}  // namespace
}  // namespace emplace::testing
