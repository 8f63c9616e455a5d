#include "profiler/torch/accelerator.h"

#include <utility>
#include <vector>

#include "profiler/gpu_clocks.h"

namespace emplace::profiler {
namespace {

struct StreamEvent : DeviceEvent {
  StreamEvent(torch::DeviceType type, c10::EventFlag flag) : event(type, flag) {}
  c10::Event event;
};

const c10::Event& EventOf(const DeviceEvent& event) { return static_cast<const StreamEvent&>(event).event; }

// While this object lives, the calling thread uses this stream of this device; afterwards, the previous one, even after
// an exception.
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

}  // namespace

// Events that are no longer in use, to be recorded again: a step uses two for each op, and should not wait for the
// driver to create them. May outlive its device.
class EventPool {
 public:
  explicit EventPool(torch::DeviceType type) : type_(type) {}

  std::unique_ptr<DeviceEvent> Take(c10::EventFlag flag) {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<DeviceEvent>>& free = free_[flag];
    if (free.empty()) return std::make_unique<StreamEvent>(type_, flag);
    std::unique_ptr<DeviceEvent> event = std::move(free.back());
    free.pop_back();
    return event;
  }
  void GiveBack(c10::EventFlag flag, std::unique_ptr<DeviceEvent> event) {
    const std::lock_guard lock(mutex_);
    free_[flag].push_back(std::move(event));
  }

 private:
  torch::DeviceType type_;
  std::mutex mutex_;
  std::map<c10::EventFlag, std::vector<std::unique_ptr<DeviceEvent>>> free_;
};

Accelerator::Accelerator(std::string name, std::string kind, torch::Device device, std::optional<Bytes> memory,
                         std::string pci_bus_id)
    : TorchDevice(std::move(name), std::move(kind), device, memory),
      guard_(device.type()),
      work_(guard_.getStreamFromGlobalPool(device, false)),
      copies_(guard_.getStreamFromGlobalPool(device, true)),
      pci_bus_id_(std::move(pci_bus_id)),
      events_(std::make_shared<EventPool>(device.type())) {}

void Accelerator::Attach() {
  guard_.setDevice(device());
  guard_.exchangeStream(work_);
  ComputeAlone();
}

void Accelerator::AttachCopier() {
  guard_.setDevice(device());
  guard_.exchangeStream(copies_);
  ComputeAlone();
}

void Accelerator::Synchronize() {
  Checked([&] { guard_.synchronizeStream(work_); });
}

std::vector<double> Accelerator::Values(const TensorHandle& tensor) {
  Synchronize();  // the calling thread's own stream would not wait for it
  return TorchDevice::Values(tensor);
}

std::optional<DeviceClock> Accelerator::Clock() const { return TheseGpuClocks().Read(pci_bus_id_); }

#ifdef EMPLACE_STREAMS_TELL_TIME
double Accelerator::MicrosBetween(const DeviceEvent& first, const DeviceEvent& second) {
  return Checked([&] { return 1000 * EventOf(first).elapsedTime(EventOf(second)); });  // converts from ms
}
#endif

TensorHandle Accelerator::Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) {
  return Checked([&] {
    const c10::Stream stream = StreamOfPeer(source);
    const StreamScope scope(guard_, stream);
    if (ready != nullptr) EventOf(*ready).block(stream);
    const torch::Tensor& array = ArrayOf(tensor);
    torch::Tensor copy = torch::empty(array.sizes(), array.options().device(device()));
    copy.copy_(array, /*non_blocking=*/true);
    guard_.synchronizeStream(stream);
    guard_.recordDataPtrOnStream(copy.storage().data_ptr(), work_);
    return std::make_shared<TorchTensor>(std::move(copy));
  });
}

torch::Tensor Accelerator::ToCpu(const torch::Tensor& array, const DeviceEvent* ready) {
  const StreamScope scope(guard_, copies_);
  if (ready != nullptr) EventOf(*ready).block(copies_);
  // CUDA copies to memory that is not pinned through a buffer of its own, at half the speed. LibTorch keeps what it has
  // pinned for the next copy.
  torch::Tensor copy =
      torch::empty(array.sizes(), array.options().device(torch::kCPU).pinned_memory(device().is_cuda()));
  copy.copy_(array, /*non_blocking=*/true);
  guard_.synchronizeStream(copies_);
  return copy;
}

std::shared_ptr<DeviceEvent> Accelerator::Recorded(c10::EventFlag flag) {
  return Checked([&] {
    std::shared_ptr<DeviceEvent> recorded(events_->Take(flag).release(), [pool = events_, flag](DeviceEvent* event) {
      pool->GiveBack(flag, std::unique_ptr<DeviceEvent>(event));
    });
    static_cast<StreamEvent&>(*recorded).event.record(work_);
    return recorded;
  });
}

c10::Stream Accelerator::StreamOfPeer(const HardwareDevice& source) {
  const std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(&source);
  if (found != streams_.end()) return found->second;
  return streams_.emplace(&source, guard_.getStreamFromGlobalPool(device(), true)).first->second;
}

}  // namespace emplace::profiler
