#ifndef EMPLACE_SIM_BASE_MARKUP_H_
#define EMPLACE_SIM_BASE_MARKUP_H_

#include <string>
#include <string_view>

namespace emplace {

// Escapes `text` for use between tags and in attributes of HTML or XML. Control characters but newlines become "?".
std::string HtmlText(std::string_view text);

// Escapes `text` for Markdown. Characters that would be markup, an HTML tag or an entity get a backslash; control
// characters become spaces. Also valid in a table cell.
std::string MarkdownText(std::string_view text);

// Escapes `text` for LaTeX, of one line: control characters become spaces. Also valid in a table cell and a caption.
std::string LatexText(std::string_view text);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_MARKUP_H_
