#include <gmock/gmock.h>

#include <map>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpRunnerDataTest, ConstantsAreZerosButForTheGradientOfTheLoss) {
  EXPECT_THAT(RunOp("fill", "", {}, {Spec({2})})[0], ElementsAre(0, 0));
  EXPECT_THAT(RunOp("fill", "", {}, {Spec({})})[0], ElementsAre(1));
  EXPECT_THAT(RunOp("fill", R"({"value":3})", {}, {Spec({2}, DType::kI32)})[0], ElementsAre(3, 3));
}

TEST(OpRunnerDataTest, PiecesAndWholesTurnIntoEachOther) {
  // Along axis 1, [1 2; 3 4] and [5; 6] are [1 2 5; 3 4 6].
  const std::string axis = R"({"axis":1})";
  const Contents left = Of({2, 2}, {1, 2, 3, 4});
  const Contents right = Of({2, 1}, {5, 6});
  const Contents whole = Of({2, 3}, {1, 2, 5, 3, 4, 6});
  for (const char* const kind : {"concat", "split_grad"}) {
    EXPECT_EQ(RunOp(kind, axis, {left, right}, {whole.spec})[0], whole.values) << kind;
  }
  for (const char* const kind : {"split", "concat_grad"}) {
    EXPECT_THAT(RunOp(kind, axis, {whole}, {left.spec, right.spec}), ElementsAre(left.values, right.values)) << kind;
  }
  // [1 2] and [3 4] are the columns of [1 3; 2 4].
  const Contents a = Of({2}, {1, 2});
  const Contents b = Of({2}, {3, 4});
  const Contents columns = Of({2, 2}, {1, 3, 2, 4});
  for (const char* const kind : {"stack", "unstack_grad"}) {
    EXPECT_EQ(RunOp(kind, axis, {a, b}, {columns.spec})[0], columns.values) << kind;
  }
  for (const char* const kind : {"unstack", "stack_grad"}) {
    EXPECT_THAT(RunOp(kind, axis, {columns}, {a.spec, b.spec}), ElementsAre(a.values, b.values)) << kind;
  }
  EXPECT_EQ(RunOp("concat", "", {a, b}, {Spec({4})})[0], (Numbers{1, 2, 3, 4}));  // axis 0 if none is given
  EXPECT_EQ(RunOp("stack", R"({"axis":-1})", {a, b}, {columns.spec})[0], columns.values);
}

TEST(OpRunnerDataTest, AxesAreTransposedAndBack) {
  // y[k][i][j] = x[i][j][k]: the rows of x = 1 2 3 / 4 5 6 are distributed, one number of each pair at a time.
  const std::string order = R"({"order":[2,0,1]})";
  const Contents x = Of({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Contents y = Of({3, 1, 2}, {1, 4, 2, 5, 3, 6});
  EXPECT_EQ(RunOp("transpose", order, {x}, {y.spec})[0], y.values);
  EXPECT_EQ(RunOp("transpose_grad", order, {y}, {x.spec})[0], x.values);
  EXPECT_THAT(RunOp("transpose", "", {Of({2, 2}, {1, 2, 3, 4})}, {Spec({2, 2})})[0], ElementsAre(1, 3, 2, 4));
}

TEST(OpRunnerDataTest, PartsAreCutOutAndSurroundedByZeros) {
  // Rows 1 to 2, column 1 of three rows of two.
  const std::string begin = R"({"begin":[1,1]})";
  const Contents x = Of({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(RunOp("slice", begin, {x}, {Spec({2, 1})})[0], ElementsAre(4, 6));
  EXPECT_THAT(RunOp("slice_grad", begin, {Of({2, 1}, {8, 9})}, {x.spec})[0], ElementsAre(0, 0, 0, 8, 0, 9));
  const std::string before = R"({"before":[0,2],"after":[1,0]})";
  EXPECT_THAT(RunOp("pad", before, {Of({1, 1}, {7})}, {Spec({2, 3})})[0], ElementsAre(0, 0, 7, 0, 0, 0));
  EXPECT_THAT(RunOp("pad_grad", before, {Of({2, 3}, {1, 2, 3, 4, 5, 6})}, {Spec({1, 1})})[0], ElementsAre(3));
}

TEST(OpRunnerDataTest, RowsAreFoundAndTheirGradientsAdded) {
  const Contents table = Of({3, 2}, {1, 2, 3, 4, 5, 6});
  const Contents ids = Ids({2, 2}, {2, 0, 2, 1});
  EXPECT_EQ(RunOp("gather", "", {table, ids}, {Spec({2, 2, 2})})[0], (Numbers{5, 6, 1, 2, 5, 6, 3, 4}));
  // Rows for 2, 0, 2, 1: gradients of equal numbers belong to one row. The table's gradient [2 20; 8 80; 5 50] is the
  // sum over each row (row 2: 1 + 4 and 10 + 40).
  const Contents dy = Of({2, 2, 2}, {1, 10, 2, 20, 4, 40, 8, 80});
  const auto sparse = RunOp("gather_grad", "", {dy, ids}, {Spec({4, 2}), Spec({4}, DType::kI32)});
  std::map<double, int> rows_with_gradient;
  for (std::size_t i = 0; i < 4; ++i) {
    if (sparse[0][2 * i] != 0) ++rows_with_gradient[sparse[1][i]];
  }
  EXPECT_THAT(rows_with_gradient, ElementsAre(std::pair{0., 1}, std::pair{1., 1}, std::pair{2., 1}));
  const Contents zeros = Of({3, 2}, Numbers(6, 0));
  EXPECT_EQ(RunOp("scatter_add", "", {zeros, Of({4, 2}, sparse[0]), Ids({4}, sparse[1])}, {zeros.spec})[0],
            (Numbers{2, 20, 8, 80, 5, 50}));
  EXPECT_EQ(RunOp("scatter_add", "", {table, Of({2, 2}, {10, 20, 30, 40}), Ids({2}, {1, 1})}, {table.spec})[0],
            (Numbers{1, 2, 43, 64, 5, 6}));
}

TEST(OpRunnerDataTest, WhatDoesNotFitIsRefused) {
  const Contents x = Varied({2, 3}, 1);
  EXPECT_THAT(RefusalOf("reshape", "", {x}, {Spec({5})}), HasSubstr("as many elements out as in"));
  EXPECT_THAT(RefusalOf("concat", R"({"axis":2})", {x}, {x.spec}), HasSubstr("attr axis is not one of 2 dimensions"));
  EXPECT_THAT(RefusalOf("concat", R"({"axis":1})", {x, x}, {x.spec}), HasSubstr("add up to the whole"));
  EXPECT_THAT(RefusalOf("concat", "", {x, Varied({2, 2}, 1)}, {Spec({4, 3})}), HasSubstr("only along attr axis"));
  EXPECT_THAT(RefusalOf("stack", "", {x}, {Spec({2, 2, 3})}), HasSubstr("as long as there are pieces"));
  EXPECT_THAT(RefusalOf("transpose", R"({"order":[0,0]})", {x}, {Spec({2, 2})}), HasSubstr("every dimension once"));
  EXPECT_THAT(RefusalOf("slice", R"({"begin":[1,0]})", {x}, {x.spec}), HasSubstr("inside the larger"));
  EXPECT_THAT(RefusalOf("gather", "", {x, x}, {Spec({2, 3, 3})}), HasSubstr("row numbers are integers"));
  // On a GPU, a kernel detects it, too late for a one-line error, and the GPU cannot be used afterwards.
  if (!TestDevice().is_cpu()) return;
  EXPECT_THAT(RefusalOf("gather", "", {x, Ids({1}, {2})}, {Spec({1, 3})}),
              HasSubstr("the_op: as an op of kind gather"));
}

}  // namespace
}  // namespace emplace::testing
