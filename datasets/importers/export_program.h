#ifndef EMPLACE_DATASETS_IMPORTERS_EXPORT_PROGRAM_H_
#define EMPLACE_DATASETS_IMPORTERS_EXPORT_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/builder.h"
#include "datasets/importers/registry.h"
#include "datasets/importers/size_expression.h"
#include "sim/base/json_value.h"

// A program of torch.export as plain data, its sizes being numbers.
// Source: the data classes of PyTorch's module torch._export.serde.schema, version 8.2, as PyTorch 2.6 writes them.
namespace emplace::datasets {

struct ExportTensor {
  DType dtype = DType::kNone;
  Shape shape;
  Shape strides;  // in elements; empty if the file has others than the shape has dimensions
  bool requires_grad = false;
};

// A value of schema class Argument: {"as_int": 3} has tag "as_int" and value 3.
struct ExportArgument {
  std::string_view name;  // the operator's parameter; "" for results
  std::string_view tag;
  const JsonValue* value = nullptr;
};

struct ExportNode {
  std::string_view target;  // "torch.ops.aten.conv2d.default"
  std::vector<ExportArgument> inputs;
  std::vector<ExportArgument> outputs;
  std::string layer;  // the path of the module that called it, such as "layer1.0.conv1"; "" for the outermost
};

struct ExportGraph {
  std::vector<ExportArgument> inputs;
  std::vector<ExportArgument> outputs;
  std::vector<ExportNode> nodes;
  std::unordered_map<std::string_view, ExportTensor> tensors;   // keyed by name
  std::unordered_map<std::string_view, std::int64_t> integers;  // sizes by name; those without a value are left out
};

struct ExportInput {
  enum class Role { kUser, kParameter, kBuffer, kConstant };
  Role role = Role::kUser;
  std::string_view name;  // in the graph
  std::string_view path;  // parameters, buffers and constants have one: "layer1.0.conv1.weight"
};

// A result that is the gradient of a parameter or of an input.
struct ExportGradient {
  std::string_view name;  // in the graph
  std::string_view path;  // of the parameter; "" for the gradient of an input
};

struct ExportProgram {
  std::unique_ptr<JsonValue> document;  // owns the data of the views
  std::string entry;                    // the archive's entry, for errors
  ExportGraph graph;
  std::vector<ExportInput> inputs;        // tensors; numbers, texts and objects are left out
  std::vector<std::string_view> outputs;  // tensors that the user gets, in their order
  std::vector<ExportGradient> gradients;  // of a program with its backward pass; others have none
  std::vector<std::string_view> mutated;  // what buffers and inputs hold afterwards
  SizeSymbols symbols;                    // all that have a value
  std::vector<std::string> hinted;        // symbols that kept the value of the exported example
  std::vector<std::string> bounded;       // sizes that depend on data, at the largest that the program says
};

// Reads serialized_exported_program.json (PyTorch 2.1 to 2.6), or the JSON in folder `models` (2.7 and newer), of an
// archive. `inputs` are "NAME=8x3x224x224" for user inputs; their sizes set the symbols, others keep the value of the
// example that was exported. Throws InputError that does not name the file.
ExportProgram ReadExportProgram(const ImportSource& source, std::span<const std::string> inputs);

// A graph inside of an argument (of a higher-order operator). Views point into `document`.
ExportGraph ReadExportSubgraph(const ExportProgram& program, const JsonValue& graph, const std::string& place);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_EXPORT_PROGRAM_H_
