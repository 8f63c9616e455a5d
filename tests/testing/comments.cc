#include "tests/testing/comments.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace emplace::testing {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_./-*").find(c) != std::string_view::npos;
}

bool IsFileName(const std::string& name) {
  const std::size_t point = name.rfind('.');
  if (point == std::string::npos || point == 0) return false;
  const std::string_view ending = std::string_view(name).substr(point + 1);
  if (name.find('/') == std::string::npos) {
    static constexpr std::array<std::string_view, 4> kEndings = {"md", "cc", "h", "yaml"};
    return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
  }
  return !ending.empty() && ending.size() <= 5 && std::islower(static_cast<unsigned char>(ending[0])) != 0 &&
         std::all_of(ending.begin(), ending.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)); });
}

void AppendNames(const std::string& comment, int line, std::vector<NamedFile>* files) {
  for (std::size_t at = 0; at < comment.size();) {
    if (!IsNameCharacter(comment[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < comment.size() && IsNameCharacter(comment[end])) ++end;
    const char before = at == 0 ? ' ' : comment[at - 1];
    const char after = end == comment.size() ? ' ' : comment[end];
    std::string name = comment.substr(at, end - at);
    at = end;
    if (std::string_view(":$}").find(before) != std::string_view::npos || (before == '<' && after == '>')) continue;
    if (after == '{' && name.ends_with('.')) {
      const std::size_t comma = comment.find(',', end);
      const std::size_t close = comment.find('}', end);
      if (comma < close && close != std::string::npos) {
        for (const std::string& ending :
             {comment.substr(end + 1, comma - end - 1), comment.substr(comma + 1, close - comma - 1)}) {
          if (IsFileName(name + ending)) files->push_back({.line = line, .name = name + ending});
        }
        at = close + 1;
      }
      continue;
    }
    while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
    if (IsFileName(name)) files->push_back({.line = line, .name = name});
  }
}

// The comments of a C++ source; all other text is blank, except line breaks.
std::string CommentsOfCpp(const std::string& source) {
  std::string out(source.size(), ' ');
  std::size_t at = 0;
  const auto skip_to = [&](std::size_t end, bool comment) {
    end = std::min(end, source.size());
    for (; at < end; ++at) out[at] = comment || source[at] == '\n' ? source[at] : ' ';
  };
  const auto past = [&](const std::string& what, std::size_t from) {
    const std::size_t found = source.find(what, from);
    return found == std::string::npos ? source.size() : found + what.size();
  };
  while (at < source.size()) {
    if (source.compare(at, 2, "//") == 0) {
      skip_to(at + 2, false);
      skip_to(source.find('\n', at), true);
    } else if (source.compare(at, 2, "/*") == 0) {
      skip_to(at + 2, false);
      skip_to(past("*/", at) - 2, true);
      skip_to(at + 2, false);
    } else if (source.compare(at, 2, "R\"") == 0 && source.find('(', at) != std::string::npos) {
      const std::size_t open = source.find('(', at);
      skip_to(past(")" + source.substr(at + 2, open - at - 2) + "\"", open), false);
    } else if (source[at] == '"' || (source[at] == '\'' && at > 0 && !IsNameCharacter(source[at - 1]))) {
      std::size_t end = at + 1;
      while (end < source.size() && source[end] != source[at]) end += source[end] == '\\' ? 2 : 1;
      skip_to(end + 1, false);
    } else {
      skip_to(at + 1, false);
    }
  }
  return out;
}

// The same for scripts, CMake and YAML: comments are from a # at the beginning of a word to the end of the line.
std::string CommentsOfScript(const std::string& source) {
  std::string out(source.size(), ' ');
  bool in_comment = false;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\n') in_comment = false;
    if (in_comment || source[at] == '\n') out[at] = source[at];
    const bool begins = at == 0 || std::isspace(static_cast<unsigned char>(source[at - 1])) != 0;
    if (source[at] == '#' && begins && source.compare(at, 2, "#!") != 0) in_comment = true;
  }
  return out;
}

}  // namespace

std::vector<NamedFile> FilesNamedInComments(const std::string& source, CommentStyle style) {
  const std::string comments = style == CommentStyle::kSlashes ? CommentsOfCpp(source) : CommentsOfScript(source);
  std::vector<NamedFile> files;
  int line = 1;
  for (std::size_t at = 0; at <= comments.size(); ++line) {
    const std::size_t end = std::min(comments.find('\n', at), comments.size());
    AppendNames(comments.substr(at, end - at), line, &files);
    at = end + 1;
  }
  return files;
}

bool MatchesName(const std::string& name, const std::string& path) {
  const std::size_t star = name.find('*');
  if (star == std::string::npos) return name == path;
  if (path.compare(0, star, name, 0, star) != 0 || path.size() < star) return false;
  for (std::size_t end = star; end <= path.size(); ++end) {
    if (MatchesName(name.substr(star + 1), path.substr(end))) return true;
    if (end < path.size() && path[end] == '/') return false;
  }
  return false;
}

}  // namespace emplace::testing
