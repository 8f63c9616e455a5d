#include "sim/cost/measured.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(MeasuredCostModelTest, AnswersWithTheGraphsOwnTimes) {
  GraphBuilder builder("g");
  OpSpec by_kind = testing::MakeOp("a", 0);
  by_kind.time_micros = std::nullopt;
  by_kind.kind_times = {{"k80", 3.5}};
  builder.Add(by_kind);
  builder.Add(testing::MakeOp("b", 4.25));
  const Graph graph = builder.Build();
  const auto model = MakeMeasuredCostModel();
  const Cluster cluster = testing::MakeCluster(1);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(0), cluster, "k80"), 3.5);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(0), cluster, "v100"), std::nullopt);
  EXPECT_EQ(model->OpMicros(graph, MakeId<OpId>(1), cluster, "anything"), 4.25);
}

}  // namespace
}  // namespace emplace
