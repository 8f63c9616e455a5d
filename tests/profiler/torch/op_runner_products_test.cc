#include <gmock/gmock.h>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpRunnerProductsTest, ConvolutionsOfSmallImagesAreThoseComputedByHand) {
  // A 2x2 filter keeps a 3x3 image's size with one row of zeros below and one column on the right: 1 = 2 - 1 in total,
  // none in front. Outputs are sums of 2x2 squares of 1..9, such as 1 + 2 + 4 + 5 = 12.
  const Contents square = Of({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_THAT(
      RunOp("conv2d", R"({"padding":"same"})", {square, Of({1, 1, 2, 2}, {1, 1, 1, 1})}, {Spec({1, 1, 3, 3})})[0],
      ElementsAre(12, 16, 9, 24, 28, 15, 15, 17, 9));
  // 4 elements, window 3, stride 2: 2 steps need (2 - 1) * 2 + 3 - 4 = 1 zero, at the end: 1 + 2 + 3 and 3 + 4 + 0.
  const Contents row = Of({1, 1, 1, 4}, {1, 2, 3, 4});
  const Contents three = Of({1, 1, 1, 3}, {1, 1, 1});
  EXPECT_THAT(RunOp("conv2d", R"({"padding":"same","stride":[1,2]})", {row, three}, {Spec({1, 1, 1, 2})})[0],
              ElementsAre(6, 7));
  // Taps 2 apart span 5 elements: 2 zeros on both sides. 1 + 3, 2 + 4, 1 + 3 + 5, 2 + 4, 3 + 5.
  EXPECT_THAT(RunOp("conv2d", R"({"padding":"same","dilation":[1,2]})", {Of({1, 1, 1, 5}, {1, 2, 3, 4, 5}), three},
                    {Spec({1, 1, 1, 5})})[0],
              ElementsAre(4, 6, 9, 6, 8));
  // Without padding, stride 2 never reads the last element (2 outputs would need 5 elements): 1 + 2 + 3. With zeros on
  // both sides: 0 + 1 + 2 and 2 + 3 + 4.
  EXPECT_THAT(RunOp("conv2d", R"({"stride":[1,2]})", {row, three}, {Spec({1, 1, 1, 1})})[0], ElementsAre(6));
  EXPECT_THAT(RunOp("conv2d", R"({"padding":[0,1],"stride":[1,2]})", {row, three}, {Spec({1, 1, 1, 2})})[0],
              ElementsAre(3, 9));
  // Two channels [1 2] and [3 4], two filters each: first, second; sum, difference.
  EXPECT_THAT(
      RunOp("depthwise_conv2d", R"({"padding":"valid"})",
            {Of({1, 2, 1, 2}, {1, 2, 3, 4}), Of({2, 2, 1, 2}, {1, 0, 0, 1, 1, 1, 1, -1})}, {Spec({1, 4, 1, 1})})[0],
      ElementsAre(1, 2, 7, -1));
}

struct Geometry {
  const char* attrs;
  std::int64_t rows;
  std::int64_t columns;
};
// For a 7x6 image and a 3x2 filter.
constexpr Geometry kGeometries[] = {
    {R"({"padding":"valid"})", 5, 5},
    {R"({"padding":"same"})", 7, 6},                                   // columns asymmetric
    {R"({"padding":"same","stride":[2,2]})", 4, 3},                    // rows symmetric
    {R"({"padding":"same","stride":[3,1]})", 3, 6},                    // rows 2 * 3 + 3 - 7 = 2, one on each side
    {R"({"padding":"same","dilation":[2,2]})", 7, 6},                  // 4 rows, 2 columns of zeros
    {R"({"padding":"valid","stride":[3,4],"dilation":[2,1]})", 1, 2},  // 3 rows are not read
    {R"({"padding":[2,1],"stride":[2,1]})", 5, 7},
};

ForwardOp ConvolutionOf(const std::string& kind, const Geometry& geometry, DType dtype) {
  const bool depthwise = kind == "depthwise_conv2d";
  return {.kind = kind,
          .attrs = geometry.attrs,
          .inputs = {Varied({2, 2, 7, 6}, 1, dtype), Varied({depthwise ? 2 : 3, 2, 3, 2}, 2, dtype)},
          .outputs = {Spec({2, depthwise ? 4 : 3, geometry.rows, geometry.columns}, dtype)}};
}

TEST(OpRunnerProductsTest, GradientsOfConvolutionsAreTheirDifferences) {
  for (const std::string kind : {"conv2d", "depthwise_conv2d"}) {
    for (const Geometry& geometry : kGeometries) {
      const ForwardOp op = ConvolutionOf(kind, geometry, DType::kF64);
      const auto& [x, w] = std::tie(op.inputs[0], op.inputs[1]);
      ExpectGradient(op, 0, kind + "_grad_input", {w, op.Dy()}, {x.spec});
      ExpectGradient(op, 1, kind + "_grad_filter", {x, op.Dy()}, {w.spec});
    }
  }
}

// f32, the type of the networks, runs other code.
TEST(OpRunnerProductsTest, ConvolutionsComputeTheSameInSingleAndDoublePrecision) {
  for (const std::string kind : {"conv2d", "depthwise_conv2d"}) {
    for (const Geometry& geometry : kGeometries) {
      std::vector<std::vector<Numbers>> results;
      for (const DType dtype : {DType::kF32, DType::kF64}) {
        const ForwardOp op = ConvolutionOf(kind, geometry, dtype);
        const Contents dy = Varied(op.outputs[0].shape, 7, dtype);
        const auto& [x, w] = std::tie(op.inputs[0], op.inputs[1]);
        results.push_back({RunOp(kind, op.attrs, op.inputs, op.outputs)[0],
                           RunOp(kind + "_grad_input", op.attrs, {w, dy}, {x.spec})[0],
                           RunOp(kind + "_grad_filter", op.attrs, {x, dy}, {w.spec})[0]});
      }
      // Sums of at most 2 * 7 * 6 products below 1, each rounded by 1e-7.
      for (std::size_t i = 0; i < 3; ++i) ExpectNear(results[0][i], results[1][i], 1e-5, kind + geometry.attrs);
    }
  }
}

TEST(OpRunnerProductsTest, MatricesAreMultipliedAsTheyAreOrTransposed) {
  // [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50]; with the first transposed, [1 3; 2 4] [5 6; 7 8] = [26 30; 38 44]; with the
  // second, [1 2; 3 4] [5 7; 6 8] = [17 23; 39 53].
  const std::vector<Contents> operands = {Of({2, 2}, {1, 2, 3, 4}), Of({2, 2}, {5, 6, 7, 8})};
  const std::vector<profiler::TensorSpec> result = {Spec({2, 2})};
  EXPECT_THAT(RunOp("matmul", "", operands, result)[0], ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(RunOp("matmul", R"({"transpose_a":true})", operands, result)[0], ElementsAre(26, 30, 38, 44));
  EXPECT_THAT(RunOp("matmul", R"({"transpose_b":true})", operands, result)[0], ElementsAre(17, 23, 39, 53));
  // The leading dimensions of a count as rows.
  EXPECT_THAT(RunOp("matmul", "", {Of({2, 1, 2}, {1, 2, 3, 4}), operands[1]}, {Spec({2, 1, 2})})[0],
              ElementsAre(19, 22, 43, 50));
  // Two products of 1x2 and 2x1: 1 * 5 + 2 * 6 and 3 * 7 + 4 * 8.
  EXPECT_THAT(
      RunOp("batch_matmul", "", {Of({2, 1, 2}, {1, 2, 3, 4}), Of({2, 2, 1}, {5, 6, 7, 8})}, {Spec({2, 1, 1})})[0],
      ElementsAre(17, 53));
}

TEST(OpRunnerProductsTest, GradientsOfProductsAreTheirDifferences) {
  struct Case {
    const char* kind;
    const char* attrs;
    Dims a;
    Dims b;
    Dims y;
  };
  const Case cases[] = {
      {"matmul", "", {3, 4}, {4, 2}, {3, 2}},
      {"matmul", R"({"transpose_a":true})", {4, 3}, {4, 2}, {3, 2}},
      {"matmul", R"({"transpose_b":true})", {3, 4}, {2, 4}, {3, 2}},
      {"matmul", R"({"transpose_a":true,"transpose_b":true})", {4, 3}, {2, 4}, {3, 2}},
      {"matmul", R"({"transpose_b":true})", {2, 3, 4}, {2, 4}, {2, 3, 2}},
      {"batch_matmul", "", {2, 3, 4}, {2, 4, 2}, {2, 3, 2}},
      {"batch_matmul", R"({"transpose_b":true})", {2, 1, 3, 4}, {2, 1, 2, 4}, {2, 1, 3, 2}},
      {"batch_matmul", R"({"transpose_a":true,"transpose_b":true})", {2, 4, 3}, {2, 2, 4}, {2, 3, 2}},
  };
  for (const Case& row : cases) {
    const ForwardOp op = {row.kind, row.attrs, {Varied(row.a, 1), Varied(row.b, 2)}, {Spec(row.y)}};
    ExpectGradient(op, 0, op.kind + "_grad_a", {op.Dy(), op.inputs[1]}, {op.inputs[0].spec});
    ExpectGradient(op, 1, op.kind + "_grad_b", {op.inputs[0], op.Dy()}, {op.inputs[1].spec});
  }
}

TEST(OpRunnerProductsTest, ShapesThatDoNotFitAreRefused) {
  const auto refusal = [](const char* kind, const char* attrs, const Dims& a, const Dims& b, const Dims& y) {
    return RefusalOf(kind, attrs, {Varied(a, 1), Varied(b, 2)}, {Spec(y)});
  };
  EXPECT_THAT(refusal("matmul", "", {2, 3}, {2, 3}, {2, 3}), HasSubstr("a [..,M,K] times b [..,K,N] is [..,M,N]"));
  EXPECT_THAT(refusal("matmul", R"({"transpose_a":1})", {2, 2}, {2, 2}, {2, 2}),
              HasSubstr("attr transpose_a is not true or false"));
  EXPECT_THAT(refusal("batch_matmul", "", {2, 2, 3}, {3, 3, 2}, {2, 2, 2}), HasSubstr("leading dimensions"));
  EXPECT_THAT(refusal("conv2d", "", {1, 2, 4, 4}, {1, 3, 2, 2}, {1, 1, 3, 3}), HasSubstr("filter [K,C,R,S]"));
  EXPECT_THAT(refusal("conv2d", "", {1, 2, 4, 4}, {1, 2, 2, 2}, {1, 1, 4, 4}), HasSubstr("give the output's size"));
  EXPECT_THAT(refusal("depthwise_conv2d", "", {1, 2, 4, 4}, {1, 2, 2, 2}, {1, 2, 3, 3}), HasSubstr("filter [C,M,R,S]"));
}

}  // namespace
}  // namespace emplace::testing
