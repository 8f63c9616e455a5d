// LibTorch's part of hardware.h, in a library of its own: CPU cores and accelerators.

#include <ATen/EmptyTensor.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/cuda_driver.h"
#include "profiler/measure/disturbance.h"
#include "profiler/torch/accelerator.h"
#include "profiler/torch/op_runner.h"
#include "profiler/torch/torch_device.h"
#include "profiler/torch_plugin.h"
#include "sim/base/blas.h"
#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

using Array = torch::Tensor;  // a Tensor of ours is something else

constexpr std::string_view kCoreKind = "cpu-core";

class CpuCore : public TorchDevice {
 public:
  CpuCore(std::string name, int core, std::optional<Bytes> memory)
      : TorchDevice(std::move(name), std::string(kCoreKind), torch::kCPU, memory), core_(core) {}

  void Attach() override {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core_), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    ComputeAlone();
  }
  void AttachCopier() override { Attach(); }
  std::optional<int> core() const override { return core_; }
  void Touch(const TensorHandle& tensor) override {
    constexpr std::size_t kCacheLine = 64;
    const Array& array = ArrayOf(tensor);
    const auto* const bytes = static_cast<const volatile char*>(array.data_ptr());
    // An expanded tensor has fewer bytes than its elements take, a slice of columns lies in more.
    const std::size_t extent = at::detail::computeStorageNbytes(array.sizes(), array.strides(), array.itemsize());
    for (std::size_t i = 0; i < extent; i += kCacheLine) static_cast<void>(bytes[i]);
  }
  std::optional<double> ProbeMicros() override { return CoreProbeMicros(); }
  void Synchronize() override {}
  std::shared_ptr<DeviceEvent> Record() override { return nullptr; }

  TensorHandle Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) override;

 private:
  int core_;
};

TensorHandle CpuCore::Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) {
  return Checked([&] {
    const Array& array = ArrayOf(tensor);
    if (!source.is_cpu()) {
      return std::make_shared<TorchTensor>(static_cast<Accelerator&>(source).ToCpu(array, ready));
    }
    return std::make_shared<TorchTensor>(array.clone(c10::MemoryFormat::Contiguous));
  });
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

// The N of "cpu:N", if it is one.
std::optional<std::size_t> NumberOf(std::string_view name, std::string_view type) {
  if (!name.starts_with(type)) return std::nullopt;
  name.remove_prefix(type.size());
  if (name.empty() || name.size() > 4 ||
      !std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return std::nullopt;
  }
  return std::stoul(std::string(name));
}

// The N of "cuda:N", if there is such a device. Throws InputError.
int CudaNumber(const std::string& name) {
  const auto index = NumberOf(name, "cuda:");
  if (!index) throw InputError(name, "is not a device (cpu:N or cuda:N)");
  const std::size_t count = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  if (*index >= count) throw InputError(name, "LibTorch finds " + std::to_string(count) + " CUDA devices");
  return static_cast<int>(*index);
}

class Backend : public HardwareBackend {
 public:
  Backend() {
    // Large tensors reuse memory instead of pages that the kernel maps and clears each time: with the defaults of
    // glibc, an op of a few MB takes sometimes 1 ms and sometimes 5.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    mallopt(M_TOP_PAD, 64 << 20);
    UseOneBlasThread();
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
      for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores_.push_back(core);
      }
    }
  }

  std::unique_ptr<HardwareDevice> Open(const std::string& name) override {
    if (const auto core = NumberOf(name, "cpu:")) {
      CheckCore(name, *core);
      const auto bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
      return std::make_unique<CpuCore>(name, cores_[*core], Bytes{bytes / static_cast<std::int64_t>(cores_.size())});
    }
    if (const auto number = NumberOf(name, "privateuseone:")) return OpenPrivate(name, *number);
    const int number = CudaNumber(name);
    const CudaDriver& driver = ThisCudaDriver();
    return std::make_unique<Accelerator>(name, CudaKind(driver.DeviceName(number)),
                                         torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(number)),
                                         driver.FreeMemory(number), driver.PciBusId(number));
  }

  std::string KindOf(const std::string& name) override {
    if (const auto core = NumberOf(name, "cpu:")) {
      CheckCore(name, *core);
      return std::string(kCoreKind);
    }
    if (NumberOf(name, "privateuseone:")) return Open(name)->kind();
    return CudaKind(ThisCudaDriver().DeviceName(CudaNumber(name)));
  }

  std::map<std::string, std::string> Describe() const override {
    std::map<std::string, std::string> host = {{"cpu", CpuModel()}, {"torch", TORCH_VERSION}};
    if (torch::cuda::is_available()) {
      host["driver"] = ThisCudaDriver().Version();
      host["cuda"] = std::to_string(at::detail::getCUDAHooks().versionCUDART());
      host["gpu"] = ThisCudaDriver().DeviceName(0);
    }
    return host;
  }

  std::vector<std::string> Kinds() const override { return TorchOpKinds(); }

 private:
  void CheckCore(const std::string& name, std::size_t core) const {
    if (core < cores_.size()) return;
    throw InputError(name, "there are " + std::to_string(cores_.size()) +
                               " cores (cpu:0 to cpu:" + std::to_string(cores_.size() - 1) + ")");
  }

  static std::unique_ptr<HardwareDevice> OpenPrivate(const std::string& name, std::size_t number) {
    constexpr auto kType = c10::DeviceType::PrivateUse1;
    const std::size_t count = c10::impl::hasDeviceGuardImpl(kType)
                                  ? static_cast<std::size_t>(c10::impl::VirtualGuardImpl(kType).deviceCount())
                                  : 0;
    if (number >= count) throw InputError(name, "LibTorch finds " + std::to_string(count) + " such devices");
    return std::make_unique<Accelerator>(name, "privateuseone",
                                         torch::Device(kType, static_cast<c10::DeviceIndex>(number)), std::nullopt, "");
  }

  std::vector<int> cores_;
};

HardwareBackend* Hardware() {
  static auto* const backend = new Backend;  // stays for good, as LibTorch does
  return backend;
}

}  // namespace
}  // namespace emplace::profiler

extern "C" __attribute__((visibility("default"))) const emplace::profiler::TorchHardwareExports emplace_torch_hardware;
const emplace::profiler::TorchHardwareExports emplace_torch_hardware = {emplace::profiler::Hardware,
                                                                        emplace::profiler::RecordTorchScript};
