#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_RULES_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_RULES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "datasets/importers/onnx_model.h"

// Shapes of operators that libonnx has no rule for, or an older one: what ONNX added or changed after opset 17, and
// operators of ONNX Runtime (domain com.microsoft) that exporters write.
namespace emplace::datasets {

// Whether the rule here is to be asked before libonnx's, which is older or coarser.
bool PrefersOnnxRule(const OnnxNode& node);

// The types of the outputs; nullopt if there is no rule for the operator. Throws std::runtime_error with the reason
// why there are none. Source: the operators' pages of ONNX, versions 1 to 24, and ONNX Runtime's page of contributed
// operators.
std::optional<std::vector<OnnxType>> OnnxTypesByRule(const OnnxNode& node, const OnnxOperands& inputs);

// The two products of an attention: queries by keys, and weights by values.
struct OnnxAttentionSizes {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t queries = 0;  // positions
  std::int64_t keys = 0;     // positions, those of the past included
  std::int64_t size = 0;     // width of a query and a key, for each head
  std::int64_t value_size = 0;
};
// nullopt for another operator, and where the node's inputs do not fit it.
std::optional<OnnxAttentionSizes> OnnxAttentionOf(const OnnxNode& node, const OnnxOperands& inputs);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_RULES_H_
