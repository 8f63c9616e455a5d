#ifndef EMPLACE_SIM_BASE_PRINTABLE_H_
#define EMPLACE_SIM_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

// Header-only, as check.h is: the library that talks to CUPTI links nothing of emplace's.
namespace emplace {

// The length of the UTF-8 sequence that `text` starts with; 0 if it starts with none. Source: the table of well-formed
// byte sequences in the Unicode standard (3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
inline std::size_t Utf8Length(std::string_view text) {
  const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&at](std::size_t i) { return at(i) >= 0x80 && at(i) <= 0xbf; };
  const unsigned first = at(0);
  const unsigned second = at(1);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool in_range = (first != 0xe0 || second >= 0xa0) && (first != 0xed || second <= 0x9f);
    return in_range && tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool in_range = (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second <= 0x8f);
    return in_range && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

namespace internal {

// The code point of a sequence of one, two or three bytes.
inline unsigned ShortCodePoint(std::string_view sequence) {
  const auto at = [sequence](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(sequence[i])); };
  if (sequence.size() == 1) return at(0);
  if (sequence.size() == 2) return (at(0) & 0x1fU) << 6U | (at(1) & 0x3fU);
  return (at(0) & 0xfU) << 12U | (at(1) & 0x3fU) << 6U | (at(2) & 0x3fU);
}

// Controls (C0, DEL, C1), marks that turn the direction of writing, and the two that end a line or paragraph. All of
// them have a code point below 0x10000.
inline bool MovesTheTerminal(unsigned code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f) || code_point == 0x61c ||
         code_point == 0x200e || code_point == 0x200f || (code_point >= 0x2028 && code_point <= 0x202e) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

inline void AppendHex(std::string* out, unsigned value, unsigned digits) {
  while (digits-- > 0) out->push_back("0123456789abcdef"[value >> (4 * digits) & 0xfU]);
}

}  // namespace internal

// `text` for a terminal, on one line. Names come from files and arguments and may hold anything: what would move the
// cursor, end the line or turn the direction of writing becomes \n, \t or \uXXXX, and a byte that is not valid UTF-8
// becomes \xXX. Everything else stays, backslashes too, so that what is printable already stays as it is.
inline std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const std::string_view sequence = text.substr(0, length);
    if (length == 0) {
      printable += "\\x";
      internal::AppendHex(&printable, static_cast<unsigned char>(text[0]), 2);
    } else if (length == 4 || !internal::MovesTheTerminal(internal::ShortCodePoint(sequence))) {
      printable += sequence;
    } else if (text[0] == '\n' || text[0] == '\t') {
      printable += text[0] == '\n' ? "\\n" : "\\t";
    } else {
      printable += "\\u";
      internal::AppendHex(&printable, internal::ShortCodePoint(sequence), 4);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return printable;
}

// A line for people: of a longer text the beginning and the end, with "..." between them. Names from files have any
// length, and what is allowed stands at the end of a message.
inline std::string Shortened(std::string text) {
  constexpr std::size_t kLongest = 4000;
  constexpr std::size_t kEnd = 1000;
  if (text.size() <= kLongest) return text;
  const auto is_inside = [&text](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80; };
  std::size_t begin = kLongest - kEnd;
  std::size_t end = text.size() - kEnd;
  while (is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return text.replace(begin, end - begin, "...");
}

// "3 trials", "1 trial", "2 processes", "4 micro-batches".
inline std::string Counted(std::size_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1) text += noun.ends_with('s') || noun.ends_with("ch") ? "es" : "s";
  return text;
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_PRINTABLE_H_
