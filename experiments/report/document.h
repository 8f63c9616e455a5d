#ifndef EMPLACE_EXPERIMENTS_REPORT_DOCUMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_DOCUMENT_H_

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

// Contents of a report, independent of Markdown and HTML. All text is plain; writers escape it.
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
enum class CellTone : std::uint8_t { kPlain, kBetter, kWorse };  // shown as colours in HTML
struct TextCell {
  std::string text = {};
  bool strong = false;
  std::vector<std::string> details = {};  // details in small type, one line each
  CellTone tone = CellTone::kPlain;
};
struct TableBlock {
  std::string caption = {};
  std::vector<std::string> header = {};
  std::vector<std::vector<TextCell>> rows = {};
  std::size_t text_columns = 1;  // the other columns are numbers, aligned to the right
  bool folded = false;           // HTML shows only the caption until it is unfolded
};
// The text of a cell and its details, on one line.
std::string CellText(const TextCell& cell);
// Prints the table for a terminal, the caption first; `*` marks what is strong.
void PrintText(std::ostream& out, const TableBlock& table);
struct ChartBlock {
  std::string caption;
  std::string note;  // describes the chart in words; replaces it in Markdown
  std::string vega;  // the specification, JSON
};
// A picture that needs no script.
struct PictureBlock {
  std::string caption;
  std::string note;  // describes the picture in words; replaces it in Markdown
  std::string svg;   // an <svg> element
};
// The start of a report: a question, the best agent, and a figure.
struct AnswerBlock {
  std::string question = {};  // "" if there is none
  std::string answer = {};
  std::vector<std::string> notes = {};  // paragraphs
  std::optional<ChartBlock> figure = {};
};
using ReportBlock =
    std::variant<HeadingBlock, ParagraphBlock, BulletsBlock, TableBlock, ChartBlock, PictureBlock, AnswerBlock>;

struct ReportDocument {
  std::string title;
  std::vector<ReportBlock> blocks;
};

// GitHub's Markdown.
void WriteMarkdown(std::ostream& out, const ReportDocument& document);

// The tables alone, each a float of LaTeX for the package booktabs; headings are comments.
void WriteLatexTables(std::ostream& out, const ReportDocument& document);

// Numbers for readers. With an interval, its width gets two significant digits; else the number gets four.
std::string ShownNumber(double value);
struct EstimateText {
  std::string mean;      // "28.3"
  std::string interval;  // "[26.1, 30.4]"; "" if there is none
};
EstimateText ShownEstimate(const Estimate& estimate);
std::string ShownPValue(double p);                // "0.031", "< 0.0001"
TextCell EstimateCell(const Estimate& estimate);  // the mean, and its interval below

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_DOCUMENT_H_
