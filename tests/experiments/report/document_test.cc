#include "experiments/report/document.h"

#include <gmock/gmock.h>

#include <sstream>

namespace emplace::testing {
namespace {

std::string Markdown(const experiments::ReportDocument& document) {
  std::ostringstream out;
  experiments::WriteMarkdown(out, document);
  return out.str();
}

TEST(ReportDocumentTest, MarkdownHoldsEveryBlock) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(experiments::HeadingBlock{2, "h"});
  document.blocks.push_back(experiments::ParagraphBlock{"p"});
  document.blocks.push_back(experiments::BulletsBlock{{"x", "y"}});
  document.blocks.push_back(experiments::TableBlock{
      .caption = "c", .header = {"agent", "n"}, .rows = {{{"a"}, {"1", true, {"[0, 2]"}}}}, .text_columns = 1});
  document.blocks.push_back(experiments::ChartBlock{"chart", "what it shows.", "{}"});
  document.blocks.push_back(experiments::PictureBlock{"picture", "bars.", "<svg/>"});
  document.blocks.push_back(
      experiments::AnswerBlock{"q", "a.", {"note."}, experiments::ChartBlock{"figure", "dots.", "{}"}});
  EXPECT_EQ(Markdown(document),
            "# t\n\n## h\n\np\n\n- x\n- y\n\n**c**\n\n| agent | n |\n| --- | ---: |\n| a | **1** \\[0, 2\\] |\n\n"
            "**chart** (drawn in the HTML page). what it shows.\n\n"
            "**picture** (drawn in the HTML page). bars.\n\n"
            "q\n\n**a.**\n\n**figure** (drawn in the HTML page). dots.\n\nnote.\n\n");
}

TEST(ReportDocumentTest, LatexHoldsTheTables) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(experiments::HeadingBlock{2, "h_1"});
  document.blocks.push_back(experiments::ParagraphBlock{"p"});
  document.blocks.push_back(experiments::TableBlock{
      .caption = "c & d", .header = {"agent", "n"}, .rows = {{{"a_b"}, {"1", true, {"[0, 2]"}}}}, .text_columns = 1});
  std::ostringstream out;
  experiments::WriteLatexTables(out, document);
  EXPECT_EQ(out.str(),
            "% \\usepackage{booktabs}\n\n% h\\_1\n\n\\begin{table}\n\\centering\n\\caption{c \\& d}\n"
            "\\begin{tabular}{lr}\n\\toprule\nagent & n \\\\\n\\midrule\na\\_b & \\textbf{1} [0, 2] \\\\\n"
            "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

TEST(ReportDocumentTest, TextIsNoMarkup) {
  const std::string text = Markdown({.title = "a_b|<i>*c*</i>\n# d", .blocks = {}});
  EXPECT_EQ(text, "# a\\_b\\|\\<i\\>\\*c\\*\\</i\\> \\# d\n\n");
}

TEST(ReportDocumentTest, NumbersHaveTheDigitsThatTheirIntervalsAllow) {
  EXPECT_EQ(experiments::ShownNumber(28.2534), "28.25");
  EXPECT_EQ(experiments::ShownNumber(0.0123456), "0.01235");
  EXPECT_EQ(experiments::ShownNumber(123456), "123456");
  EXPECT_EQ(experiments::ShownNumber(0), "0");
  // Intervals of width 4.3 and 0.043: two significant digits of the width are one decimal and three.
  EXPECT_EQ(experiments::ShownEstimate({.mean = 28.2534, .interval = experiments::Interval{26.1, 30.4}}).mean, "28.3");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 28.2534, .interval = experiments::Interval{26.1, 30.4}}).interval,
            "[26.1, 30.4]");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 1.23456, .interval = experiments::Interval{1.2, 1.243}}).interval,
            "[1.200, 1.243]");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 1.23456, .interval = experiments::Interval{1.2, 1.243}}).mean, "1.235");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 5000, .interval = experiments::Interval{4000, 6000}}).mean, "5000");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 2, .interval = experiments::Interval{2, 2}}).interval,
            "[2.000, 2.000]");
  EXPECT_EQ(experiments::ShownEstimate({.mean = 2}).interval, "");
  const experiments::TextCell cell = experiments::EstimateCell({.mean = 2, .interval = experiments::Interval{1, 3}});
  EXPECT_EQ(experiments::CellText(cell), "2.0 [1.0, 3.0]");
  EXPECT_TRUE(experiments::EstimateCell({.mean = 2}).details.empty());
}

TEST(ReportDocumentTest, SmallPValuesAreSmallerThanSomething) {
  EXPECT_EQ(experiments::ShownPValue(0.00001), "< 0.0001");
  EXPECT_EQ(experiments::ShownPValue(0.00567), "0.0057");
  EXPECT_EQ(experiments::ShownPValue(0.0567), "0.057");
  EXPECT_EQ(experiments::ShownPValue(1), "1.00");
}

TEST(ReportDocumentTest, AnEstimateIsShownWithItsInterval) {
  const experiments::TextCell cell =
      experiments::EstimateCell({.mean = 28.31, .interval = experiments::Interval{26.1, 30.4}});
  EXPECT_EQ(cell.text, "28.3");
  EXPECT_THAT(cell.details, ::testing::ElementsAre("[26.1, 30.4]"));
  EXPECT_THAT(experiments::EstimateCell({.mean = 2}).details, ::testing::IsEmpty());
}

}  // namespace
}  // namespace emplace::testing
