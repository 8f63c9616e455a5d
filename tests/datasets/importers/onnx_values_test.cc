#include "datasets/importers/onnx_values.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace emplace::testing {
namespace {

using datasets::OnnxContent;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ValueIntegers = std::vector<std::int64_t>;
using ValueNumbers = std::vector<double>;

OnnxContent ValueOf(ValueIntegers values, ValueIntegers dims) {
  return {.element = datasets::kOnnxInt64, .dims = std::move(dims), .integers = std::move(values), .numbers = {}};
}
OnnxContent ValueList(ValueIntegers values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return ValueOf(std::move(values), {size});
}
OnnxContent ScalarOf(std::int64_t value) { return ValueOf({value}, {}); }
OnnxContent TruthsOf(ValueIntegers values) {
  OnnxContent content = ValueList(std::move(values));
  content.element = datasets::kOnnxBool;
  return content;
}
OnnxContent NumberList(ValueNumbers values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {.element = datasets::kOnnxFloat, .dims = {size}, .integers = {}, .numbers = std::move(values)};
}

// An operator on values that are known; what it writes first, empty if that is not known.
struct OnnxEvaluation {
  std::string op;
  std::vector<OnnxContent> inputs;
  std::vector<std::pair<std::string, ValueIntegers>> attrs = {};
  std::vector<datasets::OnnxType> outputs = {{}};
};
std::vector<std::optional<OnnxContent>> EvaluatedAll(const OnnxEvaluation& row) {
  datasets::OnnxNode node;
  node.op = row.op;
  datasets::OnnxOperands operands;
  std::vector<datasets::OnnxType> types;
  for (const OnnxContent& input : row.inputs) {
    node.inputs.push_back("in");
    types.push_back({.is_tensor = true, .element = input.element, .dims = input.dims});
  }
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    operands.types.push_back(&types[i]);
    operands.contents.push_back(&row.inputs[i]);
  }
  for (const auto& [name, values] : row.attrs) {
    datasets::OnnxAttr attr;
    attr.name = name;
    attr.integers = values;
    node.attrs.push_back(attr);
  }
  node.outputs.assign(row.outputs.size(), "out");
  return datasets::EvaluateOnnx(node, operands, row.outputs);
}
OnnxContent EvaluatedFirst(const OnnxEvaluation& row) {
  const auto all = EvaluatedAll(row);
  return all.empty() || !all[0] ? OnnxContent() : *all[0];
}

TEST(OnnxValuesTest, ShapesAreComputedWith) {
  struct Row {
    OnnxEvaluation evaluation;
    ValueIntegers values;
    ValueIntegers dims;
  };
  const OnnxContent square = ValueOf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Row rows[] = {
      {{"Shape", {square}}, {2, 3}, {2}},
      {{"Shape", {square}, {{"start", {-1}}}}, {3}, {1}},
      {{"Size", {square}}, {6}, {}},
      {{"Gather", {square, ValueList({-1, 0})}, {{"axis", {1}}}}, {3, 1, 6, 4}, {2, 2}},
      {{"Gather", {ValueList({7, 8, 9}), ScalarOf(1)}}, {8}, {}},
      {{"Concat", {square, ValueOf({7, 8}, {2, 1})}, {{"axis", {1}}}}, {1, 2, 3, 7, 4, 5, 6, 8}, {2, 4}},
      {{"Slice", {square, ValueList({-1}), ValueList({-100}), ValueList({1}), ValueList({-2})}}, {3, 1, 6, 4}, {2, 2}},
      {{"Slice", {ValueList({1, 2, 3, 4}), ValueList({1}), ValueList({std::numeric_limits<std::int64_t>::max()})}},
       {2, 3, 4},
       {3}},
      {{"Transpose", {square}}, {1, 4, 2, 5, 3, 6}, {3, 2}},
      {{"Expand", {ValueOf({1, 2}, {2, 1}), ValueList({2, 3})}}, {1, 1, 1, 2, 2, 2}, {2, 3}},
      {{"Tile", {ValueList({1, 2}), ValueList({2})}}, {1, 2, 1, 2}, {4}},
      {{"Range", {ScalarOf(2), ScalarOf(9), ScalarOf(3)}}, {2, 5, 8}, {3}},
      {{"Range", {ScalarOf(2), ScalarOf(0), ScalarOf(-1)}}, {2, 1}, {2}},
      {{"ReduceProd", {square, ValueList({1})}}, {6, 120}, {2, 1}},
      {{"ReduceMax", {square}, {{"keepdims", {0}}}}, {6}, {}},
      {{"GatherElements", {ValueList({5, 6, 7}), ValueList({0, -1})}}, {5, 7}, {2}},
      {{"ScatterND", {ValueList({5, 6, 7}), ValueOf({2}, {1, 1}), ValueList({9})}}, {5, 6, 9}, {3}},
      {{"TopK", {ValueList({2, 3, 5}), ValueList({2})}, {}, {{}, {}}}, {5, 3}, {2}},
      {{"ArgMax", {ValueList({2, 5, 5})}}, {1}, {1}},
      {{"ArgMin", {ValueList({2, 5, 2})}, {{"select_last_index", {1}}, {"keepdims", {0}}}}, {2}, {}},
      {{"CumSum", {ValueList({1, 2, 3}), ScalarOf(0)}}, {1, 3, 6}, {3}},
      {{"NonZero", {ValueOf({0, 2, 3, 0}, {2, 2})}}, {0, 1, 1, 0}, {2, 2}},
      {{"Add", {ValueOf({1, 2}, {2, 1}), ValueList({10, 20})}}, {11, 21, 12, 22}, {2, 2}},
      {{"Div", {ValueList({-7, 7}), ScalarOf(2)}}, {-3, 3}, {2}},
      {{"Mod", {ValueList({-7, 7}), ScalarOf(3)}}, {2, 1}, {2}},
      {{"Mod", {ValueList({-7}), ScalarOf(3)}, {{"fmod", {1}}}}, {-1}, {1}},
      {{"Max", {ValueList({1, 5}), ScalarOf(3), ScalarOf(4)}}, {4, 5}, {2}},
      {{"Clip", {ValueList({-1, 5}), ScalarOf(0), ScalarOf(3)}}, {0, 3}, {2}},
      {{"Less", {ValueList({1, 5}), ScalarOf(3)}}, {1, 0}, {2}},
      {{"Greater", {NumberList({1.5, 0.5}), NumberList({1})}}, {1, 0}, {2}},
      {{"And", {TruthsOf({1, 1}), TruthsOf({1, 0})}}, {1, 0}, {2}},
      {{"Not", {TruthsOf({1, 0})}}, {0, 1}, {2}},
      {{"Where", {TruthsOf({1, 0}), ValueList({1, 2}), ScalarOf(9)}}, {1, 9}, {2}},
      {{"ConstantOfShape", {ValueList({2})}}, {}, {2}},
      {{"Cast", {NumberList({2.9, -2.9})}, {{"to", {datasets::kOnnxInt64}}}}, {2, -2}, {2}},
      {{"Cast", {ValueList({300, -1})}, {{"to", {3}}}}, {44, -1}, {2}},
      {{"Neg", {ScalarOf(3)}}, {-3}, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.evaluation.op);
    const OnnxContent result = EvaluatedFirst(row.evaluation);
    EXPECT_EQ(result.integers, row.values);
    EXPECT_EQ(result.dims, row.dims);
  }
  EXPECT_EQ(EvaluatedFirst({"ConstantOfShape", {ValueList({2})}}).numbers, ValueNumbers({0, 0}));
  EXPECT_EQ(EvaluatedFirst({"Equal", {ScalarOf(1), ScalarOf(1)}}).element, datasets::kOnnxBool);
}

TEST(OnnxValuesTest, ScalesAreComputedWith) {
  EXPECT_EQ(EvaluatedFirst({"Mul", {NumberList({3, 5}), NumberList({0.5})}}).numbers, ValueNumbers({1.5, 2.5}));
  EXPECT_EQ(EvaluatedFirst({"Floor", {NumberList({1.5, -1.5})}}).numbers, ValueNumbers({1, -2}));
  EXPECT_EQ(EvaluatedFirst({"Sqrt", {NumberList({16})}}).numbers, ValueNumbers({4}));
  EXPECT_EQ(EvaluatedFirst({"Pow", {NumberList({2}), NumberList({3})}}).numbers, ValueNumbers({8}));
  // f32 rounds.
  EXPECT_EQ(EvaluatedFirst({"Div", {NumberList({1}), NumberList({3})}}).numbers,
            ValueNumbers({static_cast<double>(1.0F / 3.0F)}));
  EXPECT_EQ(EvaluatedFirst({"Cast", {ValueList({7})}, {{"to", {datasets::kOnnxFloat}}}}).numbers, ValueNumbers({7}));
}

TEST(OnnxValuesTest, PartsOfASplitAreKnown) {
  const auto piece = [](std::int64_t size) {
    return datasets::OnnxType{.is_tensor = true, .element = datasets::kOnnxInt64, .dims = ValueIntegers{size}};
  };
  const auto parts = EvaluatedAll({"Split", {ValueList({1, 2, 3})}, {}, {piece(1), piece(2)}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_THAT(parts[0]->integers, ElementsAre(1));
  EXPECT_THAT(parts[1]->integers, ElementsAre(2, 3));
}

TEST(OnnxValuesTest, WhatDoesNotFitOrIsTooLargeIsNotKnown) {
  const OnnxEvaluation rows[] = {
      {"Relu", {ValueList({1})}},
      {"Div", {ScalarOf(1), ScalarOf(0)}},
      {"Div", {ScalarOf(std::numeric_limits<std::int64_t>::min()), ScalarOf(-1)}},
      {"Mod", {ScalarOf(1), ScalarOf(0)}},
      {"Add", {ValueList({1, 2}), ValueList({1, 2, 3})}},
      {"Add", {ValueList({1}), NumberList({1})}},
      {"Gather", {ValueList({1}), ScalarOf(1)}},
      {"Slice", {ValueList({1}), ValueList({0}), ValueList({1}), ValueList({0}), ValueList({0})}},
      {"Expand", {ValueList({1}), ValueList({5000})}},
      {"Tile", {ValueList({1}), ValueList({5000})}},
      {"Range", {ScalarOf(0), ScalarOf(5000), ScalarOf(1)}},
      {"ConstantOfShape", {ValueList({5000})}},
      {"ConstantOfShape", {ValueList({-1})}},
      {"Transpose", {ValueList({1})}, {{"perm", {3}}}},
      {"Concat", {ScalarOf(1), ScalarOf(2)}},
      {"Cast", {NumberList({1e30})}, {{"to", {datasets::kOnnxInt64}}}},
      {"Reshape", {ValueList({1}), ValueList({1})}},  // the shape is unknown
  };
  for (const OnnxEvaluation& row : rows) EXPECT_THAT(EvaluatedAll(row), IsEmpty()) << row.op;
  // In i64 sums wrap around.
  EXPECT_EQ(EvaluatedFirst({"Add", {ScalarOf(std::numeric_limits<std::int64_t>::max()), ScalarOf(1)}}).integers,
            ValueIntegers{std::numeric_limits<std::int64_t>::min()});
}

TEST(OnnxValuesTest, ShapesAreBroadcastFromTheLastDimensionOn) {
  EXPECT_EQ(datasets::BroadcastOnnx({2, 1, 3}, {4, 1}), ValueIntegers({2, 4, 3}));
  EXPECT_EQ(datasets::BroadcastOnnx({}, {4}), ValueIntegers({4}));
  EXPECT_EQ(datasets::BroadcastOnnx({0}, {1}), ValueIntegers({0}));
  EXPECT_EQ(datasets::BroadcastOnnx({2}, {3}), std::nullopt);
  EXPECT_EQ(datasets::OnnxElements({2, 3}), 6);
  EXPECT_EQ(datasets::OnnxElements({2, -1}), std::nullopt);
  EXPECT_EQ(datasets::OnnxElements({1LL << 40, 1LL << 40}), std::nullopt);
  EXPECT_TRUE(datasets::IsOnnxInteger(datasets::kOnnxBool));
  EXPECT_FALSE(datasets::IsOnnxInteger(datasets::kOnnxString));
  EXPECT_TRUE(datasets::IsOnnxNumber(datasets::kOnnxFloat));
  EXPECT_FALSE(datasets::IsOnnxNumber(datasets::kOnnxInt64));
}

}  // namespace
}  // namespace emplace::testing
