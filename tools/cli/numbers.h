#ifndef EMPLACE_TOOLS_CLI_NUMBERS_H_
#define EMPLACE_TOOLS_CLI_NUMBERS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace emplace::tools {

// Transforms of options, for CLI::Option::transform. CLI11's own accept -1 as 2^64 - 1 and 010 as 8, and their messages
// contain the raw text. These quote the text and name the allowed values.

// A decimal integer from low to high, both included.
CLI::Validator IntegerFrom(std::uint64_t low, std::uint64_t high = std::numeric_limits<std::uint64_t>::max());
// A decimal number from low to high, both included.
CLI::Validator NumberFrom(double low, double high);

// Rejects an empty text, for options of every kind.
CLI::Validator NotEmpty();

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_NUMBERS_H_
