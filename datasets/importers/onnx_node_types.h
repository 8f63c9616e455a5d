#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_NODE_TYPES_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_NODE_TYPES_H_

#include <string>

#include "datasets/importers/onnx_expander.h"
#include "datasets/importers/onnx_known_values.h"

namespace emplace::datasets {

// Types that the file states and that contradict what is inferred.
struct OnnxContradictions {
  std::size_t count = 0;
  std::string first;  // see OnnxModel
};

// Infers the types of a node's outputs, and their content where it follows without running the model. Where that fails,
// the node says why.
void InferOutputs(const OnnxStep& step, const StatedOnnxTypes& stated, OnnxNode* node, KnownOnnxValues* values,
                  OnnxContradictions* contradictions);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_NODE_TYPES_H_
