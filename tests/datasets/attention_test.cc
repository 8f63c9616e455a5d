#include "datasets/attention.h"

#include <gtest/gtest.h>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::testing {
namespace {

class AttentionTest : public ::testing::Test {
 protected:
  datasets::NetworkBuilder net{"test"};
};

TEST_F(AttentionTest, HeadsAreSplitAndJoined) {
  const datasets::Value x = net.Input("x", DType::kF32, {2, 7, 12});
  const datasets::Value heads = datasets::SplitHeads(net, x, 3, "split");
  EXPECT_EQ(net.shape(heads), (datasets::Shape{2, 3, 7, 4}));
  EXPECT_EQ(net.shape(datasets::JoinHeads(net, heads, "join")), (datasets::Shape{2, 7, 12}));
}

TEST_F(AttentionTest, SelfAttentionKeepsTheShapeAndHasFourSquareProducts) {
  const datasets::Value x = net.Input("x", DType::kF32, {2, 7, 12});
  const datasets::Value mask = net.Input("mask", DType::kF32, {7, 7});
  EXPECT_EQ(net.shape(datasets::SelfAttention(net, x, 3, mask)), (datasets::Shape{2, 7, 12}));
  EXPECT_EQ(net.num_parameters(), 4 * (12 * 12 + 12));  // queries, keys, values, output
}

TEST_F(AttentionTest, FeedForwardWidensAndNarrows) {
  const datasets::Value x = net.Input("x", DType::kF32, {2, 7, 12});
  EXPECT_EQ(net.shape(datasets::FeedForward(net, x, 48, "gelu", false)), (datasets::Shape{2, 7, 12}));
  EXPECT_EQ(net.num_parameters(), 12 * 48 + 48 + 48 * 12 + 12);
}

TEST(AttentionHeadsTest, MustDivideTheWidth) {
  EXPECT_NO_THROW(datasets::CheckHeads("gpt", 768, 12));
  try {
    datasets::CheckHeads("gpt", 768, 7);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "gpt: heads must divide d_model, which is 768, got 7");
  }
}

}  // namespace
}  // namespace emplace::testing
