#ifndef EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_OPS_H_
#define EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_OPS_H_

#include <torch/script.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "profiler/storage_versions.h"
#include "profiler/torch/torchscript_operators.h"
#include "sim/graph.h"

namespace emplace::profiler {

// Turns the ATen calls of this thread into OpSpecs while it lives: one at a time.
class OpRecorder {
 public:
  OpRecorder();
  ~OpRecorder();
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;

  // A parameter or buffer by its dotted name: a `variable` op when an op first reads it.
  void NameVariable(const std::string& name, const at::Tensor& tensor);
  void AddInput(const std::string& name, const at::Tensor& tensor, const std::string& attrs);
  // All later calls belong to this pass. Nothing is recorded before the first call of this function.
  void BeginPass(Pass pass) { pass_ = pass; }

  // Returns the recorded ops. Throws the InputError of a call that has no counterpart here.
  std::vector<OpSpec> Finish();

 private:
  struct Call;  // a call on its way
  struct Recorded {
    std::string name;
    std::string layer;
  };
  struct Variable {
    std::string name;
    ArrayView view;
  };

  static std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& function);
  static void OnEnd(const at::RecordFunction& function, at::ObserverContext* context);
  // Keeps the first error: LibTorch swallows what callbacks throw.
  template <typename Function>
  void Guarded(Function function);

  void Start(const at::RecordFunction& function, Call* call);
  void End(const at::RecordFunction& function, Call* call);
  void ReadArguments(std::span<const c10::IValue> arguments, Call* call);
  void Emit(Call* call, const std::vector<TensorArray>& outputs);
  // Memory as it is after the op: what it wrote, made and read. Adds who comes before it to `spec`.
  void Update(const Call& call, const std::vector<TensorArray>& outputs, std::size_t op, OpSpec* spec);

  // Adds an op without inputs, which is there from the beginning.
  void AddSource(OpSpec spec, const TensorArray& array);
  void AddVariable(const TensorArray& array, const std::string& reader);
  std::string LayerOf(const Call& call) const;

  std::thread::id thread_;
  std::atomic<bool> other_thread_ = false;
  Pass pass_ = Pass::kNone;
  at::CallbackHandle handle_ = 0;
  std::exception_ptr error_;
  std::vector<OpSpec> specs_;
  std::vector<Recorded> recorded_;  // indexed by spec
  StorageVersions versions_;
  TensorArrays arrays_;
  std::map<StorageVersions::StorageId, std::vector<Variable>> variables_;
  std::set<StorageVersions::StorageId> given_;  // there before the first op
  Operators operators_;
  OpNames names_;
  std::size_t num_constants_ = 0;
  std::map<std::int64_t, std::size_t> op_of_node_;  // autograd's number of a gradient -> the op that it differentiates
  std::vector<std::int64_t> nodes_;                 // autograd's numbers of the gradients that run now
  int depth_ = 0;                                   // depth of nested calls inside an op
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_OPS_H_
