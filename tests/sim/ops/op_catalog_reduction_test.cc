#include <gmock/gmock.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogReductionTest, SumsMeansAndLossesDoTheWorkComputedByHand) {
  const OutputSpec t = F32({4, 5});  // 20 elements, 80 bytes
  const OutputSpec scalar = F32({});
  const OutputSpec c5 = F32({5});
  const OutputSpec x = F32({2, 3, 4, 4});  // 96 elements, 384 bytes
  const OutputSpec c3 = F32({3});          // 12 bytes
  const OutputSpec rows = F32({4});        // 16 bytes
  const OutputSpec y = F32({2, 3, 2, 2});  // 24 elements, 96 bytes
  const std::string halve = R"({"window":[2,2],"stride":[2,2],"padding":"valid"})";
  CheckCases(ReductionKinds(),
             {
                 {"reduce_sum", {t}, {c5}, "", 15, 100},      // 5 sums of 4: 3 additions each
                 {"reduce_sum_grad", {c5}, {t}, "", 0, 100},  // copies only
                 {"reduce_mean", {t}, {c5}, "", 20, 100},     // plus 5 divisions
                 {"reduce_mean_grad", {c5}, {t}, "", 5, 100},
                 {"reduce_max", {t}, {c5}, "", 15, 100},
                 {"reduce_max_grad", {c5, t, c5}, {t}, "", 40, 200},  // compare and select, 20 + 80 + 20 + 80 bytes
                 {"broadcast_grad", {t}, {F32({4, 1})}, "", 16, 96},  // 4 sums of 5
                 {"bias_add_grad", {t}, {c5}, "", 15, 100},
                 {"l2_loss", {t}, {scalar}, "", 40, 84},  // 20 squares, 19 sums, 1 halving
                 {"l2_loss_grad", {scalar, t}, {t}, "", 20, 164},
                 // 2 sums, doubling, root, division, comparison
                 {"global_norm_scale", {scalar, scalar, scalar}, {scalar}, "", 6, 16},
                 {"softmax", {t}, {t}, "", 100, 160},
                 {"softmax_grad", {t, t}, {t}, "", 80, 240},
                 // Softmax 5 * 20, then log and negation of 4 numbers. 80 + 16 + 16 + 80 bytes.
                 {"softmax_cross_entropy", {t, I32({4})}, {rows, t}, "", 108, 192},
                 // Log, product and sum for each class: 5 * 20 + 3 * 20. 80 + 80 + 16 + 80 bytes.
                 {"softmax_cross_entropy", {t, t}, {rows, t}, "", 160, 256},
                 {"softmax_cross_entropy_grad", {rows, t, I32({4})}, {t}, "", 24, 192},  // 20 products, 4 differences
                 {"softmax_cross_entropy_grad", {rows, t, t}, {t}, "", 40, 256},
                 // 8 * 96 + 4 * 3; x read twice: 384 * 2 + 12 * 4 + 384.
                 {"batch_norm", {x, c3, c3}, {x, c3, c3}, "", 780, 1200},
                 {"batch_norm", {x, c3}, {x, c3, c3}, "", 684, 1188},  // 7 * 96 + 12, one vector less
                 // 9 * 96 + 3 * 3; dy and x twice: 384 * 4 + 384 + 5 vectors of 12.
                 {"batch_norm_grad", {x, x, c3, c3, c3}, {x, c3, c3}, "", 873, 1980},
                 {"batch_norm_grad", {x, x, c3, c3}, {x, c3}, "", 870, 1956},  // 3 vectors
                 // 8 * 20 + 4 * 4; x 80, two of 20, y 80, two of 16.
                 {"layer_norm", {t, c5, c5}, {t, rows, rows}, "", 176, 232},
                 // 13 * 20 + 2 * 4; three of 80, two of 16, three of 20.
                 {"layer_norm_grad", {t, t, rows, rows, c5}, {t, c5, c5}, "", 268, 332},
                 {"max_pool", {x}, {y}, halve, 72, 480},             // 24 * 3 comparisons
                 {"max_pool_grad", {y, x, y}, {x}, halve, 96, 960},  // 24 * 4; 96 + 384 + 96 + 384
                 {"avg_pool", {x}, {y}, halve, 96, 480},             // 24 * 4
                 {"avg_pool_grad", {y}, {x}, halve, 120, 480},       // 24 * 5
             });
}

TEST(OpCatalogReductionTest, ShapesThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(Refusal({"reduce_sum", {F32({2})}, {F32({3})}, ""}), HasSubstr("no larger than its input"));
  EXPECT_THAT(Refusal({"reduce_sum_grad", {F32({3})}, {F32({2})}, ""}), HasSubstr("grows"));
  EXPECT_THAT(Refusal({"softmax_cross_entropy", {F32({4, 5}), I32({5})}, {F32({4}), F32({4, 5})}, ""}),
              HasSubstr("one class number a row"));
  EXPECT_THAT(Refusal({"softmax_cross_entropy", {F32({4, 5}), F32({4})}, {F32({4}), F32({4, 5})}, ""}),
              HasSubstr("one distribution a row"));
  EXPECT_THAT(Refusal({"batch_norm", {F32({2, 3, 4, 4}), F32({4})}, {F32({2, 3, 4, 4}), F32({3}), F32({3})}, ""}),
              HasSubstr("one a channel"));
  EXPECT_THAT(Refusal({"layer_norm", {F32({4, 5}), F32({4}), F32({5})}, {F32({4, 5}), F32({4}), F32({4})}, ""}),
              HasSubstr("as long as a row"));
  EXPECT_THAT(Refusal({"max_pool", {F32({1, 1, 4, 4})}, {F32({1, 1, 2, 2})}, R"({"stride":[2,2]})"}),
              HasSubstr("at least 1"));
  EXPECT_THAT(Refusal({"max_pool", {F32({1, 1, 4, 4})}, {F32({1, 2, 2, 2})}, R"({"window":[2,2],"stride":[2,2]})"}),
              HasSubstr("batch and channels stay"));
}

}  // namespace
}  // namespace emplace::testing
