#ifndef EMPLACE_SIM_OPS_OP_CATALOG_PARTS_H_
#define EMPLACE_SIM_OPS_OP_CATALOG_PARTS_H_

#include <span>

#include "sim/ops/op_catalog.h"

// The op catalogue in parts, one file each. AllOpKinds() joins them.
//
// Conventions of all formulas:
// - One FLOP is one addition, subtraction, multiplication, division, comparison, selection, or one call of exp, log,
//   tanh or sqrt. A multiply-add is 2. A formula counts what the operation's definition needs, not what an
//   implementation may save (Winograd) or waste (padding to tiles).
// - Bytes are the least that a kernel can move: every input read once and every output written once, unless the row
//   says otherwise.
// - Images are [N, C, H, W]; filters [K, C, R, S]; E is the number of elements of the (first) output.
namespace emplace {

std::span<const OpKind> ProductKinds();          // convolutions and matrix products
std::span<const OpKind> ElementwiseKinds();      // one output element from one element of each input
std::span<const OpKind> ReductionKinds();        // sums, norms, softmax, pooling
std::span<const OpKind> DataKinds();             // inputs, variables, and what only moves data
OpWork GatherWork(const Graph& graph, OpId op);  // rows of a table: `gather` and `embedding`, whose gradients differ
std::span<const OpKind> UpdateKinds();           // kinds that update variables

// Kinds of the Transformers of today, in alphabetical order: fused attention, RMS norms, rotary embeddings, gated
// activations, embeddings with dense gradients, casts. They are in no part of AllOpKinds(), so that agents that tell
// kinds apart are what they were; FindOpKind() knows them.
std::span<const OpKind> TransformerKinds();

// Additional kinds of graphs of several ranks and mixtures of experts, in alphabetical order: collectives, which take
// the time of links and not of a device, parts of tensors, and routing. They are in no part of AllOpKinds(), so that
// agents that tell kinds apart are what they were; FindOpKind() knows them.
std::span<const OpKind> ParallelKinds();

// Operators of ONNX, "onnx::NAME", and of ONNX Runtime, "com.microsoft::NAME", in alphabetical order: what imported
// models hold besides. They are in no part of AllOpKinds(), so no device runs them and no agent tells them apart;
// FindOpKind() knows them.
std::span<const OpKind> OnnxKinds();
// The same for operators of TensorFlow, "tf::NAME".
std::span<const OpKind> TensorFlowKinds();
// Any other operator of TensorFlow: 0 FLOP; it reads and writes every byte.
const OpKind& OtherTensorFlowKind();
// Einsum of ONNX and TensorFlow, attr `equation`: for each combination of the letters a product of one number of each
// operand, n - 1 products and a sum.
OpWork EinsumWork(const Graph& graph, OpId op);

// Instructions of XLA, "hlo::NAME", in alphabetical order: what imported programs hold besides. As OnnxKinds(), they
// are in no part of AllOpKinds().
std::span<const OpKind> HloKinds();

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_OP_CATALOG_PARTS_H_
