#include "sim/ops/op_catalog.h"

#include <algorithm>
#include <vector>

#include "sim/ops/op_catalog_parts.h"

namespace emplace {
namespace {

// Requires: the kinds are in alphabetical order.
const OpKind* FindIn(std::span<const OpKind> kinds, std::string_view kind) {
  const auto found = std::lower_bound(kinds.begin(), kinds.end(), kind,
                                      [](const OpKind& row, std::string_view name) { return row.name < name; });
  return found == kinds.end() || found->name != kind ? nullptr : &*found;
}

}  // namespace

std::span<const OpKind> AllOpKinds() {
  static const std::vector<OpKind> kinds = [] {
    std::vector<OpKind> all;
    for (const auto part : {ProductKinds(), ElementwiseKinds(), ReductionKinds(), DataKinds(), UpdateKinds()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end(), [](const OpKind& a, const OpKind& b) { return a.name < b.name; });
    return all;
  }();
  return kinds;
}

const OpKind* FindOpKind(std::string_view kind) {
  if (kind.starts_with("onnx::") || kind.starts_with("com.microsoft::") || kind.starts_with("ai.onnx."))
    return FindIn(OnnxKinds(), kind);
  if (kind.starts_with("tf::")) {
    const OpKind* const listed = FindIn(TensorFlowKinds(), kind);
    return listed == nullptr ? &OtherTensorFlowKind() : listed;
  }
  if (kind.starts_with("hlo::")) return FindIn(HloKinds(), kind);
  for (const auto kinds : {AllOpKinds(), TransformerKinds(), ParallelKinds()}) {
    if (const OpKind* const found = FindIn(kinds, kind)) return found;
  }
  return nullptr;
}

double CountedFlop(const OpKind& kind, const Graph& graph, OpId op) {
  return kind.counted_flop != nullptr ? kind.counted_flop(graph, op) : kind.work(graph, op).flop;
}

}  // namespace emplace
