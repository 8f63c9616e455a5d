#include "agents/nn/dropout.h"

#include <cmath>

namespace emplace {

void DrawKept(Rng& rng, double rate, std::span<std::uint8_t> kept) {
  const auto bound = static_cast<std::uint64_t>(std::lround(rate * 65536));
  std::size_t i = 0;
  for (; i + 4 <= kept.size(); i += 4) {
    const std::uint64_t bits = rng.Next();
    for (std::size_t k = 0; k < 4; ++k) kept[i + k] = ((bits >> (16 * k)) & 0xFFFFU) >= bound ? 1 : 0;
  }
  for (std::uint64_t bits = i < kept.size() ? rng.Next() : 0; i < kept.size(); ++i, bits >>= 16) {
    kept[i] = (bits & 0xFFFFU) >= bound ? 1 : 0;
  }
}

Rng DropoutRng(std::uint64_t state_seed, std::size_t level) {
  return Rng(state_seed ^ (0x9e3779b97f4a7c15ULL * (level + 1)));
}

}  // namespace emplace
