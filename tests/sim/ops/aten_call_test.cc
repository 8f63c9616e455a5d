#include "sim/ops/aten_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;

AtenCall CallOf(const OpCase& op_case) {
  const Graph graph = GraphOf(op_case);
  return ReadAtenCall(graph, *graph.FindOp("op"));
}

TEST(AtenNameTest, NamespacesOverloadsAndTheMarkOfInPlaceGo) {
  bool in_place = false;
  EXPECT_EQ(AtenNameOf("aten::add.Tensor", &in_place), "aten::add");
  EXPECT_FALSE(in_place);
  EXPECT_EQ(AtenNameOf("aten::add_", &in_place), "aten::add");
  EXPECT_TRUE(in_place);
  EXPECT_EQ(AtenNameOf("torch.ops.aten.mm.default", nullptr), "aten::mm");
  EXPECT_EQ(AtenNameOf("aten::__and__", &in_place), "aten::__and__");
  EXPECT_FALSE(in_place);
  EXPECT_EQ(AtenNameOf("autograd::engine::evaluate_function: MmBackward0", nullptr), "MmBackward0");
}

TEST(ReadAtenCallTest, ScriptsNameTheirInputs) {
  const AtenCall call =
      CallOf({"aten::cat", {F32({2}), F32({3})}, {F32({5})}, R"({"args":[["%0","%1"],0,true,null]})"});
  ASSERT_EQ(call.arguments.size(), 4U);
  EXPECT_TRUE(call.arguments[0].is_list);
  EXPECT_EQ(call.arguments[0].tensors.size(), 2U);
  EXPECT_THAT(*call.integers(1), ElementsAre(0));
  EXPECT_EQ(call.flag(2), true);
  EXPECT_EQ(call.tensor(0), nullptr);
  EXPECT_EQ(call.integers(9), std::nullopt);
  EXPECT_TRUE(call.has_outputs);
}

TEST(ReadAtenCallTest, TracesGiveDimensionsTypesAndValues) {
  const AtenCall call = CallOf({"kernel",
                                {},
                                {},
                                R"({"op":"aten::cat_","op_kernels":3,"input_dims":[[[2],[3]],[],[4,2]],)"
                                R"("input_types":["TensorList","ScalarList","c10::Float8_e4m3fn"],)"
                                R"("input_values":["","[1, 2]",""],"list_type":"c10::BFloat16"})"});
  EXPECT_EQ(call.name, "aten::cat");
  EXPECT_TRUE(call.in_place);
  EXPECT_EQ(call.kernels, 3);
  ASSERT_EQ(call.arguments.size(), 3U);
  EXPECT_EQ(call.arguments[0].tensors[1].dtype, DType::kBf16);
  EXPECT_EQ(call.arguments[0].tensors[1].bytes(), 6);
  EXPECT_THAT(*call.integers(1), ElementsAre(1, 2));
  EXPECT_EQ(call.tensor(2)->dtype, DType::kNone);
  EXPECT_EQ(call.tensor(2)->bytes(), 8);
  EXPECT_FALSE(call.has_outputs);
}

TEST(ReadAtenCallTest, WhatIsNoCallHasNoArguments) {
  for (const char* const attrs : {"", "{}", R"({"op":1,"input_dims":2,"input_types":{}})", R"({"op":"aten::mm"})"}) {
    const AtenCall call = CallOf({"kernel", {}, {}, attrs});
    EXPECT_TRUE(call.arguments.empty()) << attrs;
    EXPECT_FALSE(call.has_shapes) << attrs;
  }
}

}  // namespace
}  // namespace emplace::testing
