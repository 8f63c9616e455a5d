#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_RULE_INPUTS_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_RULE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/onnx_model.h"

// Inputs and outputs of the rules of onnx_rules.h. Where a rule does not apply, these throw std::runtime_error.
namespace emplace::datasets::onnx_rule {

using RuleDims = std::vector<std::int64_t>;

[[noreturn]] void NoShape(const std::string& why);
void Expect(bool holds, const char* what);
std::size_t AxisOf(std::int64_t axis, std::size_t rank);
// Products and sums of dimensions.
std::int64_t Times(std::int64_t a, std::int64_t b);
std::int64_t Plus(std::int64_t a, std::int64_t b);
// A dimension that heads or blocks share.
std::int64_t Part(std::int64_t whole, std::int64_t heads);

struct Inputs {
  const OnnxNode& node;
  const OnnxOperands& operands;

  // Whether the node has the input and does not leave it out.
  bool Has(std::size_t i) const;
  const OnnxType& In(std::size_t i) const;
  const RuleDims& Dims(std::size_t i) const { return *In(i).dims; }
  const RuleDims* DimsOrNone(std::size_t i) const { return Has(i) ? &Dims(i) : nullptr; }
  std::int32_t ElementOf(std::size_t i) const { return In(i).element; }
  // Null if it is not known.
  const OnnxContent* Content(std::size_t i) const;
  // The integers of an input that is known. `what`: their name in the refusal.
  const RuleDims& Known(std::size_t i, std::string_view what) const;
  // An attribute that became an input in a later opset; nothing if neither is there.
  std::optional<RuleDims> Given(const std::string& attr, std::size_t input, std::string_view what) const;
  void ExpectRank(std::size_t input, std::size_t rank) const;
};

struct Outputs {
  std::vector<OnnxType> types;  // one for each output of the node, at least one

  // An output that the node does not have is left out.
  void Set(std::size_t output, std::int32_t element, RuleDims dims);
};

// Rules of attentions, which onnx_rules.cc has in its table.
void AttentionRule(const Inputs& in, Outputs* out);
void FusedAttentionRule(const Inputs& in, Outputs* out);
void MultiHeadAttentionRule(const Inputs& in, Outputs* out);
void GroupQueryAttentionRule(const Inputs& in, Outputs* out);
void LinearAttentionRule(const Inputs& in, Outputs* out);

}  // namespace emplace::datasets::onnx_rule

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_RULE_INPUTS_H_
