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

// Moves blocks of kFar entries until the block contains the position. Within it, entry i becomes max(entry i - 1,
// min(entry i, the new one)). Entries are below 2^63, because AVX2 compares signed numbers. Goes from the end to the
// front, so that every entry is read before it is overwritten.
void InsertFarOn(std::uint64_t* unsigned_end, std::uint64_t unsigned_entry) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::int64_t, kFar> tag;
  const auto width = static_cast<std::ptrdiff_t>(hn::Lanes(tag));
  auto* end = reinterpret_cast<std::int64_t*>(unsigned_end);
  const auto entry = static_cast<std::int64_t>(unsigned_entry);
  for (; entry < end[-kFar]; end -= kFar) {
    for (std::ptrdiff_t behind = width; behind <= kFar; behind += width) {
      hn::StoreU(hn::LoadU(tag, end - behind), tag, end - behind + 1);
    }
  }
  const auto sinking = hn::Set(tag, entry);
  for (std::ptrdiff_t behind = width; behind <= kFar; behind += width) {
    std::int64_t* const at = end - behind;
    const auto left = hn::LoadU(tag, at);
    const auto here = hn::LoadU(tag, at + 1);
    hn::StoreU(hn::Max(left, hn::Min(here, sinking)), tag, at + 1);
  }
}

}  // namespace emplace::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "sim/base/vector_targets.h"

namespace emplace {

HWY_EXPORT(InsertFarOn);

template <>
Insertion<std::uint64_t> FarInsertion() {
  // Until a target is chosen, the table has a function that chooses at each call.
  static_cast<void>(ChosenVectorTarget());
  return &HWY_DYNAMIC_DISPATCH(InsertFarOn);
}

}  // namespace emplace
#endif  // HWY_ONCE
