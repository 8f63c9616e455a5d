#include "profiler/measure/contention.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "profiler/device_thread.h"
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

  // Calls `work` while this is busy. Throws what an op of this threw.
  void BusyBeside(const std::function<void()>& work) {
    WhileBusy(
        thread_,
        [this](const std::atomic<bool>& stop, std::atomic<bool>* is_busy) {
          while (!stop) {
            Next().Run(device_, clock_);
            *is_busy = true;
          }
        },
        work);
  }

 private:
  Ready& Next() { return ready_[work_.order[next_++ % work_.order.size()]]; }

  const Busywork& work_;
  HardwareDevice& device_;
  const Clock& clock_;
  std::vector<Ready> ready_;
  std::size_t next_ = 0;
  DeviceThread thread_;  // the last: it ends first
};

// The samples of one task, alone or beside the neighbour.
struct Samples {
  std::vector<double> micros;
  std::size_t wanted = 0;

  bool IsWhole() const { return micros.size() >= wanted; }
};

// One factor for each task. `on_turn` gets the share of the samples that are taken.
std::vector<double> MeasureBatch(std::span<const ProfileTask> tasks, HardwareDevice& device, DeviceThread& thread,
                                 Neighbour& neighbour, const ContentionOptions& options, const Clock& clock,
                                 const std::function<void(double)>& on_turn) {
  std::vector<Ready> ready;
  thread.Run([&] { ready = MakeReady(tasks, device, options.seed, clock); });
  const auto begin = [&](SampleLog::Of of) {
    std::vector<Samples> samples(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      samples[i].wanted = SamplesWithin(options.seconds, 2 * tasks[i].micros,  // alone and beside
                                        tasks[i].fewest_samples, options.samples);
      if (options.log == nullptr) continue;
      for (const SampleLog::Sample& one : options.log->Earlier(of, device.kind(), tasks[i].signature)) {
        samples[i].micros.push_back(one.micros);
      }
    }
    return samples;
  };
  std::vector<Samples> alone = begin(SampleLog::Of::kAlone);
  std::vector<Samples> beside = begin(SampleLog::Of::kBeside);
  const auto part_done = [](const std::vector<Samples>& all) {
    double done = 0;
    for (const Samples& one : all) {
      done += std::min(1.0, static_cast<double>(one.micros.size()) / static_cast<double>(one.wanted));
    }
    return done / static_cast<double>(all.size());
  };
  const auto sample = [&](SampleLog::Of of, std::vector<Samples>* all) {
    thread.Run([&] {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        if ((*all)[i].IsWhole()) continue;
        const double micros = ready[i].Run(device, clock);
        (*all)[i].micros.push_back(micros);
        if (options.log == nullptr) continue;
        options.log->Add(of, device.kind(), tasks[i].signature, {.micros = micros, .slowdown = 1});
      }
    });
  };
  const auto is_whole = [](const std::vector<Samples>& all) {
    return std::all_of(all.begin(), all.end(), [](const Samples& one) { return one.IsWhole(); });
  };
  while (!is_whole(alone) || !is_whole(beside)) {
    sample(SampleLog::Of::kAlone, &alone);
    neighbour.BusyBeside([&] { sample(SampleLog::Of::kBeside, &beside); });
    on_turn((part_done(alone) + part_done(beside)) / 2);
  }
  std::vector<double> factors;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    factors.push_back(Median(std::move(beside[i].micros)) / std::max(Median(std::move(alone[i].micros)), kLeastMicros));
  }
  return factors;
}

// The tasks of the graph's ops.
struct Runs {
  std::vector<std::size_t> order;    // order of tasks, that of the graph's ops
  std::vector<double> micros;        // times of all runs of a task
  std::vector<std::size_t> by_time;  // tasks, what takes most first
};

Runs RunsOf(const Graph& graph, const std::vector<ProfileTask>& tasks) {
  std::map<std::string, std::size_t> number;
  for (std::size_t i = 0; i < tasks.size(); ++i) number[CanonicalSignature(tasks[i].signature)] = i;
  Runs runs;
  runs.micros.assign(tasks.size(), 0);
  for (std::size_t n = 0; n < graph.num_ops(); ++n) {
    const auto found = number.find(CanonicalSignature(FullSignature(graph, MakeId<OpId>(n))));
    if (found == number.end()) continue;
    runs.order.push_back(found->second);
    runs.micros[found->second] += tasks[found->second].micros;
  }
  runs.by_time.resize(tasks.size());
  std::iota(runs.by_time.begin(), runs.by_time.end(), std::size_t{0});
  std::stable_sort(runs.by_time.begin(), runs.by_time.end(),
                   [&](std::size_t a, std::size_t b) { return runs.micros[a] > runs.micros[b]; });
  return runs;
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

std::vector<double> MicrosInAStep(const Graph& graph, const std::vector<ProfileTask>& tasks) {
  return RunsOf(graph, tasks).micros;
}

std::vector<std::size_t> LargestTasks(const Graph& graph, const std::vector<ProfileTask>& tasks, double share) {
  const Runs runs = RunsOf(graph, tasks);
  const double all = std::accumulate(runs.micros.begin(), runs.micros.end(), 0.0);
  std::vector<std::size_t> largest;
  double sum = 0;
  for (const std::size_t i : runs.by_time) {
    if (sum >= share * all) break;
    sum += runs.micros[i];
    largest.push_back(i);
  }
  return largest;
}

Busywork BusyworkOf(const Graph& graph, const std::vector<ProfileTask>& tasks, Bytes memory) {
  const Runs runs = RunsOf(graph, tasks);
  Busywork work;
  std::vector<std::optional<std::size_t>> kept(tasks.size());
  std::int64_t bytes = 0;
  for (const std::size_t i : runs.by_time) {
    bytes += BytesOf(tasks[i].recipe);
    if (!work.tasks.empty() && bytes > memory.count) break;
    kept[i] = work.tasks.size();
    work.tasks.push_back(tasks[i]);
  }
  for (const std::size_t i : runs.order) {
    if (kept[i]) work.order.push_back(*kept[i]);
  }
  return work;
}

void MeasureContention(const std::vector<ProfileTask>& tasks, const Busywork& others, HardwareDevice& device,
                       HardwareDevice& neighbour, const ContentionOptions& options, const Clock& clock,
                       const std::function<void(std::size_t, const std::vector<double>&)>& on_batch,
                       const std::function<void(std::size_t)>& on_progress) {
  if (tasks.empty() || others.order.empty()) return;
  Neighbour busy(others, neighbour, options.seed, clock);
  DeviceThread thread;
  for (std::size_t first = 0; first < tasks.size();) {
    const std::span<const ProfileTask> batch = NextBatch(std::span(tasks).subspan(first), options.batch_memory);
    on_batch(first, MeasureBatch(batch, device, thread, busy, options, clock, [&](double part) {
               const auto within = static_cast<std::size_t>(part * static_cast<double>(batch.size()));
               on_progress(first + std::min(within, batch.size() - 1));
             }));
    first += batch.size();
    on_progress(first);
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
