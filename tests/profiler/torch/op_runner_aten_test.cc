#include <gmock/gmock.h>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Contents kA = Of({2, 2}, {1, 2, 3, 4});
const Contents kB = Of({2, 2}, {10, 20, 30, 40});

TEST(OpRunnerAtenTest, ScalarsAndDefaultsFollowTheSchema) {
  // alpha is the third argument, 1 by default.
  EXPECT_THAT(RunOp("aten::add.Tensor", R"({"args":["%0","%1"]})", {kA, kB}, {kA.spec})[0],
              ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(RunOp("aten::add.Tensor", R"({"args":["%1","%0",0.5]})", {kA, kB}, {kA.spec})[0],
              ElementsAre(10.5, 21, 31.5, 42));
  // beta * bias + alpha * a a, with a a = [7 10; 15 22].
  EXPECT_THAT(RunOp("aten::addmm", R"({"args":["%1","%0","%0",2,1]})", {kA, Of({2}, {100, 200})}, {kA.spec})[0],
              ElementsAre(207, 410, 215, 422));
  EXPECT_THAT(RunOp("aten::sum.dim_IntList", R"({"args":["%0",[0],true]})", {kA}, {Spec({1, 2})})[0],
              ElementsAre(4, 6));
  EXPECT_THAT(RunOp("aten::gelu", R"({"args":["%0",{"str":"tanh"}]})", {kA}, {kA.spec}),
              RunOp("gelu", "", {kA}, {kA.spec}));
}

TEST(OpRunnerAtenTest, ArgumentsCanBeGivenByName) {
  // alpha is the third argument; dtype the first of factories that may be given while those in front are not.
  EXPECT_THAT(RunOp("aten::add.Tensor", R"({"args":["%0","%1"],"kwargs":{"alpha":2}})", {kA, kB}, {kA.spec})[0],
              ElementsAre(21, 42, 63, 84));
  EXPECT_THAT(RunOp("aten::arange", R"({"args":[2],"kwargs":{"dtype":{"dtype":"f32"},"device":{"device":true}}})", {},
                    {Spec({2}, DType::kF32)})[0],
              ElementsAre(0, 1));
  EXPECT_THAT(RefusalOf("aten::relu", R"({"args":["%0"],"kwargs":[]})", {kA}, {kA.spec}),
              HasSubstr("attr kwargs is not an object"));
}

TEST(OpRunnerAtenTest, CapturedOpsReadViewsAndNumbers) {
  // The transposed a, and its second row; a number does not widen the result's type.
  EXPECT_THAT(
      RunOp("aten::add.Tensor", R"({"args":["%0","%1"],"input_views":[[[2,2],[1,2],0],null]})", {kA, kB}, {kA.spec})[0],
      ElementsAre(11, 23, 32, 44));
  EXPECT_THAT(RunOp("aten::relu", R"({"args":["%0"],"input_views":[[[2],[1],2]]})", {kA}, {Spec({2})})[0],
              ElementsAre(3, 4));
  EXPECT_THAT(RunOp("aten::add.Tensor", R"({"args":["%0",0.5]})", {kA}, {kA.spec})[0], ElementsAre(1.5, 2.5, 3.5, 4.5));
  EXPECT_THAT(RefusalOf("aten::relu", R"({"args":["%0"],"input_views":[3]})", {kA}, {kA.spec}),
              HasSubstr("attr input_views has another form"));
}

// On a CPU, PyTorch keeps factors of 0 or 1 / (1 - p) instead of a mask.
TEST(OpRunnerAtenTest, DropoutMayKeepFactors) {
  const profiler::TensorSpec spec = Spec({64});
  const std::vector<Numbers> made =
      RunOp("aten::native_dropout", R"({"args":["%0",0.75,true]})", {Of({64}, Numbers(64, 2.0))}, {spec, spec});
  ASSERT_EQ(made.size(), 2U);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(made[1][i] == 0 || made[1][i] == 4) << made[1][i];
    EXPECT_EQ(made[0][i], 2 * made[1][i]);
  }
  EXPECT_THAT(
      RunOp("aten::native_dropout_backward", R"({"args":["%0","%1",4]})", {kA, Of({2, 2}, {0, 4, 4, 0})}, {kA.spec})[0],
      ElementsAre(0, 8, 12, 0));
  EXPECT_EQ(
      RunOp("aten::native_dropout", R"({"args":["%0",0.75,true]})", {kA}, {kA.spec, Spec({2, 2}, DType::kBool)}).size(),
      2U);
  EXPECT_THAT(RefusalOf("aten::native_dropout", R"({"args":["%0"]})", {kA}, {kA.spec, kA.spec}),
              HasSubstr("has no probability in attr args"));
}

// The state is updated too, and the gradient may have another shape of as many numbers.
TEST(OpRunnerAtenTest, CapturedUpdatesAreThoseOfTorchOptim) {
  struct Case {
    std::string kind;
    std::vector<double> state;  // one number of each tensor
    std::vector<double> updated;
    double step;  // of the parameter, 2, with gradient 0.5
  };
  const double root = std::sqrt((0.999 * 0.04 + 0.001 * 0.25) / (1 - std::pow(0.999, 3)));
  const double adam = 1e-6 / (1 - std::pow(0.9, 3)) * (0.9 * 0.3 + 0.1 * 0.5) / (root + 1e-8);
  for (const Case& each : {Case{"sgd", {}, {}, 0.5e-6}, Case{"sgd", {0.3}, {0.9 * 0.3 + 0.5}, 1e-6 * (0.9 * 0.3 + 0.5)},
                           Case{"adam", {0.3, 0.04, 2}, {0.9 * 0.3 + 0.1 * 0.5, 0.999 * 0.04 + 0.001 * 0.25, 3}, adam},
                           Case{"adamw",
                                {0.3, 0.04, 2},
                                {0.9 * 0.3 + 0.1 * 0.5, 0.999 * 0.04 + 0.001 * 0.25, 3},
                                adam + 2 * 1e-6 * 1e-2}}) {
    std::vector<Contents> inputs = {Of({1, 2}, {2, 2}), Of({2}, {0.5, 0.5})};
    for (const double number : each.state)
      inputs.push_back(number == 2 ? Of({}, {number}) : Of({1, 2}, {number, number}));
    profiler::HardwareDevice& device = TestDevice();
    profiler::OpRecipe recipe{.name = "update",
                              .kind = "aten::_fused_" + each.kind + "_",
                              .attrs = R"({"args":[]})",
                              .inputs = {},
                              .outputs = {}};
    std::vector<profiler::TensorHandle> handles;
    for (const Contents& input : inputs) {
      recipe.inputs.push_back(input.spec);
      handles.push_back(device.From(input.spec, input.values));
    }
    std::vector<profiler::TensorHandle> outputs;
    device.Prepare(recipe)->Run(handles, &outputs);
    EXPECT_TRUE(outputs.empty());
    EXPECT_NEAR(2 - device.Values(handles[0])[1], each.step, 1e-12) << each.kind;
    for (std::size_t i = 0; i < each.updated.size(); ++i) {
      EXPECT_NEAR(device.Values(handles[2 + i]).back(), each.updated[i], 1e-12) << each.kind << " " << i;
    }
  }
  EXPECT_THAT(RefusalOf("aten::_fused_adam_", R"({"args":[["%0"],["%1"]]})", {kA, kB}, {}),
              HasSubstr("argument exp_avgs is missing"));
}

TEST(OpRunnerAtenTest, ListsHoldTensorsAndNumbers) {
  EXPECT_THAT(RunOp("aten::cat", R"({"args":[["%0","%1"],1]})", {kA, kB}, {Spec({2, 4})})[0],
              ElementsAre(1, 2, 10, 20, 3, 4, 30, 40));
  // Rows 1, 0 of the second dimension; None selects all of the first.
  EXPECT_THAT(
      RunOp("aten::index.Tensor", R"({"args":["%0",[null,"%1"]]})", {kA, Of({2}, {1, 0}, DType::kI64)}, {kA.spec})[0],
      ElementsAre(2, 1, 4, 3));
  // Filter of ones without and with a bias: 1 + 2 + 3 + 4 = 10.
  const Contents image = Of({1, 1, 2, 2}, kA.values);
  const Contents filter = Of({1, 1, 2, 2}, {1, 1, 1, 1});
  const std::string rest = R"([1,1],[0,0],[1,1],false,[0,0],1]})";
  const profiler::TensorSpec one = Spec({1, 1, 1, 1});
  EXPECT_THAT(RunOp("aten::convolution", R"({"args":["%0","%1",null,)" + rest, {image, filter}, {one})[0],
              ElementsAre(10));
  EXPECT_THAT(RunOp("aten::convolution", R"({"args":["%0","%1","%2",)" + rest, {image, filter, Of({1}, {5})}, {one})[0],
              ElementsAre(15));
}

TEST(OpRunnerAtenTest, DtypesDevicesAndInfinitiesHaveTheirWords) {
  EXPECT_THAT(
      RunOp("aten::_to_copy", R"({"args":["%0",{"dtype":"i32"}]})", {Of({2}, {1.5, 2})}, {Spec({2}, DType::kI32)})[0],
      ElementsAre(1, 2));
  EXPECT_THAT(RunOp("aten::full", R"({"args":[[2],7,{"dtype":"f32"},{"layout":0},{"device":true},false]})", {},
                    {Spec({2}, DType::kF32)})[0],
              ElementsAre(7, 7));
  EXPECT_THAT(RunOp("aten::clone", R"({"args":["%0",{"memory_format":0}]})", {kA}, {kA.spec})[0],
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(RunOp("aten::clamp", R"({"args":["%0",{"float":"-inf"},2.5]})", {kA}, {kA.spec})[0],
              ElementsAre(1, 2, 2.5, 2.5));
}

TEST(OpRunnerAtenTest, OutputsAreTheTensorsReturned) {
  // The largest of each row of two, and its position in the plane.
  const std::string pool = R"({"args":["%0",[1,2],[1,2],[0,0],[1,1],false]})";
  const Contents plane = Of({1, 1, 2, 2}, {1, 2, 4, 3});
  const profiler::TensorSpec largest = Spec({1, 1, 2, 1});
  const profiler::TensorSpec places = Spec({1, 1, 2, 1}, DType::kI64);
  EXPECT_THAT(RunOp("aten::max_pool2d_with_indices", pool, {plane}, {largest, places}),
              ElementsAre(ElementsAre(2, 4), ElementsAre(1, 2)));
  EXPECT_THAT(RunOp("aten::max_pool2d_with_indices", pool, {plane}, {largest}), ElementsAre(ElementsAre(2, 4)));
  // Outputs in a list too.
  EXPECT_THAT(RunOp("aten::split.Tensor", R"({"args":["%0",1,1]})", {kA}, {Spec({2, 1}), Spec({2, 1})}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(2, 4)));
  // Gradients that are not requested are omitted: of image, filter and bias only the last two, 1 * (1..4) and 1.
  EXPECT_THAT(RunOp("aten::convolution_backward",
                    R"({"args":["%0","%1","%2",[1],[1,1],[0,0],[1,1],false,[0,0],1,[false,true,true]]})",
                    {Of({1, 1, 1, 1}, {1}), Of({1, 1, 2, 2}, kA.values), Of({1, 1, 2, 2}, {1, 1, 1, 1})},
                    {Spec({1, 1, 2, 2}), Spec({1})}),
              ElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(1)));
}

TEST(OpRunnerAtenTest, WhatIsHeldToTheEndOfAStepCallsNothing) {
  EXPECT_TRUE(RunOp("aten::detach", "", {kA}, {}).empty());
  EXPECT_THAT(RunOp("aten::detach", R"({"args":["%0"]})", {kA}, {kA.spec})[0], ElementsAre(1, 2, 3, 4));
}

TEST(OpRunnerAtenTest, WhatTheOperatorDoesNotTakeIsRefusedByName) {
  const auto refusal = [](const std::string& kind, const std::string& args) {
    return RefusalOf(kind, args.empty() ? "" : "{\"args\":" + args + "}", {kA, kB}, {kA.spec});
  };
  EXPECT_EQ(refusal("aten::no_such_op", "[]"),
            "the_op: as an op of kind aten::no_such_op, LibTorch has no such operator");
  EXPECT_THAT(refusal("aten::add.NoSuch", "[]"), HasSubstr("aten::add.NoSuch, LibTorch has no such operator"));
  EXPECT_THAT(refusal("aten::relu", ""), HasSubstr("has no list of arguments in attr args"));
  EXPECT_THAT(refusal("aten::relu", "[]"), HasSubstr("argument self is missing"));
  EXPECT_THAT(refusal("aten::relu", R"(["%0",1])"), HasSubstr("has 2 arguments (at most 1 expected)"));
  const std::string add = "aten::add.Tensor";
  EXPECT_THAT(refusal(add, R"(["%0","%2"])"), HasSubstr(R"(argument other cannot be "%2" (Tensor expected))"));
  EXPECT_THAT(refusal(add, R"(["%0","%1",null])"), HasSubstr("argument alpha cannot be null"));
  EXPECT_THAT(refusal(add, R"(["%0","%1","2"])"), HasSubstr("argument alpha cannot be"));
  EXPECT_THAT(refusal("aten::cat", R"(["%0"])"), HasSubstr("argument tensors cannot be \"%0\" (Tensor[] expected)"));
  EXPECT_THAT(refusal("aten::cat", R"([["%0",1]])"), HasSubstr("argument tensors cannot be 1"));
  EXPECT_THAT(refusal("aten::cat", R"([["%0"],0.5])"), HasSubstr("argument dim cannot be 0.5 (int expected)"));
  EXPECT_THAT(refusal("aten::gelu", R"(["%0","tanh"])"), HasSubstr("argument approximate"));
  EXPECT_THAT(refusal("aten::_to_copy", R"(["%0",{"dtype":"f31"}])"), HasSubstr("argument dtype"));
  EXPECT_THAT(refusal("aten::sum.dim_IntList", R"(["%0",[true]])"), HasSubstr("argument dim"));
  // Detected only when the op runs: tensors that ATen refuses, and outputs that differ from the recipe's.
  EXPECT_THAT(refusal(add, R"(["%0",null])"), HasSubstr("the_op: as an op of kind aten::add.Tensor"));
  EXPECT_THAT(refusal("aten::dot", R"(["%0","%1"])"), HasSubstr("the_op: as an op of kind aten::dot, 1D tensors"));
  EXPECT_THAT(refusal("aten::sum", R"(["%0"])"), HasSubstr("output 0 is Double [], where the graph has Double [2,2]"));
}

}  // namespace
}  // namespace emplace::testing
