#include <gtest/gtest.h>

#include <set>
#include <string>

#include "datasets/families/families.h"

namespace emplace::testing {
namespace {

TEST(NmtFamilyTest, BatchesAndStepsFillTheirRangesSlow) {
  Rng rng(1);
  std::set<int> batches;
  std::set<int> steps;
  for (int i = 0; i < 24; ++i) {
    std::vector<std::pair<std::string, std::string>> drawn;
    const Graph graph = datasets::MakeNmtMember(rng, "nmt_xx", &drawn);
    ASSERT_EQ(drawn.size(), 2U);
    const int batch = std::stoi(drawn[0].second);
    const int step = std::stoi(drawn[1].second);
    EXPECT_TRUE(batch >= 64 && batch <= 128) << batch;
    EXPECT_TRUE(step >= 16 && step <= 32) << step;
    batches.insert(batch);
    steps.insert(step);
    const OpId source = graph.FindOp("source").value_or(graph.FindOp("encoder/embedding/source").value());
    const auto shape = graph.tensor(graph.first_output(source)).shape;
    EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{step, batch}));
  }
  EXPECT_GT(batches.size(), 12U);
  EXPECT_GT(steps.size(), 8U);
}

}  // namespace
}  // namespace emplace::testing
