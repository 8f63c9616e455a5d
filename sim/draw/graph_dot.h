#ifndef EMPLACE_SIM_DRAW_GRAPH_DOT_H_
#define EMPLACE_SIM_DRAW_GRAPH_DOT_H_

#include <iosfwd>

#include "sim/graph.h"

namespace emplace {

// The graph in Graphviz's language (DOT): ops as boxes of name and kind, coloured by pass; tensors as arrows with their
// bytes, one for each (tensor, consumer) pair; control edges dashed. Ops in id order, so equal graphs give equal bytes.
void WriteDot(std::ostream& out, const Graph& graph);

}  // namespace emplace

#endif  // EMPLACE_SIM_DRAW_GRAPH_DOT_H_
