#ifndef EMPLACE_DATASETS_PLANNER_GRAPH_TRANSFORMER_H_
#define EMPLACE_DATASETS_PLANNER_GRAPH_TRANSFORMER_H_

#include <cstdint>
#include <string>

#include "datasets/models/transformer.h"
#include "datasets/planner/graph_pieces.h"

namespace emplace::datasets {

// What ReadTransformer throws of a graph whose work no Transformer's formulas have.
struct NoTransformer {
  std::string why;
};

// The Transformer whose weights and products are exactly those of the graph, with the batch and the length of sequences
// that the graph was captured with.
struct GraphTransformer {
  TransformerNetwork network;
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
};
GraphTransformer ReadTransformer(const GraphPieces& pieces);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_GRAPH_TRANSFORMER_H_
