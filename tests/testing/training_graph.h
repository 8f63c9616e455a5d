#ifndef EMPLACE_TESTS_TESTING_TRAINING_GRAPH_H_
#define EMPLACE_TESTS_TESTING_TRAINING_GRAPH_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "datasets/models/registry.h"
#include "sim/base/options.h"
#include "sim/graph.h"
#include "sim/ops/op_catalog.h"

namespace emplace::testing {

// Totals of a training graph.
struct GraphTotals {
  std::map<std::string, std::size_t, std::less<>> kinds;  // ops of each kind
  double forward_product_flop = 0;                        // convolutions, matrix products and attention
  double backward_product_flop = 0;
  double parameters = 0;  // elements of the variables that an optimiser updates
  std::set<std::string, std::less<>> layers;
};

inline GraphTotals TotalsOf(const Graph& graph) {
  GraphTotals totals;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    ++totals.kinds[std::string(op.kind)];
    totals.layers.emplace(op.layer);
    const OpClass op_class = FindOpKind(op.kind)->op_class;
    if (op_class == OpClass::kConvolution || op_class == OpClass::kMatrixProduct || op_class == OpClass::kAttention) {
      (op.pass == Pass::kForward ? totals.forward_product_flop : totals.backward_product_flop) += op.flop;
    }
    const std::set<std::string_view> optimizers = {"sgd",        "momentum",        "rmsprop",        "adam",
                                                   "sparse_sgd", "sparse_momentum", "sparse_rmsprop", "sparse_adam"};
    if (optimizers.contains(op.kind)) {
      const Tensor& weights = graph.tensor(graph.inputs(id)[0]);
      const std::int64_t elements = weights.size.count / ElementBytes(weights.dtype);
      totals.parameters += static_cast<double>(elements);
    }
  }
  return totals;
}

// Checks the invariants of every training graph: FLOP as in the catalogue, and passes in order. Each variable is
// updated by exactly one op, on its own device; a second one may only read it.
inline void CheckTrainingGraph(const Graph& graph) {
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    const OpKind* kind = FindOpKind(op.kind);
    ASSERT_NE(kind, nullptr) << op.kind;
    EXPECT_EQ(op.flop, CountedFlop(*kind, graph, id)) << op.name;
    EXPECT_NE(op.pass, Pass::kNone) << op.name;
    EXPECT_FALSE(op.layer.empty()) << op.name;
    EXPECT_EQ(op.name.starts_with("gradients/"), op.pass == Pass::kBackward) << op.name;
    EXPECT_EQ(op.name.starts_with("update/"), op.pass == Pass::kUpdate) << op.name;
    for (const TensorId input : graph.inputs(id)) {
      EXPECT_LE(graph.op(graph.tensor(input).producer).pass, op.pass) << op.name;
    }
    if (op.kind != "variable") continue;
    int changed = 0;
    for (const OpId reader : graph.consumers(graph.first_output(id))) {
      const bool changes = graph.num_outputs(reader) == 0 && graph.tensor(graph.inputs(reader)[0]).producer == id;
      if (!changes) continue;
      ++changed;
      EXPECT_EQ(graph.colocation_class(reader), graph.colocation_class(id)) << op.name;
    }
    EXPECT_EQ(changed, 1) << op.name;
  }
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_TRAINING_GRAPH_H_
