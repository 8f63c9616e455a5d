#include "agents/heuristics/solver_input.h"

#include <algorithm>
#include <limits>

#include "sim/base/check.h"

namespace emplace::agents {

std::vector<GroupEdge> GroupEdges(const Graph& graph) {
  std::vector<GroupEdge> edges;
  for (std::size_t from = 0; from < graph.num_ops(); ++from) {
    const std::size_t first = edges.size();
    const OpId producer = MakeId<OpId>(from);
    const std::size_t first_output = Index(graph.first_output(producer));
    for (std::size_t t = first_output; t < first_output + graph.num_outputs(producer); ++t) {
      const auto tensor = MakeId<TensorId>(t);
      for (const OpId consumer : graph.consumers(tensor)) {
        edges.push_back({from, Index(consumer), graph.tensor(tensor).size.count});
      }
    }
    for (const OpId consumer : graph.control_consumers(producer)) edges.push_back({from, Index(consumer), 0});
    const auto begin = edges.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, edges.end(), [](const GroupEdge& a, const GroupEdge& b) { return a.to < b.to; });
    std::size_t kept = first;
    for (std::size_t i = first; i < edges.size(); ++i) {
      if (kept > first && edges[kept - 1].to == edges[i].to) {
        edges[kept - 1].bytes += edges[i].bytes;
      } else {
        edges[kept++] = edges[i];
      }
    }
    edges.resize(kept);
  }
  return edges;
}

ByteGraph MakeByteGraph(std::size_t num_groups, std::span<const GroupEdge> edges, std::size_t most_neighbours) {
  std::vector<std::size_t> degrees(num_groups, 0);
  for (const GroupEdge& edge : edges) {
    if (edge.bytes == 0) continue;
    ++degrees[edge.from];
    ++degrees[edge.to];
  }
  const auto is_kept = [&](const GroupEdge& edge) {
    return edge.bytes != 0 && degrees[edge.from] <= most_neighbours && degrees[edge.to] <= most_neighbours;
  };
  ByteGraph graph;
  graph.first.assign(num_groups + 1, 0);
  for (const GroupEdge& edge : edges) {
    if (!is_kept(edge)) continue;
    ++graph.first[edge.from + 1];
    ++graph.first[edge.to + 1];
  }
  for (std::size_t i = 0; i < num_groups; ++i) graph.first[i + 1] += graph.first[i];
  graph.neighbours.resize(graph.first[num_groups]);
  graph.bytes.resize(graph.first[num_groups]);
  std::vector<std::size_t> next(graph.first.begin(), graph.first.end() - 1);
  const auto add = [&](std::size_t at, std::size_t neighbour, std::int64_t bytes) {
    graph.neighbours[next[at]] = neighbour;
    graph.bytes[next[at]] = bytes;
    ++next[at];
  };
  for (const GroupEdge& edge : edges) {
    if (!is_kept(edge)) continue;
    add(edge.from, edge.to, edge.bytes);
    add(edge.to, edge.from, edge.bytes);
  }
  return graph;
}

Duration LinkTime(const Cluster& cluster, DeviceId from, DeviceId to, Bytes size) {
  if (from == to) return Duration(0);
  const Link& link = cluster.link(from, to);
  return DurationFromMicros(link.latency_micros) + TransferDuration(size, link.rate());
}

MeanLink::MeanLink(const Cluster& cluster, std::span<const DeviceId> devices) {
  double pairs = 0;
  for (const DeviceId from : devices) {
    for (const DeviceId to : devices) {
      if (from == to || !cluster.link(from, to).exists()) continue;
      const Link& link = cluster.link(from, to);
      latency_micros_ += link.latency_micros;
      // 1 GB/s is 1000 bytes per µs. Where there is a knee, the large tensors count.
      micros_per_byte_ += 1e-3 / (link.knee.count > 0 ? link.beyond_gb_per_s : link.bandwidth_gb_per_s);
      ++pairs;
    }
  }
  if (pairs == 0) return;
  latency_micros_ /= pairs;
  micros_per_byte_ /= pairs;
}

double MeanMicros(const Observation& observation, std::size_t group, std::span<const DeviceId> devices) {
  if (devices.empty()) return 0;
  double sum = 0;
  for (const DeviceId device : devices) sum += observation.TimeMicros(group, Index(device));
  return sum / static_cast<double>(devices.size());
}

std::int64_t GroupBytes(const Observation& observation, std::size_t group) {
  return (observation.persistent[group] + observation.temp[group] + observation.output[group]).count;
}

std::int64_t Capacity(const Device& device) {
  return device.memory ? device.memory->count : std::numeric_limits<std::int64_t>::max();
}

Placement PlaceParts(const Observation& observation, std::span<const DeviceId> devices,
                     std::span<const std::int32_t> parts) {
  EMPLACE_CHECK_EQ(parts.size(), observation.num_groups());
  Placement placement(observation.num_groups());
  for (std::size_t group = 0; group < parts.size(); ++group) {
    const auto part = static_cast<std::size_t>(parts[group]);
    EMPLACE_CHECK_LT(part, devices.size());
    const DeviceId device = devices[part];
    placement[MakeId<OpId>(group)] =
        observation.Allowed(group, Index(device)) ? device : observation.Fastest(group, devices);
  }
  return placement;
}

std::vector<std::int32_t> ScaledWeights(std::span<const std::int64_t> weights, std::int64_t max_sum) {
  // In doubles, as the sum of 64-bit weights may overflow.
  double sum = 0;
  for (const std::int64_t weight : weights) sum += static_cast<double>(weight);
  const double factor = sum > static_cast<double>(max_sum) ? static_cast<double>(max_sum) / sum : 1;
  std::vector<std::int32_t> scaled;
  scaled.reserve(weights.size());
  for (const std::int64_t weight : weights) {
    const std::int64_t value = factor == 1 ? weight : RoundToInteger(static_cast<double>(weight) * factor);
    scaled.push_back(static_cast<std::int32_t>(weight > 0 ? std::max<std::int64_t>(value, 1) : 0));
  }
  return scaled;
}

}  // namespace emplace::agents
