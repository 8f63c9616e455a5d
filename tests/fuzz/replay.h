#ifndef EMPLACE_TESTS_FUZZ_REPLAY_H_
#define EMPLACE_TESTS_FUZZ_REPLAY_H_

#include <cstddef>
#include <cstdint>

namespace emplace::fuzz {

struct Target {
  const char* name;  // null behind the last one
  int (*run)(const std::uint8_t* data, std::size_t size);
};
extern const Target kTargets[];  // CMakeLists.txt generates them

}  // namespace emplace::fuzz

#endif  // EMPLACE_TESTS_FUZZ_REPLAY_H_
