#include "agents/heuristics/partitioners.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeCluster;
using testing::MakeObservation;
using testing::MakeOp;

std::vector<int> Place(const agents::Observation& observation, const agents::MetisOptions& options = {},
                       std::uint64_t seed = 1) {
  Rng rng(seed);
  return Devices(agents::PlaceByMetis(observation, options, rng));
}

// `count` cliques of five ops; each pair in a clique shares a tensor of `thick` bytes. The last op of a clique sends
// `thin` bytes to the first of the next. Op 5c + i is member i of clique c.
Graph Cliques(std::size_t count, std::int64_t thick, std::int64_t thin) {
  GraphBuilder builder("cliques");
  const auto name = [](std::size_t clique, std::size_t member) {
    return "c" + std::to_string(clique) + "m" + std::to_string(member);
  };
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t i = 0; i < 5; ++i) {
      // Output k goes to member i + 1 + k; the last output to the next clique.
      OpSpec op = MakeOp(name(c, i), 10, {}, std::vector<std::int64_t>(4 - i, thick));
      if (i == 4) op.outputs.push_back({.size = Bytes{thin}, .shape = {}});
      for (std::size_t j = 0; j < i; ++j) op.inputs.push_back(name(c, j) + ":" + std::to_string(i - j - 1));
      if (i == 0 && c > 0) op.inputs.push_back(name(c - 1, 4) + ":0");
      builder.Add(op);
    }
  }
  return builder.Build();
}

// Whether every clique is on one device, and no two cliques on the same.
bool OneDeviceEach(const std::vector<int>& devices) {
  std::map<int, std::size_t> clique_on;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!clique_on.emplace(devices[i], i / 5).second && clique_on[devices[i]] != i / 5) return false;
  }
  return clique_on.size() == devices.size() / 5;
}

Graph Independent(const std::vector<double>& micros) {
  GraphBuilder builder("independent");
  for (std::size_t i = 0; i < micros.size(); ++i) builder.Add(MakeOp("op" + std::to_string(100 + i), micros[i]));
  return builder.Build();
}

TEST(MetisTest, CutsTheThinEdgesBetweenCliques) {
  // Any other balanced cut goes through a clique and cuts at least 4 * 1000 bytes.
  EXPECT_TRUE(OneDeviceEach(Place(MakeObservation(Cliques(2, 1000, 10), MakeCluster(2)))));
  EXPECT_TRUE(OneDeviceEach(Place(MakeObservation(Cliques(4, 1000, 10), MakeCluster(4)))));
  EXPECT_TRUE(OneDeviceEach(Place(MakeObservation(Cliques(3, 1000, 10), MakeCluster(3)))));
}

TEST(MetisTest, CutsRightWhereByteSumsOverflow32Bits) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_TRUE(OneDeviceEach(Place(MakeObservation(Cliques(2, huge, huge / 1000), MakeCluster(2)))));
}

TEST(MetisTest, BalancesTime) {
  // One op of 8 µs and eight of 1 µs, no edges: 8 against 8 * 1 is the only cut within 3 %.
  const std::vector<int> devices = Place(MakeObservation(Independent({8, 1, 1, 1, 1, 1, 1, 1, 1}), MakeCluster(2)));
  for (std::size_t i = 1; i < devices.size(); ++i) EXPECT_NE(devices[i], devices[0]);
}

TEST(MetisTest, BalancesMemoryIfAsked) {
  // Two of eight ops of equal time hold all the memory: each device must get one of them.
  GraphBuilder builder("memory");
  for (int i = 0; i < 8; ++i) {
    OpSpec op = MakeOp("op" + std::to_string(i), 1);
    op.persistent = Bytes{i < 2 ? 1000000 : 1};
    builder.Add(op);
  }
  const agents::Observation observation = MakeObservation(builder.Build(), MakeCluster(2));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<int> devices = Place(observation, {.balance_memory = true}, seed);
    EXPECT_NE(devices[0], devices[1]) << seed;
  }
}

TEST(MetisTest, LeavesCpusToGroupsThatRunNowhereElse) {
  GraphBuilder builder("mixed");
  for (int i = 0; i < 8; ++i) {
    OpSpec op = MakeOp("op" + std::to_string(i), 1);
    op.time_micros.reset();
    op.kind_times = {{"test-cpu", 1}};
    if (i != 3) op.kind_times.emplace_back("test-gpu", 1);
    builder.Add(op);
  }
  const std::vector<int> devices = Place(MakeObservation(builder.Build(), testing::MakeMixedCluster(2)));
  for (std::size_t i = 0; i < devices.size(); ++i) EXPECT_EQ(devices[i] == 0, i == 3) << i;
}

TEST(MetisTest, TakesGraphsOfAnySize) {
  EXPECT_TRUE(Place(MakeObservation(Graph(), MakeCluster(4))).empty());
  EXPECT_EQ(Place(MakeObservation(Independent({1}), MakeCluster(4))).size(), 1U);
  EXPECT_EQ(Place(MakeObservation(Independent({1, 1, 1}), MakeCluster(8))).size(), 3U);
  EXPECT_EQ(Place(MakeObservation(Independent({1, 2, 3}), MakeCluster(1))), (std::vector<int>{0, 0, 0}));
}

TEST(MetisTest, SaysNothingWhereOneGroupOutweighsTheRest) {
  // For eight parts at once, METIS 5.1 would write to standard output here.
  std::vector<double> micros(28, 0);
  micros[0] = 1e6;
  const agents::Observation observation = MakeObservation(Independent(micros), MakeCluster(8));
  ::testing::internal::CaptureStdout();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) Place(observation, {}, seed);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(MetisTest, PlacesRandomGraphsWhereAllowedAndTheSameEachTime) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = true});
    const agents::Observation observation = MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(8)));
    const agents::MetisOptions options = {.balance_memory = i % 2 == 0};
    Rng first(7);
    Rng second(7);
    const Placement placement = agents::PlaceByMetis(observation, options, first);
    EXPECT_TRUE(IsAllowed(observation, placement));
    EXPECT_EQ(placement, agents::PlaceByMetis(observation, options, second));
  }
}

TEST(MetisTest, ReadsItsOptions) {
  // With a slack of a whole share, METIS may leave all connected ops on one device.
  const Graph graph = Cliques(2, 1000, 999);
  const OptionMap loose = {{"imbalance", "1"}, {"cuts", "20"}, {"balance_memory", "true"}};
  EXPECT_TRUE(OneDeviceEach(Devices(testing::FirstProposal(agents::MakeMetisAgent, {}, graph, MakeCluster(2)))));
  const std::vector<int> devices =
      Devices(testing::FirstProposal(agents::MakeMetisAgent, loose, graph, MakeCluster(2)));
  EXPECT_EQ(devices, std::vector<int>(10, devices[0]));
  EXPECT_THROW(testing::FirstProposal(agents::MakeMetisAgent, {{"cuts", "0"}}, graph, MakeCluster(2)), InputError);
}

}  // namespace
}  // namespace emplace
