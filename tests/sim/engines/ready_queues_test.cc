#include "sim/engines/ready_queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <set>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace {

using FarInsertionTest = testing::OnVectorTarget;
INSTANTIATE_TEST_SUITE_P(Targets, FarInsertionTest, ::testing::ValuesIn(SupportedVectorTargets()),
                         testing::VectorTargetOf);

// Rows of no more than a block, and of several.
template <typename Entry>
void InsertsAtEveryPlace() {
  constexpr std::size_t kBlock = kFar;
  for (const std::size_t size : {std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
    for (std::size_t place = 0; place <= size; ++place) {
      std::vector<Entry> row(kBlock + size + 1, Entry{0});
      for (std::size_t i = 0; i < size; ++i) row[kBlock + i] = Entry{10 * i + 10};
      row.back() = static_cast<Entry>(std::numeric_limits<std::int64_t>::max());
      const Entry entry{10 * place + 5};
      std::vector<Entry> expected(row.begin(), row.end() - 1);
      expected.push_back(entry);
      std::sort(expected.begin(), expected.end());
      FarInsertion<Entry>()(&row.back(), entry);
      EXPECT_TRUE(row == expected) << place << " of " << size;
    }
  }
}

TEST_P(FarInsertionTest, EveryPlaceInTheRow) { InsertsAtEveryPlace<std::uint64_t>(); }

__extension__ using Wide = unsigned __int128;

TEST(WideFarInsertionTest, EveryPlaceInTheRow) { InsertsAtEveryPlace<Wide>(); }

// Compared with a set: pushes far in front of others, long queues, and queues that become empty.
template <typename Entry>
void AgreesWithASet(std::uint64_t seed, std::size_t devices, std::size_t in_flight, std::uint64_t spread) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << in_flight << " waiting, spread " << spread);
  constexpr std::size_t kPushes = 20'000;
  Rng rng(seed);
  std::vector<DeviceId> placement;
  for (std::size_t i = 0; i < kPushes; ++i) placement.push_back(MakeId<DeviceId>(rng.Below(devices)));
  const Entry none = static_cast<Entry>(std::numeric_limits<std::int64_t>::max());
  ReadyQueues<Entry> queues;
  queues.Prepare(kPushes, devices, Entry{0}, none);
  for (int run = 0; run < 2; ++run) {  // the second reuses the queue of the first
    queues.Reset(placement);
    std::vector<std::set<Entry>> expected(devices);
    std::size_t waiting = 0;
    std::uint64_t now = 1;
    for (std::size_t next = 0; next < kPushes || waiting > 0;) {
      const bool push = next < kPushes && (waiting == 0 || rng.Below(2 * in_flight) > waiting);
      if (push) {
        const std::size_t device = Index(placement[next]);
        const Entry entry = static_cast<Entry>(((now + rng.Below(spread)) << 20) | next);
        queues.Push(device, entry);
        expected[device].insert(entry);
        ++next;
        ++waiting;
      } else {
        std::size_t device = rng.Below(devices);
        while (expected[device].empty()) device = (device + 1) % devices;
        now = std::max(now, static_cast<std::uint64_t>(*expected[device].begin()) >> 20);
        expected[device].erase(expected[device].begin());
        queues.Pop(device);
        --waiting;
      }
      for (std::size_t d = 0; d < devices; ++d) {
        ASSERT_TRUE(queues.front(d) == (expected[d].empty() ? none : *expected[d].begin())) << next;
      }
    }
  }
}

using ReadyQueuesTest = testing::OnVectorTarget;
INSTANTIATE_TEST_SUITE_P(Targets, ReadyQueuesTest, ::testing::ValuesIn(SupportedVectorTargets()),
                         testing::VectorTargetOf);

TEST_P(ReadyQueuesTest, AgreesWithASet) {
  std::uint64_t seed = 1;
  for (const std::size_t in_flight : {3U, 40U, 300U, 2'000U, 9'000U}) {
    for (const std::uint64_t spread : {1U, 30U, 2'000U, 1'000'000U}) {
      for (const std::size_t devices : {1U, 3U}) {
        AgreesWithASet<std::uint64_t>(seed++, devices, in_flight, spread);
      }
    }
  }
}

TEST(WideReadyQueuesTest, AgreesWithASet) {
  AgreesWithASet<Wide>(41, 3, 300, 2'000);
  AgreesWithASet<Wide>(42, 3, 9'000, 1'000'000);
}

}  // namespace
}  // namespace emplace
