#include "datasets/attention.h"

#include <gtest/gtest.h>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::testing {
namespace {

class AttentionTest : public ::testing::Test {
 protected:
  NetworkBuilder net{"test"};
};

TEST_F(AttentionTest, HeadsAreSplitAndJoined) {
  const Value x = net.Input("x", DType::kF32, {2, 7, 12});
  const Value heads = SplitHeads(net, x, 3, "split");
  EXPECT_EQ(net.shape(heads), (Shape{2, 3, 7, 4}));
  EXPECT_EQ(net.shape(JoinHeads(net, heads, "join")), (Shape{2, 7, 12}));
}

TEST_F(AttentionTest, SelfAttentionKeepsTheShapeAndHasFourSquareProducts) {
  const Value x = net.Input("x", DType::kF32, {2, 7, 12});
  const Value mask = net.Input("mask", DType::kF32, {7, 7});
  EXPECT_EQ(net.shape(SelfAttention(net, x, 3, mask)), (Shape{2, 7, 12}));
  EXPECT_EQ(net.num_parameters(), 4 * (12 * 12 + 12));  // queries, keys, values, output
}

TEST_F(AttentionTest, FeedForwardWidensAndNarrows) {
  const Value x = net.Input("x", DType::kF32, {2, 7, 12});
  EXPECT_EQ(net.shape(FeedForward(net, x, 48, "gelu", false)), (Shape{2, 7, 12}));
  EXPECT_EQ(net.num_parameters(), 12 * 48 + 48 + 48 * 12 + 12);
}

TEST(AttentionHeadsTest, MustDivideTheWidth) {
  EXPECT_NO_THROW(CheckHeads("gpt", 768, 12));
  try {
    CheckHeads("gpt", 768, 7);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "gpt: heads must divide d_model, which is 768, got 7");
  }
}

}  // namespace
}  // namespace emplace::testing
