#include "agents/heuristics/partitioners.h"

#include <metis.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

static_assert(sizeof(idx_t) == sizeof(std::int32_t), "weights are scaled for a METIS of 32-bit numbers");

// METIS adds up weights in 32 bits; half the range leaves headroom for its computations with the sums.
constexpr std::int64_t kMaxSum = std::int64_t{1} << 30;

// A graph in METIS's input format.
struct MetisGraph {
  std::size_t num_constraints = 1;
  std::vector<idx_t> first = {0};
  std::vector<idx_t> neighbours;
  std::vector<idx_t> edge_weights;
  std::vector<idx_t> vertex_weights;  // [num_vertices, num_constraints]

  std::size_t num_vertices() const { return first.size() - 1; }
};

// One column of vertex weights, all at least 1: METIS divides by sums of them.
void SetWeights(std::span<const std::int64_t> weights, std::size_t column, MetisGraph* graph) {
  const std::vector<std::int32_t> scaled = ScaledWeights(weights, kMaxSum);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    graph->vertex_weights[i * graph->num_constraints + column] = std::max(scaled[i], std::int32_t{1});
  }
}

MetisGraph MakeMetisGraph(const Observation& observation, const MetisOptions& options) {
  const std::size_t num_groups = observation.num_groups();
  const ByteGraph bytes = MakeByteGraph(num_groups, GroupEdges(observation.graph));
  EMPLACE_CHECK_LT(bytes.neighbours.size(), static_cast<std::size_t>(std::numeric_limits<idx_t>::max()));
  MetisGraph graph;
  graph.first.assign(bytes.first.begin(), bytes.first.end());
  graph.neighbours.assign(bytes.neighbours.begin(), bytes.neighbours.end());
  graph.edge_weights = ScaledWeights(bytes.bytes, kMaxSum);
  graph.num_constraints = options.balance_memory ? 2 : 1;
  graph.vertex_weights.resize(num_groups * graph.num_constraints);
  std::vector<std::int64_t> weights;
  for (std::size_t group = 0; group < num_groups; ++group) {
    std::vector<DeviceId> where;
    for (const DeviceId device : observation.accelerators) {
      if (observation.Allowed(group, Index(device))) where.push_back(device);
    }
    weights.push_back(DurationFromMicros(MeanMicros(observation, group, where)).count());
  }
  SetWeights(weights, 0, &graph);
  if (options.balance_memory) {
    for (std::size_t group = 0; group < num_groups; ++group) weights[group] = GroupBytes(observation, group);
    SetWeights(weights, 1, &graph);
  }
  return graph;
}

// The subgraph of `graph` induced by the vertices of one side.
MetisGraph Side(const MetisGraph& graph, std::span<const idx_t> sides, idx_t side) {
  std::vector<idx_t> new_index(graph.num_vertices(), -1);
  idx_t count = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] == side) new_index[i] = count++;
  }
  MetisGraph half;
  half.num_constraints = graph.num_constraints;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] != side) continue;
    for (auto e = static_cast<std::size_t>(graph.first[i]); e < static_cast<std::size_t>(graph.first[i + 1]); ++e) {
      const idx_t neighbour = new_index[static_cast<std::size_t>(graph.neighbours[e])];
      if (neighbour < 0) continue;
      half.neighbours.push_back(neighbour);
      half.edge_weights.push_back(graph.edge_weights[e]);
    }
    half.first.push_back(static_cast<idx_t>(half.neighbours.size()));
    for (std::size_t c = 0; c < graph.num_constraints; ++c) {
      half.vertex_weights.push_back(graph.vertex_weights[i * graph.num_constraints + c]);
    }
  }
  return half;
}

// Side 0 or 1 of each vertex, side 0 with `left` of `parts` shares. Requires: at least two vertices.
std::vector<idx_t> Bisect(MetisGraph& graph, std::size_t left, std::size_t parts, double imbalance, std::int64_t cuts,
                          idx_t seed) {
  // METIS uses the C library's global rand(), which it seeds at each call.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::array<idx_t, METIS_NOPTIONS> options{};
  METIS_SetDefaultOptions(options.data());
  options[METIS_OPTION_SEED] = seed;
  options[METIS_OPTION_NCUTS] = static_cast<idx_t>(cuts);
  auto num_vertices = static_cast<idx_t>(graph.num_vertices());
  auto num_constraints = static_cast<idx_t>(graph.num_constraints);
  idx_t num_parts = 2;
  const real_t share = static_cast<real_t>(left) / static_cast<real_t>(parts);
  std::vector<real_t> shares;
  for (const real_t part_share : {share, real_t{1} - share})
    shares.insert(shares.end(), graph.num_constraints, part_share);
  std::vector<real_t> allowed(graph.num_constraints, static_cast<real_t>(1 + imbalance));
  std::vector<idx_t> sides(graph.num_vertices(), -1);
  idx_t cut = 0;
  // METIS needs non-null edge arrays even for a graph without edges.
  if (graph.neighbours.empty()) {
    graph.neighbours.reserve(1);
    graph.edge_weights.reserve(1);
  }
  const int status =
      METIS_PartGraphRecursive(&num_vertices, &num_constraints, graph.first.data(), graph.neighbours.data(),
                               graph.vertex_weights.data(), nullptr, graph.edge_weights.data(), &num_parts,
                               shares.data(), allowed.data(), options.data(), &cut, sides.data());
  if (status != METIS_OK) throw InputError("metis", "the library failed with status " + std::to_string(status));
  if (std::any_of(sides.begin(), sides.end(), [](idx_t side) { return side < 0 || side > 1; })) {
    throw InputError("metis", "the library left vertices without a part");
  }
  return sides;
}

// Numbers the parts of `graph` first_part .. first_part + parts - 1. `vertices` are the entries of *answer to set.
void Cut(MetisGraph graph, const std::vector<std::size_t>& vertices, std::size_t first_part, std::size_t parts,
         double imbalance, const MetisOptions& options, Rng& rng, std::vector<std::int32_t>* answer) {
  if (parts == 1 || vertices.size() < 2) {
    for (const std::size_t vertex : vertices) (*answer)[vertex] = static_cast<std::int32_t>(first_part);
    return;
  }
  const std::size_t left = parts / 2;
  const auto seed = static_cast<idx_t>(rng.Below(std::numeric_limits<idx_t>::max()));
  const std::vector<idx_t> sides = Bisect(graph, left, parts, imbalance, options.cuts, seed);
  for (const idx_t side : {0, 1}) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (sides[i] == side) members.push_back(vertices[i]);
    }
    Cut(Side(graph, sides, side), members, side == 0 ? first_part : first_part + left, side == 0 ? left : parts - left,
        imbalance, options, rng, answer);
  }
}

}  // namespace

Placement PlaceByMetis(const Observation& observation, const MetisOptions& options, Rng& rng) {
  const std::size_t parts = observation.accelerators.size();
  std::vector<std::size_t> vertices(observation.num_groups());
  std::iota(vertices.begin(), vertices.end(), std::size_t{0});
  // The imbalance allowed at each level of halving, so that all levels together reach `imbalance`.
  const double levels = std::max(1.0, std::ceil(std::log2(static_cast<double>(parts))));
  const double imbalance = std::pow(1 + options.imbalance, 1 / levels) - 1;
  std::vector<std::int32_t> answer(observation.num_groups(), 0);
  Cut(MakeMetisGraph(observation, options), vertices, 0, parts, imbalance, options, rng, &answer);
  return PlaceParts(observation, observation.accelerators, answer);
}

std::unique_ptr<Agent> MakeMetisAgent(OptionReader& reader, const AgentContext&) {
  MetisOptions options;
  reader.Read("imbalance", &options.imbalance, 0.001, 10, "a part may weigh (1 + imbalance) of its share");
  reader.Read("balance_memory", &options.balance_memory, "also balance memory, not only time");
  reader.Read("cuts", &options.cuts, 1, 1000, "attempts at each bisection, of which the best is used");
  reader.Finish();
  return MakeOneShot(
      [options](const Environment& env, Rng& rng) { return PlaceByMetis(env.observation(), options, rng); });
}

}  // namespace emplace::agents
