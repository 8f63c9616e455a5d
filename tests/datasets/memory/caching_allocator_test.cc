#include "datasets/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(CachingAllocatorTest, SmallBlocksShareSegmentsOf2MiB) {
  CachingAllocator allocator;
  allocator.Allocate(1);
  EXPECT_EQ(allocator.allocated(), 512);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.Allocate(513);
  EXPECT_EQ(allocator.allocated(), 512 + 1024);
  allocator.Allocate(kMiB);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.Allocate(kMiB);
  EXPECT_EQ(allocator.reserved(), 4 * kMiB);
}

TEST(CachingAllocatorTest, LargeBlocksShareSegmentsOf20MiBUpTo10MiB) {
  CachingAllocator allocator;
  allocator.Allocate(kMiB + 1);
  EXPECT_EQ(allocator.allocated(), kMiB + 512);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.Allocate(10 * kMiB - 512);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.Allocate(11 * kMiB);  // a segment of its own, rounded up to 2 MiB
  EXPECT_EQ(allocator.reserved(), 32 * kMiB);
}

TEST(CachingAllocatorTest, ARestOfUpTo1MiBStaysWithALargeBlock) {
  CachingAllocator allocator;
  allocator.Allocate(11 * kMiB);
  EXPECT_EQ(allocator.allocated(), 12 * kMiB);
  allocator.Allocate(21 * kMiB - 512);  // 1 MiB + 512 B remain, which are split off
  EXPECT_EQ(allocator.allocated(), 33 * kMiB - 512);
}

TEST(CachingAllocatorTest, TheSmallestFreeBlockThatIsLargeEnoughIsTaken) {
  CachingAllocator allocator;
  const auto large = allocator.Allocate(40 * kMiB);
  const auto medium = allocator.Allocate(30 * kMiB);
  allocator.Free(large);
  allocator.Free(medium);
  EXPECT_EQ(allocator.allocated(), 0);
  allocator.Allocate(29 * kMiB);  // the 30 MiB: the rest of 1 MiB is not split off
  EXPECT_EQ(allocator.allocated(), 30 * kMiB);
  allocator.Allocate(40 * kMiB);
  EXPECT_EQ(allocator.reserved(), 70 * kMiB);
}

TEST(CachingAllocatorTest, AnExpandableSegmentGrowsAtItsEnd) {
  CachingAllocator allocator(/*expandable=*/true);
  const auto a = allocator.Allocate(30 * kMiB);
  const auto b = allocator.Allocate(20 * kMiB);
  EXPECT_EQ(allocator.reserved(), 50 * kMiB);
  allocator.Free(a);
  allocator.Free(b);
  allocator.Allocate(45 * kMiB);  // blocks of one segment merge
  EXPECT_EQ(allocator.reserved(), 50 * kMiB);
  allocator.Allocate(15 * kMiB);  // 5 MiB are free at the end
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
  allocator.Allocate(512);
  EXPECT_EQ(allocator.reserved(), 62 * kMiB) << "small blocks have a segment of their own";
}

TEST(CachingAllocatorTest, ARetiredBlockIsTakenAgainOnceItIsRecycled) {
  CachingAllocator allocator;
  const auto block = allocator.Allocate(20 * kMiB);
  allocator.Retire(block);
  EXPECT_EQ(allocator.allocated(), 0);
  allocator.Free(allocator.Allocate(20 * kMiB));
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  allocator.Recycle(block);
  allocator.Allocate(20 * kMiB);
  allocator.Allocate(20 * kMiB);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
}

TEST(CachingAllocatorTest, FreeNeighboursOfOneSegmentMerge) {
  CachingAllocator allocator;
  const auto a = allocator.Allocate(6 * kMiB);
  const auto b = allocator.Allocate(7 * kMiB);
  const auto c = allocator.Allocate(7 * kMiB);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.Free(a);
  allocator.Free(c);
  allocator.Free(b);
  allocator.Allocate(20 * kMiB);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  // Segments do not merge.
  CachingAllocator other;
  const auto first = other.Allocate(20 * kMiB);
  const auto second = other.Allocate(20 * kMiB);
  other.Free(first);
  other.Free(second);
  other.Allocate(40 * kMiB);
  EXPECT_EQ(other.reserved(), 80 * kMiB);
}

}  // namespace
}  // namespace emplace::datasets
