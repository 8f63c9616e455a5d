#include "experiments/report/html.h"

#include <gmock/gmock.h>

#include <sstream>

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Html(const experiments::ReportDocument& document) {
  std::ostringstream out;
  experiments::WriteHtml(out, document);
  return out.str();
}

TEST(ReportHtmlTest, TextIsNoMarkup) {
  experiments::ReportDocument document{.title = "<script>", .blocks = {}};
  document.blocks.push_back(experiments::HeadingBlock{2, "<h>"});
  document.blocks.push_back(experiments::ParagraphBlock{"<p2>"});
  document.blocks.push_back(experiments::BulletsBlock{{"<li2>"}});
  document.blocks.push_back(experiments::TableBlock{.caption = "<c>", .header = {"<th2>"}, .rows = {{{"<td2>"}}}});
  document.blocks.push_back(experiments::ChartBlock{"<fc>", "<note>", R"({"a": "</script><b>"})"});
  document.blocks.push_back(
      experiments::AnswerBlock{"<q>", "<lead>", {"<more>"}, experiments::ChartBlock{"<fc2>", "<note2>", "{}"}});
  const std::string page = Html(document);
  for (const char* const tag : {"<h>", "<p2>", "<li2>", "<c>", "<th2>", "<td2>", "<fc>", "<note>", "</script><b>",
                                "<q>", "<lead>", "<more>", "<fc2>", "<note2>"}) {
    EXPECT_THAT(page, Not(HasSubstr(tag)));
  }
  EXPECT_THAT(page, HasSubstr(R"({"a": "\u003c/script>\u003cb>"})"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;script&gt;</title>"));
}

TEST(ReportHtmlTest, TheContentsLinkToTheHeadings) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  for (const auto& [level, text] : {std::pair(2, "one"), {3, "inner"}, {3, "other"}, {2, "two"}}) {
    document.blocks.push_back(experiments::HeadingBlock{static_cast<std::size_t>(level), text});
  }
  const std::string page = Html(document);
  EXPECT_THAT(page, HasSubstr("<ul>\n<li><a href=\"#part-0\">one</a><ul>\n<li><a href=\"#part-1\">inner</a></li>\n"
                              "<li><a href=\"#part-2\">other</a></li>\n</ul>\n</li>\n"
                              "<li><a href=\"#part-3\">two</a></li>\n</ul></nav>"));
  EXPECT_THAT(page, HasSubstr("<h3 id=\"part-1\">inner</h3>"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"part-3\">two</h2>"));
}

TEST(ReportHtmlTest, TheAnswerComesFirstAndTheContentsLast) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(experiments::HeadingBlock{2, "demo"});
  document.blocks.push_back(
      experiments::AnswerBlock{"Which?", "a wins.", {"By far."}, experiments::ChartBlock{"figure", "note", "{}"}});
  document.blocks.push_back(experiments::ParagraphBlock{"later"});
  const std::string page = Html(document);
  EXPECT_THAT(page,
              HasSubstr("<section class=\"answer\">\n<div>\n<p class=\"question\">Which?</p>\n<p class=\"lead\">a "
                        "wins.</p>\n<p>By far.</p>\n</div>\n<figure>"));
  EXPECT_LT(page.find("<p class=\"lead\">"), page.find("<p>later</p>"));
  EXPECT_LT(page.find("<p>later</p>"), page.find("<nav id=\"contents\""));
}

TEST(ReportHtmlTest, TablesShareTheWidthAndSoDoCharts) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  for (int i = 0; i < 2; ++i) document.blocks.push_back(experiments::TableBlock{.caption = "c", .header = {"h"}});
  document.blocks.push_back(experiments::TableBlock{.caption = "c", .header = {"h"}, .folded = true});
  for (int i = 0; i < 2; ++i) document.blocks.push_back(experiments::ChartBlock{"c", "n", "{}"});
  const std::string page = Html(document);
  const auto count = [&page](const std::string& what) {
    std::size_t number = 0;
    for (std::size_t at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++number;
    return number;
  };
  EXPECT_EQ(count("<div class=\"tables\">"), 1U);
  EXPECT_EQ(count("<div class=\"charts\">"), 1U);
  EXPECT_EQ(count("<div "), count("</div>"));
}

TEST(ReportHtmlTest, CellsHaveTheirTones) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(
      experiments::TableBlock{.caption = "c",
                              .header = {"agent", "a"},
                              .rows = {{{"a"}, {.text = "+1", .tone = experiments::CellTone::kBetter}},
                                       {{"b"}, {.text = "-1", .tone = experiments::CellTone::kWorse}}}});
  EXPECT_THAT(Html(document), HasSubstr("<td class=\"number better\">+1</td>"));
  EXPECT_THAT(Html(document), HasSubstr("<td class=\"number worse\">-1</td>"));
}

TEST(ReportHtmlTest, ThePageFitsPhonesAndPaper) {
  const std::string page = Html({.title = "t", .blocks = {}});
  for (const char* const rule : {"@media (max-width: 640px)", "@media print", "width=device-width"}) {
    EXPECT_THAT(page, HasSubstr(rule));
  }
}

TEST(ReportHtmlTest, NothingIsLoadedAndTheScriptIsThereOnlyForCharts) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  EXPECT_THAT(Html(document), Not(HasSubstr("emplaceVega")));
  document.blocks.push_back(experiments::ChartBlock{"c", "n", "{}"});
  const std::string page = Html(document);
  EXPECT_THAT(page, HasSubstr("emplaceVega"));
  EXPECT_THAT(page, HasSubstr("UW Interactive Data Lab"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* const loads : {" src=", "<link", "@import", "url("})
    EXPECT_THAT(page.substr(0, page.find("</head>")), Not(HasSubstr(loads)));
}

TEST(ReportHtmlTest, TablesFoldAndNumbersStandToTheRight) {
  experiments::ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(experiments::TableBlock{.caption = "cap",
                                                    .header = {"agent", "n"},
                                                    .rows = {{{"a"}, {"1", true, {"detail"}}}},
                                                    .text_columns = 1,
                                                    .folded = true});
  const std::string page = Html(document);
  EXPECT_THAT(page, HasSubstr("<details><summary>cap</summary>"));
  EXPECT_THAT(page,
              HasSubstr("<th scope=\"row\">a</th><td class=\"number\"><strong>1</strong><br><small>detail</small>"));
}

}  // namespace
}  // namespace emplace::testing
