#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_KINDS_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_KINDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datasets/importers/onnx_model.h"

namespace emplace::datasets {

// The known types of the values of a model, and the content of some of them.
struct OnnxValues {
  std::unordered_map<std::string, OnnxType> types;
  const std::map<std::string, std::vector<std::int64_t>>* constants = nullptr;

  const OnnxType* Find(const std::string& name) const;
  const std::vector<std::int64_t>* Constant(const std::string& name) const;
};

// One op of a graph that a node becomes. Tensors are named by values of the model, or by names of PlanOnnxNode for
// what passes between its ops.
struct OnnxPlannedOp {
  std::string suffix;  // appended to the node's name; "": the main op of the node
  std::string kind;
  std::vector<std::string> inputs;
  std::vector<std::string> waits;  // values that are not read, but must be there: shapes that are computed
  std::vector<std::pair<std::string, OnnxType>> outputs;
  std::string attrs;
};

// The kind of a node that the op catalogue has no counterpart for: "onnx::NAME", or "DOMAIN::NAME".
std::string OnnxKind(const OnnxNode& node);

// The ops of the catalogue that a node becomes: docs/formats.md has the table. Empty where the catalogue has no
// counterpart, or where the node's tensors have no shapes. Whether shapes and attributes fit is for the catalogue to
// say.
std::vector<OnnxPlannedOp> PlanOnnxNode(const OnnxNode& node, const OnnxValues& values);

// The node as one op of kind OnnxKind(), its attributes as they are.
OnnxPlannedOp PlanAsItIs(const OnnxNode& node, const OnnxValues& values);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_KINDS_H_
