#ifndef EMPLACE_SIM_TIMELINE_H_
#define EMPLACE_SIM_TIMELINE_H_

#include <iosfwd>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace {

// The full record of one step. Times in µs from the start of the step.
struct Timeline {
  struct OpRun {
    OpId op{};
    DeviceId device{};
    double start_micros = 0;
    double end_micros = 0;
    // When an issue lane was busy with it; both 0 where none feeds the device.
    double issue_start_micros = 0;
    double issue_end_micros = 0;
  };
  // One tensor on its way to one device.
  struct Transfer {
    TensorId tensor{};
    DeviceId from{};
    DeviceId to{};
    double start_micros = 0;
    double arrival_micros = 0;
  };
  // Memory in use on a device from `micros` on, until the next sample of that device.
  struct MemorySample {
    DeviceId device{};
    double micros = 0;
    Bytes in_use;
  };
  std::vector<OpRun> ops;            // in the order in which they started
  std::vector<OpId> issued;          // those that issue lanes issued, in that order
  std::vector<Transfer> transfers;   // in the order in which they were queued
  std::vector<MemorySample> memory;  // ordered by device, then by time; empty unless peak memory was requested
};

// Chrome trace events (JSON), which Perfetto and chrome://tracing open: one process per device; one thread for ops, one
// for outgoing transfers; a counter track for memory. `ts` and `dur` in µs.
void WriteChromeTrace(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster);

}  // namespace emplace

#endif  // EMPLACE_SIM_TIMELINE_H_
