#ifndef EMPLACE_SIM_GRAPH_JSON_H_
#define EMPLACE_SIM_GRAPH_JSON_H_

#include <iosfwd>
#include <string>

#include "sim/graph.h"

namespace emplace {

// graph.json, `emplace.graph` version 1. `file` stands in front of every error. Throws InputError.
Graph ReadGraph(std::istream& in, const std::string& file);
// Ops in file order; the same graph gives the same bytes, and ReadGraph(WriteGraph(g)) writes them again.
void WriteGraph(std::ostream& out, const Graph& graph);

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_JSON_H_
