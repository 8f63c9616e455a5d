#include "profiler/torch/torch_device.h"

#include <ATen/EmptyTensor.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>

#include "profiler/torch/op_runner.h"
#include "sim/base/check.h"

namespace emplace::profiler {

// Counts the memory that LibTorch allocates and frees in one thread.
class MemoryWatch : public c10::MemoryReportingInfoBase {
 public:
  explicit MemoryWatch(torch::Device device) : device_(device) {}
#if TORCH_VERSION_MAJOR >= 2
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device device) override {
    Count(size, device);
  }
  void reportOutOfMemory(std::int64_t, std::size_t, std::size_t, c10::Device) override {}
#else
  void reportMemoryUsage(void*, std::int64_t size, std::int64_t, std::int64_t, c10::Device device) override {
    Count(size, device);
  }
  void reportOutOfMemory(std::int64_t, std::int64_t, std::int64_t, c10::Device) override {}
#endif
  bool memoryProfilingEnabled() const override { return true; }
  MemoryUse use() const { return use_; }

 private:
  void Count(std::int64_t size, c10::Device device) {
    if (device.type() != device_.type()) return;
    use_.kept += Bytes{size};
    use_.peak = std::max(use_.peak, use_.kept);
  }
  torch::Device device_;
  MemoryUse use_;
};

namespace {

using Array = torch::Tensor;  // a Tensor of ours is something else

c10::ScalarType TypeOf(const TensorSpec& spec) {
  switch (spec.dtype) {
    case DType::kBool:
      return c10::kBool;
    case DType::kI8:
      return c10::kChar;
    case DType::kU8:
      return c10::kByte;
    case DType::kI16:
      return c10::kShort;
    case DType::kF16:
      return c10::kHalf;
    case DType::kBf16:
      return c10::kBFloat16;
    case DType::kI32:
      return c10::kInt;
    case DType::kF32:
      return c10::kFloat;
    case DType::kI64:
      return c10::kLong;
    case DType::kF64:
      return c10::kDouble;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU4:
    case DType::kI4:
      throw InputError("a tensor", "is of f8e4m3, f8e5m2, u4 or i4, which cannot be run");
    case DType::kNone:
      break;
  }
  throw InputError("a tensor", "has no dtype");
}

class Kernel : public OpKernel {
 public:
  explicit Kernel(std::unique_ptr<TorchOp> op) : op_(std::move(op)) {}
  void Run(std::span<const TensorHandle> inputs, std::vector<TensorHandle>* outputs) override {
    inputs_.clear();
    outputs_.clear();
    for (const TensorHandle& input : inputs) inputs_.push_back(ArrayOf(input));
    Checked([&] { op_->Run(inputs_, &outputs_); });
    outputs->clear();
    for (Array& output : outputs_) outputs->push_back(std::make_shared<TorchTensor>(std::move(output)));
    inputs_.clear();  // they may be freed now
  }

 private:
  std::unique_ptr<TorchOp> op_;
  std::vector<Array> inputs_;
  std::vector<Array> outputs_;
};

}  // namespace

void ComputeAlone() {
  at::set_num_threads(1);
  c10::AutogradState::get_tls_state().set_grad_mode(false);
  at::globalContext().setFlushDenormal(true);
}

std::unique_ptr<OpKernel> TorchDevice::Prepare(const OpRecipe& op) {
  const torch::NoGradGuard no_gradients;
  return Checked([&] { return std::make_unique<Kernel>(MakeTorchOp(op, device_)); });
}

TensorHandle TorchDevice::Make(const TensorSpec& spec, std::uint64_t seed) {
  const torch::NoGradGuard no_gradients;
  return Checked([&] {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto type = TypeOf(spec);
    Array array;
    if (type == c10::kBool) {
      array = torch::empty(spec.shape, torch::kFloat).uniform_(0, 1, generator).gt(0.5);
    } else if (type == c10::kByte || type == c10::kChar) {  // large ones are made for links: in place
      const std::int64_t bound = std::clamp<std::int64_t>(spec.index_bound, 1, type == c10::kByte ? 256 : 128);
      array = torch::empty(spec.shape, type).random_(0, bound, generator);
    } else if (c10::isIntegralType(type, false) && spec.shape.empty()) {
      array = torch::ones(spec.shape, type);  // a size, in a traced module, by which others may be divided
    } else if (c10::isIntegralType(type, false)) {
      const std::int64_t bound = std::max<std::int64_t>(spec.index_bound, 1);
      array = torch::empty(spec.shape, torch::kLong).random_(0, bound, generator).to(type);
    } else {
      array = torch::empty(spec.shape, torch::kFloat).uniform_(0.1, 1, generator).to(type);
    }
    return std::make_shared<TorchTensor>(array.to(device_));
  });
}

TensorHandle TorchDevice::From(const TensorSpec& spec, std::span<const double> values) {
  return Checked([&] {
    const Array flat = torch::tensor(c10::ArrayRef<double>(values.data(), values.size()), torch::kDouble);
    return std::make_shared<TorchTensor>(flat.view(spec.shape).to(TypeOf(spec)).to(device_));
  });
}

std::vector<double> TorchDevice::Values(const TensorHandle& tensor) {
  return Checked([&] {
    const Array flat = ArrayOf(tensor).to(torch::kCPU).to(torch::kDouble).contiguous().view({-1});
    return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  });
}

void TorchDevice::BeginWatch() {
  watch_ = std::make_shared<MemoryWatch>(device_);
  guard_ = std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, watch_);
}

MemoryUse TorchDevice::EndWatch() {
  EMPLACE_CHECK(watch_ != nullptr);
  guard_.reset();
  return std::exchange(watch_, nullptr)->use();
}

}  // namespace emplace::profiler
