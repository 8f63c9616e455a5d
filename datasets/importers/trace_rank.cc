#include "datasets/importers/trace_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// An activity that starts this long before its call was not started by it.
constexpr std::int64_t kTooEarly = 20'000;

bool Mentions(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

RankCallType CallTypeOf(std::string_view name) {
  if (Mentions(name, "StreamSynchronize")) return RankCallType::kSyncStream;
  if (Mentions(name, "EventSynchronize") || name == "urEventWait") return RankCallType::kSyncEvent;
  if (Mentions(name, "Synchronize") || name == "urQueueFinish") return RankCallType::kSyncDevice;
  if (Mentions(name, "EventRecord")) return RankCallType::kRecord;
  if (Mentions(name, "StreamWaitEvent")) return RankCallType::kWaitEvent;
  if (Mentions(name, "EventQuery") || Mentions(name, "StreamQuery")) return RankCallType::kPoll;
  if (name == "cudaFree" || name == "hipFree" || name == "cudaFreeHost") return RankCallType::kFree;
  // Unified Runtime's barriers, on XPUs.
  if (Mentions(name, "EventsWait")) return RankCallType::kOther;
  for (const std::string_view part : {"Launch", "Memcpy", "Memset", "Enqueue"}) {
    if (Mentions(name, part)) return RankCallType::kLaunch;
  }
  return RankCallType::kOther;
}

bool IsOwnTime(const TraceStepMark* mark, std::int64_t time) {
  return mark == nullptr || (time >= mark->start && time < mark->end);
}

void AddBusyTime(const TraceEvent& event, const TraceStepMark* mark, RankThread* thread) {
  // Ranges of other threads may go on through many steps.
  const bool is_cut = mark != nullptr && event.category == TraceCategory::kOp;
  const std::int64_t end = is_cut ? std::min(event.end, mark->end) : event.end;
  if (thread->busy.empty() || thread->busy.back().end < event.start) {
    thread->busy.push_back({event.start, end});
  } else {
    thread->busy.back().end = std::max(thread->busy.back().end, end);
  }
}

// The op ranges and the outermost call that are open on a thread.
struct OpenRanges {
  struct Range {
    std::int64_t end;
    std::uint32_t event;
  };
  std::vector<Range> ranges;
  std::uint32_t call = kInvalidTraceId;
  std::int64_t call_end = 0;
};

// Adds the call of event `id` to those of its thread. It is inside the outermost call that is open, if one is.
void AddCall(const KinetoTrace& trace, std::uint32_t id, bool is_own, OpenRanges* open, RankCalls* calls) {
  const TraceEvent& event = trace.events[id];
  RankCall call;
  call.event = id;
  call.type = CallTypeOf(trace.text(event.name));
  call.is_own = is_own;
  if (!open->ranges.empty()) {
    call.source = open->ranges.back().event;
    call.outer = open->ranges.front().event;
  }
  const auto position = static_cast<std::uint32_t>(calls->calls.size());
  if (open->call != kInvalidTraceId && event.start < open->call_end) {
    call.outermost = open->call;
  } else {
    call.outermost = position;
    open->call = position;
    open->call_end = event.end;
    if (is_own) calls->threads[event.track].calls.push_back(position);
  }
  if (event.correlation >= 0) {
    const auto [last, is_new] = calls->by_id.try_emplace(event.correlation, position);
    if (!is_new) calls->repeated_ids.insert(event.correlation);
    last->second = position;
  }
  calls->calls.push_back(std::move(call));
}

// Calls with the op ranges around them, and when each thread did anything.
RankCalls FindCalls(const KinetoTrace& trace, const TraceStepMark* mark) {
  RankCalls calls;
  calls.threads.resize(trace.threads.size());
  std::vector<OpenRanges> open_ranges(trace.threads.size());
  for (std::uint32_t id = 0; id < trace.events.size(); ++id) {
    const TraceEvent& event = trace.events[id];
    if (event.category == TraceCategory::kSync) {
      if (event.correlation >= 0) calls.syncs[event.correlation] = id;
      continue;
    }
    if (IsActivity(event.category)) continue;
    OpenRanges& open = open_ranges[event.track];
    RankThread& thread = calls.threads[event.track];
    const bool is_own = IsOwnTime(mark, event.start);
    if (!is_own && event.category == TraceCategory::kOp) continue;
    while (!open.ranges.empty() && open.ranges.back().end <= event.start) open.ranges.pop_back();
    if (is_own) AddBusyTime(event, mark, &thread);
    if (event.category == TraceCategory::kOp) {
      open.ranges.push_back({event.end, id});
      thread.is_used = true;
    } else {
      AddCall(trace, id, is_own, &open, &calls);
    }
  }
  if (mark == nullptr) return calls;
  // The thread runs until the end of its step.
  RankThread& thread = calls.threads[mark->thread];
  thread.is_used = true;
  if (thread.busy.empty() || thread.busy.back().end < mark->end) thread.busy.push_back({mark->end, mark->end});
  return calls;
}

// The activities of each stream, by start.
std::vector<std::vector<std::uint32_t>> EventsByStream(const KinetoTrace& trace) {
  std::vector<std::vector<std::uint32_t>> by_stream(trace.streams.size());
  for (std::uint32_t id = 0; id < trace.events.size(); ++id) {
    if (IsActivity(trace.events[id].category)) by_stream[trace.events[id].track].push_back(id);
  }
  return by_stream;
}

// The calls of one id that may have started its activities: the launches, if there are any.
std::vector<std::uint32_t> Candidates(const RankCalls& calls, std::vector<std::uint32_t> same_id) {
  const auto is_launch = [&](std::uint32_t id) { return calls.calls[id].type == RankCallType::kLaunch; };
  if (std::ranges::any_of(same_id, is_launch)) std::erase_if(same_id, [&](std::uint32_t id) { return !is_launch(id); });
  return same_id;
}

// The calls of activities where several calls have one id, as positions of events and of calls: the k-th call started
// the k-th activity; anything else would be a guess.
std::unordered_map<std::uint32_t, std::uint32_t> TieRepeatedIds(
    const KinetoTrace& trace, const RankCalls& calls, const std::vector<std::vector<std::uint32_t>>& by_stream,
    const std::string& prefix) {
  std::unordered_map<std::uint32_t, std::uint32_t> call_of_activity;
  if (calls.repeated_ids.empty()) return call_of_activity;
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> activities;
  for (const auto& events : by_stream) {
    for (const std::uint32_t event : events) {
      const std::int64_t id = trace.events[event].correlation;
      if (calls.repeated_ids.contains(id)) activities[id].push_back(event);
    }
  }
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> calls_of_id;
  for (std::uint32_t id = 0; id < calls.calls.size(); ++id) {
    const std::int64_t correlation = trace.events[calls.calls[id].event].correlation;
    if (!activities.contains(correlation) || calls.calls[id].outermost != id) continue;
    calls_of_id[correlation].push_back(id);
  }
  for (auto& [correlation, events] : activities) {
    const std::vector<std::uint32_t> candidates = Candidates(calls, std::move(calls_of_id[correlation]));
    std::sort(events.begin(), events.end());  // ordered by start
    bool is_clear = candidates.size() == 1 || candidates.size() == events.size();
    for (std::size_t k = 0; k < events.size() && is_clear; ++k) {
      const std::uint32_t call = candidates[candidates.size() == 1 ? 0 : k];
      const TraceEvent& event = trace.events[events[k]];
      is_clear = event.start + kClockTolerance >= trace.events[calls.calls[call].event].start &&
                 trace.streams[event.track].device == trace.streams[trace.events[events[0]].track].device;
      call_of_activity[events[k]] = call;
    }
    if (is_clear) continue;
    throw InputError("traceEvents", prefix + fmt::format("correlation {} is that of {} calls and {} activities "
                                                         "(each rank's trace as a file of its own)",
                                                         correlation, candidates.size(), events.size()));
  }
  return call_of_activity;
}

// The role of an activity in the step.
enum class Tie : std::uint8_t {
  kBefore,   // launched before it
  kOwn,      // launched by one of its calls
  kUnknown,  // between such ones, without a call
  kAfter,
};
struct TiedActivity {
  std::uint32_t event = 0;
  std::uint32_t call = kInvalidTraceId;
  Tie tie = Tie::kUnknown;
};
struct TiedStreams {
  std::vector<std::vector<TiedActivity>> streams;
  std::size_t before_calls = 0;  // see MeasuredRank
};

// The call of each activity, as far as the ids say.
std::vector<std::vector<TiedActivity>> TieById(const KinetoTrace& trace, const RankCalls& calls,
                                               const std::string& prefix) {
  const auto by_stream = EventsByStream(trace);
  const auto repeated = TieRepeatedIds(trace, calls, by_stream, prefix);
  const auto call_of = [&](std::uint32_t event) {
    if (const auto found = repeated.find(event); found != repeated.end()) return found->second;
    const std::int64_t id = trace.events[event].correlation;
    const auto call = calls.by_id.find(id);
    return id < 0 || call == calls.by_id.end() ? kInvalidTraceId : call->second;
  };
  std::vector<std::vector<TiedActivity>> streams(by_stream.size());
  for (std::size_t s = 0; s < by_stream.size(); ++s) {
    for (const std::uint32_t event : by_stream[s]) streams[s].push_back({.event = event, .call = call_of(event)});
  }
  return streams;
}

// A few activities that start long before their calls have a wrong time or a wrong id: they lose their calls. If there
// are many, the GPU has another clock, and the calls are the right ones. Returns how many were found.
std::size_t DropEarlyCalls(const KinetoTrace& trace, const RankCalls& calls,
                           std::vector<std::vector<TiedActivity>>* streams) {
  std::vector<TiedActivity*> early;
  std::size_t all = 0;
  for (auto& stream : *streams) {
    for (TiedActivity& tied : stream) {
      if (tied.call == kInvalidTraceId) continue;
      ++all;
      if (trace.events[tied.event].start + kTooEarly < trace.events[calls.calls[tied.call].event].start) {
        early.push_back(&tied);
      }
    }
  }
  if (early.empty() || (early.size() > 1 && 20 * early.size() > all)) return 0;
  for (TiedActivity* const tied : early) tied->call = kInvalidTraceId;
  return early.size();
}

TiedStreams TieActivities(const KinetoTrace& trace, const RankCalls& calls, const TraceStepMark* mark,
                          const std::string& prefix) {
  TiedStreams ties{.streams = TieById(trace, calls, prefix)};
  ties.before_calls = DropEarlyCalls(trace, calls, &ties.streams);
  std::vector<std::size_t> without_calls;  // streams
  // By when every stream has come to what was launched in the window.
  std::int64_t all_known = kBeforeTrace;
  for (std::size_t s = 0; s < ties.streams.size(); ++s) {
    bool is_before = true;
    Tie before = Tie::kBefore;
    for (TiedActivity& tied : ties.streams[s]) {
      if (tied.call != kInvalidTraceId) {
        const RankCall& call = calls.calls[tied.call];
        tied.tie = call.is_own ? Tie::kOwn : trace.events[call.event].start < mark->start ? Tie::kBefore : Tie::kAfter;
        if (is_before) all_known = std::max(all_known, trace.events[tied.event].start);
        is_before = false;
      } else if (is_before) {
        tied.tie = Tie::kBefore;
      } else {
        // As the one before it: a stream does things in their order.
        tied.tie = before == Tie::kOwn ? Tie::kUnknown : before;
      }
      before = tied.tie;
    }
    if (is_before) without_calls.push_back(s);
  }
  if (mark != nullptr) return ties;
  // A stream of which no call is known was busy with something from before the window, as long as others were.
  for (const std::size_t s : without_calls) {
    for (TiedActivity& tied : ties.streams[s]) {
      if (trace.events[tied.event].start > all_known) tied.tie = Tie::kUnknown;
    }
  }
  return ties;
}

// Threads that launch something are used, too. Returns how many others do anything.
std::size_t MarkUsedThreads(const KinetoTrace& trace, const TiedStreams& ties, RankCalls* calls) {
  for (const auto& stream : ties.streams) {
    for (const TiedActivity& tied : stream) {
      if (tied.tie == Tie::kOwn) calls->threads[trace.events[calls->calls[tied.call].event].track].is_used = true;
    }
  }
  return static_cast<std::size_t>(std::ranges::count_if(
      calls->threads, [](const RankThread& thread) { return !thread.busy.empty() && !thread.is_used; }));
}

void Extend(std::int64_t start, std::int64_t end, TraceInterval* interval) {
  interval->start = std::min(interval->start, start);
  interval->end = std::max(interval->end, end);
}

// From the first event of the step, or from when what was before it has ended, to its last one.
TraceInterval FindWindow(const KinetoTrace& trace, const RankCalls& calls, const TiedStreams& ties,
                         const TraceStepMark* mark) {
  TraceInterval window;
  for (const RankThread& thread : calls.threads) {
    if (thread.is_used && !thread.busy.empty()) Extend(thread.busy.front().start, thread.busy.back().end, &window);
  }
  std::int64_t before_end = kBeforeTrace;
  std::vector<const TraceEvent*> own;
  for (const auto& stream : ties.streams) {
    for (const TiedActivity& tied : stream) {
      const TraceEvent& event = trace.events[tied.event];
      if (tied.tie == Tie::kBefore) before_end = std::max(before_end, event.end);
      if (tied.tie != Tie::kOwn) continue;
      own.push_back(&event);
      Extend(event.start, event.end, &window);
    }
  }
  if (mark == nullptr) return window;
  window.start = mark->start;
  if (before_end <= window.start) return window;
  std::int64_t own_time = 0;
  std::int64_t early = 0;
  for (const TraceEvent* const event : own) {
    own_time += event->end - event->start;
    early += std::max<std::int64_t>(0, std::min(event->end, before_end) - event->start);
  }
  // Steps that overlap on the GPU begin when the host does, beside what the step before still does.
  if (before_end < window.end && early * 4 <= own_time) window.start = before_end;
  return window;
}

// Adds what stream `s` did in the step that was launched before the window, as one activity.
void AddBacklog(const KinetoTrace& trace, const TraceStepMark* mark, std::int64_t start,
                const std::vector<TiedActivity>& stream, std::uint32_t s, RankActivities* activities) {
  RankActivity backlog;
  backlog.is_backlog = true;
  backlog.stream = s;
  for (const TiedActivity& tied : stream) {
    const TraceEvent& event = trace.events[tied.event];
    if (tied.tie != Tie::kBefore) continue;
    if (event.end <= start) {
      // Activities of other steps are ignored.
      if (tied.call == kInvalidTraceId && mark == nullptr) {
        ++activities->trimmed;
        activities->trimmed_time += event.end - event.start;
      }
      continue;
    }
    activities->trimmed_time += tied.call == kInvalidTraceId ? std::max<std::int64_t>(0, start - event.start) : 0;
    activities->backlog.push_back({s, {std::max(start, event.start), event.end}});
    activities->backlog_time += event.end - std::max(start, event.start);
    if (backlog.event == kInvalidTraceId || event.end > trace.events[backlog.event].end) backlog.event = tied.event;
  }
  if (backlog.event == kInvalidTraceId) return;
  activities->streams[s].push_back(static_cast<std::uint32_t>(activities->activities.size()));
  activities->end = std::max(activities->end, trace.events[backlog.event].end);
  activities->activities.push_back(backlog);
}

// Adds an activity of stream `s` to the step, and to the call that started it.
void AddActivity(const KinetoTrace& trace, std::int64_t start, const TiedActivity& tied, std::uint32_t s,
                 RankCalls* calls, RankActivities* activities) {
  const TraceEvent& event = trace.events[tied.event];
  if (event.end <= start && event.start < start) {
    ++activities->early;
    if (tied.call != kInvalidTraceId) calls->calls[calls->calls[tied.call].outermost].ran_early = true;
    return;
  }
  const std::int64_t time = event.end - std::max(event.start, start);
  activities->activity_time += time;
  RankActivity activity;
  activity.event = tied.event;
  activity.call = tied.call;
  activity.stream = s;
  activity.position = static_cast<std::uint32_t>(activities->streams[s].size());
  const auto id = static_cast<std::uint32_t>(activities->activities.size());
  if (tied.call == kInvalidTraceId) {
    ++activities->unknown;
    activities->unknown_time += time;
    if (!activities->streams[s].empty()) activity.launch = activities->activities[activities->streams[s].back()].launch;
  } else {
    activities->launched_time += time;
    RankCall& call = calls->calls[tied.call];
    activity.launch = trace.events[call.event].start;
    if (call.source != kInvalidTraceId) activities->named_time += time;
    // The activities of an inner call belong to the outermost call around it.
    calls->calls[call.outermost].activities.push_back(id);
  }
  activities->streams[s].push_back(id);
  activities->activities.push_back(activity);
  activities->end = std::max(activities->end, event.end);
}

// The activities of the step, which starts at `start`, and what each stream had to do before them.
RankActivities FindActivities(const KinetoTrace& trace, const TraceStepMark* mark, std::int64_t start,
                              const TiedStreams& ties, RankCalls* calls) {
  RankActivities activities;
  activities.streams.resize(ties.streams.size());
  for (std::uint32_t s = 0; s < ties.streams.size(); ++s) {
    const std::vector<TiedActivity>& stream = ties.streams[s];
    AddBacklog(trace, mark, start, stream, s, &activities);
    const auto last_own =
        std::find_if(stream.rbegin(), stream.rend(), [](const TiedActivity& tied) { return tied.tie == Tie::kOwn; });
    const auto own_end = mark == nullptr ? stream.end() : last_own.base();
    for (auto tied = stream.begin(); tied < own_end; ++tied) {
      if (tied->tie == Tie::kOwn || tied->tie == Tie::kUnknown) {
        AddActivity(trace, start, *tied, s, calls, &activities);
      }
    }
  }
  return activities;
}

// The mean adds up to the same sum: a busy stream has thousands of gaps one after another.
std::int64_t Mean(const std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum / static_cast<std::int64_t>(values.size());
}

// The median delay of starts on idle streams after their calls, and the mean gap between queued activities.
LaunchDelays FindDelays(const MeasuredRank& rank) {
  std::vector<std::int64_t> delays;
  std::vector<std::int64_t> short_waits;  // delays right behind another activity, where there is nothing better
  std::vector<std::int64_t> gaps;
  for (const auto& stream : rank.activities.streams) {
    std::int64_t free = kBeforeTrace;
    for (const std::uint32_t id : stream) {
      const RankActivity& activity = rank.activities.activities[id];
      const TraceEvent& event = rank.EventOf(activity);
      if (activity.call == kInvalidTraceId) {
        free = std::max(free, event.end);
        continue;
      }
      const std::int64_t submitted = rank.SubmitOf(activity).end;
      if (!rank.Blocks(activity)) {
        if (free <= submitted - 2 * kSoon && event.start - submitted < kLongLaunch) {
          delays.push_back(event.start - submitted);
        } else if (free <= submitted && event.start - submitted < kLongLaunch) {
          short_waits.push_back(event.start - submitted);
        } else if (free >= submitted + 2 * kSoon && event.start - free < kSoon) {
          gaps.push_back(event.start - free);
        }
      }
      free = std::max(free, event.end);
    }
  }
  return {.launch = std::max<std::int64_t>(0, LowerMedian(std::move(delays.empty() ? short_waits : delays))),
          .gap = std::max<std::int64_t>(0, Mean(gaps))};
}

}  // namespace

bool MeasuredRank::Blocks(const RankActivity& activity) const {
  const TraceEvent& event = EventOf(activity);
  if (activity.call == kInvalidTraceId || event.category != TraceCategory::kCopy) return false;
  return event.end >= SubmitOf(activity).start && event.end <= SubmitOf(activity).end;
}

bool MeasuredRank::HasStep() const {
  if (window.start >= window.end) return false;
  if (HoldsOpsAlone(*trace)) {
    return std::ranges::any_of(trace->events, [&](const TraceEvent& event) { return IsInWindow(event); });
  }
  return std::ranges::any_of(activities.activities,
                             [](const RankActivity& activity) { return activity.call != kInvalidTraceId; });
}

MeasuredRank MeasureRank(const KinetoTrace& trace, std::size_t number, std::string prefix, std::int64_t shift,
                         const TraceStepMark* mark) {
  MeasuredRank rank;
  rank.trace = &trace;
  rank.number = number;
  rank.prefix = std::move(prefix);
  rank.shift = shift;
  rank.calls = FindCalls(trace, mark);
  const TiedStreams ties = TieActivities(trace, rank.calls, mark, rank.prefix);
  rank.before_calls = ties.before_calls;
  rank.unused_threads = MarkUsedThreads(trace, ties, &rank.calls);
  rank.window = FindWindow(trace, rank.calls, ties, mark);
  rank.activities = FindActivities(trace, mark, rank.window.start, ties, &rank.calls);
  rank.window.end = std::max(rank.window.end, rank.activities.end);
  rank.delays = FindDelays(rank);
  return rank;
}

bool IsCollective(const KinetoTrace& trace, const TraceEvent& event) {
  if (event.category != TraceCategory::kKernel) return false;
  const std::string_view name = trace.text(event.name);
  return name.starts_with("nccl") && Mentions(name, "ernel_");
}

std::vector<std::uint32_t> LaunchedCollectives(const MeasuredRank& rank) {
  const std::vector<RankActivity>& activities = rank.activities.activities;
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < activities.size(); ++id) {
    if (activities[id].call != kInvalidTraceId && IsCollective(*rank.trace, rank.EventOf(activities[id])))
      ids.push_back(id);
  }
  std::ranges::stable_sort(ids, {}, [&](std::uint32_t id) { return activities[id].launch; });
  return ids;
}

std::string ProcessGroupOf(const KinetoTrace& trace, const TraceEvent& event) {
  const TraceDetails& details = trace.details_of(event);
  std::string group(trace.text(details.group));
  if (details.ranks != 0) group.append(" of ").append(trace.text(details.ranks));
  return group;
}

std::int64_t LowerMedian(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace emplace::datasets
