#include "experiments/report/report_html.h"

#include <gmock/gmock.h>

#include <sstream>

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Html(const ReportDocument& document) {
  std::ostringstream out;
  WriteHtml(out, document);
  return out.str();
}

TEST(ReportHtmlTest, TextIsNoMarkup) {
  EXPECT_EQ(HtmlText("<a href=\"x\">'&\x01"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;?");
  ReportDocument document{.title = "<script>", .blocks = {}};
  document.blocks.push_back(HeadingBlock{2, "<h>"});
  document.blocks.push_back(ParagraphBlock{"<p2>"});
  document.blocks.push_back(BulletsBlock{{"<li2>"}});
  document.blocks.push_back(TableBlock{.caption = "<c>", .header = {"<th2>"}, .rows = {{{"<td2>"}}}});
  document.blocks.push_back(ChartBlock{"<fc>", "<note>", R"({"a": "</script><b>"})"});
  const std::string page = Html(document);
  for (const char* const tag : {"<h>", "<p2>", "<li2>", "<c>", "<th2>", "<td2>", "<fc>", "<note>", "</script><b>"}) {
    EXPECT_THAT(page, Not(HasSubstr(tag)));
  }
  EXPECT_THAT(page, HasSubstr(R"({"a": "\u003c/script>\u003cb>"})"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;script&gt;</title>"));
}

TEST(ReportHtmlTest, TheContentsLinkToTheHeadings) {
  ReportDocument document{.title = "t", .blocks = {}};
  for (const auto& [level, text] : {std::pair(2, "one"), {3, "inner"}, {3, "other"}, {2, "two"}}) {
    document.blocks.push_back(HeadingBlock{static_cast<std::size_t>(level), text});
  }
  const std::string page = Html(document);
  EXPECT_THAT(page, HasSubstr("<ul>\n<li><a href=\"#part-0\">one</a><ul>\n<li><a href=\"#part-1\">inner</a></li>\n"
                              "<li><a href=\"#part-2\">other</a></li>\n</ul>\n</li>\n"
                              "<li><a href=\"#part-3\">two</a></li>\n</ul></nav>"));
  EXPECT_THAT(page, HasSubstr("<h3 id=\"part-1\">inner</h3>"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"part-3\">two</h2>"));
}

TEST(ReportHtmlTest, NothingIsLoadedAndTheScriptIsThereOnlyForCharts) {
  ReportDocument document{.title = "t", .blocks = {}};
  EXPECT_THAT(Html(document), Not(HasSubstr("emplaceVega")));
  document.blocks.push_back(ChartBlock{"c", "n", "{}"});
  const std::string page = Html(document);
  EXPECT_THAT(page, HasSubstr("emplaceVega"));
  EXPECT_THAT(page, HasSubstr("UW Interactive Data Lab"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* const loads : {" src=", "<link", "@import", "url("})
    EXPECT_THAT(page.substr(0, 8000), Not(HasSubstr(loads)));
}

TEST(ReportHtmlTest, TablesFoldAndNumbersStandToTheRight) {
  ReportDocument document{.title = "t", .blocks = {}};
  document.blocks.push_back(TableBlock{.caption = "cap",
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
