#ifndef EMPLACE_TESTS_FUZZ_ROUND_TRIP_H_
#define EMPLACE_TESTS_FUZZ_ROUND_TRIP_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "sim/base/check.h"

namespace emplace::fuzz {

// Aborts, so that the fuzzer keeps the input.
inline void Expect(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

inline std::string Text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Every InputError of a reader is one line that starts with the file's name.
inline void CheckMessage(const InputError& error, const std::string& file) {
  const std::string_view what = error.what();
  Expect(what.starts_with(file + ": ") && what.size() > file.size() + 2, "a message without a place", error.what());
  Expect(what.find('\n') == std::string_view::npos, "a message of several lines", error.what());
}

// Either `text` is refused with InputError, or writing what was read, reading it and writing it again gives the same
// bytes.
template <typename Read, typename Write>
void CheckRoundTrip(const std::string& text, Read read, Write write) {
  const auto written = [&](const auto& object) {
    std::ostringstream out;
    write(out, object);
    return out.str();
  };
  const auto reread = [&](const std::string& from) {
    std::istringstream in(from);
    return read(in, "FILE");
  };
  std::string first;
  try {
    first = written(reread(text));
  } catch (const InputError& error) {
    return CheckMessage(error, "FILE");
  }
  try {
    Expect(written(reread(first)) == first, "what was written is written otherwise", first);
  } catch (const InputError& error) {
    Expect(false, error.what(), first);
  }
}

}  // namespace emplace::fuzz

#endif  // EMPLACE_TESTS_FUZZ_ROUND_TRIP_H_
