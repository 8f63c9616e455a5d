#include "profiler/recipe.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;

OpSpec Typed(std::string name, std::string kind, std::vector<std::string> inputs, DType dtype,
             std::vector<std::int64_t> shape) {
  OpSpec op;
  op.name = std::move(name);
  op.kind = std::move(kind);
  op.inputs = std::move(inputs);
  op.outputs = {{.size = std::nullopt, .dtype = dtype, .shape = std::move(shape)}};
  return op;
}

TEST(RecipeTest, HoldsKindAttrsAndTensorsOfTheOp) {
  OpSpec relu = Typed("y", "relu", {"x"}, DType::kF32, {4, 2});
  relu.attrs = R"({"a":1})";
  const Graph graph = Build({Typed("x", "input", {}, DType::kF32, {4, 2}), relu});
  const profiler::OpRecipe recipe = profiler::RecipesOf(graph)[1];
  EXPECT_EQ(recipe.name, "y");
  EXPECT_EQ(recipe.kind, "relu");
  EXPECT_EQ(recipe.attrs, R"({"a":1})");
  ASSERT_EQ(recipe.inputs.size(), 1U);
  const profiler::TensorSpec expected{.dtype = DType::kF32, .shape = {4, 2}, .size = {32}, .index_bound = 1};
  EXPECT_EQ(recipe.inputs[0], expected);
  EXPECT_EQ(recipe.outputs[0], expected);
}

// Row numbers reach, through a reshape, a table of 50 rows and one of 30, so they are below 30.
TEST(RecipeTest, RowNumbersAreBelowTheSmallestTableTheyReach) {
  const Graph graph =
      Build({Typed("rows", "input", {}, DType::kI32, {2, 3}), Typed("flat", "reshape", {"rows"}, DType::kI32, {6}),
             Typed("big", "variable", {}, DType::kF32, {50, 8}), Typed("small", "variable", {}, DType::kF32, {30, 8}),
             Typed("a", "gather", {"big", "flat"}, DType::kF32, {6, 8}),
             Typed("b", "gather", {"small", "flat"}, DType::kF32, {6, 8})});
  const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
  EXPECT_EQ(recipes[Index(*graph.FindOp("rows"))].outputs[0].index_bound, 30);
  EXPECT_EQ(recipes[Index(*graph.FindOp("a"))].inputs[1].index_bound, 30);
}

TEST(RecipeTest, LabelsAreBelowTheNumberOfClasses) {
  OpSpec loss = Typed("loss", "softmax_cross_entropy", {"logits", "labels"}, DType::kF32, {4});
  loss.outputs.push_back({.size = std::nullopt, .dtype = DType::kF32, .shape = {4, 10}});
  const Graph graph =
      Build({Typed("logits", "input", {}, DType::kF32, {4, 10}), Typed("labels", "input", {}, DType::kI32, {4}), loss});
  EXPECT_EQ(profiler::RecipesOf(graph)[Index(*graph.FindOp("labels"))].outputs[0].index_bound, 10);
}

// A plane of 6 x 5 was pooled, so positions are below 30. Inputs of other ATen operators are 0.
TEST(RecipeTest, WhatOperatorsOfATenReadIsBelowWhatTheyCanTake) {
  OpSpec gradient = Typed("dx", "aten::max_pool2d_with_indices_backward", {"dy", "x", "at"}, DType::kF32, {2, 3, 6, 5});
  const Graph graph = Build(
      {Typed("dy", "input", {}, DType::kF32, {2, 3, 3, 2}), Typed("x", "input", {}, DType::kF32, {2, 3, 6, 5}),
       Typed("at", "input", {}, DType::kI64, {2, 3, 3, 2}), gradient, Typed("which", "input", {}, DType::kI64, {4}),
       Typed("picked", "aten::index_select", {"x", "which"}, DType::kF32, {2, 3, 4, 5})});
  const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
  EXPECT_EQ(recipes[Index(*graph.FindOp("at"))].outputs[0].index_bound, 30);
  EXPECT_EQ(recipes[Index(*graph.FindOp("which"))].outputs[0].index_bound, 1);
}

TEST(RecipeTest, AnOpWithATensorOfUnknownShapeIsNamed) {
  const Graph graph = Build({testing::MakeOp("a", 1, {}, {64}), testing::MakeOp("b", 1, {"a"}, {64})});
  EXPECT_EQ(ErrorOf([&] { profiler::RecipesOf(graph); }),
            "a: output 0 has no dtype and shape (what has only a size cannot be run)");
}

}  // namespace
}  // namespace emplace
