#include "sim/draw/timeline_svg.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/human_readable.h"
#include "sim/base/markup.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 90;  // device names
constexpr double kRight = 20;
constexpr double kTop = 44;  // title and legend
constexpr double kOpHeight = 18;
constexpr double kTransferHeight = 6;
constexpr double kRowHeight = 36;
constexpr double kMergePixels = 1.0 / 3;
constexpr double kDigitWidth = 6;  // width of a digit in a label
constexpr double kChainHeight = 4;
constexpr double kChainOp = 7;         // below the top of a row: over the ops
constexpr double kChainTransfer = 21;  // over the transfers

constexpr const char* kSvgColours[] = {"#7f7f7f", "#4477aa", "#cc6677", "#228833"};  // indexed by Pass
constexpr const char* kTransferColour = "#ddaa33";
constexpr const char* kAxisColour = " fill=\"#555\"";

// A piece of one bar: one interval, or several that are too close to distinguish.
struct Piece {
  double begin = 0;  // pixels
  double end = 0;
  const char* colour = "";
  std::size_t count = 1;
  std::string name;   // name of the first
  std::string label;  // drawn where there is room; "": of one colour, neighbours are one piece
};

class Bar {
 public:
  void Add(double begin, double end, const char* colour, std::string_view name, std::string_view label = "") {
    Piece* const last = pieces_.empty() ? nullptr : &pieces_.back();
    const auto is_small = [](double from, double to) { return to - from < 2 * kMergePixels; };
    // A piece with a label takes in no others, unless it is too small for the label.
    const bool small =
        is_small(begin, end) && (last == nullptr || last->label.empty() || is_small(last->begin, last->end));
    const bool same = last != nullptr && last->colour == colour && label.empty();
    if (last != nullptr && begin - last->end < kMergePixels && (same || small)) {
      last->end = std::max(last->end, end);
      ++last->count;
    } else {
      pieces_.push_back({begin, end, colour, 1, std::string(name), std::string(label)});
    }
  }

  void Print(std::ostream& out, double y, double height, const char* what) const {
    for (const Piece& piece : pieces_) {
      fmt::print(out, "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>",
                 piece.begin, y, std::max(piece.end - piece.begin, kMergePixels), height, piece.colour);
      if (piece.count == 1) {
        out << HtmlText(piece.name);
      } else {
        fmt::print(out, "{} {} from {} on", piece.count, what, HtmlText(piece.name));
      }
      out << "</title></rect>\n";
      if (piece.count == 1 && !piece.label.empty()) PrintLabel(out, piece, y, height);
    }
  }

 private:
  // A line at its end separates a piece from the next one of the same colour.
  static void PrintLabel(std::ostream& out, const Piece& piece, double y, double height) {
    const double width = piece.end - piece.begin;
    if (width >= 3) {
      fmt::print(out, "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"0.6\" height=\"{:.0f}\" fill=\"white\"/>\n",
                 piece.end - 0.6, y, height);
    }
    if (width < kDigitWidth * static_cast<double>(piece.label.size()) + 2) return;
    fmt::print(out,
               "<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" font-size=\"10\" fill=\"white\">{}</text>\n",
               (piece.begin + piece.end) / 2, y + height - 5, HtmlText(piece.label));
  }

  std::vector<Piece> pieces_;
};

// From 0 to `last`, in its own unit, with ticks at multiples of 1, 2 or 5 times a power of ten.
class TimeAxis {
 public:
  explicit TimeAxis(double last_micros) : last_(last_micros), step_(RoundTickStep(last_micros / kMostTicks)) {
    while (unit_ + 1 < std::size(kUnits) && last_ >= kUnits[unit_ + 1].micros) ++unit_;
  }

  double ToPixel(double micros) const { return kLeft + (last_ > 0 ? micros * (kWidth - kLeft - kRight) / last_ : 0); }

  // `y` is below the rows; labels stay `margin` pixels away from the right edge.
  void Print(std::ostream& out, double y, double margin, const char* colour) const {
    const double unit = kUnits[unit_].micros;
    const int digits = step_ > 0 ? std::max(0, static_cast<int>(-std::floor(std::log10(step_ / unit) + 1e-9))) : 0;
    for (int tick = 0; tick == 0 || (step_ > 0 && tick * step_ <= last_ * (1 + 1e-12)); ++tick) {
      const double x = ToPixel(tick * step_);
      fmt::print(out, "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"1\" height=\"4\"{}/>\n", x - 0.5, y - 2, colour);
      fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\"{}>{:.{}f} {}</text>\n",
                 std::min(x, kWidth - margin), y + 14, colour, tick * step_ / unit, digits, kUnits[unit_].name);
    }
  }

 private:
  struct Unit {
    const char* name;
    double micros;
  };
  static constexpr Unit kUnits[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};
  static constexpr double kMostTicks = 8;

  double last_;
  double step_;
  std::size_t unit_ = 0;
};

double LastMicros(const Timeline& timeline) {
  double last = 0;
  for (const Timeline::OpRun& run : timeline.ops) last = std::max(last, run.end_micros);
  for (const Timeline::Transfer& transfer : timeline.transfers) last = std::max(last, transfer.arrival_micros);
  return last;
}

constexpr const char* kChainColour = "#e6007a";
constexpr const char* kQueueColour = "#ff8c00";
constexpr const char* kGapColour = "#999999";

// A line of the chain from one bar to another.
using ChainStep = std::tuple<int, int, int>;  // x and both y in half pixels

// The overlay of the chain.
struct ChainBars {
  std::vector<Bar> ops;        // [num_devices]
  std::vector<Bar> transfers;  // [num_devices]
  std::set<ChainStep> steps;
};

struct LegendEntry {
  const char* colour;
  const char* word;
  double room = 95;
};

// On a page, the picture has the page's background and colour of text.
void PrintHead(std::ostream& out, double height, const std::string& title, const std::vector<LegendEntry>& legend,
               bool on_page) {
  fmt::print(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\"{}>\n",
             kWidth, height, on_page ? " fill=\"currentColor\"" : "");
  if (!on_page) out << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  fmt::print(out, "<text x=\"8\" y=\"16\" font-weight=\"bold\">{}</text>\n", HtmlText(title));
  double x = kLeft;
  for (const LegendEntry& entry : legend) {
    fmt::print(
        out,
        "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" y=\"33\">{}</text>\n",
        x, entry.colour, x + 14, entry.word);
    x += entry.room;
  }
}

std::vector<LegendEntry> TimelineLegend(bool with_chain) {
  std::vector<LegendEntry> legend = {{kSvgColours[0], "other"},
                                     {kSvgColours[1], "forward"},
                                     {kSvgColours[2], "backward"},
                                     {kSvgColours[3], "update"},
                                     {kTransferColour, "outgoing transfer", 125}};
  if (with_chain) {
    legend.insert(legend.end(),
                  {{kChainColour, "critical chain"}, {kQueueColour, "its queues"}, {kGapColour, "its gaps"}});
  }
  return legend;
}

double RowTop(DeviceId device) { return kTop + kRowHeight * static_cast<double>(Index(device)); }

template <typename ToPixel>
ChainBars MakeChainBars(const StepExplanation& explained, const Graph& graph, std::size_t num_devices,
                        const ToPixel& to_pixel) {
  ChainBars bars{std::vector<Bar>(num_devices), std::vector<Bar>(num_devices), {}};
  std::optional<double> last_y;
  for (const ChainPart& part : explained.chain) {
    const bool is_transfer = part.item.is_transfer;
    const double begin = to_pixel(MicrosFromDuration(part.begin));
    const double end = to_pixel(MicrosFromDuration(part.end));
    const char* colour = kChainColour;
    if (part.kind == ChainKind::kGap || part.kind == ChainKind::kLaunch) colour = kGapColour;
    if (part.kind == ChainKind::kDeviceQueue || part.kind == ChainKind::kChannelQueue) colour = kQueueColour;
    (is_transfer ? bars.transfers : bars.ops)[Index(part.item.device)].Add(begin, end, colour,
                                                                           graph.op(part.item.op).name);
    const double y = RowTop(part.item.device) + (is_transfer ? kChainTransfer : kChainOp) + kChainHeight / 2;
    if (last_y && *last_y != y) {
      bars.steps.emplace(static_cast<int>(2 * begin), static_cast<int>(2 * std::min(y, *last_y)),
                         static_cast<int>(2 * std::max(y, *last_y)));
    }
    last_y = y;
  }
  return bars;
}

void PrintChain(std::ostream& out, const ChainBars& bars) {
  for (std::size_t d = 0; d < bars.ops.size(); ++d) {
    const double top = RowTop(MakeId<DeviceId>(d));
    bars.ops[d].Print(out, top + kChainOp, kChainHeight, "parts of the chain");
    bars.transfers[d].Print(out, top + kChainTransfer, kChainHeight, "parts of the chain");
  }
  for (const auto& [x, from, to] : bars.steps) {
    fmt::print(out, "<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\" stroke-width=\"0.8\"/>\n", x / 2.0, from / 2.0,
               to / 2.0, kChainColour);
  }
}

void WriteSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster,
              const StepExplanation* explained) {
  const std::size_t num_devices = cluster.num_devices();
  const double last = LastMicros(timeline);
  const TimeAxis axis(last);
  const auto to_pixel = [&axis](double micros) { return axis.ToPixel(micros); };
  std::vector<Bar> ops(num_devices);
  std::vector<Bar> transfers(num_devices);
  for (const Timeline::OpRun& run : timeline.ops) {
    if (run.end_micros == run.start_micros) continue;
    const Op& op = graph.op(run.op);
    ops[Index(run.device)].Add(to_pixel(run.start_micros), to_pixel(run.end_micros),
                               kSvgColours[static_cast<std::size_t>(op.pass)], op.name);
  }
  for (const Timeline::Transfer& transfer : timeline.transfers) {
    transfers[Index(transfer.from)].Add(to_pixel(transfer.start_micros), to_pixel(transfer.arrival_micros),
                                        kTransferColour, graph.op(graph.tensor(transfer.tensor).producer).name);
  }
  const bool on_page = explained != nullptr;
  const double bottom = kTop + kRowHeight * static_cast<double>(num_devices);
  PrintHead(out, bottom + 24, fmt::format("{} on {}: {}", graph.name(), cluster.name(), HumanReadableMicros(last)),
            TimelineLegend(on_page), on_page);
  for (std::size_t d = 0; d < num_devices; ++d) {
    const double y = RowTop(MakeId<DeviceId>(d));
    fmt::print(out, "<text x=\"8\" y=\"{:.0f}\">{}</text>\n", y + 14, HtmlText(cluster.devices()[d].name));
    ops[d].Print(out, y, kOpHeight, "ops");
    transfers[d].Print(out, y + kOpHeight + 2, kTransferHeight, "transfers");
  }
  if (on_page) PrintChain(out, MakeChainBars(*explained, graph, num_devices, to_pixel));
  axis.Print(out, bottom, on_page ? 42 : 30, on_page ? "" : kAxisColour);
  out << "</svg>\n";
}

// By ActionKind; then final ops, and collectives among them.
constexpr LegendEntry kScheduleLegend[] = {{"#4477aa", "forward"},
                                           {"#cc6677", "backward"},
                                           {"#aa3377", "backward, inputs", 135},
                                           {"#ee8866", "backward, weights", 145},
                                           {"#228833", "update"},
                                           {"#66a5ad", "collective"},
                                           {kTransferColour, "outgoing transfer", 125}};
constexpr std::size_t kUpdateEntry = 4;
constexpr std::size_t kCollectiveEntry = 5;
constexpr std::size_t kTransferEntry = 6;

// The bars of the ranks, and which entries of the legend they need.
struct ScheduleBars {
  std::vector<Bar> runs;
  std::vector<Bar> sends;
  std::array<bool, std::size(kScheduleLegend)> used{};
};

void AddActions(const TimeAxis& axis, const PipelineSchedule& schedule, const PipelineModel& model,
                const ScheduleResult& result, ScheduleBars* bars) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule.ranks[rank][i];
      const Duration time = ActionTime(model.stages[action.stage], action.kind);
      if (time == Duration{}) continue;
      const auto entry = static_cast<std::size_t>(action.kind);
      bars->used[entry] = true;
      bars->runs[rank].Add(axis.ToPixel(MicrosFromDuration(result.starts[rank][i])),
                           axis.ToPixel(MicrosFromDuration(result.starts[rank][i] + time)),
                           kScheduleLegend[entry].colour, Text(InSchedule(model, action)),
                           std::to_string(action.micro_batch));
    }
  }
}

void AddFinalOps(const TimeAxis& axis, const PlacedPipeline& pipeline, const ScheduleResult& result, const Graph& graph,
                 ScheduleBars* bars) {
  for (std::size_t i = 0; i < pipeline.model.final_ops.size(); ++i) {
    const FinalOp& op = pipeline.model.final_ops[i];
    const Duration time = op.collective ? pipeline.model.final_collectives[*op.collective].time : op.time;
    if (time == Duration{}) continue;
    const std::size_t entry = op.collective ? kCollectiveEntry : kUpdateEntry;
    bars->used[entry] = true;
    // Collectives run beside ops.
    (op.collective ? bars->sends : bars->runs)[op.rank].Add(
        axis.ToPixel(MicrosFromDuration(result.final_starts[i])),
        axis.ToPixel(MicrosFromDuration(result.final_starts[i] + time)), kScheduleLegend[entry].colour,
        graph.op(pipeline.final_ops[i]).name);
  }
}

// Messages of a rank in the order of their starts.
void AddSends(const TimeAxis& axis, const PipelineModel& model, const ScheduleMessages& messages, ScheduleBars* bars) {
  std::vector<std::tuple<Duration, Duration, std::size_t, std::string>> sends;
  const auto add = [&](const PipelineRoute& route, const ScheduleMessages::Sent& sent, std::string what) {
    if (route.from == route.to || sent.arrival <= sent.start) return;
    sends.emplace_back(sent.start, sent.arrival, route.from, std::move(what));
  };
  for (std::size_t i = 0; i < model.messages.size(); ++i) {
    const PipelineMessage& message = model.messages[i];
    for (std::size_t m = 0; m < (message.once ? 1 : messages.micro_batches); ++m) {
      std::string what = "input";
      if (message.after) {
        what = Text(InSchedule(model, {.stage = static_cast<std::uint32_t>(message.after->stage),
                                       .kind = message.after->kind,
                                       .micro_batch = static_cast<std::uint32_t>(m)}));
      }
      add(message.route, messages.Of(i, m), std::move(what));
    }
  }
  for (std::size_t i = 0; i < model.final_messages.size(); ++i) {
    add(model.final_messages[i].route, messages.final_sent[i], "for an update");
  }
  std::sort(sends.begin(), sends.end());
  for (const auto& [start, arrival, rank, what] : sends) {
    bars->used[kTransferEntry] = true;
    bars->sends[rank].Add(axis.ToPixel(MicrosFromDuration(start)), axis.ToPixel(MicrosFromDuration(arrival)),
                          kTransferColour, what);
  }
}

void PrintSchedule(std::ostream& out, const TimeAxis& axis, const ScheduleBars& bars,
                   const std::vector<std::string>& names, const std::string& title, bool on_page) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < bars.used.size(); ++i) {
    if (bars.used[i]) legend.push_back(kScheduleLegend[i]);
  }
  const double bottom = kTop + kRowHeight * static_cast<double>(names.size());
  PrintHead(out, bottom + 24, title, legend, on_page);
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const double y = kTop + kRowHeight * static_cast<double>(rank);
    fmt::print(out, "<text x=\"8\" y=\"{:.0f}\">{}</text>\n", y + 14, HtmlText(names[rank]));
    bars.runs[rank].Print(out, y, kOpHeight, "actions");
    bars.sends[rank].Print(out, y + kOpHeight + 2, kTransferHeight, "messages");
  }
  axis.Print(out, bottom, on_page ? 42 : 30, on_page ? "" : kAxisColour);
  out << "</svg>\n";
}

}  // namespace

void WriteScheduleSvg(std::ostream& out, const PipelineSchedule& schedule, const PlacedPipeline& pipeline,
                      const ScheduleResult& result, const ScheduleMessages& messages, const Graph& graph,
                      const Cluster& cluster) {
  const std::size_t num_ranks = pipeline.model.ranks.size();
  const double last = MicrosFromDuration(result.step_time);
  const TimeAxis axis(last);
  ScheduleBars bars{std::vector<Bar>(num_ranks), std::vector<Bar>(num_ranks), {}};
  AddActions(axis, schedule, pipeline.model, result, &bars);
  AddSends(axis, pipeline.model, messages, &bars);
  AddFinalOps(axis, pipeline, result, graph, &bars);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) names.push_back(cluster.device(pipeline.devices[rank]).name);
  PrintSchedule(out, axis, bars, names,
                fmt::format("{} on {}, {}: {}", graph.name(), cluster.name(),
                            Counted(schedule.micro_batches, "micro-batch"), HumanReadableMicros(last)),
                /*on_page=*/false);
}

double RoundTickStep(double least) {
  if (least <= 0) return 0;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1, 2, 5}) {
    if (digit * power >= least) return digit * power;
  }
  return 10 * power;
}

void WriteScheduleSvg(std::ostream& out, const PipelineSchedule& schedule, const PipelineModel& model,
                      const std::vector<std::string>& names, const std::string& title) {
  const ScheduleResult result = SimulateSchedule(schedule, model);
  const double last = MicrosFromDuration(result.step_time);
  const TimeAxis axis(last);
  ScheduleBars bars{std::vector<Bar>(names.size()), std::vector<Bar>(names.size()), {}};
  AddActions(axis, schedule, model, result, &bars);
  AddSends(axis, model, SimulateMessages(schedule, model), &bars);
  PrintSchedule(out, axis, bars, names, fmt::format("{}: {}", title, HumanReadableMicros(last)), /*on_page=*/true);
}

void WriteTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster) {
  WriteSvg(out, timeline, graph, cluster, nullptr);
}

void WriteExplainedTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster,
                               const StepExplanation& explained) {
  WriteSvg(out, timeline, graph, cluster, &explained);
}

}  // namespace emplace
