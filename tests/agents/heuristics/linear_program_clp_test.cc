// linear_program.h with Clp, for programs without a solution.

#include <gtest/gtest.h>

#include "agents/heuristics/linear_program.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

TEST(LinearProgramTest, RowsThatContradictAreAnErrorAndNoAnswer) {
  // x <= 1 and x >= 2.
  agents::LinearProgram program(2);
  program.num_fractions = 1;
  program.BeginRow(2);
  program.Add(0, 1);
  EXPECT_EQ(testing::ErrorOf([&] { agents::MinimiseLast(program); }).find("m_sct: the linear program was not solved"),
            0U);
}

}  // namespace
}  // namespace emplace
