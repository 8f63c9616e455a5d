#ifndef EMPLACE_DATASETS_IMPORTERS_KINETO_TRACE_H_
#define EMPLACE_DATASETS_IMPORTERS_KINETO_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/registry.h"

namespace emplace::datasets {

// What PyTorch's profiler (Kineto) writes, as far as a step can be rebuilt from it. The file is Chrome trace JSON: an
// object with the list `traceEvents`, or that list alone. Complete events ("ph": "X") of these categories are kept:
//
//   category here  `cat` in the file
//   kOp            cpu_op, Operator
//   kCall          cuda_runtime, hip_driver and so on: what ends in _runtime or _driver; Runtime, hpu_op
//   kKernel        kernel, Kernel, mtia_ccp_events; what ends in _kernel
//   kCopy          gpu_memcpy, Memcpy; what ends in _memcpy
//   kSet           gpu_memset, Memset; what ends in _memset
//   kSync          cuda_sync; what ends in _sync
//
// So are flow events of category fwdbwd, and instant events [memory] of the host's memory.
enum class TraceCategory : std::uint8_t { kOp, kCall, kKernel, kCopy, kSet, kSync };

// Whether a device does it: a kernel, a copy or a set.
inline bool IsActivity(TraceCategory category) {
  return category == TraceCategory::kKernel || category == TraceCategory::kCopy || category == TraceCategory::kSet;
}

struct TraceEvent {
  std::int64_t start = 0;  // ns; see KinetoTrace::origin
  std::int64_t end = 0;
  std::int64_t correlation = -1;  // joins a call to what it started; -1: none
  std::uint32_t name = 0;         // index into `texts`
  std::uint32_t track = 0;        // in `threads`; of `streams` for activities, and for kSync where it names one
  std::uint32_t details = 0;      // index into `details`; 0: none
  TraceCategory category{};
};

// Fields that only some events have. Texts are positions in `texts`; 0: none.
struct TraceDetails {
  std::uint32_t shapes = 0;      // shapes of an op's inputs, a JSON list
  std::uint32_t types = 0;       // their types, a JSON list
  std::uint32_t values = 0;      // and the values of those that are not tensors, as texts, a JSON list
  std::uint32_t collective = 0;  // name of a collective
  std::uint32_t group = 0;       // name of its process group
  std::uint32_t ranks = 0;       // the group's ranks
  std::uint32_t dtype = 0;
  std::int64_t elements = -1;         // number of input elements
  std::int64_t bytes = -1;            // size of a copy or set
  std::int64_t record_function = -1;  // id that links an op to an Execution Trace
  // A kSync names the stream that is waited for, and the call that recorded the event.
  std::optional<std::int64_t> waited_stream;
  std::optional<std::int64_t> record;
};

struct TraceThread {
  std::string process;
  std::string thread;
};

struct TraceStream {
  std::int64_t device = 0;
  std::int64_t stream = 0;   // -1: all of the device
  std::string process = {};  // process of the first event, which distinguishes the GPUs of ranks in merged traces
};

// An annotation ProfilerStep#N of a host thread.
struct TraceStepMark {
  std::int64_t number = 0;
  std::int64_t start = 0;  // see TraceEvent
  std::int64_t end = 0;
  std::uint32_t name = 0;    // index into `texts`
  std::uint32_t thread = 0;  // index into `threads`
};

// From an op of the forward pass to its op of the backward pass, on their threads (indices into `threads`).
struct TraceFlow {
  std::int64_t from = 0;  // when the op starts; see TraceEvent
  std::int64_t to = 0;
  std::uint32_t from_thread = 0;
  std::uint32_t to_thread = 0;
};

// An allocation in the host's memory, or its release.
struct TraceAllocation {
  std::int64_t time = 0;  // see TraceEvent
  std::int64_t address = 0;
  std::int64_t bytes = 0;    // below 0: it is released
  std::int64_t total = 0;    // what is allocated behind it, as far as the profiler knows
  std::uint32_t thread = 0;  // index into `threads`
};

struct KinetoTrace {
  std::vector<TraceEvent> events;  // ordered by start; among equal starts the longer first, then in file order
  std::vector<std::string> texts;  // [0] is ""
  std::vector<TraceDetails> details;
  std::vector<TraceThread> threads;
  std::vector<TraceStream> streams;
  std::vector<TraceFlow> flows;
  std::vector<TraceAllocation> allocations;     // ordered by time
  std::map<std::int64_t, std::string> gpus;     // names, by device
  std::vector<TraceStepMark> steps;             // ordered by start
  std::map<std::string, std::size_t> left_out;  // complete events of other categories, by category
  // The categories among them that look like calls or activities, because their events have correlation ids.
  std::map<std::string, std::size_t> like_calls;
  std::size_t spoiled = 0;          // complete events without a time, or with one that is not a number
  std::size_t endless = 0;          // events with a negative duration, or B and E without the other, in any category
  bool has_repeated_steps = false;  // the numbers of `steps` are ours
  std::size_t placeholders =
      0;                    // events with a placeholder time that is not of the trace's clock: mostly 0, or days away
  std::int64_t origin = 0;  // ns since 1970 of what is 0 in the events; the start of the first
  std::size_t file = 0;     // index of its file; ranks that were merged into one file share a clock
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;

  std::string_view text(std::uint32_t id) const { return texts[id]; }
  const TraceDetails& details_of(const TraceEvent& event) const { return details[event.details]; }
};

// Whether a trace holds op ranges, and nothing of a device: neither activities nor calls that may have started some.
bool HoldsOpsAlone(const KinetoTrace& trace);

// Throws InputError, its place in the file, on what is not such a trace. Events that no clock measured are left out and
// counted. Where no activity has a correlation id, "External id" joins calls to activities instead, as far as it names
// one launch. Memory: some 50 bytes for each event that is kept, and each distinct text once; the file is never held.
KinetoTrace ReadKinetoTrace(std::istream& in);
// The same for a file. Numbers such as inf and NaN, which PyTorch writes and JSON does not have, are read there. They
// may stand where the number is not used; as a time they make their event one without a time.
KinetoTrace ReadKinetoTrace(const ImportSource& source);

// The ranks that were merged into one file: processes whose calls have the same correlation ids. The activities of a
// GPU belong to the process whose calls all come before them, and the nearest. Throws InputError if no process is the
// right one. For other traces it returns the trace alone.
std::vector<KinetoTrace> SplitRanks(KinetoTrace trace);

// A decimal number of µs in ns, exactly, as far as it has no more than three decimals; nullopt if it is not one, or
// beyond 2^61 ns.
std::optional<std::int64_t> NanosFromMicros(std::string_view text);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_KINETO_TRACE_H_
