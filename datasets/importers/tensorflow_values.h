#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_VALUES_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/tensorflow_file.h"

namespace emplace::datasets {

// A tensor's type as far as it is known. References count as what they refer to.
struct TfType {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  std::optional<std::vector<std::int64_t>> dims;  // kFree: not known; none: not even the rank is known
  static constexpr std::int64_t kFree = -1;

  bool HasShape() const;  // whether all dimensions are known
  double Elements() const;
};

// Elements that are known without running the graph: shapes, axes, counters, conditions.
struct TfContent {
  std::vector<std::int64_t> integers;  // of integer types and booleans
  std::vector<double> numbers;         // of floating-point types
  bool is_real = false;

  std::size_t size() const { return is_real ? numbers.size() : integers.size(); }
  double at(std::size_t i) const { return is_real ? numbers[i] : static_cast<double>(integers[i]); }
};

constexpr std::size_t kMostTfContent = 1024;  // elements that are kept

// A value while a graph is traced.
struct TfValue {
  TfType type;
  std::int32_t op = kNoOp;                           // the op that computes it
  std::int32_t output = 0;                           // and which of its outputs it is
  std::shared_ptr<const TfContent> content;          // null: not known
  std::shared_ptr<const std::vector<TfValue>> list;  // the elements of a list of tensors
  std::int32_t variable = -1;                        // a handle of this variable
  std::int32_t array = -1;                           // a handle of this TensorArray or stack
  bool is_dead = false;                              // of the branch that is not taken
  static constexpr std::int32_t kNoOp = -1;
};

// An attribute of a node; null if it has none of that name.
const tensorflow::AttrValue* FindTfAttr(const tensorflow::NodeDef& node, const std::string& name);
std::int64_t TfInteger(const tensorflow::NodeDef& node, const std::string& name, std::int64_t absent);
bool TfFlag(const tensorflow::NodeDef& node, const std::string& name);
std::string TfText(const tensorflow::NodeDef& node, const std::string& name);
std::vector<std::int64_t> TfIntegers(const tensorflow::NodeDef& node, const std::string& name);
tensorflow::DataType TfDataType(const tensorflow::NodeDef& node, const std::string& name);

std::optional<std::vector<std::int64_t>> TfDims(const tensorflow::TensorShapeProto& shape);
tensorflow::DataType WithoutReference(tensorflow::DataType type);
bool IsRealTfType(tensorflow::DataType type);
bool IsIntegerTfType(tensorflow::DataType type);  // also booleans

// The elements of a tensor of the file, where they are few; null if not, or if it has others than its shape says.
std::shared_ptr<const TfContent> ContentOfTensor(const tensorflow::TensorProto& tensor, const TfType& type);

// The types of a node's outputs, as far as they follow from its inputs. Source: the shape functions of
// tensorflow/core/ops, whose rules they follow. Throws InputError(node) where shapes contradict the operator.
std::vector<TfType> InferTfTypes(const tensorflow::NodeDef& node, std::span<const TfValue> inputs);

// The elements of a node's outputs where all that matters of its inputs is known; nullptr for the others. `types`: of
// the outputs.
std::vector<std::shared_ptr<const TfContent>> FoldTf(const tensorflow::NodeDef& node, std::span<const TfValue> inputs,
                                                     std::span<const TfType> types);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_VALUES_H_
