#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_MODEL_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datasets/importers/input_shape.h"

// An ONNX model as plain data: what passes between the program and the plug-in that links libonnx.
namespace emplace::datasets {

// Numbers of TensorProto.DataType in onnx.proto that are looked at by name.
enum : std::int32_t {
  kOnnxUnknown = 0,
  kOnnxFloat = 1,
  kOnnxInt32 = 6,
  kOnnxInt64 = 7,
  kOnnxString = 8,
  kOnnxBool = 9
};

struct OnnxType {
  bool is_tensor = true;                          // else a sequence, map or optional: of no known size
  std::int32_t element = kOnnxUnknown;            // TensorProto.DataType
  std::optional<std::vector<std::int64_t>> dims;  // kFree: not known; none: not even the rank is known
  static constexpr std::int64_t kFree = -1;
  // Whether all dimensions are known.
  bool HasShape() const;
  // Whether the type of the elements is known too.
  bool IsWhole() const;
};

// A value that is known without running the model: a shape, an axis, a condition, a scale.
struct OnnxContent {
  std::int32_t element = kOnnxUnknown;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> integers;  // elements of integer types and booleans
  std::vector<double> numbers;         // elements of floating-point types

  bool is_number() const { return integers.empty() && !numbers.empty(); }
  std::size_t size() const { return is_number() ? numbers.size() : integers.size(); }
  double at(std::size_t i) const { return is_number() ? numbers[i] : static_cast<double>(integers[i]); }
};

// Known data about a node's inputs, in their order; null: nothing, or the input is left out.
struct OnnxOperands {
  std::vector<const OnnxType*> types;
  std::vector<const OnnxContent*> contents;
};

// Weights, or a constant.
struct OnnxTensor {
  std::string name;
  std::int32_t element = kOnnxUnknown;
  std::vector<std::int64_t> dims;
  std::optional<double> bytes;  // only a sparse one has these; else they follow from element and dims
};

struct OnnxAttr {
  std::string name;
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::vector<OnnxContent> tensors;  // those whose content is known
  bool is_list = false;
};

struct OnnxNode {
  std::string name;
  std::string op;
  std::string domain;               // "": of ONNX itself
  std::int64_t opset = 0;           // the version of `domain` that the model imports
  std::vector<std::string> inputs;  // "": left out
  std::vector<std::string> outputs;
  std::vector<std::string> captured;  // values of the outside that its subgraphs read
  std::vector<OnnxAttr> attrs;        // numbers, texts and small tensors; subgraphs are left out
  double subgraph_bytes = 0;          // size of the weights that its subgraphs hold
  std::size_t subgraph_nodes = 0;
  bool is_guess = false;  // whether it runs is not known (OnnxModel::guesses)
  std::string failure;    // why shape inference failed; "" if it did not

  const OnnxAttr* Find(const std::string& attr) const;
  std::int64_t Integer(const std::string& attr, std::int64_t absent) const;
  std::vector<std::int64_t> Integers(const std::string& attr) const;  // empty if absent
  double Number(const std::string& attr, double absent) const;
  std::string Text(const std::string& attr, const std::string& absent) const;
};

struct OnnxModel {
  std::string producer;
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // opset of ONNX itself
  std::string graph_name;
  struct Input {
    std::string name;
    OnnxType type;
    std::vector<std::string> symbols;  // indexed by dimension: the name of a free one, "" of others
  };
  std::vector<Input> inputs;  // without those that are initializers
  std::vector<OnnxTensor> initializers;
  // In the order of the file. Calls of the model's functions are expanded, and If, Loop and Scan where it is known what
  // runs.
  std::vector<OnnxNode> nodes;
  // Types of what nodes write, as inferred or as the file says.
  std::map<std::string, OnnxType> types;
  // Values that are known: a few integers, of initializers, constants, and what follows from shapes.
  std::map<std::string, std::vector<std::int64_t>> constants;
  std::set<std::string> known;  // names of these, and of the few numbers that are known
  // Facts that are only known when the model runs, and the assumptions made instead: "If \"NAME\": then", "Loop
  // \"NAME\": 8 iterations".
  std::vector<std::string> guesses;
  // Values of which the file states another shape than is inferred. The inferred one was taken. The first as "NAME":
  // [1,2], not [1,3].
  std::size_t contradictions = 0;
  std::string first_contradiction;
  // Tensors of a few integers, which may be shapes, whose content is in files that could not be read; one of the files.
  std::size_t unread = 0;
  std::string unread_file;
  std::vector<std::string> outputs;
};

// The interface of the plug-in.
struct OnnxParsed {
  OnnxModel model;
  std::string problem;  // not "": the model is refused, with this line
};
struct OnnxExports {
  // `bytes`: a ModelProto, of which CondensedOnnx() left out the weights, or its text. `folder`: where files that it
  // names are; "": nowhere.
  OnnxParsed (*parse)(const std::string& bytes, bool is_text, const std::vector<InputShape>& inputs,
                      const std::string& folder);
  std::int64_t (*newest_opset)();
};
inline constexpr const char* kOnnxName = "emplace_onnx_part";

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_MODEL_H_
