#ifndef EMPLACE_SIM_FINGERPRINT_H_
#define EMPLACE_SIM_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace emplace {

// A number that tells contents apart: pieces of text in order, each ended, so that "ab" "c" is not "a" "bc". It guards
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

}  // namespace emplace

#endif  // EMPLACE_SIM_FINGERPRINT_H_
