#include "profiler/measure/contention.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "profiler/execute/device_thread.h"
#include "sim/base/statistics.h"
#include "sim/device_catalog.h"
#include "sim/ops/op_catalog.h"

namespace emplace::profiler {
namespace {

constexpr double kLeastMicros = 1e-3;

// An op on one device, ready to run.
struct Ready {
  std::vector<bool> fresh;
  std::unique_ptr<OpKernel> kernel;
  std::vector<TensorHandle> inputs;
  std::vector<TensorHandle> outputs;

  Ready(const ProfileTask& task, HardwareDevice& device, std::uint64_t seed) : fresh(task.fresh) {
    for (std::size_t n = 0; n < task.recipe.inputs.size(); ++n) {
      inputs.push_back(device.Make(task.recipe.inputs[n], seed + n));
    }
    kernel = device.Prepare(task.recipe);
  }
  // In µs.
  double Run(HardwareDevice& device, const Clock& clock) {
    LeaveAsInAStep(device, inputs, fresh, &outputs);
    const std::int64_t start = clock.NowNs();
    kernel->Run(inputs, &outputs);
    return static_cast<double>(clock.NowNs() - start) / 1e3;
  }
};

std::vector<Ready> MakeReady(std::span<const ProfileTask> tasks, HardwareDevice& device, std::uint64_t seed,
                             const Clock& clock) {
  device.Attach();
  std::vector<Ready> ready;
  for (const ProfileTask& task : tasks) {
    ready.emplace_back(task, device, seed);
    ready.back().Run(device, clock);
  }
  return ready;
}

// A device that is busy while something else is done.
class Neighbour {
 public:
  Neighbour(const Busywork& work, HardwareDevice& device, std::uint64_t seed, const Clock& clock)
      : work_(work), device_(device), clock_(clock) {
    thread_.Run([&] { ready_ = MakeReady(work_.tasks, device_, seed, clock_); });
  }

  ~Neighbour() { stop_ = true; }  // where what it was busy beside threw

  // Calls `work` while this is busy. Throws what an op of this threw.
  void BusyBeside(const std::function<void()>& work) {
    running_ = false;
    stop_ = false;
    thread_.Start([this] {
      try {
        while (!stop_) {
          Next().Run(device_, clock_);
          running_ = true;
        }
      } catch (...) {
        running_ = true;  // a thread that waits for that is woken by Wait
        throw;
      }
    });
    while (!running_) std::this_thread::yield();
    work();
    stop_ = true;
    thread_.Wait();
  }

 private:
  Ready& Next() { return ready_[work_.order[next_++ % work_.order.size()]]; }

  const Busywork& work_;
  HardwareDevice& device_;
  const Clock& clock_;
  std::vector<Ready> ready_;
  std::size_t next_ = 0;
  std::atomic<bool> running_ = false;
  std::atomic<bool> stop_ = false;
  DeviceThread thread_;  // the last: it ends first
};

// One factor for each task.
std::vector<double> MeasureBatch(std::span<const ProfileTask> tasks, HardwareDevice& device, DeviceThread& thread,
                                 Neighbour& neighbour, const ContentionOptions& options, const Clock& clock) {
  std::vector<Ready> ready;
  thread.Run([&] { ready = MakeReady(tasks, device, options.seed, clock); });
  std::vector<std::size_t> samples;
  samples.reserve(tasks.size());
  for (const ProfileTask& task : tasks) {
    samples.push_back(SamplesWithin(options.seconds, 2 * task.micros, options.samples));  // alone and beside
  }
  std::vector<std::vector<double>> alone(tasks.size());
  std::vector<std::vector<double>> beside(tasks.size());
  for (std::size_t round = 0; round < *std::max_element(samples.begin(), samples.end()); ++round) {
    const auto sample = [&](std::vector<std::vector<double>>* micros) {
      thread.Run([&] {
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          if (round < samples[i]) (*micros)[i].push_back(ready[i].Run(device, clock));
        }
      });
    };
    sample(&alone);
    neighbour.BusyBeside([&] { sample(&beside); });
  }
  std::vector<double> factors;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    factors.push_back(Median(std::move(beside[i])) / std::max(Median(std::move(alone[i])), kLeastMicros));
  }
  return factors;
}

const OpKind* KindOf(std::string_view signature) { return FindOpKind(signature.substr(0, signature.find('('))); }

}  // namespace

std::vector<ProfileTask> TimedTasks(const Graph& graph, const Profile& profile, const std::string& device_kind) {
  std::map<std::string, double> micros;
  for (const Profile::OpEntry& op : profile.ops) {
    if (op.device == device_kind) micros[CanonicalSignature(op.signature)] = op.median_micros;
  }
  std::vector<ProfileTask> timed;
  for (ProfileTask& task : MissingOps(graph, {}, device_kind)) {
    const OpKind* const kind = FindOpKind(task.recipe.kind);
    const auto known = micros.find(CanonicalSignature(task.signature));
    if (known == micros.end() || (kind != nullptr && kind->op_class == OpClass::kNone)) continue;
    task.micros = known->second;
    timed.push_back(std::move(task));
  }
  return timed;
}

Busywork BusyworkOf(const Graph& graph, const std::vector<ProfileTask>& tasks, Bytes memory) {
  std::map<std::string, std::size_t> number;
  for (std::size_t i = 0; i < tasks.size(); ++i) number[CanonicalSignature(tasks[i].signature)] = i;
  std::vector<std::size_t> runs;
  std::vector<double> micros(tasks.size(), 0);
  for (std::size_t n = 0; n < graph.num_ops(); ++n) {
    const auto found = number.find(CanonicalSignature(FullSignature(graph, MakeId<OpId>(n))));
    if (found == number.end()) continue;
    runs.push_back(found->second);
    micros[found->second] += tasks[found->second].micros;
  }
  std::vector<std::size_t> by_time(tasks.size());
  std::iota(by_time.begin(), by_time.end(), std::size_t{0});
  std::stable_sort(by_time.begin(), by_time.end(), [&](std::size_t a, std::size_t b) { return micros[a] > micros[b]; });
  Busywork work;
  std::vector<std::optional<std::size_t>> kept(tasks.size());
  std::int64_t bytes = 0;
  for (const std::size_t i : by_time) {
    bytes += BytesOf(tasks[i].recipe);
    if (!work.tasks.empty() && bytes > memory.count) break;
    kept[i] = work.tasks.size();
    work.tasks.push_back(tasks[i]);
  }
  for (const std::size_t i : runs) {
    if (kept[i]) work.order.push_back(*kept[i]);
  }
  return work;
}

void MeasureContention(const std::vector<ProfileTask>& tasks, const Busywork& others, HardwareDevice& device,
                       HardwareDevice& neighbour, const ContentionOptions& options, const Clock& clock,
                       const std::function<void(std::size_t, const std::vector<double>&)>& on_batch) {
  if (tasks.empty() || others.order.empty()) return;
  Neighbour busy(others, neighbour, options.seed, clock);
  DeviceThread thread;
  for (std::size_t first = 0; first < tasks.size();) {
    const std::span<const ProfileTask> batch = NextBatch(std::span(tasks).subspan(first), options.batch_memory);
    on_batch(first, MeasureBatch(batch, device, thread, busy, options, clock));
    first += batch.size();
  }
}

std::map<std::string, double, std::less<>> ContentionByClass(const Profile& profile, const std::string& device_kind) {
  std::map<std::string, std::vector<double>, std::less<>> by_class;
  for (const Profile::OpEntry& op : profile.ops) {
    const OpKind* const kind = KindOf(op.signature);
    if (op.device != device_kind || !op.contention || kind == nullptr) continue;
    by_class[std::string(Name(kind->op_class))].push_back(*op.contention);
  }
  std::map<std::string, double, std::less<>> medians;
  for (auto& [name, factors] : by_class) medians[name] = Median(std::move(factors));
  return medians;
}

}  // namespace emplace::profiler
