// Exports of the LibTorch library, and code shared by its networks.

#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agents/nn/torch/makers.h"
#include "agents/nn/torch_plugin.h"
#include "sim/base/blas.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

double MatrixProduct(int size) {
  OpenTorchDevice("cpu");
  const torch::NoGradGuard no_gradients;
  const torch::Tensor a = torch::ones({size, size});
  const torch::Tensor b = torch::ones({size, size});
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const torch::Tensor product = torch::mm(a, b);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2e-9 * size * size * size / seconds);
  }
  return best;
}

torch::Tensor Whole(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  // LibTorch has no read-only tensors; this one is never written.
  return torch::from_blob(const_cast<float*>(values), {rows, columns}, {stride, 1}, torch::kFloat32);
}

}  // namespace

torch::Device OpenTorchDevice(const std::string& device) {
  at::set_num_threads(1);
  UseOneBlasThread();
  KeepFreedTensors();
  if (device == "cuda" && !torch::cuda::is_available()) {
    throw InputError("torch device", "is \"cuda\", and LibTorch finds no CUDA device (cpu)");
  }
  return torch::Device(device == "cuda" ? torch::kCUDA : torch::kCPU);
}

void TorchWeights::Refresh() {
  for (const Parameter& parameter : parameters_.parameters()) {
    torch::Tensor weight =
        Whole(parameters_.values().data() + parameter.offset, static_cast<std::int64_t>(parameter.rows),
              static_cast<std::int64_t>(parameter.columns), static_cast<std::int64_t>(parameter.columns));
    weight = weight.to(device_).detach();
    weight.set_requires_grad(true);
    tensors_.insert_or_assign(parameter.name, weight);
  }
}

void TorchWeights::AddGradients(std::span<float> gradients) const {
  for (const Parameter& parameter : parameters_.parameters()) {
    const torch::Tensor& weight = tensors_.at(parameter.name);
    if (!weight.grad().defined()) continue;  // a part that was not used
    const torch::Tensor gradient = weight.grad().to(torch::kCPU).contiguous();
    AddScaled(gradient.data_ptr<float>(), 1, parameter.size(), gradients.data() + parameter.offset);
  }
}

const Matrix& TorchLogits::Keep(torch::Tensor logits, bool backward) {
  FromTorch(logits, &values_);
  logits_ = backward ? std::move(logits) : torch::Tensor();
  return values_;
}

void TorchLogits::Backward(const Matrix& d_logits, const TorchWeights& weights, std::span<float> gradients) {
  logits_.backward(ToTorch(d_logits, logits_.device()));
  weights.AddGradients(gradients);
  logits_.reset();
}

torch::Tensor ToTorch(const Matrix& matrix, torch::Device device) {
  return Whole(matrix.row(0), static_cast<std::int64_t>(matrix.rows()), static_cast<std::int64_t>(matrix.width()),
               static_cast<std::int64_t>(matrix.stride()))
      .to(device);
}

void FromTorch(const torch::Tensor& tensor, Matrix* matrix) {
  const torch::Tensor dense = tensor.detach().to(torch::kCPU).contiguous();
  matrix->Reset(static_cast<std::size_t>(dense.size(0)), static_cast<std::size_t>(dense.size(1)));
  for (std::size_t row = 0; row < matrix->rows(); ++row) {
    std::copy_n(dense.data_ptr<float>() + row * matrix->width(), matrix->width(), matrix->row(row));
  }
}

}  // namespace emplace::agents

extern "C" __attribute__((visibility("default"))) const emplace::agents::TorchExports emplace_torch_part;
const emplace::agents::TorchExports emplace_torch_part = {
    .check_device = [](const std::string& device) { emplace::agents::OpenTorchDevice(device); },
    .make = emplace::agents::MakeTorchAutograd,
    .matrix_product_gflops = emplace::agents::MatrixProduct,
    .make_sequence = emplace::agents::MakeTorchSequence,
    .make_graph_transformer = emplace::agents::MakeTorchGraphTransformer};
