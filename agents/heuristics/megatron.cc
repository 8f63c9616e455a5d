#include "agents/heuristics/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/baselines.h"
#include "agents/heuristics/one_shot.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::agents {
namespace {

// The limit for numbers of replicas, parts and blocks, whose products of three must not overflow.
constexpr std::int64_t kMost = 1 << 20;

// The digits at the front of `text`, which loses them; none, if there are none or they are too many.
std::optional<std::int64_t> TakeNumber(std::string_view* text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number >= static_cast<std::uint64_t>(kMost)) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(rest - text->data()));
  return static_cast<std::int64_t>(number);
}

// "r3/name" for letter 'r': 3, and the prefix is cut off. 0 without such a prefix.
std::int64_t TakeRank(char letter, std::string_view* name) {
  if (name->empty() || name->front() != letter) return 0;
  std::string_view rest = name->substr(1);
  const auto rank = TakeNumber(&rest);
  if (!rank || rest.empty() || rest.front() != '/') return 0;
  *name = rest.substr(1);
  return *rank;
}

// "block3", and "model.layers.3" with the modules in it.
std::optional<std::int64_t> BlockOf(std::string_view layer) {
  constexpr std::string_view kBlock = "block";
  constexpr std::string_view kLayer = "model.layers.";
  const bool is_path = layer.starts_with(kLayer);
  if (!is_path && !layer.starts_with(kBlock)) return std::nullopt;
  layer.remove_prefix(is_path ? kLayer.size() : kBlock.size());
  const auto block = TakeNumber(&layer);
  return layer.empty() || (is_path && layer.starts_with('.')) ? block : std::nullopt;
}

struct Ranks {
  std::int64_t replicas = 1;
  std::int64_t parts = 1;
};

Ranks RanksOf(const Graph& graph) {
  Ranks ranks;
  if (graph.metadata().empty()) return ranks;
  const JsonValue metadata = ParseJson(graph.metadata());
  const JsonValue* const parallel = FindMember(metadata, "parallel");
  if (parallel == nullptr) return ranks;
  const auto number = [&](std::string_view key) {
    const JsonValue* const value = FindMember(*parallel, key);
    const auto* const count = value == nullptr ? nullptr : value->As<std::int64_t>();
    return count == nullptr ? std::int64_t{1} : std::clamp<std::int64_t>(*count, 1, kMost);
  };
  return {.replicas = number("data"), .parts = number("tensor") * number("expert")};
}

}  // namespace

Placement PlaceLikeMegatron(const Environment& env, const MegatronOptions& options) {
  const Observation& seen = env.observation();
  const Graph& graph = env.op_graph();
  const Ranks ranks = RanksOf(graph);
  const auto devices = static_cast<std::int64_t>(seen.accelerators.size());
  const std::int64_t each = ranks.replicas * ranks.parts;
  const std::int64_t pipeline = options.pipeline > 0 ? options.pipeline : std::max<std::int64_t>(devices / each, 1);
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (const auto block = BlockOf(graph.op(MakeId<OpId>(i)).layer)) blocks = std::max(blocks, *block + 1);
  }
  if (blocks == 0) return PlaceInBlocks(seen);
  if (each > devices || pipeline * each > devices) {
    throw InputError(
        "megatron",
        fmt::format("needs {} accelerators for {} stages, {} replicas and {} parts (the cluster has {})",
                    each > devices ? each : pipeline * each, pipeline, ranks.replicas, ranks.parts, devices));
  }
  const std::int64_t stages = pipeline * options.chunks;
  if (blocks < stages) {
    throw InputError("megatron", fmt::format("needs {} blocks, one for each stage (the graph has {} layers block0 ..)",
                                             stages, blocks));
  }
  // A layer without a number: whether a block comes before it in the order of the file.
  std::vector<std::int64_t> stage_of(graph.num_ops());
  std::unordered_map<std::string_view, std::int64_t> others;
  bool has_block = false;
  for (const OpId op : graph.file_order()) {
    const std::string_view layer = graph.op(op).layer;
    if (const auto block = BlockOf(layer)) {
      has_block = true;
      stage_of[Index(op)] = *block * stages / blocks;
      continue;
    }
    stage_of[Index(op)] = others.try_emplace(layer, has_block ? stages - 1 : 0).first->second;
  }
  Placement groups(seen.num_groups());
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const OpId op = env.grouping().members(group)[0];
    std::string_view name = graph.op(op).name;
    const std::int64_t replica = ranks.replicas > 1 ? TakeRank('r', &name) : 0;
    const std::int64_t part = ranks.parts > 1 ? TakeRank('t', &name) : 0;
    const std::int64_t stage = stage_of[Index(op)];
    const bool goes_back = options.fold && stage / pipeline % 2 == 1;
    const std::int64_t turn = goes_back ? pipeline - 1 - stage % pipeline : stage % pipeline;
    const std::int64_t position = (turn * ranks.replicas + replica) * ranks.parts + part;
    if (replica >= ranks.replicas || part >= ranks.parts) {
      throw InputError("megatron",
                       fmt::format("{} is of a rank that the graph's metadata do not have", Quoted(graph.op(op).name)));
    }
    const DeviceId device = seen.accelerators[static_cast<std::size_t>(position)];
    groups[MakeId<OpId>(group)] = seen.Allowed(group, Index(device)) ? device : seen.Fastest(group, seen.accelerators);
  }
  return groups;
}

std::unique_ptr<Agent> MakeMegatronAgent(OptionReader& reader, const AgentContext&) {
  MegatronOptions options;
  reader.Read("pipeline", &options.pipeline, 0, 1024,
              "number of devices with stages, for each replica and part; 0: all devices");
  reader.Read("chunks", &options.chunks, 1, 1024, "stages of each device");
  reader.Read("fold", &options.fold, "every second pass over the devices is in reverse order, as zb-v requires");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceLikeMegatron(env, options); });
}

}  // namespace emplace::agents
