#ifndef EMPLACE_PROFILER_TORCH_TORCH_DEVICE_H_
#define EMPLACE_PROFILER_TORCH_TORCH_DEVICE_H_

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/hardware.h"

namespace emplace::profiler {

// The base class of all LibTorch devices.

class MemoryWatch;

struct TorchTensor : DeviceTensor {
  explicit TorchTensor(torch::Tensor held) : array(std::move(held)) {}
  torch::Tensor array;
};

inline const torch::Tensor& ArrayOf(const TensorHandle& handle) {
  return static_cast<const TorchTensor&>(*handle).array;
}

// Runs `call`; what LibTorch throws where memory runs out becomes DeviceOutOfMemory.
template <typename Call>
auto Checked(Call call) {
  const auto is_memory = [](std::string_view text) {
    return text.find("out of memory") != std::string_view::npos ||
           text.find("can't allocate memory") != std::string_view::npos ||
           text.find("ALLOC_FAILED") != std::string_view::npos;  // errors of cuBLAS and cuDNN
  };
  try {
    return call();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (is_memory(text)) throw DeviceOutOfMemory(text.substr(0, text.find('\n')));
    throw std::runtime_error("LibTorch: " + text.substr(0, text.find('\n')));
  } catch (const std::bad_alloc&) {
    throw DeviceOutOfMemory("out of memory");
  }
}

// A thread computes alone and keeps no autograd graph. Numbers too small for a float count as 0: they would make ops
// slow that are not.
void ComputeAlone();

class TorchDevice : public HardwareDevice {
 public:
  TorchDevice(std::string name, std::string kind, torch::Device device, std::optional<Bytes> memory)
      : name_(std::move(name)), kind_(std::move(kind)), device_(device), memory_(memory) {}

  const std::string& name() const override { return name_; }
  const std::string& kind() const override { return kind_; }
  bool is_cpu() const override { return device_.is_cpu(); }
  std::optional<Bytes> memory() const override { return memory_; }

  std::unique_ptr<OpKernel> Prepare(const OpRecipe& op) override;

  TensorHandle Make(const TensorSpec& spec, std::uint64_t seed) override;
  TensorHandle From(const TensorSpec& spec, std::span<const double> values) override;
  std::vector<double> Values(const TensorHandle& tensor) override;

  void BeginWatch() override;
  MemoryUse EndWatch() override;

 protected:
  torch::Device device() const { return device_; }

 private:
  std::string name_;
  std::string kind_;
  torch::Device device_;
  std::optional<Bytes> memory_;
  std::shared_ptr<MemoryWatch> watch_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_TORCH_DEVICE_H_
