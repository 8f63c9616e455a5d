#include "datasets/memory/memory_curve.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/markup.h"

namespace emplace::datasets {
namespace {

constexpr double kCurveWidth = 960;
constexpr double kCurveLeft = 70;
constexpr double kCurveRight = 20;
constexpr double kCurveTop = 44;
constexpr double kCurveHeight = 280;
constexpr double kPassHeight = 12;
constexpr double kColumnWidth = 2;
// By class.
constexpr const char* kCurveColours[kNumMemoryClasses] = {"#4477aa", "#66ccee", "#228833", "#ccbb44",
                                                          "#ee6677", "#bbbbbb", "#aa3377"};

using Point = std::array<std::int64_t, kNumMemoryClasses>;

std::int64_t SumOf(const Point& point) { return std::accumulate(point.begin(), point.end(), std::int64_t{0}); }

bool HasFewer(const Point& a, const Point& b) { return SumOf(a) < SumOf(b); }

// The least power of two that gives eight ticks at most.
double GibPerTick(double most) {
  double step = 1.0 / 1024;
  while (most / step > 8) step *= 2;
  return step;
}

}  // namespace

MemoryCurve CurveOf(const RankProgram& program) {
  EMPLACE_CHECK(!program.moments_.empty());
  MemoryCurve curve;
  const std::size_t first = program.moments_.size() > 1 ? 1 : 0;
  const std::size_t begin = program.moments_[first].event;
  std::size_t moment = first;
  Point now{};
  for (std::size_t i = 0; i <= program.events_.size(); ++i) {
    if (i == begin) curve.bytes.push_back(now);
    for (; moment < program.moments_.size() && program.moments_[moment].event == i; ++moment) {
      curve.parts.push_back({.text = program.moments_[moment].text, .begin = curve.bytes.size() - 1});
    }
    if (i == program.events_.size()) break;
    const RankProgram::Event& event = program.events_[i];
    const bool is_allocation = event.kind == RankProgram::EventKind::kAllocate;
    if (!is_allocation && event.kind != RankProgram::EventKind::kFree &&
        event.kind != RankProgram::EventKind::kFreeLate) {
      continue;
    }
    const RankProgram::Entry& entry = program.buffers_[event.buffer];
    now[static_cast<std::size_t>(entry.memory_class)] += is_allocation ? entry.bytes : -entry.bytes;
    if (i >= begin) curve.bytes.push_back(now);
  }
  return curve;
}

void WriteMemorySvg(std::ostream& out, const MemoryCurve& curve, const std::string& title) {
  const auto count = static_cast<double>(std::max<std::size_t>(1, curve.bytes.size()));
  const double room = kCurveWidth - kCurveLeft - kCurveRight;
  const auto to_x = [&](std::size_t point) { return kCurveLeft + room * static_cast<double>(point) / count; };
  const auto peak = std::ranges::max_element(curve.bytes, HasFewer);
  const double most = static_cast<double>(SumOf(*peak)) / (1 << 30);
  const double bottom = kCurveTop + kCurveHeight;
  const auto to_y = [&](double gib) { return bottom - (most > 0 ? gib * kCurveHeight / most : 0); };

  fmt::print(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kCurveWidth, bottom + kPassHeight + 24);
  fmt::print(out, "<text x=\"8\" y=\"16\" font-weight=\"bold\">{}: {:.2f} GiB at most</text>\n", HtmlText(title), most);
  for (std::size_t i = 0; i < kNumMemoryClasses; ++i) {
    const double x = kCurveLeft + 120 * static_cast<double>(i);
    fmt::print(out,
               "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" "
               "y=\"33\">{}</text>\n",
               x, kCurveColours[i], x + 14, Name(static_cast<MemoryClass>(i)));
  }
  // The highest point of each column, with the bytes below and above each area.
  std::vector<std::pair<double, Point>> columns;
  const auto num_columns = static_cast<std::size_t>(room / kColumnWidth);
  for (std::size_t i = 0; i < num_columns; ++i) {
    const std::size_t from = i * curve.bytes.size() / num_columns;
    const std::size_t to = std::max(from + 1, (i + 1) * curve.bytes.size() / num_columns);
    const auto first = curve.bytes.begin() + static_cast<std::ptrdiff_t>(from);
    columns.emplace_back(kCurveLeft + kColumnWidth * static_cast<double>(i),
                         *std::max_element(first, first + static_cast<std::ptrdiff_t>(to - from), HasFewer));
  }
  std::vector<double> below(columns.size());
  for (std::size_t i = 0; i < kNumMemoryClasses; ++i) {
    std::string upper;
    std::string lower;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double above = below[c] + static_cast<double>(columns[c].second[i]) / (1 << 30);
      const auto step = [&](double gib) {
        return fmt::format("{:.0f} {:.1f} {:.0f} {:.1f} ", columns[c].first, to_y(gib), columns[c].first + kColumnWidth,
                           to_y(gib));
      };
      const auto back = [&](double gib) {
        return fmt::format("{:.0f} {:.1f} {:.0f} {:.1f} ", columns[c].first + kColumnWidth, to_y(gib), columns[c].first,
                           to_y(gib));
      };
      upper += step(above);
      lower.insert(0, back(below[c]));
      below[c] = above;
    }
    fmt::print(out, "<polygon points=\"{}{}\" fill=\"{}\"/>\n", upper, lower, kCurveColours[i]);
  }
  const double tick = GibPerTick(most);
  for (int i = 0; i * tick <= most; ++i) {
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#555\">{:g} GiB</text>\n",
               kCurveLeft - 6, to_y(i * tick) + 4, i * tick);
  }
  for (std::size_t i = 0; i < curve.parts.size(); ++i) {
    const std::size_t end = i + 1 < curve.parts.size() ? curve.parts[i + 1].begin : curve.bytes.size();
    const std::string& text = curve.parts[i].text;
    const char* const colour = text.starts_with("forward")    ? "#4477aa"
                               : text.starts_with("backward") ? "#cc6677"
                                                              : "#228833";
    fmt::print(out,
               "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" stroke=\"white\" "
               "stroke-width=\"0.4\"><title>{}</title></rect>\n",
               to_x(curve.parts[i].begin), bottom + 2, to_x(end) - to_x(curve.parts[i].begin), kPassHeight, colour,
               HtmlText(text));
  }
  fmt::print(out,
             "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555\">passes, blue forward and red backward, in the order of "
             "allocations</text>\n</svg>\n",
             kCurveLeft, bottom + kPassHeight + 16);
}

void WriteMemoryTrace(std::ostream& out, const MemoryCurve& curve, const std::string& title) {
  fmt::print(out, "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  fmt::print(out, R"({{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {{"name": {}}}}})",
             JsonString(title));
  fmt::print(out,
             ",\n"
             R"({{"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {{"name": "passes"}}}})");
  for (std::size_t i = 0; i < curve.parts.size(); ++i) {
    const std::size_t end = i + 1 < curve.parts.size() ? curve.parts[i + 1].begin : curve.bytes.size();
    fmt::print(out,
               ",\n"
               R"({{"ph": "X", "name": {}, "pid": 0, "tid": 0, "ts": {}, "dur": {}}})",
               JsonString(curve.parts[i].text), curve.parts[i].begin, end - curve.parts[i].begin);
  }
  for (std::size_t i = 0; i < curve.bytes.size(); ++i) {
    fmt::print(out,
               ",\n"
               R"({{"ph": "C", "name": "memory", "pid": 0, "ts": {}, "args": {{)",
               i);
    for (std::size_t k = 0; k < kNumMemoryClasses; ++k) {
      fmt::print(out, R"({}"{}": {})", k > 0 ? ", " : "", Name(static_cast<MemoryClass>(k)), curve.bytes[i][k]);
    }
    out << "}}";
  }
  out << "\n]}\n";
}

}  // namespace emplace::datasets
