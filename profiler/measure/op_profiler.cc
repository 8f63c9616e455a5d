#include "profiler/measure/op_profiler.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>

#include "profiler/activity.h"
#include "profiler/device_thread.h"
#include "profiler/measure/aggregate.h"
#include "profiler/measure/disturbance.h"
#include "sim/base/check.h"
#include "sim/base/statistics.h"

namespace emplace::profiler {
namespace {

using SampleClock = std::chrono::steady_clock;

constexpr std::size_t kMostTasksInBatch = 4096;
constexpr std::size_t kWarmups = 2;
constexpr std::size_t kMostAttempts = 3;  // attempts at a round
constexpr std::size_t kHostRuns = 9;

double MicrosSince(SampleClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SampleClock::now() - start).count();
}

class ClockMeter : public OpMeter {
 public:
  void Begin() override { measured_.clear(); }
  void Sample(std::size_t task, OpKernel& kernel, const std::vector<TensorHandle>& inputs,
              std::vector<TensorHandle>* outputs) override {
    const SampleClock::time_point start = SampleClock::now();
    kernel.Run(inputs, outputs);
    last_ = MicrosSince(start);
    measured_[task].micros.push_back(last_);
  }
  std::optional<double> LastMicros() const override { return last_; }
  std::map<std::size_t, Measured> End() override { return std::move(measured_); }

 private:
  std::map<std::size_t, Measured> measured_;
  double last_ = 0;
};

// How much other programs slow the device, and how much longer to wait for it. A batch may use its ops' share of the
// time that is left, so that the first batches do not use up all of it.
class Disturbance {
 public:
  Disturbance(HardwareDevice& device, const OpProfilerOptions& options)
      : device_(device),
        watch_(options.known_probe_micros),
        watches_(options.patience_seconds > 0),
        left_micros_(1e6 * options.patience_seconds) {}

  // 1 where nothing is watched.
  double Slowdown() {
    const std::optional<double> micros = watches_ ? device_.ProbeMicros() : std::nullopt;
    return micros ? watch_.Slowdown(*micros, SampleClock::now()) : 1;
  }
  double left_seconds() const { return std::max(left_micros_, 0.0) / 1e6; }
  std::optional<double> fastest_micros() const { return watch_.fastest_micros(); }
  void BeginBatch(double share) { batch_micros_ = share * left_micros_; }
  bool patient() const { return batch_micros_ > 0; }
  void Spend(double micros) {
    left_micros_ -= micros;
    batch_micros_ -= micros;
  }

 private:
  HardwareDevice& device_;
  DisturbanceWatch watch_;
  bool watches_;
  double left_micros_;
  double batch_micros_ = 0;
};

// Tasks that are measured in turn.
class Batch {
 public:
  // `on_progress` gets the share of the first round of samples that is taken.
  Batch(std::span<const ProfileTask> tasks, HardwareDevice& device, OpMeter& meter, const OpProfilerOptions& options,
        Disturbance& disturbance, std::function<void(double)> on_progress)
      : tasks_(tasks),
        device_(device),
        meter_(meter),
        options_(options),
        disturbance_(disturbance),
        on_progress_(std::move(on_progress)),
        members_(tasks.size()) {}

  // Throws DeviceOutOfMemory where several do not fit together, InputError where one alone does not.
  std::vector<Profile::OpEntry> Measure(OpProfilerResult* result) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      OrDoesNotFit(i, [&] { Prepare(i); });
    }
    if (!device_.is_cpu()) MeasureHost();
    std::vector<std::size_t> all(tasks_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    TakeFromLog();
    Round(all);
    for (Member& member : members_) member.earlier.clear();
    for (std::size_t repeat = 0; repeat < options_.repeats; ++repeat) {
      const std::vector<std::size_t> again = TooWide();
      if (again.empty()) break;
      Round(again);
    }
    for (const std::size_t i : TooWide()) result->too_wide.push_back(tasks_[i].signature);
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (members_[i].disturbed > 0) result->disturbed[tasks_[i].signature] = members_[i].disturbed;
    }
    result->repeated_rounds += repeated_rounds_;
    result->clock.Add(clock_);
    std::vector<Profile::OpEntry> entries;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      std::vector<double> micros = members_[i].best.micros;
      const double device_micros = Median(micros);
      for (double& sample : micros) sample = std::max(sample, members_[i].host_micros);
      entries.push_back(Aggregate({.signature = tasks_[i].signature,
                                   .device_kind = device_.kind(),
                                   .micros = std::move(micros),
                                   .kernels = members_[i].best.kernels,
                                   .temp = members_[i].temp}));
      if (device_.is_cpu()) continue;  // it runs what it issues
      entries.back().host_micros = members_[i].host_micros;
      entries.back().device_micros = device_micros;
    }
    return entries;
  }

 private:
  struct Member {
    std::unique_ptr<OpKernel> kernel;
    std::vector<TensorHandle> inputs;
    std::vector<TensorHandle> outputs;  // outputs of the last run
    Bytes temp;
    double guess_micros = 0;
    double host_micros = 0;                  // time of the host's call, on an asynchronous device
    std::vector<SampleLog::Sample> earlier;  // samples of the round from a run that was stopped
    std::vector<double> slowdowns;           // slowdowns of the round's samples
    std::size_t calm = 0;                    // number of undisturbed samples
    OpMeter::Measured best;                  // the round whose samples were closest together
    std::size_t disturbed = 0;               // number of disturbed samples
  };

  template <typename Call>
  void OrDoesNotFit(std::size_t i, const Call& call) {
    try {
      call();
    } catch (const DeviceOutOfMemory& error) {
      if (tasks_.size() > 1) throw;  // it may, without the others
      throw InputError(tasks_[i].recipe.name,
                       std::string("does not fit in the device's memory alone (") + error.what() + ")");
    }
  }

  void Prepare(std::size_t i) {
    const OpRecipe& recipe = tasks_[i].recipe;
    Member& member = members_[i];
    for (std::size_t n = 0; n < recipe.inputs.size(); ++n) {
      member.inputs.push_back(device_.Make(recipe.inputs[n], options_.seed + n));
    }
    member.kernel = device_.Prepare(recipe);
    for (std::size_t run = 0; run < kWarmups; ++run) {
      member.outputs.clear();
      device_.Synchronize();
      device_.BeginWatch();
      const SampleClock::time_point start = SampleClock::now();
      member.kernel->Run(member.inputs, &member.outputs);
      device_.Synchronize();
      member.guess_micros = MicrosSince(start);
      const MemoryUse use = device_.EndWatch();
      member.temp = std::max(use.peak - use.kept, Bytes{0});
    }
  }

  // The time of each call by itself, on an idle device and without recording. The calls are interleaved, because a call
  // that is repeated immediately finds its code in the caches, which other calls have replaced by then in a real step.
  void MeasureHost() {
    std::vector<std::vector<double>> micros(members_.size());
    const StayOnCore stay;
    for (std::size_t run = 0; run < kHostRuns; ++run) {
      for (std::size_t i = 0; i < members_.size(); ++i) {
        Member& member = members_[i];
        member.outputs.clear();
        device_.Synchronize();
        const SampleClock::time_point start = SampleClock::now();
        OrDoesNotFit(i, [&] { member.kernel->Run(member.inputs, &member.outputs); });
        micros[i].push_back(MicrosSince(start));
      }
    }
    device_.Synchronize();
    for (std::size_t i = 0; i < members_.size(); ++i) members_[i].host_micros = Median(std::move(micros[i]));
  }

  std::size_t SamplesOf(std::size_t i) const {
    return SamplesWithin(options_.seconds, members_[i].guess_micros, tasks_[i].fewest_samples, options_.samples);
  }

  bool HasEnough(std::size_t i) const {
    const Member& member = members_[i];
    return (disturbance_.patient() ? member.calm : member.slowdowns.size()) >= SamplesOf(i);
  }

  // Occasionally a GPU's records cannot be trusted: a time is missing, or the clock was set. Such a round is discarded
  // and repeated. Several such rounds are an error.
  void Round(const std::vector<std::size_t>& members) {
    for (std::size_t attempt = 1;; ++attempt) {
      clock_.Begin(device_);
      SampleInTurn(members);
      try {
        std::map<std::size_t, OpMeter::Measured> measured = meter_.End();
        clock_.End(device_);
        for (const std::size_t i : members) Keep(i, std::move(measured[i]));
        return;
      } catch (const ActivityError&) {
        if (attempt == kMostAttempts) throw;
        ++repeated_rounds_;
      }
    }
  }

  void SampleInTurn(const std::vector<std::size_t>& members) {
    meter_.Begin();
    for (const std::size_t i : members) {
      members_[i].slowdowns.clear();
      members_[i].calm = 0;
      for (const SampleLog::Sample& sample : members_[i].earlier) Count(i, sample.slowdown);
    }
    double before = disturbance_.Slowdown();
    for (bool any = true; any;) {
      any = false;
      for (const std::size_t i : members) {
        if (HasEnough(i)) continue;
        any = true;
        const SampleClock::time_point start = SampleClock::now();
        LeaveAsInAStep(device_, members_[i].inputs, tasks_[i].fresh, &members_[i].outputs);
        OrDoesNotFit(i, [&] { meter_.Sample(i, *members_[i].kernel, members_[i].inputs, &members_[i].outputs); });
        const double after = disturbance_.Slowdown();
        const double slowdown = std::max(before, after);
        before = after;
        if (!Count(i, slowdown)) disturbance_.Spend(MicrosSince(start));
        const std::optional<double> micros = meter_.LastMicros();
        if (options_.log == nullptr || !micros) continue;
        options_.log->Add(SampleLog::Of::kOp, device_.kind(), tasks_[i].signature,
                          {.micros = *micros, .slowdown = slowdown});
      }
      on_progress_(PartDone());
    }
  }

  // Returns whether the sample was calm.
  bool Count(std::size_t i, double slowdown) {
    members_[i].slowdowns.push_back(slowdown);
    const bool is_calm = slowdown <= kCalmSlowdown;
    members_[i].calm += is_calm ? 1 : 0;
    return is_calm;
  }

  double PartDone() const {
    double done = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto wanted = static_cast<double>(SamplesOf(i));
      done += std::min(static_cast<double>(members_[i].slowdowns.size()), wanted) / wanted;
    }
    return done / static_cast<double>(members_.size());
  }

  // Only of a device whose samples are known one by one: in the log there are no others.
  void TakeFromLog() {
    if (options_.log == nullptr) return;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      members_[i].earlier = options_.log->Earlier(SampleLog::Of::kOp, device_.kind(), tasks_[i].signature);
    }
  }

  // The least disturbed samples of a round, if they are closer together than the last round's.
  void Keep(std::size_t i, OpMeter::Measured measured) {
    Member& member = members_[i];
    std::vector<double> micros;
    for (const SampleLog::Sample& sample : member.earlier) micros.push_back(sample.micros);
    micros.insert(micros.end(), measured.micros.begin(), measured.micros.end());
    measured.micros = std::move(micros);
    EMPLACE_CHECK_EQ(measured.micros.size(), member.slowdowns.size());
    std::vector<std::size_t> order(measured.micros.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return member.slowdowns[a] < member.slowdowns[b]; });
    order.resize(std::min(order.size(), SamplesOf(i)));
    OpMeter::Measured kept{.micros = {}, .kernels = measured.kernels};
    std::size_t disturbed = 0;
    for (const std::size_t sample : order) {
      kept.micros.push_back(measured.micros[sample]);
      disturbed += member.slowdowns[sample] > kCalmSlowdown ? 1 : 0;
    }
    if (!member.best.micros.empty() && Spread(kept.micros) >= Spread(member.best.micros)) return;
    member.best = std::move(kept);
    member.disturbed = disturbed;
  }

  std::vector<std::size_t> TooWide() const {
    std::vector<std::size_t> wide;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (Spread(members_[i].best.micros) > options_.wide_spread) wide.push_back(i);
    }
    return wide;
  }

  std::span<const ProfileTask> tasks_;
  HardwareDevice& device_;
  OpMeter& meter_;
  const OpProfilerOptions& options_;
  Disturbance& disturbance_;
  std::function<void(double)> on_progress_;
  std::vector<Member> members_;
  std::size_t repeated_rounds_ = 0;
  ClockWatch clock_;
};

}  // namespace

std::vector<bool> FreshInputs(const Graph& graph, OpId op) {
  std::vector<bool> fresh;
  for (const TensorId input : graph.inputs(op)) {
    fresh.push_back(graph.op(graph.tensor(input).producer).kind != "variable");
  }
  return fresh;
}

void LeaveAsInAStep(HardwareDevice& device, const std::vector<TensorHandle>& inputs, const std::vector<bool>& fresh,
                    std::vector<TensorHandle>* outputs) {
  for (const TensorHandle& output : *outputs) device.Touch(output);
  outputs->clear();
  EMPLACE_CHECK_EQ(inputs.size(), fresh.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (fresh[i]) device.Touch(inputs[i]);
  }
}

std::vector<ProfileTask> MissingOps(const Graph& graph, const Profile& profile, const std::string& device_kind) {
  std::set<std::string> known;
  for (const Profile::OpEntry& op : profile.ops) {
    if (op.device == device_kind) known.insert(CanonicalSignature(op.signature));
  }
  const std::vector<OpRecipe> recipes = RecipesOf(graph);
  std::vector<ProfileTask> tasks;
  for (std::size_t n = 0; n < graph.num_ops(); ++n) {
    if (IsData(recipes[n])) continue;
    std::string signature = FullSignature(graph, MakeId<OpId>(n));
    if (!known.insert(CanonicalSignature(signature)).second) continue;
    tasks.push_back(
        {.signature = std::move(signature), .recipe = recipes[n], .fresh = FreshInputs(graph, MakeId<OpId>(n))});
  }
  return tasks;
}

std::size_t SamplesWithin(double seconds, double micros, std::size_t fewest, std::size_t most) {
  const double affordable = seconds * 1e6 / std::max(micros, 1e-3);
  return std::max(static_cast<std::size_t>(std::min(affordable, static_cast<double>(most))), std::min(fewest, most));
}

std::int64_t BytesOf(const OpRecipe& recipe) {
  std::int64_t bytes = 0;
  for (const auto* tensors : {&recipe.inputs, &recipe.outputs}) {
    for (const TensorSpec& tensor : *tensors) bytes += tensor.size.count;
  }
  return bytes;
}

std::span<const ProfileTask> NextBatch(std::span<const ProfileTask> tasks, Bytes memory) {
  std::size_t end = 0;
  std::int64_t bytes = 0;
  while (end < tasks.size() && end < kMostTasksInBatch) {
    bytes += BytesOf(tasks[end].recipe);
    if (end > 0 && bytes > memory.count) break;
    ++end;
  }
  return tasks.first(end);
}

std::unique_ptr<OpMeter> MakeClockMeter() { return std::make_unique<ClockMeter>(); }

OpProfilerResult ProfileOps(
    const std::vector<ProfileTask>& tasks, HardwareDevice& device, OpMeter& meter, const OpProfilerOptions& options,
    const std::function<void(const OpProfilerProgress&, const std::vector<Profile::OpEntry>&)>& on_batch) {
  device.Attach();
  const SampleClock::time_point began = SampleClock::now();
  OpProfilerResult result;
  Disturbance disturbance(device, options);
  while (result.ops.size() < tasks.size()) {
    const auto left = std::span(tasks).subspan(result.ops.size());
    std::span<const ProfileTask> batch = NextBatch(left, options.batch_memory);
    const auto report = [&](std::size_t done, const std::vector<Profile::OpEntry>& entries) {
      on_batch({.done = done, .total = tasks.size(), .seconds = MicrosSince(began) / 1e6}, entries);
    };
    const auto measure = [&] {
      disturbance.BeginBatch(static_cast<double>(batch.size()) / static_cast<double>(left.size()));
      return Batch(batch, device, meter, options, disturbance,
                   [&](double part) {
                     const auto within = static_cast<std::size_t>(part * static_cast<double>(batch.size()));
                     report(result.ops.size() + std::min(within, batch.size() - 1), {});
                   })
          .Measure(&result);
    };
    std::vector<Profile::OpEntry> entries;
    try {
      entries = measure();
    } catch (const DeviceOutOfMemory&) {
      meter.Abandon();
      batch = batch.first(1);
      entries = measure();
    }
    result.ops.insert(result.ops.end(), entries.begin(), entries.end());
    report(result.ops.size(), entries);
  }
  result.patience_seconds = disturbance.left_seconds();
  result.fastest_probe_micros = disturbance.fastest_micros();
  return result;
}

}  // namespace emplace::profiler
