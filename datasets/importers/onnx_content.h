#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "datasets/importers/onnx_model.h"

// The content of tensors of a model, in libonnx's messages and as plain data. Part of the plug-in.
namespace emplace::datasets {

// Elements of a tensor; negative if that is no number of elements.
std::int64_t OnnxCountOf(const onnx::TensorProto& tensor);

// The content of a tensor, if it is in the message, as long as its shape says, and no longer than what is followed.
std::optional<OnnxContent> OnnxContentOf(const onnx::TensorProto& tensor);

// The same as libonnx wants it; nullopt for types whose content it never looks at.
std::optional<onnx::TensorProto> ProtoOf(const OnnxContent& content);

// Reads the content of small initializers, which are shapes and conditions, where it is in other files in or below
// `folder`. Returns the files of integers that could not be read, and of how many tensors.
std::map<std::string, std::size_t> ReadSmallOnnxFiles(const std::string& folder, onnx::GraphProto* graph);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_
