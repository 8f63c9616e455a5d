#ifndef EMPLACE_TOOLS_NUMBERS_H_
#define EMPLACE_TOOLS_NUMBERS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace emplace::tools {

// Transforms of options, to be given to CLI::Option::transform. CLI11's own take -1 for 2^64 - 1 and 010 for 8, and
// their messages hold the text as it is; these name the text, quoted, and what is allowed.

// A decimal integer, low <= it <= high.
CLI::Validator IntegerFrom(std::uint64_t low, std::uint64_t high = std::numeric_limits<std::uint64_t>::max());
// A decimal number, low <= it <= high.
CLI::Validator NumberFrom(double low, double high);

// For options of every kind: an empty text is no value.
CLI::Validator NotEmpty();

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_NUMBERS_H_
