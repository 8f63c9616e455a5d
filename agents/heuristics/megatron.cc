#include "agents/heuristics/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/baselines.h"
#include "agents/heuristics/one_shot.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::agents {
namespace {

// "r3/name" for letter 'r': 3, and the prefix is cut off. 0 without such a prefix.
std::int64_t TakeRank(char letter, std::string_view* name) {
  if (name->empty() || name->front() != letter) return 0;
  std::int64_t rank = 0;
  const char* const end = name->data() + name->size();
  const auto [rest, error] = std::from_chars(name->data() + 1, end, rank);
  if (error != std::errc() || rest == end || *rest != '/') return 0;
  name->remove_prefix(static_cast<std::size_t>(rest + 1 - name->data()));
  return rank;
}

std::optional<std::int64_t> BlockOf(std::string_view layer) {
  constexpr std::string_view kBlock = "block";
  if (!layer.starts_with(kBlock)) return std::nullopt;
  std::int64_t block = 0;
  const char* const end = layer.data() + layer.size();
  const auto [rest, error] = std::from_chars(layer.data() + kBlock.size(), end, block);
  if (error != std::errc() || rest != end) return std::nullopt;
  return block;
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
    return count == nullptr || *count < 1 ? std::int64_t{1} : *count;
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
  if (pipeline * each > devices) {
    throw InputError("megatron",
                     fmt::format("needs {} accelerators for {} stages, {} replicas and {} parts (the cluster has {})",
                                 pipeline * each, pipeline, ranks.replicas, ranks.parts, devices));
  }
  const std::int64_t stages = pipeline * options.chunks;
  if (blocks < stages) {
    throw InputError("megatron", fmt::format("needs {} blocks, one for each stage (the graph has {} layers block0 ..)",
                                             stages, blocks));
  }
  // A layer without a number: whether a block comes before it in the order of the file.
  std::vector<std::int64_t> stage_of(graph.num_ops());
  std::vector<std::pair<std::string_view, std::int64_t>> others;
  bool has_block = false;
  for (const OpId op : graph.file_order()) {
    const std::string_view layer = graph.op(op).layer;
    if (const auto block = BlockOf(layer)) {
      has_block = true;
      stage_of[Index(op)] = *block * stages / blocks;
      continue;
    }
    auto found = std::find_if(others.begin(), others.end(), [&](const auto& other) { return other.first == layer; });
    if (found == others.end()) found = others.insert(others.end(), {layer, has_block ? stages - 1 : 0});
    stage_of[Index(op)] = found->second;
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
    if (position >= devices) {
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
              "devices with stages, of each replica and part; 0: as many as there are");
  reader.Read("chunks", &options.chunks, 1, 1024, "stages of each device");
  reader.Read("fold", &options.fold, "every second pass over the devices goes back, as zb-v needs it");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceLikeMegatron(env, options); });
}

}  // namespace emplace::agents
