#include "datasets/inference/split_picture.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <string_view>

#include "sim/base/human_readable.h"
#include "sim/base/markup.h"

namespace emplace::datasets {
namespace {

constexpr double kSplitWidth = 960;
constexpr double kTimeLeft = 170;  // names before it
constexpr double kTimeWidth = 390;
constexpr double kMemoryLeft = 590;
constexpr double kMemoryWidth = 350;
constexpr double kFirstRow = 64;
constexpr double kSplitRow = 48;
constexpr double kBarHeight = 20;
constexpr const char* kStageColours[] = {"#4477aa", "#cc6677", "#228833", "#aa3377", "#66ccee"};

// What a device's memory holds, as the picture has it from left to right.
struct HeldPart {
  std::string_view name;
  const char* colour;
};
constexpr HeldPart kHeldParts[] = {
    {"weights", "#4477aa"}, {"caches", "#ddaa33"}, {"buffers", "#7f7f7f"}, {"embedding, experts", "#aa3377"}};
using HeldBytes = std::array<std::int64_t, std::size(kHeldParts)>;

const InferenceStage* StageOn(const InferencePlan& plan, DeviceId device) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(),
                                  [&](const InferenceStage& stage) { return stage.device == device; });
  return found == plan.stages.end() ? nullptr : &*found;
}

HeldBytes BytesHeldBy(const InferencePlan& plan, DeviceId device) {
  const InferenceStage* const stage = StageOn(plan, device);
  HeldBytes held{};
  if (stage != nullptr) {
    held = {stage->weight_bytes, stage->cache_bytes, stage->compute_bytes + stage->reserved_bytes, 0};
  }
  if (plan.client_cpu == device) {
    held[3] = std::max<std::int64_t>(0, plan.host_bytes - (stage == nullptr ? 0 : stage->bytes()));
  }
  return held;
}

void PrintBar(std::ostream& out, double x, double y, double width, const char* colour, const std::string& tooltip) {
  fmt::print(
      out, "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}</title></rect>\n",
      x, y, std::max(width, 0.5), kBarHeight, colour, HtmlText(tooltip));
}

void PrintSplitText(std::ostream& out, double x, double y, std::string_view text, std::string_view more = "") {
  fmt::print(out, "<text x=\"{:.2f}\" y=\"{:.0f}\"{}>{}</text>\n", x, y, more, HtmlText(text));
}

// The stage at its time in the pass, and the layers below it.
void PrintStage(std::ostream& out, const InferencePlan& plan, const InferenceStage& stage, double y) {
  double before = 0;
  std::size_t ordinal = 0;
  while (plan.stages[ordinal].device != stage.device) before += plan.stages[ordinal++].micros;
  const double scale = kTimeWidth / plan.pass_micros;
  const double x = kTimeLeft + before * scale;
  const std::string layers = (stage.end > stage.first ? "layers " : "") + stage.LayersText();
  const std::string hosted =
      stage.hosted > 0 ? fmt::format(", experts of {} on {}", stage.hosted, plan.client) : std::string();
  const std::string text = fmt::format("{}, {}{}", layers, HumanReadableMicros(stage.micros), hosted);
  PrintBar(out, x, y, stage.micros * scale, kStageColours[ordinal % std::size(kStageColours)], text);
  // The text ends at the bar's end where it would leave the panel.
  const bool is_late = before > plan.pass_micros / 2;
  PrintSplitText(out, is_late ? x + stage.micros * scale : x, y + kBarHeight + 13, text,
                 is_late ? " text-anchor=\"end\"" : "");
}

void PrintMemory(std::ostream& out, const HeldBytes& held, std::optional<Bytes> memory, double y) {
  std::int64_t all = 0;
  for (const std::int64_t bytes : held) all += bytes;
  const std::int64_t most = std::max<std::int64_t>({memory ? memory->count : 0, all, 1});
  PrintBar(out, kMemoryLeft, y, kMemoryWidth, "#e6e6e6", "free");
  double x = kMemoryLeft;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == 0) continue;
    const double width = kMemoryWidth * static_cast<double>(held[i]) / static_cast<double>(most);
    PrintBar(out, x, y, width, kHeldParts[i].colour,
             fmt::format("{}: {}", kHeldParts[i].name, HumanReadable(Bytes{held[i]})));
    x += width;
  }
  PrintSplitText(out, kMemoryLeft, y + kBarHeight + 13,
                 fmt::format("{} of {}", HumanReadable(Bytes{all}), memory ? HumanReadable(*memory) : "no limit"));
}

}  // namespace

void WriteSplitSvg(std::ostream& out, const InferencePlan& plan, const Cluster& cluster, const std::string& title) {
  const double height = kFirstRow + kSplitRow * static_cast<double>(cluster.num_devices()) + 4;
  fmt::print(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kSplitWidth, height);
  PrintSplitText(out, 8, 18, title, " font-weight=\"bold\"");
  PrintSplitText(out, kTimeLeft, 44, "a pass, from left to right", " fill=\"#555\"");
  double x = kMemoryLeft;
  for (const HeldPart& part : kHeldParts) {
    fmt::print(out, "<rect x=\"{:.0f}\" y=\"35\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", x, part.colour);
    PrintSplitText(out, x + 14, 44, part.name);
    x += 72;
  }
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const DeviceId id = MakeId<DeviceId>(d);
    const double y = kFirstRow + kSplitRow * static_cast<double>(d);
    PrintSplitText(out, 8, y + 14, cluster.device(id).name);
    PrintSplitText(out, 8, y + 30, cluster.device(id).kind, " fill=\"#555\"");
    const InferenceStage* const stage = StageOn(plan, id);
    if (stage != nullptr) PrintStage(out, plan, *stage, y);
    if (stage == nullptr) PrintSplitText(out, kTimeLeft, y + 14, "no layers", " fill=\"#555\"");
    PrintMemory(out, BytesHeldBy(plan, id), MemoryOf(cluster, id), y);
  }
  out << "</svg>\n";
}

}  // namespace emplace::datasets
