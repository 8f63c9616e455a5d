#include "experiments/report/report_html.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>

#include "experiments/report/vega_bundle.h"

namespace emplace {
namespace {

constexpr std::string_view kHead = R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2a6f97; --quiet: #666; }
@media (prefers-color-scheme: dark) { :root { --accent: #7fb7d6; --quiet: #aaa; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 0 auto; padding: 1rem 1.2rem 4rem; }
p, li { max-width: 85ch; }
h1 { font-size: 1.7rem; margin: 1rem 0 .5rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .6rem; padding-top: .6rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
a { color: var(--accent); }
nav { background: var(--soft); border-radius: 8px; padding: .6rem 1rem; }
nav ul { list-style: none; margin: 0; padding-left: 0; }
nav ul ul { padding-left: 1.2rem; columns: 2 20rem; }
.scroll { overflow-x: auto; margin: .6rem 0 1.2rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th, td { white-space: nowrap; line-height: 1.3; }
thead th { white-space: normal; vertical-align: bottom; }
tbody th { position: sticky; left: 0; background: Canvas; font-weight: 500; }
small { color: var(--quiet); font-size: .8em; }
th.number, td.number { text-align: right; }
thead th { border-bottom: 2px solid var(--line); }
tbody tr:hover { background: var(--soft); }
summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
figure { margin: 1rem 0 1.6rem; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
figure p { color: var(--quiet); font-size: .9rem; margin: .2rem 0; }
figure svg { max-width: 100%; height: auto; }
.error { color: #b00020; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
footer pre { white-space: pre-wrap; }
</style>
)";

// Runs before anything that could go wrong.
constexpr std::string_view kWatch = R"(<script>
const problems = [];
const note = (text) => {
  problems.push(String(text));
  document.documentElement.dataset.errors = problems.join("; ");
};
window.addEventListener("error", (event) => note(event.message));
window.addEventListener("unhandledrejection", (event) => note(event.reason));
const consoleError = console.error;
console.error = (...parts) => { note(parts.join(" ")); consoleError.apply(console, parts); };
</script>
)";

constexpr std::string_view kDraw = R"(<script>
(async () => {
  let drawn = 0;
  const say = (figure, problem) => {
    const line = document.createElement("p");
    line.className = "error";
    line.textContent = "This chart could not be drawn: " + problem;
    figure.append(line);
  };
  for (const figure of document.querySelectorAll("figure")) {
    const before = problems.length;  // Vega says some of its errors on the console only
    try {
      const spec = JSON.parse(figure.querySelector("script").textContent);
      const view = new emplaceVega.View(emplaceVega.parse(spec, null, {ast: true}), {
        expr: emplaceVega.expressionInterpreter, renderer: "svg", container: figure.querySelector(".chart"), hover: true});
      await view.runAsync();
    } catch (error) {
      note(error);
    }
    if (problems.length === before) {
      ++drawn;
    } else {
      say(figure, problems[before]);
    }
  }
  document.documentElement.dataset.charts = drawn;
})();
</script>
)";

// A script element ends at "</" whatever its type, and JSON has another way to write "<".
std::string JsonInScript(const std::string& json) {
  std::string escaped;
  for (const char c : json) escaped += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return escaped;
}

std::string Anchor(std::size_t number) { return fmt::format("part-{}", number); }

class HtmlWriter {
 public:
  explicit HtmlWriter(std::ostream& out) : out_(out) {}

  void operator()(const HeadingBlock& block) {
    fmt::print(out_, "<h{0} id=\"{1}\">{2}</h{0}>\n", block.level, Anchor(headings_++), HtmlText(block.text));
  }
  void operator()(const ParagraphBlock& block) { fmt::print(out_, "<p>{}</p>\n", HtmlText(block.text)); }
  void operator()(const BulletsBlock& block) {
    out_ << "<ul>\n";
    for (const std::string& item : block.items) fmt::print(out_, "<li>{}</li>\n", HtmlText(item));
    out_ << "</ul>\n";
  }
  void operator()(const TableBlock& block) {
    const std::string caption = HtmlText(block.caption);
    if (block.folded) fmt::print(out_, "<details><summary>{}</summary>\n", caption);
    out_ << "<div class=\"scroll\"><table>";
    if (!block.folded) fmt::print(out_, "<caption>{}</caption>", caption);
    out_ << "\n<thead><tr>";
    for (std::size_t i = 0; i < block.header.size(); ++i) {
      fmt::print(out_, "<th scope=\"col\"{}>{}</th>", Class(block, i), HtmlText(block.header[i]));
    }
    out_ << "</tr></thead>\n<tbody>\n";
    for (const auto& row : block.rows) {
      out_ << "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) WriteCell(block, i, row[i]);
      out_ << "</tr>\n";
    }
    out_ << "</tbody></table></div>\n" << (block.folded ? "</details>\n" : "");
  }
  void operator()(const ChartBlock& block) {
    fmt::print(out_, "<figure><figcaption>{}</figcaption>\n<div class=\"chart\"></div>\n<p>{}</p>\n",
               HtmlText(block.caption), HtmlText(block.note));
    fmt::print(out_, "<script type=\"application/json\">{}</script>\n</figure>\n", JsonInScript(block.vega));
    has_charts_ = true;
  }

  bool has_charts() const { return has_charts_; }

 private:
  static const char* Class(const TableBlock& block, std::size_t column) {
    return column < block.text_columns ? "" : " class=\"number\"";
  }
  void WriteCell(const TableBlock& block, std::size_t column, const TextCell& cell) {
    const std::string text = HtmlText(cell.text);
    if (column == 0) {
      fmt::print(out_, "<th scope=\"row\">{}</th>", text);
    } else {
      fmt::print(out_, "<td{}>{}{}{}", Class(block, column), cell.strong ? "<strong>" : "", text,
                 cell.strong ? "</strong>" : "");
      for (const std::string& detail : cell.details) fmt::print(out_, "<br><small>{}</small>", HtmlText(detail));
      out_ << "</td>";
    }
  }

  std::ostream& out_;
  std::size_t headings_ = 0;
  bool has_charts_ = false;
};

void WriteContents(std::ostream& out, const ReportDocument& document) {
  out << "<nav aria-label=\"Contents\"><ul>\n";
  std::size_t number = 0;
  bool is_open = false;  // an inner list
  bool is_first = true;
  for (const ReportBlock& block : document.blocks) {
    const auto* heading = std::get_if<HeadingBlock>(&block);
    if (heading == nullptr) continue;
    const bool is_inner = heading->level > 2;
    if (is_inner && !is_open) out << "<ul>\n";
    if (!is_inner && is_open) out << "</ul>\n";
    if (!is_inner && !is_first) out << "</li>\n";
    is_open = is_inner;
    is_first = false;
    fmt::print(out, "<li><a href=\"#{}\">{}</a>{}", Anchor(number++), HtmlText(heading->text),
               is_inner ? "</li>\n" : "");
  }
  out << (is_open ? "</ul>\n" : "") << (is_first ? "" : "</li>\n") << "</ul></nav>\n";
}

}  // namespace

std::string HtmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return escaped;
}

void WriteHtml(std::ostream& out, const ReportDocument& document) {
  const std::string title = HtmlText(document.title);
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" << title << "</title>\n";
  out << kHead << kWatch << "</head>\n<body>\n<h1>" << title << "</h1>\n";
  WriteContents(out, document);
  HtmlWriter writer(out);
  for (const ReportBlock& block : document.blocks) std::visit(writer, block);
  if (writer.has_charts()) {
    out << "<footer><details><summary>Charts are drawn by Vega: licence</summary>\n"
           "<p>Parts of Vega come from D3: Copyright 2010-2022 Mike Bostock, ISC licence.</p>\n<pre>"
        << HtmlText(VegaLicence()) << "</pre></details></footer>\n<script>\n"
        << VegaScript() << "</script>\n"
        << kDraw;
  }
  out << "</body>\n</html>\n";
}

}  // namespace emplace
