// Runs a TorchScript module and records what it does. Part of the library with LibTorch.

#include <torch/script.h>
#include <torch/torch.h>
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
  PlainExecution() { at::globalContext().setUserEnabledMkldnn(false); }
  ~PlainExecution() { at::globalContext().setUserEnabledMkldnn(mkldnn_); }
  PlainExecution(const PlainExecution&) = delete;
  PlainExecution& operator=(const PlainExecution&) = delete;

 private:
  bool mkldnn_ = at::globalContext().userEnabledMkldnn();
  torch::jit::GraphOptimizerEnabledGuard optimize_{false};
};

// What an exception of LibTorch says in one line. From inside a module it comes after a traceback of the module's
// source, as "RuntimeError: ...".
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

// The inputs, by the names of forward's arguments.
std::vector<c10::IValue> AddInputs(const torch::jit::Module& module, const TorchScriptOptions& options,
                                   OpRecorder* recorder) {
  const std::vector<c10::Argument>& arguments = module.get_method("forward").function().getSchema().arguments();
  const std::size_t most = arguments.size() - 1;  // the first is the module
  std::size_t least = 0;
  std::string names;
  for (std::size_t i = 1; i <= most; ++i) {
    if (!arguments[i].default_value()) least = i;
    names += (names.empty() ? "" : ", ") + arguments[i].name();
  }
  if (options.inputs.size() < least || options.inputs.size() > most) {
    const std::string expected =
        least == most ? std::to_string(most) : std::to_string(least) + " to " + std::to_string(most);
    throw InputError("", "takes " + expected + (most == 1 ? " input (" : " inputs (") + names + "), got " +
                             std::to_string(options.inputs.size()));
  }
  const at::Generator generator = at::detail::createCPUGenerator(kSeed);
  std::vector<c10::IValue> inputs;
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    const TorchScriptInput& input = options.inputs[i];
    const at::Tensor tensor = MakeInput(input, generator);
    const bool is_integer = c10::isIntegralType(tensor.scalar_type(), false);
    recorder->AddInput(arguments[i + 1].name(), tensor,
                       is_integer ? "{\"bound\":" + std::to_string(input.bound) + "}" : "");
    inputs.emplace_back(tensor);
  }
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
  if (!module.find_method("forward")) throw InputError("", "has no method forward");
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

  std::vector<c10::IValue> inputs = AddInputs(module, options, &recorder);
  recorder.BeginPass(Pass::kForward);
  try {
    const c10::IValue outputs = module.forward(std::move(inputs));
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
