#ifndef EMPLACE_DATASETS_IMPORTERS_EXPORT_CALL_H_
#define EMPLACE_DATASETS_IMPORTERS_EXPORT_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/builder.h"
#include "datasets/importers/export_program.h"
#include "sim/base/check.h"

namespace emplace::datasets {

// Where the values of a graph's names are.
class ExportNames {
 public:
  virtual ~ExportNames() = default;
  // The value of a tensor's name. Throws InputError(place) if nothing has written it yet.
  virtual Value ValueOf(std::string_view name, const std::string& place) = 0;
  virtual std::string UniqueName(const std::string& name) = 0;
};

// The error where an argument is missing or of another type than asked for, as overloads of an operator have it.
class OtherArgument : public InputError {
  using InputError::InputError;
};

// One call of an operator: its arguments by their names, and the ops that come of it. Accessors throw OtherArgument
// with the call's place where an argument is of another type than asked for.
class ExportCall {
 public:
  ExportCall(NetworkBuilder& net, ExportNames& names, const ExportGraph& graph, const ExportNode& node,
             std::string place, bool training);

  // The pass and, if the program says no module, the layer of the ops.
  void SetPass(Pass pass) { pass_ = pass; }
  void SetLayer(std::string layer) { layer_ = std::move(layer); }

  NetworkBuilder& net() { return net_; }
  const std::string& place() const { return place_; }
  bool training() const { return training_; }
  const ExportNode& node() const { return node_; }

  // Whether the argument is there, and not None.
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  bool IsTensor(std::string_view name) const;
  Value Tensor(std::string_view name) const;
  std::vector<Value> Tensors(std::string_view name) const;
  const ExportTensor& MetaOf(std::string_view name) const;  // metadata of a tensor in the program
  std::int64_t Integer(std::string_view name, std::int64_t absent) const;
  // The integers of a list. A number counts as a list of one.
  Shape Integers(std::string_view name, Shape absent) const;
  std::optional<double> Number(std::string_view name) const;  // nullopt if it is not there, or no finite number
  bool Flag(std::string_view name, bool absent) const;
  std::string_view Text(std::string_view name) const;  // "" if it is not there
  // An axis of a tensor of that rank, counted from the front. Throws InputError if there is none.
  std::size_t Axis(std::string_view name, std::int64_t absent, std::size_t rank) const;

  const Shape& shape(Value value) const { return net_.shape(value); }
  // Tensors among the results, those in lists included.
  std::size_t num_outputs() const { return outputs_.size(); }
  const ExportTensor& out(std::size_t i = 0) const;
  std::string_view output_name(std::size_t i) const { return outputs_[i]; }

  // Adds an op of the call. Its name is the call's, with /SUFFIX behind it if there is one; dtypes are those of the
  // call's result where none is given.
  std::vector<Value> Emit(std::string_view kind, std::vector<Value> inputs, std::vector<NetworkBuilder::Output> outputs,
                          std::string attrs = {}, std::string_view suffix = {}, double flop = 0);
  // With one output, of the dtype of the call's result.
  Value EmitOne(std::string_view kind, std::vector<Value> inputs, Shape shape, std::string attrs = {},
                std::string_view suffix = {}, double flop = 0);
  // Result i is this value.
  void Set(std::size_t i, Value value) { results_[i] = value; }
  const std::vector<std::optional<Value>>& results() const { return results_; }

  // The call as it is: kind "aten::NAME.OVERLOAD", its arguments in attrs `args` and, by name, `kwargs`.
  void EmitAsItIs(double flop);
  // Ops that the next ops wait for.
  void SetControls(std::vector<std::string> controls) { controls_ = std::move(controls); }
  std::size_t num_emitted() const { return num_emitted_; }

 private:
  const ExportArgument* Find(std::string_view name) const;
  [[noreturn]] void Refuse(std::string_view name, std::string_view allowed) const;
  std::int64_t IntegerIn(const JsonValue& value, std::string_view name) const;

  NetworkBuilder& net_;
  ExportNames& names_;
  const ExportGraph& graph_;
  const ExportNode& node_;
  std::string place_;
  bool training_;
  Pass pass_ = Pass::kForward;
  std::string layer_;
  std::string base_name_;
  std::vector<std::string_view> outputs_;
  std::vector<std::optional<Value>> results_;
  std::vector<std::string> controls_;
  std::size_t num_emitted_ = 0;
};

// "aten::conv2d" of "torch.ops.aten.conv2d.padding"; with_overload: "aten::conv2d.padding". Other targets, such as
// "_operator.add", are left as they are.
std::string ExportKind(std::string_view target, bool with_overload);

// Writes a call as ops of the catalogue. False, and nothing is added, if none describe it.
bool LowerExportCall(ExportCall& call);

// Parts of the table of LowerExportCall(), by the operator's name, overloads and "_" behind it left out.
struct ExportRule {
  std::string_view name;
  bool (*lower)(ExportCall& call);
};
std::span<const ExportRule> ExportProductRules();
std::span<const ExportRule> ExportElementRules();
std::span<const ExportRule> ExportDataRules();
std::span<const ExportRule> ExportRecurrentRules();
std::span<const ExportRule> ExportEinsumRules();

// PyTorch's products: vectors, matrices and batches of them that spread over each other. nullopt if the shapes do not
// fit; ops may have been added then.
std::optional<Value> ExportMatMul(ExportCall& call, Value a, Value b, std::string_view suffix);

// The FLOP of what is left as it is, a multiply-add being 2; only of products, as in TorchScript graphs.
double ExportFlop(const ExportCall& call);

// Whether elements lie one behind another in memory, in the order of their indices.
bool IsContiguous(const ExportTensor& tensor);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_EXPORT_CALL_H_
