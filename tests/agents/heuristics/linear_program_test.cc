#include "agents/heuristics/linear_program.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(LinearProgramTest, TheLastColumnIsAsSmallAsTheRowsLetIt) {
  // w >= 5 - 3 x and w >= 2 + x, 0 <= x <= 1: they cross at x = 0.75.
  agents::LinearProgram program(2);
  program.num_fractions = 1;
  program.BeginRow(5);
  program.Add(0, 3);
  program.Add(1, 1);
  program.BeginRow(2);
  program.Add(0, -1);
  program.Add(1, 1);
  const std::vector<double> solution = agents::MinimiseLast(program);
  ASSERT_EQ(solution.size(), 2U);
  EXPECT_NEAR(solution[0], 0.75, 1e-7);
  EXPECT_NEAR(solution[1], 2.75, 1e-7);
}

TEST(LinearProgramTest, FractionsEndAtOne) {
  // w >= 5 - 3 x: x at its limit.
  agents::LinearProgram program(2);
  program.num_fractions = 1;
  program.BeginRow(5);
  program.Add(0, 3);
  program.Add(1, 1);
  EXPECT_NEAR(agents::MinimiseLast(program)[1], 2, 1e-7);
}

}  // namespace
}  // namespace emplace
