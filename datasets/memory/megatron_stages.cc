#include "datasets/memory/megatron_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostVirtualStages = 256;

// Writes out the repeated parts of a layout such as "Et*3|(tt|)*6mL", in which a bar ends a stage.
std::string ExpandLayout(std::string_view text, const std::string& key) {
  constexpr std::size_t kMostLetters = 16384;
  std::string out;
  std::string unit;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '*') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      std::int64_t times = 0;
      std::from_chars(text.data() + i + 1, text.data() + end, times);
      if (times < 1 || times > 4096) throw InputError(key, fmt::format("is {} (a count after *)", Quoted(text)));
      for (std::int64_t n = 1; n < times && out.size() < kMostLetters; ++n) out += unit;
      i = end - 1;
    } else if (c == '(') {
      const std::size_t end = text.find(')', i);
      if (end == std::string_view::npos) throw InputError(key, fmt::format("is {} (a ) after each ()", Quoted(text)));
      unit = ExpandLayout(text.substr(i + 1, end - i - 1), key);
      out += unit;
      i = end;
    } else if (std::string_view("Etdm|L").find(c) != std::string_view::npos) {
      unit = std::string(1, c);
      out += unit;
    } else if (c != ',' && c != ' ') {
      throw InputError(key, fmt::format("is {} (letters of E, t, m, L, and |)", Quoted(text)));
    }
  }
  return out;
}

std::vector<StageShape> StagesOfLayout(std::string_view text, const std::string& key, std::size_t layers,
                                       std::size_t stages) {
  std::vector<StageShape> out(1);
  std::size_t layer = 0;
  for (const char c : ExpandLayout(text, key)) {
    if (c == '|') out.emplace_back();
    if (c == 'E') out.back().has_embedding = true;
    if (c == 'L') out.back().has_loss = true;
    if (c == 'm') out.back().has_prediction = true;
    if (c == 't' || c == 'd') out.back().layers.push_back(layer++);
  }
  if (layer != layers) throw InputError(key, fmt::format("has {} layers (num-layers, which is {})", layer, layers));
  if (out.size() != stages) {
    throw InputError(key, fmt::format("has {} stages (a multiple of pipeline-model-parallel-size)", out.size()));
  }
  return out;
}

// Stages with equal numbers of layers, in which the embedding and the loss count as layers where the arguments say so.
std::vector<StageShape> EqualStages(MegatronArgumentReader& args, const NetworkShape& network, std::int64_t count) {
  const bool counts_embedding = args.Flag("account-for-embedding-in-pipeline-split");
  const bool counts_loss = args.Flag("account-for-loss-in-pipeline-split");
  const auto layers = static_cast<std::int64_t>(network.layers.size());
  const std::int64_t counted = layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  std::vector<StageShape> stages(static_cast<std::size_t>(count));
  const std::int64_t first = args.Integer("decoder-first-pipeline-num-layers", -1, 1);
  const std::int64_t last = args.Integer("decoder-last-pipeline-num-layers", -1, 1);
  const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
  const std::int64_t rest = counted - std::max<std::int64_t>(first, 0) - std::max<std::int64_t>(last, 0);
  if (count > ends && (rest < 0 || rest % (count - ends) != 0)) {
    throw InputError("num-layers", fmt::format("is {} (a multiple of the {} stages)", counted, count));
  }
  std::size_t layer = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = count > ends ? rest / (count - ends) : 0;
    if (i == 0 && first > 0) size = first;
    if (i == count - 1 && last > 0) size = last;
    if (i == 0 && counts_embedding) --size;
    if (i == count - 1 && counts_loss) --size;
    for (std::int64_t n = 0; n < size; ++n) stages[static_cast<std::size_t>(i)].layers.push_back(layer++);
  }
  return stages;
}

}  // namespace

void ReadMegatronStages(MegatronArgumentReader& args, TrainingSetup* setup) {
  const auto layers = static_cast<std::int64_t>(setup->network.layers.size());
  if (const std::int64_t each = args.Integer("num-layers-per-virtual-pipeline-stage", 0); each > 0) {
    setup->vpp = layers / setup->pp / each;
    if (setup->vpp < 1) {
      throw InputError("num-layers-per-virtual-pipeline-stage",
                       fmt::format("is {} (at most {} layers of a pipeline rank)", each, layers / setup->pp));
    }
  }
  setup->vpp = args.Integer("num-virtual-stages-per-pipeline-rank", setup->vpp, 1, kMostVirtualStages);
  const std::string layout_key = "pipeline-model-parallel-layout";
  if (args.Has(layout_key) && setup->pp > 1) {
    const std::string layout = args.Text(layout_key, "");
    const std::string expanded = ExpandLayout(layout, layout_key);
    const auto stages = 1 + std::count(expanded.begin(), expanded.end(), '|');
    setup->vpp = std::max<std::int64_t>(stages / setup->pp, 1);
    setup->stages = StagesOfLayout(layout, layout_key, setup->network.layers.size(),
                                   static_cast<std::size_t>(setup->pp * setup->vpp));
  } else if (setup->stages.empty()) {
    setup->stages = EqualStages(args, setup->network, setup->pp * setup->vpp);
  } else if (const auto parts = static_cast<std::int64_t>(setup->stages.size()); parts != setup->pp * setup->vpp) {
    if (parts > 1 && parts % setup->pp == 0) {
      setup->vpp = parts / setup->pp;
    } else {
      setup->stages = EqualStages(args, setup->network, setup->pp * setup->vpp);
    }
  }
  setup->stages.front().has_embedding = true;
  setup->stages.back().has_loss = true;
  setup->stages.back().has_prediction = setup->network.prediction_layers > 0;
  setup->schedule_group = args.Integer("microbatch-group-size-per-virtual-pipeline-stage", 0);
}

}  // namespace emplace::datasets
