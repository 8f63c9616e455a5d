// Part of the library with LibTorch.

#include "profiler/torch/torchscript_operators.h"

#include <algorithm>

#include "profiler/torch/torchscript_recorder_args.h"
#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

bool IsKnownTo(const c10::OperatorHandle& op, c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); }

template <typename Visit>
void ForEachTensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) ForEachTensor(item, visit);
  }
}

}  // namespace

const OperatorInfo& Operators::Of(const c10::OperatorName& name) {
  std::unique_ptr<OperatorInfo>& info = infos_[name];
  if (info != nullptr) return *info;
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) throw InputError(name.name, "has no schema");
  info = std::make_unique<OperatorInfo>(OperatorInfo{.handle = *handle, .kind = name.name, .short_name = name.name});
  if (!name.overload_name.empty()) info->kind += "." + name.overload_name;
  info->short_name.erase(0, name.name.rfind(':') + 1);
  info->is_composite =
      IsKnownTo(*handle, c10::DispatchKey::CompositeImplicitAutograd) && !IsKnownTo(*handle, c10::DispatchKey::CPU);
  return *info;
}

TensorArray TensorArrays::Locate(const at::Tensor& tensor, const std::string& op) {
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) {
    throw InputError(op, "a tensor is sparse or of a layout of its own (dense ones)");
  }
  TensorArray array;
  array.dtype = DTypeOf(tensor.scalar_type(), op);
  const c10::Storage& storage = tensor.storage();
  const auto [known, is_new] = storages_.try_emplace(storage.unsafeGetStorageImpl(), held_.size());
  if (is_new) held_.push_back(storage.getWeakStorageImpl());
  array.storage = known->second;
  array.view.element_bytes = static_cast<std::int64_t>(tensor.element_size());
  array.view.offset = tensor.storage_offset() * array.view.element_bytes;
  array.view.shape = tensor.sizes().vec();
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {  // no step is made along a dimension of 1
    array.view.strides.push_back(tensor.size(d) == 1 ? 0 : tensor.stride(d) * array.view.element_bytes);
  }
  return array;
}

std::vector<TensorArray> TensorArrays::OutputsOf(const at::RecordFunction& function, const OperatorInfo& info) {
  const std::vector<c10::Argument>& returns = info.handle.schema().returns();
  const auto writes = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  const std::vector<c10::Argument>& arguments = info.handle.schema().arguments();
  if (std::any_of(arguments.begin(), arguments.end(), writes) && std::none_of(returns.begin(), returns.end(), writes)) {
    throw InputError(info.kind, "writes to an argument that it does not return (results are returned)");
  }
  const std::size_t skipped = function.outputs().size() - returns.size();
  std::vector<TensorArray> outputs;
  for (std::size_t i = 0; i < returns.size(); ++i) {
    ForEachTensor(function.outputs()[skipped + i], [&](const at::Tensor& tensor) {
      outputs.push_back(Locate(tensor, info.kind));
      outputs.back().is_written = writes(returns[i]);
    });
  }
  return outputs;
}

std::string OpNames::Unique(const std::string& name) {
  std::string base = name;
  std::replace(base.begin(), base.end(), ':', '_');
  if (base.starts_with('^')) base[0] = '_';
  std::string unique = base;
  for (std::size_t* count = &counts_[base]; !names_.insert(unique).second;) {
    unique = base + "_" + std::to_string(++*count + 1);
  }
  return unique;
}

}  // namespace emplace::profiler
