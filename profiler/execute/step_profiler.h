#ifndef EMPLACE_PROFILER_EXECUTE_STEP_PROFILER_H_
#define EMPLACE_PROFILER_EXECUTE_STEP_PROFILER_H_

#include <functional>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/op_profiler.h"
#include "sim/base/units.h"
#include "sim/graph.h"

namespace emplace::profiler {

// Whether the graph is a program that PyTorch has run or captured: all that it computes are ATen's operators.
bool IsRecordedProgram(const Graph& graph);

// The ops in the order of the file, which is that of a recorded program; in canonical order if the file has an op
// before one that it needs.
std::vector<OpId> ProgramOrder(const Graph& graph);

// What one device holds at most while it runs the ops in program order: inputs and variables throughout, what an op
// makes until its last reader has run, and temporary memory.
Bytes MemoryOfSteps(const Graph& graph);

// Measures the tasks, which are ops of the graph (MissingOps), within whole steps: the device runs all ops again and
// again in program order, each on the tensors that the ops before it made. Caches, layouts and memory are thus those of
// a step. Two steps fill caches and allocate; then follow `options.samples` steps, and more until each task has as many
// samples that nobody disturbed, for options.patience_seconds at most. An op that a step has several times has a sample
// of each. The samples that nobody disturbed count, or as many of the least disturbed ones. The other options that
// it uses are known_probe_micros, seed and log. Called from the thread that becomes the device's own, as ProfileOps is,
// whose rules for devices that run behind the host apply. Throws InputError(op name) where an op cannot run, and
// DeviceOutOfMemory.
OpProfilerResult ProfileSteps(const Graph& graph, const std::vector<ProfileTask>& tasks, HardwareDevice& device,
                              OpMeter& meter, const OpProfilerOptions& options,
                              const std::function<void(const OpProfilerProgress&)>& on_step);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_STEP_PROFILER_H_
