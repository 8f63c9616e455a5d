#include "tools/cli/dashboard/dashboard_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/base/markup.h"

namespace emplace::tools {
namespace {

// All but letters, digits and "-_.~" as %XX (RFC 3986, 2.1).
std::string UrlText(std::string_view text) {
  std::string url;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("-_.~").find(c) != std::string_view::npos);
    plain ? url += c : url += fmt::format("%{:02X}", byte);
  }
  return url;
}

constexpr std::string_view kScript =
    R"(// The page's main part is fetched again while it is live; what was opened stays open.
const interval = 2000;
const refresh = async () => {
  const main = document.querySelector("main");
  if (!main.dataset.live) return;
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("main");
    for (const open of main.querySelectorAll("details[open]")) {
      const same = open.id && next.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    main.replaceWith(document.adoptNode(next));
    document.body.classList.remove("lost");
  } catch (error) {
    document.body.classList.add("lost");
  }
};
setInterval(refresh, interval);
)";

constexpr std::string_view kStyle =
    R"(:root { color-scheme: light dark; --line: #8884; --quiet: #777; --accent: #2a6f97; }
@media (prefers-color-scheme: dark) { :root { --accent: #7fb7d6; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1400px; margin: 0 auto; padding: .8rem 1.6rem 4rem; overflow-wrap: anywhere; }
body.lost::before { content: "The dashboard does not answer: this page is old."; color: #b00020; font-weight: 600; }
h1 { font-size: 1rem; font-weight: 500; color: var(--quiet); }
h2 { font-size: 1.3rem; margin: 1.4rem 0 .4rem; border-top: 2px solid var(--line); padding-top: .6rem; }
h3, caption { font-size: 1.05rem; font-weight: 600; text-align: left; margin: 1rem 0 .3rem; }
a { color: var(--accent); }
progress { width: 100%; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
pre { white-space: pre-wrap; background: #8881; padding: .6rem; max-height: 24rem; overflow: auto; }
summary { cursor: pointer; }
.error, summary { color: #b00020; }
img, svg { max-width: 100%; height: auto; }
svg.curves { display: block; }
svg.curves text { font-size: 12px; fill: currentColor; }
svg.curves path { fill: none; stroke-width: 2; }
svg.curves .axis { stroke: var(--line); stroke-width: 1; }
.c0 { stroke: #4477aa; } .c1 { stroke: #ee6677; } .c2 { stroke: #228833; } .c3 { stroke: #ccbb44; } .c4 { stroke: #66ccee; } .c5 { stroke: #aa3377; }
)";
constexpr std::size_t kNumColours = 6;

}  // namespace

std::string PageHtml(const std::string& title, const std::string& main_html, bool live) {
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{0}</title>
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body>
<h1>emplace · {0}</h1>
<main{1}>
{2}</main>
</body>
</html>
)",
                     HtmlText(title), live ? " data-live=\"yes\"" : "", main_html);
}

std::string_view PageScript() { return kScript; }
std::string_view PageStyle() { return kStyle; }

std::string TrialAddress(std::string_view page, std::string_view experiment, std::string_view trial) {
  return fmt::format("{}?experiment={}&trial={}", page, UrlText(experiment), UrlText(trial));
}

std::string LinkHtml(const std::string& address, const std::string& text) {
  return fmt::format("<a href=\"{}\">{}</a>", HtmlText(address), HtmlText(text));
}

std::string TableHtml(const std::string& caption, const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows_html) {
  std::string html = fmt::format("<table>\n<caption>{}</caption>\n<tr>", HtmlText(caption));
  for (const std::string& cell : header) html += fmt::format("<th>{}</th>", HtmlText(cell));
  html += "</tr>\n";
  for (const std::vector<std::string>& row : rows_html) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", cell);
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string LogHtml(const std::string& log) { return fmt::format("<pre>{}</pre>\n", HtmlText(log)); }

std::string CurvesHtml(const std::vector<Curve>& curves) {
  double most_evaluations = 0;
  double least = 100;
  std::size_t drawn = 0;
  for (const Curve& curve : curves) {
    if (curve.points.size() < 2 || curve.points.front().second <= 0) continue;
    ++drawn;
    most_evaluations = std::max(most_evaluations, curve.points.back().first);
    least = std::min(least, 100 * curve.points.back().second / curve.points.front().second);
  }
  if (drawn == 0 || most_evaluations <= 0) return "";
  constexpr double kWidth = 640;
  constexpr double kHeight = 220;
  constexpr double kLeft = 56;
  constexpr double kTop = 12;
  const double floor = std::min(least, 99.0);
  const auto x_of = [&](double evaluations) { return kLeft + kWidth * evaluations / most_evaluations; };
  const auto y_of = [&](double percent) { return kTop + kHeight * (100 - percent) / (100 - floor); };
  std::string html = fmt::format(
      "<svg class=\"curves\" role=\"img\" aria-label=\"best step time by evaluations\" viewBox=\"0 0 {} {}\" "
      "width=\"{}\">\n"
      "<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n<text x=\"4\" y=\"{}\">100 %</text>\n<text x=\"4\" y=\"{}\">{:.0f} "
      "%</text>\n"
      "<text x=\"{}\" y=\"{}\">best step time, % of the first, by evaluations (up to {:.0f})</text>\n",
      kLeft + kWidth + 260, kTop + kHeight + 30, kLeft + kWidth + 260, kLeft, kTop, kTop + kHeight, kLeft + kWidth,
      kTop + 5, kTop + kHeight, floor, kLeft, kTop + kHeight + 20, most_evaluations);
  std::size_t number = 0;
  for (const Curve& curve : curves) {
    if (curve.points.size() < 2 || curve.points.front().second <= 0) continue;
    std::string path;
    for (const auto& [evaluations, micros] : curve.points) {
      const double percent = std::clamp(100 * micros / curve.points.front().second, floor, 100.0);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(evaluations), y_of(percent));
    }
    const double legend = kTop + 8 + 17 * static_cast<double>(number);
    html += fmt::format(
        "<path class=\"c{0}\" d=\"{1}\"/>\n<path class=\"c{0}\" d=\"M{2} {3}h16\"/>\n<text x=\"{4}\" "
        "y=\"{5}\">{6}</text>\n",
        number % kNumColours, path, kLeft + kWidth + 12, legend, kLeft + kWidth + 34, legend + 4, HtmlText(curve.name));
    ++number;
  }
  return html + "</svg>\n";
}

}  // namespace emplace::tools
