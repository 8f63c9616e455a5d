#ifndef EMPLACE_DATASETS_PLANNER_GRAPH_MODULES_H_
#define EMPLACE_DATASETS_PLANNER_GRAPH_MODULES_H_

#include <cstdint>

#include "datasets/memory/module_network.h"
#include "datasets/planner/graph_pieces.h"

namespace emplace::datasets {

// The work, the weights and the tensors of a graph's modules, for graphs that are no Transformer.
struct GraphModules {
  ModuleNetwork network;
  std::int64_t tensor_parts = 1;  // into how many parts tensor parallelism can divide them
};
// Throws InputError(graph name) on a graph without inputs or without a backward pass.
GraphModules ReadModules(const GraphPieces& pieces);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_GRAPH_MODULES_H_
