#include "profiler/machine/machine_profiler.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "profiler/device_thread.h"
#include "profiler/execute/step_profiler.h"
#include "profiler/machine/op_gap.h"
#include "profiler/measure/aggregate.h"
#include "profiler/measure/transfer_bench.h"
#include "sim/base/check.h"
#include "sim/base/human_readable.h"

namespace emplace::profiler {
namespace {

class MachineProfiler {
 public:
  MachineProfiler(const Graph& graph, const MachineProfilerOptions& options, Profile* profile,
                  const std::function<void(const Profile&)>& on_saved,
                  const std::function<void(const MachineProfilerProgress&)>& on_progress)
      : graph_(graph),
        options_(options),
        profile_(*profile),
        on_saved_(on_saved),
        on_progress_(on_progress),
        patience_seconds_(options.ops.patience_seconds) {}

  MachineProfilerResult Extend(std::span<HardwareDevice* const> devices) {
    std::set<std::string> kinds;
    for (HardwareDevice* const device : devices) {
      if (kinds.insert(device->kind()).second) MeasureDevice(*device);
    }
    if (options_.links) MeasureLinks(devices);
    if (options_.contention) MeasureNeighbours(devices);
    for (const auto& [op, count] : disturbed_) result_.disturbed += count;
    return std::move(result_);
  }

 private:
  void MeasureDevice(HardwareDevice& device) {
    const Profile::DeviceEntry* const before = FindDevice(device.kind());
    probe_micros_ = before == nullptr ? std::nullopt : before->probe_micros;
    const std::unique_ptr<OpMeter> meter = options_.make_meter(device);
    const std::vector<ProfileTask> tasks = MissingOps(graph_, profile_, device.kind());
    result_.new_ops[device.kind()] = tasks.size();
    result_.known_ops[device.kind()] = MissingOps(graph_, {}, device.kind()).size() - tasks.size();
    if (!tasks.empty()) MeasureOps(device, *meter, tasks);
    const std::vector<ProfileTask> again = WithTooFewSamples(device.kind());
    result_.sampled_again += again.size();
    if (!again.empty()) MeasureOps(device, *meter, again);
    NoteSpread(device.kind(), tasks, again);
    Profile::DeviceEntry* const known = FindDevice(device.kind());
    if (known != nullptr) {
      if (std::exchange(known->probe_micros, probe_micros_) != probe_micros_) on_saved_(profile_);
      return;
    }
    const double gap = device.is_cpu()
                           ? MeasureOpGap(device)
                           : std::max(AggregateGap(GapsOf(device, *meter), device.kind()), MeasureHostGap(device));
    profile_.devices.push_back({.kind = device.kind(),
                                .backend = device.is_cpu() ? "clock" : "cupti",
                                .op_gap_micros = gap,
                                .probe_micros = probe_micros_});
    on_saved_(profile_);
  }

  static std::vector<double> GapsOf(HardwareDevice& device, OpMeter& meter) {
    DeviceThread thread;
    std::vector<double> gaps;
    thread.Run([&] {
      device.Attach();
      gaps = meter.MeasureGaps();
    });
    return gaps;
  }

  Profile::DeviceEntry* FindDevice(const std::string& kind) {
    const auto found = std::find_if(profile_.devices.begin(), profile_.devices.end(),
                                    [&](const auto& entry) { return entry.kind == kind; });
    return found == profile_.devices.end() ? nullptr : &*found;
  }

  // The ops that take most of the step but have fewer samples than were asked for: they are slow, or an earlier run
  // asked for fewer samples.
  std::vector<ProfileTask> WithTooFewSamples(const std::string& kind) const {
    const std::map<std::string, std::size_t> known = EntriesByName(kind);
    const std::vector<ProfileTask> timed = TimedTasks(graph_, profile_, kind);
    std::vector<ProfileTask> few;
    for (const std::size_t i : LargestTasks(graph_, timed, kMostOfAStep)) {
      const Profile::OpEntry& entry = profile_.ops[known.at(CanonicalSignature(timed[i].signature))];
      if (entry.samples >= static_cast<std::int64_t>(options_.ops.samples)) continue;
      few.push_back(timed[i]);
      few.back().fewest_samples = options_.ops.samples;
    }
    return few;
  }

  // Ops that were measured now, and the part of the step, whose samples are far apart.
  void NoteSpread(const std::string& kind, const std::vector<ProfileTask>& tasks,
                  const std::vector<ProfileTask>& again) {
    const std::map<std::string, std::size_t> known = EntriesByName(kind);
    const auto is_wide = [&](const std::string& signature) {
      const Profile::OpEntry& entry = profile_.ops[known.at(CanonicalSignature(signature))];
      if (!entry.p10_micros || !entry.p90_micros) return false;
      return *entry.p90_micros - *entry.p10_micros > options_.ops.wide_spread * entry.median_micros;
    };
    std::set<std::string> measured;
    for (const auto* const list : {&tasks, &again}) {
      for (const ProfileTask& task : *list) {
        if (measured.insert(task.signature).second && is_wide(task.signature)) {
          result_.too_wide.push_back(task.signature);
        }
      }
    }
    const std::vector<ProfileTask> timed = TimedTasks(graph_, profile_, kind);
    const std::vector<double> micros = MicrosInAStep(graph_, timed);
    double all = 0;
    double wide = 0;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      all += micros[i];
      if (is_wide(timed[i].signature)) wide += micros[i];
    }
    if (all > 0) result_.wide_share = std::max(result_.wide_share, wide / all);
  }

  // The profile's entries of a kind of device, by canonical signature.
  std::map<std::string, std::size_t> EntriesByName(const std::string& kind) const {
    std::map<std::string, std::size_t> entries;
    for (std::size_t i = 0; i < profile_.ops.size(); ++i) {
      if (profile_.ops[i].device == kind) entries[CanonicalSignature(profile_.ops[i].signature)] = i;
    }
    return entries;
  }

  void Save(const std::vector<Profile::OpEntry>& ops, std::map<std::string, std::size_t>* entries) {
    for (const Profile::OpEntry& op : ops) {
      const auto [found, is_new] = entries->try_emplace(CanonicalSignature(op.signature), profile_.ops.size());
      if (is_new) {
        profile_.ops.push_back(op);
        continue;
      }
      Profile::OpEntry& known = profile_.ops[found->second];
      const std::optional<double> contention = known.contention;
      known = op;
      known.contention = contention;
    }
    on_saved_(profile_);
  }

  void MeasureOps(HardwareDevice& device, OpMeter& meter, const std::vector<ProfileTask>& tasks) {
    DeviceThread thread;
    std::map<std::string, std::size_t> entries = EntriesByName(device.kind());
    OpProfilerOptions options = options_.ops;
    options.patience_seconds = patience_seconds_;
    options.known_probe_micros = probe_micros_;
    const auto show = [&](const OpProfilerProgress& progress) {
      on_progress_({.what = "ops on " + device.name(),
                    .done = progress.done,
                    .total = progress.total,
                    .seconds = progress.seconds});
    };
    std::optional<OpProfilerResult> in_steps;
    if (MayRunSteps(device)) {
      thread.Run([&] {
        try {
          in_steps = ProfileSteps(graph_, tasks, device, meter, options, show);
        } catch (const DeviceOutOfMemory& error) {
          meter.Abandon();
          StepsDoNotFit(device, error.what());
        }
      });
    }
    OpProfilerResult measured;
    if (in_steps) {
      measured = *std::move(in_steps);
      Save(measured.ops, &entries);
      result_.in_steps.insert(device.kind());
    } else {
      thread.Run([&] {
        measured = ProfileOps(tasks, device, meter, options,
                              [&](const OpProfilerProgress& progress, const std::vector<Profile::OpEntry>& ops) {
                                if (!ops.empty()) Save(ops, &entries);
                                show(progress);
                              });
      });
    }
    patience_seconds_ = measured.patience_seconds;
    probe_micros_ = measured.fastest_probe_micros;
    for (const ProfileTask& task : tasks) disturbed_.erase({device.kind(), task.signature});
    for (const auto& [signature, count] : measured.disturbed) disturbed_[{device.kind(), signature}] = count;
    result_.repeated_rounds += measured.repeated_rounds;
    result_.clocks.Add(measured.clock);
  }

  // Whether ops are sampled within whole steps, if these fit.
  bool MayRunSteps(const HardwareDevice& device) {
    if (options_.sampling == Sampling::kOps) return false;
    if (options_.sampling == Sampling::kAuto && !IsRecordedProgram(graph_)) return false;
    const Bytes needed = MemoryOfSteps(graph_);
    if (!device.memory() || needed <= *device.memory()) return true;
    StepsDoNotFit(device, "it takes " + HumanReadable(needed) + ", and there are " + HumanReadable(*device.memory()));
    return false;
  }

  void StepsDoNotFit(const HardwareDevice& device, const std::string& reason) {
    const std::string text = "a whole step does not fit in its memory (" + reason + ")";
    if (options_.sampling == Sampling::kSteps) throw InputError(device.name(), text);
    result_.not_in_steps = device.name() + ": " + text;
  }

  // Measures the contention between the first two CPUs of a kind.
  void MeasureNeighbours(std::span<HardwareDevice* const> devices) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      for (std::size_t k = i + 1; k < devices.size(); ++k) {
        if (!devices[i]->is_cpu() || devices[i]->kind() != devices[k]->kind()) continue;
        Profile::DeviceEntry* const entry = FindDevice(devices[i]->kind());
        if (entry != nullptr) MeasureContentionOn(*devices[i], *devices[k], entry);
      }
    }
  }

  // Measures the contention of those ops of the graph for which the profile has none.
  void MeasureContentionOn(HardwareDevice& device, HardwareDevice& neighbour, Profile::DeviceEntry* entry) {
    const std::map<std::string, std::size_t> known = EntriesByName(entry->kind);
    std::vector<ProfileTask> all = TimedTasks(graph_, profile_, entry->kind);
    for (const std::size_t i : LargestTasks(graph_, all, kMostOfAStep)) all[i].fewest_samples = options_.ops.samples;
    std::vector<ProfileTask> missing;
    std::vector<Profile::OpEntry*> ops;
    for (const ProfileTask& task : all) {
      Profile::OpEntry* const op = &profile_.ops[known.at(CanonicalSignature(task.signature))];
      if (op->contention) continue;
      missing.push_back(task);
      ops.push_back(op);
    }
    if (missing.empty()) return;
    const SteadyClock clock;
    const std::int64_t began = clock.NowNs();
    MeasureContention(
        missing, BusyworkOf(graph_, all, options_.contention_options.batch_memory), device, neighbour,
        options_.contention_options, clock,
        [&](std::size_t first, const std::vector<double>& factors) {
          for (std::size_t i = 0; i < factors.size(); ++i) ops[first + i]->contention = factors[i];
          entry->contention = ContentionByClass(profile_, entry->kind);
          on_saved_(profile_);
        },
        [&](std::size_t done) {
          on_progress_({.what = "contention",
                        .done = done,
                        .total = missing.size(),
                        .seconds = static_cast<double>(clock.NowNs() - began) / 1e9});
        });
  }

  // Measures the link of every ordered pair of devices for whose kinds the profile has no link, or only links of other
  // devices.
  void MeasureLinks(std::span<HardwareDevice* const> devices) {
    std::vector<DevicePair> pairs;
    for (HardwareDevice* const from : devices) {
      for (HardwareDevice* const to : devices) {
        if (from != to && !KnowsLink(*from, *to)) pairs.push_back({from, to});
      }
    }
    if (pairs.empty()) return;
    const SteadyClock clock;
    const std::int64_t began = clock.NowNs();
    const auto show = [&](std::int64_t done, std::int64_t total) {
      on_progress_({.what = "links",
                    .done = static_cast<std::size_t>(done),
                    .total = static_cast<std::size_t>(total),
                    .seconds = static_cast<double>(clock.NowNs() - began) / 1e9});
    };
    const std::vector<Profile::LinkEntry> links = EntriesOf(MeasureTransfers(pairs, {}, clock, show), profile_.links);
    profile_.links.insert(profile_.links.end(), links.begin(), links.end());
    on_saved_(profile_);
  }

  bool KnowsLink(const HardwareDevice& from, const HardwareDevice& to) const {
    bool knows_kinds = false;
    bool has_names = false;
    for (const Profile::LinkEntry& link : profile_.links) {
      if (link.from != from.kind() || link.to != to.kind()) continue;
      if (link.from_device == from.name() && link.to_device == to.name()) return true;
      knows_kinds = true;
      has_names |= !link.from_device.empty();
    }
    return knows_kinds && !has_names;
  }

  const Graph& graph_;
  const MachineProfilerOptions& options_;
  Profile& profile_;
  const std::function<void(const Profile&)>& on_saved_;
  const std::function<void(const MachineProfilerProgress&)>& on_progress_;
  MachineProfilerResult result_;
  double patience_seconds_ = 0;         // left
  std::optional<double> probe_micros_;  // the fastest of the kind of device that is measured
  std::map<std::pair<std::string, std::string>, std::size_t> disturbed_;  // samples by device kind and signature
};

}  // namespace

MachineProfilerResult ExtendProfile(const Graph& graph, std::span<HardwareDevice* const> devices,
                                    const MachineProfilerOptions& options, Profile* profile,
                                    const std::function<void(const Profile&)>& on_saved,
                                    const std::function<void(const MachineProfilerProgress&)>& on_progress) {
  return MachineProfiler(graph, options, profile, on_saved, on_progress).Extend(devices);
}

}  // namespace emplace::profiler
