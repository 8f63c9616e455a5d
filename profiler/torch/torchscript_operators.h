#ifndef EMPLACE_PROFILER_TORCH_TORCHSCRIPT_OPERATORS_H_
#define EMPLACE_PROFILER_TORCH_TORCHSCRIPT_OPERATORS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/script.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/storage_versions.h"
#include "sim/graph.h"

namespace emplace::profiler {

// Known properties of an operator.
struct OperatorInfo {
  c10::OperatorHandle handle;
  std::string kind;        // "aten::add.Tensor"
  std::string short_name;  // "add"
  bool is_composite = false;
};

class Operators {
 public:
  // Throws InputError if the operator has no schema.
  const OperatorInfo& Of(const c10::OperatorName& name);

 private:
  std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorInfo>> infos_;
};

// A tensor that a call takes or returns.
struct TensorArray {
  DType dtype = DType::kNone;
  StorageVersions::StorageId storage = 0;
  ArrayView view;
  bool is_written = false;
};

// Numbers the memory of tensors.
class TensorArrays {
 public:
  // Throws InputError, its place `op`, on a tensor that is not dense.
  TensorArray Locate(const at::Tensor& tensor, const std::string& op);
  // The results of a call, and which of them it writes in place.
  std::vector<TensorArray> OutputsOf(const at::RecordFunction& function, const OperatorInfo& info);

 private:
  std::unordered_map<c10::StorageImpl*, StorageVersions::StorageId> storages_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> held_;  // indexed by StorageId; the memory itself may be freed
};

// Names of ops: they hold no ':' and begin with no '^'.
class OpNames {
 public:
  // `name`, with a number behind it if it was given already.
  std::string Unique(const std::string& name);

 private:
  std::set<std::string> names_;
  std::map<std::string, std::size_t> counts_;  // number of look-ups of each
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_TORCHSCRIPT_OPERATORS_H_
