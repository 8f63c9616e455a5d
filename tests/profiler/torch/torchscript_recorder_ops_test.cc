// The recorder is in the LibTorch plug-in, so it is tested with its graphs of small modules. Their source is
// tests/testing/make_torchscript.py.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/recorded_graphs.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::testing::Contains;
using testing::ControlInputsOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::InputsOf;
using ::testing::IsEmpty;
using testing::LayerOf;
using testing::ModuleFile;
using testing::OpsOfKind;
using testing::Recorded;
using testing::RunAgain;
using ::testing::SizeIs;

// Aliases: h = conv(x); oldest = h * 2; flat = h.view(-1, 8); flat.add_(1); old = h.sign(); h.relu_();
//          fc(flat) + (h + old + oldest).sum()
TEST(TorchScriptRecorderOpsTest, ReadersSeeWhatWasWrittenThroughViews) {
  const Graph graph = Recorded("aliases", {"1x1x4x4"});
  EXPECT_THAT(InputsOf(graph, "conv/convolution"), ElementsAre("x:0", "conv.weight:0"));
  EXPECT_THAT(InputsOf(graph, "conv/mul"), ElementsAre("conv/convolution:0"));
  EXPECT_THAT(InputsOf(graph, "conv/view"), ElementsAre("conv/convolution:0"));
  EXPECT_THAT(InputsOf(graph, "conv/add_"), ElementsAre("conv/view:0"));
  // Their argument is h, which the convolution made; its content was written through flat.
  EXPECT_THAT(InputsOf(graph, "conv/sign"), ElementsAre("conv/convolution:0", "conv/add_:0"));
  EXPECT_THAT(InputsOf(graph, "conv/relu_"), ElementsAre("conv/convolution:0", "conv/add_:0"));
  // addmm(bias, flat, weight): flat as add_ left it, overwritten by relu_ through h.
  EXPECT_THAT(InputsOf(graph, "fc/addmm"), ElementsAre("fc.bias:0", "conv/add_:0", "fc/t:0", "conv/relu_:0"));
  // h is the result of relu_; old was computed before that.
  EXPECT_THAT(InputsOf(graph, "conv/add"), ElementsAre("conv/relu_:0", "conv/sign:0"));
}

TEST(TorchScriptRecorderOpsTest, WhoReadsAnOldValueComesBeforeItsWriter) {
  const Graph graph = Recorded("aliases", {"1x1x4x4"});
  EXPECT_THAT(ControlInputsOf(graph, "conv/add_"), ElementsAre("conv/mul"));
  EXPECT_THAT(ControlInputsOf(graph, "conv/relu_"), ElementsAre("conv/sign"));  // sign is already after mul
  for (const OpId op : graph.file_order()) {
    if (graph.op(op).name == "conv/add_" || graph.op(op).name == "conv/relu_") continue;
    EXPECT_THAT(graph.control_inputs(op), IsEmpty()) << graph.op(op).name;
  }
}

// With inputs of 1 and conv's weights -1, h is -9 at each of its 8 places, and oldest is -18. flat.add_ makes h -8, old
// is -1, and relu_ makes h 0. fc has weights 0.5 and a bias of 0.25: 0.25 from flat, which is h. The sum is 8 * (0 - 1
// - 18). In the order of names relu_ would run before sign: only the control edge keeps old at -1.
TEST(TorchScriptRecorderOpsTest, TheOpsInTheOrderOfTheGraphComputeWhatTheModuleDoes) {
  const Graph graph = Recorded("aliases", {"1x1x4x4"});
  const auto values = RunAgain(graph, {{"x", std::vector<double>(16, 1)},
                                       {"conv.weight", std::vector<double>(18, -1)},
                                       {"fc.weight", std::vector<double>(24, 0.5)},
                                       {"fc.bias", std::vector<double>(3, 0.25)}});
  EXPECT_THAT(values.at("conv/sign:0"), Each(-1));
  EXPECT_THAT(values.at("conv/mul:0"), Each(-18));
  EXPECT_THAT(values.at("fc/add:0"), ElementsAre(-151.75, -151.75, -151.75));
}

// Halves: h = x * 2; left.add_(1); right.mul_(3); left.neg(), h.exp(). left and right are the columns 0-1 and 2-3 of h.
TEST(TorchScriptRecorderOpsTest, PiecesOfAnArrayDependOnTheirOwnWritersOnly) {
  const Graph graph = Recorded("halves", {"2x4"});
  EXPECT_THAT(InputsOf(graph, "split"), ElementsAre("mul:0"));
  EXPECT_THAT(InputsOf(graph, "add_"), ElementsAre("split:0"));
  EXPECT_THAT(InputsOf(graph, "mul_"), ElementsAre("split:1"));
  EXPECT_THAT(InputsOf(graph, "neg"), ElementsAre("add_:0"));
  EXPECT_THAT(InputsOf(graph, "exp"), ElementsAre("mul:0", "add_:0", "mul_:0"));
  EXPECT_EQ(graph.num_ops(), 7U);
  const auto values = RunAgain(graph, {{"x", {0, 0, 0, 0, -0.5, -0.5, 0, 0}}});
  EXPECT_THAT(values.at("neg:0"), ElementsAre(-1, -1, 0, 0));
  const auto e = ::testing::DoubleNear(2.718281828, 1e-6);
  EXPECT_THAT(values.at("exp:0"), ElementsAre(e, e, 1, 1, 1, 1, 1, 1));
}

// Shared: h = encoder(encoder(x)), where encoder is a linear layer without bias and a relu; norm(h), h * scale +
// constant.
TEST(TorchScriptRecorderOpsTest, ASharedParameterIsOneVariable) {
  const Graph graph = Recorded("shared", {"3x4"});
  EXPECT_THAT(InputsOf(graph, "encoder.0/t"), ElementsAre("encoder.0.weight:0"));
  EXPECT_THAT(InputsOf(graph, "encoder.0/t_2"), ElementsAre("encoder.0.weight:0"));
  EXPECT_THAT(InputsOf(graph, "encoder.0/mm"), ElementsAre("x:0", "encoder.0/t:0"));
  EXPECT_THAT(InputsOf(graph, "encoder.0/mm_2"), ElementsAre("encoder.0/relu:0", "encoder.0/t_2:0"));
  const auto weight = graph.FindOp("encoder.0.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(graph.op(*weight).persistent, Bytes{4 * 4 * 4});
  EXPECT_EQ(graph.tensor(graph.first_output(*weight)).size, Bytes{4 * 4 * 4});
  EXPECT_FALSE(graph.FindOp("unused.weight"));  // no op reads it
}

TEST(TorchScriptRecorderOpsTest, GradientsOfASharedParameterAreAdded) {
  const Graph graph = Recorded("shared", {"3x4"}, true);
  // h is read by norm and by scale, and the weight is used twice: two sums.
  EXPECT_THAT(InputsOf(graph, "encoder.0/add_backward"),
              ElementsAre("encoder.0/mul_backward:0", "norm/native_batch_norm_backward:0"));
  const auto sum = graph.FindOp("encoder.0/add_backward_2");
  ASSERT_TRUE(sum);
  EXPECT_THAT(graph.tensor(graph.first_output(*sum)).shape, ElementsAre(4, 4));
  EXPECT_THAT(graph.consumers(graph.first_output(*sum)), IsEmpty());  // the gradient itself: no updates
}

TEST(TorchScriptRecorderOpsTest, TheLayerIsTheModuleOfTheParameterOrThatOfTheProducer) {
  const Graph graph = Recorded("shared", {"3x4"}, true);
  EXPECT_EQ(LayerOf(graph, "x"), "");
  EXPECT_EQ(LayerOf(graph, "encoder.0.weight"), "encoder.0");
  EXPECT_EQ(LayerOf(graph, "encoder.0/mm"), "encoder.0");       // reads a view of the weight
  EXPECT_EQ(LayerOf(graph, "encoder.0/relu_2"), "encoder.0");   // from mm_2
  EXPECT_EQ(LayerOf(graph, "norm/native_batch_norm"), "norm");  // its input comes from the encoder
  EXPECT_EQ(LayerOf(graph, "scale"), "");                       // the module itself owns it
  EXPECT_EQ(LayerOf(graph, "encoder.0/mul"), "encoder.0");      // from relu_2
  EXPECT_EQ(LayerOf(graph, "norm/sum"), "norm");
  // The gradient of encoder(x)'s relu reads a gradient that comes from norm. Its layer is that of the op it
  // differentiates.
  EXPECT_EQ(LayerOf(graph, "encoder.0/threshold_backward"), "encoder.0");
  EXPECT_EQ(LayerOf(graph, "encoder.0/expand_backward"),
            "encoder.0");  // the gradient of encoder.0/sum, whose input is norm's
}

TEST(TorchScriptRecorderOpsTest, KindsAreOperatorsThatAreNotComposite) {
  const Graph graph = Recorded("aliases", {"1x1x4x4"}, true);
  // conv2d and linear are composite, as is flatten.
  EXPECT_THAT(OpsOfKind(graph, "aten::conv2d"), IsEmpty());
  EXPECT_THAT(OpsOfKind(graph, "aten::linear"), IsEmpty());
  EXPECT_THAT(OpsOfKind(graph, "aten::convolution"), ElementsAre("conv/convolution"));
  EXPECT_THAT(OpsOfKind(graph, "aten::addmm"), ElementsAre("fc/addmm"));
  EXPECT_THAT(OpsOfKind(graph, "aten::convolution_backward"), ElementsAre("conv/convolution_backward"));
  EXPECT_THAT(OpsOfKind(graph, "aten::detach"), IsEmpty());
}

TEST(TorchScriptRecorderOpsTest, AGradientThatIsNotWantedIsNoOutput) {
  const Graph graph = Recorded("aliases", {"1x1x4x4"}, true);
  const auto gradient = graph.FindOp("conv/convolution_backward");
  ASSERT_TRUE(gradient);
  ASSERT_EQ(graph.num_outputs(*gradient), 1U);  // the weight's gradient; x is an input, and there is no bias
  EXPECT_THAT(graph.tensor(graph.first_output(*gradient)).shape, ElementsAre(2, 1, 3, 3));
  EXPECT_EQ(graph.op(*gradient).pass, Pass::kBackward);
}

// Native LSTM: gates are pieces of one array, each overwritten by its own sigmoid_ or tanh_.
TEST(TorchScriptRecorderOpsTest, GatesOfAnLstmDoNotWaitForEachOther) {
  const Graph graph = Recorded("recurrent", {"i64:3x2:20"});
  const std::vector<std::string> sigmoids = OpsOfKind(graph, "aten::sigmoid_");
  const std::vector<std::string> tanhs = OpsOfKind(graph, "aten::tanh_");
  ASSERT_THAT(sigmoids, SizeIs(3 * 2 * 3));  // 3 gates, 2 layers, 3 steps
  ASSERT_THAT(tanhs, SizeIs(2 * 3));
  for (const std::string& gate : sigmoids) EXPECT_THAT(InputsOf(graph, gate), SizeIs(1)) << gate;
  EXPECT_THAT(InputsOf(graph, sigmoids[1]), ElementsAre("lstm/unsafe_split:1"));
}

TEST(TorchScriptRecorderOpsTest, AnOperatorThatDoesNotReturnWhatItWritesIsAnError) {
  EXPECT_EQ(ErrorOf([] { Recorded("unreturned", {"4"}); }),
            ModuleFile("unreturned") +
                ": aten::_foreach_add_.Scalar: writes to an argument that it does not return (results are returned)");
}

TEST(TorchScriptRecorderOpsTest, EveryOpOfATrainingStepRunsAgain) {
  for (const auto& [name, input] : {std::pair{"recurrent", "i64:3x2:20"}, {"shared", "3x4"}, {"aliases", "2x1x4x4"}}) {
    const Graph graph = Recorded(name, {input}, true);
    EXPECT_GE(RunAgain(graph, {}).size(), graph.num_ops() - 3) << name;  // checks the sizes of all outputs
  }
}

}  // namespace
}  // namespace emplace
