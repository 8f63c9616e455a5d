#ifndef EMPLACE_DATASETS_IMPORTERS_TRACE_STEP_H_
#define EMPLACE_DATASETS_IMPORTERS_TRACE_STEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/kineto_trace.h"

namespace emplace::datasets {

// A measured step, taken apart: ops on host threads and GPU streams, and what each waits for. Times in ns from the
// start of the step. It is what the trace says of causes; when each op starts is for a simulation to find out.
struct TraceStep {
  static constexpr std::uint32_t kNone = ~0U;

  enum class OpType : std::uint8_t {
    kHost,        // a stretch of a host thread, up to what it starts or waits for
    kRange,       // an op range of a trace without a device, without the ranges inside it
    kWait,        // work of a host thread after the end of a wait
    kArrival,     // a rank's part of a collective has started and waits for the other ranks; takes no time
    kKernel,      // an activity on a GPU stream, as are the next kinds
    kCollective,  // the part of a collective after all ranks have arrived; without other ranks all of it
    kCopy,
    kSet,
    kBacklog,  // work of a stream that was launched before the step, with its pauses, as measured
  };
  struct Op {
    OpType type = OpType::kHost;
    std::uint32_t device = 0;
    std::int64_t time = 0;
    std::uint32_t event = kNone;       // index in the trace of its rank; for a host op, the call that ends it
    std::uint32_t source = kNone;      // the innermost op range of the trace around the call, an event
    std::uint32_t outer = kNone;       // the outermost one
    std::vector<std::uint32_t> after;  // ops that must end first
    std::int64_t measured_start = 0;
    std::int64_t temp_bytes = 0;   // memory that lives while it runs
    bool calls_operators = false;  // a range around others, which do its work
  };
  // When a stream was busy with its backlog.
  struct Busy {
    std::uint32_t device = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  // A GPU activity as it was measured: from the start of op `first` to the end of op `last`; mostly one op. In a trace
  // without a device, an op range, at whose end its own time stands.
  struct Activity {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::uint32_t device = 0;
  };
  // Memory that an op allocates and a later op of its device is the last to use.
  struct Tensor {
    std::uint32_t from = 0;
    std::uint32_t to = 0;  // `from`: nothing but this op uses it
    std::int64_t bytes = 0;
  };
  struct Device {
    std::string name;  // "thread 1102", "gpu 0 stream 7"; with "rank 3 " in front where there are several ranks
    std::size_t rank = 0;
    bool is_stream = false;
    std::int64_t gpu = 0;           // a stream's
    std::int64_t launch_delay = 0;  // a stream's: from the end of a call to the start of what it launched
    std::int64_t gap = 0;           // a stream's: between two activities if the second was queued long before
  };

  std::vector<Op> ops;
  std::vector<Device> devices;
  std::vector<Activity> activities;
  std::vector<Busy> backlog;  // ordered by device, then by start
  std::vector<Tensor> tensors;
  std::optional<std::int64_t> peak_bytes;  // of allocated memory, as measured
  std::int64_t measured_time = 0;          // time from the first start to the last end
  // Device time, in ns: of the step's activities; of those whose call is known; of those whose call is inside an op
  // range.
  std::int64_t activity_time = 0;
  std::int64_t launched_time = 0;
  std::int64_t named_time = 0;
  // And of those that were launched before the window: what of it is inside the step, and the rest.
  std::int64_t backlog_time = 0;
  std::int64_t trimmed_time = 0;
  std::size_t steps = 0;             // annotations ProfilerStep#N that all traces have
  std::optional<std::int64_t> step;  // the number of the one that was taken; none: all of the window
  std::vector<std::string> notes;
};

// Rebuilds the step of one trace, or of several ranks' traces. The rules, in docs/formats.md#kineto:
//
//   - An activity belongs to the call with its correlation id, and that to the innermost op range around it on its
//     thread.
//   - Of several annotations ProfilerStep#N one is taken: the calls that start in it, what they started, and nothing
//     else. The step begins when the one before it has ended on the GPU too.
//   - Activities without a call before the first of their stream that has one were launched before the window. What is
//     before the step is trimmed. The rest holds its stream as it did when it was measured: the stream's backlog.
//   - Other activities without a call hold their stream too, in their order, and count as not attributed.
//   - A thread's time between two calls that start or wait for something is one host op, pauses included. A pause in
//     which another thread of the process worked, and stopped before the pause ended, is a wait for that thread.
//   - A call that waits (synchronisations, blocking copies, frees, launches into a full queue) is split: the part
//   behind
//     what it waited for is an op of its own.
//   - Activities of one stream run in their order. One that starts before the one before it ends takes the rest only.
//   - Streams wait for each other where a recorded wait says so, or, in traces without such records, where a wait was
//     called and the start shows it.
//   - Collectives of several ranks are joined in their order within a process group.
//
//   - Ranks whose clocks differ are set right by their collectives, which end everywhere at the same time.
//   - In a trace of op ranges alone, each range is an op with the time that the ranges inside it do not have, and
//   stands
//     where the range ends. An op of the backward pass comes after its op of the forward pass.
//
// `which`: the number of a step; "all": the whole window; "": of several the median one.
// Throws InputError, its place a path in `traces`, if there is nothing to rebuild, if an id is that of two calls, and
// if the ranks' clocks contradict each other. Cost: O(n log n).
TraceStep RebuildStep(const std::vector<KinetoTrace>& traces, std::string_view which = "");
// The numbers of the steps that all traces have, in their order.
std::vector<std::int64_t> StepsOf(const std::vector<KinetoTrace>& traces);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TRACE_STEP_H_
