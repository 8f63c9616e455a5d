#include <gmock/gmock.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogElementwiseTest, EveryKindDoesTheWorkComputedByHand) {
  // 2 * 3 = 6 elements of 4 bytes: 24 bytes a tensor.
  const OutputSpec t = F32({2, 3});
  CheckCases(ElementwiseKinds(),
             {
                 {"relu", {t}, {t}, "", 6, 48},
                 {"relu_grad", {t, t}, {t}, "", 6, 72},
                 {"sigmoid", {t}, {t}, "", 24, 48},          // sign, exp, sum, division
                 {"sigmoid_grad", {t, t}, {t}, "", 18, 72},  // difference, two products
                 {"tanh", {t}, {t}, "", 6, 48},
                 {"tanh_grad", {t, t}, {t}, "", 18, 72},   // square, difference, product
                 {"gelu", {t}, {t}, "", 54, 48},           // 9 each, counted in the row
                 {"gelu_grad", {t, t}, {t}, "", 102, 72},  // 17 each
                 {"add", {t, t}, {t}, "", 6, 72},
                 {"add", {t, F32({3})}, {t}, "", 6, 60},            // 24 + 12 + 24
                 {"add", {F32({2, 1}), t}, {t}, "", 6, 56},         // 8 + 24 + 24
                 {"mul", {F32({2, 1}), F32({3})}, {t}, "", 6, 44},  // both are broadcast: 8 + 12 + 24
                 {"sub", {t, t}, {t}, "", 6, 72},
                 {"sub_grad", {t}, {t}, "", 6, 48},
                 {"mul", {t, t}, {t}, "", 6, 72},
                 {"mul_grad", {t, F32({3})}, {t}, "", 6, 60},
                 {"div", {t, t}, {t}, "", 6, 72},
                 {"div_grad_a", {t, t}, {t}, "", 6, 72},
                 {"div_grad_b", {t, t, t}, {t}, "", 18, 96},  // sign, product, division
                 {"bias_add", {t, F32({3})}, {t}, "", 6, 60},
                 {"bias_add", {F32({2, 3, 4, 5}), F32({3})}, {F32({2, 3, 4, 5})}, "", 120, 972},  // 480 + 12 + 480
                 {"add_n", {t, t, t, t}, {t}, "", 18, 120},                                       // 3 sums each
                 {"scale", {t}, {t}, R"({"factor":0.5})", 6, 48},
                 {"scale", {t, F32({})}, {t}, "", 6, 52},
                 {"scale_grad", {t}, {t}, R"({"factor":0.5})", 6, 48},
                 {"dropout", {t}, {t, Mask({2, 3})}, "", 18, 54},       // mask: 1 byte each
                 {"dropout_grad", {t, Mask({2, 3})}, {t}, "", 12, 54},  // product, selection
             });
}

TEST(OpCatalogElementwiseTest, ShapesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(Refusal({"relu", {F32({2, 3})}, {F32({3, 2})}, ""}),
            "op: as an op of kind relu, shapes [2,3] and [3,2] differ (inputs and output)");
  EXPECT_THAT(Refusal({"add", {F32({2, 3}), F32({2})}, {F32({2, 3})}, ""}), HasSubstr("aligned at the end"));
  EXPECT_THAT(Refusal({"add", {F32({2, 3}), F32({1, 2, 3})}, {F32({2, 3})}, ""}), HasSubstr("aligned at the end"));
  EXPECT_THAT(Refusal({"bias_add", {F32({2, 3}), F32({4})}, {F32({2, 3})}, ""}), HasSubstr("as long as one"));
  EXPECT_THAT(Refusal({"add_n", {F32({2}), F32({3})}, {F32({2})}, ""}), HasSubstr("differ"));
  EXPECT_THAT(Refusal({"scale", {F32({2}), F32({2})}, {F32({2})}, ""}), HasSubstr("the factor is a scalar"));
}

}  // namespace
}  // namespace emplace::testing
