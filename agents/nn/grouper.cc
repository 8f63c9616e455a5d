#include "agents/nn/grouper.h"

#include <algorithm>

namespace emplace::agents {
namespace {

ParameterSet& WithKinds(ParameterSet& parameters, const GrouperOptions& options) {
  parameters.Add("kinds", options.num_kinds, options.kind_width, false);
  return parameters;
}

}  // namespace

Grouper::Grouper(const GrouperOptions& options)
    : options_(options),
      mlp_(WithKinds(parameters_, options), "grouper",
           {options.kind_width + options.numbers, options.hidden, options.groups},
           /*relu_last=*/false) {
  Pack();
}

void Grouper::Pack() { mlp_.Pack(parameters_.values()); }

const Matrix& Grouper::Forward(std::span<const std::uint32_t> kinds, const Matrix& numbers) {
  const std::size_t width = options_.kind_width;
  inputs_.Reset(kinds.size(), width + options_.numbers);
  for (std::size_t op = 0; op < kinds.size(); ++op) {
    std::copy_n(parameters_.values().data() + kinds[op] * width, width, inputs_.row(op));
    std::copy_n(numbers.row(op), options_.numbers, inputs_.row(op) + width);
  }
  mlp_.Prepare(kinds.size(), /*backward=*/true, &cache_);
  mlp_.Forward(inputs_, 0, kinds.size(), &cache_);
  return cache_.result();
}

void Grouper::Backward(std::span<const std::uint32_t> kinds, const Matrix& d_logits, std::span<float> gradients) {
  for (std::size_t op = 0; op < kinds.size(); ++op) {
    std::copy_n(d_logits.row(op), d_logits.stride(), cache_.result_gradient().row(op));
  }
  d_inputs_.Resize(kinds.size(), inputs_.width());
  mlp_.Backward(0, kinds.size(), &cache_, &d_inputs_);
  mlp_.AddGradients(inputs_, 0, kinds.size(), cache_, gradients);
  for (std::size_t op = 0; op < kinds.size(); ++op) {
    AddScaled(d_inputs_.row(op), 1, options_.kind_width, gradients.data() + kinds[op] * options_.kind_width);
  }
}

}  // namespace emplace::agents
