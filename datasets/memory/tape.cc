#include "datasets/memory/tape.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {

Tape::Tensor Tape::New(std::string_view label, std::int64_t bytes, MemoryClass memory_class) {
  tensors_.push_back({.storage = program_->Allocate(label, bytes, memory_class), .bytes = bytes});
  return static_cast<Tensor>(tensors_.size() - 1);
}

Tape::Tensor Tape::View(Tensor tensor) {
  const Tensor view = Alias(tensor);
  Record({.label = "view", .output = view, .inputs = {tensor}, .passes_gradient = true});
  return view;
}

Tape::Tensor Tape::Alias(Tensor tensor) {
  program_->Retain(tensors_[tensor].storage);
  tensors_.push_back({.storage = tensors_[tensor].storage,
                      .bytes = tensors_[tensor].bytes,
                      .is_made_again = tensors_[tensor].is_made_again,
                      .is_moved = tensors_[tensor].is_moved,
                      .needs_gradient = tensors_[tensor].needs_gradient});
  return static_cast<Tensor>(tensors_.size() - 1);
}

void Tape::Record(Operation operation) {
  if (!records) return;
  const auto needs_gradient = [&](Tensor input) { return tensors_[input].needs_gradient; };
  if (!trains_all && !operation.is_trained && std::ranges::none_of(operation.inputs, needs_gradient)) {
    tensors_[operation.output].needs_gradient = false;
    return;
  }
  tensors_[operation.output].needs_gradient = true;
  Node node{.operation = std::move(operation), .kept = {}};
  for (const Tensor tensor : node.operation.saved) {
    if (tensors_[tensor].is_made_again) {
      node.operation.backward_bytes.push_back(tensors_[tensor].bytes);
      if (tensors_[tensor].is_moved) moved_bytes_ += tensors_[tensor].bytes;
      continue;
    }
    node.kept.push_back(tensors_[tensor].storage);
    program_->Retain(node.kept.back());
  }
  nodes_.push_back(std::move(node));
}

Tape::Tensor Tape::Checkpoint(std::string_view label, const std::vector<Tensor>& inputs, const Forward& forward,
                              std::int64_t saved_bytes) {
  if (!records) return forward(*this, inputs);
  const Tensor state = saved_bytes > 0 ? New(label, saved_bytes) : inputs[0];
  records = false;
  std::vector<Tensor> inside;
  inside.reserve(inputs.size());
  for (const Tensor input : inputs) inside.push_back(Alias(input));
  const Tensor output = forward(*this, inside);
  records = true;
  for (const Tensor input : inside) Drop(input);
  std::vector<Tensor> saved = inputs;
  saved.push_back(state);
  // The inputs that frozen weights return are made to need a gradient, without which nothing would be run again.
  Record({.label = label, .output = output, .inputs = inputs, .saved = std::move(saved), .is_trained = true});
  nodes_.back().recompute = forward;
  if (state != inputs[0]) Drop(state);
  return output;
}

RankProgram::Buffer Tape::TakeGradient(Tensor tensor) {
  TensorInfo& info = tensors_[tensor];
  if (!info.has_gradient) return program_->Allocate("no gradient", 0, MemoryClass::kTemporary);
  info.has_gradient = false;
  return info.gradient;
}

void Tape::AddGradient(Tensor tensor, RankProgram::Buffer gradient) {
  TensorInfo& info = tensors_[tensor];
  if (!info.has_gradient) {
    info.gradient = gradient;
    info.has_gradient = true;
    return;
  }
  // The sum goes into the gradient that has one owner, else into a buffer of its own.
  RankProgram::Buffer sum = info.gradient;
  if (program_->entry(info.gradient).owners > 1) {
    sum = program_->Allocate("sum of gradients", program_->entry(gradient).bytes, MemoryClass::kTemporary);
    program_->Release(info.gradient);
  }
  program_->Release(gradient);
  info.gradient = sum;
}

void Tape::RunBackward(const Node& node) {
  const Operation& operation = node.operation;
  const RankProgram::Buffer given = TakeGradient(operation.output);
  std::vector<RankProgram::Buffer> temporary;
  for (const std::int64_t bytes : operation.backward_bytes) {
    temporary.push_back(program_->Allocate("buffers of backward", bytes, MemoryClass::kTemporary));
  }
  std::vector<RankProgram::Buffer> gradients;
  const auto needs_gradient = [&](Tensor input) { return tensors_[input].needs_gradient; };
  for (const Tensor input : operation.inputs) {
    if (!needs_gradient(input)) continue;
    if (operation.passes_gradient) {
      program_->Retain(given);
      gradients.push_back(given);
      continue;
    }
    if (operation.reuses_saved && !node.kept.empty()) {
      program_->Retain(node.kept.front());
      gradients.push_back(node.kept.front());
      continue;
    }
    gradients.push_back(program_->Allocate("gradients of activations", tensors_[input].bytes, MemoryClass::kTemporary));
  }
  const RankProgram::Buffer of_weight =
      program_->Allocate("gradient of a weight", operation.weight_gradient_bytes, MemoryClass::kTemporary);
  for (const RankProgram::Buffer buffer : temporary) program_->Release(buffer);
  program_->Release(given);
  for (const RankProgram::Buffer buffer : node.kept) program_->Release(buffer);
  auto gradient = gradients.begin();
  for (const Tensor input : operation.inputs) {
    if (needs_gradient(input)) AddGradient(input, *gradient++);
  }
  program_->Release(of_weight);
}

void Tape::RunRecomputed(const Node& node) {
  const Operation& operation = node.operation;
  Tape inner(program_);
  inner.trains_all = trains_all;
  std::vector<Tensor> inputs;
  for (const Tensor input : operation.inputs) {
    const RankProgram::Buffer storage = tensors_[input].storage;
    program_->Retain(storage);
    inputs.push_back(static_cast<Tensor>(inner.tensors_.size()));
    inner.tensors_.push_back({.storage = storage, .bytes = tensors_[input].bytes});
  }
  const Tensor output = node.recompute(inner, inputs);
  inner.tensors_[output].gradient = TakeGradient(operation.output);
  inner.tensors_[output].has_gradient = true;
  std::vector<RankProgram::Buffer> gradients = {inner.Backward(output, inputs[0], -1)};
  for (std::size_t i = 1; i < inputs.size(); ++i) gradients.push_back(inner.TakeGradient(inputs[i]));
  inner.Drop(output);
  for (const Tensor input : inputs) inner.Drop(input);
  for (const RankProgram::Buffer buffer : node.kept) program_->Release(buffer);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (tensors_[operation.inputs[i]].needs_gradient) {
      AddGradient(operation.inputs[i], gradients[i]);
    } else {
      program_->Release(gradients[i]);
    }
  }
}

RankProgram::Buffer Tape::Backward(Tensor output, Tensor input, std::int64_t gradient_bytes) {
  if (!tensors_[output].needs_gradient) return TakeGradient(output);
  if (!tensors_[output].has_gradient) {
    const std::int64_t bytes = gradient_bytes > 0 ? gradient_bytes : tensors_[output].bytes;
    tensors_[output].gradient = program_->Allocate("gradients of activations", bytes, MemoryClass::kTemporary);
    tensors_[output].has_gradient = true;
  }
  while (!nodes_.empty()) {
    const Node node = std::move(nodes_.back());
    nodes_.pop_back();
    node.recompute ? RunRecomputed(node) : RunBackward(node);
  }
  return TakeGradient(input);
}

}  // namespace emplace::datasets
