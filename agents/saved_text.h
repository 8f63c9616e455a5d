#ifndef EMPLACE_AGENTS_SAVED_TEXT_H_
#define EMPLACE_AGENTS_SAVED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/placement.h"

namespace emplace::agents {

// What agents and searches save is text: words, numbers and placements, separated by blanks. Each Load function throws
// InputError on text that its Save function did not write.

void ExpectWord(std::istream& in, std::string_view word);
std::uint64_t LoadNumber(std::istream& in);  // written by <<
// Doubles and floats are kept exactly: a double as the number that its bits are, floats as bytes.
void SaveDouble(std::ostream& out, double value);
double LoadDouble(std::istream& in);
void SaveOptionalDouble(std::ostream& out, const std::optional<double>& value);
std::optional<double> LoadOptionalDouble(std::istream& in);
void SaveFloats(std::ostream& out, std::span<const float> values);
std::vector<float> LoadFloats(std::istream& in);
void SavePlacement(std::ostream& out, const Placement& placement);
Placement LoadPlacement(std::istream& in);
// A text of any characters, its length in front. A length above `most` is refused before memory is taken.
void SaveText(std::ostream& out, const std::string& text);
std::string LoadText(std::istream& in, std::size_t most);
// Throws the InputError of a Load function that did not find what it `expected`: "a number".
[[noreturn]] void RefuseSaved(const std::string& expected);

// A file that only emplace writes: `head`, words such as "emplace.checkpoint 4", a blank and the fingerprint of `body`,
// the end of a line, and `body`.
void WriteSealed(std::ostream& out, const std::string& head, const std::string& body);
// The body, once the head has been read. Throws InputError unless the fingerprint matches it.
std::string ReadSealed(std::istream& in);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SAVED_TEXT_H_
