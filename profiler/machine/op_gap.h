#ifndef EMPLACE_PROFILER_MACHINE_OP_GAP_H_
#define EMPLACE_PROFILER_MACHINE_OP_GAP_H_

#include "profiler/hardware.h"

namespace emplace::profiler {

// How long a device idles between two ops that could follow each other at once, in µs: what the hardware runner needs
// to tell who waits, to free tensors and to fetch the next op. The median over a chain of ops on one number, several
// steps of it. For a device that is never behind (a CPU); a GPU's gaps are seen in its activities (correlate.h).
double MeasureOpGap(HardwareDevice& device);

// The same for a device that runs behind its host, in µs: by how much longer the host is busy with an op of that chain
// than with the op's call alone, which its profiled time includes.
double MeasureHostGap(HardwareDevice& device);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MACHINE_OP_GAP_H_
