#include "datasets/memory/rank_program.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "datasets/memory/caching_allocator.h"
#include "sim/base/check.h"

namespace emplace::datasets {

std::string_view Name(MemoryClass memory_class) {
  constexpr std::array<std::string_view, kNumMemoryClasses> kNames = {
      "weights", "gradients", "optimizer", "activations", "logits", "temporary", "communication"};
  return kNames[static_cast<std::size_t>(memory_class)];
}

RankProgram::Buffer RankProgram::Allocate(std::string_view label, std::int64_t bytes, MemoryClass memory_class) {
  EMPLACE_CHECK(bytes >= 0);
  const auto buffer = static_cast<Buffer>(buffers_.size());
  buffers_.push_back(
      {.label = label, .bytes = bytes, .memory_class = memory_class, .owners = 1, .is_in_pool = uses_pool_});
  if (bytes > 0) events_.push_back({.buffer = buffer});
  return buffer;
}

void RankProgram::Release(Buffer buffer) {
  Entry& entry = buffers_[buffer];
  EMPLACE_CHECK(entry.owners > 0);
  if (--entry.owners == 0 && entry.bytes > 0) events_.push_back({.buffer = buffer, .kind = EventKind::kFree});
}

void RankProgram::ReleaseLate(Buffer buffer, std::int64_t kernels) {
  const std::size_t before = events_.size();
  Release(buffer);
  if (events_.size() > before) events_.back() = {.buffer = buffer, .kind = EventKind::kFreeLate, .kernels = kernels};
}

void RankProgram::Mark(std::string moment) { moments_.push_back({.event = events_.size(), .text = std::move(moment)}); }

RankPeak PeakOf(const RankProgram& program) {
  RankPeak peak;
  CachingAllocator allocator(program.expands_segments_);
  std::vector<CachingAllocator::Handle> blocks(program.buffers_.size());
  std::vector<std::int64_t> block_bytes(program.buffers_.size());
  std::size_t peak_event = 0;
  std::int64_t launched = 0;
  std::deque<std::pair<std::int64_t, RankProgram::Buffer>> late;  // by the number of kernels after which they are free
  const auto recycle = [&](std::int64_t until) {
    for (; !late.empty() && late.front().first <= until; late.pop_front()) {
      allocator.Recycle(blocks[late.front().second]);
    }
  };
  for (std::size_t i = 0; i < program.events_.size(); ++i) {
    const auto [buffer, kind, kernels] = program.events_[i];
    switch (kind) {
      case RankProgram::EventKind::kAllocate:
        break;
      case RankProgram::EventKind::kFree:
        if (!program.buffers_[buffer].is_in_pool) allocator.Retire(blocks[buffer]);
        allocator.Recycle(blocks[buffer]);
        continue;
      case RankProgram::EventKind::kFreeLate:
        if (!program.buffers_[buffer].is_in_pool) allocator.Retire(blocks[buffer]);
        late.emplace_back(launched + kernels, buffer);
        continue;
      case RankProgram::EventKind::kLaunch:
        recycle(launched += kernels);
        continue;
      case RankProgram::EventKind::kSynchronize:
        recycle(std::numeric_limits<std::int64_t>::max());
        continue;
    }
    blocks[buffer] = allocator.Allocate(program.buffers_[buffer].bytes);
    block_bytes[buffer] = blocks[buffer]->bytes;
    if (program.buffers_[buffer].is_in_pool) allocator.Retire(blocks[buffer]);
    peak.reserved_bytes = std::max(peak.reserved_bytes, allocator.reserved());
    if (allocator.allocated() <= peak.allocated_bytes) continue;
    peak.allocated_bytes = allocator.allocated();
    peak_event = i;
  }
  peak.end_bytes = allocator.allocated();
  if (program.events_.empty()) return peak;

  std::vector<bool> is_held(program.buffers_.size());
  for (std::size_t i = 0; i <= peak_event; ++i) {
    const RankProgram::EventKind kind = program.events_[i].kind;
    if (kind == RankProgram::EventKind::kAllocate) is_held[program.events_[i].buffer] = true;
    if (kind == RankProgram::EventKind::kFree || kind == RankProgram::EventKind::kFreeLate) {
      is_held[program.events_[i].buffer] = false;
    }
  }
  std::map<std::pair<std::string_view, MemoryClass>, MemoryHolder> holders;
  for (std::size_t buffer = 0; buffer < is_held.size(); ++buffer) {
    if (!is_held[buffer] || program.buffers_[buffer].is_in_pool) continue;
    const RankProgram::Entry& entry = program.buffers_[buffer];
    peak.classes[static_cast<std::size_t>(entry.memory_class)] += block_bytes[buffer];
    MemoryHolder& holder = holders[{entry.label, entry.memory_class}];
    holder.label = entry.label;
    holder.memory_class = entry.memory_class;
    ++holder.buffers;
    holder.bytes += block_bytes[buffer];
  }
  for (auto& [key, holder] : holders) peak.holders.push_back(std::move(holder));
  std::stable_sort(peak.holders.begin(), peak.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  for (const RankProgram::Moment& moment : program.moments_) {
    if (moment.event <= peak_event) peak.moment = moment.text;
  }
  return peak;
}

}  // namespace emplace::datasets
