#include "agents/nn/topology.h"

#include <algorithm>

#include "sim/graph_adjacency.h"

namespace emplace::agents {
namespace {

Topology::Levels MakeLevels(const NodeLists& heard, bool ascending) {
  const std::size_t n = heard.size();
  std::vector<std::size_t> level(n);
  std::size_t num_levels = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t node = ascending ? i : n - 1 - i;
    for (const std::uint32_t other : heard[node]) level[node] = std::max(level[node], level[other] + 1);
    num_levels = std::max(num_levels, level[node] + 1);
  }
  Topology::Levels levels;
  levels.begin.assign(num_levels + 1, 0);
  for (const std::size_t l : level) ++levels.begin[l + 1];
  for (std::size_t l = 0; l < num_levels; ++l) levels.begin[l + 1] += levels.begin[l];
  levels.order.resize(n);
  levels.position.resize(n);
  std::vector<std::size_t> next(levels.begin.begin(), levels.begin.end() - 1);
  for (std::size_t node = 0; node < n; ++node) {
    const std::size_t at = next[level[node]]++;
    levels.order[at] = static_cast<std::uint32_t>(node);
    levels.position[node] = static_cast<std::uint32_t>(at);
  }
  return levels;
}

}  // namespace

Topology::Topology(const Graph& graph) {
  const Graph::Adjacency& adjacency = graph.adjacency();
  const std::size_t n = graph.num_ops();
  std::vector<std::uint32_t> list;
  for (std::size_t node = 0; node < n; ++node) {
    list.clear();
    const auto [first, last] = boost::in_edges(static_cast<std::uint32_t>(node), adjacency);
    for (auto edge = first; edge != last; ++edge) {
      list.push_back(static_cast<std::uint32_t>(boost::source(*edge, adjacency)));
    }
    std::sort(list.begin(), list.end());
    predecessors_.Append(list);
    list.clear();
    const auto [first_out, last_out] = boost::out_edges(static_cast<std::uint32_t>(node), adjacency);
    for (auto edge = first_out; edge != last_out; ++edge) {
      list.push_back(static_cast<std::uint32_t>(boost::target(*edge, adjacency)));
    }
    std::sort(list.begin(), list.end());
    successors_.Append(list);
  }
  forward_ = MakeLevels(predecessors_, true);
  backward_ = MakeLevels(successors_, false);

  relations_.assign(n * n, static_cast<std::uint8_t>(Relation::kParallel));
  // Row by row: a node's ancestors are its predecessors and their ancestors.
  for (std::size_t node = 0; node < n; ++node) {
    std::uint8_t* const row = relations_.data() + node * n;
    for (const std::uint32_t parent : predecessors_[node]) {
      const std::uint8_t* const above = relations_.data() + parent * n;
      row[parent] = static_cast<std::uint8_t>(Relation::kParent);
      for (std::size_t other = 0; other < parent; ++other) {
        if (above[other] == static_cast<std::uint8_t>(Relation::kParent)) row[other] = above[other];
      }
    }
    row[node] = static_cast<std::uint8_t>(Relation::kSelf);
    for (std::size_t other = 0; other < node; ++other) {
      if (row[other] != static_cast<std::uint8_t>(Relation::kParent)) continue;
      relations_[other * n + node] = static_cast<std::uint8_t>(Relation::kChild);
    }
  }
  for (std::size_t node = 0; node < n; ++node) {
    for (const Relation wanted : {Relation::kParent, Relation::kChild, Relation::kParallel}) {
      list.clear();
      for (std::size_t other = 0; other < n; ++other) {
        if (relation(node, other) == wanted) list.push_back(static_cast<std::uint32_t>(other));
      }
      related_.Append(list);
    }
  }
}

std::vector<std::uint8_t> Topology::Distances(std::size_t cutoff, bool directed) const {
  const std::size_t n = num_nodes();
  std::vector<std::uint8_t> distances(n * n, kFar);
  std::vector<std::uint32_t> frontier;
  std::vector<std::uint32_t> next;
  for (std::size_t start = 0; start < n; ++start) {
    std::uint8_t* const row = distances.data() + start * n;
    row[start] = 0;
    frontier = {static_cast<std::uint32_t>(start)};
    for (std::size_t hops = 1; hops <= cutoff && !frontier.empty(); ++hops) {
      next.clear();
      const auto reach = [&](std::uint32_t node) {
        if (row[node] != kFar) return;
        row[node] = static_cast<std::uint8_t>(hops);
        next.push_back(node);
      };
      for (const std::uint32_t node : frontier) {
        for (const std::uint32_t other : successors_[node]) reach(other);
        if (directed) continue;
        for (const std::uint32_t other : predecessors_[node]) reach(other);
      }
      frontier.swap(next);
    }
  }
  return distances;
}

}  // namespace emplace::agents
