#include <gmock/gmock.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogProductsTest, EveryKindDoesTheWorkComputedByHand) {
  const std::string valid = R"({"stride":[2,2],"padding":"valid"})";
  const std::string same = R"({"padding":"same"})";
  CheckCases(
      ProductKinds(),
      {
          // Window 3 at stride 2 over 7 x 9: 3 x 4 outputs. y has 2*4*3*4 = 96 elements, each 3*3*3 = 27 products:
          // 2 * 96 * 27 = 5184. x 2*3*7*9 = 378, w 4*27 = 108: 4 * (378 + 108 + 96) = 2328 bytes.
          {"conv2d", {F32({2, 3, 7, 9}), F32({4, 3, 3, 3})}, {F32({2, 4, 3, 4})}, valid, 5184, 2328},
          {"conv2d_grad_input", {F32({4, 3, 3, 3}), F32({2, 4, 3, 4})}, {F32({2, 3, 7, 9})}, valid, 5184, 2328},
          {"conv2d_grad_filter", {F32({2, 3, 7, 9}), F32({2, 4, 3, 4})}, {F32({4, 3, 3, 3})}, valid, 5184, 2328},
          // With dilation 2 a window of 3 spans 5: 6 - 5 + 1 = 2 outputs per side. y has 4 elements, 9 products each:
          // 72. 4 * (36 + 9 + 4) = 196 bytes.
          {"conv2d", {F32({1, 1, 6, 6}), F32({1, 1, 3, 3})}, {F32({1, 1, 2, 2})}, R"({"dilation":[2,2]})", 72, 196},
          // One row and column of zeros around 4 x 4, window 3 at stride 2: (4 + 2 - 3) / 2 + 1 = 2. 4 * 9 * 2 = 72;
          // 4 * (16 + 9 + 4) = 116 bytes.
          {"conv2d",
           {F32({1, 1, 4, 4}), F32({1, 1, 3, 3})},
           {F32({1, 1, 2, 2})},
           R"({"stride":[2,2],"padding":[1,1]})",
           72,
           116},
          // Two filters for each of 3 channels, size 5 x 5 is kept: 6*25 = 150 outputs of 9 products: 2 * 150 * 9 =
          // 2700. x 75, w 54, y 150: 4 * 279 = 1116 bytes.
          {"depthwise_conv2d", {F32({1, 3, 5, 5}), F32({3, 2, 3, 3})}, {F32({1, 6, 5, 5})}, same, 2700, 1116},
          {"depthwise_conv2d_grad_input",
           {F32({3, 2, 3, 3}), F32({1, 6, 5, 5})},
           {F32({1, 3, 5, 5})},
           same,
           2700,
           1116},
          {"depthwise_conv2d_grad_filter",
           {F32({1, 3, 5, 5}), F32({1, 6, 5, 5})},
           {F32({3, 2, 3, 3})},
           same,
           2700,
           1116},
          // [2,3] x [3,5]: 2 * 2*3*5 = 60; 4 * (6 + 15 + 10) = 124 bytes.
          {"matmul", {F32({2, 3}), F32({3, 5})}, {F32({2, 5})}, "", 60, 124},
          {"matmul", {F32({3, 2}), F32({5, 3})}, {F32({2, 5})}, R"({"transpose_a":true,"transpose_b":true})", 60, 124},
          // 4 * 2 = 8 rows: 2 * 8*3*5 = 240; 4 * (24 + 15 + 40) = 316 bytes.
          {"matmul", {F32({4, 2, 3}), F32({3, 5})}, {F32({4, 2, 5})}, "", 240, 316},
          {"matmul_grad_a", {F32({2, 5}), F32({3, 5})}, {F32({2, 3})}, "", 60, 124},
          {"matmul_grad_a", {F32({2, 5}), F32({5, 3})}, {F32({2, 3})}, R"({"transpose_b":true})", 60, 124},
          {"matmul_grad_b", {F32({2, 3}), F32({2, 5})}, {F32({3, 5})}, "", 60, 124},
          {"matmul_grad_b", {F32({4, 2, 3}), F32({4, 2, 5})}, {F32({3, 5})}, "", 240, 316},
          // 4 products of [2,3] x [3,5]: 240; 4 * (24 + 60 + 40) = 496 bytes.
          {"batch_matmul", {F32({4, 2, 3}), F32({4, 3, 5})}, {F32({4, 2, 5})}, "", 240, 496},
          {"batch_matmul", {F32({4, 2, 3}), F32({4, 5, 3})}, {F32({4, 2, 5})}, R"({"transpose_b":true})", 240, 496},
          {"batch_matmul_grad_a", {F32({4, 2, 5}), F32({4, 3, 5})}, {F32({4, 2, 3})}, "", 240, 496},
          {"batch_matmul_grad_b", {F32({4, 2, 3}), F32({4, 2, 5})}, {F32({4, 3, 5})}, "", 240, 496},
      });
}

TEST(OpCatalogProductsTest, GradientsOfAConvolutionDoTwiceItsFlop) {
  const std::string attrs = R"({"stride":[2,2],"padding":"same"})";
  const OutputSpec x = F32({8, 16, 15, 15});
  const OutputSpec w = F32({32, 16, 5, 5});
  const OutputSpec y = F32({8, 32, 8, 8});  // ceil(15 / 2)
  EXPECT_EQ(
      WorkOf({"conv2d_grad_input", {w, y}, {x}, attrs}).flop + WorkOf({"conv2d_grad_filter", {x, y}, {w}, attrs}).flop,
      2 * WorkOf({"conv2d", {x, w}, {y}, attrs}).flop);
}

TEST(OpCatalogProductsTest, ShapesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(Refusal({"conv2d", {F32({2, 3, 7, 9})}, {F32({2, 4, 3, 4})}, ""}),
            "op: as an op of kind conv2d, has 1 inputs (2 expected)");
  EXPECT_EQ(Refusal({"conv2d", {F32({2, 7, 9}), F32({4, 3, 3, 3})}, {F32({2, 4, 3, 4})}, ""}),
            "op: as an op of kind conv2d, the image has shape [2,7,9] (rank 4 expected)");
  // Without a stride the output would be 5 x 7.
  EXPECT_THAT(Refusal({"conv2d", {F32({2, 3, 7, 9}), F32({4, 3, 3, 3})}, {F32({2, 4, 3, 4})}, ""}),
              HasSubstr("stride, padding and dilation give"));
  EXPECT_THAT(Refusal({"conv2d", {F32({2, 3, 7, 9}), F32({4, 5, 3, 3})}, {F32({2, 4, 5, 7})}, ""}),
              HasSubstr("filter [K,C,R,S]"));
  EXPECT_THAT(Refusal({"matmul", {F32({2, 3}), F32({4, 5})}, {F32({2, 5})}, ""}), HasSubstr("is [..,M,N]"));
  EXPECT_THAT(Refusal({"matmul", {F32({2, 3}), F32({4, 3, 5})}, {F32({2, 5})}, ""}), HasSubstr("rank"));
  EXPECT_THAT(Refusal({"batch_matmul", {F32({4, 2, 3}), F32({1, 3, 5})}, {F32({4, 2, 5})}, ""}),
              HasSubstr("leading dimensions"));
  EXPECT_THAT(Refusal({"matmul", {{.size = Bytes{24}, .shape = {}}, F32({3, 5})}, {F32({2, 5})}, ""}),
              HasSubstr("input 0 has no dtype and shape"));
}

}  // namespace
}  // namespace emplace::testing
