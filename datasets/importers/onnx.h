#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "datasets/importers/onnx_model.h"
#include "datasets/importers/registry.h"

namespace emplace::datasets {

// The model in a file, with the shapes that libonnx infers. Large weights are skipped, not held. `folder`: where files
// with the content of tensors are; "": nowhere. Throws InputError on files that are not ONNX models, tensors that no
// node writes or two write, and shapes that are not the inputs'.
OnnxModel ReadOnnx(std::istream& in, const std::vector<InputShape>& inputs, const std::string& folder = "");

// Nodes are ops of the catalogue's kinds where it has a counterpart (docs/formats.md has the table), else of kind
// "onnx::NAME". Weights and constants are variables. Throws InputError on cycles, with the ops on them, on inputs with
// free dimensions, and on sizes beyond 62 bits.
Imported MakeOnnxGraph(const OnnxModel& model);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_H_
