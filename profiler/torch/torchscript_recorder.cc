// Runs a TorchScript module and records what it does. Part of the library with LibTorch.

#include <torch/script.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>
#include <utility>

#include "profiler/torch/torchscript_recorder_ops.h"
#include "profiler/torch_plugin.h"
#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

constexpr std::uint64_t kSeed = 1;

// Warnings that scripts print are of no use here.
class Silence : public c10::WarningHandler {
 public:
#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning&) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
#else
  void process(const c10::SourceLocation&, const std::string&, bool) override {}

 private:
  c10::Warning::WarningHandlerGuard guard_{this};
#endif
};

// The interpreter runs operator by operator, and kernels are those that every CPU has. As before when it ends.
class PlainExecution {
 public:
  PlainExecution() {
    at::globalContext().setUserEnabledMkldnn(false);
#if TORCH_VERSION_MAJOR >= 2
    // Fused attention of a CPU is an operator that CUDA devices lack.
    at::globalContext().setSDPUseFlash(false);
    at::globalContext().setSDPUseMemEfficient(false);
#endif
  }
  ~PlainExecution() {
    at::globalContext().setUserEnabledMkldnn(mkldnn_);
#if TORCH_VERSION_MAJOR >= 2
    at::globalContext().setSDPUseFlash(flash_);
    at::globalContext().setSDPUseMemEfficient(memory_efficient_);
#endif
  }
  PlainExecution(const PlainExecution&) = delete;
  PlainExecution& operator=(const PlainExecution&) = delete;

 private:
  bool mkldnn_ = at::globalContext().userEnabledMkldnn();
#if TORCH_VERSION_MAJOR >= 2
  bool flash_ = at::globalContext().userEnabledFlashSDP();
  bool memory_efficient_ = at::globalContext().userEnabledMemEfficientSDP();
#endif
  torch::jit::GraphOptimizerEnabledGuard optimize_{false};
};

// The message of a LibTorch exception in one line, the first that is not empty. From inside a module it comes after a
// traceback of the module's source, as "RuntimeError: ...".
std::string FirstLine(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string_view text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  if (text.starts_with("The following operation failed in the TorchScript interpreter")) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      const std::size_t colon = line.find(": ");
      const auto is_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
      if (colon == std::string_view::npos || colon == 0) continue;
      if (!std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), is_name)) continue;
      text = text.substr(static_cast<std::size_t>(line.data() - text.data()) + colon + 2);
      break;
    }
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  return std::string(text.substr(0, text.find('\n')));
}

torch::jit::Module Load(const std::string& file) {
  if (!std::ifstream(file).is_open()) throw InputError("", "cannot be read (a file that torch.jit.save has written)");
  try {
    return torch::jit::load(file, torch::kCPU);
  } catch (const std::exception& error) {
    throw InputError("", "is not a TorchScript module (" + FirstLine(error) + ")");
  }
}

c10::ScalarType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return c10::kBool;
    case DType::kI32:
      return c10::kInt;
    case DType::kI64:
      return c10::kLong;
    case DType::kF64:
      return c10::kDouble;
    default:
      return c10::kFloat;
  }
}

at::Tensor MakeInput(const TorchScriptInput& input, at::Generator generator) {
  const c10::ScalarType type = TypeOf(input.dtype);
  if (type == c10::kBool) return torch::empty(input.shape, torch::kFloat).uniform_(0, 1, generator).gt(0.5);
  if (c10::isIntegralType(type, false)) {
    return torch::empty(input.shape, torch::kLong).random_(0, input.bound, generator).to(type);
  }
  return torch::empty(input.shape, torch::kFloat).normal_(0, 1, generator).to(type);
}

// The method by which a module is called. Scripted modules whose `forward` has several signatures, as nn.LSTM's (for
// tensors and for packed sequences), have it under numbers, the first being that for tensors.
torch::jit::Method ForwardOf(const torch::jit::Module& module) {
  for (const char* const name : {"forward", "forward__0"}) {
    if (const auto method = module.find_method(name)) return *method;
  }
  throw InputError("", "has no method forward");
}

// An argument of forward: a tensor, or a tuple of them and of tuples, each of which takes an input.
std::size_t NumTensors(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return NumTensors(optional->getElementType());
  const auto tuple = type->cast<c10::TupleType>();
  if (tuple == nullptr) return 1;
  std::size_t count = 0;
  for (const c10::TypePtr& element : tuple->elements()) count += NumTensors(element);
  return count;
}

c10::IValue TakeArgument(const c10::TypePtr& type, std::vector<at::Tensor>::const_iterator* next) {
  if (const auto optional = type->cast<c10::OptionalType>()) return TakeArgument(optional->getElementType(), next);
  const auto tuple = type->cast<c10::TupleType>();
  if (tuple == nullptr) return *(*next)++;
  std::vector<c10::IValue> elements;
  for (const c10::TypePtr& element : tuple->elements()) elements.push_back(TakeArgument(element, next));
  return c10::ivalue::Tuple::create(std::move(elements));
}

// The inputs, by the names of forward's arguments; those of a tuple with numbers.
std::vector<c10::IValue> AddInputs(const torch::jit::Method& forward, const TorchScriptOptions& options,
                                   OpRecorder* recorder) {
  const std::vector<c10::Argument>& arguments = forward.function().getSchema().arguments();
  std::size_t least = 0;
  std::string expected_names;
  std::vector<std::string> names;                       // names of tensors
  std::vector<std::size_t> ends;                        // tensors up to each argument
  for (std::size_t i = 1; i < arguments.size(); ++i) {  // the first is the module
    const std::size_t tensors = NumTensors(arguments[i].type());
    expected_names += (expected_names.empty() ? "" : ", ") + arguments[i].name();
    if (tensors != 1) expected_names += ": " + std::to_string(tensors);
    for (std::size_t k = 0; k < tensors; ++k) {
      names.push_back(arguments[i].name() + (tensors == 1 ? "" : "_" + std::to_string(k)));
    }
    ends.push_back(names.size());
    if (!arguments[i].default_value()) least = names.size();
  }
  const std::size_t given = options.inputs.size();
  if (given < least || (given != 0 && std::find(ends.begin(), ends.end(), given) == ends.end())) {
    const std::string expected =
        least == names.size() ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(names.size());
    throw InputError("", "takes " + expected + (names.size() == 1 ? " input (" : " inputs (") + expected_names +
                             "), got " + std::to_string(given));
  }
  const at::Generator generator = at::detail::createCPUGenerator(kSeed);
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < given; ++i) {
    const TorchScriptInput& input = options.inputs[i];
    tensors.push_back(MakeInput(input, generator));
    const bool is_integer = c10::isIntegralType(tensors.back().scalar_type(), false);
    recorder->AddInput(names[i], tensors.back(), is_integer ? "{\"bound\":" + std::to_string(input.bound) + "}" : "");
  }
  std::vector<c10::IValue> inputs;
  auto next = tensors.cbegin();
  for (std::size_t i = 1; next != tensors.cend(); ++i) inputs.push_back(TakeArgument(arguments[i].type(), &next));
  return inputs;
}

// Batch norm, dropout and auxiliary heads as they are in training, or not. A frozen module has no say in this.
void SetTraining(const torch::jit::Module& module, bool training) {
  for (const torch::jit::Module& part : module.modules()) {
    if (part.hasattr("training")) torch::jit::Module(part).setattr("training", training);
  }
}

void CollectFloats(const c10::IValue& value, std::vector<at::Tensor>* floats) {
  if (value.isTensor()) {
    if (value.toTensor().defined() && value.toTensor().is_floating_point()) floats->push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) CollectFloats(item, floats);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) CollectFloats(item, floats);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) CollectFloats(entry.value(), floats);
  }
}

void Backward(const c10::IValue& outputs, OpRecorder* recorder) {
  std::vector<at::Tensor> floats;
  CollectFloats(outputs, &floats);
  at::Tensor loss;
  for (const at::Tensor& output : floats) loss = loss.defined() ? loss + output.sum() : output.sum();
  if (!loss.defined() || !loss.requires_grad()) {
    throw InputError("", "none of its outputs depends on a parameter that can be trained (no backward pass)");
  }
  recorder->BeginPass(Pass::kBackward);
  loss.backward();
}

std::vector<OpSpec> Record(const TorchScriptOptions& options) {
  const Silence silence;
  const PlainExecution plain;
  torch::jit::Module module = Load(options.file);
  torch::jit::Method forward = ForwardOf(module);
  SetTraining(module, options.backward);
  const at::AutoGradMode gradients(options.backward);
  torch::manual_seed(kSeed);

  OpRecorder recorder;
  bool can_train = false;
  for (const auto& parameter : module.named_parameters()) {
    recorder.NameVariable(parameter.name, parameter.value);
    can_train = can_train || parameter.value.requires_grad();
  }
  if (options.backward && !can_train) throw InputError("", "has no parameter that can be trained (no backward pass)");
  for (const auto& buffer : module.named_buffers()) recorder.NameVariable(buffer.name, buffer.value);

  std::vector<c10::IValue> inputs = AddInputs(forward, options, &recorder);
  recorder.BeginPass(Pass::kForward);
  try {
    const c10::IValue outputs = forward(std::move(inputs));
    if (options.backward) Backward(outputs, &recorder);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    throw InputError("", "cannot be run with these inputs (" + FirstLine(error) + ")");
  }
  return recorder.Finish();
}

}  // namespace

std::vector<OpSpec> RecordTorchScript(const TorchScriptOptions& options) {
  try {
    return Record(options);
  } catch (const InputError& error) {
    throw error.In(options.file);
  }
}

}  // namespace emplace::profiler
