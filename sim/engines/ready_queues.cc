#include "sim/engines/ready_queues.h"

#include <algorithm>
#include <array>
#include <cstdint>

// The machine's widest vectors are chosen when the program starts. A sanitizer's own start comes too late for that.
#if defined(__x86_64__) && defined(__linux__) && !defined(EMPLACE_SANITIZED) && !defined(__clang__)
#define EMPLACE_VECTOR_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define EMPLACE_VECTOR_CLONES
#endif

namespace emplace {

// Entry i of a sorted row with one more entry is max(entry i - 1, min(entry i, the new one)). Entries are below 2^63:
// signed numbers are what AVX2 compares. Not std::max: of references GCC 12 makes vectors of addresses.
EMPLACE_VECTOR_CLONES void SinkFar(std::uint64_t* end, std::uint64_t entry) {
  const auto* const before = reinterpret_cast<const std::int64_t*>(end) - kFar;
  const auto sinking = static_cast<std::int64_t>(entry);
  std::array<std::int64_t, kFar> after;
  for (std::size_t i = 0; i < kFar; ++i) {
    const std::int64_t left = before[i];
    const std::int64_t here = before[i + 1];
    const std::int64_t kept = here < sinking ? here : sinking;
    after[i] = left < kept ? kept : left;
  }
  std::copy_n(after.data(), kFar, end - kFar + 1);
}

}  // namespace emplace
