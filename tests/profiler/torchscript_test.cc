#include "profiler/torchscript.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/profiler/recorded_graphs.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::FlopOf;
using testing::OpsOfKind;
using testing::Recorded;
using ::testing::SizeIs;

TEST(GraphFromTorchScriptTest, APointerOfGitLfsIsNoModule) {
  const std::string file = std::string(EMPLACE_TEST_SOURCE_DIR) + "/cases/k20_lfs.onnx";
  EXPECT_THAT(ErrorOf([&] { profiler::GraphFromTorchScript({.file = file, .inputs = {}}); }),
              ::testing::HasSubstr("it is a pointer of Git LFS in place of the file"));
}

TEST(ParseTorchScriptInputTest, AShapeAloneIsOfFloats) {
  const profiler::TorchScriptInput input = profiler::ParseTorchScriptInput("32x3x299x299", "--input");
  EXPECT_EQ(input.dtype, DType::kF32);
  EXPECT_THAT(input.shape, ElementsAre(32, 3, 299, 299));
  EXPECT_EQ(input.bound, 1);
  EXPECT_THAT(profiler::ParseTorchScriptInput("7", "--input").shape, ElementsAre(7));
}

TEST(ParseTorchScriptInputTest, ADTypeStandsBeforeTheShapeAndABoundAfterIt) {
  const profiler::TorchScriptInput words = profiler::ParseTorchScriptInput("i64:35x20:10000", "--input");
  EXPECT_EQ(words.dtype, DType::kI64);
  EXPECT_THAT(words.shape, ElementsAre(35, 20));
  EXPECT_EQ(words.bound, 10000);
  EXPECT_EQ(profiler::ParseTorchScriptInput("i32:4", "--input").bound, 1);
  EXPECT_EQ(profiler::ParseTorchScriptInput("bool:4", "--input").dtype, DType::kBool);
  EXPECT_EQ(profiler::ParseTorchScriptInput("f64:4", "--input").dtype, DType::kF64);
}

TEST(ParseTorchScriptInputTest, WhatIsNoneIsAnErrorThatSaysWhereItGoesWrong) {
  const auto error = [](const std::string& text) {
    return ErrorOf([&] { static_cast<void>(profiler::ParseTorchScriptInput(text, "--input")); });
  };
  const std::string form = " ([DTYPE:]AxBxC[:BOUND], such as 32x3x224x224 or i64:35x20:10000)";
  EXPECT_EQ(error(""), R"(--input: is "": "" is not a dimension)" + form);
  EXPECT_EQ(error("3x"), R"(--input: is "3x": "" is not a dimension)" + form);
  EXPECT_EQ(error("3x0"), R"(--input: is "3x0": "0" is not a dimension)" + form);
  EXPECT_EQ(error("3,4"), R"(--input: is "3,4": "3,4" is not a dimension)" + form);
  EXPECT_EQ(error("-3"), R"(--input: is "-3": "-3" is not a dimension)" + form);
  EXPECT_EQ(error("i64"), R"(--input: is "i64": "i64" is not a dimension)" + form);
  EXPECT_EQ(error("u8:3"),
            R"(--input: is "u8:3": "u8" is not a dtype of an input, one of f32, f64, i32, i64 and bool)" + form);
  EXPECT_EQ(error("3x4:5"), R"(--input: is "3x4:5": only integers have a bound)" + form);
  EXPECT_EQ(error("i64:3:"), R"(--input: is "i64:3:": "" is not a bound)" + form);
  EXPECT_EQ(error("i64:3:4:5"), R"(--input: is "i64:3:4:5": "4:5" is not a bound)" + form);
  EXPECT_NE(error("1099511627776x1099511627776"), "(no error)");  // 2^80 numbers
}

TEST(GraphFromTorchScriptTest, TheSameFileGivesTheSameGraph) {
  const auto text = [] { return testing::GraphText(Recorded("recurrent", {"i64:3x2:20"}, true)); };
  EXPECT_EQ(text(), text());
}

TEST(GraphFromTorchScriptTest, AGraphIsNamedAfterItsFile) { EXPECT_EQ(Recorded("halves", {"2x4"}).name(), "halves"); }

// 2 layers of LSTM, 8 wide, 3 steps, batch 2, 20 words. A step of a layer is 4 gates of 8 numbers for each of 2 rows,
// each 8 products with the input and 8 with the state: 2 * 32 * 16 = 1024. The decoder is 3 * 2 * 8 * 20 = 960.
// Each product has two gradients, but the state before the first step has none: 2 layers * 2 * 32 * 8 = 1024 less.
TEST(GraphFromTorchScriptTest, TheWorkOfAnLstmIsThatOfItsGates) {
  const Graph graph = Recorded("recurrent", {"i64:3x2:20"}, true);
  EXPECT_EQ(FlopOf(graph, Pass::kForward), 2 * (2 * 3 * 1024 + 960));
  EXPECT_EQ(FlopOf(graph, Pass::kBackward), 2 * (2 * (2 * 3 * 1024 + 960) - 1024));
  // Embedding 20 * 8, LSTM 2 * (2 * 32 * 8 weights + 2 * 32 biases), decoder 20 * 8 + 20.
  std::int64_t persistent = 0;
  for (const std::string& name : OpsOfKind(graph, "variable")) {
    if (!name.starts_with("constant")) persistent += graph.op(*graph.FindOp(name)).persistent.count;
  }
  EXPECT_EQ(persistent, 4 * (160 + 2 * (512 + 64) + 180));
}

// torchvision's networks with its own counts (https://pytorch.org/vision/stable/models.html): parameters, and "GFLOPS",
// which are 10^9 multiply-adds of inference on one image without auxiliary heads.
struct Network {
  const char* name;
  const char* input;
  double mega_parameters;     // with the auxiliary heads
  double giga_multiply_adds;  // a product of a matrix or filter
  double first_convolution;   // multiply-adds per image of the convolution without an input gradient
  std::size_t convolutions;   // with the auxiliary heads
  std::size_t linear_layers;
};

class TorchVisionSlow : public ::testing::TestWithParam<Network> {
 protected:
  // The module's file; "" if this machine cannot make it.
  std::string Make(const std::string& name) {
    const std::string python = "/usr/bin/python3";
    folder_ = std::filesystem::path(::testing::TempDir()) / ("torchvision_" + name);
    std::filesystem::create_directories(folder_);
    const std::string script = std::string(EMPLACE_TEST_SOURCE_DIR) + "/testing/make_torchscript.py";
    const std::string command = python + " '" + script + "' '" + folder_.string() + "' zeros " + name + " 2>/dev/null";
    const int status = std::system(command.c_str());
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) return "";
    EXPECT_EQ(status, 0);
    return (folder_ / (name + ".pt")).string();
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

TEST_P(TorchVisionSlow, HasThePublishedParametersAndWork) {
  const Network& network = GetParam();
  const std::string file = Make(network.name);
  if (file.empty()) GTEST_SKIP() << "/usr/bin/python3 has no torchvision (tools/install_dependencies --dev)";
  const profiler::TorchScriptInput input = profiler::ParseTorchScriptInput(network.input, "input");
  const auto images = static_cast<double>(input.shape[0]);

  const Graph inference = profiler::GraphFromTorchScript({.file = file, .inputs = {input}});
  // To the number of published digits.
  EXPECT_NEAR(FlopOf(inference, Pass::kForward) / 2 / images / 1e9, network.giga_multiply_adds, 0.0051);

  const Graph training = profiler::GraphFromTorchScript({.file = file, .inputs = {input}, .backward = true});
  std::int64_t parameters = 0;
  for (const std::string& name : OpsOfKind(training, "variable")) {
    const bool is_parameter = name.ends_with(".weight") || name.ends_with(".bias");
    if (is_parameter) parameters += training.op(*training.FindOp(name)).persistent.count / 4;
  }
  EXPECT_NEAR(static_cast<double>(parameters) / 1e6, network.mega_parameters, 0.0051);
  EXPECT_THAT(OpsOfKind(training, "aten::convolution"), SizeIs(network.convolutions));
  EXPECT_THAT(OpsOfKind(training, "aten::convolution_backward"), SizeIs(network.convolutions));
  EXPECT_THAT(OpsOfKind(training, "aten::addmm"), SizeIs(network.linear_layers));
  EXPECT_THAT(OpsOfKind(training, "aten::mm"), SizeIs(2 * network.linear_layers));
  EXPECT_EQ(FlopOf(training, Pass::kBackward),
            2 * FlopOf(training, Pass::kForward) - 2 * images * network.first_convolution);
}

// First convolutions: number of outputs times weights of a filter.
INSTANTIATE_TEST_SUITE_P(
    Networks, TorchVisionSlow,
    ::testing::Values(Network{"resnet50", "1x3x224x224", 25.56, 4.09, 64 * 112 * 112 * 147.0, 53, 1},
                      Network{"vgg16", "1x3x224x224", 138.36, 15.47, 64 * 224 * 224 * 27.0, 13, 3},
                      Network{"googlenet", "1x3x224x224", 13.00, 1.50, 64 * 112 * 112 * 147.0, 59, 5},
                      Network{"densenet121", "1x3x224x224", 7.98, 2.83, 64 * 112 * 112 * 147.0, 120, 1},
                      Network{"inception_v3", "2x3x299x299", 27.16, 5.71, 32 * 149 * 149 * 27.0, 96, 2}),
    [](const ::testing::TestParamInfo<Network>& row) { return row.param.name; });

}  // namespace
}  // namespace emplace
