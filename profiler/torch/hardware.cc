// LibTorch's part of hardware.h, in a library of its own: CPU cores and CUDA devices.

#include <ATen/EmptyTensor.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/cuda_driver.h"
#include "profiler/measure/disturbance.h"
#include "profiler/torch/op_runner.h"
#include "profiler/torch_plugin.h"
#include "sim/base/blas.h"
#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

using Array = torch::Tensor;  // a Tensor of ours is something else

struct TorchTensor : DeviceTensor {
  explicit TorchTensor(Array held) : array(std::move(held)) {}
  Array array;
};

const Array& ArrayOf(const TensorHandle& handle) { return static_cast<const TorchTensor&>(*handle).array; }

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
    case DType::kNone:
      break;
  }
  throw InputError("a tensor", "has no dtype");
}

// Runs `call`; what LibTorch throws where memory runs out becomes DeviceOutOfMemory.
template <typename Call>
auto Checked(Call call) {
  const auto is_memory = [](std::string_view text) {
    return text.find("out of memory") != std::string_view::npos ||
           text.find("can't allocate memory") != std::string_view::npos ||
           text.find("ALLOC_FAILED") != std::string_view::npos;  // of cuBLAS and cuDNN
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

// What LibTorch allocates and frees in one thread.
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

class TorchDevice : public HardwareDevice {
 public:
  TorchDevice(std::string name, std::string kind, torch::Device device, std::optional<Bytes> memory)
      : name_(std::move(name)), kind_(std::move(kind)), device_(device), memory_(memory) {}

  const std::string& name() const override { return name_; }
  const std::string& kind() const override { return kind_; }
  bool is_cpu() const override { return device_.is_cpu(); }
  std::optional<Bytes> memory() const override { return memory_; }

  std::unique_ptr<OpKernel> Prepare(const OpRecipe& op) override {
    const torch::NoGradGuard no_gradients;
    return Checked([&] { return std::make_unique<Kernel>(MakeTorchOp(op, device_)); });
  }

  TensorHandle Make(const TensorSpec& spec, std::uint64_t seed) override {
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

  TensorHandle From(const TensorSpec& spec, std::span<const double> values) override {
    return Checked([&] {
      const Array flat = torch::tensor(c10::ArrayRef<double>(values.data(), values.size()), torch::kDouble);
      return std::make_shared<TorchTensor>(flat.view(spec.shape).to(TypeOf(spec)).to(device_));
    });
  }

  std::vector<double> Values(const TensorHandle& tensor) override {
    return Checked([&] {
      const Array flat = ArrayOf(tensor).to(torch::kCPU).to(torch::kDouble).contiguous().view({-1});
      return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
    });
  }

  void BeginWatch() override {
    watch_ = std::make_shared<MemoryWatch>(device_);
    guard_ = std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, watch_);
  }
  MemoryUse EndWatch() override {
    EMPLACE_CHECK(watch_ != nullptr);
    guard_.reset();
    return std::exchange(watch_, nullptr)->use();
  }

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

// A thread computes alone and keeps no autograd graph. Numbers too small for a float count as 0: they would make ops
// slow that are not.
void ComputeAlone() {
  at::set_num_threads(1);
  c10::AutogradState::get_tls_state().set_grad_mode(false);
  at::globalContext().setFlushDenormal(true);
}

class CpuCore : public TorchDevice {
 public:
  CpuCore(std::string name, int core, std::optional<Bytes> memory)
      : TorchDevice(std::move(name), "cpu-core", torch::kCPU, memory), core_(core) {}

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

struct StreamEvent : DeviceEvent {
  explicit StreamEvent(c10::EventFlag flag = c10::EventFlag::PYTORCH_DEFAULT) : event(torch::kCUDA, flag) {}
  c10::Event event;
};

// Events that are done with, to be recorded again: a step makes two for each op, and should not wait for the driver to
// make them. May outlive its device.
class EventPool {
 public:
  std::unique_ptr<StreamEvent> Take(c10::EventFlag flag) {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<StreamEvent>>& free = free_[flag];
    if (free.empty()) return std::make_unique<StreamEvent>(flag);
    std::unique_ptr<StreamEvent> event = std::move(free.back());
    free.pop_back();
    return event;
  }
  void GiveBack(c10::EventFlag flag, std::unique_ptr<StreamEvent> event) {
    const std::lock_guard lock(mutex_);
    free_[flag].push_back(std::move(event));
  }

 private:
  std::mutex mutex_;
  std::map<c10::EventFlag, std::vector<std::unique_ptr<StreamEvent>>> free_;
};

// While it lives, the calling thread works on this stream of this device; then again where it did before, whatever
// happened.
class StreamScope {
 public:
  StreamScope(const c10::impl::VirtualGuardImpl& guard, c10::Stream stream)
      : guard_(guard), device_(guard.exchangeDevice(stream.device())), stream_(guard.exchangeStream(stream)) {}
  ~StreamScope() {
    guard_.exchangeStream(stream_);
    guard_.setDevice(device_);
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  const c10::impl::VirtualGuardImpl& guard_;
  c10::Device device_;
  c10::Stream stream_;
};

// A CUDA device through LibTorch's interface for any accelerator: no CUDA header, so that it compiles wherever LibTorch
// does, and works where that LibTorch has CUDA.
class CudaDevice : public TorchDevice {
 public:
  CudaDevice(std::string name, std::string kind, c10::DeviceIndex index, std::optional<Bytes> memory)
      : TorchDevice(std::move(name), std::move(kind), torch::Device(torch::kCUDA, index), memory),
        guard_(torch::kCUDA),
        work_(guard_.getStreamFromGlobalPool(device(), false)),
        copies_(guard_.getStreamFromGlobalPool(device(), true)),
        events_(std::make_shared<EventPool>()) {}

  void Attach() override {
    guard_.setDevice(device());
    guard_.exchangeStream(work_);
    ComputeAlone();
  }
  void AttachCopier() override {
    guard_.setDevice(device());
    guard_.exchangeStream(copies_);
    ComputeAlone();
  }
  // What a kernel did wrong is told here, or by whatever is called next.
  void Synchronize() override {
    Checked([&] { guard_.synchronizeStream(work_); });
  }
  std::shared_ptr<DeviceEvent> Record() override { return Recorded(c10::EventFlag::PYTORCH_DEFAULT); }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
  std::shared_ptr<DeviceEvent> RecordTime() override {
    return Recorded(c10::EventFlag::BACKEND_DEFAULT);  // which keeps the time
  }
  double MicrosBetween(const DeviceEvent& first, const DeviceEvent& second) override {
    const c10::Event& from = static_cast<const StreamEvent&>(first).event;
    return Checked([&] { return 1000 * from.elapsedTime(static_cast<const StreamEvent&>(second).event); });  // of ms
  }
#endif

  // The copy goes over a stream of its own for each source, which waits for the source, and is waited for here: links
  // of different directions do not wait for each other. Its memory is used by the other stream from then on.
  TensorHandle Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) override {
    return Checked([&] {
      const c10::Stream stream = StreamOfPeer(source);
      const StreamScope scope(guard_, stream);
      if (ready != nullptr) static_cast<const StreamEvent&>(*ready).event.block(stream);
      const Array& array = ArrayOf(tensor);
      Array copy = torch::empty(array.sizes(), array.options().device(device()));
      copy.copy_(array, /*non_blocking=*/true);
      guard_.synchronizeStream(stream);
      guard_.recordDataPtrOnStream(copy.storage().data_ptr(), work_);
      return std::make_shared<TorchTensor>(std::move(copy));
    });
  }

  // What leaves for the CPU, on the stream for what this device sends.
  Array ToCpu(const Array& array, const DeviceEvent* ready) {
    const StreamScope scope(guard_, copies_);
    if (ready != nullptr) static_cast<const StreamEvent&>(*ready).event.block(copies_);
    Array copy = torch::empty(array.sizes(), array.options().device(torch::kCPU));
    copy.copy_(array, /*non_blocking=*/true);
    guard_.synchronizeStream(copies_);
    return copy;
  }

 private:
  std::shared_ptr<DeviceEvent> Recorded(c10::EventFlag flag) {
    return Checked([&] {
      const std::shared_ptr<StreamEvent> recorded(
          events_->Take(flag).release(),
          [pool = events_, flag](StreamEvent* event) { pool->GiveBack(flag, std::unique_ptr<StreamEvent>(event)); });
      recorded->event.record(work_);
      return recorded;
    });
  }

  // For what comes from another device.
  c10::Stream StreamOfPeer(const HardwareDevice& source) {
    const std::lock_guard lock(streams_mutex_);
    const auto found = streams_.find(&source);
    if (found != streams_.end()) return found->second;
    return streams_.emplace(&source, guard_.getStreamFromGlobalPool(device(), true)).first->second;
  }

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream work_;
  c10::Stream copies_;
  std::shared_ptr<EventPool> events_;
  std::mutex streams_mutex_;
  std::map<const HardwareDevice*, c10::Stream> streams_;  // guarded by streams_mutex_
};

TensorHandle CpuCore::Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) {
  return Checked([&] {
    const Array& array = ArrayOf(tensor);
    if (!source.is_cpu()) {
      return std::make_shared<TorchTensor>(static_cast<CudaDevice&>(source).ToCpu(array, ready));
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

class Backend : public HardwareBackend {
 public:
  Backend() {
    // Large tensors are reused memory, not pages that the kernel maps and clears anew each time: with glibc's defaults
    // an op of a few MB takes now 1 ms and now 5.
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
      if (*core >= cores_.size()) {
        throw InputError(name, "there are " + std::to_string(cores_.size()) +
                                   " cores (cpu:0 to cpu:" + std::to_string(cores_.size() - 1) + ")");
      }
      const auto bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
      return std::make_unique<CpuCore>(name, cores_[*core], Bytes{bytes / static_cast<std::int64_t>(cores_.size())});
    }
    const auto index = NumberOf(name, "cuda:");
    if (!index) throw InputError(name, "is not a device (cpu:N or cuda:N)");
    const std::size_t count = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
    if (*index >= count) {
      throw InputError(name, "LibTorch finds " + std::to_string(count) + " CUDA devices");
    }
    const int number = static_cast<int>(*index);
    return std::make_unique<CudaDevice>(name, CudaKind(CudaDeviceName(number)), static_cast<c10::DeviceIndex>(number),
                                        CudaDeviceMemory(number));
  }

  std::map<std::string, std::string> Describe() const override {
    std::map<std::string, std::string> host = {{"cpu", CpuModel()}, {"torch", TORCH_VERSION}};
    if (torch::cuda::is_available()) {
      host["driver"] = CudaDriverVersion();
      host["cuda"] = std::to_string(at::detail::getCUDAHooks().versionCUDART());
      host["gpu"] = CudaDeviceName(0);
    }
    return host;
  }

  std::vector<std::string> Kinds() const override { return TorchOpKinds(); }

 private:
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
