#include "sim/draw/timeline_svg.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/base/markup.h"

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
constexpr double kChainHeight = 4;
constexpr double kChainOp = 7;         // below the top of a row: over the ops
constexpr double kChainTransfer = 21;  // over the transfers

constexpr const char* kSvgColours[] = {"#7f7f7f", "#4477aa", "#cc6677", "#228833"};  // by Pass
constexpr const char* kTransferColour = "#ddaa33";

// A piece of one bar: one interval, or several of one colour that no eye could tell apart.
struct Piece {
  double begin = 0;  // pixels
  double end = 0;
  const char* colour = "";
  std::size_t count = 1;
  std::string_view name;  // of the first
};

class Bar {
 public:
  void Add(double begin, double end, const char* colour, std::string_view name) {
    Piece* const last = pieces_.empty() ? nullptr : &pieces_.back();
    const bool small = end - begin < 2 * kMergePixels;
    if (last != nullptr && begin - last->end < kMergePixels && (last->colour == colour || small)) {
      last->end = std::max(last->end, end);
      ++last->count;
    } else {
      pieces_.push_back({begin, end, colour, 1, name});
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
    }
  }

 private:
  std::vector<Piece> pieces_;
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

// What the chain adds to the picture.
struct ChainBars {
  std::vector<Bar> ops;        // [num_devices]
  std::vector<Bar> transfers;  // [num_devices]
  std::set<ChainStep> steps;
};

void PrintHead(std::ostream& out, double height, const std::string& title, bool with_chain) {
  fmt::print(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\"{}>\n",
             kWidth, height, with_chain ? " fill=\"currentColor\"" : "");
  if (!with_chain) out << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  fmt::print(out, "<text x=\"8\" y=\"16\" font-weight=\"bold\">{}</text>\n", HtmlText(title));
  const char* const words[] = {"other", "forward", "backward", "update"};
  double x = kLeft;
  const auto legend = [&out, &x](const char* colour, const char* word) {
    fmt::print(
        out,
        "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" y=\"33\">{}</text>\n",
        x, colour, x + 14, word);
    x += 95;
  };
  for (std::size_t i = 0; i < std::size(words); ++i) legend(kSvgColours[i], words[i]);
  legend(kTransferColour, "outgoing transfer");
  if (!with_chain) return;
  x += 30;
  legend(kChainColour, "critical chain");
  legend(kQueueColour, "its queues");
  legend(kGapColour, "its gaps");
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
  const double scale = last > 0 ? (kWidth - kLeft - kRight) / last : 0;
  const auto to_pixel = [scale](double micros) { return kLeft + micros * scale; };
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
  const double axis = kTop + kRowHeight * static_cast<double>(num_devices);
  PrintHead(out, axis + 24, fmt::format("{} on {}: {:.2f} ms", graph.name(), cluster.name(), last / 1000),
            explained != nullptr);
  for (std::size_t d = 0; d < num_devices; ++d) {
    const double y = RowTop(MakeId<DeviceId>(d));
    fmt::print(out, "<text x=\"8\" y=\"{:.0f}\">{}</text>\n", y + 14, HtmlText(cluster.devices()[d].name));
    ops[d].Print(out, y, kOpHeight, "ops");
    transfers[d].Print(out, y + kOpHeight + 2, kTransferHeight, "transfers");
  }
  if (explained != nullptr) PrintChain(out, MakeChainBars(*explained, graph, num_devices, to_pixel));
  const std::string axis_colour = explained != nullptr ? "" : " fill=\"#555\"";
  for (int tick = 0; tick <= 4; ++tick) {
    const double micros = last * tick / 4;
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\"{}>{:.2f} ms</text>\n",
               std::min(to_pixel(micros), kWidth - (explained != nullptr ? 42 : 30)), axis + 14, axis_colour,
               micros / 1000);
  }
  out << "</svg>\n";
}

}  // namespace

void WriteTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster) {
  WriteSvg(out, timeline, graph, cluster, nullptr);
}

void WriteExplainedTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster,
                               const StepExplanation& explained) {
  WriteSvg(out, timeline, graph, cluster, &explained);
}

}  // namespace emplace
