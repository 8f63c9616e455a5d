#include <gmock/gmock.h>

#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogOnnxTest, KindsAreSortedAndOnlyFoundByName) {
  const std::span<const OpKind> kinds = OnnxKinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_TRUE(i == 0 || kinds[i - 1].name < kinds[i].name) << kinds[i].name;
    EXPECT_EQ(FindOpKind(kinds[i].name), &kinds[i]);
    EXPECT_TRUE(kinds[i].name.starts_with("onnx::") || kinds[i].name.starts_with("com.microsoft::") ||
                kinds[i].name.starts_with("ai.onnx."));
    EXPECT_NE(kinds[i].formula.find(": "), std::string_view::npos) << kinds[i].name;
  }
  EXPECT_EQ(FindOpKind("onnx::"), nullptr);
  EXPECT_EQ(FindOpKind("onnx::Unheard"), nullptr);
  EXPECT_TRUE(std::none_of(AllOpKinds().begin(), AllOpKinds().end(),
                           [](const OpKind& kind) { return kind.name.find("::") != std::string_view::npos; }));
}

TEST(OpCatalogOnnxTest, KindsDoTheWorkComputedByHand) {
  const OutputSpec t = F32({2, 3});  // 6 elements, 24 bytes
  const OutputSpec image = F32({1, 4, 5, 5});
  const OutputSpec c4 = F32({4});
  const OpCase cases[] = {
      {"onnx::Exp", {t}, {t}, "", 6, 48},
      {"onnx::Elu", {t}, {t}, "", 24, 48},
      {"onnx::Cast", {I32({2, 3})}, {t}, "", 0, 48},
      {"onnx::Max", {t, t, F32({3})}, {t}, "", 12, 84},  // two comparisons each
      {"onnx::ArgMax", {t}, {I32({2})}, "", 6, 32},
      {"onnx::ReduceL2", {t}, {F32({2})}, "", 12, 32},
      {"onnx::Shape", {t}, {I32({2})}, "", 0, 0},
      {"onnx::Slice", {F32({100})}, {t}, "", 0, 48},
      {"onnx::Gather", {F32({100, 3}), I32({2})}, {t}, "", 0, 56},
      // 100 elements: 2 each, 5 a channel; 400 + 400 + 4 vectors of 16.
      {"onnx::BatchNormalization", {image, c4, c4, c4, c4}, {image}, "", 220, 864},
      {"onnx::LRN", {image}, {image}, R"({"size":5})", 900, 800},
      // Two groups: 8 outputs of 4 / 2 channels and 3 x 3 taps over 5 x 5: 2 * 200 * 18, and 200 for the bias.
      {"onnx::Conv", {image, F32({8, 2, 3, 3}), F32({8})}, {F32({1, 8, 5, 5})}, R"({"group":2})", 7400, 1808},
      // Three dimensions: 2 * 8 * (1 * 8).
      {"onnx::Conv", {F32({1, 1, 3, 3, 3}), F32({1, 1, 2, 2, 2})}, {F32({1, 1, 2, 2, 2})}, "", 128, 172},
      // Each of 100 inputs is spread over 2 channels of 2 x 2: 2 * 100 * 8.
      {"onnx::ConvTranspose", {image, F32({4, 2, 2, 2})}, {F32({1, 2, 10, 10})}, "", 1600, 1328},
      // 2 operands, i = 2, j = 3, k = 4.
      {"onnx::Einsum", {t, F32({3, 4})}, {F32({2, 4})}, R"({"equation":"ij, jk->ik"})", 48, 104},
      // Five products of matrices, with dimensions that the equation does not name.
      {"onnx::Einsum", {F32({5, 2, 3}), F32({5, 3, 4})}, {F32({5, 2, 4})}, R"({"equation":"...ij,...jk"})", 240, 520},
      // A vector times a matrix: 2 * 4 * 3.
      {"onnx::MatMul", {F32({3}), F32({3, 4})}, {F32({4})}, "", 24, 76},
      // Two products of four heads, 5 queries and 6 keys of size 8; before them one of 10 rows with 16 by 48.
      {"onnx::Attention", {t, t, t}, {t}, R"({"attention":[2,4,5,6,8,8]})", 7680, 96},
      {"com.microsoft::Attention",
       {F32({2, 5, 16}), F32({16, 48})},
       {F32({2, 5, 16})},
       R"({"attention":[2,4,5,5,4,4]})",
       18560,
       4352},
      {"onnx::QLinearConv", {image, c4, c4, F32({8, 4, 3, 3}), c4, c4, c4, c4}, {F32({1, 8, 5, 5})}, "", 14400, 2448},
      {"onnx::QLinearMatMul", {F32({2, 3}), c4, c4, F32({3, 4}), c4, c4, c4, c4}, {F32({2, 4})}, "", 48, 200},
      {"com.microsoft::MatMulNBits", {F32({2, 32}), F32({4, 4})}, {F32({2, 4})}, R"({"K":32,"N":4})", 512, 352},
      {"com.microsoft::FusedMatMul", {F32({3, 2}), F32({3, 4})}, {F32({2, 4})}, R"({"transA":1})", 48, 104},
      // Ten positions of states of 8 by 4: a head of keys makes them and two heads read them; a gate, and a delta rule.
      {"onnx::LinearAttention",
       {F32({1, 10, 16}), F32({1, 10, 8}), F32({1, 10, 4})},
       {F32({1, 10, 8})},
       R"({"q_num_heads":2,"kv_num_heads":1,"update_rule":"linear"})",
       1920,
       1440},
      {"onnx::LinearAttention",
       {F32({1, 10, 16}), F32({1, 10, 8}), F32({1, 10, 4})},
       {F32({1, 10, 8})},
       R"({"q_num_heads":2,"kv_num_heads":1})",
       2880,
       1440},
      {"onnx::Mean", {t, t, t}, {t}, "", 18, 96},
      {"onnx::LpPool", {image}, {F32({1, 4, 3, 3})}, R"({"kernel_shape":[3,3]})", 648, 544},
      {"onnx::Gemm", {F32({3, 2}), F32({3, 4}), F32({2, 1})}, {F32({2, 4})}, R"({"transA":1})", 56, 112},
      // 5 steps of 2: 2 * 10 * (24 + 48) = 1440; 120 + 96 + 192 + 160.
      {"onnx::RNN", {F32({5, 2, 3}), F32({1, 8, 3}), F32({1, 8, 6})}, {F32({5, 1, 2, 4})}, "", 1440, 568},
      {"onnx::AveragePool", {image}, {F32({1, 4, 3, 3})}, R"({"kernel_shape":[3,3]})", 324, 544},
  };
  for (const OpCase& row : cases) {
    SCOPED_TRACE(row.kind);
    const OpWork work = WorkOf(row);
    EXPECT_EQ(work.op_class, FindOpKind(row.kind)->op_class);
    EXPECT_EQ(work.flop, row.flop);
    EXPECT_EQ(work.moved.count, row.moved);
  }
}

TEST(OpCatalogOnnxTest, WhatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(Refusal({"onnx::MaxPool", {F32({1, 1, 4, 4})}, {F32({1, 1, 2, 2})}, R"({"kernel_shape":2})"}),
            "op: as an op of kind onnx::MaxPool, attr kernel_shape is not a list of integers");
  EXPECT_EQ(Refusal({"onnx::LRN", {F32({2})}, {F32({2})}, R"({"size":1.5})"}),
            "op: as an op of kind onnx::LRN, attr size is not an integer");
  EXPECT_THAT(Refusal({"onnx::Einsum", {F32({2})}, {F32({2})}, R"({"equation":"ij->i"})"}),
              HasSubstr("a letter for each"));
  EXPECT_THAT(Refusal({"onnx::Einsum", {F32({2})}, {F32({2})}, R"({"equation":"i...j->i"})"}),
              HasSubstr("a letter for each"));
  EXPECT_THAT(Refusal({"onnx::Einsum", {F32({2})}, {F32({2})}, R"({"equation":1})"}), HasSubstr("is not a text"));
  EXPECT_THAT(Refusal({"onnx::BatchNormalization", {F32({2, 2})}, {F32({2, 2})}, ""}),
              HasSubstr("inputs are x, scale"));
  EXPECT_THAT(Refusal({"onnx::Conv", {F32({2, 2})}, {F32({2, 2})}, ""}), HasSubstr("has no input 1"));
  EXPECT_THAT(Refusal({"onnx::Gemm", {F32({2}), F32({2})}, {F32({2})}, ""}), HasSubstr("rank 2 expected"));
  for (const OpKind& kind : OnnxKinds()) {
    EXPECT_THAT(Refusal({std::string(kind.name), {}, {}, ""}), HasSubstr("as an op of kind")) << kind.name;
  }
}

}  // namespace
}  // namespace emplace::testing
