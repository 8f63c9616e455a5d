#include "sim/base/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace emplace::testing {
namespace {

template <typename Print>
std::string Printed(Print print) {
  std::ostringstream out;
  print(out);
  return out.str();
}

TEST(TableTest, IsPrintedAsTextMarkdownAndCsv) {
  Table table({"agent", "ms", "of"});
  table.Add({"a_b,\n", "8.5", "x"});
  table.Add({"\u00e9", "10.5", "-"});
  EXPECT_EQ(Printed([&](std::ostream& out) { table.PrintText(out); }),
            "agent     ms  of\na_b,\\n   8.5  x\n\u00e9       10.5  -\n");
  EXPECT_EQ(Printed([&](std::ostream& out) { table.PrintMarkdown(out); }),
            "| agent | ms | of |\n| --- | --- | --- |\n| a\\_b,  | 8.5 | x |\n| \u00e9 | 10.5 | - |\n");
  EXPECT_EQ(Printed([&](std::ostream& out) { table.PrintCsv(out); }), "agent,ms,of\n\"a_b,\n\",8.5,x\n\u00e9,10.5,-\n");
}

TEST(TableTest, IsPrintedAsLatex) {
  Table table({"agent", "gain_%", "of"});
  table.Add({"a&b", "-8.5", "x"});
  table.Add({"\u00e9", "-", "5 %"});
  EXPECT_EQ(Printed([&](std::ostream& out) { table.PrintLatex(out); }),
            "\\begin{tabular}{lrl}\n\\toprule\nagent & gain\\_\\% & of \\\\\n\\midrule\n"
            "a\\&b & $-$8.5 & x \\\\\n\u00e9 & - & 5 \\% \\\\\n\\bottomrule\n\\end{tabular}\n");
  EXPECT_EQ(Printed([](std::ostream& out) { WriteLatexTabular(out, "l", {"$x$"}, {}); }),
            "\\begin{tabular}{l}\n\\toprule\n$x$ \\\\\n\\midrule\n\\bottomrule\n\\end{tabular}\n");
}

TEST(TableTest, NegativeNumbersAreAlignedToTheRightToo) {
  Table table({"piece", "gain"});
  table.Add({"a", "10 us"});
  table.Add({"b", "-2 us"});
  table.Add({"c", "-"});
  EXPECT_EQ(Printed([&](std::ostream& out) { table.PrintText(out); }),
            "piece   gain\na      10 us\nb      -2 us\nc          -\n");
}

TEST(TableTest, CellsOfAMarkdownLineAreMarkdownAlready) {
  EXPECT_EQ(Printed([](std::ostream& out) { WriteMarkdownLine(out, {"**a**", ""}); }), "| **a** |  |\n");
}

TEST(TableTest, CsvQuotesWhatNeedsIt) {
  std::ostringstream out;
  WriteCsvLine(out, {"a", "b,c", "d\"e", "", "f\ng"});
  EXPECT_EQ(out.str(), "a,\"b,c\",\"d\"\"e\",,\"f\ng\"\n");
}

TEST(TableTest, CellsOfCsvThatSpreadsheetsWouldWorkOutBecomeTexts) {
  EXPECT_EQ(CsvCell("=1+1"), "'=1+1");
  EXPECT_EQ(CsvCell("+x"), "'+x");
  EXPECT_EQ(CsvCell("-2+3"), "'-2+3");
  EXPECT_EQ(CsvCell("@sum(a1)"), "'@sum(a1)");
  EXPECT_EQ(CsvCell("\tx"), "'\tx");
  EXPECT_EQ(CsvCell("\r=x"), "\"'\r=x\"");
  EXPECT_EQ(CsvCell("=HYPERLINK(\"a\",\"b\")"), "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\"");
  EXPECT_EQ(CsvCell("\uff1d1"), "'\uff1d1");  // the full-width =
}

TEST(TableTest, NumbersInCsvStayNumbers) {
  for (const std::string number : {"-1.5", "+0.6", "1e-9", "-1e+300", "0", "-"}) EXPECT_EQ(CsvCell(number), number);
  for (const std::string text : {"", "a=b", "a-b", "1 = 1", "'quoted'"}) EXPECT_EQ(CsvCell(text), text);
}

}  // namespace
}  // namespace emplace::testing
