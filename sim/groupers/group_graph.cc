#include "sim/groupers/group_graph.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "sim/check.h"

namespace emplace {
namespace {

constexpr std::uint64_t kAnyKind = ~std::uint64_t{0};

// The device kinds where an op has a time, as bits. Of more than 64 kinds, those behind the 64th share a bit.
std::vector<std::uint64_t> KindBits(const Graph& graph) {
  std::map<std::string_view, std::size_t> bit_of;
  std::vector<std::uint64_t> bits(graph.num_ops(), kAnyKind);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.time_micros || op.kind_times.empty() || op.kind == "input" || op.kind == "variable") continue;
    bits[i] = 0;
    for (const KindTime& time : op.kind_times) {
      const std::size_t bit = bit_of.try_emplace(time.kind, bit_of.size()).first->second;
      bits[i] |= std::uint64_t{1} << std::min<std::size_t>(bit, 63);
    }
  }
  return bits;
}

}  // namespace

GroupGraph::GroupGraph(const Graph& graph)
    : parent_(graph.num_ops()),
      successors_(graph.num_ops()),
      predecessors_(graph.num_ops()),
      output_bytes_(graph.num_ops(), 0),
      kinds_(graph.num_ops(), kAnyKind) {
  const std::vector<std::uint64_t> bits = KindBits(graph);
  for (std::size_t op = 0; op < parent_.size(); ++op) {
    parent_[op] = Index(graph.colocation_class(MakeId<OpId>(op)));
    kinds_[parent_[op]] &= bits[op];
    if (parent_[op] == op) ++num_groups_;
  }
  const auto connect = [this](std::size_t from, std::size_t to, std::int64_t bytes) {
    if (from == to) return;
    successors_[from][to] += bytes;
    predecessors_[to][from] += bytes;
    output_bytes_[from] += bytes;
  };
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const Tensor& tensor = graph.tensor(MakeId<TensorId>(t));
    std::set<std::size_t> readers;
    for (const OpId consumer : graph.consumers(MakeId<TensorId>(t))) readers.insert(parent_[Index(consumer)]);
    for (const std::size_t reader : readers) connect(parent_[Index(tensor.producer)], reader, tensor.size.count);
  }
  for (std::size_t op = 0; op < parent_.size(); ++op) {
    for (const OpId consumer : graph.control_consumers(MakeId<OpId>(op))) {
      connect(parent_[op], parent_[Index(consumer)], 0);
    }
  }
}

std::size_t GroupGraph::Find(std::size_t op) const {
  while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
  return op;
}

void GroupGraph::MoveEdges(std::size_t from, std::size_t to, std::vector<Neighbours>& out,
                           std::vector<Neighbours>& in) {
  for (const auto& [neighbour, bytes] : out[from]) {
    in[neighbour].erase(from);
    if (neighbour == to) continue;
    out[to][neighbour] += bytes;
    in[neighbour][to] += bytes;
  }
  out[from].clear();
}

std::size_t GroupGraph::Merge(std::size_t a, std::size_t b) {
  EMPLACE_CHECK(a != b && IsGroup(a) && IsGroup(b));
  const auto between = [this](std::size_t from, std::size_t to) {
    const auto found = successors_[from].find(to);
    return found == successors_[from].end() ? std::int64_t{0} : found->second;
  };
  const std::int64_t output = output_bytes_[a] + output_bytes_[b] - between(a, b) - between(b, a);
  const std::uint64_t kinds = kinds_[a] & kinds_[b];
  const std::size_t name = std::min(a, b);
  const std::size_t other = std::max(a, b);
  MoveEdges(other, name, successors_, predecessors_);
  MoveEdges(other, name, predecessors_, successors_);
  parent_[other] = name;
  output_bytes_[name] = output;
  kinds_[name] = kinds;
  --num_groups_;
  return name;
}

std::vector<std::size_t> GroupGraph::Labels() const {
  std::vector<std::size_t> labels(parent_.size());
  for (std::size_t op = 0; op < labels.size(); ++op) labels[op] = Find(op);
  return labels;
}

}  // namespace emplace
