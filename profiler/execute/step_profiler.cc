#include "profiler/execute/step_profiler.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "profiler/activity.h"
#include "profiler/device_thread.h"
#include "profiler/execute/placed_program.h"
#include "profiler/measure/aggregate.h"
#include "profiler/measure/disturbance.h"
#include "sim/base/check.h"
#include "sim/base/statistics.h"
#include "sim/placement.h"

namespace emplace::profiler {
namespace {

using StepClock = std::chrono::steady_clock;

constexpr std::size_t kMostStepAttempts = 3;  // attempts at a step
constexpr std::size_t kHostSteps = 9;

double SecondsSince(StepClock::time_point start) {
  return std::chrono::duration<double>(StepClock::now() - start).count();
}

bool IsData(const Graph& graph, OpId op) { return IsSourceKind(graph.op(op).kind); }

// The graph on one device, op by op.
class WholeStep {
 public:
  WholeStep(const Graph& graph, HardwareDevice& device, std::uint64_t seed)
      : program_(MakePlacedProgram(graph, Placement(graph.num_ops()), 1)),
        handles_(program_.slots.size()),
        uses_(program_.slots.size()),
        kernels_(graph.num_ops()) {
    const std::vector<OpRecipe> recipes = RecipesOf(graph);
    for (const OpId op : ProgramOrder(graph)) {
      const std::size_t n = Index(op);
      if (!IsData(graph, op)) {
        order_.push_back(op);
        kernels_[n] = device.Prepare(recipes[n]);
        continue;
      }
      for (std::size_t o = 0; o < recipes[n].outputs.size(); ++o) {
        handles_[program_.steps[n].outputs[o]] = device.Make(recipes[n].outputs[o], seed + n * 16 + o);
      }
    }
    for (const OpId op : order_) {
      for (const std::uint32_t slot : program_.steps[Index(op)].outputs) uses_[slot] = program_.slots[slot].uses;
    }
  }

  // Calls run(op, kernel, inputs, &outputs) for each op that is not data.
  template <typename Call>
  void Run(const Call& run) {
    std::vector<std::uint32_t> left = uses_;  // 0: data, which stay
    for (const OpId op : order_) {
      const PlacedProgram::Step& step = program_.steps[Index(op)];
      std::vector<TensorHandle> inputs;
      for (const std::uint32_t slot : step.inputs) inputs.push_back(handles_[slot]);
      std::vector<TensorHandle> outputs;
      run(op, *kernels_[Index(op)], inputs, &outputs);
      EMPLACE_CHECK_EQ(outputs.size(), step.outputs.size());
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        if (left[step.outputs[o]] > 0) handles_[step.outputs[o]] = std::move(outputs[o]);
      }
      for (const std::uint32_t slot : step.frees) {
        if (left[slot] > 0 && --left[slot] == 0) handles_[slot] = nullptr;
      }
    }
  }

 private:
  PlacedProgram program_;
  std::vector<OpId> order_;
  std::vector<TensorHandle> handles_;  // by slot
  std::vector<std::uint32_t> uses_;    // by slot; 0 for data
  std::vector<std::unique_ptr<OpKernel>> kernels_;
};

class StepProfiler {
 public:
  StepProfiler(const Graph& graph, const std::vector<ProfileTask>& tasks, HardwareDevice& device, OpMeter& meter,
               const OpProfilerOptions& options)
      : tasks_(tasks),
        device_(device),
        meter_(meter),
        options_(options),
        watch_(options.known_probe_micros),
        left_seconds_(options.patience_seconds),
        step_(graph, device, options.seed),
        task_of_(graph.num_ops()),
        members_(tasks.size()) {
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < tasks.size(); ++i) numbers[CanonicalSignature(tasks[i].signature)] = i;
    for (std::size_t n = 0; n < graph.num_ops(); ++n) {
      if (IsData(graph, MakeId<OpId>(n))) continue;
      const auto found = numbers.find(CanonicalSignature(FullSignature(graph, MakeId<OpId>(n))));
      if (found == numbers.end()) continue;
      task_of_[n] = found->second;
      ++members_[found->second].count;
    }
  }

  OpProfilerResult Measure(const std::function<void(const OpProfilerProgress&)>& on_step) {
    const StepClock::time_point began = StepClock::now();
    WarmUp();
    if (!device_.is_cpu()) MeasureHost();
    TakeFromLog();
    while (true) {
      const bool has_all = PartDone() >= 1;
      if (has_all && (left_seconds_ <= 0 || AllCalm())) break;
      const StepClock::time_point start = StepClock::now();
      SampleStep();
      if (has_all) left_seconds_ -= SecondsSince(start);
      const auto done = static_cast<std::size_t>(PartDone() * static_cast<double>(tasks_.size()));
      on_step({.done = done, .total = tasks_.size(), .seconds = SecondsSince(began)});
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) Add(i);
    result_.patience_seconds = std::max(left_seconds_, 0.0);
    result_.fastest_probe_micros = watch_.fastest_micros();
    return std::move(result_);
  }

 private:
  struct Member {
    std::size_t count = 0;          // ops of the step with its signature
    std::vector<double> micros;     // samples
    std::vector<double> slowdowns;  // of the samples
    std::vector<double> host_micros;
    std::int64_t kernels = 0;
    Bytes temp;
    std::size_t calm = 0;  // number of undisturbed samples
  };

  void WarmUp() {
    const auto call = [](OpId, OpKernel& kernel, const std::vector<TensorHandle>& inputs,
                         std::vector<TensorHandle>* outputs) { kernel.Run(inputs, outputs); };
    step_.Run(call);
    step_.Run(
        [&](OpId op, OpKernel& kernel, const std::vector<TensorHandle>& inputs, std::vector<TensorHandle>* outputs) {
          device_.BeginWatch();
          kernel.Run(inputs, outputs);
          const MemoryUse use = device_.EndWatch();
          if (!task_of_[Index(op)]) return;
          Member& member = members_[*task_of_[Index(op)]];
          member.temp = std::max(member.temp, use.peak - use.kept);
        });
    device_.Synchronize();
  }

  // The time of each call on an idle device, without recording.
  void MeasureHost() {
    const StayOnCore stay;
    for (std::size_t i = 0; i < kHostSteps; ++i) {
      step_.Run(
          [&](OpId op, OpKernel& kernel, const std::vector<TensorHandle>& inputs, std::vector<TensorHandle>* outputs) {
            device_.Synchronize();
            const StepClock::time_point start = StepClock::now();
            kernel.Run(inputs, outputs);
            const double micros = 1e6 * SecondsSince(start);
            if (task_of_[Index(op)]) members_[*task_of_[Index(op)]].host_micros.push_back(micros);
          });
    }
    device_.Synchronize();
  }

  void TakeFromLog() {
    if (options_.log == nullptr) return;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      for (const SampleLog::Sample& sample :
           options_.log->Earlier(SampleLog::Of::kInStep, device_.kind(), tasks_[i].signature)) {
        members_[i].micros.push_back(sample.micros);
        Count(sample.slowdown, &members_[i]);
      }
    }
  }

  static void Count(double slowdown, Member* member) {
    member->slowdowns.push_back(slowdown);
    member->calm += slowdown <= kCalmSlowdown ? 1 : 0;
  }

  // A step whose records cannot be trusted is run again.
  void SampleStep() {
    for (std::size_t attempt = 1;; ++attempt) {
      result_.clock.Begin(device_);
      const std::vector<std::pair<std::size_t, double>> slowdowns = RunSampled();
      try {
        std::map<std::size_t, OpMeter::Measured> measured = meter_.End();
        result_.clock.End(device_);
        Keep(slowdowns, measured);
        return;
      } catch (const ActivityError&) {
        if (attempt == kMostStepAttempts) throw;
        ++result_.repeated_rounds;
      }
    }
  }

  // Returns, in the order of the samples, their tasks and slowdowns.
  std::vector<std::pair<std::size_t, double>> RunSampled() {
    std::vector<std::pair<std::size_t, double>> slowdowns;
    meter_.Begin();
    double before = Slowdown();
    step_.Run(
        [&](OpId op, OpKernel& kernel, const std::vector<TensorHandle>& inputs, std::vector<TensorHandle>* outputs) {
          const std::optional<std::size_t> task = task_of_[Index(op)];
          if (!task) {
            kernel.Run(inputs, outputs);
            return;
          }
          meter_.Sample(*task, kernel, inputs, outputs);
          const double after = Slowdown();
          slowdowns.emplace_back(*task, std::max(before, after));
          before = after;
        });
    return slowdowns;
  }

  // 1 where nothing is watched.
  double Slowdown() {
    const std::optional<double> micros = options_.patience_seconds > 0 ? device_.ProbeMicros() : std::nullopt;
    return micros ? watch_.Slowdown(*micros, StepClock::now()) : 1;
  }

  void Keep(const std::vector<std::pair<std::size_t, double>>& slowdowns,
            const std::map<std::size_t, OpMeter::Measured>& measured) {
    std::vector<std::size_t> next(tasks_.size());
    for (const auto& [task, slowdown] : slowdowns) {
      Member& member = members_[task];
      const OpMeter::Measured& of_task = measured.at(task);
      const double micros = of_task.micros.at(next[task]++);
      member.micros.push_back(micros);
      member.kernels = std::max(member.kernels, of_task.kernels);
      Count(slowdown, &member);
      if (options_.log == nullptr || !meter_.LastMicros()) continue;
      options_.log->Add(SampleLog::Of::kInStep, device_.kind(), tasks_[task].signature,
                        {.micros = micros, .slowdown = slowdown});
    }
  }

  // The share of the samples that are there even if others disturb them.
  double PartDone() const {
    double least = 1;
    for (const Member& member : members_) {
      const auto wanted = static_cast<double>(options_.samples * member.count);
      least = std::min(least, static_cast<double>(member.micros.size()) / wanted);
    }
    return least;
  }

  bool AllCalm() const {
    return std::all_of(members_.begin(), members_.end(),
                       [&](const Member& member) { return member.calm >= options_.samples; });
  }

  // The entry of a task.
  void Add(std::size_t i) {
    const Member& member = members_[i];
    std::vector<std::size_t> order(member.micros.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return member.slowdowns[a] < member.slowdowns[b]; });
    order.resize(std::min(order.size(), std::max(member.calm, options_.samples)));
    std::vector<double> device_micros;
    for (const std::size_t sample : order) device_micros.push_back(member.micros[sample]);
    const std::string& signature = tasks_[i].signature;
    if (order.size() > member.calm) result_.disturbed[signature] = order.size() - member.calm;
    if (Spread(device_micros) > options_.wide_spread) result_.too_wide.push_back(signature);
    const double host_micros = member.host_micros.empty() ? 0 : Median(member.host_micros);
    std::vector<double> micros = device_micros;
    for (double& sample : micros) sample = std::max(sample, host_micros);
    result_.ops.push_back(Aggregate({.signature = signature,
                                     .device_kind = device_.kind(),
                                     .micros = std::move(micros),
                                     .kernels = member.kernels,
                                     .temp = member.temp}));
    if (device_.is_cpu()) return;
    result_.ops.back().host_micros = host_micros;
    result_.ops.back().device_micros = Median(std::move(device_micros));
  }

  const std::vector<ProfileTask>& tasks_;
  HardwareDevice& device_;
  OpMeter& meter_;
  const OpProfilerOptions& options_;
  DisturbanceWatch watch_;
  double left_seconds_;
  WholeStep step_;
  std::vector<std::optional<std::size_t>> task_of_;  // by OpId
  std::vector<Member> members_;                      // by task
  OpProfilerResult result_;
};

}  // namespace

bool IsRecordedProgram(const Graph& graph) {
  bool computes = false;
  for (std::size_t n = 0; n < graph.num_ops(); ++n) {
    if (IsData(graph, MakeId<OpId>(n))) continue;
    if (!graph.op(MakeId<OpId>(n)).kind.starts_with("aten::")) return false;
    computes = true;
  }
  return computes;
}

std::vector<OpId> ProgramOrder(const Graph& graph) {
  const auto in_file = graph.file_order();
  std::vector<bool> done(graph.num_ops());
  for (const OpId op : in_file) {
    const auto is_done = [&](OpId other) { return done[Index(other)]; };
    const auto inputs = graph.inputs(op);
    const auto controls = graph.control_inputs(op);
    if (!std::all_of(controls.begin(), controls.end(), is_done) ||
        !std::all_of(inputs.begin(), inputs.end(), [&](TensorId id) { return is_done(graph.tensor(id).producer); })) {
      std::vector<OpId> canonical;
      for (std::size_t n = 0; n < graph.num_ops(); ++n) canonical.push_back(MakeId<OpId>(n));
      return canonical;
    }
    done[Index(op)] = true;
  }
  return {in_file.begin(), in_file.end()};
}

Bytes MemoryOfSteps(const Graph& graph) {
  const PlacedProgram program = MakePlacedProgram(graph, Placement(graph.num_ops()), 1);
  std::vector<std::uint32_t> left;
  for (const PlacedProgram::Slot& slot : program.slots) left.push_back(slot.uses);
  Bytes in_use;
  Bytes data;
  Bytes peak;
  for (const OpId op : ProgramOrder(graph)) {
    const PlacedProgram::Step& step = program.steps[Index(op)];
    for (const std::uint32_t slot : step.outputs) (IsData(graph, op) ? data : in_use) += program.slots[slot].size;
    if (IsData(graph, op)) continue;
    peak = std::max(peak, in_use + graph.op(op).temp);
    for (const std::uint32_t slot : step.outputs) {
      if (left[slot] == 0) in_use -= program.slots[slot].size;
    }
    for (const std::uint32_t slot : step.frees) {
      if (--left[slot] == 0 && !IsData(graph, graph.tensor(program.slots[slot].tensor).producer)) {
        in_use -= program.slots[slot].size;
      }
    }
  }
  return data + peak;
}

OpProfilerResult ProfileSteps(const Graph& graph, const std::vector<ProfileTask>& tasks, HardwareDevice& device,
                              OpMeter& meter, const OpProfilerOptions& options,
                              const std::function<void(const OpProfilerProgress&)>& on_step) {
  device.Attach();
  return StepProfiler(graph, tasks, device, meter, options).Measure(on_step);
}

}  // namespace emplace::profiler
