#include "datasets/memory/caching_allocator.h"

#include <iterator>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kRounding = 512;
constexpr std::int64_t kSmallBlock = std::int64_t{1} << 20;
constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
constexpr std::int64_t kLargeSegment = std::int64_t{20} << 20;
constexpr std::int64_t kOwnSegment = std::int64_t{10} << 20;  // blocks from this size on have segments of their own
constexpr std::int64_t kSegmentRounding = std::int64_t{2} << 20;

std::int64_t RoundUp(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::int64_t SegmentBytes(std::int64_t bytes) {
  if (bytes <= kSmallBlock) return kSmallSegment;
  return bytes < kOwnSegment ? kLargeSegment : RoundUp(bytes, kSegmentRounding);
}

}  // namespace

CachingAllocator::Handle CachingAllocator::Allocate(std::int64_t bytes) {
  EMPLACE_CHECK(bytes > 0);
  bytes = RoundUp(bytes, kRounding);
  const bool is_small = bytes <= kSmallBlock;
  FreeBlocks& free = is_small ? free_small_ : free_large_;
  Handle block;
  if (const auto found = free.lower_bound(bytes); found != free.end()) {
    block = *found;
    free.erase(found);
  } else {
    block = AddMemory(bytes, is_small);
  }
  const std::int64_t remaining = block->bytes - bytes;
  if (is_small ? remaining >= kRounding : remaining > kSmallBlock) {
    const Handle rest = BlocksOf(is_small).insert(
        std::next(block),
        {.bytes = remaining, .address = block->address + bytes, .is_small = is_small, .is_free = true});
    free.insert(rest);
    block->bytes = bytes;
  }
  block->is_free = false;
  allocated_ += block->bytes;
  return block;
}

CachingAllocator::Handle CachingAllocator::AddMemory(std::int64_t bytes, bool is_small) {
  Blocks& blocks = BlocksOf(is_small);
  if (!expandable_) {
    const std::int64_t segment = SegmentBytes(bytes);
    blocks.push_back({.bytes = segment, .address = next_address_, .is_small = is_small, .begins_segment = true});
    next_address_ += segment;
    reserved_ += segment;
    return std::prev(blocks.end());
  }
  constexpr std::int64_t kPage = std::int64_t{2} << 20;
  if (blocks.empty() || !blocks.back().is_free) {
    const std::int64_t end = blocks.empty() ? 0 : blocks.back().address + blocks.back().bytes;
    blocks.push_back({.address = end, .is_small = is_small});
  } else {
    FreeOf(blocks.back()).erase(std::prev(blocks.end()));
  }
  const std::int64_t grown = RoundUp(bytes - blocks.back().bytes, kPage);
  blocks.back().bytes += grown;
  reserved_ += grown;
  return std::prev(blocks.end());
}

void CachingAllocator::Recycle(Handle block) {
  Blocks& blocks = BlocksOf(block->is_small);
  FreeBlocks& free = FreeOf(*block);
  if (const Handle next = std::next(block); next != blocks.end() && next->is_free && !next->begins_segment) {
    free.erase(next);
    block->bytes += next->bytes;
    blocks.erase(next);
  }
  if (!block->begins_segment && block != blocks.begin() && std::prev(block)->is_free) {
    const Handle before = std::prev(block);
    free.erase(before);
    before->bytes += block->bytes;
    blocks.erase(block);
    block = before;
  }
  block->is_free = true;
  free.insert(block);
}

}  // namespace emplace::datasets
