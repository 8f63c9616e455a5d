#include "agents/heuristics/m_sct.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agents/heuristics/m_etf.h"
#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeObservation;
using testing::MakeOp;

TEST(MSctTest, LetsTheCriticalChildFollowItsProducer) {
  // a (2 µs) feeds f over 100 µs, b (3 µs) feeds f over 1 µs, and x and y (3 µs each) over 0.5 µs; g (40 µs) needs f.
  // The program makes max(2 + 100 x_af, 3 + x_bf) small with x_af + x_bf = 1: x_af = 2/101, below 0.1, so f follows a.
  // Device 0, where a ran, waits for f from 3 to 4 and leaves y, whose input arrives there at 3.5, to device 1. m-ETF
  // starts y at 3.5 on device 0.
  GraphBuilder builder("tempting");
  builder.Add(MakeOp("a", 2, {}, {100000}));
  builder.Add(MakeOp("b", 3, {}, {1000, 500}));
  builder.Add(MakeOp("f", 1, {"a", "b:0"}, {40000}));
  builder.Add(MakeOp("g", 40, {"f"}));
  builder.Add(MakeOp("x", 3, {"b:1"}));
  builder.Add(MakeOp("y", 3, {"b:1"}));
  const Observation observation = MakeObservation(builder.Build(), testing::TwoDevices());
  EXPECT_EQ(Devices(PlaceByMSct(observation, {})), (std::vector<int>{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(Devices(PlaceByMEtf(observation, {})), (std::vector<int>{0, 1, 0, 0, 1, 0}));
}

TEST(MSctTest, RefusesMoreGroupsThanItsProgramTakes) {
  GraphBuilder builder("large");
  for (std::size_t i = 0; i <= kMaxGroupsOfMSct; ++i) builder.Add(MakeOp("op" + std::to_string(i), 1));
  const Observation observation = MakeObservation(builder.Build(), testing::TwoDevices());
  try {
    PlaceByMSct(observation, {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "m_sct: its linear program takes up to 20000 groups, and these are 20001; use the grouping "
                 "merge_and_colocate");
  }
}

TEST(MSctTest, PlacesRandomGraphsWhereAllowedAndTheSameEachTime) {
  Rng rng(5);
  for (int i = 0; i < 30; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = true});
    const Observation observation = MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(4), Bytes{30000}));
    const MSctOptions options = {.threshold = 0.5, .use_cpus = i % 2 == 0};
    const Placement placement = PlaceByMSct(observation, options);
    EXPECT_TRUE(IsAllowed(observation, placement));
    EXPECT_EQ(placement, PlaceByMSct(observation, options));
  }
}

TEST(MSctTest, WantsGroupsWhereItsProgramWouldBeTooLarge) {
  const AgentEntry& entry = FindAgent("m_sct");
  EXPECT_EQ(DefaultGrouping(entry, kMaxGroupsOfMSct), "identity");
  EXPECT_EQ(DefaultGrouping(entry, kMaxGroupsOfMSct + 1), "merge_and_colocate");
  EXPECT_EQ(DefaultGrouping(FindAgent("m_etf"), kMaxGroupsOfMSct + 1), "identity");
}

TEST(MSctTest, ReadsItsOptions) {
  // A chain stays where its first op starts: on cpu:0 if CPUs take part, else on gpu:0.
  const Graph chain = testing::MakeChain(3, 1, 1000);
  EXPECT_EQ(Devices(testing::FirstProposal(MakeMSctAgent, {{"threshold", "0.5"}, {"use_cpus", "true"}}, chain,
                                           testing::MakeMixedCluster(1))),
            (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Devices(testing::FirstProposal(MakeMSctAgent, {}, chain, testing::MakeMixedCluster(1))),
            (std::vector<int>{1, 1, 1}));
  EXPECT_THROW(testing::FirstProposal(MakeMSctAgent, {{"threshold", "2"}}, chain, testing::TwoDevices()), InputError);
}

}  // namespace
}  // namespace emplace
