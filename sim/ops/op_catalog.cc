#include "sim/ops/op_catalog.h"

#include <algorithm>
#include <vector>

#include "sim/ops/op_catalog_parts.h"

namespace emplace {

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
  const std::span<const OpKind> kinds = kind.starts_with("onnx::") ? OnnxKinds() : AllOpKinds();
  const auto found = std::lower_bound(kinds.begin(), kinds.end(), kind,
                                      [](const OpKind& row, std::string_view name) { return row.name < name; });
  return found == kinds.end() || found->name != kind ? nullptr : &*found;
}

}  // namespace emplace
