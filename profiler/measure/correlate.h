#ifndef EMPLACE_PROFILER_MEASURE_CORRELATE_H_
#define EMPLACE_PROFILER_MEASURE_CORRELATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/activity.h"

namespace emplace::profiler {

// A launch reaches the device some µs after its call returned, in ns. Generous.
inline constexpr std::int64_t kLaunchLatency = 20'000;

struct CorrelateOptions {
  // The offset of the host's clock from the device's, in ns, which is added to every time of a device.
  std::int64_t device_clock_offset = 0;
  // Nothing starts before the call that started it; clocks that were fitted to each other may say so by this much, in
  // ns. More is an error: the offset is wrong.
  std::int64_t clock_tolerance = 50'000;
};

// The activity of one run of an op on one device, in ns of the host's clock.
struct DeviceRun {
  int device = 0;
  std::int64_t busy = 0;  // union of the intervals of its kernels, copies and sets: streams may overlap
  // Idle times between one of them and the next, although that had been launched kLaunchLatency before: what the device
  // alone loses. Where it waited for the host is not counted.
  std::int64_t gaps = 0;
  std::int64_t first_start = 0;  // earliest start of any of them
  std::int64_t last_end = 0;
  std::int64_t launch_end = 0;  // time at which the host's call that started the first of them returned
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
  std::int64_t sets = 0;
};

struct OpRun {
  std::uint64_t op = 0;
  std::uint64_t thread = 0;
  std::int64_t start = 0;  // start on the host
  std::int64_t end = 0;
  std::vector<DeviceRun> devices;  // ascending; empty if it launched nothing on any device
};

// For each op range what the devices did for it, by start on the host (equal ones: longer first, then in the trace's
// order). An activity belongs to the call with its correlation id, and that to the innermost op range around it on the
// same thread. External ids are not used: in traces of older profilers they are something else.
//
// Throws ActivityError, because a profile without these would look right, if: records were dropped; an interval has no
// start or end, or ends before it starts; an activity has no call, or its call is within no op (all are counted, some
// named); a launch of a kernel left no record; one correlation id is that of two calls of which neither is within the
// other; an activity starts before its call; op ranges of one thread overlap without one being within the other.
// Cost: O(n log n).
std::vector<OpRun> Correlate(const ActivityTrace& trace, const CorrelateOptions& options = {});

// How long `device` was idle between one op and the next, in µs, although the next had already reached it when the one
// before ended (its launch had returned `latency` ns before): what the device alone loses between ops. In the order of
// starts on the device. Ops that overlap or that the device waited for give no sample.
std::vector<double> GapMicros(std::span<const OpRun> runs, int device, std::int64_t latency = kLaunchLatency);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_CORRELATE_H_
