#ifndef EMPLACE_PROFILER_HARDWARE_H_
#define EMPLACE_PROFILER_HARDWARE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/recipe.h"
#include "sim/base/units.h"

namespace emplace::profiler {

// Real devices behind one small interface. What runs ops on them (LibTorch) is in a library of its own, which is
// loaded when the first device is opened: linked to the program, it would make every command start 0.4 s later. Tests
// put devices of their own behind the same interface.

// A device that has no room for what was asked: an outcome, not an error in the input.
class DeviceOutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A tensor on a device. Freed with the last handle.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
};
using TensorHandle = std::shared_ptr<DeviceTensor>;

// An op made ready to run on one device, with its state (optimiser slots, the weights of a variable).
class OpKernel {
 public:
  virtual ~OpKernel() = default;
  // Runs the op on `inputs`, which are on its device, and sets *outputs, one per output of the recipe. On a device that
  // is asynchronous, the outputs are there when the device has done what was given to it before. Called by the device's
  // own thread (Attach). Throws DeviceOutOfMemory.
  virtual void Run(std::span<const TensorHandle> inputs, std::vector<TensorHandle>* outputs) = 0;
};

// A point in what was given to an asynchronous device.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

// Bytes that were allocated on a device while it was watched.
struct MemoryUse {
  Bytes peak;  // largest sum above what was there at the beginning
  Bytes kept;  // still there at the end
};

// How fast a device's clock runs, and what slows it ("temperature").
struct DeviceClock {
  double mhz = 0;
  std::set<std::string> slowed_by = {};  // now
  // By reason, how long it has been slowed since the driver was loaded, in ns; only where the device counts that.
  std::map<std::string, std::uint64_t> slowed_ns = {};
};

class HardwareDevice {
 public:
  virtual ~HardwareDevice() = default;

  virtual const std::string& name() const = 0;  // "cpu:0", "cuda:0"
  virtual const std::string& kind() const = 0;  // kind in the device catalogue if listed there: "cpu-core", "h200"
  virtual bool is_cpu() const = 0;
  // The system's number of the core that it is; none of other devices.
  virtual std::optional<int> core() const { return std::nullopt; }
  // A CPU core's share of the machine's memory; what was free of a GPU's when it was opened, if that is known.
  virtual std::optional<Bytes> memory() const = 0;
  // Its clock now; none where it cannot be read, or is not meaningful (a CPU's: disturbance.h).
  virtual std::optional<DeviceClock> Clock() const { return std::nullopt; }

  // Makes the calling thread the device's own: pinned to its core (a CPU's), computing with one thread, giving work to
  // its stream (a GPU's). All of Prepare, Run, Make and Synchronize come from such a thread.
  virtual void Attach() = 0;
  // Throws InputError(op name) if there is no implementation of the op's kind or its tensors do not fit it.
  virtual std::unique_ptr<OpKernel> Prepare(const OpRecipe& op) = 0;
  // A tensor with contents drawn from `seed`: floats in [0.1, 1), integers below the bound, booleans at random.
  // Throws DeviceOutOfMemory.
  virtual TensorHandle Make(const TensorSpec& spec, std::uint64_t seed) = 0;
  // A tensor with the contents given, and back: for tests, and to compare what placements compute.
  virtual TensorHandle From(const TensorSpec& spec, std::span<const double> values) = 0;
  virtual std::vector<double> Values(const TensorHandle& tensor) = 0;
  // Reads all of the tensor: what fits a CPU's caches is then there. From the device's own thread.
  virtual void Touch(const TensorHandle&) {}
  // The current time of a probe of its speed, in µs (disturbance.h), from its own thread; none on a device that no
  // other slows.
  virtual std::optional<double> ProbeMicros() { return std::nullopt; }
  // Returns when everything that was given to the device is done.
  virtual void Synchronize() = 0;

  // How far the device's own thread is now; null on a device that is never behind (a CPU).
  virtual std::shared_ptr<DeviceEvent> Record() = 0;
  // The same, but MicrosBetween can tell the time from one to another once the device has passed both; null where
  // nothing can, or need.
  virtual std::shared_ptr<DeviceEvent> RecordTime() { return nullptr; }
  virtual double MicrosBetween(const DeviceEvent&, const DeviceEvent&) { return 0; }
  // A copy of `tensor` of `source` on this device. May be called by any thread; first waits for `ready` of the source
  // (may be null); returns when the copy is there. Throws DeviceOutOfMemory.
  virtual TensorHandle Receive(const TensorHandle& tensor, HardwareDevice& source, const DeviceEvent* ready) = 0;
  // As for Attach, but for a thread that only calls Receive for what leaves this device. A CPU's own thread does that
  // too: nothing beside a core copies, so that what it sends takes its own time (Device::copy_engine).
  virtual void AttachCopier() = 0;

  // Watches the allocations of the calling thread on this device until EndWatch. Not nested.
  virtual void BeginWatch() = 0;
  virtual MemoryUse EndWatch() = 0;
};

// The content of the library.
class HardwareBackend {
 public:
  virtual ~HardwareBackend() = default;
  // "cpu:N", N below the number of cores that this process may use; "cuda:N"; "privateuseone:N", a device of a library
  // that has been loaded and has made itself known to LibTorch under that name. Throws InputError(name) for others.
  virtual std::unique_ptr<HardwareDevice> Open(const std::string& name) = 0;
  // The kind of the device that Open would return, which Open alone makes ready; as CUDA's context takes memory. Throws
  // as Open.
  virtual std::string KindOf(const std::string& name) = 0;
  // For the profile: cpu, torch, cuda, driver, as far as they are there.
  virtual std::map<std::string, std::string> Describe() const = 0;
  // The kinds that Prepare has beside aten ones, sorted.
  virtual std::vector<std::string> Kinds() const = 0;
};

// LibTorch's. Throws InputError if its library cannot be loaded.
HardwareBackend& TorchHardware();

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_HARDWARE_H_
