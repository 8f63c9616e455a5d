#ifndef EMPLACE_PROFILER_MEASURE_TRANSFER_BENCH_H_
#define EMPLACE_PROFILER_MEASURE_TRANSFER_BENCH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "profiler/clock.h"
#include "profiler/hardware.h"
#include "profiler/measure/link_fit.h"
#include "sim/base/units.h"
#include "sim/profile.h"

namespace emplace::profiler {

struct TransferOptions {
  // 1 KiB to 256 MiB in powers of 4: a fit over them sees latency and bandwidth alike.
  std::vector<Bytes> sizes = DefaultSizes();
  int repeats = 9;   // copies of each size over each link, spread over the whole measurement
  int warm_ups = 1;  // not counted
  // A size that is more than this part of the smaller device's memory is left out: the copies exist at the same time.
  double largest_part_of_memory = 0.125;

  static std::vector<Bytes> DefaultSizes();
};

// Copies from one device to another.
struct LinkMeasurement {
  std::string from;  // device names
  std::string to;
  std::string from_kind;
  std::string to_kind;
  bool between_cores = false;       // both devices are CPU cores
  std::vector<LinkSample> samples;  // in the order of measurement
  std::vector<Bytes> left_out;      // sizes that did not fit
  LinkFit fit;
};

// An ordered pair of devices.
struct DevicePair {
  HardwareDevice* from = nullptr;
  HardwareDevice* to = nullptr;
};

// Measures the links of these pairs, one copy at a time: what two copies at once cost each other is not seen. A copy is
// made as a placed graph makes it, by a thread of the device that it leaves (AttachCopier: on its core), memory for it
// included. `progress` (may be empty) is called with the number of copies done and of all, by other threads, one at a
// time.
// Returns them in the order of `pairs`. Throws InputError(pair) if too little fits to be fitted, and what the devices
// throw but for DeviceOutOfMemory.
std::vector<LinkMeasurement> MeasureTransfers(std::span<const DevicePair> pairs, const TransferOptions& options,
                                              const Clock& clock,
                                              const std::function<void(std::int64_t, std::int64_t)>& progress = {});

// By the kinds of devices, as a profile has them: one fit for all samples of links between the same kinds, in the order
// in which kinds come first. Where links between the same kinds differ (one GPU reached over NVLink, another over
// PCIe), each follows with the names of its devices: where copies of 64 KiB or of 16 MiB take 1.25 times as long over
// one as over another. Those between cores never do: they go through one memory. Between kinds that `known` has, whose
// links differ, there are only those with names.
std::vector<Profile::LinkEntry> EntriesOf(std::span<const LinkMeasurement> links,
                                          std::span<const Profile::LinkEntry> known = {});

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_TRANSFER_BENCH_H_
