#ifndef EMPLACE_DATASETS_IMPORTERS_KINETO_H_
#define EMPLACE_DATASETS_IMPORTERS_KINETO_H_

#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/kineto_trace.h"
#include "datasets/importers/registry.h"

namespace emplace::datasets {

// A simulation that lacks more than this of a measured step is warned of, in per cent.
inline constexpr double kWarnUnexplained = 2;
// How notes tell the share of a measured step that a simulation does not explain: "warning: ", or "" up to
// kWarnUnexplained; then "1.25 %", and never "-0.00 %".
std::string_view UnexplainedWarning(double percent);
std::string UnexplainedShare(double percent);

// Host threads of traces are devices of this kind.
inline constexpr std::string_view kTraceThreadKind = "host-cpu";

// "aten::addmm" is "aten.addmm": names of ops hold no colon.
std::string WithoutColons(std::string_view text);
// The first 100 bytes at most, not cut inside of a character: names of kernels have up to thousands.
std::string_view ShortName(std::string_view name);
// "NVIDIA H100 80GB HBM3" is "h100", as in the catalogue, and "NVIDIA H100 PCIe" the kind "h100-pcie", which is not in
// it; of a name without such a word, its words.
std::string KindOfGpu(std::string_view name);

// The step of a trace, or of several ranks' traces, as a graph on its own cluster (trace_step.h has the rules):
//
//   in the trace                     in the graph
//   thread, stream                   a device
//   stretch of a thread              an op of kind `host` or `wait`
//   op range, in traces of a CPU     an op of its operator's kind; of kind `host` if it calls others
//   allocation, in traces of a CPU   an output, which is read by the op that releases it; `temp_bytes`
//   kernel, copy, set                an op of kind `kernel`, `collective`, `memcpy` or `memset`
//   order, launches, waits           control inputs
//   durations                        `time_us`, on the kind of the device where it ran
//   op ranges                        `layer`: the outermost one; attrs `op`, `input_dims`, `input_types`,
//   `input_values`: the innermost one; `op_call` and `op_kernels`: which it is and how many kernels it has, of several;
//   `tf32`: the name of one of these says that its products are in TF32
//   from a call to its kernel        the latency of the link from threads to streams: the median on idle streams
//   between two queued kernels       the stream's `op_gap_us`: the mean
//   what was launched before         an op of kind `backlog`: its stream is busy with it, or held by it
//
// The measured step is in Imported::placement and Imported::measured, and in the graph's metadata; so is the share of
// it that a simulation does not explain. `step`: as in RebuildStep.
// Throws InputError if less than `min_attributed` per cent of the device time belongs to a call, or if most of it was
// launched before the window.
Imported MakeTraceGraph(const std::vector<KinetoTrace>& traces, double min_attributed, std::string_view step = "");

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_KINETO_H_
