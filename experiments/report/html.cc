#include "experiments/report/html.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>

#include "experiments/report/vega_bundle.h"
#include "sim/base/markup.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kHead = R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2a6f97; --quiet: #666;
  --better: #22883326; --worse: #ee667726; }
@media (prefers-color-scheme: dark) { :root { --accent: #7fb7d6; --quiet: #aaa; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 2200px; margin: 0 auto; padding: .8rem 1.6rem 4rem; }
body { overflow-wrap: break-word; }
p, li { max-width: 85ch; }
header { display: flex; flex-wrap: wrap; gap: 0 1.5rem; justify-content: space-between; color: var(--quiet); }
h1 { font-size: 1rem; font-weight: 500; margin: 0; }
h2 { font-size: 1.35rem; margin: 1rem 0 .6rem; padding-top: .6rem; border-top: 2px solid var(--line); }
section ~ h2 { margin-top: 3rem; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
a { color: var(--accent); }
.answer { display: flex; flex-wrap: wrap; gap: 1rem 3rem; align-items: start; }
.answer > div { flex: 1 1 24rem; max-width: 46rem; }
.answer > figure { flex: 2 1 36rem; min-width: 0; max-width: 70rem; margin-top: .4rem; }
.question { font-size: 1.15rem; color: var(--quiet); margin: .4rem 0; }
.lead { font-size: 1.2rem; line-height: 1.4; font-weight: 600; margin: .8rem 0 1rem; }
nav { background: var(--soft); border-radius: 8px; padding: .6rem 1rem; margin-top: 2rem; }
nav ul { list-style: none; margin: 0; padding-left: 0; }
nav ul ul { padding-left: 1.2rem; columns: 4 14rem; }
.tables { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: start; }
.scroll { overflow-x: auto; max-width: 100%; margin: .6rem 0 1.2rem; }
table { border-collapse: separate; border-spacing: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; max-width: calc(100vw - 3.2rem); }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th, td { white-space: nowrap; line-height: 1.3; }
thead th { white-space: normal; vertical-align: bottom; max-width: 8.5rem; }
tbody th { position: sticky; left: 0; background: Canvas; font-weight: 500; }
td.text { white-space: normal; overflow-wrap: anywhere; }
small { color: var(--quiet); font-size: .8em; }
th.number, td.number { text-align: right; }
td.better { background: var(--better); }
td.worse { background: var(--worse); }
thead th { border-bottom: 2px solid var(--line); }
tbody tr:hover { background: var(--soft); }
summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: 0 2.5rem; }
figure { margin: 1rem 0 1.6rem; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
figure p { color: var(--quiet); font-size: .9rem; margin: .2rem 0; }
figure svg { max-width: 100%; height: auto; }
.error { color: #b00020; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
footer pre { white-space: pre-wrap; }
@media (max-width: 640px) {
  body { font-size: 14px; padding: .5rem .7rem 3rem; }
  .lead { font-size: 1.1rem; }
  .question { font-size: 1rem; }
  .answer > div, .answer > figure { flex-basis: 100%; }
  th, td { padding: .2rem .35rem; }
  tbody th { white-space: normal; max-width: 7.5rem; }
  caption { max-width: calc(100vw - 1.4rem); }
  nav ul ul { columns: 1; }
  figure.picture { overflow-x: auto; }
  figure.picture svg:not([width]) { max-width: none; width: 720px; }
}
@media print {
  :root { color-scheme: light; --quiet: #444; }
  @page { margin: 12mm; }
  body { font-size: 9pt; max-width: none; padding: 0; }
  nav, footer, header a { display: none; }
  .answer, .charts, .tables { display: block; }
  .scroll { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: .1rem .3rem; white-space: normal; }
  tbody th { position: static; }
  td.better, td.worse { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  figure, tr { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
  h2 ~ h2 { break-before: page; }
  details::details-content { content-visibility: visible; height: auto; }
}
</style>
)";

// Runs before any other script, so that it records all errors.
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
  const fits = [];
  const say = (figure, problem) => {
    const line = document.createElement("p");
    line.className = "error";
    line.textContent = "This chart could not be drawn: " + problem;
    figure.append(line);
  };
  for (const figure of document.querySelectorAll("figure")) {
    if (figure.className === "picture") continue;
    const before = problems.length;  // Vega says some of its errors on the console only
    try {
      const spec = JSON.parse(figure.querySelector("script").textContent);
      const chart = figure.querySelector(".chart");
      const view = new emplaceVega.View(emplaceVega.parse(spec, null, {ast: true}), {
        expr: emplaceVega.expressionInterpreter, renderer: "svg", container: chart, hover: true});
      const fit = () => {
        if (spec.autosize && spec.autosize.type === "fit-x") view.width(chart.clientWidth).signal("narrow", chart.clientWidth < 560);
        return view.runAsync();
      };
      await fit();
      fits.push(fit);
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
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const fit of fits) fit();
  });
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("main details")) details.open = true;
  });
})();
</script>
)";

// A script element ends at "</" whatever its type, so "<" in the JSON is escaped.
std::string JsonInScript(const std::string& json) {
  std::string escaped;
  for (const char c : json) escaped += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return escaped;
}

std::string Anchor(std::size_t number) { return fmt::format("part-{}", number); }

// Allows a line break after each dot of a key path.
std::string Breakable(std::string html) {
  for (std::size_t at = html.find('.'); at != std::string::npos; at = html.find('.', at + 1)) {
    html.insert(at + 1, "<wbr>");
  }
  return html;
}

class HtmlWriter {
 public:
  explicit HtmlWriter(std::ostream& out) : out_(out) {}

  void operator()(const HeadingBlock& block) {
    fmt::print(out_, "<h{0} id=\"{1}\">{2}</h{0}>\n", block.level, Anchor(headings_++), HtmlText(block.text));
  }
  void operator()(const ParagraphBlock& block) { fmt::print(out_, "<p>{}</p>\n", HtmlText(block.text)); }
  void operator()(const AnswerBlock& block) {
    out_ << "<section class=\"answer\">\n<div>\n";
    if (!block.question.empty()) fmt::print(out_, "<p class=\"question\">{}</p>\n", HtmlText(block.question));
    fmt::print(out_, "<p class=\"lead\">{}</p>\n", HtmlText(block.answer));
    for (const std::string& text : block.notes) fmt::print(out_, "<p>{}</p>\n", HtmlText(text));
    out_ << "</div>\n";
    if (block.figure) (*this)(*block.figure);
    out_ << "</section>\n";
  }
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
      fmt::print(out_, "<th scope=\"col\"{}>{}</th>", i < block.text_columns ? "" : Class(block, i),
                 Breakable(HtmlText(block.header[i])));
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

  void operator()(const PictureBlock& block) {
    fmt::print(out_, "<figure class=\"picture\"><figcaption>{}</figcaption>\n{}\n<p>{}</p>\n</figure>\n",
               HtmlText(block.caption), block.svg, HtmlText(block.note));
  }

  // Consecutive tables share the width of the page; so do consecutive charts.
  void WriteBlocks(const std::vector<ReportBlock>& blocks) {
    std::string_view open;
    for (const ReportBlock& block : blocks) {
      const std::string_view group = GroupOf(block);
      if (group != open && !open.empty()) out_ << "</div>\n";
      if (group != open && !group.empty()) fmt::print(out_, "<div class=\"{}\">\n", group);
      open = group;
      std::visit([this](const auto& one) { (*this)(one); }, block);
    }
    if (!open.empty()) out_ << "</div>\n";
  }

  bool has_charts() const { return has_charts_; }

 private:
  static std::string_view GroupOf(const ReportBlock& block) {
    if (std::holds_alternative<ChartBlock>(block)) return "charts";
    const auto* const table = std::get_if<TableBlock>(&block);
    return table != nullptr && !table->folded ? "tables" : "";
  }
  static const char* Class(const TableBlock& block, std::size_t column, CellTone tone = CellTone::kPlain) {
    if (column < block.text_columns) return " class=\"text\"";
    if (tone == CellTone::kBetter) return " class=\"number better\"";
    return tone == CellTone::kWorse ? " class=\"number worse\"" : " class=\"number\"";
  }
  void WriteCell(const TableBlock& block, std::size_t column, const TextCell& cell) {
    const std::string text = HtmlText(cell.text);
    if (column == 0) {
      fmt::print(out_, "<th scope=\"row\">{}</th>", text);
    } else {
      fmt::print(out_, "<td{}>{}{}{}", Class(block, column, cell.tone), cell.strong ? "<strong>" : "", text,
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
  out << "<nav id=\"contents\" aria-label=\"Contents\"><ul>\n";
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

void WriteHtml(std::ostream& out, const ReportDocument& document) {
  const std::string title = HtmlText(document.title);
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" << title << "</title>\n";
  out << kHead << kWatch << "</head>\n<body>\n<header><h1>" << title
      << "</h1><a href=\"#contents\">Contents</a></header>\n<main>\n";
  HtmlWriter writer(out);
  writer.WriteBlocks(document.blocks);
  out << "</main>\n";
  WriteContents(out, document);
  if (writer.has_charts()) {
    out << "<footer><details><summary>Charts are drawn by Vega: licence</summary>\n"
           "<p>Parts of Vega come from D3: Copyright 2010-2022 Mike Bostock, ISC licence.</p>\n<pre>"
        << HtmlText(VegaLicence()) << "</pre></details></footer>\n<script>\n"
        << VegaScript() << "</script>\n"
        << kDraw;
  }
  out << "</body>\n</html>\n";
}

}  // namespace emplace::experiments
