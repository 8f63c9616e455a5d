#include "profiler/aten_flop.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using testing::ErrorOf;

TEST(AtenFlopTest, ProductsOfMatricesAreTwiceTheirMultiplications) {
  EXPECT_EQ(profiler::AtenFlop("aten::mm", R"({"args":["%0","%1"]})", {{2, 3}, {3, 5}}, {{2, 5}}), 2 * 2 * 3 * 5);
  // addmm(bias, left, right): the bias is not counted.
  EXPECT_EQ(profiler::AtenFlop("aten::addmm", R"({"args":["%0","%1","%2",1,1]})", {{5}, {2, 3}, {3, 5}}, {{2, 5}}), 60);
  EXPECT_EQ(profiler::AtenFlop("aten::bmm", R"({"args":["%0","%1"]})", {{7, 2, 3}, {7, 3, 5}}, {{7, 2, 5}}), 7 * 60);
  EXPECT_EQ(
      profiler::AtenFlop("aten::baddbmm", R"({"args":["%0","%1","%2",1,1]})", {{5}, {7, 2, 3}, {7, 3, 5}}, {{7, 2, 5}}),
      7 * 60);
  EXPECT_EQ(
      profiler::AtenFlop("aten::addbmm", R"({"args":["%0","%1","%2",1,1]})", {{2, 5}, {7, 2, 3}, {7, 3, 5}}, {{2, 5}}),
      7 * 60);
  EXPECT_EQ(profiler::AtenFlop("aten::mv", R"({"args":["%0","%1"]})", {{2, 3}, {3}}, {{2}}), 12);
  EXPECT_EQ(profiler::AtenFlop("aten::addmv", R"({"args":["%0","%1","%2",1,1]})", {{2}, {2, 3}, {3}}, {{2}}), 12);
  EXPECT_EQ(profiler::AtenFlop("aten::dot", R"({"args":["%0","%1"]})", {{3}, {3}}, {{}}), 6);
  EXPECT_EQ(profiler::AtenFlop("aten::linear", R"({"args":["%0","%1",null]})", {{4, 2, 3}, {5, 3}}, {{4, 2, 5}}),
            2 * 8 * 3 * 5);
}

// 2 images of 4 channels of 6x6, 8 filters of 3x3 without padding: 2 * 8 * 4 * 4 outputs, each of 4 * 9 products.
TEST(AtenFlopTest, AConvolutionIsTheWeightsOfAnOutputChannelForEachNumberOut) {
  EXPECT_EQ(profiler::AtenFlop("aten::convolution", R"({"args":["%0","%1","%2",[1,1],[0,0],[1,1],false,[0,0],1]})",
                               {{2, 4, 6, 6}, {8, 4, 3, 3}, {8}}, {{2, 8, 4, 4}}),
            2 * (2 * 8 * 16) * (4 * 9));
  // In 2 groups, each output channel reads 2 of the 4 channels.
  EXPECT_EQ(profiler::AtenFlop("aten::convolution", R"({"args":["%0","%1",null,[1,1],[0,0],[1,1],false,[0,0],2]})",
                               {{2, 4, 6, 6}, {8, 2, 3, 3}}, {{2, 8, 4, 4}}),
            2 * (2 * 8 * 16) * (2 * 9));
  // Transposed, each of the 2 * 4 * 36 inputs contributes to 8 channels of 3x3.
  EXPECT_EQ(profiler::AtenFlop("aten::convolution", R"({"args":["%0","%1",null,[1,1],[0,0],[1,1],true,[0,0],1]})",
                               {{2, 4, 6, 6}, {4, 8, 3, 3}}, {{2, 8, 8, 8}}),
            2 * (2 * 4 * 36) * (8 * 9));
}

TEST(AtenFlopTest, TheGradientsOfAConvolutionCostThatOnceEach) {
  const auto flop = [](const std::string& mask) {
    return profiler::AtenFlop("aten::convolution_backward",
                              R"({"args":["%0","%1","%2",[8],[1,1],[0,0],[1,1],false,[0,0],1,)" + mask + "]}",
                              {{2, 8, 4, 4}, {2, 4, 6, 6}, {8, 4, 3, 3}}, {});
  };
  EXPECT_EQ(flop("[true,true,true]"), 2 * 18432);  // the gradient of the bias has no products
  EXPECT_EQ(flop("[false,true,false]"), 18432);
  EXPECT_EQ(flop("[false,false,true]"), 0);
  EXPECT_EQ(profiler::AtenFlop("aten::convolution_backward",
                               R"({"args":["%0","%1","%2",null,[1,1],[0,0],[1,1],true,[0,0],1,[true,false,false]]})",
                               {{2, 8, 8, 8}, {2, 4, 6, 6}, {4, 8, 3, 3}}, {}),
            2 * (2 * 4 * 36) * (8 * 9));
}

TEST(AtenFlopTest, OtherOperatorsCountNothing) {
  EXPECT_EQ(profiler::AtenFlop("aten::add.Tensor", R"({"args":["%0","%1",1]})", {{4}, {4}}, {{4}}), 0);
  EXPECT_EQ(profiler::AtenFlop("aten::mm_like", "", {}, {}), 0);
  EXPECT_EQ(profiler::AtenFlop("input", "", {}, {{4}}), 0);
}

TEST(AtenFlopTest, ArgumentsThatDoNotFitAreAnError) {
  const std::string expected = "aten::mm: its arguments are not those of the operator (tensors and flags as in ATen)";
  const auto error = [](const std::string& attrs, const std::vector<std::vector<std::int64_t>>& inputs) {
    return ErrorOf([&] { profiler::AtenFlop("aten::mm", attrs, inputs, {}); });
  };
  EXPECT_EQ(error("", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error("{}", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error(R"({"args":["%0"]})", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error(R"({"args":["%0",null]})", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error(R"({"args":["%0","%2"]})", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error(R"({"args":["%0","%x"]})", {{2, 3}, {3, 5}}), expected);
  EXPECT_EQ(error(R"({"args":["%0","%1"]})", {{2, 3}, {3}}), expected);
  EXPECT_EQ(error(R"({"args":["%0","%1"]})", {{2, 3}, {4, 5}}), expected);
}

}  // namespace
}  // namespace emplace
