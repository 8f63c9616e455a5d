#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_VALUES_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_VALUES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "datasets/importers/onnx_model.h"

namespace emplace::datasets {

// The largest values whose content is followed through a model, in elements: integers and booleans, which are shapes,
// axes and conditions, and numbers, which are scales.
inline constexpr std::size_t kMostKnownIntegers = 4096;
inline constexpr std::size_t kMostKnownNumbers = 64;

bool IsOnnxInteger(std::int32_t element);  // booleans included
bool IsOnnxNumber(std::int32_t element);   // floating-point types

// The number of elements; nullopt if no tensor has that many.
std::optional<std::int64_t> OnnxElements(const std::vector<std::int64_t>& dims);

// The shape of two shapes that are broadcast to each other; nullopt if they do not fit.
std::optional<std::vector<std::int64_t>> BroadcastOnnx(const std::vector<std::int64_t>& a,
                                                       const std::vector<std::int64_t>& b);

// The content of a node's outputs, as far as it follows from the content and the shapes of its inputs. `outputs`: what
// is known of their types. An empty list if nothing is known.
std::vector<std::optional<OnnxContent>> EvaluateOnnx(const OnnxNode& node, const OnnxOperands& inputs,
                                                     const std::vector<OnnxType>& outputs);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_VALUES_H_
