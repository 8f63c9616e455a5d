#ifndef EMPLACE_SIM_BASE_RNG_H_
#define EMPLACE_SIM_BASE_RNG_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <utility>
#include <vector>

namespace emplace {

// The only source of randomness: the same seed gives the same numbers on every platform and with every standard
// library (the distributions of <random> differ between libraries).
// Source: xoshiro256** 1.0 (Blackman and Vigna 2018, "Scrambled linear pseudorandom number generators"), its state
// filled by SplitMix64 as its authors advise; bounded integers by Lemire's multiplication with rejection (2019,
// "Fast random integer generation in an interval").
class Rng {
 public:
  explicit Rng(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15ULL;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t Next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). Requires: bound > 0.
  std::uint64_t Below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(Next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(Next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform in [low, high], both included. Requires: low <= high.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(high - low) + 1));
  }

  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

  // The whole state as four numbers in text, for checkpoints.
  friend std::ostream& operator<<(std::ostream& out, const Rng& rng) {
    return out << rng.state_[0] << ' ' << rng.state_[1] << ' ' << rng.state_[2] << ' ' << rng.state_[3];
  }
  friend std::istream& operator>>(std::istream& in, Rng& rng) {
    return in >> rng.state_[0] >> rng.state_[1] >> rng.state_[2] >> rng.state_[3];
  }
  bool operator==(const Rng&) const = default;

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_RNG_H_
