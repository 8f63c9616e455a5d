#include "profiler/torch/op_runner.h"

#include <gmock/gmock.h>

#include "sim/ops/op_catalog.h"
#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpRunnerTest, EveryKindOfTheCatalogueThatComputesHasAnImplementation) {
  std::vector<std::string> expected;
  for (const OpKind& kind : AllOpKinds()) {
    if (kind.name != "input" && kind.name != "variable") expected.emplace_back(kind.name);
  }
  EXPECT_EQ(profiler::TorchHardware().Kinds(), expected);
}

TEST(OpRunnerTest, AKindWithoutAnImplementationIsNamed) {
  EXPECT_EQ(RefusalOf("fft", "", {}, {Spec({2})}), "the_op: there is no implementation of kind fft");
  EXPECT_EQ(RefusalOf("variable", "", {}, {Spec({2})}), "the_op: there is no implementation of kind variable");
}

// The size of an op that moves no bytes is that of its input.
TEST(OpRunnerTest, OnlyOpsThatMoveNoBytesAreViews) {
  struct Case {
    const char* kind;
    const char* attrs;
    Dims out;
    bool view;
  };
  const Case cases[] = {
      {"reshape", "", {6}, true},
      {"reshape_grad", "", {6}, true},
      {"stop_gradient", "", {2, 3}, true},
      {"transpose", "{\"order\":[0,1]}", {2, 3}, false},
      {"add_n", "", {2, 3}, false},
      {"slice", "", {2, 3}, false},
      {"concat", "", {2, 3}, false},
      {"broadcast_grad", "", {2, 3}, false},
      {"reduce_sum", "{\"axes\":[]}", {2, 3}, false},
  };
  const Contents one = Of({2, 3}, Numbers(6, 1));
  for (const Case& row : cases) {
    const auto op = TestDevice().Prepare(RecipeOf(row.kind, row.attrs, {one}, {Spec(row.out)}));
    const std::vector<profiler::TensorHandle> input = {TestDevice().From(one.spec, one.values)};
    std::vector<profiler::TensorHandle> output;
    op->Run(input, &output);
    // An update of the input changes the view.
    const auto update = TestDevice().Prepare(RecipeOf("assign_sub", "", {one, one}, {}));
    std::vector<profiler::TensorHandle> nothing;
    const std::vector<profiler::TensorHandle> both = {input[0], TestDevice().From(one.spec, one.values)};
    update->Run(both, &nothing);
    EXPECT_EQ(TestDevice().Values(output[0]), Numbers(6, row.view ? 0 : 1)) << row.kind;
  }
}

TEST(OpRunnerTest, ATensorWithoutADtypeIsRefused) {
  profiler::OpRecipe recipe = RecipeOf("relu", "", {Varied({2}, 1)}, {Spec({2})});
  recipe.inputs[0].dtype = DType::kNone;
  EXPECT_THROW(TestDevice().Prepare(recipe), InputError);
}

TEST(OpRunnerTest, AnOutputOfAnotherTypeThanTheRecipesIsRefused) {
  EXPECT_THAT(RefusalOf("relu", "", {Varied({2}, 1)}, {Spec({2}, DType::kF32)}),
              HasSubstr("its output 0 is Double [2], where the graph has Float [2]"));
}

}  // namespace
}  // namespace emplace::testing
