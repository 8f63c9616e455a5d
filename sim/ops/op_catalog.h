#ifndef EMPLACE_SIM_OPS_OP_CATALOG_H_
#define EMPLACE_SIM_OPS_OP_CATALOG_H_

#include <span>
#include <string_view>

#include "sim/base/units.h"
#include "sim/device_catalog.h"
#include "sim/graph.h"

namespace emplace {

// The work that one op executes: what the roofline cost model divides by a device's rates.
struct OpWork {
  OpClass op_class = OpClass::kNone;
  double flop = 0;  // a multiply-add is 2
  Bytes moved;      // read and written, in device memory
};

// A kind of op: its row in the catalogue.
struct OpKind {
  std::string_view name;
  OpClass op_class;
  std::string_view formula;  // FLOP and bytes in words, with the derivation; printed for users
  // From the shapes of inputs and outputs and from the attrs. Throws InputError(op name) if they do not fit the kind.
  OpWork (*work)(const Graph& graph, OpId op);
  // FLOP as PyTorch's counter has them, where they are not those that a device executes: attention counts the pairs
  // that its mask leaves out, and products alone. Null: those of `work`.
  double (*counted_flop)(const Graph& graph, OpId op) = nullptr;
};
// The FLOP of an op of that kind in a graph.
double CountedFlop(const OpKind& kind, const Graph& graph, OpId op);
std::span<const OpKind> AllOpKinds();
// Null if the catalogue does not know the kind. Knows operators of ONNX, XLA and TensorFlow too (any operator
// "tf::NAME" that is not listed has a row of its bytes alone, whose name is "tf::"), and TransformerKinds() and
// ParallelKinds() (op_catalog_parts.h), which AllOpKinds() does not list.
const OpKind* FindOpKind(std::string_view kind);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_OP_CATALOG_H_
