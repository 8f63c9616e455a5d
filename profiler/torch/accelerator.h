#ifndef EMPLACE_PROFILER_TORCH_ACCELERATOR_H_
#define EMPLACE_PROFILER_TORCH_ACCELERATOR_H_

#include <torch/types.h>
#include <torch/version.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "profiler/torch/torch_device.h"

namespace emplace::profiler {

// LibTorch measures the time between two points of a stream of any accelerator from this version on.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
#define EMPLACE_STREAMS_TELL_TIME 1
#endif

class EventPool;

// A device that runs behind the host, through LibTorch's interface for any accelerator: no CUDA header, so that it
// compiles wherever LibTorch does, and works where that LibTorch has the accelerator.
class Accelerator : public TorchDevice {
 public:
  // `pci_bus_id`: of an NVIDIA GPU, to read its clock; "" for others.
  Accelerator(std::string name, std::string kind, torch::Device device, std::optional<Bytes> memory,
              std::string pci_bus_id);

  void Attach() override;
  void AttachCopier() override;
  // Errors of kernels are reported here, or by the next call.
  void Synchronize() override;
  std::vector<double> Values(const TensorHandle& tensor) override;
  std::optional<DeviceClock> Clock() const override;
  std::shared_ptr<DeviceEvent> Record() override { return Recorded(c10::EventFlag::PYTORCH_DEFAULT); }
#ifdef EMPLACE_STREAMS_TELL_TIME
  std::shared_ptr<DeviceEvent> RecordTime() override {
    return Recorded(c10::EventFlag::BACKEND_DEFAULT);  // this flag enables timing
  }
  double MicrosBetween(const DeviceEvent& first, const DeviceEvent& second) override;
#endif

  // The copy goes over a stream of its own for each source, which waits for the source, and is waited for here: links
  // of different directions do not wait for each other. Its memory is used by the other stream from then on.
  TensorHandle Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) override;
  // Copies to the CPU, on the stream for outgoing copies of this device.
  torch::Tensor ToCpu(const torch::Tensor& array, const DeviceEvent* ready);

 private:
  std::shared_ptr<DeviceEvent> Recorded(c10::EventFlag flag);
  c10::Stream StreamOfPeer(const HardwareDevice& source);  // stream for copies from another device

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream work_;
  c10::Stream copies_;
  std::string pci_bus_id_;
  std::shared_ptr<EventPool> events_;
  std::mutex streams_mutex_;
  std::map<const HardwareDevice*, c10::Stream> streams_;  // guarded by streams_mutex_
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_ACCELERATOR_H_
