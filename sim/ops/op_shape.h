#ifndef EMPLACE_SIM_OPS_OP_SHAPE_H_
#define EMPLACE_SIM_OPS_OP_SHAPE_H_

#include <variant>
#include <vector>

#include "sim/graph.h"

namespace emplace {

// `batch` products of a [m, k] and a [k, n] matrix. Convolutions are one, as if each window were a row of the first.
// The weight of a linear layer is the second: m counts tokens.
struct ProductShape {
  double batch = 1;
  double m = 0;
  double n = 0;
  double k = 0;
  double moved_bytes = 0;  // read and written; 0: those of the three matrices
};

// Fused attention; sizes of one sequence. `window`: the keys that a query sees at most, 0 if all.
struct AttentionShape {
  double batch = 0;
  double queries = 0;
  double keys = 0;
  double heads = 0;
  double key_heads = 0;
  double head_dim = 0;
  double window = 0;
  bool causal = false;
  bool backward = false;
};

// What passes over rows: norms and softmax.
struct RowsShape {
  double columns = 0;
  bool is_softmax = false;
};

// What moves bytes and does not walk over all of its tensors in their own order: it spreads a tensor over another,
// reads a transposed one, or concatenates. The index of each element costs time.
struct IndexedShape {
  double elements = 0;
};

using OpShape = std::variant<std::monostate, ProductShape, AttentionShape, RowsShape, IndexedShape>;

// The shapes of an op of the op catalogue, of ONNX or of a call of ATen, one for each kernel: an op that is the
// gradients of a product is two products. Ops that are kernels of one call all have the shapes of the call. Empty if
// its kind has none of these, or the graph does not say it. Throws InputError(op name) as the op catalogue does.
std::vector<OpShape> FindOpShapes(const Graph& graph, OpId op);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_OP_SHAPE_H_
