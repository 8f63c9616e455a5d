#include "sim/base/markup.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace emplace {

std::string HtmlText(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char c : text) {
    const auto* const entity = std::ranges::find(kEntities, c, &std::pair<char, std::string_view>::first);
    if (entity != std::end(kEntities)) {
      escaped += entity->second;
    } else {
      escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return escaped;
}

std::string MarkdownText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#&~").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string LatexText(std::string_view text) {
  constexpr std::pair<char, std::string_view> kCommands[] = {
      {'\\', "\\textbackslash{}"}, {'~', "\\textasciitilde{}"}, {'^', "\\textasciicircum{}"}, {'<', "\\textless{}"},
      {'>', "\\textgreater{}"},    {'|', "\\textbar{}"},        {'"', "\\textquotedbl{}"}};
  std::string escaped;
  for (const char c : text) {
    const auto* const command = std::ranges::find(kCommands, c, &std::pair<char, std::string_view>::first);
    if (command != std::end(kCommands)) {
      escaped += command->second;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped += ' ';
    } else {
      if (std::string_view("#$%&_{}").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace emplace
