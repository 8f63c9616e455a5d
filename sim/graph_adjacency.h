#ifndef EMPLACE_SIM_GRAPH_ADJACENCY_H_
#define EMPLACE_SIM_GRAPH_ADJACENCY_H_

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/graph.h"

// The result of Graph::adjacency(), in a separate header: Boost's takes a second or more to compile, and few sources
// need it. Algorithms of Boost.Graph take it as a CsrGraph, whose property maps they know.

namespace emplace {

using CsrGraph = boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, boost::no_property,
                                                    boost::no_property, std::uint32_t, std::uint32_t>;

struct Graph::Adjacency : CsrGraph {
  using CsrGraph::CsrGraph;
  // The edges as compressed sparse rows: those from op i lead to the ops columns()[row_offsets()[i]] up to, but not
  // including, columns()[row_offsets()[i + 1]].
  std::span<const std::uint32_t> row_offsets() const { return m_forward.m_rowstart; }
  std::span<const std::uint32_t> columns() const { return m_forward.m_column; }
  std::span<const std::uint32_t> successors(std::size_t op) const {
    return columns().subspan(row_offsets()[op], row_offsets()[op + 1] - row_offsets()[op]);
  }
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_ADJACENCY_H_
