#include "sim/base/markup.h"

#include <gtest/gtest.h>

namespace emplace::testing {
namespace {

TEST(MarkupTest, TextIsNoHtml) {
  EXPECT_EQ(HtmlText("<a href=\"x\">'&\x01\n"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;?\n");
}

TEST(MarkupTest, NamesAreShownInMarkdownNotObeyed) {
  EXPECT_EQ(MarkdownText("<script>alert(1)</script>"), "\\<script\\>alert(1)\\</script\\>");
  EXPECT_EQ(MarkdownText("[x](http://y) &lt; ~~z~~\r\n|\x1b"), "\\[x\\](http://y) \\&lt; \\~\\~z\\~\\~  \\| ");
  EXPECT_EQ(MarkdownText("gpu:0, cpu:1 (20 %)"), "gpu:0, cpu:1 (20 %)");
}

TEST(MarkupTest, NamesAreTextInLatexToo) {
  EXPECT_EQ(LatexText("a_b & 5 % of $x {y} #1"), "a\\_b \\& 5 \\% of \\$x \\{y\\} \\#1");
  EXPECT_EQ(LatexText("\\input{f}~^<>|\""),
            "\\textbackslash{}input\\{f\\}\\textasciitilde{}\\textasciicircum{}\\textless{}\\textgreater{}\\textbar{}"
            "\\textquotedbl{}");
  EXPECT_EQ(LatexText("gpu:0\r\n\u00b5s"), "gpu:0  \u00b5s");
}

}  // namespace
}  // namespace emplace::testing
