#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_PROTOS_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_PROTOS_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/importers/onnx_model.h"

// ONNX models as libonnx's messages and as plain data. Part of the plug-in.
namespace emplace::datasets {

constexpr int kDeepestOnnxGraph = 32;

// A refusal, for OnnxParsed::problem.
struct OnnxRefusal {
  std::string problem;
};
[[noreturn]] void RefuseOnnx(std::string problem);

// A type in libonnx's messages and as plain data.
OnnxType TypeOf(const onnx::TypeProto& type);
onnx::TypeProto ProtoOf(std::int32_t element, const std::vector<std::int64_t>& dims);
onnx::TypeProto ProtoOf(const OnnxType& type);

// Merges two sources about a value: `better` where it is complete, supplemented by the other one.
onnx::TypeProto Merged(const onnx::TypeProto& better, const onnx::TypeProto& other);

// The domain of ONNX itself is "" and "ai.onnx".
const std::string& DomainOf(const std::string& domain);

// Versions of operator sets, by domain.
using OnnxOpsets = std::unordered_map<std::string, int>;

double BytesOf(const onnx::TensorProto& tensor);

// The content of subgraphs, and the outer values that they read.
struct OnnxSubgraphs {
  std::vector<std::string> names;
  double bytes = 0;
  std::size_t nodes = 0;
};
OnnxSubgraphs SubgraphsOf(const onnx::NodeProto& node);
// The same for one graph.
OnnxSubgraphs ContentsOf(const onnx::GraphProto& graph);
// A subgraph of a node, by its attribute; null if there is none.
const onnx::GraphProto* GraphOf(const onnx::NodeProto& node, std::string_view name);

OnnxNode PlainNode(const onnx::NodeProto& node, const OnnxOpsets& opsets);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_PROTOS_H_
