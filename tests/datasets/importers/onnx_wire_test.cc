#include "datasets/importers/onnx_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/datasets/importers/onnx_bytes.h"
#include "tests/datasets/importers/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string CondensedText(const std::string& bytes) {
  std::istringstream in(bytes);
  return datasets::CondensedOnnx(in);
}

TEST(CondensedOnnxTest, SmallModelsStayAsTheyAre) { EXPECT_EQ(CondensedText(kOnnxSample), kOnnxSample); }

TEST(CondensedOnnxTest, LargeWeightsAndTextsForPeopleAreSkipped) {
  const std::string megabytes(3 << 20, 'w');
  const auto model = [&](const std::string& large, const std::string& text) {
    return OnnxModelBytes({.nodes = {OnnxNodeBytes("Constant", {}, {"c"},
                                                   {BytesField(1, "value") +
                                                    BytesField(5, OnnxTensorBytes("", kOnnxF32, {786432}, large)) +
                                                    IntegerField(20, 4)}) +
                                     text},
                           .initializers = {OnnxTensorBytes("w", kOnnxF32, {786432}, large),
                                            OnnxTensorBytes("axes", kOnnxI64, {2}, Int64Content({1, -1}))},
                           .inputs = {},
                           .outputs = {}});
  };
  const std::string bytes = model(BytesField(9, megabytes), BytesField(6, "for people"));
  EXPECT_GT(bytes.size(), 6U << 20);
  // The content of `axes` moves behind its name.
  const std::string condensed = CondensedText(bytes);
  EXPECT_LT(condensed.size(), 250U);
  EXPECT_THAT(condensed, HasSubstr(Int64Content({1, -1})));
  EXPECT_THAT(condensed, Not(HasSubstr("for people")));
  // Numbers one by one are not content either, beyond 4096 bytes of them.
  std::string listed;
  for (int i = 0; i < 2000; ++i) listed += FloatField(4, 1.5F);
  EXPECT_LT(CondensedText(model(listed, "")).size(), 250U);
}

TEST(CondensedOnnxTest, CutAndDamagedFilesNameTheByte) {
  const auto refusal = [](const std::string& bytes) { return Refusal([&] { CondensedText(bytes); }); };
  const std::string problem = ": the file is cut, damaged or no ONNX model (fields of a ModelProto expected)";
  for (std::size_t size = 1; size < kOnnxSample.size(); ++size) {
    const std::string cut = refusal(kOnnxSample.substr(0, size));
    if (cut == "accepted") continue;  // between two fields
    EXPECT_THAT(cut, HasSubstr(problem)) << size;
  }
  EXPECT_EQ(refusal(kOnnxSample.substr(0, 30)), "byte 30" + problem);
  EXPECT_THAT(refusal("model = 1\n"), HasSubstr(problem));
  EXPECT_THAT(refusal(IntegerField(1, 8) + "\x3b"), HasSubstr(problem));                      // a group
  EXPECT_THAT(refusal(IntegerField(1, 8) + "\x3a\xff\xff\xff\xff\x0f"), HasSubstr(problem));  // 4 GiB
  // A node that is longer than its graph.
  EXPECT_THAT(refusal(IntegerField(1, 8) + BytesField(7, std::string("\x0a\x09\x0a\x01x", 5)) + std::string(20, '\0')),
              HasSubstr(problem));
  // Graphs inside graphs.
  std::string graph = "x";
  for (int i = 0; i < 40; ++i) {
    graph = BytesField(1, OnnxNodeBytes("If", {}, {}, {OnnxGraphAttrBytes("then_branch", graph)}));
  }
  EXPECT_THAT(refusal(IntegerField(1, 8) + BytesField(7, graph)), HasSubstr(problem));
}

TEST(LooksLikeOnnxTest, ModelsAreToldFromOtherFiles) {
  EXPECT_TRUE(datasets::LooksLikeOnnx(kOnnxSample));
  // The head of a file ends anywhere behind the first field of the graph.
  const std::size_t graph = kOnnxSample.find(BytesField(1, "x"));
  EXPECT_TRUE(datasets::LooksLikeOnnx(kOnnxSample.substr(0, graph + 2)));
  for (const std::string& other : {kEmplaceSample, kPipeDreamSample, kKinetoSample, kEtSample, kChakraSample,
                                   std::string(), std::string("\x08\x08"), kOnnxSample.substr(2)}) {
    EXPECT_FALSE(datasets::LooksLikeOnnx(other)) << other;
  }
}

}  // namespace
}  // namespace emplace::testing
