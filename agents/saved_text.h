#ifndef EMPLACE_AGENTS_SAVED_TEXT_H_
#define EMPLACE_AGENTS_SAVED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::agents {

// Agents and searches are saved as text: words and numbers, separated by blanks. Each Load function throws InputError
// on text that its Save function did not write. Classes list their fields: agents/saved_state.h.

void ExpectWord(std::istream& in, std::string_view word);
std::uint64_t LoadNumber(std::istream& in);  // written by <<: no sign, no leading zeros
// The words that a file starts with, one blank between them and behind them.
void ExpectHead(std::istream& in, std::string_view word, std::string_view version);
// Doubles and floats are stored exactly: a double as the integer with its bits, floats as bytes.
void SaveDouble(std::ostream& out, double value);
double LoadDouble(std::istream& in);
void SaveFloats(std::ostream& out, std::span<const float> values);
std::vector<float> LoadFloats(std::istream& in);
// A text of any characters, preceded by its length. A length above `most` is rejected before memory is allocated.
void SaveText(std::ostream& out, const std::string& text);
std::string LoadText(std::istream& in, std::size_t most);
// Throws the InputError of a Load function that did not find `expected`, for example "a number".
[[noreturn]] void RefuseSaved(const std::string& expected);

// A file written only by emplace: `head`, words such as "emplace.checkpoint 7", a blank and the fingerprint of `body`,
// a newline, and `body`.
void WriteSealed(std::ostream& out, const std::string& head, const std::string& body);
// Returns the body, after the head was read. Throws InputError unless the fingerprint matches it.
std::string ReadSealed(std::istream& in);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SAVED_TEXT_H_
