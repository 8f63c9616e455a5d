#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_INFERENCE_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_INFERENCE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "datasets/importers/onnx_expander.h"
#include "datasets/importers/onnx_known_values.h"
#include "datasets/importers/onnx_node_types.h"

namespace emplace::datasets {

// The values to which the names in a model refer.
struct OnnxValueNames {
  std::unordered_set<std::string> initializers;
  std::unordered_set<std::string> inputs;
  std::unordered_set<std::string> read;                  // values that something reads
  std::unordered_map<std::string, std::size_t> writers;  // the node that writes a value
};

// The nodes of a model, one for each step of the expander, and the nodes that take the place of others.
struct OnnxNodes {
  std::deque<OnnxNode> nodes;
  std::size_t num_own = 0;                      // nodes of the file itself, which come first
  std::vector<std::vector<std::size_t>> parts;  // the nodes in the place of a node that is replaced
  std::unordered_set<std::size_t> replaced;
  std::unordered_set<std::size_t> guessed;  // nodes that are replaced, though it is not known by what
  std::size_t unrolled_bytes = 0;           // size of the messages of subgraphs that were inlined
};

// The inference of shapes over a whole model. Subgraphs are inlined on the way: what runs in them depends on values.
struct OnnxInference {
  explicit OnnxInference(const onnx::ModelProto& proto) : expander(proto) {}

  OnnxExpander expander;
  OnnxValueNames names;
  StatedOnnxTypes stated;
  KnownOnnxValues values;
  OnnxNodes nodes;
  std::unordered_map<std::string, std::vector<std::string>> sequences;  // the tensors of a list
  std::vector<OnnxTensor> initializers;
  std::vector<std::string> guesses;  // see OnnxModel
  OnnxContradictions contradictions;
};

// Adds the initializers of the model, or of a subgraph that is inlined, whose names are changed then.
void AddInitializers(const onnx::GraphProto& graph, const OnnxNames* renamed, OnnxInference* inference);
// Adds the nodes of the expander that are not there yet, and infers the types of what they write.
void AddAndInferNodes(OnnxInference* inference);

// Replaces node `i` by what runs in its subgraphs, or by what takes tensors from a list that is known. Returns whether
// that could be done.
bool InlineNode(std::size_t i, OnnxInference* inference);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_INFERENCE_H_
