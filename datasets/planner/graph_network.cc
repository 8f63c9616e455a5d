#include "datasets/planner/graph_network.h"

#include <algorithm>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/planner/graph_modules.h"
#include "datasets/planner/graph_pieces.h"
#include "datasets/planner/graph_transformer.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/formats/graph_json.h"

namespace emplace::datasets {

GraphNetwork ReadGraphNetwork(const Graph& graph) {
  const GraphPieces pieces(graph);
  GraphNetwork read;
  read.graph = graph;
  read.layers = pieces.layers();
  read.before = pieces.ModulesOf(0);
  read.after = pieces.ModulesOf(pieces.after());
  try {
    GraphTransformer found = ReadTransformer(pieces);
    read.network = std::move(found.network);
    read.batch = found.batch;
    read.sequence = found.sequence;
    return read;
  } catch (const NoTransformer& reason) {
    read.why_modules = reason.why;
  }
  GraphModules found = ReadModules(pieces);
  auto modules = std::make_shared<ModuleNetwork>(std::move(found.network));
  read.batch = modules->batch;
  read.network.name = graph.name();
  read.network.layers = static_cast<std::int64_t>(modules->layers.size());
  read.network.heads = read.network.kv_heads = read.network.d_ff = found.tensor_parts;
  read.network.d_model = read.network.head_width = read.network.vocabulary = 1;
  read.network.positions = PositionKind::kNone;
  read.network.gated = false;  // no Llama
  read.modules = std::move(modules);
  return read;
}

void UseModules(const GraphNetwork& network, TrainingSetup* setup) {
  if (setup->casts_products()) {
    throw InputError("precision", "is not bf16, and modules have the precision that their graph has");
  }
  setup->network.modules = network.modules;
  setup->network.is_tied = network.modules->tied_elements > 0;
  setup->number_bytes = network.modules->number_bytes;
  setup->transformer_engine = setup->fuses_weight_gradients = false;
  for (std::size_t i = 0; i < setup->network.layers.size(); ++i) {
    setup->network.layers[i].module = static_cast<std::int64_t>(i);
  }
}

ParallelPlan WithPaths(const GraphNetwork& network, ParallelPlan plan) {
  if (plan.stages.empty()) return plan;
  for (std::vector<JsonValue>& stage : plan.stages) {
    for (JsonValue& part : stage) {
      if (const auto* const layer = part.As<std::int64_t>()) {
        part = ToJson(network.layers[static_cast<std::size_t>(*layer)]);
      }
    }
  }
  std::vector<JsonValue> first;
  for (const std::string& path : network.before) first.push_back(ToJson(path));
  plan.stages.front().insert(plan.stages.front().begin(), first.begin(), first.end());
  for (const std::string& path : network.after) plan.stages.back().push_back(ToJson(path));
  return plan;
}

ParallelPlan WithNumbers(const GraphNetwork& network, ParallelPlan plan) {
  for (std::vector<JsonValue>& stage : plan.stages) {
    std::vector<JsonValue> numbers;
    for (const JsonValue& part : stage) {
      const auto* const path = part.As<std::string>();
      const auto found = path == nullptr ? network.layers.end() : std::ranges::find(network.layers, *path);
      if (path == nullptr) numbers.push_back(part);
      if (found != network.layers.end()) numbers.push_back(ToJson(std::int64_t{found - network.layers.begin()}));
    }
    stage = std::move(numbers);
  }
  return plan;
}

std::optional<Graph> FindGraphFile(const std::string& name) {
  const bool is_program = name.ends_with(".pt2");
  if (!is_program && !name.ends_with(".json") && !name.ends_with(".json.gz")) return std::nullopt;
  const std::vector<ImportSource> sources = {ImportSource(name)};
  if (is_program) return ImportTorchExport(sources, {.training = "adam"}).graph;
  if (!LooksLikeEmplaceGraph(sources[0].head())) return std::nullopt;
  return ReadGraph(*sources[0].Open(InputKind::kGraph), name);
}

}  // namespace emplace::datasets
