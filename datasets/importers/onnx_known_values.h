#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_KNOWN_VALUES_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_KNOWN_VALUES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "datasets/importers/onnx_protos.h"

namespace emplace::datasets {

// The operands of a node; the types are kept here.
struct KnownOnnxOperands {
  std::deque<OnnxType> types;
  OnnxOperands operands;
};

// Types and contents of values, by name.
class KnownOnnxValues {
 public:
  // In libonnx's form.
  std::unordered_map<std::string, onnx::TypeProto*> types;
  std::unordered_map<std::string, const onnx::TensorProto*> tensors;
  std::unordered_map<std::string, const onnx::SparseTensorProto*> sparse_tensors;
  std::unordered_map<std::string, onnx::TensorShapeProto> propagated;
  // As the rules here want them.
  std::unordered_map<std::string, const OnnxContent*> contents;

  void SetType(const std::string& name, onnx::TypeProto type);
  void SetContent(const std::string& name, OnnxContent content);
  // Both.
  void SetValue(const std::string& name, OnnxContent content);

  // Null if nothing is known.
  const onnx::TypeProto* FindType(const std::string& name) const;
  const OnnxContent* FindContent(const std::string& name) const;
  // The dimensions of a value; none unless all are known.
  std::optional<std::vector<std::int64_t>> FindShape(const std::string& name) const;
  // The type of a value; throws std::runtime_error unless it is whole.
  const onnx::TypeProto& WholeType(const std::string& name) const;
  // The only element of a value that is known.
  std::optional<std::int64_t> FindInteger(const std::string& name) const;
  KnownOnnxOperands OperandsOf(const OnnxNode& node) const;

 private:
  std::deque<onnx::TypeProto> kept_types_;
  std::deque<onnx::TensorProto> kept_tensors_;
  std::deque<OnnxContent> kept_contents_;
};

// The types of values as the file states them.
struct StatedOnnxTypes {
  std::unordered_map<std::string, onnx::TypeProto> types;  // keyed by the value's name
  std::unordered_map<std::string, std::int64_t> symbols;   // dimensions that the user set
  bool is_resized = false;                                 // the user set sizes of inputs, so those stated are others

  // Puts the numbers in place of symbols.
  void Substitute(onnx::TypeProto* type) const;
  // Adds what the file states of a value under the name that the value has now.
  void Add(const onnx::ValueInfoProto& value, const std::string& name);
  void Add(const std::string& name, const onnx::TypeProto& type);
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_KNOWN_VALUES_H_
