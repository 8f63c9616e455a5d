#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "datasets/importers/onnx_model.h"

// The content of tensors of a model, in libonnx's messages and as plain data. Part of the plug-in.
namespace emplace::datasets {

// The number of elements of a tensor; negative if it is not a valid one.
std::int64_t OnnxCountOf(const onnx::TensorProto& tensor);

// The content of a tensor, if it is in the message, as long as its shape says, and no longer than what is followed.
std::optional<OnnxContent> OnnxContentOf(const onnx::TensorProto& tensor);

// The same in libonnx's form; nullopt for types whose content it never reads.
std::optional<onnx::TensorProto> ProtoOf(const OnnxContent& content);

// Tensors of a few integers whose content could not be read, and the file of the first.
struct UnreadOnnxFiles {
  std::size_t tensors = 0;
  std::string file;
};
// Reads the content of small tensors, which may be shapes and conditions, where it is in other files in or below
// `folder` ("": nowhere), at most 16 MiB. A link in the folder is followed: caches of models are made of links.
UnreadOnnxFiles ReadSmallOnnxFiles(const std::string& folder, onnx::ModelProto* model);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_CONTENT_H_
