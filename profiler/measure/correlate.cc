#include "profiler/measure/correlate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sim/base/json_text.h"

namespace emplace::profiler {
namespace {

constexpr std::size_t kMostNamed = 3;  // limit for events of one kind of error in a message
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// Kernels, copies and sets alike, in the host's time.
struct Activity {
  enum class Kind : std::uint8_t { kKernel, kCopy, kSet };
  Kind kind;
  std::uint32_t correlation;
  int device;
  std::int64_t start;
  std::int64_t end;
  const std::string* kernel = nullptr;
};

std::string NameOf(const Activity& activity) {
  const std::string id = " (correlation id " + std::to_string(activity.correlation) + ")";
  switch (activity.kind) {
    case Activity::Kind::kKernel:
      return "kernel " + Quoted(*activity.kernel) + id;
    case Activity::Kind::kCopy:
      return "a memory copy" + id;
    case Activity::Kind::kSet:
      return "a memory set" + id;
  }
  return "";
}

// Collects what is wrong alike, to say it once.
class Complaint {
 public:
  void Add(const std::string& who) {
    if (++count_ <= kMostNamed) names_ += (names_.empty() ? "" : ", ") + who;
  }
  // Throws ActivityError if there was anything.
  void Throw(const std::string& problem) const {
    if (count_ == 0) return;
    throw ActivityError(std::to_string(count_) + " " + problem + ": " + names_ + (count_ > kMostNamed ? ", ..." : ""));
  }

 private:
  std::size_t count_ = 0;
  std::string names_;
};

void CheckInterval(std::int64_t start, std::int64_t end, const std::string& who) {
  if (start == 0) throw ActivityError(who + " has no start time");
  if (end == 0) throw ActivityError(who + " has no end time");
  if (end < start) {
    throw ActivityError(who + " ends at " + std::to_string(end) + " ns, before it starts at " + std::to_string(start) +
                        " ns");
  }
}

void CheckTrace(const ActivityTrace& trace) {
  if (trace.dropped > 0) {
    throw ActivityError(std::to_string(trace.dropped) + " records were dropped (expected none)");
  }
  for (const RuntimeCall& call : trace.calls) {
    CheckInterval(call.start, call.end, "call " + call.name + " " + std::to_string(call.correlation));
  }
  for (const OpRange& op : trace.ops) CheckInterval(op.start, op.end, "the range of op " + std::to_string(op.op));
}

// Everything that devices did, by start.
std::vector<Activity> ActivitiesOf(const ActivityTrace& trace, std::int64_t offset) {
  std::vector<Activity> activities;
  activities.reserve(trace.kernels.size() + trace.copies.size() + trace.sets.size());
  const auto add = [&](Activity::Kind kind, const auto& record, const std::string* kernel) {
    Activity activity{kind, record.correlation, record.device, record.start, record.end, kernel};
    CheckInterval(record.start, record.end, NameOf(activity));
    activity.start += offset;
    activity.end += offset;
    activities.push_back(activity);
  };
  for (const KernelActivity& kernel : trace.kernels) add(Activity::Kind::kKernel, kernel, &kernel.name);
  for (const MemcpyActivity& copy : trace.copies) add(Activity::Kind::kCopy, copy, nullptr);
  for (const MemsetActivity& set : trace.sets) add(Activity::Kind::kSet, set, nullptr);
  std::stable_sort(activities.begin(), activities.end(),
                   [](const Activity& a, const Activity& b) { return a.start < b.start; });
  return activities;
}

// Positions ordered by thread, then by start, then by descending length, so that an enclosing range comes before what
// it encloses.
template <typename Interval>
std::vector<std::size_t> OuterFirst(const std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      return std::make_tuple(intervals[i].thread, intervals[i].start, -intervals[i].end);
    };
    return key(a) < key(b);
  });
  return order;
}

template <typename Outer, typename Inner>
bool Within(const Inner& inner, const Outer& outer) {
  return inner.thread == outer.thread && outer.start <= inner.start && inner.end <= outer.end;
}

// For each call of the trace the position of the innermost op range around it, or kNone. One sweep over both in order,
// with the ranges that are open now on a stack.
std::vector<std::size_t> InnermostOps(const ActivityTrace& trace) {
  std::vector<std::size_t> found(trace.calls.size(), kNone);
  const std::vector<std::size_t> ranges = OuterFirst(trace.ops);
  std::vector<std::size_t> open;
  std::size_t next = 0;
  const auto is_over = [&](std::size_t range, std::uint64_t thread, std::int64_t start) {
    return trace.ops[range].thread != thread || trace.ops[range].end <= start;
  };
  const auto enter = [&](std::size_t entered) {
    const OpRange& range = trace.ops[entered];
    while (!open.empty() && is_over(open.back(), range.thread, range.start)) open.pop_back();
    if (!open.empty() && !Within(range, trace.ops[open.back()])) {
      throw ActivityError("the ranges of ops " + std::to_string(trace.ops[open.back()].op) + " and " +
                          std::to_string(range.op) + " overlap on one thread, neither within the other");
    }
    open.push_back(entered);
  };
  for (const std::size_t position : OuterFirst(trace.calls)) {
    const RuntimeCall& call = trace.calls[position];
    const auto begun = [&](const OpRange& range) {
      return std::tie(range.thread, range.start) <= std::tie(call.thread, call.start);
    };
    while (next < ranges.size() && begun(trace.ops[ranges[next]])) enter(ranges[next++]);
    for (std::size_t i = open.size(); i-- > 0 && found[position] == kNone;) {
      if (Within(call, trace.ops[open[i]])) found[position] = open[i];
    }
  }
  while (next < ranges.size()) enter(ranges[next++]);
  return found;
}

// For each correlation id its call: the outermost, if it is that of a call and of one within it.
std::unordered_map<std::uint32_t, std::size_t> CallsById(const std::vector<RuntimeCall>& calls) {
  std::unordered_map<std::uint32_t, std::size_t> by_id;
  for (const std::size_t position : OuterFirst(calls)) {
    const auto [entry, is_new] = by_id.emplace(calls[position].correlation, position);
    if (!is_new && !Within(calls[position], calls[entry->second])) {
      throw ActivityError("correlation id " + std::to_string(calls[position].correlation) + " is that of two calls, " +
                          calls[entry->second].name + " and " + calls[position].name + ", neither within the other");
    }
  }
  return by_id;
}

// A launch and the launches within it are one. Throws ActivityError if none of them has a kernel.
void CheckLaunches(const std::vector<RuntimeCall>& calls, const std::vector<Activity>& activities) {
  std::unordered_set<std::uint32_t> seen;
  for (const Activity& activity : activities) {
    if (activity.kind == Activity::Kind::kKernel) seen.insert(activity.correlation);
  }
  Complaint lost;
  const RuntimeCall* outer = nullptr;
  bool was_seen = true;
  const auto close = [&] {
    if (outer != nullptr && !was_seen) lost.Add(outer->name + " " + std::to_string(outer->correlation));
  };
  for (const std::size_t position : OuterFirst(calls)) {
    const RuntimeCall& call = calls[position];
    if (!call.launches_kernel) continue;
    if (outer == nullptr || !Within(call, *outer)) {
      close();
      outer = &call;
      was_seen = false;
    }
    was_seen = was_seen || seen.contains(call.correlation);
  }
  close();
  lost.Throw("launches of kernels left no record of a kernel");
}

// Activities come by start, so that the union grows at its end only.
void AddTo(OpRun* run, const Activity& activity, const RuntimeCall& call) {
  auto device = std::find_if(run->devices.begin(), run->devices.end(),
                             [&](const DeviceRun& known) { return known.device == activity.device; });
  if (device == run->devices.end()) {
    device = run->devices.insert(device, DeviceRun{});
    device->device = activity.device;
    device->first_start = activity.start;
    device->last_end = activity.start;
    device->launch_end = call.end;
  }
  if (activity.start > device->last_end && call.end + kLaunchLatency <= device->last_end) {
    device->gaps += activity.start - device->last_end;
  }
  device->busy += std::max<std::int64_t>(0, activity.end - std::max(activity.start, device->last_end));
  device->last_end = std::max(device->last_end, activity.end);
  device->kernels += activity.kind == Activity::Kind::kKernel ? 1 : 0;
  device->copies += activity.kind == Activity::Kind::kCopy ? 1 : 0;
  device->sets += activity.kind == Activity::Kind::kSet ? 1 : 0;
}

// Gives each activity to the run, by position in trace.ops, that it belongs to.
void Join(const ActivityTrace& trace, const CorrelateOptions& options, std::vector<OpRun>* runs) {
  const std::vector<Activity> activities = ActivitiesOf(trace, options.device_clock_offset);
  const std::unordered_map<std::uint32_t, std::size_t> calls = CallsById(trace.calls);
  const std::vector<std::size_t> op_of_call = InnermostOps(trace);
  CheckLaunches(trace.calls, activities);
  Complaint without_call, outside, early;
  for (const Activity& activity : activities) {
    const auto found = calls.find(activity.correlation);
    if (found == calls.end()) {
      without_call.Add(NameOf(activity));
      continue;
    }
    const RuntimeCall& call = trace.calls[found->second];
    if (activity.start < call.start - options.clock_tolerance) early.Add(NameOf(activity));
    if (const std::size_t op = op_of_call[found->second]; op != kNone) {
      AddTo(&(*runs)[op], activity, call);
    } else {
      outside.Add(NameOf(activity));
    }
  }
  without_call.Throw("activities have no call of the host");
  outside.Throw("activities were started outside any op");
  early.Throw("activities start before the calls that started them (is the clocks' offset right?)");
}

}  // namespace

std::vector<OpRun> Correlate(const ActivityTrace& trace, const CorrelateOptions& options) {
  CheckTrace(trace);
  std::vector<OpRun> runs(trace.ops.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i] = {trace.ops[i].op, trace.ops[i].thread, trace.ops[i].start, trace.ops[i].end, {}};
  }
  Join(trace, options, &runs);
  for (OpRun& run : runs) {
    std::sort(run.devices.begin(), run.devices.end(),
              [](const DeviceRun& a, const DeviceRun& b) { return a.device < b.device; });
  }
  std::stable_sort(runs.begin(), runs.end(), [](const OpRun& a, const OpRun& b) {
    return std::make_pair(a.start, -a.end) < std::make_pair(b.start, -b.end);
  });
  return runs;
}

std::vector<double> GapMicros(std::span<const OpRun> runs, int device, std::int64_t latency) {
  std::vector<const DeviceRun*> on_device;
  for (const OpRun& run : runs) {
    for (const DeviceRun& part : run.devices) {
      if (part.device == device) on_device.push_back(&part);
    }
  }
  std::stable_sort(on_device.begin(), on_device.end(),
                   [](const DeviceRun* a, const DeviceRun* b) { return a->first_start < b->first_start; });
  std::vector<double> gaps;
  std::optional<std::int64_t> free;
  for (const DeviceRun* const next : on_device) {
    if (free && next->launch_end + latency <= *free && next->first_start >= *free) {
      gaps.push_back(static_cast<double>(next->first_start - *free) / 1000.0);
    }
    free = std::max(free.value_or(next->last_end), next->last_end);
  }
  return gaps;
}

}  // namespace emplace::profiler
