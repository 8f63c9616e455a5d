#include "tools/cli/dashboard/dashboard_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

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

// A line may end after a comma: JSON has no spaces.
std::string BreakableHtml(const std::string& text) {
  std::string html = HtmlText(text);
  for (std::size_t at = html.find(','); at != std::string::npos; at = html.find(',', at + 1)) {
    html.insert(at + 1, "<wbr>");
  }
  return html;
}

constexpr std::string_view kScript =
    R"(// The page's main part is fetched again while it is live; what was opened or scrolled stays so.
const interval = 2000;
const refresh = async () => {
  const main = document.querySelector("main");
  if (!main.dataset.live) return;
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = document.adoptNode(page.querySelector("main"));
    for (const open of main.querySelectorAll("details[open]")) {
      const same = open.id && next.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    const scrolled = [...main.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    main.replaceWith(next);
    next.querySelectorAll(".scroll").forEach((part, i) => { part.scrollLeft = scrolled[i] || 0; });
    document.body.classList.remove("lost");
  } catch (error) {
    document.body.classList.add("lost");
  }
};
setInterval(refresh, interval);
)";

// The colours of agents are those of the report. Source: Paul Tol, "Colour Schemes", SRON/EPS/TN/09-002.
constexpr std::string_view kStyle =
    R"(:root { color-scheme: light dark; --line: #8884; --quiet: #666; --accent: #2a6f97; --bad: #b00020; }
@media (prefers-color-scheme: dark) { :root { --quiet: #aaa; --accent: #7fb7d6; --bad: #ff8a95; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1400px; margin: 0 auto; padding: .8rem 1.6rem 4rem; overflow-wrap: break-word; }
body.lost::before { content: "The dashboard does not answer: this page is old."; color: var(--bad); font-weight: 600; }
h1 { font-size: 1rem; font-weight: 500; color: var(--quiet); }
h2 { font-size: 1.3rem; margin: 1.4rem 0 .4rem; border-top: 2px solid var(--line); padding-top: .6rem; }
h3, caption { font-size: 1.05rem; font-weight: 600; text-align: left; margin: 1rem 0 .3rem; }
caption { max-width: calc(100vw - 3.2rem); }
a { color: var(--accent); }
p { max-width: 85ch; margin: .5rem 0; }
progress { width: 100%; }
.scroll { overflow-x: auto; max-width: 100%; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem 0 .2rem .8rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { vertical-align: bottom; font-weight: 500; color: var(--quiet); }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; min-width: 6.5rem; position: sticky; left: 0; background: Canvas; }
pre { white-space: pre-wrap; background: #8881; padding: .6rem; max-height: 24rem; overflow: auto; }
summary { cursor: pointer; }
.error, summary { color: var(--bad); }
.note { color: var(--quiet); }
.questions { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: .4rem 2rem; }
figure { margin: .6rem 0; min-width: 0; }
figcaption { font-weight: 600; }
figure .scroll { margin: .2rem 0; }
figure table { width: 100%; font-size: .85rem; }
figure th, figure td { padding-left: .5rem; }
figure th:first-child, figure td:first-child { min-width: 4.5rem; }
figure caption { display: none; }
figure > svg { display: block; width: 100%; max-width: 34rem; height: auto; }
figure > svg text { font-size: 12px; fill: currentColor; }
.tick { stroke: var(--line); }
.curve { fill: none; stroke: var(--colour); stroke-width: 2; }
.band { fill: var(--colour); fill-opacity: .18; }
.end { fill: var(--colour); }
.agent { display: block; border-left: .8em solid var(--colour); padding-left: .4em; }
.timeline { display: block; width: 100%; min-width: 45rem; }
.c0 { --colour: #4477aa; } .c1 { --colour: #ee6677; } .c2 { --colour: #228833; } .c3 { --colour: #ccbb44; }
.c4 { --colour: #66ccee; } .c5 { --colour: #aa3377; } .c6 { --colour: #bbbbbb; } .c7 { --colour: #ee8866; }
.c8 { --colour: #44bb99; } .c9 { --colour: #99ddff; } .c10 { --colour: #aaaa00; } .c11 { --colour: #ffaabb; }
@media (max-width: 640px) {
  body { padding: .5rem .75rem 3rem; }
  caption { max-width: calc(100vw - 1.5rem); }
  table { font-size: .85rem; }
  th, td { padding-left: .5rem; }
}
)";
constexpr std::size_t kNumColours = 12;

constexpr std::string_view kIcon =
    R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">
<path d="M1 2h9v3h-9z" fill="#4477aa"/><path d="M4 6.5h11v3h-11z" fill="#ee6677"/><path d="M2 11h8v3h-8z" fill="#228833"/>
</svg>
)";

std::size_t ColourOf(const std::string& label, const std::vector<std::string>& labels) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  return static_cast<std::size_t>(at - labels.begin()) % kNumColours;
}

// The smallest of 1, 2 and 5 times a power of ten that is at least the value.
double RoundStep(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The multiples of a round step from just below `low` to just above `high`, about five.
std::vector<double> LinearTicks(double low, double high) {
  constexpr double kMostSteps = 5;
  const double step = RoundStep(std::max(high - low, 0.02 * high) / kMostSteps);
  std::vector<double> ticks;
  for (double i = std::floor(low / step); ticks.size() < 2 || ticks.back() < high; ++i) ticks.push_back(i * step);
  return ticks;
}

// Powers of ten from 1 to `high`, or of a thousand if these are many; up to 100 also 2 and 5 times each.
std::vector<double> LogTicks(double high) {
  std::vector<double> ticks;
  for (double power = 1; power <= high; power *= high > 1e8 ? 1000 : 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power <= high && (factor == 1 || high <= 100)) ticks.push_back(factor * power);
    }
  }
  return ticks;
}

// "500", "20k", "1M".
std::string CountText(double count) {
  if (count >= 1e6) return fmt::format("{}M", count / 1e6);
  return count >= 1000 ? fmt::format("{}k", count / 1000) : fmt::format("{}", count);
}

// Where a picture's points are. Its size is that of a phone, so that text keeps its size there.
struct Plot {
  static constexpr double kWidth = 360;
  static constexpr double kHeight = 222;
  static constexpr double kLeft = 44;
  static constexpr double kRight = 345;
  static constexpr double kTop = 26;
  static constexpr double kBottom = 184;

  double last_x = 1;
  double low = 0;  // smallest y
  double high = 1;

  double X(double evaluations) const { return kLeft + (kRight - kLeft) * std::log(evaluations) / std::log(last_x); }
  double Y(double micros) const { return kBottom - (kBottom - kTop) * (micros - low) / (high - low); }
};

// The lines of the axes with their numbers and titles.
std::string AxesSvg(const Plot& plot, const std::vector<double>& ticks, const TimeUnit& unit) {
  std::string svg = fmt::format("<text x=\"0\" y=\"12\">step time, {}</text>\n", unit.name);
  for (const double tick : ticks) {
    const double y = plot.Y(tick);
    svg += fmt::format(
        "<path class=\"tick\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
        Plot::kLeft, y, Plot::kRight, Plot::kLeft - 5, y + 4, tick / unit.micros);
  }
  for (const double tick : LogTicks(plot.last_x)) {
    const double x = plot.X(tick);
    svg += fmt::format(
        "<path class=\"tick\" d=\"M{:.1f} {}v5\"/><text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x,
        Plot::kBottom, x, Plot::kBottom + 18, CountText(tick));
  }
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">evaluations</text>\n", Plot::kRight,
                           Plot::kHeight - 6);
}

// The band, the line and a dot at its end.
std::string CurveSvg(const Plot& plot, const experiments::Curve& curve, std::size_t colour) {
  std::string line;
  std::string upper;
  std::string lower;
  for (const experiments::CurvePoint& point : curve.points) {
    const double x = plot.X(point.x);
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, plot.Y(point.centre));
    upper += fmt::format("{}{:.1f} {:.1f}", upper.empty() ? "M" : "L", x, plot.Y(point.high));
    lower = fmt::format("L{:.1f} {:.1f}", x, plot.Y(point.low)) + lower;
  }
  const experiments::CurvePoint& end = curve.points.back();
  return fmt::format(
      "<g class=\"c{}\"><path class=\"band\" d=\"{}{}Z\"/><path class=\"curve\" d=\"{}\"/><circle class=\"end\" "
      "cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/></g>\n",
      colour, upper, lower, line, plot.X(end.x), plot.Y(end.centre));
}

}  // namespace

std::string PageHtml(const std::string& title, const std::string& main_html, bool live) {
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{0}</title>
<link rel="icon" href="icon.svg">
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
std::string_view PageIcon() { return kIcon; }

std::string TrialAddress(std::string_view page, std::string_view experiment, std::string_view trial) {
  return fmt::format("{}?experiment={}&trial={}", page, UrlText(experiment), UrlText(trial));
}

std::string CurvesAddress(std::string_view experiment, std::size_t first) {
  return fmt::format("curves?experiment={}&first={}", UrlText(experiment), first);
}

std::string LinkHtml(const std::string& address, const std::string& text) {
  return fmt::format("<a href=\"{}\">{}</a>", HtmlText(address), HtmlText(text));
}

std::string TableHtml(const std::string& caption, const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows_html) {
  std::string html = fmt::format("<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tr>", HtmlText(caption));
  for (const std::string& cell : header) html += fmt::format("<th scope=\"col\">{}</th>", BreakableHtml(cell));
  html += "</tr>\n";
  for (const std::vector<std::string>& row : rows_html) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", cell);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string LogHtml(const std::string& log) { return fmt::format("<pre>{}</pre>\n", BreakableHtml(log)); }

TimeUnit UnitFor(double micros) {
  if (micros >= 1e6) return {.name = "s", .micros = 1e6};
  return micros >= 1000 ? TimeUnit{.name = "ms", .micros = 1000} : TimeUnit{.name = "us", .micros = 1};
}

std::string CurvesSvg(const std::vector<experiments::Curve>& curves, const std::vector<std::string>& labels) {
  constexpr double kSlowest = 3;  // times the shortest step
  constexpr double kLeastMicros = 1e-9;
  Plot plot;
  bool has_line = false;
  double shortest = std::numeric_limits<double>::infinity();
  double longest = 0;
  for (const experiments::Curve& curve : curves) {
    has_line = has_line || curve.points.size() > 1;
    for (const experiments::CurvePoint& point : curve.points) {
      plot.last_x = std::max(plot.last_x, point.x);
      shortest = std::min(shortest, point.low);
      longest = std::max(longest, point.high);
    }
  }
  if (!has_line || shortest < kLeastMicros) return "";
  const std::vector<double> ticks = LinearTicks(shortest, std::min(longest, kSlowest * shortest));
  plot.low = ticks.front();
  plot.high = ticks.back();
  std::string svg = fmt::format(
      "<svg role=\"img\" aria-label=\"step time by evaluations\" viewBox=\"0 0 {} {}\">\n{}"
      "<svg x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 {} {} {}\">\n",
      Plot::kWidth, Plot::kHeight, AxesSvg(plot, ticks, UnitFor(plot.high)), Plot::kTop - 4, Plot::kWidth,
      Plot::kBottom - Plot::kTop + 8, Plot::kTop - 4, Plot::kWidth, Plot::kBottom - Plot::kTop + 8);
  for (const experiments::Curve& curve : curves) {
    if (!curve.points.empty()) svg += CurveSvg(plot, curve, ColourOf(curve.label, labels));
  }
  return svg + "</svg>\n</svg>\n";
}

std::string LegendHtml(const std::string& label, const std::vector<std::string>& labels) {
  return fmt::format("<span class=\"agent c{}\">{}</span>", ColourOf(label, labels), HtmlText(label));
}

}  // namespace emplace::tools
