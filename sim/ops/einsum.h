#ifndef EMPLACE_SIM_OPS_EINSUM_H_
#define EMPLACE_SIM_OPS_EINSUM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emplace {

// An equation such as "b...i, ij -> b...j", one term for each tensor. Source: ONNX's operator Einsum.
struct EinsumTerms {
  std::vector<std::string> inputs;  // at least one
  std::optional<std::string> output;
};
EinsumTerms SplitEinsum(std::string_view equation);

// A dimension's name: a letter; or of "...", any number of dimensions, '\0' and the position from the last one on.
using EinsumLabel = std::pair<char, std::size_t>;

// The names of the dimensions of a tensor; nullopt if its rank or a character does not fit the term.
std::optional<std::vector<EinsumLabel>> EinsumLabels(std::string_view term, std::size_t rank);

// The shape of the output, for inputs of these shapes; a dimension of 1 is broadcast. Without "->" the output has the
// dimensions of "...", and then in alphabetical order the letters that occur once. nullopt if the equation does not
// fit.
std::optional<std::vector<std::int64_t>> EinsumShape(std::string_view equation,
                                                     const std::vector<std::vector<std::int64_t>>& inputs);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_EINSUM_H_
