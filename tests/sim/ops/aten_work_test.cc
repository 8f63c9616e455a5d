#include "sim/ops/aten_work.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

OutputSpec Of(DType dtype, std::vector<std::int64_t> shape) {
  return {.size = std::nullopt, .dtype = dtype, .shape = std::move(shape)};
}

std::optional<AtenWork> AtenWorkOf(const OpCase& op_case, std::string* why = nullptr) {
  const Graph graph = GraphOf(op_case);
  return FindAtenWork(graph, *graph.FindOp("op"), why);
}

// A call as a trace gives it: no tensors in the graph, no results.
OpCase Traced(const std::string& op, const std::string& dims, const std::string& types,
              const std::string& values = "[]") {
  return {"kernel",
          {},
          {},
          R"({"op":")" + op + R"(","input_dims":)" + dims + R"(,"input_types":)" + types + R"(,"input_values":)" +
              values + "}"};
}

struct AtenCase {
  OpCase call;
  OpClass op_class;
};

// FLOP and bytes by hand.
TEST(AtenWorkTest, CountsFlopAndBytesByShape) {
  const std::vector<AtenCase> cases = {
      // 2*4*5*6; 4 * (4*5 + 5*6 + 4*6)
      {{"aten::mm", {F32({4, 5}), F32({5, 6})}, {F32({4, 6})}, "", 240, 296}, OpClass::kMatrixProduct},
      // The bias is read, too.
      {{"aten::addmm", {F32({6}), F32({4, 5}), F32({5, 6})}, {F32({4, 6})}, "", 240, 320}, OpClass::kMatrixProduct},
      {{"aten::bmm", {F32({3, 4, 5}), F32({3, 5, 6})}, {F32({3, 4, 6})}, "", 720, 888}, OpClass::kMatrixProduct},
      {{"aten::matmul", {F32({3, 4, 5}), F32({5})}, {F32({3, 4})}, "", 120, 308}, OpClass::kMatrixProduct},
      {{"aten::linear", {F32({2, 3, 5}), F32({6, 5})}, {F32({2, 3, 6})}, "", 360, 384}, OpClass::kMatrixProduct},
      // 32 outputs of 3*3*3 weights each.
      {{"aten::convolution",
        {F32({1, 3, 4, 4}), F32({2, 3, 3, 3})},
        {F32({1, 2, 4, 4})},
        "",
        2 * 32 * 27.0,
        4 * (48 + 54 + 32)},
       OpClass::kConvolution},
      {{"aten::relu_", {F32({10})}, {F32({10})}, "", 10, 80}, OpClass::kElementwise},
      {{"aten::add.Tensor", {F32({10, 4}), F32({4})}, {F32({10, 4})}, "", 40, 4 * 84}, OpClass::kElementwise},
      {{"aten::sum", {F32({10, 4})}, {F32({})}, "", 40, 164}, OpClass::kReduction},
      {{"aten::_softmax", {F32({10, 4})}, {F32({10, 4})}, "", 200, 320}, OpClass::kNormalisation},
      // Training is what a batch norm does if nothing is said: x twice, and the result.
      {{"aten::native_batch_norm", {F32({2, 3, 4, 4})}, {F32({2, 3, 4, 4})}, "", 768, 1152}, OpClass::kNormalisation},
      {{"aten::cat", {F32({10}), F32({20})}, {F32({30})}, "", 0, 240}, OpClass::kCopy},
      {{"aten::embedding", {F32({100, 8}), Of(DType::kI64, {5})}, {F32({5, 8})}, "", 0, 40 + 2 * 160},
       OpClass::kGather},
      // Queries 2*3*4*8, keys as many: 24 rows see 4 keys each, twice 8 products and 5 more of the softmax.
      {{"aten::_scaled_dot_product_flash_attention",
        {F32({2, 3, 4, 8}), F32({2, 3, 4, 8}), F32({2, 3, 4, 8})},
        {F32({2, 3, 4, 8})},
        "",
        24 * 4 * (2 * 16 + 5.0),
        4 * 4 * 192},
       OpClass::kAttention},
      {{"aten::view", {F32({10})}, {F32({2, 5})}, "", 0, 0}, OpClass::kNone},
      // Six rows in three groups, each row by a matrix [4, 5]; the offsets are read, too.
      {{"aten::_grouped_mm", {F32({6, 4}), F32({3, 4, 5}), Of(DType::kI32, {3})}, {F32({6, 5})}, "", 240, 468},
       OpClass::kMatrixProduct},
      {{"transformers::grouped_mm_fallback",
        {F32({6, 4}), F32({3, 4, 5}), Of(DType::kI32, {3})},
        {F32({6, 5})},
        "",
        240,
        468},
       OpClass::kMatrixProduct},
      // The groups share the six columns: the sum over them costs what all cost.
      {{"aten::_grouped_mm", {F32({4, 6}), F32({6, 5})}, {F32({3, 4, 5})}, "", 240, 4 * (24 + 30 + 60)},
       OpClass::kMatrixProduct},
      // 5 n log2 n for n = 8, twice.
      {{"aten::_fft_r2c", {F32({2, 8})}, {F32({2, 5, 2})}, "", 240, 144}, OpClass::kReduction},
      // An importer's op of all gradients: the class of topk; all tensors once.
      {{"aten::topk_backward", {F32({2, 3}), Of(DType::kI64, {2, 3})}, {F32({2, 8})}, "", 8 * 16, 24 + 48 + 64},
       OpClass::kReduction},
      {{"aten::gather_backward", {F32({3, 2}), Of(DType::kI64, {3, 2})}, {F32({5, 2})}, "", 0, 24 + 48 + 40},
       OpClass::kGather},
      {{"aten::squeeze_backward", {F32({10})}, {F32({1, 10})}, "", 0, 0}, OpClass::kNone},
      {{"AddmmBackward0", {F32({4, 6})}, {F32({4, 5}), F32({5, 6})}, "", 480, 4 * (24 + 20 + 30)},
       OpClass::kMatrixProduct},
      {{"ConvolutionBackward0",
        {F32({1, 2, 4, 4}), F32({1, 3, 4, 4}), F32({2, 3, 3, 3})},
        {F32({1, 3, 4, 4})},
        "",
        2 * 2 * 32 * 27.0,
        2 * 4 * (32 + 48 + 54)},
       OpClass::kConvolution},
      {{"ReluBackward0", {F32({10})}, {F32({10})}, "", 10, 80}, OpClass::kElementwise},
      {{"ViewBackward0", {F32({10})}, {F32({2, 5})}, "", 0, 0}, OpClass::kNone},
  };
  for (const AtenCase& each : cases) {
    SCOPED_TRACE(each.call.kind);
    std::string why;
    const auto work = AtenWorkOf(each.call, &why);
    ASSERT_TRUE(work.has_value()) << why;
    EXPECT_EQ(work->work.op_class, each.op_class);
    EXPECT_DOUBLE_EQ(work->work.flop, each.call.flop);
    EXPECT_EQ(work->work.moved.count, each.call.moved);
  }
}

TEST(AtenWorkTest, WhatATraceDoesNotSayOfResultsFollowsFromArguments) {
  const auto product = AtenWorkOf(Traced("aten::mm", "[[4,5],[5,6]]", R"(["c10::BFloat16","c10::BFloat16"])"));
  ASSERT_TRUE(product);
  EXPECT_EQ(product->work.flop, 240);
  EXPECT_EQ(product->work.moved.count, 148);
  EXPECT_EQ(product->dtype, DType::kBf16);

  // 224 / 16 = 14: 4*8*14*14 outputs of 3*16*16 weights each.
  const auto patches = AtenWorkOf(
      Traced("aten::cudnn_convolution", "[[4,3,224,224],[8,3,16,16],[],[],[],[],[],[],[]]",
             R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar","Scalar","Scalar","Scalar"])",
             R"(["","","[0, 0]","[16, 16]","[1, 1]","1","False","False","True"])"));
  ASSERT_TRUE(patches);
  EXPECT_EQ(patches->work.flop, 2.0 * 4 * 8 * 14 * 14 * 768);
  EXPECT_EQ(patches->allow_tf32, true);

  // Sizes of 1 spread; the result is as wide as its widest tensor.
  const auto sum = AtenWorkOf(Traced("aten::mul", "[[4,1],[3],[]]", R"(["c10::Half","float","float"])"));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->work.flop, 12);
  EXPECT_EQ(sum->work.moved.count, 8 + 12 + 4 + 48);
}

TEST(AtenWorkTest, ACausalAttentionDoesHalf) {
  const std::string dims = "[[1,6,2,8],[1,6,2,8],[1,6,2,8],[],[],[],[],[],[]]";
  const std::string types = R"(["float","float","float","","","Scalar","Scalar","Scalar","Scalar"])";
  const auto all =
      AtenWorkOf(Traced("aten::_flash_attention_forward", dims, types, R"(["","","","","","6","6","0.","False"])"));
  const auto half =
      AtenWorkOf(Traced("aten::_flash_attention_forward", dims, types, R"(["","","","","","6","6","0.","True"])"));
  ASSERT_TRUE(all && half);
  EXPECT_EQ(all->work.flop, 12 * 6 * (2 * 16 + 5));
  EXPECT_EQ(half->work.flop, all->work.flop / 2);
}

TEST(AtenWorkTest, ARecurrenceMultipliesEveryStepWithEveryMatrix) {
  const auto lstm =
      AtenWorkOf(Traced("aten::_cudnn_rnn", "[[7,2,4],[[32,4],[32,8],[32],[32]]]", R"(["float","TensorList"])"));
  ASSERT_TRUE(lstm);
  EXPECT_EQ(lstm->work.op_class, OpClass::kRecurrent);
  EXPECT_EQ(lstm->work.flop, 2 * 14 * (32 * 4 + 32 * 8));
}

TEST(AtenWorkTest, ListsOfTheOptimizerAreReadAndWritten) {
  const auto adam = AtenWorkOf(Traced("aten::_fused_adam_", "[[[10],[5]],[[10],[5]],[[10],[5]],[[10],[5]]]",
                                      R"(["TensorList","TensorList","TensorList","TensorList"])"));
  ASSERT_TRUE(adam);
  EXPECT_EQ(adam->work.op_class, OpClass::kOptimizer);
  EXPECT_EQ(adam->work.flop, 12 * 15);
  EXPECT_EQ(adam->work.moved.count, 7 * 60);
}

TEST(AtenWorkTest, CollectivesAndCopiesToTheHostAreTransfers) {
  EXPECT_TRUE(AtenWorkOf({"c10d::allreduce_", {F32({10})}, {F32({10})}, ""})->is_transfer);
  OpCase copy = {"aten::copy_", {F32({10}), F32({10})}, {F32({10})}, R"({"crosses_devices":true})"};
  EXPECT_TRUE(AtenWorkOf(copy)->is_transfer);
  copy.attrs = "";
  EXPECT_FALSE(AtenWorkOf(copy)->is_transfer);
}

TEST(AtenWorkTest, SaysWhatItDoesNotKnow) {
  std::string why;
  EXPECT_FALSE(AtenWorkOf({"aten::no_such_op", {}, {}, ""}, &why));
  EXPECT_EQ(why, "it knows no operator \"aten::no_such_op\"");
  EXPECT_FALSE(AtenWorkOf({"kernel", {}, {}, ""}, &why));
  EXPECT_EQ(why, "the trace names no operator that launched this kernel");
  EXPECT_FALSE(AtenWorkOf({"kernel", {}, {}, R"({"op":"aten::mm"})"}, &why));
  EXPECT_NE(why.find("record_shapes=True"), std::string::npos);
  EXPECT_FALSE(AtenWorkOf({"aten::mm", {F32({4, 5}), F32({6, 5})}, {F32({4, 6})}, ""}, &why));
  EXPECT_EQ(why, "its call of aten::mm lacks a pair of matrices that fit each other");
}

TEST(AtenWorkTest, SizesThatCannotBeAreNoWork) {
  std::string why;
  EXPECT_FALSE(
      AtenWorkOf(Traced("aten::slice_backward", "[[4],[]]", R"(["float","ScalarList"])", R"(["","[-5]"])"), &why));
  EXPECT_EQ(why, "the sizes in its call of aten::slice_backward are negative or too large");
  const std::string huge =
      "[4611686018427387903,4611686018427387903,4611686018427387903,4611686018427387903,"
      "4611686018427387903,4611686018427387903,4611686018427387903,4611686018427387903,"
      "4611686018427387903,4611686018427387903,4611686018427387903,4611686018427387903,"
      "4611686018427387903,4611686018427387903,4611686018427387903,4611686018427387903,"
      "4611686018427387903,4611686018427387903]";
  EXPECT_FALSE(AtenWorkOf(Traced("aten::relu", "[" + huge + "]", R"(["float"])"), &why));
  EXPECT_FALSE(AtenWorkOf(Traced("aten::linear", "[" + huge + ",[0,5]]", R"(["float","float"])"), &why));
}

TEST(AtenWorkTest, EveryOperatorHasAClassByItsName) {
  EXPECT_EQ(AtenClass("aten::mm"), OpClass::kMatrixProduct);
  EXPECT_EQ(AtenClass("mm"), std::nullopt);
  EXPECT_EQ(AtenClass("triton_poi_fused_add_0"), OpClass::kElementwise);
  EXPECT_EQ(AtenClass("triton_red_fused_sum_1"), OpClass::kReduction);
}

}  // namespace
}  // namespace emplace::testing
