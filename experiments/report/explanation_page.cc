#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/explain/words.h"
#include "experiments/report/explanation.h"
#include "sim/base/printable.h"
#include "sim/draw/timeline_svg.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kShownParts = 20;
constexpr std::size_t kShownShares = 15;
constexpr std::size_t kShownOps = 30;

using Row = std::vector<TextCell>;

class PageMaker {
 public:
  PageMaker(const Explanation& explanation, const Graph& graph, const Cluster& cluster, const Placement& placement)
      : e_(explanation), graph_(graph), cluster_(cluster), placement_(placement) {}

  ReportDocument Make() {
    ReportDocument page;
    page.title = fmt::format("{} on {}: where the step goes", graph_.name(), cluster_.name());
    page.blocks.push_back(Summary());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Timeline"});
    page.blocks.push_back(Picture());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Critical chain"});
    page.blocks.push_back(Totals());
    page.blocks.push_back(Parts());
    page.blocks.push_back(Shares());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Devices"});
    page.blocks.push_back(Devices());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Moves"});
    page.blocks.push_back(ParagraphBlock{MovesText()});
    if (!e_.moves.gains.empty()) page.blocks.push_back(Moves());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Slack"});
    page.blocks.push_back(Slack());
    return page;
  }

 private:
  double Step() const { return MicrosFromDuration(e_.step.step_time); }
  static std::string Ms(double micros) { return fmt::format("{:.3f}", micros / 1000); }
  static std::string Ms(Duration duration) { return Ms(MicrosFromDuration(duration)); }
  std::string Percent(double micros) const { return fmt::format("{:.1f}", Step() > 0 ? 100 * micros / Step() : 0); }
  std::string Percent(Duration duration) const { return Percent(MicrosFromDuration(duration)); }
  static TextCell Cell(std::string text) { return {.text = std::move(text)}; }
  const std::string& Device(DeviceId device) const { return cluster_.device(device).name; }

  AnswerBlock Summary() const {
    AnswerBlock answer;
    answer.question = fmt::format("Where does a step of {} on {} go?", graph_.name(), cluster_.name());
    answer.answer = fmt::format("The step takes {} ms", Ms(e_.report.step_time_micros));
    std::string parts;
    for (std::size_t k = 0; k < e_.step.num_chain_kinds(); ++k) {
      if (e_.step.totals[k] == Duration(0)) continue;
      parts += fmt::format("{} {} % {}", parts.empty() ? ":" : ",", Percent(e_.step.totals[k]),
                           agents::Words(static_cast<ChainKind>(k)));
    }
    answer.answer += parts + (parts.empty() ? "." : " along its critical chain.");
    if (!e_.report.fits_memory) {
      std::string over;
      for (const StepReport::DeviceRow& row : e_.report.devices) {
        if (row.memory && row.peak > *row.memory) over += (over.empty() ? "" : ", ") + row.name;
      }
      answer.notes.push_back("The placement does not fit in memory: " + over + ".");
    }
    answer.notes.push_back(fmt::format("Engine {}, costs {}. No placement takes less than {} ms. {} on {}.",
                                       e_.report.engine, e_.report.costs, Ms(e_.report.lower_bound_micros),
                                       Counted(e_.report.ops, "op"), Counted(e_.report.devices.size(), "device")));
    return answer;
  }

  PictureBlock Picture() const {
    std::ostringstream svg;
    WriteExplainedTimelineSvg(svg, e_.timeline, graph_, cluster_, e_.step);
    return {.caption = "What ran when, and the critical chain",
            .note =
                "The upper bar of a device holds its ops, the lower one its outgoing transfers. The chain is drawn "
                "over them; point at a bar to see a name.",
            .svg = svg.str()};
  }

  TableBlock Totals() const {
    TableBlock table{.caption = "The chain by what takes the time", .header = {"part", "ms", "%"}};
    for (std::size_t k = 0; k < e_.step.num_chain_kinds(); ++k) {
      const auto kind = static_cast<ChainKind>(k);
      table.rows.push_back({{.text = std::string(agents::Words(kind)), .details = {}},
                            Cell(Ms(e_.step.totals[k])),
                            Cell(Percent(e_.step.totals[k]))});
    }
    table.rows.push_back(
        {{.text = "step", .strong = true}, {.text = Ms(e_.step.step_time), .strong = true}, Cell("100.0")});
    return table;
  }

  TableBlock Parts() const {
    const std::vector<ChainPart> parts = agents::LongestParts(e_.step, kShownParts);
    TableBlock table{.caption = fmt::format("The longest {} of {} of the chain", parts.size(),
                                            Counted(e_.step.chain.size(), "part")),
                     .header = {"part", "what", "where", "from ms", "ms", "%"},
                     .text_columns = 3};
    for (const ChainPart& part : parts) {
      table.rows.push_back({Cell(std::string(agents::Words(part.kind))), Cell(agents::PartText(graph_, part)),
                            Cell(agents::PlaceText(cluster_, part.item)), Cell(Ms(part.begin)), Cell(Ms(part.length())),
                            Cell(Percent(part.length()))});
    }
    return table;
  }

  TableBlock Shares() const {
    TableBlock table{.caption = "The chain by layer, or kind of op",
                     .header = {"ops", "compute and transfer ms",
                                e_.step.has_issue_lanes ? "queues, gaps and issue ms" : "queues and gaps ms", "%"}};
    std::size_t shown = 0;
    for (const agents::ChainShare& share : agents::SharesOf(graph_, e_.step)) {
      if (shown++ == kShownShares) break;
      table.rows.push_back(
          {Cell(share.name), Cell(Ms(share.needed)), Cell(Ms(share.other)), Cell(Percent(share.sum()))});
    }
    return table;
  }

  TableBlock Devices() const {
    TableBlock table{.caption = "How each device spends the step, in ms",
                     .header = {"device", "ops", "busy", "busy %", "waits for ops", "waits for transfers", "gaps",
                                "sends itself", "idle", "on the chain %", "peak memory MiB"}};
    if (e_.step.has_issue_lanes) table.header.emplace_back("waits for issue");
    for (std::size_t d = 0; d < e_.step.devices.size(); ++d) {
      const DeviceUse& use = e_.step.devices[d];
      const StepReport::DeviceRow& row = e_.report.devices[d];
      const bool over = row.memory && row.peak > *row.memory;
      TextCell peak{.text = fmt::format("{:.1f}", static_cast<double>(row.peak.count) / 1048576)};
      if (over) {
        peak.tone = CellTone::kWorse;
        peak.details = {fmt::format("of {:.1f}", static_cast<double>(row.memory->count) / 1048576)};
      }
      table.rows.push_back({Cell(row.name), Cell(std::to_string(row.ops)), Cell(Ms(use.busy)), Cell(Percent(use.busy)),
                            Cell(Ms(use.waiting_for_ops)), Cell(Ms(use.waiting_for_transfers)), Cell(Ms(use.gap)),
                            Cell(Ms(use.sending)), Cell(Ms(use.idle)), Cell(Percent(use.on_chain)), peak});
      if (e_.step.has_issue_lanes) table.rows.back().push_back(Cell(Ms(use.waiting_for_issue)));
    }
    return table;
  }

  std::string MovesText() const {
    const agents::MoveResults& moves = e_.moves;
    std::string text = moves.simulated == 0
                           ? "There is no other place for any op of the chain."
                           : fmt::format("{} simulated, each from this placement. {} the step.",
                                         Counted(moves.simulated, "move") + (moves.simulated == 1 ? " was" : " were"),
                                         moves.gains.empty()       ? "None shortens"
                                         : moves.gains.size() == 1 ? "1 shortens"
                                                                   : fmt::format("{} shorten", moves.gains.size()));
    if (moves.over_memory > 0) {
      text += fmt::format(" {} would need more memory than there is.", moves.over_memory);
    }
    if (moves.not_tried > 0) text += fmt::format(" At least {} more were not tried.", moves.not_tried);
    return text;
  }

  TableBlock Moves() const {
    TableBlock table{.caption = "Moves that gain most",
                     .header = {"move", "from", "to", "ops", "step ms", "gain ms", "gain %"},
                     .text_columns = 3};
    for (std::size_t i = 0; i < e_.moves.gains.size() && i < kShownMoves; ++i) {
      const agents::Move& move = e_.moves.gains[i];
      table.rows.push_back({Cell(agents::MoveText(graph_, move)), Cell(Device(move.from)), Cell(Device(move.to)),
                            Cell(std::to_string(move.ops.size())), Cell(Ms(move.step_time_micros)),
                            Cell(Ms(move.gain_micros)), Cell(Percent(move.gain_micros))});
    }
    return table;
  }

  // Among ops with equal slack, those that take longest come first.
  TableBlock Slack() const {
    std::vector<OpId> ops;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) ops.push_back(MakeId<OpId>(i));
    const auto key = [&](OpId op) { return std::tuple(e_.step.slack[Index(op)], -e_.step.duration[Index(op)], op); };
    const std::size_t shown = std::min(kShownOps, ops.size());
    std::partial_sort(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(shown), ops.end(),
                      [&](OpId a, OpId b) { return key(a) < key(b); });
    TableBlock table{.caption = "Ops with the least slack: by how much an op may end later",
                     .header = {"op", "kind", "device", "start ms", "time ms", "slack ms"},
                     .text_columns = 3};
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t op = Index(ops[i]);
      table.rows.push_back({Cell(agents::ShortName(graph_.op(ops[i]).name)),
                            Cell(agents::ShortName(graph_.op(ops[i]).kind)), Cell(Device(placement_[ops[i]])),
                            Cell(Ms(e_.step.start[op])), Cell(Ms(e_.step.duration[op])), Cell(Ms(e_.step.slack[op]))});
    }
    return table;
  }

  const Explanation& e_;
  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
};

}  // namespace

ReportDocument MakeExplanationPage(const Explanation& explanation, const Graph& graph, const Cluster& cluster,
                                   const Placement& placement) {
  return PageMaker(explanation, graph, cluster, placement).Make();
}

}  // namespace emplace::experiments
