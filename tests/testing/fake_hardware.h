#ifndef EMPLACE_TESTS_TESTING_FAKE_HARDWARE_H_
#define EMPLACE_TESTS_TESTING_FAKE_HARDWARE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/hardware.h"

namespace emplace::testing {

// A tensor of a fake device: one number.
struct FakeTensor : profiler::DeviceTensor {
  FakeTensor(double held, const std::string& on, Bytes bytes = {}) : value(held), device(on), size(bytes) {}
  double value;
  std::string device;
  Bytes size;  // size of a tensor from Make, else 0
};

// The calls of fake devices, in order.
class FakeLog {
 public:
  struct Run {
    std::string op;
    std::string device;
    std::thread::id thread;
    std::vector<double> inputs;
  };
  void Add(Run run) {
    const std::lock_guard lock(mutex_);
    runs_.push_back(std::move(run));
  }
  void AddCopy(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    ++copies_[from + " to " + to];
  }
  std::vector<Run> runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  std::map<std::string, int> copies() const {
    const std::lock_guard lock(mutex_);
    return copies_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Run> runs_;
  std::map<std::string, int> copies_;
};

// A device whose ops take almost no time and compute numbers: each output of an op is 1 + the sum of its inputs; inputs
// and variables are 1. A copy of a tensor from Make takes its size at 100 GB/s. Kind "fails" throws, kind "too-large"
// runs out of memory, kind "unknown" has no implementation.
class FakeDevice : public profiler::HardwareDevice {
 public:
  FakeDevice(std::string name, std::string kind, FakeLog* log, bool is_cpu = true)
      : name_(std::move(name)), kind_(std::move(kind)), log_(log), is_cpu_(is_cpu) {}

  const std::string& name() const override { return name_; }
  const std::string& kind() const override { return kind_; }
  bool is_cpu() const override { return is_cpu_; }
  std::optional<Bytes> memory() const override { return memory_; }
  void set_memory(Bytes memory) { memory_ = memory; }
  void Attach() override { thread_ = std::this_thread::get_id(); }
  void AttachCopier() override {}
  std::unique_ptr<profiler::OpKernel> Prepare(const profiler::OpRecipe& op) override;
  profiler::TensorHandle Make(const profiler::TensorSpec& spec, std::uint64_t seed) override;
  profiler::TensorHandle From(const profiler::TensorSpec& spec, std::span<const double> values) override;
  std::vector<double> Values(const profiler::TensorHandle& tensor) override;
  void Touch(const profiler::TensorHandle& tensor) override { touched.push_back(tensor.get()); }
  std::optional<double> ProbeMicros() override { return probe ? std::optional(probe()) : std::nullopt; }
  std::optional<profiler::DeviceClock> Clock() const override { return clock; }
  void Synchronize() override {}
  std::shared_ptr<profiler::DeviceEvent> Record() override { return nullptr; }
  profiler::TensorHandle Receive(const profiler::TensorHandle& tensor, profiler::HardwareDevice& source,
                                 const profiler::DeviceEvent* ready) override;
  void BeginWatch() override {}
  profiler::MemoryUse EndWatch() override { return {.peak = {1024}, .kept = {256}}; }

  std::thread::id thread() const { return thread_; }                      // the last to attach
  std::thread::id receiving_thread() const { return receiving_thread_; }  // the last to copy to it
  std::size_t prepared() const { return prepared_; }
  std::vector<const profiler::DeviceTensor*> touched;
  // Called in the middle of every run of an op, with its name.
  std::function<void(const std::string&)> on_run;
  std::optional<profiler::DeviceClock> clock;
  std::function<double()> probe;  // the duration of the next probe; null: no probes

 private:
  class Kernel;
  std::string name_;
  std::string kind_;
  FakeLog* log_;
  bool is_cpu_;
  std::optional<Bytes> memory_;
  std::thread::id thread_;
  std::atomic<std::thread::id> receiving_thread_;
  std::size_t prepared_ = 0;
};

// Two cores with a common log.
struct TwoFakeCores {
  FakeLog log;
  FakeDevice first{"cpu:0", "cpu-core", &log};
  FakeDevice second{"cpu:1", "cpu-core", &log};
  std::vector<profiler::HardwareDevice*> devices{&first, &second};
};

// An op with an f32 output of the given number of elements, which a fake device can run.
OpSpec FakeOp(std::string name, std::vector<std::string> inputs = {}, std::string kind = "relu",
              std::int64_t elements = 1);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_FAKE_HARDWARE_H_
