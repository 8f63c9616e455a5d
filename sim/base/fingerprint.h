#ifndef EMPLACE_SIM_BASE_FINGERPRINT_H_
#define EMPLACE_SIM_BASE_FINGERPRINT_H_

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace emplace {

// A number to distinguish contents: pieces of text in order, each ended, so that "ab" "c" is not "a" "bc". It guards
// against mistakes and damage, not against an adversary.
// Source: FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
class Fingerprint {
 public:
  void Add(std::string_view text) {
    for (const char c : text) Mix(static_cast<unsigned char>(c));
    Mix(0);
  }
  std::uint64_t value() const { return hash_; }

 private:
  void Mix(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// The fingerprint of one text. Every change of one byte changes it: each step is a bijection of what came before.
inline std::uint64_t FingerprintOf(std::string_view text) {
  Fingerprint fingerprint;
  fingerprint.Add(text);
  return fingerprint.value();
}

// The same as 16 hexadecimal digits.
inline std::string FingerprintText(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  std::array<char, kDigits> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + kDigits, FingerprintOf(text), 16);
  const auto length = static_cast<std::size_t>(result.ptr - digits.data());
  return std::string(kDigits - length, '0').append(digits.data(), length);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_FINGERPRINT_H_
