// From ATen calls to ops. Part of the library with LibTorch.

#include "profiler/torch/torchscript_recorder_ops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "profiler/torch/torchscript_recorder_args.h"
#include "sim/base/check.h"

namespace emplace::profiler {

struct OpRecorder::Call : at::ObserverContext {
  enum class What { kEntered, kInsideOp, kGradient, kOp };
  What what = What::kEntered;
  const OperatorInfo* info = nullptr;
  std::int64_t node = -1;              // autograd's number of the gradient that this call will have
  std::vector<TensorArray> arguments;  // its tensors in order
  std::vector<OpOutput> inputs;        // producers of the inputs, then those of other writes to them
  std::string attrs;
};

namespace {

std::atomic<OpRecorder*> recording = nullptr;

std::int64_t BytesOf(const ArrayView& view) {
  std::int64_t bytes = view.element_bytes;
  for (const std::int64_t dim : view.shape) bytes *= dim;
  return bytes;
}

// The module of "layer1.0.conv1.weight".
std::string OwnerOf(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

}  // namespace

OpRecorder::OpRecorder() : thread_(std::this_thread::get_id()) {
  recording = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&OnStart, &OnEnd)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OpRecorder::~OpRecorder() {
  at::removeCallback(handle_);
  recording = nullptr;
}

std::vector<OpSpec> OpRecorder::Finish() {
  pass_ = Pass::kNone;
  if (error_) std::rethrow_exception(error_);
  if (other_thread_) throw InputError("", "runs operators in other threads, as torch.jit.fork does (one thread)");
  return std::move(specs_);
}

template <typename Function>
void OpRecorder::Guarded(Function function) {
  if (error_) return;
  try {
    function();
  } catch (...) {
    error_ = std::current_exception();
  }
}

std::unique_ptr<at::ObserverContext> OpRecorder::OnStart(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  OpRecorder* const recorder = recording;
  if (recorder == nullptr) return call;
  if (std::this_thread::get_id() == recorder->thread_) {
    recorder->Start(function, call.get());
  } else {
    recorder->other_thread_ = true;
  }
  return call;
}

void OpRecorder::OnEnd(const at::RecordFunction& function, at::ObserverContext* context) {
  OpRecorder* const recorder = recording;
  if (recorder == nullptr || std::this_thread::get_id() != recorder->thread_) return;
  recorder->End(function, static_cast<Call*>(context));
}

void OpRecorder::Start(const at::RecordFunction& function, Call* call) {
  if (depth_ > 0) {
    call->what = Call::What::kInsideOp;
    return;
  }
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    call->what = Call::What::kGradient;
    nodes_.push_back(function.seqNr());
    return;
  }
  const auto name = function.operator_name();
  if (!name || pass_ == Pass::kNone) return;
  Guarded([&] {
    const OperatorInfo& info = operators_.Of(*name);
    if (info.is_composite) return;
    call->what = Call::What::kOp;
    ++depth_;
    call->info = &info;
    call->node = function.seqNr();
    if (!info.kind.starts_with("aten::")) throw InputError(info.kind, "is not an operator of ATen (aten::NAME)");
    const std::size_t count = info.handle.schema().arguments().size();
    // Called by the interpreter, all of its stack is there, the arguments on top.
    const std::span<const c10::IValue> stack(function.inputs().data(), function.inputs().size());
    ReadArguments(stack.last(count), call);
  });
}

void OpRecorder::End(const at::RecordFunction& function, Call* call) {
  if (call->what == Call::What::kGradient) nodes_.pop_back();
  if (call->what != Call::What::kOp) return;
  --depth_;
  Guarded([&] {
    if (function.outputs().size() < call->info->handle.schema().returns().size()) return;  // it threw
    Emit(call, arrays_.OutputsOf(function, *call->info));
  });
}

void OpRecorder::ReadArguments(std::span<const c10::IValue> arguments, Call* call) {
  std::vector<OpOutput> further;
  call->attrs = ArgumentsText(call->info->kind, call->info->handle.schema(), arguments, [&](const at::Tensor& tensor) {
    const TensorArray array = arrays_.Locate(tensor, call->info->kind);
    auto outputs = versions_.Read(array.storage, array.view);
    if (!outputs) {
      AddVariable(array, call->info->kind);
      outputs = versions_.Read(array.storage, array.view);
    }
    call->arguments.push_back(array);
    call->inputs.push_back(outputs->front());
    further.insert(further.end(), outputs->begin() + 1, outputs->end());
    return call->inputs.size() - 1;
  });
  for (const OpOutput& output : further) {
    if (std::find(call->inputs.begin(), call->inputs.end(), output) == call->inputs.end()) {
      call->inputs.push_back(output);
    }
  }
}

void OpRecorder::Emit(Call* call, const std::vector<TensorArray>& outputs) {
  const auto does_nothing = [&](const TensorArray& output) {
    if (BytesOf(output.view) == 0) return true;
    return !output.is_written &&
           std::any_of(call->arguments.begin(), call->arguments.end(), [&](const TensorArray& array) {
             return array.storage == output.storage && array.view == output.view;
           });
  };
  if (!outputs.empty() && std::all_of(outputs.begin(), outputs.end(), does_nothing)) return;

  const std::string layer = LayerOf(*call);
  std::string name = call->info->short_name;
  if (pass_ == Pass::kBackward && name.find("backward") == std::string::npos) {
    name += name.ends_with('_') ? "backward" : "_backward";
  }
  if (!layer.empty()) name = layer + "/" + name;
  OpSpec spec;
  spec.name = names_.Unique(name);
  spec.kind = call->info->kind;
  spec.attrs = std::move(call->attrs);
  spec.pass = pass_;
  spec.layer = layer;
  for (const OpOutput& input : call->inputs) {
    spec.inputs.push_back(recorded_[input.op].name + ":" + std::to_string(input.output));
  }
  for (const TensorArray& output : outputs) {
    spec.outputs.push_back({.size = std::nullopt, .dtype = output.dtype, .shape = output.view.shape});
  }
  const std::size_t op = specs_.size();
  recorded_.push_back({.name = spec.name, .layer = layer});
  if (pass_ == Pass::kForward && call->node >= 0) op_of_node_[call->node] = op;
  Update(*call, outputs, op, &spec);
  specs_.push_back(std::move(spec));
}

void OpRecorder::Update(const Call& call, const std::vector<TensorArray>& outputs, std::size_t op, OpSpec* spec) {
  std::set<std::size_t> before;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_written) {
      before.merge([&] {
        const auto readers = versions_.Write(outputs[i].storage, outputs[i].view, {op, i});
        return std::set<std::size_t>(readers.begin(), readers.end());
      }());
    } else {
      versions_.Define(outputs[i].storage, outputs[i].view, {op, i});
    }
  }
  for (const OpOutput& input : call.inputs) before.erase(input.op);
  for (const std::size_t reader : before) spec->control_inputs.push_back(recorded_[reader].name);

  // An op that makes a view uses no values; what an op overwrites is no longer there to be used.
  for (const TensorArray& argument : call.arguments) {
    const bool is_shared = std::any_of(outputs.begin(), outputs.end(), [&](const TensorArray& output) {
      return output.storage == argument.storage && (!output.is_written || output.view == argument.view);
    });
    if (!is_shared) versions_.AddReader(argument.storage, argument.view, op);
  }
}

void OpRecorder::NameVariable(const std::string& name, const at::Tensor& tensor) {
  const TensorArray array = arrays_.Locate(tensor, name);
  variables_[array.storage].push_back({.name = name, .view = array.view});
}

void OpRecorder::AddInput(const std::string& name, const at::Tensor& tensor, const std::string& attrs) {
  OpSpec spec;
  spec.name = name;
  spec.kind = "input";
  spec.attrs = attrs;
  AddSource(std::move(spec), arrays_.Locate(tensor, name));
}

void OpRecorder::AddVariable(const TensorArray& array, const std::string& reader) {
  if (versions_.Has(array.storage) && !given_.contains(array.storage)) {
    throw InputError(reader, "reads a view that no operator has made (views by operators of ATen)");
  }
  OpSpec spec;
  spec.kind = "variable";
  spec.persistent = Bytes{BytesOf(array.view)};
  const auto named = variables_.find(array.storage);
  if (named != variables_.end()) {
    for (const Variable& variable : named->second) {
      if (variable.view == array.view && spec.name.empty()) spec.name = variable.name;
    }
    spec.layer = OwnerOf(spec.name);
  }
  if (spec.name.empty()) spec.name = "constant_" + std::to_string(num_constants_++);
  AddSource(std::move(spec), array);
}

void OpRecorder::AddSource(OpSpec spec, const TensorArray& array) {
  spec.name = names_.Unique(spec.name);
  spec.pass = Pass::kForward;
  spec.outputs = {{.size = std::nullopt, .dtype = array.dtype, .shape = array.view.shape}};
  given_.insert(array.storage);
  versions_.Define(array.storage, array.view, {specs_.size(), 0});
  recorded_.push_back({.name = spec.name, .layer = spec.layer});
  specs_.push_back(std::move(spec));
}

std::string OpRecorder::LayerOf(const Call& call) const {
  for (const TensorArray& argument : call.arguments) {
    const auto named = variables_.find(argument.storage);
    if (named == variables_.end()) continue;
    const std::string owner = OwnerOf(named->second.front().name);
    if (!owner.empty()) return owner;
  }
  if (!nodes_.empty()) {
    const auto op = op_of_node_.find(nodes_.back());
    if (op != op_of_node_.end() && !recorded_[op->second].layer.empty()) return recorded_[op->second].layer;
  }
  for (const OpOutput& input : call.inputs) {
    if (!recorded_[input.op].layer.empty()) return recorded_[input.op].layer;
  }
  return "";
}

}  // namespace emplace::profiler
