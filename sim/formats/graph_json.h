#ifndef EMPLACE_SIM_FORMATS_GRAPH_JSON_H_
#define EMPLACE_SIM_FORMATS_GRAPH_JSON_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "sim/graph.h"

namespace emplace {

// Limits of a file: ten million ops take about 4 GB of memory.
struct GraphLimits {
  std::size_t ops = 10'000'000;
  std::size_t outputs = 20'000'000;  // total over all ops
  std::size_t reads = 40'000'000;    // inputs and control inputs, of all ops
};

// graph.json, `emplace.graph` version 1. `file` is the prefix of every error. Throws InputError.
Graph ReadGraph(std::istream& in, const std::string& file, const GraphLimits& limits = {});
// Ops in file order; the same graph gives the same bytes, and ReadGraph(WriteGraph(g)) writes them again.
void WriteGraph(std::ostream& out, const Graph& graph);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_GRAPH_JSON_H_
