#include "sim/engines/ready_queues.h"

#include <cstddef>
#include <cstdint>

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/engines/ready_queues.cc"  // this file, once for each instruction set
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace emplace::HWY_NAMESPACE {

// Entry i of a sorted row with one more entry is max(entry i - 1, min(entry i, the new one)). Entries are below 2^63:
// signed numbers are what AVX2 compares. From the end to the front: what is written has been read.
void SinkFarOn(std::uint64_t* end, std::uint64_t entry) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::int64_t, kFar> tag;
  const std::size_t width = hn::Lanes(tag);
  auto* const row = reinterpret_cast<std::int64_t*>(end) - kFar;
  const auto sinking = hn::Set(tag, static_cast<std::int64_t>(entry));
  for (std::size_t behind = kFar; behind != 0; behind -= width) {
    std::int64_t* const at = row + behind - width;
    const auto left = hn::LoadU(tag, at);
    const auto here = hn::LoadU(tag, at + 1);
    hn::StoreU(hn::Max(left, hn::Min(here, sinking)), tag, at + 1);
  }
}

}  // namespace emplace::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace {

HWY_EXPORT(SinkFarOn);

void SinkFar(std::uint64_t* end, std::uint64_t entry) { HWY_DYNAMIC_DISPATCH(SinkFarOn)(end, entry); }

}  // namespace emplace
#endif  // HWY_ONCE
