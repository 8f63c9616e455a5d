#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_FILE_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_FILE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/importers/tensorflow.pb.h"

namespace emplace::datasets {

// A graph of TensorFlow as its file has it.
struct TensorFlowFile {
  std::string form;     // GraphDef, MetaGraphDef or SavedModel
  std::string version;  // of TensorFlow; "": the file does not say
  tensorflow::GraphDef graph;
  std::vector<std::string> results;  // that its signatures name, "NODE:OUTPUT"; a SavedModel has some
  std::unordered_map<std::string, tensorflow::OpDef> ops;  // definitions that the file holds, by name
};

// Whether the start of a file is that of a GraphDef, MetaGraphDef or SavedModel, also in protobuf's text format.
bool LooksLikeTensorFlow(std::string_view head);

// Reads a GraphDef, a MetaGraphDef, or the first MetaGraphDef of a SavedModel, binary or text. Throws InputError that
// does not name the file, with the line of a fault where the file is text.
TensorFlowFile ReadTensorFlowFile(const std::string& content);

// Reads a RunMetadata, binary or text. Throws InputError as above, also where it has no times.
tensorflow::RunMetadata ReadRunMetadata(const std::string& content);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_FILE_H_
