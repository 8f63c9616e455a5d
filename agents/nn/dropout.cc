#include "agents/nn/dropout.h"

#include <array>
#include <cmath>

namespace emplace::agents {

// Draws four 16-bit numbers at a time, lowest bits first. 16 of them are compared at a time, without a branch.
void DrawKept(Rng& rng, double rate, std::span<std::uint8_t> kept) {
  const auto bound = static_cast<std::uint32_t>(std::lround(rate * 65536));
  constexpr std::size_t kBlock = 16;
  std::size_t i = 0;
  for (; i + kBlock <= kept.size(); i += kBlock) {
    std::array<std::uint16_t, kBlock> drawn;
    for (std::size_t k = 0; k < kBlock; k += 4) {
      const std::uint64_t bits = rng.Next();
      for (std::size_t j = 0; j < 4; ++j) drawn[k + j] = static_cast<std::uint16_t>(bits >> (16 * j));
    }
    for (std::size_t k = 0; k < kBlock; ++k) kept[i + k] = drawn[k] >= bound ? 1 : 0;
  }
  std::uint64_t bits = 0;
  for (std::size_t k = 0; i < kept.size(); ++i, ++k, bits >>= 16) {
    if (k % 4 == 0) bits = rng.Next();
    kept[i] = (bits & 0xFFFFU) >= bound ? 1 : 0;
  }
}

Rng DropoutRng(std::uint64_t state_seed, std::size_t level) {
  return Rng(state_seed ^ (0x9e3779b97f4a7c15ULL * (level + 1)));
}

}  // namespace emplace::agents
