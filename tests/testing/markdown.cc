#include "tests/testing/markdown.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace emplace::testing {
namespace {

constexpr std::string_view kSpace = " \t";

bool IsLetterOrDigit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

std::string Trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(kSpace);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(kSpace) - from + 1);
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Replaces each code span by `code`, and appends its content to *spans if given. Line breaks stay.
std::string WithoutCode(const std::string& text, std::vector<std::string>* spans = nullptr) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '`') {
      out += text[at++];
      continue;
    }
    const std::size_t ticks = std::min(text.find_first_not_of('`', at), text.size()) - at;
    const std::string mark(ticks, '`');
    std::size_t end = text.find(mark, at + ticks);
    while (end != std::string::npos && end + ticks < text.size() && text[end + ticks] == '`') {
      end = text.find(mark, text.find_first_not_of('`', end));
    }
    if (end == std::string::npos) {
      out += mark;
      at += ticks;
      continue;
    }
    std::string span = text.substr(at, end + ticks - at);
    out.append(static_cast<std::size_t>(std::count(span.begin(), span.end(), '\n')), '\n');
    out += "`";
    std::replace(span.begin(), span.end(), '\n', ' ');
    if (spans != nullptr) spans->push_back(span);
    at = end + ticks;
  }
  return out;
}

// The position of the ")" that closes the "(" at `open`, or npos.
std::size_t Closing(const std::string& text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
  }
  return std::string::npos;
}

// Replaces links by their text, without images, HTML tags and comments.
std::string WithoutLinks(const std::string& text) {
  std::string out;
  std::vector<std::size_t> brackets;  // positions in `out` where the text of a link may begin
  std::vector<bool> image;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      const bool is_image = !out.empty() && out.back() == '!';
      if (is_image) out.pop_back();
      brackets.push_back(out.size());
      image.push_back(is_image);
      out += c;
    } else if (c == ']' && !brackets.empty()) {
      const std::size_t from = brackets.back();
      const bool is_image = image.back();
      brackets.pop_back();
      image.pop_back();
      const std::size_t end = i + 1 < text.size() && text[i + 1] == '(' ? Closing(text, i + 1) : std::string::npos;
      if (end == std::string::npos) {
        out += c;
        continue;
      }
      out.erase(from, is_image ? std::string::npos : 1);
      i = end;
    } else if (text.compare(i, 4, "<!--") == 0 && text.find("-->", i) != std::string::npos) {
      i = text.find("-->", i) + 2;
    } else if (c == '<' && i + 1 < text.size() &&
               (std::isalpha(static_cast<unsigned char>(text[i + 1])) != 0 || text[i + 1] == '/') &&
               text.find('>', i) != std::string::npos) {
      const std::size_t end = text.find('>', i);
      if (text.find("://", i) < end) out += "link";
      i = end;
    } else {
      out += c;
    }
  }
  return out;
}

// The anchor of a heading, as GitHub makes it.
std::string Slug(const std::string& heading) {
  std::vector<std::string> spans;
  std::string text = WithoutLinks(WithoutCode(heading, &spans));
  std::string whole;
  auto span = spans.cbegin();
  for (const char c : text) {
    if (c == '`') {
      whole += *span++;
    } else {
      whole += c;
    }
  }
  std::string slug;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const char c = whole[i];
    if (whole.compare(i, 2, "\xE2\x80") == 0) {  // dashes, quotation marks
      i += 2;
    } else if (whole.compare(i, 2, "\xC3\x97") == 0) {  // the multiplication sign
      i += 1;
    } else if (c == ' ') {
      slug += '-';
    } else if (IsLetterOrDigit(c) || c == '-' || c == '_') {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return slug;
}

void AppendLinks(const std::string& line, int number, std::vector<PageLink>* links) {
  const std::string text = WithoutCode(line);
  for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
    const std::size_t end = Closing(text, at + 1);
    if (end == std::string::npos) continue;
    const std::string target = text.substr(at + 2, end - at - 2);
    links->push_back({.line = number, .target = target.substr(0, target.find(' '))});
  }
  for (const std::string attribute : {"src=\"", "href=\""}) {
    for (std::size_t at = text.find(attribute); at != std::string::npos; at = text.find(attribute, at + 1)) {
      const std::size_t from = at + attribute.size();
      links->push_back({.line = number, .target = text.substr(from, text.find('"', from) - from)});
    }
  }
}

class PageParser {
 public:
  MarkdownPage Parse(const std::string& text) {
    for (const std::string& line : SplitLines(text)) {
      ++number_;
      if (!fence_.empty()) {
        InBlock(line);
      } else if (in_comment_) {
        in_comment_ = line.find("-->") == std::string::npos;
      } else {
        Outside(line);
      }
    }
    if (!fence_.empty()) throw std::invalid_argument("line " + std::to_string(number_) + ": a block is not closed");
    return page_;
  }

 private:
  void InBlock(const std::string& line) {
    const std::string trimmed = Trimmed(line);
    if (trimmed.starts_with(fence_) && trimmed.find_first_not_of(fence_[0]) == std::string::npos) {
      fence_.clear();
      return;
    }
    const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    page_.blocks.back().text += line.substr(std::min(blanks, indent_)) + "\n";
  }

  void Outside(const std::string& line) {
    const std::string trimmed = Trimmed(line);
    if (trimmed.starts_with("```") || trimmed.starts_with("~~~")) {
      const std::size_t language = std::min(trimmed.find_first_not_of(trimmed[0]), trimmed.size());
      fence_ = trimmed.substr(0, language);
      indent_ = line.find_first_not_of(' ');
      page_.blocks.push_back(
          {.line = number_, .language = Trimmed(trimmed.substr(language)), .text = "", .notes = notes_});
      notes_.clear();
      return;
    }
    if (trimmed.starts_with("<!--")) {
      if (trimmed.ends_with("-->")) {
        notes_.push_back(Trimmed(trimmed.substr(4, trimmed.size() - 7)));
      } else {
        in_comment_ = trimmed.find("-->") == std::string::npos;
      }
      return;
    }
    notes_.clear();
    AppendLinks(line, number_, &page_.links);
    if (const std::size_t at = line.find("id=\""); at != std::string::npos) {
      page_.anchors.push_back(line.substr(at + 4, line.find('"', at + 4) - at - 4));
    }
    if (trimmed.starts_with('#')) Heading(trimmed);
  }

  void Heading(const std::string& line) {
    const std::size_t from = line.find_first_not_of('#');
    if (from == std::string::npos || line[from] != ' ') return;
    const std::string slug = Slug(Trimmed(line.substr(from)));
    const int before = slugs_[slug]++;
    page_.anchors.push_back(before == 0 ? slug : slug + "-" + std::to_string(before));
  }

  MarkdownPage page_;
  int number_ = 0;
  std::string fence_;  // fence of the open block
  std::size_t indent_ = 0;
  bool in_comment_ = false;
  std::vector<std::string> notes_;
  std::map<std::string, int> slugs_;
};

class StepMaker {
 public:
  explicit StepMaker(const CodeBlock& block) : block_(block) {}

  // False if the block has no step.
  bool Make(PageStep* step) const {
    step->line = block_.line;
    step->text = block_.text;
    bool is_run = block_.language == "sh";
    bool run_note = false;
    bool is_not_run = false;
    bool has_kind = false;
    for (const std::string& note : block_.notes) {
      if (const std::string name = After(note, "file:"); !name.empty()) {
        step->kind = PageStep::Kind::kFile;
        step->name = name;
        if (name[0] == '/' || name.find("..") != std::string::npos) Refuse("a file outside the folder: " + name);
        has_kind = true;
        is_run = false;
      } else if (note == "output" || note == "excerpt") {
        step->kind = note == "output" ? PageStep::Kind::kOutput : PageStep::Kind::kExcerpt;
        has_kind = true;
        if (block_.language != "text") Refuse("an output is a block of language text");
      } else if (note == "slow") {
        step->slow = run_note = true;
      } else if (const std::string status = After(note, "fails:"); !status.empty()) {
        const char* const end = status.data() + status.size();
        const auto [parsed, error] = std::from_chars(status.data(), end, step->status);
        if (error != std::errc() || parsed != end || step->status <= 0) Refuse("not an exit status: " + status);
        run_note = true;
      } else if (!After(note, "not run:").empty()) {
        is_not_run = run_note = true;
      } else {
        Refuse("a note that is not known: " + note);
      }
    }
    if (run_note && !is_run) Refuse("a note for commands before another block");
    static constexpr std::array<std::string_view, 4> kShells = {"bash", "shell", "console", "zsh"};
    if (!has_kind && std::find(kShells.begin(), kShells.end(), block_.language) != kShells.end()) {
      Refuse("commands are blocks of language sh, not " + block_.language);
    }
    return has_kind || (is_run && !is_not_run);
  }

  [[noreturn]] void Refuse(const std::string& why) const {
    throw std::invalid_argument("line " + std::to_string(block_.line) + ": " + why);
  }

 private:
  static std::string After(const std::string& note, const std::string& key) {
    return note.starts_with(key) ? Trimmed(note.substr(key.size())) : "";
  }

  const CodeBlock& block_;
};

}  // namespace

MarkdownPage ParseMarkdown(const std::string& text) { return PageParser().Parse(text); }

std::vector<PageStep> PageSteps(const MarkdownPage& page) {
  std::vector<PageStep> steps;
  bool after_run = false;
  for (const CodeBlock& block : page.blocks) {
    PageStep step;
    const StepMaker maker(block);
    if (!maker.Make(&step)) {
      if (block.language == "sh") after_run = false;
      continue;
    }
    const bool expects = step.kind == PageStep::Kind::kOutput || step.kind == PageStep::Kind::kExcerpt;
    if (expects && !after_run) maker.Refuse("an output without commands before it");
    if (step.kind == PageStep::Kind::kRun) after_run = true;
    steps.push_back(step);
  }
  return steps;
}

std::string OutputDifference(const PageStep& step, const std::string& output) {
  const std::vector<std::string> expected = SplitLines(step.text);
  const std::vector<std::string> printed = SplitLines(output);
  if (step.kind == PageStep::Kind::kOutput) {
    for (std::size_t i = 0; i < std::max(expected.size(), printed.size()); ++i) {
      const std::string wanted = i < expected.size() ? expected[i] : "(nothing)";
      const std::string got = i < printed.size() ? printed[i] : "(nothing)";
      if (wanted != got || (i < expected.size()) != (i < printed.size())) {
        return "line " + std::to_string(i + 1) + " of the output\n  on the page: " + wanted + "\n  printed:     " + got;
      }
    }
    return "";
  }
  auto from = printed.begin();
  for (const std::string& line : expected) {
    if (line == "...") continue;
    const auto found = std::find(from, printed.end(), line);
    if (found == printed.end()) return "the output lacks, after the lines before it: " + line;
    from = found + 1;
  }
  return "";
}

}  // namespace emplace::testing
