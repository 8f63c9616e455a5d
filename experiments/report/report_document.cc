#include "experiments/report/report_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <ostream>
#include <system_error>
#include <utility>

namespace emplace::experiments {
namespace {

constexpr int kMostDecimals = 6;

class MarkdownWriter {
 public:
  explicit MarkdownWriter(std::ostream& out) : out_(out) {}

  void operator()(const HeadingBlock& block) const {
    out_ << std::string(block.level, '#') << ' ' << MarkdownText(block.text) << "\n\n";
  }
  void operator()(const ParagraphBlock& block) const { out_ << MarkdownText(block.text) << "\n\n"; }
  void operator()(const BulletsBlock& block) const {
    for (const std::string& item : block.items) out_ << "- " << MarkdownText(item) << '\n';
    out_ << '\n';
  }
  void operator()(const TableBlock& block) const {
    out_ << "**" << MarkdownText(block.caption) << "**\n\n|";
    for (const std::string& cell : block.header) out_ << ' ' << MarkdownText(cell) << " |";
    out_ << "\n|";
    for (std::size_t i = 0; i < block.header.size(); ++i) out_ << (i < block.text_columns ? " --- |" : " ---: |");
    out_ << '\n';
    for (const auto& row : block.rows) {
      out_ << '|';
      for (const TextCell& cell : row) {
        const char* const mark = cell.strong ? "**" : "";
        out_ << ' ' << mark << MarkdownText(cell.text) << mark;
        for (const std::string& detail : cell.details) out_ << ' ' << MarkdownText(detail);
        out_ << " |";
      }
      out_ << '\n';
    }
    out_ << '\n';
  }
  void operator()(const ChartBlock& block) const {
    out_ << "**" << MarkdownText(block.caption) << "** (drawn in the HTML page). " << MarkdownText(block.note)
         << "\n\n";
  }
  void operator()(const AnswerBlock& block) const {
    if (!block.question.empty()) out_ << MarkdownText(block.question) << "\n\n";
    out_ << "**" << MarkdownText(block.answer) << "**\n\n";
    if (block.figure) (*this)(*block.figure);
    for (const std::string& note : block.notes) out_ << MarkdownText(note) << "\n\n";
  }

 private:
  std::ostream& out_;
};

// Whether all of `text` is a number, signed or not.
bool IsNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

// Whether a spreadsheet would evaluate `text` instead of showing it. "-" alone represents a missing number.
// Source: OWASP, "CSV Injection": texts that begin with = + - @, a tab or a newline, or with the full-width forms of
// those signs, which some localised versions also accept.
bool IsSpreadsheetFormula(std::string_view text) {
  constexpr std::string_view kWide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
  const bool wide = std::any_of(std::begin(kWide), std::end(kWide), [&](auto sign) { return text.starts_with(sign); });
  if (text.empty() || text == "-" || IsNumber(text)) return false;
  return wide || std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos;
}

int DecimalsFor(double size, int digits) {
  if (size == 0 || !std::isfinite(size)) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(size))), 0, kMostDecimals);
}

}  // namespace

void WriteMarkdown(std::ostream& out, const ReportDocument& document) {
  out << "# " << MarkdownText(document.title) << "\n\n";
  for (const ReportBlock& block : document.blocks) std::visit(MarkdownWriter(out), block);
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

std::string CsvCell(std::string_view text) {
  std::string cell = (IsSpreadsheetFormula(text) ? "'" : "") + std::string(text);
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void WriteCsvLine(std::ostream& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) out << (i > 0 ? "," : "") << CsvCell(cells[i]);
  out << '\n';
}

std::string ShownNumber(double value) { return fmt::format("{:.{}f}", value, DecimalsFor(std::abs(value), 4)); }

EstimateText ShownEstimate(const Estimate& estimate) {
  if (!estimate.interval) return {.mean = ShownNumber(estimate.mean), .interval = ""};
  const double width = estimate.interval->high - estimate.interval->low;
  const int decimals = DecimalsFor(width > 0 ? width : std::abs(estimate.mean), width > 0 ? 2 : 4);
  return {.mean = fmt::format("{:.{}f}", estimate.mean, decimals),
          .interval =
              fmt::format("[{:.{}f}, {:.{}f}]", estimate.interval->low, decimals, estimate.interval->high, decimals)};
}

TextCell EstimateCell(const Estimate& estimate) {
  EstimateText text = ShownEstimate(estimate);
  TextCell cell{.text = std::move(text.mean)};
  if (!text.interval.empty()) cell.details.push_back(std::move(text.interval));
  return cell;
}

std::string ShownPValue(double p) {
  if (p < 0.0001) return "< 0.0001";
  return fmt::format("{:.{}f}", p, p < 0.01 ? 4 : p < 0.1 ? 3 : 2);
}

std::string Counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace emplace::experiments
