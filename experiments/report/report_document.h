#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_DOCUMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "experiments/report/statistics.h"

namespace emplace::experiments {

// What a report says, before it is Markdown or HTML. All text is plain: writers escape it.
struct HeadingBlock {
  std::size_t level = 2;  // 2: an experiment, 3: a part of one
  std::string text;
};
struct ParagraphBlock {
  std::string text;
};
struct BulletsBlock {
  std::vector<std::string> items;
};
enum class CellTone : std::uint8_t { kPlain, kBetter, kWorse };  // HTML shows them in colours
struct TextCell {
  std::string text = {};
  bool strong = false;
  std::vector<std::string> details = {};  // smaller, each on a line of its own
  CellTone tone = CellTone::kPlain;
};
struct TableBlock {
  std::string caption = {};
  std::vector<std::string> header = {};
  std::vector<std::vector<TextCell>> rows = {};
  std::size_t text_columns = 1;  // the others hold numbers and stand to the right
  bool folded = false;           // HTML shows the caption only, until asked
};
struct ChartBlock {
  std::string caption;
  std::string note;  // in words what there is to see; all that Markdown has of a chart
  std::string vega;  // the specification, JSON
};
// What a report begins with: a question, who won, and a figure of it.
struct AnswerBlock {
  std::string question = {};  // "" if there is none
  std::string answer = {};
  std::vector<std::string> notes = {};  // paragraphs
  std::optional<ChartBlock> figure = {};
};
using ReportBlock = std::variant<HeadingBlock, ParagraphBlock, BulletsBlock, TableBlock, ChartBlock, AnswerBlock>;

struct ReportDocument {
  std::string title;
  std::vector<ReportBlock> blocks;
};

// GitHub's Markdown.
void WriteMarkdown(std::ostream& out, const ReportDocument& document);

// `text` as Markdown that shows it: characters that would be markup, an HTML tag or an entity get a backslash, controls
// become spaces. Also right in a cell of a table.
std::string MarkdownText(std::string_view text);

// One cell of CSV (RFC 4180). A spreadsheet would work out a text that begins with one of = + - @, a tab or an end of
// line and is no number: such a cell gets an apostrophe in front, which spreadsheets take for the sign of a text.
std::string CsvCell(std::string_view text);
// One line of CSV, ended by \n.
void WriteCsvLine(std::ostream& out, const std::vector<std::string>& cells);

// Numbers for people. With an interval, as many decimals as give its width two digits; else four digits.
std::string ShownNumber(double value);
struct EstimateText {
  std::string mean;      // "28.3"
  std::string interval;  // "[26.1, 30.4]"; "" if there is none
};
EstimateText ShownEstimate(const Estimate& estimate);
std::string ShownPValue(double p);                // "0.031", "< 0.0001"
TextCell EstimateCell(const Estimate& estimate);  // the mean, and its interval below

// "3 trials", "1 trial".
std::string Counted(std::size_t count, std::string_view noun);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_DOCUMENT_H_
