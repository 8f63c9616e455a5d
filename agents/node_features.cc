#include "agents/node_features.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>

#include "sim/ops/op_catalog.h"

namespace emplace::agents {
namespace {

// Mean over the devices that can run the op, in us; 0 if none can.
double MeanMicros(const Environment& env, OpId op) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t d = 0; d < env.observation().num_devices(); ++d) {
    const double micros = env.costs().Micros(op, MakeId<DeviceId>(d));
    if (std::isnan(micros)) continue;
    sum += micros;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

std::array<float, kShapeWidth> ShapesOf(const Graph& graph, OpId op) {
  std::array<float, kShapeWidth> shapes{};
  shapes.fill(-1);
  for (std::size_t k = 0; k < std::min(kOutputs, graph.num_outputs(op)); ++k) {
    const Tensor& tensor = graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + k));
    for (std::size_t i = 0; i < std::min(kDimensions, tensor.shape.size()); ++i) {
      shapes[k * kDimensions + i] = static_cast<float>(tensor.shape[i]);
    }
  }
  return shapes;
}

// Bytes by neighbour.
using BytesByNode = std::map<std::uint32_t, double>;

void Split(const std::vector<BytesByNode>& all, std::vector<std::vector<std::uint32_t>>* nodes,
           std::vector<std::vector<double>>* bytes) {
  for (const BytesByNode& neighbours : all) {
    auto& of_node = nodes->emplace_back();
    auto& of_bytes = bytes->emplace_back();
    for (const auto& [other, count] : neighbours) {
      of_node.push_back(other);
      of_bytes.push_back(count);
    }
  }
}

}  // namespace

std::size_t NumKinds() { return AllOpKinds().size() + 1; }

std::uint32_t KindIndex(std::string_view kind) {
  const auto kinds = AllOpKinds();  // not those that only imported models have
  const OpKind* const found = FindOpKind(kind);
  const bool is_among =
      found != nullptr && std::less_equal<>()(kinds.data(), found) && std::less<>()(found, kinds.data() + kinds.size());
  return static_cast<std::uint32_t>(is_among ? static_cast<std::size_t>(found - kinds.data()) : kinds.size());
}

NodeFeatures DescribeNodes(const Environment& env) {
  const Graph& graph = env.op_graph();
  const Grouping& grouping = env.grouping();
  NodeFeatures nodes;
  std::vector<BytesByNode> producers(grouping.num_groups());
  std::vector<BytesByNode> consumers(grouping.num_groups());
  for (std::size_t node = 0; node < grouping.num_groups(); ++node) {
    std::map<std::uint32_t, std::uint32_t> counts;
    OpId longest = grouping.members(node)[0];
    double most = -1;
    const auto connect = [&](OpId producer, Bytes bytes) {
      const auto other = static_cast<std::uint32_t>(grouping.group_of(producer));
      if (other == node) return;
      producers[node][other] += static_cast<double>(bytes.count);
      consumers[other][static_cast<std::uint32_t>(node)] += static_cast<double>(bytes.count);
    };
    for (const OpId op : grouping.members(node)) {
      ++counts[KindIndex(graph.op(op).kind)];
      const double micros = MeanMicros(env, op);
      if (micros > most) {
        most = micros;
        longest = op;
      }
      for (const TensorId input : graph.inputs(op)) connect(graph.tensor(input).producer, graph.tensor(input).size);
      for (const OpId producer : graph.control_inputs(op)) connect(producer, Bytes{});
    }
    nodes.kinds.push_back(KindIndex(graph.op(longest).kind));
    nodes.shapes.push_back(ShapesOf(graph, longest));
    nodes.kind_counts.emplace_back(counts.begin(), counts.end());
  }
  Split(producers, &nodes.producers, &nodes.producer_bytes);
  Split(consumers, &nodes.consumers, &nodes.consumer_bytes);
  return nodes;
}

std::vector<std::uint32_t> BreadthFirstIndex(const NodeFeatures& nodes) {
  const auto unseen = static_cast<std::uint32_t>(nodes.num_nodes());
  std::vector<std::uint32_t> index(nodes.num_nodes(), unseen);
  std::deque<std::uint32_t> waiting;
  std::uint32_t next = 0;
  const auto visit = [&](std::uint32_t node) {
    if (index[node] != unseen) return;
    index[node] = next++;
    waiting.push_back(node);
  };
  const auto spread = [&] {
    while (!waiting.empty()) {
      const std::uint32_t node = waiting.front();
      waiting.pop_front();
      for (const std::uint32_t consumer : nodes.consumers[node]) visit(consumer);
    }
  };
  for (std::uint32_t node = 0; node < unseen; ++node) {
    if (nodes.producers[node].empty()) visit(node);
  }
  spread();
  // Groups may form a cycle without predecessors outside it.
  for (std::uint32_t node = 0; node < unseen; ++node) {
    visit(node);
    spread();
  }
  return index;
}

std::vector<std::array<float, kNeighbourIndices>> NeighbourIndices(const NodeFeatures& nodes) {
  const std::vector<std::uint32_t> index = BreadthFirstIndex(nodes);
  std::vector<std::array<float, kNeighbourIndices>> result(nodes.num_nodes());
  const auto fill = [&](const std::vector<std::uint32_t>& list, float* to) {
    std::vector<std::uint32_t> around;
    around.reserve(list.size());
    for (const std::uint32_t other : list) around.push_back(index[other]);
    std::sort(around.begin(), around.end());
    for (std::size_t i = 0; i < kNeighbourIndices / 2; ++i) {
      to[i] = i < around.size() ? static_cast<float>(around[i]) : -1;
    }
  };
  for (std::size_t node = 0; node < nodes.num_nodes(); ++node) {
    fill(nodes.producers[node], result[node].data());
    fill(nodes.consumers[node], result[node].data() + kNeighbourIndices / 2);
  }
  return result;
}

}  // namespace emplace::agents
