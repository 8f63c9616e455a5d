#include "sim/graph_algorithms.h"

#include <algorithm>
#include <array>
#include <boost/graph/topological_sort.hpp>
#include <boost/range/iterator_range.hpp>
#include <functional>
#include <iterator>
#include <queue>

#include "sim/base/check.h"
#include "sim/graph_adjacency.h"

namespace emplace {
namespace {

// The longest distance of each op from any op without producers, where the edge u -> v counts weight(u).
// (boost::dag_shortest_paths starts from one vertex; a graph has many sources, so the relaxation is here.)
std::vector<std::int64_t> LongestPathsFromSources(const Graph& graph,
                                                  const std::function<std::int64_t(std::size_t)>& weight) {
  const Graph::Adjacency& adjacency = graph.adjacency();
  std::vector<std::int64_t> distance(graph.num_ops(), 0);
  for (const OpId id : TopologicalOrder(graph)) {
    const auto u = static_cast<std::uint32_t>(id);
    for (const auto edge : boost::make_iterator_range(boost::out_edges(u, adjacency))) {
      const auto v = boost::target(edge, adjacency);
      distance[v] = std::max(distance[v], distance[u] + weight(u));
    }
  }
  return distance;
}

}  // namespace

std::vector<OpId> TopologicalOrder(const Graph& graph) {
  std::vector<std::uint32_t> reversed;
  reversed.reserve(graph.num_ops());
  const CsrGraph& adjacency = graph.adjacency();
  boost::topological_sort(adjacency, std::back_inserter(reversed));
  std::vector<OpId> order;
  order.reserve(reversed.size());
  for (auto it = reversed.rbegin(); it != reversed.rend(); ++it) order.push_back(MakeId<OpId>(*it));
  return order;
}

std::vector<OpId> OrderOfCollectives(const Graph& graph) {
  const std::size_t n = graph.num_ops();
  std::vector<std::size_t> missing;
  for (const Collective& collective : graph.collectives()) missing.push_back(collective.members.size());
  const Graph::Adjacency& adjacency = graph.adjacency();
  std::vector<std::size_t> waiting(n);
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>
      ready;  // contains one member of each collective
  const auto arrive = [&](std::uint32_t op) {
    const std::optional<std::size_t> collective = graph.CollectiveOf(MakeId<OpId>(op));
    if (!collective) {
      ready.push(op);
    } else if (--missing[*collective] == 0) {
      const auto members = graph.collectives()[*collective].members;
      ready.push(static_cast<std::uint32_t>(*std::min_element(members.begin(), members.end())));
    }
  };
  for (std::uint32_t op = 0; op < n; ++op) {
    waiting[op] = boost::in_degree(op, adjacency);
    if (waiting[op] == 0) arrive(op);
  }
  std::vector<OpId> order;
  order.reserve(n);
  while (!ready.empty()) {
    const std::uint32_t next = ready.top();
    ready.pop();
    const std::array<OpId, 1> alone = {MakeId<OpId>(next)};
    const std::optional<std::size_t> collective = graph.CollectiveOf(alone[0]);
    const std::span<const OpId> ops = collective ? graph.collectives()[*collective].members : alone;
    for (const OpId op : ops) {
      order.push_back(op);
      for (const auto edge : boost::make_iterator_range(boost::out_edges(static_cast<std::uint32_t>(op), adjacency))) {
        const auto to = boost::target(edge, adjacency);
        if (--waiting[to] == 0) arrive(to);
      }
    }
  }
  EMPLACE_CHECK_EQ(order.size(), n);  // GraphBuilder has refused the rest
  return order;
}

std::vector<std::uint32_t> Depths(const Graph& graph) {
  std::vector<std::uint32_t> depths;
  depths.reserve(graph.num_ops());
  for (const std::int64_t d : LongestPathsFromSources(graph, [](std::size_t) { return std::int64_t{1}; })) {
    depths.push_back(static_cast<std::uint32_t>(d));
  }
  return depths;
}

std::int64_t CriticalPath(const Graph& graph, std::span<const std::int64_t> weights) {
  EMPLACE_CHECK_EQ(weights.size(), graph.num_ops());
  const auto distance = LongestPathsFromSources(graph, [&weights](std::size_t u) { return weights[u]; });
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < distance.size(); ++i) longest = std::max(longest, distance[i] + weights[i]);
  return longest;
}

Reachability::Reachability(const Graph& graph)
    : words_per_row_((graph.num_ops() + 63) / 64), rows_(words_per_row_ * graph.num_ops(), 0) {
  const Graph::Adjacency& adjacency = graph.adjacency();
  const std::vector<OpId> order = TopologicalOrder(graph);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto u = static_cast<std::uint32_t>(*it);
    std::uint64_t* const row = &rows_[u * words_per_row_];
    for (const auto v : boost::make_iterator_range(boost::adjacent_vertices(u, adjacency))) {
      row[v / 64] |= std::uint64_t{1} << (v % 64);
      const std::uint64_t* const other = &rows_[v * words_per_row_];
      for (std::size_t w = 0; w < words_per_row_; ++w) row[w] |= other[w];
    }
  }
}

}  // namespace emplace
