#include "experiments/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/memory/training_memory.h"
#include "datasets/planner/plan_json.h"
#include "sim/base/human_readable.h"
#include "sim/base/markup.h"
#include "sim/base/progress.h"
#include "sim/draw/timeline_svg.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_messages.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace::experiments {
namespace {

using datasets::ParallelPlan;
using datasets::ScoredPlan;

constexpr std::size_t kShownPlans = 20;
constexpr double kGib = 1 << 30;

// Pictures that a phone shows whole.
constexpr double kWidth = 480;
constexpr double kLeft = 60;
constexpr double kRight = 16;

// One of each memory class, then what the allocator keeps beside them.
constexpr std::array<const char*, datasets::kNumMemoryClasses + 1> kColours = {
    "#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999933", "#999999"};
constexpr const char* kLimitColour = "#e6007a";

TextCell Cell(std::string text) { return {.text = std::move(text)}; }
TextCell Cell(std::int64_t number) { return Cell(fmt::format("{}", number)); }
std::string Gib(std::int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / kGib); }

// "dp 4, tp 2, pp 1, ZeRO 1, 8 micro-batches of 1, recompute none"
std::string PlanText(const ParallelPlan& plan) {
  std::string text;
  for (const auto& [name, degree] : {std::pair("dp", plan.dp),
                                     {"tp", plan.tp},
                                     {"pp", plan.pp},
                                     {"vpp", plan.vpp},
                                     {"cp", plan.cp},
                                     {"ep", plan.ep}}) {
    if (degree > 1) text += fmt::format("{} {}, ", name, degree);
  }
  return text +
         fmt::format("ZeRO {}, micro-batches of {}, recompute {}", plan.zero, plan.micro_batch, plan.recompute_text());
}

// A line from `from` to `to` pixels that stands for `first` to `last`.
struct Axis {
  double first;
  double last;
  double from;
  double to;
  double ToPixel(double value) const { return from + (to - from) * (value - first) / (last - first); }
};

std::string SvgHead(double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n",
      kWidth, height);
}

constexpr double kMostTicks = 6;

// Below a picture: numbers at `y`, and what they are.
std::string HorizontalTicks(const Axis& axis, double y, std::string_view what) {
  std::string svg;
  const double step = RoundTickStep(axis.last / kMostTicks);
  for (int tick = 0; step > 0 && tick * step <= axis.last; ++tick) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:g}</text>\n",
                       axis.ToPixel(tick * step), y, tick * step);
  }
  return svg + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", kWidth - kRight, y + 16,
                           HtmlText(what));
}

std::string VerticalLine(double x, double from, double to, const std::string& title) {
  return fmt::format(
      "<path d=\"M{:.1f} {:.0f}V{:.0f}\" stroke=\"{}\" stroke-width=\"1.5\" fill=\"none\"><title>{}</title></path>\n",
      x, from, to, kLimitColour, HtmlText(title));
}

class PlanPageMaker {
 public:
  PlanPageMaker(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer, const std::string& network)
      : question_(question), answer_(answer), network_(network), best_(BestOf(answer)) {
    setup_ = datasets::SetupOf(question, best_.plan);
  }

  ReportDocument Make() {
    ReportDocument page;
    page.title = fmt::format("{} on {} x {}: plans", network_, best_.plan.devices(), question_.machine.DeviceNames());
    page.blocks.push_back(Summary());
    if (!answer_.plans.empty()) {
      page.blocks.push_back(HeadingBlock{.level = 2, .text = "Best plans"});
      page.blocks.push_back(Plans());
    }
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Where the step goes"});
    page.blocks.push_back(Parts());
    page.blocks.push_back(HeadingBlock{.level = 2, .text = "Memory"});
    page.blocks.push_back(Memory());
    if (best_.plan.schedule != datasets::kDualPipe) {  // whose stages are on two ranks each
      page.blocks.push_back(HeadingBlock{.level = 2, .text = "Schedule"});
      page.blocks.push_back(Schedule());
    }
    if (!answer_.points.empty()) {
      page.blocks.push_back(HeadingBlock{.level = 2, .text = "Step time against memory"});
      page.blocks.push_back(Frontier());
    }
    if (!answer_.refused.empty()) page.blocks.push_back(Refused());
    return page;
  }

 private:
  static const ScoredPlan& BestOf(const datasets::PlanAnswer& answer) {
    const auto fits = std::ranges::find_if(answer.plans, &ScoredPlan::fits);
    if (fits != answer.plans.end()) return *fits;
    return answer.nearest ? *answer.nearest : answer.plans.front();
  }

  AnswerBlock Summary() const {
    AnswerBlock block;
    block.question =
        fmt::format("How should {} train on {} x {}?", network_, best_.plan.devices(), question_.machine.DeviceNames());
    if (best_.fits) {
      block.answer =
          fmt::format("With {}: a step takes {}, {:.1f} % MFU.", PlanText(best_.plan),
                      HumanReadableMicros(best_.time.micros), datasets::MfuPercent(question_, answer_, best_));
    } else {
      block.answer =
          fmt::format("No plan fits. The nearest has {}, and its fullest rank needs {} GiB, of which a device has {}.",
                      PlanText(best_.plan), Gib(best_.needed_bytes), Gib(answer_.usable_bytes));
    }
    block.notes.push_back(fmt::format("{} sequences of {} tokens a step, as {} runs it. No plan takes less than {}.",
                                      question_.global_batch, question_.sequence, question_.framework->name,
                                      HumanReadableMicros(answer_.bound_micros)));
    if (question_.lora.exist()) block.notes.push_back(datasets::AdaptersText(question_));
    block.notes.push_back(fmt::format("{} legal plans. Of the {} fastest, whose memory was looked at, {} fit.{}",
                                      WithThousands(answer_.legal), WithThousands(answer_.checked),
                                      WithThousands(answer_.fitting),
                                      answer_.is_complete ? "" : " The search was stopped early."));
    block.notes.insert(block.notes.end(), answer_.notes.begin(), answer_.notes.end());
    return block;
  }

  TableBlock Plans() const {
    const bool has_experts = question_.network.experts.count > 0;
    const std::size_t shown = std::min(kShownPlans, answer_.plans.size());
    TableBlock table{
        .caption = fmt::format("The best {} of {} plans", shown, answer_.plans.size()),
        .header = {"plan", "step ms", "tokens/s/GPU", "MFU %", "needs GiB", "dp", "tp", "pp", "vpp", "cp"}};
    const bool has_sizes = question_.objective != datasets::PlanObjective::kStepTime;
    if (has_sizes) table.header.insert(table.header.begin() + 1, "GPUs");
    if (question_.price) table.header.insert(table.header.begin() + 1, "cost of 1e9 tokens");
    if (has_experts) table.header.insert(table.header.end(), {"ep", "etp"});
    table.header.insert(table.header.end(), {"ZeRO", "micro-batch", "accumulation", "recompute"});
    for (std::size_t i = 0; i < shown; ++i) {
      const ScoredPlan& scored = answer_.plans[i];
      const ParallelPlan& plan = scored.plan;
      std::vector<TextCell> row = {Cell(static_cast<std::int64_t>(i + 1))};
      if (question_.price) row.push_back(Cell(fmt::format("{:.2f}", datasets::CostOfBillionTokens(question_, scored))));
      if (has_sizes) row.push_back(Cell(plan.devices()));
      for (const std::string& text :
           {fmt::format("{:.1f}", scored.time.micros / 1000),
            fmt::format("{:.0f}", datasets::TokensPerSecondOfGpu(question_, scored)),
            fmt::format("{:.1f}", datasets::MfuPercent(question_, answer_, scored)), Gib(scored.needed_bytes)}) {
        row.push_back(Cell(text));
      }
      if (!scored.fits) row.back().tone = CellTone::kWorse;
      for (const std::int64_t degree : {plan.dp, plan.tp, plan.pp, plan.vpp, plan.cp}) row.push_back(Cell(degree));
      if (has_experts) row.insert(row.end(), {Cell(plan.ep), Cell(plan.etp)});
      for (const std::int64_t number : {plan.zero, plan.micro_batch, plan.grad_accumulation})
        row.push_back(Cell(number));
      row.push_back(Cell(plan.recompute_text()));
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  TableBlock Parts() const {
    TableBlock table{.caption = "What the slowest rank spends the step on", .header = {"what", "ms", "%"}};
    for (const datasets::TimePart& part : datasets::TimePartsOf(best_.time)) {
      if (part.micros <= 0) continue;
      table.rows.push_back({Cell(std::string(part.name)), Cell(fmt::format("{:.1f}", part.micros / 1000)),
                            Cell(fmt::format("{:.1f}", 100 * part.micros / best_.time.micros))});
    }
    return table;
  }

  // A bar for each pipeline rank, of its classes.
  PictureBlock Memory() const {
    const std::vector<datasets::RankPeak> peaks = datasets::PipelinePeaks(setup_);
    constexpr double kTop = 60;  // the legend
    constexpr double kRow = 24;
    constexpr std::array<double, 4> kLegendLeft = {8, 90, 184, 320};
    const double bottom = kTop + kRow * static_cast<double>(peaks.size());
    double most = static_cast<double>(answer_.usable_bytes);
    for (const datasets::RankPeak& peak : peaks) {
      most = std::max(most, static_cast<double>(datasets::NeededBytes(setup_, peak)));
    }
    const Axis axis{.first = 0, .last = 1.05 * most / kGib, .from = kLeft, .to = kWidth - kRight};
    std::string svg = SvgHead(bottom + 38);
    const auto name_of = [](std::size_t i) {
      return i < datasets::kNumMemoryClasses ? std::string(datasets::Name(static_cast<datasets::MemoryClass>(i)))
                                             : std::string("kept by the allocator");
    };
    for (std::size_t i = 0; i < kColours.size(); ++i) {
      const double x = kLegendLeft[i % kLegendLeft.size()];
      const std::size_t line = i / kLegendLeft.size();
      const double y = 8 + 20 * static_cast<double>(line);
      svg += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" "
          "y=\"{:.0f}\">{}</text>\n",
          x, y, kColours[i], x + 14, y + 9, name_of(i));
    }
    for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
      const double y = kTop + kRow * static_cast<double>(rank);
      svg += fmt::format("<text x=\"8\" y=\"{:.0f}\">rank {}</text>\n", y + 13, rank);
      std::int64_t from = 0;
      const auto add = [&](std::size_t i, std::int64_t bytes) {
        if (bytes <= 0) return;
        const double x = axis.ToPixel(static_cast<double>(from) / kGib);
        from += bytes;
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"18\" fill=\"{}\"><title>rank {}: {} "
            "{} GiB</title></rect>\n",
            x, y, axis.ToPixel(static_cast<double>(from) / kGib) - x, kColours[i], rank, name_of(i), Gib(bytes));
      };
      for (std::size_t i = 0; i < datasets::kNumMemoryClasses; ++i) add(i, peaks[rank].classes[i]);
      add(datasets::kNumMemoryClasses, datasets::NeededBytes(setup_, peaks[rank]) - from);
    }
    if (answer_.usable_bytes > 0) {
      svg += VerticalLine(axis.ToPixel(static_cast<double>(answer_.usable_bytes) / kGib), kTop - 6, bottom,
                          fmt::format("{} GiB can be used", Gib(answer_.usable_bytes)));
    }
    svg += HorizontalTicks(axis, bottom + 14, "GiB") + "</svg>";
    std::string note = fmt::format("The peak of each pipeline rank. Rank {} is the fullest: it needs {} GiB.",
                                   best_.fullest_rank, Gib(best_.needed_bytes));
    if (answer_.usable_bytes > 0) {
      note += fmt::format(" The line is the {} GiB that the context and NCCL leave of a device.",
                          Gib(answer_.usable_bytes));
    }
    return {.caption = "What each pipeline rank holds at its peak", .note = std::move(note), .svg = std::move(svg)};
  }

  // The first micro-batches: as many as show how the pipeline fills and drains.
  PictureBlock Schedule() const {
    const ParallelPlan& plan = best_.plan;
    const std::int64_t wanted = plan.vpp > 1 ? 2 * plan.pp : plan.pp + 4;
    const auto micro_batches = static_cast<std::size_t>(std::min(wanted, plan.grad_accumulation));
    const auto ranks = static_cast<std::size_t>(plan.pp);
    const ScheduleName name = ParseScheduleName(plan.schedule_name(), "schedule");
    datasets::StepTimer timer(question_.machine.Part(best_.plan.devices()), *question_.framework);
    std::vector<PipelineStage> stages;
    for (const datasets::StageTime& stage : timer.StageTimes(setup_)) {
      stages.push_back({.forward = DurationFromMicros(stage.forward),
                        .backward_input = DurationFromMicros(stage.backward - stage.weight_gradients),
                        .backward_weight = DurationFromMicros(stage.weight_gradients)});
    }
    const PipelineSchedule schedule = MakeSchedule(name, ranks, micro_batches);
    const Duration message = DurationFromMicros(timer.StageMessageMicros(setup_));
    const PipelineModel model = ChainModel(RankOfStage(name, ranks), stages, {.forward = message, .backward = message});
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < ranks; ++rank) names.push_back(fmt::format("rank {}", rank));
    std::ostringstream svg;
    WriteScheduleSvg(svg, schedule, model, names,
                     fmt::format("{} of {} micro-batches", micro_batches, plan.grad_accumulation));
    return {
        .caption = fmt::format("The schedule {}: passes of each pipeline rank", plan.schedule_name()),
        .note =
            "Numbers are micro-batches. The thin bars are messages between stages. The exchange of gradients and the "
            "optimizer, which follow, are not drawn.",
        .svg = std::move(svg).str()};
  }

  // Every plan whose memory was looked at, and those than which no other is both faster and smaller.
  PictureBlock Frontier() const {
    constexpr double kTop = 12;
    constexpr double kBottom = 300;
    constexpr double kFarthest = 3;  // times the fastest, and times what a device has or the least memory
    const std::vector<datasets::PlanPoint>& points = answer_.points;
    double fastest = best_.time.micros;
    double least = static_cast<double>(best_.needed_bytes);
    for (const datasets::PlanPoint& point : points) {
      fastest = std::min(fastest, point.micros);
      least = std::min(least, static_cast<double>(point.needed_bytes));
    }
    const double most_bytes = kFarthest * std::max(least, static_cast<double>(answer_.usable_bytes));
    double last_micros = best_.time.micros;
    double last_bytes = std::max(static_cast<double>(best_.needed_bytes), static_cast<double>(answer_.usable_bytes));
    std::vector<datasets::PlanPoint> drawn;
    for (const datasets::PlanPoint& point : points) {
      const auto bytes = static_cast<double>(point.needed_bytes);
      if (point.micros > kFarthest * fastest || bytes > most_bytes) continue;
      last_micros = std::max(last_micros, point.micros);
      last_bytes = std::max(last_bytes, bytes);
      drawn.push_back(point);
    }
    const Axis x{.first = 0, .last = 1.05 * last_bytes / kGib, .from = kLeft, .to = kWidth - kRight};
    const Axis y{.first = 0.9 * fastest / 1000, .last = 1.02 * last_micros / 1000, .from = kBottom, .to = kTop};
    const auto at = [&](double micros, std::int64_t bytes) {
      return std::pair(x.ToPixel(static_cast<double>(bytes) / kGib), y.ToPixel(micros / 1000));
    };
    std::string svg = SvgHead(kBottom + 38);
    svg += fmt::format(
        "<path d=\"M{0:.0f} {1:.0f}V{2:.0f}H{3:.0f}\" stroke=\"currentColor\" stroke-width=\"0.5\" "
        "fill=\"none\"/>\n",
        kLeft, kTop, kBottom, kWidth - kRight);
    const double step = RoundTickStep((y.last - y.first) / kMostTicks);
    for (int tick = static_cast<int>(std::ceil(y.first / step)); tick * step <= y.last; ++tick) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", kLeft - 6,
                         y.ToPixel(tick * step) + 4, tick * step);
    }
    svg += fmt::format("<text x=\"8\" y=\"{:.0f}\">ms</text>\n", kTop);
    svg += HorizontalTicks(x, kBottom + 16, "GiB that the fullest rank needs");
    // Plans that lie on one pixel are one dot.
    std::set<std::tuple<int, int, bool>> dots;
    for (const datasets::PlanPoint& point : drawn) {
      const auto [px, py] = at(point.micros, point.needed_bytes);
      dots.emplace(static_cast<int>(px), static_cast<int>(py), point.fits);
    }
    for (const auto& [px, py, fits] : dots) {
      svg += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.6\"/>\n", px, py,
                         fits ? "#4477aa" : "#cc6677");
    }
    svg += FrontierLine(drawn, at);
    const auto [bx, by] = at(best_.time.micros, best_.needed_bytes);
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"none\" stroke=\"currentColor\" "
        "stroke-width=\"2\"><title>{}</title></circle>\n",
        bx, by, HtmlText(PlanText(best_.plan)));
    if (answer_.usable_bytes > 0) {
      svg += VerticalLine(x.ToPixel(static_cast<double>(answer_.usable_bytes) / kGib), kTop, kBottom,
                          fmt::format("{} GiB can be used", Gib(answer_.usable_bytes)));
    }
    svg += "</svg>";
    std::string note = fmt::format(
        "{} plans whose memory was computed: blue ones fit, red ones do not. No plan is both faster and smaller than "
        "those on the line. The circle is the {} plan.",
        WithThousands(drawn.size()), best_.fits ? "best" : "nearest");
    if (drawn.size() < points.size()) {
      note += fmt::format(" {} that are slower or larger than three times the rest are not drawn.",
                          WithThousands(points.size() - drawn.size()));
    }
    return {.caption = "Step time against memory", .note = std::move(note), .svg = std::move(svg)};
  }

  static std::string FrontierLine(const std::vector<datasets::PlanPoint>& drawn, const auto& at) {
    std::vector<datasets::PlanPoint> points = drawn;
    std::ranges::sort(points, {}, [](const auto& point) { return std::tuple(point.needed_bytes, point.micros); });
    std::string path;
    double fastest = 0;
    for (const datasets::PlanPoint& point : points) {
      if (!path.empty() && point.micros >= fastest) continue;
      fastest = point.micros;
      const auto [px, py] = at(point.micros, point.needed_bytes);
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", px, py) : fmt::format("H{:.1f}V{:.1f}", px, py);
    }
    if (path.empty()) return "";
    return fmt::format(
        "<path class=\"frontier\" d=\"{}\" stroke=\"currentColor\" stroke-width=\"1.2\" fill=\"none\"/>\n", path);
  }

  TableBlock Refused() const {
    TableBlock table{.caption = "Plans that are not legal", .header = {"reason", "plans"}, .folded = true};
    for (const auto& [reason, count] : answer_.refused)
      table.rows.push_back({Cell(reason), Cell(WithThousands(count))});
    return table;
  }

  const datasets::PlanQuestion& question_;
  const datasets::PlanAnswer& answer_;
  const std::string& network_;
  const ScoredPlan& best_;
  datasets::TrainingSetup setup_;
};

}  // namespace

ReportDocument MakePlanPage(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer,
                            const std::string& network) {
  return PlanPageMaker(question, answer, network).Make();
}

}  // namespace emplace::experiments
