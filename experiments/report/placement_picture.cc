#include "experiments/report/placement_picture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/graph_algorithms.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

// The lane of each op, by OpId; fills in the lanes' names. A layer starts with its first op that takes time, as weights
// exist from the beginning.
std::vector<std::size_t> LanesByLayer(const Graph& graph, const std::vector<double>& starts,
                                      const std::vector<double>& micros, std::vector<std::string>* names) {
  std::vector<std::size_t> by_start(graph.num_ops());
  std::iota(by_start.begin(), by_start.end(), std::size_t{0});
  std::stable_sort(by_start.begin(), by_start.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(micros[a] <= 0, starts[a]) < std::tuple(micros[b] <= 0, starts[b]);
  });
  std::map<std::string_view, std::size_t> known;
  std::vector<std::size_t> lanes(graph.num_ops());
  for (const std::size_t i : by_start) {
    const std::string_view layer = graph.op(MakeId<OpId>(i)).layer;
    const auto [at, is_new] = known.emplace(layer, names->size());
    if (is_new) names->emplace_back(layer.empty() ? "(no layer)" : layer);
    lanes[i] = at->second;
  }
  return lanes;
}

std::vector<std::size_t> LanesByDepth(const Graph& graph, std::vector<std::string>* names) {
  const std::vector<std::uint32_t> depths = Depths(graph);
  const std::uint32_t deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  for (std::uint32_t depth = 0; depth <= deepest; ++depth) names->push_back("depth " + std::to_string(depth));
  return {depths.begin(), depths.end()};
}

bool HasLayers(const Graph& graph) {
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (!graph.op(MakeId<OpId>(i)).layer.empty()) return true;
  }
  return false;
}

// Input of the parts of a picture; all by OpId.
struct Placed {
  const Graph& graph;
  const Placement& placement;
  std::vector<std::size_t> lanes;
  std::vector<double> starts;
  std::vector<double> micros;
};

// One line for each tensor and receiving device, to the first consumer there.
std::vector<PlacementPicture::Line> AllLines(const Placed& placed, std::vector<bool>* sends) {
  std::vector<PlacementPicture::Line> lines;
  for (std::size_t t = 0; t < placed.graph.num_tensors(); ++t) {
    const Tensor& tensor = placed.graph.tensor(MakeId<TensorId>(t));
    const std::size_t from = Index(tensor.producer);
    std::map<DeviceId, std::size_t> first;
    for (const OpId consumer : placed.graph.consumers(MakeId<TensorId>(t))) {
      const std::size_t to = Index(consumer);
      if (placed.placement[consumer] == placed.placement[tensor.producer]) continue;
      const auto [at, is_new] = first.emplace(placed.placement[consumer], to);
      if (!is_new && placed.starts[to] < placed.starts[at->second]) at->second = to;
    }
    for (const auto& [device, to] : first) {
      (*sends)[from] = true;
      lines.push_back({.from_micros = placed.starts[from] + placed.micros[from],
                       .from_lane = placed.lanes[from],
                       .from_device = Index(placed.placement[tensor.producer]),
                       .to_micros = placed.starts[to],
                       .to_lane = placed.lanes[to],
                       .to_device = Index(device),
                       .bytes = static_cast<double>(tensor.size.count)});
    }
  }
  return lines;
}

std::vector<PlacementPicture::Dot> ChosenDots(const Placed& placed, const std::vector<bool>& sends) {
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < placed.graph.num_ops(); ++i) {
    if (placed.micros[i] > 0 || sends[i]) ops.push_back(i);
  }
  std::stable_sort(ops.begin(), ops.end(),
                   [&placed](std::size_t a, std::size_t b) { return placed.micros[a] > placed.micros[b]; });
  ops.resize(std::min(ops.size(), PlacementPicture::kMostDots));
  std::sort(ops.begin(), ops.end(), [&placed](std::size_t a, std::size_t b) {
    return std::tie(placed.starts[a], a) < std::tie(placed.starts[b], b);
  });
  std::vector<PlacementPicture::Dot> dots;
  for (const std::size_t i : ops) {
    const OpId id = MakeId<OpId>(i);
    dots.push_back({.op = std::string(placed.graph.op(id).name),
                    .start_micros = placed.starts[i],
                    .micros = placed.micros[i],
                    .lane = placed.lanes[i],
                    .device = Index(placed.placement[id])});
  }
  return dots;
}

}  // namespace

PlacementPicture MakePlacementPicture(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                      const std::string& engine, const Placement& placement) {
  CheckPlacement(placement, graph, cluster, costs);
  const Simulator simulator(graph, cluster, costs, {.engine = engine, .peak_memory = false, .start_times = true});
  const StepResult step = simulator.Run(placement);
  PlacementPicture picture;
  picture.graph = graph.name();
  picture.cluster = cluster.name();
  picture.step_time_micros = step.step_time_micros;
  for (const Device& device : cluster.devices()) picture.devices.push_back(device.name);
  Placed placed{.graph = graph, .placement = placement, .lanes = {}, .starts = step.start_micros, .micros = {}};
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    placed.micros.push_back(costs.Micros(id, placement[id]));
  }
  placed.lanes = HasLayers(graph) ? LanesByLayer(graph, placed.starts, placed.micros, &picture.lanes)
                                  : LanesByDepth(graph, &picture.lanes);
  std::vector<bool> sends(graph.num_ops());
  picture.lines = AllLines(placed, &sends);
  std::stable_sort(picture.lines.begin(), picture.lines.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (picture.lines.size() > PlacementPicture::kMostLines) {
    picture.lines_left_out = picture.lines.size() - PlacementPicture::kMostLines;
    picture.lines.resize(PlacementPicture::kMostLines);
  }
  picture.dots = ChosenDots(placed, sends);
  picture.ops_left_out = graph.num_ops() - picture.dots.size();
  return picture;
}

}  // namespace emplace::experiments
