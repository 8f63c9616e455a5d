#include "agents/heuristics/m_etf.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::MakeObservation;

// Three independent ops that run anywhere in 1 µs. Devices: cpu:0, gpu:0.
Observation ThreeOps() {
  GraphBuilder builder("three");
  for (const char* name : {"a", "b", "c"}) builder.Add(testing::MakeOp(name, 1));
  return MakeObservation(builder.Build(), testing::MakeMixedCluster(1));
}

TEST(MEtfTest, KeepsToAccelerators) { EXPECT_EQ(Devices(PlaceByMEtf(ThreeOps(), {})), (std::vector<int>{1, 1, 1})); }

TEST(MEtfTest, UsesCpusIfAsked) {
  // At 0 a starts on cpu:0 and b on gpu:0; both are idle at 1, and c takes the first.
  EXPECT_EQ(Devices(PlaceByMEtf(ThreeOps(), {.use_cpus = true})), (std::vector<int>{0, 1, 0}));
}

TEST(MEtfTest, PlacesManyOpsWithinSeconds) {
  // 20,000 sources that are all ready at once, on eight devices: a scan over pairs would look at 1.6e9 of them.
  GraphBuilder builder("wide");
  for (int i = 0; i < 20000; ++i) {
    builder.Add(testing::MakeOp("s" + std::to_string(i), 1, {}, {1000}));
    builder.Add(testing::MakeOp("t" + std::to_string(i), 1, {"s" + std::to_string(i)}));
  }
  const Observation observation = MakeObservation(builder.Build(), testing::MakeCluster(8));
  const Placement placement = PlaceByMEtf(observation, {});
  // Each pair can stay on one device without a transfer: the load is even.
  std::vector<int> count(8);
  for (const int device : Devices(placement)) ++count[static_cast<std::size_t>(device)];
  EXPECT_EQ(count, std::vector<int>(8, 5000));
}

TEST(MEtfTest, ReadsItsOptions) {
  const Observation problem = ThreeOps();
  EXPECT_EQ(testing::FirstProposal(MakeMEtfAgent, {}, problem.graph, problem.cluster), PlaceByMEtf(problem, {}));
  EXPECT_EQ(testing::FirstProposal(MakeMEtfAgent, {{"use_cpus", "true"}}, problem.graph, problem.cluster),
            PlaceByMEtf(problem, {.use_cpus = true}));
  EXPECT_THROW(testing::FirstProposal(MakeMEtfAgent, {{"cpus", "true"}}, problem.graph, problem.cluster), InputError);
}

}  // namespace
}  // namespace emplace
