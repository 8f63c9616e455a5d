#ifndef EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_H_
#define EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "datasets/importers/kineto_trace.h"

namespace emplace::datasets {

inline constexpr std::uint32_t kInvalidTraceId = ~0U;
inline constexpr std::int64_t kBeforeTrace = std::numeric_limits<std::int64_t>::min() / 2;

// Clocks of host and device differ by this much: a wait ends with what it waited for.
inline constexpr std::int64_t kClockTolerance = 2'000;
// An activity that starts this soon (ns) after the one before it on its stream followed it directly.
inline constexpr std::int64_t kSoon = 15'000;
// A launch takes at most this long unless it waits.
inline constexpr std::int64_t kLongLaunch = 50'000;

enum class RankCallType : std::uint8_t {
  kOther,
  kLaunch,      // starts something if an activity has its correlation id
  kSyncDevice,  // waits for all streams
  kSyncStream,
  kSyncEvent,
  kFree,  // waits for all streams as a side effect
  kRecord,
  kWaitEvent,
  kPoll,
};

// A call to the runtime or driver of a GPU.
struct RankCall {
  std::uint32_t event = 0;
  std::uint32_t outermost = kInvalidTraceId;  // the call around it; itself mostly
  std::uint32_t source = kInvalidTraceId;     // the innermost op range around it, an event
  std::uint32_t outer = kInvalidTraceId;      // the outermost one
  RankCallType type = RankCallType::kOther;
  bool is_own = true;                     // starts in the step
  bool ran_early = false;                 // its activities ran before the step began
  std::vector<std::uint32_t> activities;  // activities started by it and by the calls inside it
};

struct TraceInterval {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
};

struct RankThread {
  std::vector<std::uint32_t> calls;  // outermost ones, by start
  std::vector<TraceInterval> busy;   // op ranges and calls, merged
  bool is_used = false;              // it has op ranges or launches something
};

struct RankCalls {
  std::vector<RankCall> calls;                            // ordered by start
  std::unordered_map<std::int64_t, std::uint32_t> by_id;  // the last call with a correlation id
  std::unordered_map<std::int64_t, std::uint32_t> syncs;  // kSync events, by correlation id
  std::unordered_set<std::int64_t> repeated_ids;          // ids shared by several calls
  std::vector<RankThread> threads;                        // see the trace
};

// A kernel, copy or set of the step, or the backlog of a stream.
struct RankActivity {
  std::uint32_t event = kInvalidTraceId;
  std::uint32_t call = kInvalidTraceId;  // kInvalidTraceId: not in the window
  std::int64_t launch = kBeforeTrace;    // start of the call, or of the last known one on the stream
  bool is_backlog = false;               // all that was launched before the window; the event is the last of it
  std::uint32_t stream = 0;
  std::uint32_t position = 0;  // position on its stream
};

// Activity of a stream in the step that was launched before the window.
struct StreamBacklog {
  std::uint32_t stream = 0;
  TraceInterval interval;
};

struct RankActivities {
  std::vector<RankActivity> activities;
  std::vector<std::vector<std::uint32_t>> streams;  // activities in their order
  std::vector<StreamBacklog> backlog;
  std::int64_t end = std::numeric_limits<std::int64_t>::min();  // end of the last one
  // Device time, as in TraceStep.
  std::int64_t activity_time = 0;
  std::int64_t launched_time = 0;
  std::int64_t named_time = 0;
  std::int64_t backlog_time = 0;
  std::int64_t trimmed_time = 0;
  std::int64_t unknown_time = 0;
  // How many activities were trimmed, ran before the step began, and have no call.
  std::size_t trimmed = 0;
  std::size_t early = 0;
  std::size_t unknown = 0;
};

struct LaunchDelays {
  std::int64_t launch = 0;  // time from the end of a call to the start of its activity on an idle stream
  std::int64_t gap = 0;     // between two activities of a stream if the second was queued long before
};

// The part of a step in the trace of one rank: calls, the activities that they started, and how long starts take.
// Times are those of the trace.
struct MeasuredRank {
  const KinetoTrace* trace = nullptr;
  std::size_t number = 0;  // position of the trace among those of the step
  std::string prefix;      // prefix of notes and names: "rank 3 ", or "" if there is only one trace
  std::int64_t shift = 0;  // offset from the trace's times to the step's
  RankCalls calls;
  RankActivities activities;
  TraceInterval window;  // the step, as far as this rank says
  LaunchDelays delays;
  std::size_t before_calls = 0;    // activities that start long before their calls
  std::size_t unused_threads = 0;  // threads that only poll or query

  std::int64_t start() const { return window.start + shift; }
  std::int64_t end() const { return window.end + shift; }
  const TraceEvent& EventOf(const RankCall& call) const { return trace->events[call.event]; }
  const TraceEvent& EventOf(const RankActivity& activity) const { return trace->events[activity.event]; }
  const TraceEvent& EventOfActivity(std::uint32_t id) const { return EventOf(activities.activities[id]); }
  // The outermost call around the one that started `activity`, which has one.
  const TraceEvent& SubmitOf(const RankActivity& activity) const {
    return EventOf(calls.calls[calls.calls[activity.call].outermost]);
  }
  // Whether the call that started it waited for its end: copies from and to memory that is not pinned.
  bool Blocks(const RankActivity& activity) const;
  // Whether an op range starts in the step.
  bool IsInWindow(const TraceEvent& event) const { return event.start >= window.start && event.start < window.end; }
  // Whether anything of the step is there: an activity with its call, or in a trace of op ranges alone one of these.
  bool HasStep() const;
};

// `mark`: the step to be taken; null: the whole window. Throws InputError if an id is that of two calls and it is not
// clear which one started what.
MeasuredRank MeasureRank(const KinetoTrace& trace, std::size_t number, std::string prefix, std::int64_t shift,
                         const TraceStepMark* mark);

// The activities of a rank that are collectives, in the order of their launches.
std::vector<std::uint32_t> LaunchedCollectives(const MeasuredRank& rank);
bool IsCollective(const KinetoTrace& trace, const TraceEvent& event);
// The process group of a collective ("": not said), with its ranks: groups of different ranks may have one name.
std::string ProcessGroupOf(const KinetoTrace& trace, const TraceEvent& event);
// The lower one of two middle values; 0 of none.
std::int64_t LowerMedian(std::vector<std::int64_t> values);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_H_
