#include "sim/network/collective_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace emplace {
namespace collective_flows_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::int64_t SentBy(const std::vector<CollectiveFlow>& flows, std::size_t device) {
  std::int64_t bytes = 0;
  for (const CollectiveFlow& flow : flows) bytes += flow.from == device ? flow.size.count : 0;
  return bytes;
}

TEST(CollectiveFlowsTest, ARingOfTwoHasTwoRounds) {
  const auto flows = CollectiveFlows(CollectiveKind::kAllReduce, Bytes{11}, 2, CollectiveAlgorithm::kRing);
  ASSERT_EQ(flows.size(), 4U);
  EXPECT_EQ(flows[0].from, 0U);
  EXPECT_EQ(flows[0].to, 1U);
  EXPECT_EQ(flows[0].size.count, 6);
  EXPECT_EQ(flows[1].size.count, 5);
  EXPECT_THAT(flows[0].after, IsEmpty());
  EXPECT_THAT(flows[2].after, ElementsAre(0, 1));
  EXPECT_EQ(flows[2].size.count, 5);  // the part received in the first round
}

// A flow brings its sender's values to its receiver: who holds whose part when, by the order of the flows.
TEST(CollectiveFlowsTest, EachPartReachesEveryDeviceOfARing) {
  constexpr std::size_t kDevices = 5;
  const auto flows = CollectiveFlows(CollectiveKind::kAllGather, Bytes{1003}, kDevices, CollectiveAlgorithm::kRing);
  EXPECT_EQ(flows.size(), kDevices * (kDevices - 1));
  // In round r a device sends the part of the device r before it, which it got in the round before.
  std::map<std::pair<std::size_t, std::size_t>, bool> holds;
  for (std::size_t d = 0; d < kDevices; ++d) holds[{d, d}] = true;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const std::size_t part = (flows[i].from + kDevices - i / kDevices) % kDevices;
    const auto held = holds[{flows[i].from, part}];
    EXPECT_TRUE(held) << i;
    EXPECT_EQ(flows[i].size.count, part < 3 ? 201 : 200) << i;
    holds[{flows[i].to, part}] = true;
  }
  for (const auto& [key, value] : holds) EXPECT_TRUE(value);
  EXPECT_EQ(holds.size(), kDevices * kDevices);
}

TEST(CollectiveFlowsTest, ReductionsMoveWhatTheirFormulasSay) {
  const Bytes size{8'000};
  for (const std::size_t n : {2U, 4U, 8U}) {
    const auto count = static_cast<std::int64_t>(n);
    const auto bytes = [&](CollectiveKind kind) {
      return SentBy(CollectiveFlows(kind, size, n, CollectiveAlgorithm::kRing), 1);
    };
    EXPECT_EQ(bytes(CollectiveKind::kAllReduce), 2 * (count - 1) * size.count / count);
    EXPECT_EQ(bytes(CollectiveKind::kReduceScatter), (count - 1) * size.count / count);
    EXPECT_EQ(bytes(CollectiveKind::kAllToAll), (count - 1) * size.count / count);
  }
}

TEST(CollectiveFlowsTest, ATreeGoesUpAndDown) {
  const auto flows = CollectiveFlows(CollectiveKind::kAllReduce, Bytes{3 * kTreePart}, 4, CollectiveAlgorithm::kTree);
  ASSERT_EQ(flows.size(), 3U * 6);
  // Up from 3 to 1, from 2 and from 1 to 0; down to 1, 2 and 3.
  std::vector<std::pair<std::size_t, std::size_t>> ways;
  for (std::size_t i = 0; i < 6; ++i) ways.emplace_back(flows[i].from, flows[i].to);
  EXPECT_THAT(ways, ElementsAre(std::pair(3, 1), std::pair(2, 0), std::pair(1, 0), std::pair(0, 1), std::pair(0, 2),
                                std::pair(1, 3)));
  EXPECT_THAT(flows[2].after, ElementsAre(0));     // the part that 1 sends includes that of 3
  EXPECT_THAT(flows[3].after, ElementsAre(2, 1));  // the root has all
  EXPECT_THAT(flows[5].after, ElementsAre(3));
  EXPECT_THAT(flows[8].after, ElementsAre(6, 2));  // the second part follows the first
  for (const CollectiveFlow& flow : flows) EXPECT_EQ(flow.size.count, kTreePart);
  const auto large =
      CollectiveFlows(CollectiveKind::kAllReduce, Bytes{1000 * kTreePart}, 2, CollectiveAlgorithm::kTree);
  EXPECT_EQ(large.size(), 2U * kMostTreeParts);
}

TEST(CollectiveFlowsTest, ABroadcastFollowsAChainInParts) {
  const auto flows = CollectiveFlows(CollectiveKind::kBroadcast, Bytes{1600}, 3, CollectiveAlgorithm::kRing);
  ASSERT_EQ(flows.size(), 2U * kBroadcastParts);
  EXPECT_THAT(flows[1].after, ElementsAre(0));
  EXPECT_THAT(flows[2].after, ElementsAre(0));
  EXPECT_THAT(flows[3].after, ElementsAre(2, 1));
  EXPECT_EQ(SentBy(flows, 0), 1600);
  EXPECT_EQ(SentBy(flows, 2), 0);
  const auto pair = CollectiveFlows(CollectiveKind::kSendReceive, Bytes{7}, 2, CollectiveAlgorithm::kDirect);
  ASSERT_EQ(pair.size(), 1U);
  EXPECT_EQ(pair[0].size.count, 7);
}

}  // namespace collective_flows_test
}  // namespace emplace
