// Loading and running modules, tested with the recorded graphs (tests/testing/make_torchscript.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/recorded_graphs.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using testing::AttrsOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ModuleFile;
using testing::OpsOfKind;
using testing::Recorded;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(TorchScriptRecorderTest, InputsHaveTheNamesOfForwardsArguments) {
  const Graph graph = Recorded("arguments", {"2x3", "bool:2x3", "i64:4:6"});
  EXPECT_THAT(OpsOfKind(graph, "input"), ElementsAre("x", "mask", "rows"));
  EXPECT_EQ(AttrsOf(graph, "x"), "");
  EXPECT_EQ(AttrsOf(graph, "rows"), R"({"bound":6})");
  const Tensor& mask = graph.tensor(graph.first_output(*graph.FindOp("mask")));
  EXPECT_EQ(mask.dtype, DType::kBool);
  EXPECT_THAT(mask.shape, ElementsAre(2, 3));
}

TEST(TorchScriptRecorderTest, WithBackwardTheModuleTrainsAndWithoutItDoesNot) {
  // norm counts its batches and computes their statistics (its sixth argument) only in training.
  const Graph inference = Recorded("shared", {"3x4"});
  EXPECT_FALSE(inference.FindOp("norm.num_batches_tracked"));
  EXPECT_THAT(AttrsOf(inference, "norm/native_batch_norm"), HasSubstr(R"("%4",false,)"));
  const Graph training = Recorded("shared", {"3x4"}, true);
  EXPECT_TRUE(training.FindOp("norm.num_batches_tracked"));
  EXPECT_THAT(AttrsOf(training, "norm/native_batch_norm"), HasSubstr(R"("%4",true,)"));
  for (const OpId op : inference.file_order()) EXPECT_EQ(inference.op(op).pass, Pass::kForward);
}

TEST(TorchScriptRecorderTest, TheLossIsTheSumOfAllOutputs) {
  const Graph graph = Recorded("shared", {"3x4"}, true);  // a tensor, and one in a dictionary
  EXPECT_THAT(OpsOfKind(graph, "aten::sum"), SizeIs(2));
  EXPECT_THAT(testing::InputsOf(graph, "norm/add"), ElementsAre("norm/sum:0", "encoder.0/sum:0"));
  EXPECT_THAT(testing::InputsOf(graph, "norm/ones_like_backward"), ElementsAre("norm/add:0"));
  EXPECT_THAT(OpsOfKind(graph, "aten::native_batch_norm_backward"), SizeIs(1));
}

TEST(TorchScriptRecorderTest, ArgumentsWithADefaultNeedNoInput) {
  EXPECT_THAT(OpsOfKind(Recorded("words", {"i64:5:50"}), "input"), ElementsAre("words"));
  EXPECT_EQ(ErrorOf([] { Recorded("words", {}); }),
            ModuleFile("words") + ": takes 1 to 2 inputs (words, factor), got 0");
  EXPECT_EQ(ErrorOf([] { Recorded("halves", {"3", "4"}); }), ModuleFile("halves") + ": takes 1 input (x), got 2");
}

// nn.LSTM by itself has a forward for tensors and one for packed sequences.
TEST(TorchScriptRecorderTest, OfSeveralForwardsThatForTensorsIsTaken) {
  const Graph graph = Recorded("lstm", {"2x5x3"}, true);
  EXPECT_THAT(OpsOfKind(graph, "input"), SizeIs(1));
  EXPECT_THAT(OpsOfKind(graph, "aten::sigmoid_backward"), SizeIs(2 * 5 * 3));
  // Per layer 4 gates of 4 numbers, 10 of them; their inputs have 3 and 4 numbers, their states 4.
  EXPECT_EQ(testing::FlopOf(graph, Pass::kForward), 2 * 10 * 16 * (3 + 4 + 4 + 4));
  testing::RunAgain(Recorded("lstm", {"2x5x3"}), {});
}

TEST(TorchScriptRecorderTest, ATupleTakesAnInputForEachOfItsTensors) {
  const Graph graph = Recorded("named", {"2x3", "2x4", "2x4"}, true);
  EXPECT_THAT(OpsOfKind(graph, "input"), ElementsAre("x", "states_0", "states_1"));
  EXPECT_THAT(OpsOfKind(graph, "aten::sum"), SizeIs(::testing::Ge(2U))) << "both results of the dictionary";
  EXPECT_EQ(ErrorOf([] {
              Recorded("named", {"2x3", "2x4"});
            }),
            ModuleFile("named") + ": takes 3 inputs (x, states: 2), got 2");
}

TEST(TorchScriptRecorderTest, ATracedModuleComputesItsSizesAsIntegers) {
  const Graph graph = Recorded("patches", {"3x1x4x4"}, true);
  EXPECT_THAT(OpsOfKind(graph, "aten::div.Tensor_mode"), SizeIs(::testing::Ge(1U)));
  EXPECT_THAT(OpsOfKind(graph, "aten::convolution_backward"), SizeIs(1));
  testing::RunAgain(graph, {});  // no division by zero
}

TEST(TorchScriptRecorderTest, AFileThatIsNoModuleIsAnError) {
  EXPECT_EQ(ErrorOf([] { Recorded("none", {"3"}); }),
            ModuleFile("none") + ": cannot be read (a file that torch.jit.save has written)");
  const std::string source = std::string(EMPLACE_TEST_SOURCE_DIR) + "/testing/make_torchscript.py";
  EXPECT_THAT(ErrorOf([&] { profiler::GraphFromTorchScript({.file = source, .inputs = {}}); }),
              StartsWith(source + ": is not a TorchScript module ("));
}

TEST(TorchScriptRecorderTest, AModuleOfALaterPyTorchNamesTheOperatorThatIsMissing) {
  EXPECT_THAT(ErrorOf([] { Recorded("later", {"2x4"}); }),
              StartsWith(ModuleFile("later") + ": is not a TorchScript module (Unknown builtin op: aten::negg"));
}

TEST(TorchScriptRecorderTest, WhatTheModuleRefusesIsSaidInOneLine) {
  EXPECT_EQ(
      ErrorOf([] { Recorded("aliases", {"1x1x5x5"}); }),
      ModuleFile("aliases") + ": cannot be run with these inputs (shape '[-1, 8]' is invalid for input of size 18)");
  EXPECT_EQ(ErrorOf([] { Recorded("words", {"i64:5:60"}); }),
            ModuleFile("words") + ": cannot be run with these inputs (index out of range in self)");
}

TEST(TorchScriptRecorderTest, WithoutAParameterThereIsNoBackwardPass) {
  EXPECT_EQ(ErrorOf([] { Recorded("halves", {"2x4"}, true); }),
            ModuleFile("halves") + ": has no parameter that can be trained (no backward pass)");
}

TEST(TorchScriptRecorderTest, OperatorsInOtherThreadsAreAnError) {
  EXPECT_EQ(ErrorOf([] { Recorded("forked", {"3"}); }),
            ModuleFile("forked") + ": runs operators in other threads, as torch.jit.fork does (one thread)");
}

}  // namespace
}  // namespace emplace
