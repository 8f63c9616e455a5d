#include "datasets/importers/mlir_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

bool IsMlirWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$';
}
bool IsMlirDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

void MlirLexer::SkipBlanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

std::size_t MlirLexer::EndOfText(std::size_t begin) const {
  for (std::size_t i = begin + 1; i < text_.size(); ++i) {
    if (text_[i] == '\\')
      ++i;
    else if (text_[i] == '"')
      return i + 1;
  }
  throw InputError(fmt::format("line {}", line_), "a text between quotes does not end");
}

std::size_t MlirLexer::EndOfAngles(std::size_t begin) const {
  int depth = 0;
  for (std::size_t i = begin; i < text_.size(); ++i) {
    if (text_[i] == '"')
      i = EndOfText(i) - 1;
    else if (text_[i] == '<')
      ++depth;
    else if (text_[i] == '>' && text_[i - 1] != '-' && --depth == 0)
      return i + 1;
  }
  throw InputError(fmt::format("line {}", line_), "an angle bracket is not closed (the file is cut off)");
}

void MlirLexer::Advance() {
  SkipBlanks();
  next_ = {.kind = MlirToken::Kind::kEnd, .text = {}, .line = line_};
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  std::size_t end = at_ + 1;
  const auto word = [&] {
    while (end < text_.size() && IsMlirWordChar(text_[end])) ++end;
  };
  using Kind = MlirToken::Kind;
  if (c == '%') {
    next_.kind = Kind::kValue;
    word();
    if (end + 1 < text_.size() && text_[end] == '#' && IsMlirDigit(text_[end + 1])) {
      ++end;
      while (end < text_.size() && IsMlirDigit(text_[end])) ++end;
    }
  } else if (c == '@') {
    next_.kind = Kind::kSymbol;
    if (end < text_.size() && text_[end] == '"')
      end = EndOfText(end);
    else
      word();
  } else if (c == '"') {
    next_.kind = Kind::kText;
    end = EndOfText(at_);
  } else if (c == '#' || c == '!' || std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
    next_.kind = c == '#' ? Kind::kHash : Kind::kWord;
    word();
    if (end < text_.size() && text_[end] == '<' && text_.substr(end, 2) != "<{") end = EndOfAngles(end);
  } else if (IsMlirDigit(c) || (c == '-' && end < text_.size() && IsMlirDigit(text_[end]))) {
    next_.kind = Kind::kNumber;
    word();
    const bool has_exponent = end < text_.size() && (text_[end] == '+' || text_[end] == '-') && text_[end - 1] == 'e';
    if (has_exponent) {
      ++end;
      word();
    }
  } else if (text_.substr(at_, 2) == "->") {
    next_.kind = Kind::kArrow;
    ++end;
  } else {
    next_.kind = Kind::kSign;
  }
  next_.text = text_.substr(at_, end - at_);
  line_ += static_cast<std::size_t>(std::count(next_.text.begin(), next_.text.end(), '\n'));
  at_ = end;
}

}  // namespace emplace::datasets
