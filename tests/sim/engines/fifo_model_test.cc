#include "sim/engines/fifo_model.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace::fifo {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MeasuredCosts;

TEST(FifoModelTest, TheProgramOfAnOpHoldsItsTimesAndReaders) {
  // a (2 us, 1000 bytes) feeds b and c. 1 GB/s: the tensor takes 1000 ns.
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 2, {}, {500, 1000}));
  builder.Add(testing::MakeOp("b", 1, {"a:1"}));
  builder.Add(testing::MakeOp("c", 1, {"a:1"}));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(2);
  const Model model(graph, cluster, MeasuredCosts(graph, cluster));
  const std::vector<std::uint32_t> expected = {
      2,        // one tensor is read, nobody waits for a without reading
      2000, 0,  // 2 us in ns
      1,    2,  // tensor 1 has 2 readers
      1000, 0,  // its transfer
      1,    2,  // b and c
  };
  EXPECT_EQ(std::vector<std::uint32_t>(model.program.begin(), model.program.begin() + 9), expected);
  EXPECT_EQ(model.num_waits, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(model.roots, std::vector<std::uint32_t>{0});
  EXPECT_EQ(model.op_bytes[0].at_end, 500);
  EXPECT_EQ(model.read_tensors.size(), 1U);
  EXPECT_EQ(model.max_transfers, 1U);
}

TEST(FifoModelTest, NoRunIsLongerThanTheBound) {
  Rng rng(31);
  for (int i = 0; i < 100; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 40});
    const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 0.3, .latency_micros = 2, .gap_micros = 3}, 4);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Model model(graph, cluster, costs);
    const StepResult result =
        Simulator(graph, cluster, costs).Run(testing::RandomPlacement(rng, graph, cluster, costs));
    ASSERT_LE(result.step_time_micros * 1000, static_cast<double>(model.longest_run));
    ASSERT_TRUE(model.FitsPacked());
  }
}

TEST(FifoModelTest, TimesBelow64BitsGoThroughTwoWordsUnchanged) {
  const std::int64_t time = 0x0123456789abcdef;
  const std::uint32_t words[] = {0x89abcdef, 0x01234567};
  EXPECT_EQ(Model::TimeAt(words), time);
}

}  // namespace
}  // namespace emplace::fifo
