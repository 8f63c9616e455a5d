#ifndef EMPLACE_SIM_GRAPH_ADJACENCY_H_
#define EMPLACE_SIM_GRAPH_ADJACENCY_H_

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>

#include "sim/graph.h"

// What Graph::adjacency() returns, in a header of its own: Boost's takes a second or more to compile, and few sources
// need it. Algorithms of Boost.Graph take it as a CsrGraph, whose property maps they know.

namespace emplace {

using CsrGraph = boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, boost::no_property,
                                                    boost::no_property, std::uint32_t, std::uint32_t>;

struct Graph::Adjacency : CsrGraph {
  using CsrGraph::CsrGraph;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_ADJACENCY_H_
