#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_EXPANDER_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_EXPANDER_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datasets/importers/onnx_protos.h"

namespace emplace::datasets {

constexpr int kDeepestOnnxCall = 32;

// A node that is not a call of the model's own functions.
struct OnnxStep {
  onnx::NodeProto node;
  const OnnxOpsets* opsets;
  int depth = 0;  // calls of functions, and subgraphs that were inlined, around it
};

// The nodes of a model, with calls of its own functions replaced by their bodies.
class OnnxExpander {
 public:
  explicit OnnxExpander(const onnx::ModelProto& model);
  OnnxExpander(const OnnxExpander&) = delete;  // steps point to operator sets
  OnnxExpander& operator=(const OnnxExpander&) = delete;

  // The operator sets of the model itself.
  const OnnxOpsets& opsets() const { return model_opsets_; }
  const std::deque<OnnxStep>& steps() const { return steps_; }

  // `opsets`: kept by the caller.
  void Add(onnx::NodeProto node, const OnnxOpsets& opsets, int depth = 0);
  // A prefix that no other call has, and no other subgraph that is inlined.
  std::string Prefix(const onnx::NodeProto& node);

 private:
  using Attrs = std::unordered_map<std::string, const onnx::AttributeProto*>;

  // Adds the body of `function` in place of a call.
  void AddCall(const onnx::NodeProto& call, const onnx::FunctionProto& function, const OnnxOpsets& opsets, int depth);

  OnnxOpsets model_opsets_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;  // keyed by domain and name
  std::unordered_map<const onnx::FunctionProto*, OnnxOpsets> opsets_;
  std::unordered_map<const onnx::FunctionProto*, Attrs> defaults_;
  std::deque<std::vector<onnx::AttributeProto>> kept_attrs_;
  std::size_t calls_ = 0;
  std::deque<OnnxStep> steps_;
};

// The new names of values, by their old ones.
using OnnxNames = std::unordered_map<std::string, std::string>;
// The new name of a value: `prefix` and the old one, unless `names` has another.
std::string Renamed(const std::string& prefix, const std::string& name, OnnxNames* names);
// The node of a graph that is inlined: its values, and those of its subgraphs, have new names, and so has the node.
onnx::NodeProto RenamedNode(const std::string& prefix, const onnx::NodeProto& node, OnnxNames* names);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_EXPANDER_H_
