#include "datasets/importers/onnx_rule_inputs.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace emplace::datasets::onnx_rule {

void NoShape(const std::string& why) { throw std::runtime_error(why); }

void Expect(bool holds, const char* what) {
  if (!holds) NoShape(what);
}

std::size_t AxisOf(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) NoShape("its axis is not an axis of its input");
  return static_cast<std::size_t>(axis);
}

std::int64_t Times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) NoShape("its shape is too large");
  return product;
}

std::int64_t Plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) NoShape("its shape is too large");
  return sum;
}

std::int64_t Part(std::int64_t whole, std::int64_t heads) {
  Expect(heads > 0 && whole % heads == 0, "its heads do not fit its inputs");
  return whole / heads;
}

bool Inputs::Has(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }

const OnnxType& Inputs::In(std::size_t i) const {
  if (!Has(i) || i >= operands.types.size() || operands.types[i] == nullptr || !operands.types[i]->HasShape()) {
    NoShape("its input has no shape");
  }
  return *operands.types[i];
}

const OnnxContent* Inputs::Content(std::size_t i) const {
  return Has(i) && i < operands.contents.size() ? operands.contents[i] : nullptr;
}

const RuleDims& Inputs::Known(std::size_t i, std::string_view what) const {
  const OnnxContent* const content = Content(i);
  if (content == nullptr || content->is_number()) NoShape(fmt::format("its {} are not constant", what));
  return content->integers;
}

std::optional<RuleDims> Inputs::Given(const std::string& attr, std::size_t input, std::string_view what) const {
  if (node.Find(attr) != nullptr) return node.Integers(attr);
  if (!Has(input)) return std::nullopt;
  return Known(input, what);
}

void Inputs::ExpectRank(std::size_t input, std::size_t rank) const {
  if (Dims(input).size() != rank)
    NoShape(fmt::format("its input {} has {} dimensions and not {}", input, Dims(input).size(), rank));
}

void Outputs::Set(std::size_t output, std::int32_t element, RuleDims dims) {
  if (output < types.size()) types[output] = {.is_tensor = true, .element = element, .dims = std::move(dims)};
}

}  // namespace emplace::datasets::onnx_rule
