#ifndef EMPLACE_DATASETS_IMPORTERS_KINETO_EVENTS_H_
#define EMPLACE_DATASETS_IMPORTERS_KINETO_EVENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "datasets/importers/kineto_trace.h"
#include "datasets/importers/text_pool.h"

namespace emplace::datasets {

inline constexpr std::int64_t kMaxTraceNanos = std::int64_t{1} << 61;

// Keys that mean something, wherever they stand.
enum class TraceKey : std::uint8_t {
  kOther,
  // Keys of an event.
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kStart,
  kDuration,
  kId,
  kArgs,
  // Keys of its args.
  kCorrelation,
  kExternalId,
  kDevice,
  kStream,
  kRecordFunction,
  kInputDims,
  kInputTypes,
  kInputValues,
  kCollective,
  kGroup,
  kRanks,
  kDType,
  kElements,
  kBytes,
  kWaitOnStream,
  kWaitOnRecord,
  kAddress,
  kAllocated,
  kTotalAllocated,
  kDeviceType,
};

struct TraceKeyName {
  std::string_view name;
  TraceKey key;
};

// Null: no key of importance.
const TraceKeyName* FindTraceKey(std::string_view name);

// An integer, which some writers have as a float, such as 7.0.
std::optional<std::int64_t> IntegerFrom(std::string_view text);

// One event as it is read: texts of numbers too, because some writers quote them.
struct RawEvent {
  std::string phase;
  std::string category;
  std::string name;
  std::string process;
  std::string thread;
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> duration;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> external;
  std::optional<std::int64_t> device;
  std::optional<std::int64_t> stream;
  std::optional<std::int64_t> id;  // a flow's
  // An allocation's.
  std::optional<std::int64_t> address;
  std::optional<std::int64_t> allocated;
  std::optional<std::int64_t> total_allocated;
  std::optional<std::int64_t> device_type;
  TraceDetails details;
  bool has_details = false;
  bool is_endless = false;

  void Clear() {
    phase.clear();
    category.clear();
    name.clear();
    process.clear();
    thread.clear();
    start.reset();
    duration.reset();
    correlation.reset();
    external.reset();
    device.reset();
    stream.reset();
    id.reset();
    address.reset();
    allocated.reset();
    total_allocated.reset();
    device_type.reset();
    details = {};
    has_details = false;
    is_endless = false;
  }
};

// Makes events of a trace of what is read, in the order of the file.
class TraceEventTable {
 public:
  TraceEventTable() { trace_.details.emplace_back(); }

  // Sets what an argument of an event says.
  void SetArgument(TraceKey key, std::string_view text, RawEvent* event);
  // Adds an event that is read to its end, if it is one of importance. Changes `event` where it is a begin or an end.
  void Add(RawEvent* event);

  // Data outside the list of events.
  KinetoTrace& trace() { return trace_; }
  // The trace, with its events as they were read.
  KinetoTrace Take();

 private:
  // Compares tuples that hold texts or views of them.
  struct TrackLess {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      using Thread = std::tuple<std::string_view, std::string_view>;
      using Stream = std::tuple<std::int64_t, std::int64_t, std::string_view>;
      using View = std::conditional_t<std::tuple_size_v<A> == 2, Thread, Stream>;
      return View(a) < View(b);
    }
  };

  void SetDetail(std::uint32_t* field, std::string_view text, RawEvent* event);
  bool JoinBeginAndEnd(RawEvent* event);
  void AddStepMark(const RawEvent& event);
  void AddFlowEnd(const RawEvent& event);
  void AddAllocation(const RawEvent& event);
  std::uint32_t MarkedThread(const RawEvent& event);
  void JoinFlows();
  void NumberMarkedThreads();
  std::uint32_t ThreadTrack(std::string_view process, std::string_view thread);
  std::uint32_t StreamTrack(const RawEvent& event);

  KinetoTrace trace_;
  TextPool pool_;
  std::map<std::tuple<std::string, std::string>, std::uint32_t, TrackLess> threads_;  // keyed by process and thread
  std::map<std::tuple<std::int64_t, std::int64_t, std::string>, std::uint32_t, TrackLess>
      streams_;  // the process is the last part of the key
  std::map<std::pair<std::string, std::string>, std::vector<RawEvent>> begun_;  // keyed by process and thread
  // One end of a flow.
  struct FlowEnd {
    std::int64_t id = 0;
    std::int64_t time = 0;
    std::uint32_t thread = 0;
  };
  std::vector<FlowEnd> flow_starts_;
  std::vector<FlowEnd> flow_ends_;
  // The threads of flows and allocations, which number theirs: those of the trace come in the order of its events.
  std::map<std::tuple<std::string, std::string>, std::uint32_t, TrackLess> marked_threads_;
  bool needs_external_ids_ = true;          // no activity has had a correlation id so far
  std::vector<std::int64_t> external_ids_;  // those of the events then; -1: none
};

// The processes whose threads call a runtime, in the order of the trace.
std::vector<std::string> ProcessesWithCalls(const KinetoTrace& trace);
// Makes one row of `streams` for each stream of a device, whatever process it is written under.
void MergeStreams(KinetoTrace* trace);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_KINETO_EVENTS_H_
