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
  std::unique_ptr<OpKernel> kernel;
  std::vector<TensorHandle> inputs;
  std::vector<TensorHandle> outputs;

  Ready(const OpRecipe& recipe, HardwareDevice& device, std::uint64_t seed) {
    for (std::size_t n = 0; n < recipe.inputs.size(); ++n) inputs.push_back(device.Make(recipe.inputs[n], seed + n));
    kernel = device.Prepare(recipe);
  }
  void Run() {
    outputs.clear();
    kernel->Run(inputs, &outputs);
  }
};

// Alone and beside a busy neighbour, sample by sample in turn: what disturbs both disturbs them alike.
class Pair {
 public:
  Pair(HardwareDevice& device, HardwareDevice& neighbour, const ContentionOptions& options)
      : device_(device), neighbour_(neighbour), options_(options) {
    own_.Run([&] { device_.Attach(); });
    other_.Run([&] { neighbour_.Attach(); });
  }

  double Factor(const OpRecipe& recipe) {
    std::unique_ptr<Ready> mine;
    std::unique_ptr<Ready> theirs;
    own_.Run([&] { mine = std::make_unique<Ready>(recipe, device_, options_.seed); });
    other_.Run([&] { theirs = std::make_unique<Ready>(recipe, neighbour_, options_.seed); });
    std::vector<double> alone;
    std::vector<double> beside;
    own_.Run([&] { mine->Run(); });
    for (std::size_t i = 0; i < options_.samples; ++i) {
      alone.push_back(Sample(*mine));
      Loop loop(other_, *theirs);
      beside.push_back(Sample(*mine));
    }
    return Median(std::move(beside)) / Median(std::move(alone));
  }

 private:
  // The neighbour is busy for as long as this lives.
  class Loop {
   public:
    Loop(DeviceThread& thread, Ready& ready) : thread_(thread) {
      thread_.Start([this, &ready] {
        while (!stop_) {
          ready.Run();
          running_ = true;
        }
      });
      while (!running_) std::this_thread::yield();
    }
    ~Loop() {
      stop_ = true;
      thread_.Wait();
    }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

   private:
    DeviceThread& thread_;
    std::atomic<bool> running_ = false;
    std::atomic<bool> stop_ = false;
  };

  double Sample(Ready& ready) {
    double micros = 0;
    own_.Run([&] {
      ready.Run();  // caches as an op before would leave them
      const Clock::time_point start = Clock::now();
      ready.Run();
      micros = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    });
    return micros;
  }

  HardwareDevice& device_;
  HardwareDevice& neighbour_;
  const ContentionOptions& options_;
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
    const std::map<std::string, std::vector<ProfileTask>>& tasks, HardwareDevice& device, HardwareDevice& neighbour,
    const ContentionOptions& options) {
  Pair pair(device, neighbour, options);
  std::map<std::string, double, std::less<>> factors;
  for (const auto& [name, members] : tasks) {
    std::vector<double> of_class;
    of_class.reserve(members.size());
    for (const ProfileTask& task : members) of_class.push_back(pair.Factor(task.recipe));
    factors[name] = Median(std::move(of_class));
  }
  return factors;
}

}  // namespace emplace
