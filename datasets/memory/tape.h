#ifndef EMPLACE_DATASETS_MEMORY_TAPE_H_
#define EMPLACE_DATASETS_MEMORY_TAPE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "datasets/memory/rank_program.h"

namespace emplace::datasets {

// The tensors of one forward pass of a rank, and what autograd does with them: an operation keeps what its backward
// pass needs, and the backward pass allocates gradients and frees what was kept.
class Tape {
 public:
  using Tensor = std::uint32_t;

  explicit Tape(RankProgram* program) : program_(program) {}

  // A new tensor, which the Python code holds until Drop.
  Tensor New(std::string_view label, std::int64_t bytes, MemoryClass memory_class = MemoryClass::kActivations);
  // Another tensor with the same storage, whose gradient is that of `tensor` too.
  Tensor View(Tensor tensor);
  // The same, with a gradient of its own.
  Tensor Alias(Tensor tensor);
  // Operations from here on keep nothing of the tensor, but make it again in their backward pass.
  void MakeAgain(Tensor tensor) { tensors_[tensor].is_made_again = true; }
  // Operations from here on keep the tensor outside of the device until their backward pass.
  void MoveAway(Tensor tensor) { tensors_[tensor].is_moved = tensors_[tensor].is_made_again = true; }
  std::int64_t moved_bytes() const { return moved_bytes_; }
  void Drop(Tensor tensor) { program_->Release(tensors_[tensor].storage); }
  RankProgram& program() { return *program_; }
  std::int64_t bytes(Tensor tensor) const { return tensors_[tensor].bytes; }

  struct Operation {
    std::string_view label;
    Tensor output = 0;
    std::vector<Tensor> inputs = {};                // those with gradients
    std::vector<Tensor> saved = {};                 // kept for the backward pass
    std::vector<std::int64_t> backward_bytes = {};  // temporary buffers of the backward pass, all at once
    std::int64_t weight_gradient_bytes = 0;         // a gradient that is added to the buffer of gradients, and freed
    // The gradients of inputs share the storage of the output's: additions, views, kernels that work in place.
    bool passes_gradient = false;
    // The gradient of the input takes the place of the first tensor that was kept.
    bool reuses_saved = false;
    bool is_trained = false;  // has weights that are trained, where trains_all is false
  };
  void Record(Operation operation);

  // Runs `forward`, keeps only its inputs, and runs it again in the backward pass, on another tape. `saved_bytes`: what
  // is kept of the first input (0: all of it).
  using Forward = std::function<Tensor(Tape&, const std::vector<Tensor>& inputs)>;
  Tensor Checkpoint(std::string_view label, const std::vector<Tensor>& inputs, const Forward& forward,
                    std::int64_t saved_bytes);

  // The backward pass from the gradient of `output`, which takes `gradient_bytes` (0: its tensor's). Returns the
  // storage of the gradient of `input`, which the caller releases; a buffer of no bytes if it has none.
  RankProgram::Buffer Backward(Tensor output, Tensor input, std::int64_t gradient_bytes);
  // The same of another input, after the backward pass.
  RankProgram::Buffer TakeGradient(Tensor tensor);

  // While false, operations keep nothing.
  bool records = true;
  // Every operation has weights that are trained. Where not, autograd leaves out, from the inputs on, the operations
  // below those whose weights are trained: they keep nothing, and have no backward pass.
  bool trains_all = true;

 private:
  struct TensorInfo {
    RankProgram::Buffer storage = 0;
    std::int64_t bytes = 0;
    RankProgram::Buffer gradient = 0;
    bool has_gradient = false;
    bool is_made_again = false;
    bool is_moved = false;
    bool needs_gradient = true;
  };
  struct Node {
    Operation operation;
    std::vector<RankProgram::Buffer> kept;
    Forward recompute = nullptr;
  };

  void AddGradient(Tensor tensor, RankProgram::Buffer gradient);
  void RunBackward(const Node& node);
  void RunRecomputed(const Node& node);

  RankProgram* program_;
  std::vector<TensorInfo> tensors_;
  std::vector<Node> nodes_;
  std::int64_t moved_bytes_ = 0;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_TAPE_H_
