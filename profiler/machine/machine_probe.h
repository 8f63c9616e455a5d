#ifndef EMPLACE_PROFILER_MACHINE_MACHINE_PROBE_H_
#define EMPLACE_PROFILER_MACHINE_MACHINE_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace emplace::profiler {

// What is probed of the CPU at hand. The defaults take a few seconds.
struct ProbeOptions {
  std::size_t threads = 0;       // 0: as many as the process may run at once
  std::int64_t cache_bytes = 0;  // of the last cache; 0: as the system says
  std::string folder = {};       // on the disk whose read rate is measured; "": none
  std::size_t runs = 5;
  double seconds = 0.3;                               // a run takes at least
  std::int64_t disk_bytes = std::int64_t{256} << 20;  // of the file that is read
};

// A rate that was measured several times.
struct ProbedRate {
  std::vector<double> runs;
  double median() const;
  double SpreadPercent() const;  // from the slowest to the fastest run, of the median
};
// Rates that spread further are no measurement: others use the machine.
inline constexpr double kMostSpreadPercent = 10;

struct MachineProbe {
  std::size_t threads = 0;
  std::int64_t cache_bytes = 0;
  std::int64_t array_bytes = 0;  // of each of the three arrays
  ProbedRate gb_per_s;           // of memory
  ProbedRate tflop_per_s;        // f32, a multiply-add is 2 FLOP
  std::optional<ProbedRate> disk_gb_per_s;
};

// Measures the CPU's memory with the triad a = b + s * c of STREAM (McCalpin 1995), on all threads, over arrays that
// together have at least four times the size of the last cache: 24 bytes for each element, as STREAM counts them. FLOP
// are those of independent multiply-adds in the processor's widest registers. The disk is read past the page cache from
// a file that is written first and removed. Throws InputError where the memory at hand does not hold the arrays, and
// where the folder cannot be written or read past the cache.
MachineProbe ProbeMachine(const ProbeOptions& options);

// The machine as a cluster of one CPU, "cpu:0", of a kind of its own that has the medians. `memory` is what is free.
Cluster ProbedCluster(const MachineProbe& probe, const std::string& host, std::optional<Bytes> memory,
                      const std::string& source);

// What the system says is free for programs, in bytes; none where it does not say.
std::optional<Bytes> AvailableMemory();

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MACHINE_MACHINE_PROBE_H_
