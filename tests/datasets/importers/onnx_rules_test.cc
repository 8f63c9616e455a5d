#include "datasets/importers/onnx_rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace emplace::testing {
namespace {

using datasets::OnnxContent;
using datasets::OnnxType;
using ::testing::HasSubstr;
using RuleShape = std::vector<std::int64_t>;

// A node in opset 21 whose inputs have these shapes, in f32; what is known of some of them, by position.
struct RuleCase {
  std::string op;  // "DOMAIN::NAME" of others than ONNX's own
  std::vector<RuleShape> inputs;
  std::vector<RuleShape> outputs;
  std::vector<std::pair<std::string, RuleShape>> attrs = {};
  std::vector<std::pair<std::size_t, RuleShape>> known = {};
};
struct PreparedRule {
  explicit PreparedRule(const RuleCase& row) {
    const std::size_t colons = row.op.find("::");
    node.op = colons == std::string::npos ? row.op : row.op.substr(colons + 2);
    node.domain = colons == std::string::npos ? "" : row.op.substr(0, colons);
    node.opset = 21;
    for (const RuleShape& dims : row.inputs) {
      node.inputs.push_back("in");
      types.push_back({.is_tensor = true, .element = datasets::kOnnxFloat, .dims = dims});
    }
    contents.resize(types.size());
    for (const auto& [input, values] : row.known) {
      contents[input] = {.element = datasets::kOnnxInt64,
                         .dims = {static_cast<std::int64_t>(values.size())},
                         .integers = values,
                         .numbers = {}};
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      operands.types.push_back(&types[i]);
      operands.contents.push_back(contents[i].size() > 0 ? &contents[i] : nullptr);
    }
    for (const auto& [name, values] : row.attrs) {
      datasets::OnnxAttr attr;
      attr.name = name;
      attr.integers = values;
      node.attrs.push_back(attr);
    }
    node.outputs.assign(std::max<std::size_t>(row.outputs.size(), 1), "out");
  }
  datasets::OnnxNode node;
  std::vector<OnnxType> types;
  std::vector<OnnxContent> contents;
  datasets::OnnxOperands operands;
};
std::string WhyNoShape(const RuleCase& row) {
  const PreparedRule prepared(row);
  try {
    OnnxTypesByRule(prepared.node, prepared.operands);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxRulesTest, ShapesAreThoseOfTheOperatorsPages) {
  const RuleCase rows[] = {
      {"Gelu", {{2, 3}}, {{2, 3}}},
      {"RMSNormalization", {{2, 3}, {3}}, {{2, 3}}},
      {"LayerNormalization", {{2, 3, 4}, {3, 4}}, {{2, 3, 4}, {2, 1, 1}, {2, 1, 1}}, {{"axis", {1}}}},
      {"BitwiseAnd", {{2, 1}, {3}}, {{2, 3}}},
      {"ReduceMean", {{2, 3, 5}, {1}}, {{2, 5}}, {{"keepdims", {0}}}, {{1, {-2}}}},
      {"ReduceMean", {{2, 3}}, {{2, 3}}, {{"noop_with_empty_axes", {1}}}},
      {"Split", {{2, 5}}, {{2, 2}, {2, 2}, {2, 1}}, {{"axis", {1}}}},
      {"Split", {{5}, {2}}, {{1}, {4}}, {}, {{1, {1, 4}}}},
      {"Pad", {{2, 5}, {2}, {}, {1}}, {{2, 9}}, {}, {{1, {3, 1}}, {3, {-1}}}},
      {"AveragePool",
       {{1, 4, 17, 21}},
       {{1, 4, 7, 9}},
       {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"dilations", {2, 2}}}},
      // The last window would begin behind the image.
      {"AveragePool",
       {{1, 1, 4, 4}},
       {{1, 1, 2, 2}},
       {{"kernel_shape", {1, 1}}, {"strides", {3, 3}}, {"ceil_mode", {1}}}},
      {"AveragePool",
       {{1, 1, 3, 3}},
       {{1, 1, 2, 2}},
       {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}, {"ceil_mode", {1}}}},
      {"ConvInteger", {{1, 3, 8, 8}, {5, 3, 3, 3}}, {{1, 5, 6, 6}}},
      {"QLinearConv", {{1, 3, 8, 8}, {}, {}, {5, 3, 3, 3}, {}, {}, {}, {}}, {{1, 5, 8, 8}}, {{"pads", {1, 1, 1, 1}}}},
      {"QLinearMatMul", {{2, 3}, {}, {}, {3, 4}, {}, {}, {}, {}}, {{2, 4}}},
      {"MatMulInteger", {{7, 2, 3}, {3}}, {{7, 2}}},
      {"QuantizeLinear", {{2, 3}, {}}, {{2, 3}}},
      {"DynamicQuantizeLinear", {{2, 3}}, {{2, 3}, {}, {}}},
      {"Resize", {{1, 3, 4, 5}, {0}, {0}, {2}}, {{1, 3, 8, 10}}, {{"axes", {2, 3}}}, {{3, {8, 10}}}},
      {"CenterCropPad", {{9, 9}, {1}}, {{9, 4}}, {{"axes", {1}}}, {{1, {4}}}},
      {"Col2Im", {{1, 12, 30}, {2}, {2}}, {{1, 3, 5, 6}}, {}, {{1, {5, 6}}, {2, {2, 2}}}},
      {"GridSample", {{1, 3, 8, 8}, {1, 4, 5, 2}}, {{1, 3, 4, 5}}},
      {"AffineGrid", {{2, 2, 3}, {4}}, {{2, 7, 8, 2}}, {}, {{1, {2, 1, 7, 8}}}},
      {"DFT", {{1, 32, 1}, {}, {}}, {{1, 17, 2}}, {{"onesided", {1}}}, {{1, {32}}, {2, {1}}}},
      {"TensorScatter", {{1, 2, 20, 16}, {1, 2, 6, 16}}, {{1, 2, 20, 16}}},
      {"GreaterOrEqual", {{2, 1}, {3}}, {{2, 3}}},
      {"MaxPool", {{1, 1, 2, 2}}, {{1, 1, 1, 1}}, {{"kernel_shape", {1, 1}}, {"strides", {2, 2}}, {"ceil_mode", {1}}}},
      {"LinearAttention",
       {{2, 10, 32}, {2, 10, 16}, {2, 10, 8}},
       {{2, 10, 16}, {2, 2, 8, 4}},
       {{"q_num_heads", {4}}, {"kv_num_heads", {2}}}},
      {"CausalConvWithState", {{2, 4, 8}, {4, 1, 3}}, {{2, 4, 8}, {2, 4, 2}}},
      {"ai.onnx.preview::FlexAttention", {{2, 4, 8, 16}, {2, 2, 9, 16}, {2, 2, 9, 32}}, {{2, 4, 8, 32}}},
      {"ai.onnx.ml::ArrayFeatureExtractor", {{3, 4}, {2}}, {{3, 2}}},
      {"ai.onnx.ml::TreeEnsemble", {{3, 4}}, {{3, 2}}, {{"n_targets", {2}}}},
      {"ai.onnx.ml::LabelEncoder", {{5}}, {{5}}},
      // Two heads of keys for four of queries; values are larger; five positions are past.
      {"Attention",
       {{1, 4, 6, 16}, {1, 2, 6, 16}, {1, 2, 6, 24}, {}, {1, 2, 5, 16}, {1, 2, 5, 24}},
       {{1, 4, 6, 24}, {1, 2, 11, 16}, {1, 2, 11, 24}, {1, 4, 6, 11}}},
      {"com.microsoft::Attention", {{2, 10, 64}, {64, 192}}, {{2, 10, 64}, {2, 2, 4, 10, 16}}, {{"num_heads", {4}}}},
      {"com.microsoft::QAttention", {{2, 10, 64}, {64, 192}, {192}, {}}, {{2, 10, 64}}, {{"num_heads", {4}}}},
      {"com.microsoft::MultiHeadAttention", {{2, 10, 64}, {2, 7, 64}, {2, 7, 32}}, {{2, 10, 32}}, {{"num_heads", {4}}}},
      {"com.microsoft::MultiHeadAttention", {{2, 10, 4, 3, 16}}, {{2, 10, 64}}, {{"num_heads", {4}}}},
      {"com.microsoft::GroupQueryAttention",
       {{1, 7, 128}, {1, 7, 32}, {1, 7, 32}, {1, 2, 9, 16}},
       {{1, 7, 128}, {1, 2, 16, 16}},
       {{"num_heads", {8}}, {"kv_num_heads", {2}}}},
      {"com.microsoft::MatMulNBits", {{1, 7, 64}, {128, 2, 16}}, {{1, 7, 128}}, {{"K", {64}}, {"N", {128}}}},
      {"com.microsoft::FusedMatMul", {{2, 3, 5}, {2, 7, 5}}, {{2, 3, 7}}, {{"transB", {1}}}},
      {"com.microsoft::FusedGemm", {{5, 3}, {5, 7}}, {{3, 7}}, {{"transA", {1}}}},
      {"com.microsoft::QGemm", {{3, 5}, {}, {}, {7, 5}}, {{3, 7}}, {{"transB", {1}}}},
      {"com.microsoft::QLinearAdd", {{2, 1}, {}, {}, {3}}, {{2, 3}}},
      {"com.microsoft::QLinearConcat", {{}, {}, {2, 3}, {}, {}, {2, 4}, {}, {}}, {{2, 7}}, {{"axis", {1}}}},
      {"com.microsoft::QLinearGlobalAveragePool", {{1, 8, 7, 7}}, {{1, 8, 1, 1}}},
      {"com.microsoft::SkipLayerNormalization",
       {{1, 7, 64}, {1, 7, 64}},
       {{1, 7, 64}, {1, 7, 1}, {1, 7, 1}, {1, 7, 64}}},
      {"com.microsoft::EmbedLayerNormalization", {{1, 7}, {1, 7}, {100, 64}}, {{1, 7, 64}, {1}}},
  };
  for (const RuleCase& row : rows) {
    SCOPED_TRACE(row.op);
    const PreparedRule prepared(row);
    const auto types = OnnxTypesByRule(prepared.node, prepared.operands);
    ASSERT_TRUE(types.has_value());
    for (std::size_t i = 0; i < row.outputs.size(); ++i) EXPECT_EQ(types->at(i).dims, row.outputs[i]);
  }
}

TEST(OnnxRulesTest, WhatDoesNotFitHasAReason) {
  EXPECT_THAT(WhyNoShape({"Attention", {{1, 4}, {1, 4}, {1, 4}}, {}}), HasSubstr("3 or 4 dimensions"));
  EXPECT_THAT(WhyNoShape({"Attention", {{1, 6, 16}, {1, 6, 16}, {1, 6, 16}}, {}, {{"q_num_heads", {3}}}}),
              HasSubstr("heads do not fit"));
  EXPECT_THAT(WhyNoShape({"LayerNormalization", {{2, 3}}, {}, {{"axis", {2}}}}), HasSubstr("axis is not an axis of"));
  EXPECT_THAT(WhyNoShape({"MatMulInteger", {{2, 3}, {4, 2}}, {}}), HasSubstr("factors do not fit"));
  EXPECT_THAT(WhyNoShape({"Split", {{5}, {2}}, {{1}, {4}}}), HasSubstr("sizes are not constant"));
  EXPECT_THAT(WhyNoShape({"AveragePool", {{1, 1, 4, 4}}, {}, {{"kernel_shape", {2, 2}}, {"strides", {0, 1}}}}),
              HasSubstr("attribute strides is 0"));
  EXPECT_THAT(WhyNoShape({"Einsum", {{2, 3}}, {}}), HasSubstr("equation does not fit"));
  EXPECT_THAT(WhyNoShape({"com.microsoft::MatMulNBits", {{1, 7, 64}, {1}}, {}}), HasSubstr("attributes K and N"));
  const PreparedRule unknown({"Unheard", {{1}}, {}});
  EXPECT_FALSE(OnnxTypesByRule(unknown.node, unknown.operands).has_value());
}

TEST(OnnxRulesTest, RulesOfNewerOpsetsComeBeforeThoseOfTheLibrary) {
  datasets::OnnxNode node;
  node.op = "ReduceMean";
  node.opset = 13;
  EXPECT_FALSE(PrefersOnnxRule(node));
  node.opset = 18;
  EXPECT_TRUE(PrefersOnnxRule(node));
  node.op = "MatMulInteger";
  EXPECT_FALSE(PrefersOnnxRule(node));
}

TEST(OnnxRulesTest, AttentionHasTwoProducts) {
  const PreparedRule plain({"Attention", {{1, 4, 6, 16}, {1, 2, 7, 16}, {1, 2, 7, 24}}, {}});
  const auto sizes = OnnxAttentionOf(plain.node, plain.operands);
  ASSERT_TRUE(sizes.has_value());
  EXPECT_EQ(sizes->heads, 4);
  EXPECT_EQ(sizes->queries, 6);
  EXPECT_EQ(sizes->keys, 7);
  EXPECT_EQ(sizes->value_size, 24);
  const PreparedRule other({"Gelu", {{1}}, {}});
  EXPECT_FALSE(OnnxAttentionOf(other.node, other.operands).has_value());
  const PreparedRule wrong({"Attention", {{1, 4}}, {}});
  EXPECT_FALSE(OnnxAttentionOf(wrong.node, wrong.operands).has_value());
}

}  // namespace
}  // namespace emplace::testing
