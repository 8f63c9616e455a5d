#include "sim/engines/fifo_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/testing/graphs.h"

namespace emplace::fifo {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MeasuredCosts;

// a (2 us, outputs of 500 and 1000 bytes) feeds b and c with the second. At 1 GB/s that takes 1000 ns.
Graph Fork(double micros) {
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", micros, {}, {500, 1000}));
  builder.Add(testing::MakeOp("b", 1, {"a:1"}));
  builder.Add(testing::MakeOp("c", 1, {"a:1"}));
  return builder.Build();
}

std::vector<std::uint32_t> FirstRow(const Model& model) {
  return {model.program.begin() + model.ops[0].row, model.program.begin() + model.ops[1].row};
}

// One tensor with two readers.
constexpr std::uint32_t kForkShape = (2U << Model::kReadersShift) | (1U << Model::kTensorsShift);
static_assert(Model::kReaderBlock == 2 && Model::kInputBlock == 2);

TEST(FifoModelTest, TheRowOfAnOpHoldsItsTimesAndReaders) {
  const Graph graph = Fork(2);
  const Cluster cluster = MakeCluster(2);
  const Model model(graph, cluster, MeasuredCosts(graph, cluster), /*memory=*/false);
  const std::vector<std::uint32_t> expected = {
      0,    kForkShape, 0,  // no inputs; its first tensor is the first of read_tensors
      2000,                 // 2 us in ns
      1000,                 // the tensor's transfer
      1,    2               // b and c
  };
  EXPECT_EQ(FirstRow(model), expected);
  EXPECT_EQ(model.ops[1].waits, 1U);
  EXPECT_EQ(model.roots, std::vector<std::uint32_t>{0});
  ASSERT_EQ(model.read_tensors.size(), 1U);
  EXPECT_EQ(model.read_tensors[0].id, 1U);
  EXPECT_EQ(model.max_transfers, 1U);
  EXPECT_TRUE(model.is_plain());
}

TEST(FifoModelTest, WithMemoryTheRowHoldsBytesAndInputsToo) {
  const Graph graph = Fork(2);
  const Cluster cluster = MakeCluster(2);
  const Model model(graph, cluster, MeasuredCosts(graph, cluster), /*memory=*/true);
  const std::vector<std::uint32_t> expected = {0,    kForkShape, 0,   2000,
                                               1500, 0,          500, 0,  // outputs; outputs without readers
                                               0,                         // no inputs
                                               1000, 1,          2};
  EXPECT_EQ(FirstRow(model), expected);
  const std::uint32_t* const b = model.program.data() + model.ops[1].row;
  EXPECT_EQ(b[0], 1U) << "inputs that must be produced";
  EXPECT_EQ(b[8], Model::kInputBlock) << "inputs, filled up";
  EXPECT_EQ(b[9], 0U);
  EXPECT_EQ(b[10], 1U) << "the tensor behind the last one";
}

TEST(FifoModelTest, TimesBeyond32BitsTakeTwoWords) {
  const Graph graph = Fork(5'000'000);
  const Cluster cluster = MakeCluster(2);
  const Model model(graph, cluster, MeasuredCosts(graph, cluster), /*memory=*/false);
  ASSERT_EQ(model.time_words, 2U);
  EXPECT_EQ(model.TimeAt(FirstRow(model).data() + Model::kRowTimes), 5'000'000'000);
  EXPECT_FALSE(model.is_plain());
}

TEST(FifoModelTest, TensorsBeyondAChunkHaveAChunkOfTheirOwn) {
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 2, {}, std::vector<std::int64_t>(Model::kChunkTensors + 1, 1000)));
  std::vector<std::string> inputs;
  for (std::size_t k = 0; k <= Model::kChunkTensors; ++k) inputs.push_back("a:" + std::to_string(k));
  builder.Add(testing::MakeOp("b", 1, inputs));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(2);
  const Model model(graph, cluster, MeasuredCosts(graph, cluster), /*memory=*/false);
  const std::vector<std::uint32_t> row = FirstRow(model);
  const std::uint32_t tensors = Model::kChunkTensors << Model::kTensorsShift;
  EXPECT_EQ(row[1], (8U << Model::kReadersShift) | tensors | Model::kMoreChunks);
  constexpr std::size_t kSecond = 4 + Model::kChunkTensors + 8;
  EXPECT_EQ(row[kSecond], kForkShape) << "the shape of the second chunk";
  EXPECT_EQ(row[kSecond + 2], 1U) << "b reads its first tensor";
  EXPECT_EQ(row[kSecond + 3], Model::kChunkTensors << Model::kSlotShift) << "the producer fills the list up";
}

TEST(FifoModelTest, NoRunIsLongerThanTheBound) {
  Rng rng(31);
  for (int i = 0; i < 100; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 40});
    const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 0.3, .latency_micros = 2, .gap_micros = 3}, 4);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Model model(graph, cluster, costs, /*memory=*/false);
    const StepResult result =
        Simulator(graph, cluster, costs).Run(testing::RandomPlacement(rng, graph, cluster, costs));
    ASSERT_LE(result.step_time_micros * 1000, static_cast<double>(model.longest_run));
    ASSERT_TRUE(model.FitsPacked());
  }
}

}  // namespace
}  // namespace emplace::fifo
