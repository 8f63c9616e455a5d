#include "profiler/contention.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "profiler/aggregate.h"
#include "profiler/device_thread.h"
#include "sim/device_catalog.h"
#include "sim/op_catalog.h"

namespace emplace {
namespace {

using Clock = std::chrono::steady_clock;

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
  double Run(HardwareDevice& device) {
    LeaveAsInAStep(device, inputs, fresh, &outputs);
    const Clock::time_point start = Clock::now();
    kernel->Run(inputs, &outputs);
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
};

// The same ops on both devices. On one they are sampled alone and beside the other, sample by sample in turn: what
// disturbs both disturbs them alike.
class Pair {
 public:
  Pair(const std::vector<ProfileTask>& tasks, HardwareDevice& device, HardwareDevice& neighbour,
       const ContentionOptions& options)
      : device_(device), neighbour_(neighbour), options_(options) {
    const auto make_ready = [&](HardwareDevice& on, std::vector<Ready>* ready) {
      on.Attach();
      for (const ProfileTask& task : tasks) {
        ready->emplace_back(task, on, options_.seed);
        ready->back().Run(on);
      }
    };
    own_.Run([&] { make_ready(device_, &mine_); });
    other_.Run([&] { make_ready(neighbour_, &theirs_); });
  }

  // Of the task, by its number.
  double Factor(std::size_t task) {
    std::vector<double> alone;
    std::vector<double> beside;
    for (std::size_t i = 0; i < options_.samples; ++i) {
      alone.push_back(Sample(task));
      Stream stream(*this);
      beside.push_back(Sample(task));
    }
    return Median(std::move(beside)) / Median(std::move(alone));
  }

 private:
  // The neighbour runs one op after another for as long as this lives.
  class Stream {
   public:
    explicit Stream(Pair& pair) : pair_(pair) {
      pair_.other_.Start([this] {
        while (!stop_) {
          pair_.theirs_[pair_.next_++ % pair_.theirs_.size()].Run(pair_.neighbour_);
          running_ = true;
        }
      });
      while (!running_) std::this_thread::yield();
    }
    ~Stream() {
      stop_ = true;
      pair_.other_.Wait();
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    Pair& pair_;
    std::atomic<bool> running_ = false;
    std::atomic<bool> stop_ = false;
  };

  double Sample(std::size_t task) {
    double micros = 0;
    own_.Run([&] { micros = mine_[task].Run(device_); });
    return micros;
  }

  HardwareDevice& device_;
  HardwareDevice& neighbour_;
  const ContentionOptions& options_;
  std::vector<Ready> mine_;
  std::vector<Ready> theirs_;
  std::size_t next_ = 0;  // of theirs
  DeviceThread own_;
  DeviceThread other_;
};

}  // namespace

std::map<std::string, std::vector<ProfileTask>> ContentionTasks(const Graph& graph, const Profile& profile,
                                                                const std::string& device_kind,
                                                                const ContentionOptions& options) {
  std::map<std::string, double> micros;
  for (const Profile::OpEntry& op : profile.ops) {
    if (op.device == device_kind) micros[CanonicalSignature(op.signature)] = op.median_micros;
  }
  std::map<std::string, std::vector<std::pair<double, ProfileTask>>> by_class;
  for (ProfileTask& task : MissingOps(graph, {}, device_kind)) {
    const OpKind* const kind = FindOpKind(task.recipe.kind);
    const auto known = micros.find(CanonicalSignature(task.signature));
    if (kind == nullptr || kind->op_class == OpClass::kNone || known == micros.end()) continue;
    if (known->second < options.least_micros) continue;
    by_class[std::string(Name(kind->op_class))].emplace_back(known->second, std::move(task));
  }
  std::map<std::string, std::vector<ProfileTask>> chosen;
  for (auto& [name, tasks] : by_class) {
    std::stable_sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [time, task] : tasks) {
      if (chosen[name].size() < options.ops_per_class) chosen[name].push_back(std::move(task));
    }
  }
  return chosen;
}

std::map<std::string, double, std::less<>> MeasureContention(
    const std::map<std::string, std::vector<ProfileTask>>& tasks, const std::set<std::string>& classes,
    HardwareDevice& device, HardwareDevice& neighbour, const ContentionOptions& options) {
  std::vector<ProfileTask> all;
  for (const auto& [name, members] : tasks) all.insert(all.end(), members.begin(), members.end());
  Pair pair(all, device, neighbour, options);
  std::map<std::string, double, std::less<>> factors;
  std::size_t first = 0;
  for (const auto& [name, members] : tasks) {
    std::vector<double> of_class;
    for (std::size_t i = 0; i < members.size() && classes.count(name) != 0; ++i) {
      of_class.push_back(pair.Factor(first + i));
    }
    first += members.size();
    if (!of_class.empty()) factors[name] = Median(std::move(of_class));
  }
  return factors;
}

}  // namespace emplace
