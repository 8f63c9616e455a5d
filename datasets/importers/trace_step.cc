#include "datasets/importers/trace_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::uint32_t kNone = TraceStep::kNone;
constexpr std::int64_t kMicro = 1000;
// How far apart traces may be that are of one step.
constexpr std::int64_t kLargestPause = 10'000'000 * kMicro;
// Clocks that differ by less are taken as they are.
constexpr std::int64_t kLeastShift = 50 * kMicro;
constexpr std::int64_t kLeastConstant = 10'000;  // ns, the same for so many collectives
constexpr std::size_t kConstantOf = 3;
constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min() / 2;
// A wait ends with what it waited for; clocks of host and device differ by this much.
constexpr std::int64_t kClockTolerance = 2 * kMicro;
// A pause of a thread that is looked at: shorter ones are its own work.
constexpr std::int64_t kShortestPause = 20 * kMicro;
// How soon after another stream's end an activity must have started to have waited for it, where no record says so.
constexpr std::int64_t kSoon = 15 * kMicro;
// The same where a wait was called: a collective needs a while to get going.
constexpr std::int64_t kSoonAfterWait = 45 * kMicro;
// An activity that starts this long before its call was not started by it.
constexpr std::int64_t kTooEarly = 20 * kMicro;
// A launch waits for room if so many activities are queued; CUDA's queues hold 1,024.
constexpr std::size_t kFullQueue = 900;
constexpr std::int64_t kLongLaunch = 50 * kMicro;

enum class CallType : std::uint8_t {
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

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

CallType TypeOf(std::string_view name) {
  if (Contains(name, "StreamSynchronize")) return CallType::kSyncStream;
  if (Contains(name, "EventSynchronize") || name == "urEventWait") return CallType::kSyncEvent;
  if (Contains(name, "Synchronize") || name == "urQueueFinish") return CallType::kSyncDevice;
  if (Contains(name, "EventRecord")) return CallType::kRecord;
  if (Contains(name, "StreamWaitEvent")) return CallType::kWaitEvent;
  if (Contains(name, "EventQuery") || Contains(name, "StreamQuery")) return CallType::kPoll;
  if (name == "cudaFree" || name == "hipFree" || name == "cudaFreeHost") return CallType::kFree;
  // Unified Runtime's barriers, on XPUs.
  if (Contains(name, "EventsWait")) return CallType::kOther;
  for (const std::string_view part : {"Launch", "Memcpy", "Memset", "Enqueue"}) {
    if (Contains(name, part)) return CallType::kLaunch;
  }
  return CallType::kOther;
}

// The lower one of two.
std::int64_t Median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What adds up to the same sum: a busy stream has thousands of gaps one after another.
std::int64_t Mean(const std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum / static_cast<std::int64_t>(values.size());
}

// What one rank's trace says of causes.
class RankBuilder {
 public:
  // `mark`: the step to be taken; null: the whole window.
  RankBuilder(const KinetoTrace& trace, std::size_t rank, std::string prefix, std::int64_t shift,
              const TraceStepMark* mark, TraceStep* step)
      : trace_(trace), rank_(rank), prefix_(std::move(prefix)), shift_(shift), mark_(mark), step_(*step) {
    FindCalls();
    TieActivities();
    FindThreads();
    FindBegin();
    FindActivities();
    FindDelays();
  }

  // Adds the rank's devices and ops. `start`: of the step, in the time of the trace.
  void Build(std::int64_t start) {
    start_ = start;
    FindPauses();
    AddStreams();
    for (std::size_t t = 0; t < threads_.size(); ++t) AddThread(t);
    JoinStreams();
    Note();
  }

  // Whether anything was kept, and when it started and ended, in the time of the step's origin.
  bool HasStep() const {
    return start_ < end_ && std::any_of(activities_.begin(), activities_.end(),
                                        [](const Activity& activity) { return activity.call != kNone; });
  }
  std::int64_t start() const { return start_ + shift_; }
  std::int64_t end() const { return end_ + shift_; }
  void ShiftBy(std::int64_t shift) { shift_ += shift; }
  std::int64_t shift() const { return shift_; }
  const std::string& prefix() const { return prefix_; }
  // When the rank's collectives started and ended, by process group, in the order of launches; in the time of the step.
  struct CollectiveTime {
    std::string_view name;
    std::int64_t start;
    std::int64_t end;
  };
  std::map<std::string, std::vector<CollectiveTime>> CollectiveTimes() const {
    std::map<std::string, std::vector<CollectiveTime>> times;
    for (const std::uint32_t id : LaunchedCollectives()) {
      const TraceEvent& event = EventOf(activities_[id]);
      times[GroupOf(event)].push_back({trace_.text(event.name), event.start + shift_, event.end + shift_});
    }
    return times;
  }
  // Of a rank's collectives, as activities of the step, by process group ("": not said) in the order of launches.
  const std::map<std::string, std::vector<std::uint32_t>, std::less<>>& collectives() const { return collectives_; }
  std::string_view NameOf(const TraceStep::Op& op) const { return trace_.text(trace_.events[op.event].name); }

 private:
  struct Call {
    std::uint32_t event = 0;
    std::uint32_t outermost = kNone;  // the call around it; itself mostly
    std::uint32_t source = kNone;     // op ranges around it, events
    std::uint32_t outer = kNone;
    CallType type = CallType::kOther;
    bool is_own = true;      // of the step
    bool ran_early = false;  // what it started ran before the step began
    std::vector<std::uint32_t> activities;
  };
  struct Activity {
    std::uint32_t event = kNone;
    std::uint32_t call = kNone;      // kNone: not in the window
    std::int64_t launch = kLongAgo;  // when the call, or the last one on the stream that is known, started
    bool is_backlog = false;         // all that was launched before the window; the event is the last of it
    std::uint32_t stream = 0;
    std::uint32_t position = 0;  // on its stream
    std::uint32_t op = kNone;
    std::uint32_t run = kNone;  // of TraceStep::activities
  };
  struct Interval {
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  struct Backlog {
    std::uint32_t stream = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  struct Pause {
    Interval interval;
    std::size_t thread = 0;    // that is waited for
    std::int64_t until = 0;    // when it stopped
    std::uint32_t op = kNone;  // that it stopped with
  };
  struct Thread {
    std::vector<std::uint32_t> calls;  // outermost ones, by start
    std::vector<Interval> busy;        // op ranges and calls, merged
    std::vector<Pause> pauses;
    std::vector<std::int64_t> cuts;  // where others wait for it
    bool is_used = false;
    std::uint32_t device = kNone;
    std::map<std::int64_t, std::uint32_t> op_of_cut;
  };

  const TraceEvent& EventOf(const Call& call) const { return trace_.events[call.event]; }
  const TraceEvent& EventOf(const Activity& activity) const { return trace_.events[activity.event]; }

  // Calls with the op ranges around them, and when each thread did anything.
  void FindCalls() {
    struct Open {
      std::int64_t end;
      std::uint32_t id;
    };
    struct Stack {
      std::vector<Open> ranges;  // events
      std::uint32_t call = kNone;
      std::int64_t call_end = 0;
    };
    std::vector<Stack> stacks(trace_.threads.size());
    threads_.resize(trace_.threads.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.category == TraceCategory::kSync) {
        if (event.correlation >= 0) syncs_[event.correlation] = static_cast<std::uint32_t>(i);
        continue;
      }
      if (IsActivity(event.category)) continue;
      Stack& stack = stacks[event.track];
      Thread& thread = threads_[event.track];
      const bool is_own = IsOwn(event.start);
      if (!is_own && event.category == TraceCategory::kOp) continue;
      while (!stack.ranges.empty() && stack.ranges.back().end <= event.start) stack.ranges.pop_back();
      if (is_own) AddBusy(event, &thread);
      if (event.category == TraceCategory::kOp) {
        stack.ranges.push_back({event.end, static_cast<std::uint32_t>(i)});
        thread.is_used = true;
        continue;
      }
      Call call;
      call.event = static_cast<std::uint32_t>(i);
      call.type = TypeOf(trace_.text(event.name));
      call.is_own = is_own;
      if (!stack.ranges.empty()) {
        call.source = stack.ranges.back().id;
        call.outer = stack.ranges.front().id;
      }
      const auto id = static_cast<std::uint32_t>(calls_.size());
      if (stack.call != kNone && event.start < stack.call_end) {
        call.outermost = stack.call;
      } else {
        call.outermost = id;
        stack.call = id;
        stack.call_end = event.end;
        if (is_own) thread.calls.push_back(id);
      }
      if (event.correlation >= 0) {
        const auto [first, is_new] = call_of_.try_emplace(event.correlation, id);
        if (!is_new) {
          same_ids_[event.correlation].push_back(id);
          first->second = id;
        }
      }
      calls_.push_back(std::move(call));
    }
    if (mark_ == nullptr) return;
    // The thread goes on to the end of its step.
    Thread& thread = threads_[mark_->thread];
    thread.is_used = true;
    if (thread.busy.empty() || thread.busy.back().end < mark_->end) thread.busy.push_back({mark_->end, mark_->end});
  }

  bool IsOwn(std::int64_t start) const { return mark_ == nullptr || (start >= mark_->start && start < mark_->end); }

  void AddBusy(const TraceEvent& event, Thread* thread) const {
    // Ranges of other threads may go on through many steps.
    const bool is_cut = mark_ != nullptr && event.category == TraceCategory::kOp;
    const std::int64_t end = is_cut ? std::min(event.end, mark_->end) : event.end;
    if (thread->busy.empty() || thread->busy.back().end < event.start) {
      thread->busy.push_back({event.start, end});
    } else {
      thread->busy.back().end = std::max(thread->busy.back().end, end);
    }
  }

  // What an activity is to the step.
  enum class Tie : std::uint8_t {
    kBefore,   // launched before it
    kOwn,      // launched by one of its calls
    kUnknown,  // between such ones, without a call
    kAfter,
  };
  struct Tied {
    std::uint32_t event = 0;
    std::uint32_t call = kNone;
    Tie tie = Tie::kUnknown;
  };

  void TieActivities() {
    std::vector<std::vector<std::uint32_t>> by_stream(trace_.streams.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (IsActivity(trace_.events[i].category))
        by_stream[trace_.events[i].track].push_back(static_cast<std::uint32_t>(i));
    }
    TieSameIds(by_stream);
    LeaveEarlyOnes(by_stream);
    tied_.resize(by_stream.size());
    // By when every stream has come to what was launched in the window.
    std::int64_t all_known = kLongAgo;
    for (std::size_t s = 0; s < by_stream.size(); ++s) {
      bool is_before = true;
      for (const std::uint32_t event : by_stream[s]) {
        Tied tied{.event = event, .call = CallOf(event)};
        if (tied.call != kNone) {
          const Call& call = calls_[tied.call];
          tied.tie = call.is_own ? Tie::kOwn : EventOf(call).start < mark_->start ? Tie::kBefore : Tie::kAfter;
          if (is_before) all_known = std::max(all_known, trace_.events[event].start);
          is_before = false;
        } else if (is_before) {
          tied.tie = Tie::kBefore;
        } else {
          // As the one before it: a stream does things in their order.
          tied.tie = tied_[s].back().tie == Tie::kOwn ? Tie::kUnknown : tied_[s].back().tie;
        }
        tied_[s].push_back(tied);
      }
      if (is_before) without_calls_.push_back(s);
    }
    // A stream of which no call is known was busy with something from before the window, as long as others were.
    for (const std::size_t s : without_calls_) {
      for (Tied& tied : tied_[s]) {
        if (trace_.events[tied.event].start > all_known && mark_ == nullptr) tied.tie = Tie::kUnknown;
      }
    }
  }

  // A few activities that start long before their calls have a wrong time or a wrong id. If there are many, the GPU has
  // another clock, and the calls are the right ones.
  void LeaveEarlyOnes(const std::vector<std::vector<std::uint32_t>>& by_stream) {
    std::vector<std::uint32_t> early;
    std::size_t all = 0;
    for (const auto& events : by_stream) {
      for (const std::uint32_t event : events) {
        const std::uint32_t call = CallOf(event);
        if (call == kNone) continue;
        ++all;
        if (trace_.events[event].start + kTooEarly < EventOf(calls_[call]).start) early.push_back(event);
      }
    }
    if (early.empty() || (early.size() > 1 && 20 * early.size() > all)) return;
    for (const std::uint32_t event : early) call_of_activity_[event] = kNone;
    before_calls_ = early.size();
  }

  std::uint32_t CallOf(std::uint32_t event) const {
    const auto same = call_of_activity_.find(event);
    if (same != call_of_activity_.end()) return same->second;
    const std::int64_t id = trace_.events[event].correlation;
    const auto call = call_of_.find(id);
    return id < 0 || call == call_of_.end() ? kNone : call->second;
  }

  // Of calls with one id the k-th started the k-th activity; anything else would be a guess.
  void TieSameIds(const std::vector<std::vector<std::uint32_t>>& by_stream) {
    if (same_ids_.empty()) return;
    std::unordered_map<std::int64_t, std::vector<std::uint32_t>> activities;
    for (const auto& events : by_stream) {
      for (const std::uint32_t event : events) {
        const std::int64_t id = trace_.events[event].correlation;
        if (same_ids_.contains(id)) activities[id].push_back(event);
      }
    }
    // The first one too, and of calls inside each other the outermost.
    std::unordered_map<std::int64_t, std::vector<std::uint32_t>> calls;
    for (std::uint32_t id = 0; id < calls_.size(); ++id) {
      const std::int64_t correlation = EventOf(calls_[id]).correlation;
      if (!activities.contains(correlation) || calls_[id].outermost != id) continue;
      calls[correlation].push_back(id);
    }
    for (auto& [correlation, events] : activities) {
      std::vector<std::uint32_t>& candidates = calls[correlation];
      const auto launches =
          static_cast<std::size_t>(std::count_if(candidates.begin(), candidates.end(), [&](std::uint32_t id) {
            return calls_[id].type == CallType::kLaunch;
          }));
      if (launches > 0) {
        std::erase_if(candidates, [&](std::uint32_t id) { return calls_[id].type != CallType::kLaunch; });
      }
      std::sort(events.begin(), events.end());  // by start
      bool is_clear = candidates.size() == 1 || candidates.size() == events.size();
      for (std::size_t k = 0; k < events.size() && is_clear; ++k) {
        const std::uint32_t call = candidates[candidates.size() == 1 ? 0 : k];
        const TraceEvent& event = trace_.events[events[k]];
        is_clear = event.start + kClockTolerance >= EventOf(calls_[call]).start &&
                   trace_.streams[event.track].device == trace_.streams[trace_.events[events[0]].track].device;
        call_of_activity_[events[k]] = call;
      }
      if (is_clear) continue;
      throw InputError("traceEvents", prefix_ + fmt::format("correlation {} is that of {} calls and {} activities "
                                                            "(each rank's trace as a file of its own)",
                                                            correlation, candidates.size(), events.size()));
    }
  }

  // The step begins with its first event, or when what was before it has ended.
  void FindBegin() {
    std::int64_t before_end = kLongAgo;
    std::int64_t own_time = 0;
    for (const auto& stream : tied_) {
      for (const Tied& tied : stream) {
        const TraceEvent& event = trace_.events[tied.event];
        if (tied.tie == Tie::kBefore) before_end = std::max(before_end, event.end);
        if (tied.tie != Tie::kOwn) continue;
        own_time += event.end - event.start;
        Extend(event);
      }
    }
    if (mark_ == nullptr) return;
    start_ = mark_->start;
    if (before_end <= start_) return;
    std::int64_t early = 0;
    for (const auto& stream : tied_) {
      for (const Tied& tied : stream) {
        const TraceEvent& event = trace_.events[tied.event];
        if (tied.tie == Tie::kOwn) early += std::max<std::int64_t>(0, std::min(event.end, before_end) - event.start);
      }
    }
    // Steps that overlap on the GPU begin when the host does, beside what the step before still does.
    if (before_end < end_ && early * 4 <= own_time) start_ = before_end;
  }

  void FindActivities() {
    streams_.resize(tied_.size());
    for (std::size_t s = 0; s < tied_.size(); ++s) {
      AddBacklog(s);
      const auto last_own =
          std::find_if(tied_[s].rbegin(), tied_[s].rend(), [](const Tied& tied) { return tied.tie == Tie::kOwn; });
      const auto own_end = mark_ == nullptr ? tied_[s].end() : last_own.base();
      for (auto tied = tied_[s].begin(); tied < own_end; ++tied) {
        if (tied->tie != Tie::kOwn && tied->tie != Tie::kUnknown) continue;
        AddActivity(*tied, static_cast<std::uint32_t>(s));
      }
    }
    tied_ = {};
    for (const Call& call : calls_) {
      if (call.is_own && call.type == CallType::kLaunch && !call.ran_early && &calls_[call.outermost] == &call &&
          call.activities.empty())
        ++cut_launches_;
    }
  }

  void AddBacklog(std::size_t s) {
    Activity backlog;
    backlog.is_backlog = true;
    backlog.stream = static_cast<std::uint32_t>(s);
    for (const Tied& tied : tied_[s]) {
      const TraceEvent& event = trace_.events[tied.event];
      if (tied.tie != Tie::kBefore) continue;
      if (event.end <= start_) {
        // What is of another step is not of interest.
        if (tied.call == kNone && mark_ == nullptr) {
          ++trimmed_;
          trimmed_time_ += event.end - event.start;
        }
        continue;
      }
      trimmed_time_ += tied.call == kNone ? std::max<std::int64_t>(0, start_ - event.start) : 0;
      backlogs_.push_back({static_cast<std::uint32_t>(s), std::max(start_, event.start), event.end});
      backlog_time_ += event.end - std::max(start_, event.start);
      if (backlog.event == kNone || event.end > trace_.events[backlog.event].end) backlog.event = tied.event;
    }
    if (backlog.event == kNone) return;
    streams_[s].push_back(static_cast<std::uint32_t>(activities_.size()));
    end_ = std::max(end_, trace_.events[backlog.event].end);
    activities_.push_back(backlog);
  }

  void AddActivity(const Tied& tied, std::uint32_t s) {
    const TraceEvent& event = trace_.events[tied.event];
    if (event.end <= start_ && event.start < start_) {
      ++early_;
      if (tied.call != kNone) calls_[calls_[tied.call].outermost].ran_early = true;
      return;
    }
    const std::int64_t time = event.end - std::max(event.start, start_);
    step_.activity_time += time;
    Activity activity;
    activity.event = tied.event;
    activity.call = tied.call;
    activity.stream = s;
    activity.position = static_cast<std::uint32_t>(streams_[s].size());
    const auto id = static_cast<std::uint32_t>(activities_.size());
    if (tied.call == kNone) {
      ++unknown_;
      unknown_time_ += time;
      if (!streams_[s].empty()) activity.launch = activities_[streams_[s].back()].launch;
    } else {
      step_.launched_time += time;
      Call& call = calls_[tied.call];
      activity.launch = EventOf(call).start;
      if (call.source != kNone) step_.named_time += time;
      // What an inner call starts is started by the outermost one around it.
      calls_[call.outermost].activities.push_back(id);
    }
    streams_[s].push_back(id);
    activities_.push_back(activity);
    end_ = std::max(end_, event.end);
  }

  void FindThreads() {
    for (const auto& stream : tied_) {
      for (const Tied& tied : stream) {
        if (tied.tie == Tie::kOwn) threads_[EventOf(calls_[tied.call]).track].is_used = true;
      }
    }
    for (Thread& thread : threads_) {
      if (thread.busy.empty()) continue;
      if (!thread.is_used) {
        ++unused_threads_;
        continue;
      }
      start_ = std::min(start_, thread.busy.front().start);
      end_ = std::max(end_, thread.busy.back().end);
    }
  }

  void Extend(const TraceEvent& event) {
    start_ = std::min(start_, event.start);
    end_ = std::max(end_, event.end);
  }

  std::int64_t SubmitEnd(const Activity& activity) const {
    return EventOf(calls_[calls_[activity.call].outermost]).end;
  }

  // Of the whole rank: the median delay of starts on idle streams after their calls, and the mean gap between queued
  // activities.
  void FindDelays() {
    std::vector<std::int64_t> delays;
    std::vector<std::int64_t> short_waits;  // delays right behind another activity, where there is nothing better
    std::vector<std::int64_t> gaps;
    for (const auto& stream : streams_) {
      std::int64_t free = std::numeric_limits<std::int64_t>::min() / 2;
      for (const std::uint32_t id : stream) {
        const Activity& activity = activities_[id];
        const TraceEvent& event = EventOf(activity);
        if (activity.call == kNone) {
          free = std::max(free, event.end);
          continue;
        }
        const std::int64_t submitted = SubmitEnd(activity);
        if (!Blocks(activity)) {
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
    launch_delay_ = std::max<std::int64_t>(0, Median(std::move(delays.empty() ? short_waits : delays)));
    gap_ = std::max<std::int64_t>(0, Mean(gaps));
  }

  // Whether the call that started it waited for its end: copies from and to memory that is not pinned.
  bool Blocks(const Activity& activity) const {
    const TraceEvent& event = EventOf(activity);
    if (activity.call == kNone) return false;
    return event.category == TraceCategory::kCopy && event.end <= SubmitEnd(activity) &&
           event.end >= EventOf(calls_[calls_[activity.call].outermost]).start;
  }

  // Pauses in which another thread worked and stopped: they are waits for it.
  void FindPauses() {
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      Thread& thread = threads_[t];
      if (!thread.is_used || thread.busy.empty()) continue;
      std::int64_t free = start_;
      for (const Interval& busy : thread.busy) {
        if (busy.start - free >= kShortestPause) FindReason(t, {free, busy.start});
        free = std::max(free, busy.end);
      }
    }
    for (Thread& thread : threads_) {
      std::sort(thread.cuts.begin(), thread.cuts.end());
      thread.cuts.erase(std::unique(thread.cuts.begin(), thread.cuts.end()), thread.cuts.end());
    }
  }

  void FindReason(std::size_t t, const Interval& pause) {
    Pause best;
    best.until = pause.start;
    for (std::size_t other = 0; other < threads_.size(); ++other) {
      const Thread& candidate = threads_[other];
      if (other == t || !candidate.is_used || trace_.threads[other].process != trace_.threads[t].process) continue;
      // Its last interval that begins before the pause ends.
      const auto next = std::lower_bound(candidate.busy.begin(), candidate.busy.end(), pause.end,
                                         [](const Interval& busy, std::int64_t time) { return busy.start < time; });
      if (next == candidate.busy.begin()) continue;
      const Interval& last = *std::prev(next);
      if (last.end > pause.end || last.end <= best.until) continue;
      std::int64_t worked = 0;
      for (auto busy = next; busy != candidate.busy.begin();) {
        --busy;
        if (busy->end <= pause.start) break;
        worked += busy->end - std::max(busy->start, pause.start);
        if (2 * worked >= pause.end - pause.start) break;
      }
      if (2 * worked < last.end - pause.start) continue;
      best.thread = other;
      best.until = last.end;
    }
    if (best.until == pause.start) return;
    best.interval = pause;
    threads_[t].pauses.push_back(best);
    threads_[best.thread].cuts.push_back(best.until);
  }

  std::uint32_t AddDevice(TraceStep::Device device) {
    device.name = prefix_ + device.name;
    device.rank = rank_;
    step_.devices.push_back(std::move(device));
    return static_cast<std::uint32_t>(step_.devices.size() - 1);
  }

  std::uint32_t AddOp(TraceStep::Op op) {
    op.measured_start += shift_;
    step_.ops.push_back(std::move(op));
    return static_cast<std::uint32_t>(step_.ops.size() - 1);
  }

  void AddStreams() {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      if (streams_[s].empty()) continue;
      TraceStep::Device device;
      device.name = fmt::format("gpu {} stream {}", trace_.streams[s].device, trace_.streams[s].stream);
      device.is_stream = true;
      device.gpu = trace_.streams[s].device;
      device.launch_delay = launch_delay_;
      device.gap = gap_;
      const std::uint32_t id = AddDevice(device);
      devices_of_streams_[s] = id;
      std::int64_t free = start_;
      std::uint32_t before = kNone;
      for (const std::uint32_t activity_id : streams_[s]) {
        Activity& activity = activities_[activity_id];
        const TraceEvent& event = EventOf(activity);
        TraceStep::Op op;
        op.type = activity.is_backlog                      ? TraceStep::OpType::kBacklog
                  : event.category == TraceCategory::kCopy ? TraceStep::OpType::kCopy
                  : event.category == TraceCategory::kSet  ? TraceStep::OpType::kSet
                  : IsCollective(event)                    ? TraceStep::OpType::kCollective
                                                           : TraceStep::OpType::kKernel;
        op.device = id;
        op.measured_start = activity.is_backlog ? start_ : std::max(event.start, free);
        op.time = std::max<std::int64_t>(0, event.end - op.measured_start);
        op.event = activity.event;
        if (activity.call != kNone) {
          op.source = calls_[activity.call].source;
          op.outer = calls_[activity.call].outer;
        }
        if (before != kNone) op.after.push_back(before);
        before = activity.op = AddOp(std::move(op));
        free = std::max(free, event.end);
        if (activity.is_backlog) continue;
        activity.run = static_cast<std::uint32_t>(step_.activities.size());
        step_.activities.push_back({before, before, std::max(event.start, start_) + shift_, event.end + shift_, id});
      }
    }
    for (const Backlog& busy : std::exchange(backlogs_, {})) {
      step_.backlog.push_back({devices_of_streams_.at(busy.stream), busy.start + shift_, busy.end + shift_});
    }
    for (const std::uint32_t id : LaunchedCollectives()) {
      collectives_[GroupOf(EventOf(activities_[id]))].push_back(activities_[id].run);
    }
  }

  // Activities that are collectives, in the order of their launches.
  std::vector<std::uint32_t> LaunchedCollectives() const {
    std::vector<std::pair<std::int64_t, std::uint32_t>> launched;
    for (std::uint32_t id = 0; id < activities_.size(); ++id) {
      const Activity& activity = activities_[id];
      if (activity.call == kNone || !IsCollective(EventOf(activity))) continue;
      launched.emplace_back(activity.launch, id);
    }
    std::sort(launched.begin(), launched.end());
    std::vector<std::uint32_t> ids;
    ids.reserve(launched.size());
    for (const auto& [launch, id] : launched) ids.push_back(id);
    return ids;
  }

  // Groups of different ranks may have one name.
  std::string GroupOf(const TraceEvent& event) const {
    const TraceDetails& details = trace_.details_of(event);
    std::string group(trace_.text(details.group));
    if (details.ranks != 0) group.append(" of ").append(trace_.text(details.ranks));
    return group;
  }

  bool IsCollective(const TraceEvent& event) const {
    if (event.category != TraceCategory::kKernel) return false;
    const std::string_view name = trace_.text(event.name);
    return name.starts_with("nccl") && Contains(name, "ernel_");
  }

  // The last activity of a stream that was launched before `time`; kNone if there is none.
  std::uint32_t LastLaunched(std::size_t stream, std::int64_t time) const {
    const auto& ids = streams_[stream];
    const auto next =
        std::partition_point(ids.begin(), ids.end(), [&](std::uint32_t id) { return activities_[id].launch < time; });
    return next == ids.begin() ? kNone : *std::prev(next);
  }

  void AddTarget(std::uint32_t activity, const TraceEvent& call, std::vector<std::uint32_t>* targets) const {
    if (activity != kNone && EventOf(activities_[activity]).end <= call.end + kClockTolerance) {
      targets->push_back(activity);
    }
  }

  std::optional<std::size_t> FindStream(std::int64_t device, std::int64_t stream) const {
    for (std::size_t s = 0; s < trace_.streams.size(); ++s) {
      if (trace_.streams[s].device == device && trace_.streams[s].stream == stream) return s;
    }
    return std::nullopt;
  }

  const TraceEvent* SyncOf(const TraceEvent& call) const {
    const auto found = syncs_.find(call.correlation);
    return found == syncs_.end() ? nullptr : &trace_.events[found->second];
  }

  // What a call waited for.
  std::vector<std::uint32_t> Targets(const Call& call, std::uint32_t last_launched) const {
    const TraceEvent& event = EventOf(call);
    std::vector<std::uint32_t> targets;
    const TraceEvent* const sync = SyncOf(event);
    if (sync != nullptr && (call.type == CallType::kSyncStream || call.type == CallType::kSyncEvent)) {
      const TraceStream& named = trace_.streams[sync->track];
      const TraceDetails& details = trace_.details_of(*sync);
      const auto stream = FindStream(named.device, details.waited_stream.value_or(named.stream));
      std::int64_t before = event.start;
      if (details.record && call_of_.contains(*details.record))
        before = EventOf(calls_[call_of_.at(*details.record)]).start;
      if (stream) {
        AddTarget(LastLaunched(*stream, before), event, &targets);
        return targets;
      }
    }
    if (call.type == CallType::kSyncStream && last_launched != kNone) {
      AddTarget(LastLaunched(activities_[last_launched].stream, event.start), event, &targets);
      return targets;
    }
    if (call.type == CallType::kSyncEvent) {
      // No record says of what: of what it can have been, the last that ended.
      std::uint32_t best = kNone;
      for (const auto& ids : streams_) {
        const auto next = std::partition_point(ids.begin(), ids.end(), [&](std::uint32_t id) {
          return EventOf(activities_[id]).end <= event.end + kClockTolerance;
        });
        if (next == ids.begin()) continue;
        const std::uint32_t last = *std::prev(next);
        if (activities_[last].launch >= event.start) continue;
        if (best == kNone || EventOf(activities_[last]).end > EventOf(activities_[best]).end) best = last;
      }
      AddTarget(best, event, &targets);
      return targets;
    }
    for (std::size_t s = 0; s < streams_.size(); ++s) AddTarget(LastLaunched(s, event.start), event, &targets);
    if (call.type == CallType::kFree) {
      // It only waited if something was still running.
      const bool waited = std::any_of(targets.begin(), targets.end(),
                                      [&](std::uint32_t id) { return EventOf(activities_[id]).end > event.start; });
      if (!waited) targets.clear();
    }
    return targets;
  }

  // The activity whose start made room in the queue for a launch that took long; kNone if it was no such launch.
  std::uint32_t RoomMaker(const Call& call) const {
    const TraceEvent& event = EventOf(call);
    if (call.activities.empty() || event.end - event.start < kLongLaunch) return kNone;
    const Activity& launched = activities_[call.activities.front()];
    const auto& ids = streams_[launched.stream];
    const auto started = std::partition_point(
        ids.begin(), ids.end(), [&](std::uint32_t id) { return EventOf(activities_[id]).end <= event.end; });
    const auto position = static_cast<std::size_t>(started - ids.begin());
    if (position == 0 || launched.position < position + kFullQueue) return kNone;
    return *std::prev(started);
  }

  // Puts a thread together, from its start to its end.
  class ThreadWriter {
   public:
    ThreadWriter(RankBuilder* rank, std::uint32_t device, std::int64_t start)
        : rank_(*rank), device_(device), cursor_(start) {}

    // The thread's own work up to `end`; an op without time only if `needed`.
    void WorkUntil(std::int64_t end, const Call* call, bool needed) {
      const std::int64_t time = std::max<std::int64_t>(0, end - cursor_);
      if (time == 0 && !needed && waits_.empty()) return;
      Add(TraceStep::OpType::kHost, time, call);
      cursor_ = std::max(cursor_, end);
    }
    // What is behind a wait for `ops`, until `end`.
    void WaitUntil(std::int64_t over, std::int64_t end, std::vector<std::uint32_t> ops, const Call* call) {
      cursor_ = std::max(cursor_, over);
      waits_.insert(waits_.end(), ops.begin(), ops.end());
      Add(TraceStep::OpType::kWait, std::max<std::int64_t>(0, end - cursor_), call);
      cursor_ = std::max(cursor_, end);
    }
    // The next op waits for `op`, which ended at `time`.
    void PauseFor(std::uint32_t op, std::int64_t time) {
      waits_.push_back(op);
      cursor_ = std::max(cursor_, time);
    }
    std::uint32_t last() const { return last_; }
    std::int64_t cursor() const { return cursor_; }

   private:
    void Add(TraceStep::OpType type, std::int64_t time, const Call* call) {
      TraceStep::Op op;
      op.type = type;
      op.device = device_;
      op.time = time;
      op.measured_start = cursor_;
      if (call != nullptr) {
        op.event = call->event;
        op.source = call->source;
        op.outer = call->outer;
      }
      op.after = std::move(waits_);
      waits_.clear();
      if (last_ != kNone) op.after.push_back(last_);
      last_ = rank_.AddOp(std::move(op));
    }
    RankBuilder& rank_;
    std::uint32_t device_;
    std::int64_t cursor_;
    std::uint32_t last_ = kNone;
    std::vector<std::uint32_t> waits_;
  };

  std::vector<std::uint32_t> OpsOf(const std::vector<std::uint32_t>& activities) const {
    std::vector<std::uint32_t> ops;
    ops.reserve(activities.size());
    for (const std::uint32_t id : activities) ops.push_back(activities_[id].op);
    return ops;
  }

  std::string NameOfThread(std::size_t t) const {
    const TraceThread& thread = trace_.threads[t];
    const bool is_alone = std::all_of(trace_.threads.begin(), trace_.threads.end(), [&](const TraceThread& other) {
      return other.thread != thread.thread || other.process == thread.process;
    });
    return is_alone ? fmt::format("thread {}", thread.thread)
                    : fmt::format("process {} thread {}", thread.process, thread.thread);
  }

  void AddThread(std::size_t t) {
    Thread& thread = threads_[t];
    if (!thread.is_used || thread.busy.empty()) return;
    thread.device = AddDevice({.name = NameOfThread(t)});
    ThreadWriter writer(this, thread.device, start_);
    std::uint32_t last_launched = kNone;  // by this thread
    auto cut = thread.cuts.begin();
    auto pause = thread.pauses.begin();
    const auto pass = [&](std::int64_t time) {
      // Cuts and pauses up to `time`, in their order.
      while (true) {
        const bool has_cut = cut != thread.cuts.end() && *cut <= time;
        const bool has_pause = pause != thread.pauses.end() && pause->interval.end <= time;
        if (has_cut && (!has_pause || *cut <= pause->interval.start)) {
          writer.WorkUntil(*cut, nullptr, writer.last() == kNone);
          thread.op_of_cut[*cut] = writer.last();
          ++cut;
        } else if (has_pause) {
          writer.WorkUntil(pause->interval.start, nullptr, false);
          pending_.push_back({t, static_cast<std::size_t>(pause - thread.pauses.begin()),
                              static_cast<std::uint32_t>(step_.ops.size())});
          writer.PauseFor(kNone, pause->until);
          // The op that follows is added below, whatever its time.
          writer.WorkUntil(pause->interval.end, nullptr, true);
          ++pause;
        } else {
          return;
        }
      }
    };
    for (const std::uint32_t id : thread.calls) {
      const Call& call = calls_[id];
      const TraceEvent& event = EventOf(call);
      if (event.end <= start_) {
        // Done before the step began: what it started is there from the first moment.
        if (!call.activities.empty()) last_launched = call.activities.back();
        continue;
      }
      pass(event.start);
      if (!call.activities.empty()) {
        AddLaunch(call, &writer);
        last_launched = call.activities.back();
      } else if (call.type == CallType::kSyncDevice || call.type == CallType::kSyncStream ||
                 call.type == CallType::kSyncEvent || call.type == CallType::kFree) {
        const std::vector<std::uint32_t> targets = Targets(call, last_launched);
        if (targets.empty()) continue;
        writer.WorkUntil(event.start, &call, false);
        std::int64_t over = event.start;
        for (const std::uint32_t target : targets) over = std::max(over, EventOf(activities_[target]).end);
        writer.WaitUntil(std::min(over, event.end), event.end, OpsOf(targets), &call);
      }
    }
    pass(std::numeric_limits<std::int64_t>::max());
    writer.WorkUntil(thread.busy.back().end, nullptr, false);
  }

  void AddLaunch(const Call& call, ThreadWriter* writer) {
    const TraceEvent& event = EventOf(call);
    const Activity& first = activities_[call.activities.front()];
    const TraceEvent& started = EventOf(first);
    const bool blocks = Blocks(first);
    if (blocks || started.start + kShortestPause < event.end) {
      // The call has started something long before it returns: a copy that it waits for, or helps with.
      const std::uint32_t before = first.position == 0 ? kNone : streams_[first.stream][first.position - 1];
      const bool queued = before != kNone && EventOf(activities_[before]).end > event.start;
      writer->WorkUntil(queued ? event.start : std::clamp(started.start - launch_delay_, event.start, event.end), &call,
                        true);
      for (const std::uint32_t id : call.activities) step_.ops[activities_[id].op].after.push_back(writer->last());
      if (blocks) writer->WaitUntil(std::min(started.end, event.end), event.end, {first.op}, &call);
      return;
    }
    const std::uint32_t room = RoomMaker(call);
    if (room != kNone) {
      writer->WorkUntil(event.start, &call, false);
      writer->WaitUntil(std::max(event.start, EventOf(activities_[room]).end), event.end, {activities_[room].op},
                        &call);
    } else {
      writer->WorkUntil(event.end, &call, true);
    }
    for (const std::uint32_t id : call.activities) step_.ops[activities_[id].op].after.push_back(writer->last());
  }

  // Which ops end pauses is known once all threads are there. Then: waits between streams.
  void JoinStreams() {
    for (const auto& [t, index, op] : pending_) {
      const Pause& pause = threads_[t].pauses[index];
      const auto& cuts = threads_[pause.thread].op_of_cut;
      const auto found = cuts.find(pause.until);
      std::vector<std::uint32_t>& after = step_.ops[op].after;
      std::erase(after, kNone);
      if (found != cuts.end() && found->second != kNone) after.push_back(found->second);
    }
    std::vector<std::int64_t> waits_without_record;
    for (const Call& call : calls_) {
      if (call.type != CallType::kWaitEvent) continue;
      const TraceEvent& event = EventOf(call);
      const TraceEvent* const sync = SyncOf(event);
      const bool is_known = sync != nullptr && trace_.details_of(*sync).waited_stream.has_value();
      if (!is_known) {
        waits_without_record.push_back(event.start);
        continue;
      }
      const TraceDetails& details = trace_.details_of(*sync);
      const TraceStream& waiting = trace_.streams[sync->track];
      const auto to = FindStream(waiting.device, waiting.stream);
      const auto from = FindStream(waiting.device, *details.waited_stream);
      if (!to || !from || *to == *from) continue;
      std::int64_t recorded = event.start;
      if (details.record && call_of_.contains(*details.record)) {
        recorded = EventOf(calls_[call_of_.at(*details.record)]).start;
      }
      const std::uint32_t source = LastLaunched(*from, recorded);
      const std::uint32_t target = FirstLaunched(*to, event.end);
      if (source != kNone && target != kNone) Join(source, target);
    }
    for (const std::int64_t time : waits_without_record) GuessWait(time);
  }

  std::uint32_t FirstLaunched(std::size_t stream, std::int64_t time) const {
    const auto& ids = streams_[stream];
    const auto next =
        std::partition_point(ids.begin(), ids.end(), [&](std::uint32_t id) { return activities_[id].launch < time; });
    return next == ids.end() ? kNone : *next;
  }

  void Join(std::uint32_t source, std::uint32_t target) {
    // Starts that contradict a wait show that it was for something else.
    if (EventOf(activities_[source]).end > EventOf(activities_[target]).start + kClockTolerance) return;
    std::vector<std::uint32_t>& after = step_.ops[activities_[target].op].after;
    const std::uint32_t op = activities_[source].op;
    if (std::find(after.begin(), after.end(), op) == after.end()) after.push_back(op);
  }

  // A wait of some stream for some other: the one that a start shows, if any does.
  void GuessWait(std::int64_t time) {
    for (std::size_t to = 0; to < streams_.size(); ++to) {
      const std::uint32_t target = FirstLaunched(to, time);
      if (target == kNone) continue;
      const Activity& activity = activities_[target];
      if (activity.call == kNone) continue;
      const std::int64_t started = EventOf(activity).start;
      std::int64_t explained = SubmitEnd(activity) + launch_delay_;
      if (activity.position > 0) {
        explained = std::max(explained, EventOf(activities_[streams_[to][activity.position - 1]]).end + gap_);
      }
      if (started <= explained + kClockTolerance) continue;
      std::uint32_t best = kNone;
      for (std::size_t from = 0; from < streams_.size(); ++from) {
        if (from == to) continue;
        const std::uint32_t source = EndedBefore(from, started, time);
        if (source == kNone) continue;
        if (best == kNone || EventOf(activities_[source]).end > EventOf(activities_[best]).end) best = source;
      }
      if (best != kNone) Join(best, target);
    }
  }

  // What was launched on a stream before `launched`, and ended right before `time`; kNone if nothing.
  std::uint32_t EndedBefore(std::size_t stream, std::int64_t time, std::int64_t launched) const {
    const auto& ids = streams_[stream];
    auto next = std::partition_point(ids.begin(), ids.end(), [&](std::uint32_t id) {
      return EventOf(activities_[id]).end <= time + kClockTolerance;
    });
    while (next != ids.begin()) {
      --next;
      if (EventOf(activities_[*next]).end + kSoonAfterWait < time) return kNone;
      if (activities_[*next].launch < launched) return *next;
    }
    return kNone;
  }

  void Note() {
    const auto note = [&](std::string text) { step_.notes.push_back(prefix_ + std::move(text)); };
    const auto millis = [](std::int64_t nanos) { return static_cast<double>(nanos) / 1e6; };
    if (trimmed_ > 0) {
      note(fmt::format("{} GPU activities ({:.3f} ms) at the window's edges without their calls: trimmed", trimmed_,
                       millis(trimmed_time_)));
    }
    if (backlog_time_ > 0) {
      note(fmt::format("{:.3f} ms of GPU activities were launched before the step and hold their streams",
                       millis(backlog_time_)));
    }
    if (before_calls_ > 0) {
      note(fmt::format("{} GPU activities start before their calls: they count as without one", before_calls_));
    }
    if (early_ > 0) {
      note(fmt::format("{} GPU activities ran before the step before had ended: left out", early_));
    }
    if (unknown_ > 0) note(fmt::format("{} GPU activities ({:.3f} ms) have no call", unknown_, millis(unknown_time_)));
    if (cut_launches_ > 0) note(fmt::format("{} launches left no GPU activity", cut_launches_));
    if (unused_threads_ > 0) {
      note(fmt::format("{} threads that only poll or query: left out", unused_threads_));
    }
    if (trace_.spoiled > 0) note(fmt::format("{} events without ts or dur: left out", trace_.spoiled));
    if (trace_.endless > 0)
      note(fmt::format("{} events that did not end (dur below 0, or B and E without the other): left out",
                       trace_.endless));
    if (trace_.placeholders > 0) {
      note(fmt::format("{} events whose times are not of the trace's clock (placeholders, mostly 0): left out",
                       trace_.placeholders));
    }
    step_.backlog_time += backlog_time_;
    step_.trimmed_time += trimmed_time_;
  }

  struct Pending {
    std::size_t thread;
    std::size_t pause;
    std::uint32_t op;
  };

  const KinetoTrace& trace_;
  std::size_t rank_;
  std::string prefix_;
  std::int64_t shift_;  // from the trace's times to the step's
  const TraceStepMark* mark_;
  TraceStep& step_;

  std::vector<Call> calls_;
  std::unordered_map<std::int64_t, std::uint32_t> call_of_;                // by correlation id
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> same_ids_;  // more calls with an id of call_of_
  std::unordered_map<std::uint32_t, std::uint32_t> call_of_activity_;      // of events with such an id
  std::unordered_map<std::int64_t, std::uint32_t> syncs_;                  // events, by correlation id
  std::vector<std::vector<Tied>> tied_;                                    // by stream
  std::vector<std::size_t> without_calls_;                                 // streams
  std::vector<Backlog> backlogs_;
  std::vector<Activity> activities_;
  std::vector<std::vector<std::uint32_t>> streams_;  // activities in their order
  std::vector<Thread> threads_;
  std::vector<Pending> pending_;
  std::map<std::size_t, std::uint32_t> devices_of_streams_;
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> collectives_;
  std::int64_t start_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t launch_delay_ = 0;
  std::int64_t gap_ = 0;
  std::size_t trimmed_ = 0;
  std::int64_t trimmed_time_ = 0;
  std::int64_t backlog_time_ = 0;
  std::size_t early_ = 0;
  std::size_t before_calls_ = 0;
  std::size_t unknown_ = 0;
  std::int64_t unknown_time_ = 0;
  std::size_t cut_launches_ = 0;
  std::size_t unused_threads_ = 0;
};

// Joins the k-th collectives of one process group: none goes on before all its ranks have arrived.
class CollectiveJoiner {
 public:
  CollectiveJoiner(std::span<const std::unique_ptr<RankBuilder>> ranks, TraceStep* step)
      : ranks_(ranks), step_(*step) {}

  void Join() {
    std::set<std::string> groups;
    for (const auto& rank : ranks_) {
      for (const auto& [group, activities] : rank->collectives()) groups.insert(group);
    }
    for (const std::string& group : groups) JoinGroup(group);
    if (joined_ > 0) step_.notes.push_back(fmt::format("{} collectives of several ranks joined", joined_));
    if (skewed_ > 0) {
      step_.notes.push_back(fmt::format(
          "{} collectives end on a rank before another rank starts them: the shortest part is taken as their time",
          skewed_));
    }
  }

 private:
  void JoinGroup(const std::string& group) {
    std::vector<std::span<const std::uint32_t>> members;
    std::vector<const RankBuilder*> ranks;
    for (const auto& rank : ranks_) {
      const auto found = rank->collectives().find(group);
      if (found == rank->collectives().end()) continue;
      members.emplace_back(found->second);
      ranks.push_back(rank.get());
    }
    if (members.size() < 2) return;
    for (std::size_t k = 0; k < members[0].size(); ++k) {
      const std::string_view name = ranks[0]->NameOf(OpOf(members[0][k]));
      for (std::size_t r = 0; r < members.size(); ++r) {
        if (members[r].size() == members[0].size() && ranks[r]->NameOf(OpOf(members[r][k])) == name) continue;
        step_.notes.push_back(fmt::format(
            "process group {}: the ranks' collectives differ from number {} on: not joined", Quoted(group), k));
        return;
      }
      JoinOne(members, k);
    }
  }

  TraceStep::Op& OpOf(std::uint32_t activity) { return step_.ops[step_.activities[activity].last]; }

  void JoinOne(const std::vector<std::span<const std::uint32_t>>& members, std::size_t k) {
    std::int64_t arrived = std::numeric_limits<std::int64_t>::min();
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    bool is_skewed = false;
    for (const auto& activities : members) {
      const TraceStep::Activity& activity = step_.activities[activities[k]];
      arrived = std::max(arrived, activity.start);
      shortest = std::min(shortest, OpOf(activities[k]).time);
    }
    for (const auto& activities : members) is_skewed |= step_.activities[activities[k]].end < arrived;
    std::vector<std::uint32_t> arrivals;
    for (const auto& activities : members) {
      TraceStep::Activity& activity = step_.activities[activities[k]];
      TraceStep::Op arrival = step_.ops[activity.last];
      arrival.type = TraceStep::OpType::kArrival;
      arrival.time = 0;
      activity.first = static_cast<std::uint32_t>(step_.ops.size());
      arrivals.push_back(activity.first);
      step_.ops.push_back(std::move(arrival));
    }
    for (const auto& activities : members) {
      const TraceStep::Activity& activity = step_.activities[activities[k]];
      TraceStep::Op& op = step_.ops[activity.last];
      op.after = arrivals;
      if (is_skewed) {
        op.time = shortest;
        op.measured_start = activity.end - shortest;
      } else {
        op.measured_start = std::max(op.measured_start, arrived);
        op.time = std::max<std::int64_t>(0, activity.end - op.measured_start);
      }
    }
    ++joined_;
    skewed_ += is_skewed ? 1 : 0;
  }

  std::span<const std::unique_ptr<RankBuilder>> ranks_;
  TraceStep& step_;
  std::size_t joined_ = 0;
  std::size_t skewed_ = 0;
};

// Sets ranks right whose clocks differ: a collective ends on all of its ranks at about the same time.
class ClockAligner {
 public:
  ClockAligner(std::span<const std::unique_ptr<RankBuilder>> ranks, TraceStep* step) : ranks_(ranks), step_(*step) {}

  void Align() {
    if (ranks_.size() < 2) return;
    for (const auto& rank : ranks_) times_.push_back(rank->CollectiveTimes());
    FindCommon();
    if (common_.empty()) return;
    FindShifts();
    const std::size_t before = Contradictions(std::vector<std::int64_t>(ranks_.size(), 0));
    std::int64_t largest = 0;
    for (const std::int64_t shift : shifts_) largest = std::max(largest, std::abs(shift));
    // Without a contradiction only what is beyond all doubt is a matter of clocks: a difference that is the same for
    // all collectives, or a large one.
    const bool is_constant = common_.size() >= kConstantOf && largest > std::max(kLeastConstant, 10 * spread_);
    const bool is_needed =
        before > 0 ? largest > kLeastShift : is_constant || largest > std::max(4 * kLeastShift, 5 * spread_);
    if (is_needed) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (shifts_[r] == 0) continue;
        ranks_[r]->ShiftBy(shifts_[r]);
        step_.notes.push_back(ranks_[r]->prefix() +
                              fmt::format("has another clock: shifted by {:+.3f} ms, so that its collectives end with "
                                          "the other ranks'",
                                          static_cast<double>(shifts_[r]) / 1e6));
      }
    }
    const std::size_t after = is_needed ? Contradictions(shifts_) : before;
    if (after > 1 && 5 * after > common_.size()) {
      throw InputError("traceEvents",
                       fmt::format("{} of {} collectives end on a rank before another rank starts them, whatever the "
                                   "clocks' difference (traces of one step)",
                                   after, common_.size()));
    }
  }

 private:
  // One collective on all of its ranks.
  struct Common {
    struct Part {
      std::size_t rank;
      std::int64_t start;
      std::int64_t end;
    };
    std::vector<Part> parts;
  };

  void FindCommon() {
    std::set<std::string> groups;
    for (const auto& times : times_) {
      for (const auto& [group, collectives] : times) groups.insert(group);
    }
    for (const std::string& group : groups) {
      std::vector<std::size_t> members;
      for (std::size_t r = 0; r < times_.size(); ++r) {
        if (times_[r].contains(group)) members.push_back(r);
      }
      if (members.size() < 2) continue;
      const auto& first = times_[members[0]].at(group);
      const bool is_same = std::all_of(members.begin(), members.end(), [&](std::size_t r) {
        const auto& other = times_[r].at(group);
        return std::equal(first.begin(), first.end(), other.begin(), other.end(),
                          [](const auto& a, const auto& b) { return a.name == b.name; });
      });
      if (!is_same) continue;
      for (std::size_t k = 0; k < first.size(); ++k) {
        Common common;
        for (const std::size_t r : members) {
          const auto& time = times_[r].at(group)[k];
          common.parts.push_back({r, time.start, time.end});
        }
        common_.push_back(std::move(common));
      }
    }
  }

  // From rank to rank by the most collectives that two have in common.
  void FindShifts() {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int64_t>> differences;
    for (const Common& common : common_) {
      // Against the first rank of the group: what is common to all needs no more.
      const auto& first = common.parts.front();
      for (const auto& part : common.parts) {
        if (part.rank == first.rank) continue;
        differences[{first.rank, part.rank}].push_back(first.end - part.end);
        differences[{part.rank, first.rank}].push_back(part.end - first.end);
      }
    }
    shifts_.assign(ranks_.size(), 0);
    std::vector<bool> is_known(ranks_.size());
    for (std::size_t root = 0; root < ranks_.size(); ++root) {
      if (is_known[root]) continue;
      is_known[root] = true;
      while (true) {
        const std::vector<std::int64_t>* best = nullptr;
        std::pair<std::size_t, std::size_t> edge;
        for (const auto& [ends, list] : differences) {
          if (!is_known[ends.first] || is_known[ends.second]) continue;
          if (best != nullptr && best->size() >= list.size()) continue;
          best = &list;
          edge = ends;
        }
        if (best == nullptr) break;
        const std::int64_t shift = Median(*best);
        shifts_[edge.second] = shifts_[edge.first] + shift;
        is_known[edge.second] = true;
        std::vector<std::int64_t> off;
        for (const std::int64_t difference : *best) off.push_back(std::abs(difference - shift));
        spread_ = std::max(spread_, Median(std::move(off)));
      }
    }
  }

  std::size_t Contradictions(const std::vector<std::int64_t>& shifts) const {
    std::size_t count = 0;
    for (const Common& common : common_) {
      std::int64_t arrived = std::numeric_limits<std::int64_t>::min();
      std::int64_t ended = std::numeric_limits<std::int64_t>::max();
      for (const auto& part : common.parts) {
        arrived = std::max(arrived, part.start + shifts[part.rank]);
        ended = std::min(ended, part.end + shifts[part.rank]);
      }
      count += ended < arrived ? 1 : 0;
    }
    return count;
  }

  std::span<const std::unique_ptr<RankBuilder>> ranks_;
  TraceStep& step_;
  std::vector<std::map<std::string, std::vector<RankBuilder::CollectiveTime>>> times_;  // by rank
  std::vector<Common> common_;
  std::vector<std::int64_t> shifts_;  // by rank
  std::int64_t spread_ = 0;
};

const TraceStepMark* FindMark(const KinetoTrace& trace, std::int64_t number) {
  for (const TraceStepMark& mark : trace.steps) {
    if (mark.number == number) return &mark;
  }
  return nullptr;
}

// The number of the step that is taken; none: the whole window.
std::optional<std::int64_t> ChooseStep(const std::vector<KinetoTrace>& traces, std::string_view which,
                                       TraceStep* step) {
  const std::vector<std::int64_t> numbers = StepsOf(traces);
  step->steps = numbers.size();
  const auto names = [&] {
    return numbers.empty()       ? std::string("there are no annotations ProfilerStep#N")
           : numbers.size() == 1 ? fmt::format("#{}", numbers[0])
                                 : fmt::format("#{} to #{}", numbers.front(), numbers.back());
  };
  if (!which.empty() && which != "all") {
    for (const std::int64_t number : numbers) {
      if (std::to_string(number) == which) return number;
    }
    throw InputError("--step", fmt::format("is {} ({})", Quoted(which), names()));
  }
  if (std::ranges::any_of(traces, &KinetoTrace::has_repeated_steps)) {
    step->notes.push_back(
        "several annotations ProfilerStep#N have one number: they are numbered from 0 on by their start");
  }
  if (numbers.size() < 2) {
    if (std::ranges::any_of(traces, [](const KinetoTrace& trace) { return trace.steps.size() > 1; })) {
      step->notes.push_back("the ranks have no two steps ProfilerStep#N in common: the window is taken as one step");
    }
    return std::nullopt;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths;  // with the number
  for (const std::int64_t number : numbers) {
    std::int64_t length = 0;
    for (const KinetoTrace& trace : traces) {
      const TraceStepMark& mark = *FindMark(trace, number);
      length = std::max(length, mark.end - mark.start);
    }
    lengths.emplace_back(length, number);
  }
  std::sort(lengths.begin(), lengths.end());
  const auto& [median, number] = lengths[(lengths.size() - 1) / 2];
  const auto millis = [](std::int64_t nanos) { return static_cast<double>(nanos) / 1e6; };
  step->notes.push_back(
      fmt::format("{} steps in the window (ProfilerStep{}) of {:.3f} to {:.3f} ms, median {:.3f}: {} (--step chooses)",
                  numbers.size(), names(), millis(lengths.front().first), millis(lengths.back().first), millis(median),
                  which == "all" ? "all of them are taken as one" : fmt::format("#{} is taken", number)));
  if (which == "all") return std::nullopt;
  return number;
}

std::string WithoutCalls(const KinetoTrace& trace) {
  std::string text = "has no kernel, copy or set with its call (a step on a GPU)";
  for (const auto& [category, count] : trace.like_calls) {
    text += fmt::format("; {} events of category {} have correlation ids, but it is not known what they are", count,
                        Quoted(category));
  }
  return text;
}

// Files of one step overlap, or nearly so. Where they do not, their clocks differ, and no collective says by how much.
void RefuseFilesApart(const std::vector<KinetoTrace>& traces, std::span<const std::unique_ptr<RankBuilder>> ranks) {
  struct Window {
    std::int64_t start;
    std::int64_t end;
    std::size_t rank;  // the first of the file
  };
  std::vector<Window> windows;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (r == 0 || traces[r].file != traces[r - 1].file) windows.push_back({ranks[r]->start(), ranks[r]->end(), r});
    windows.back().start = std::min(windows.back().start, ranks[r]->start());
    windows.back().end = std::max(windows.back().end, ranks[r]->end());
  }
  std::int64_t longest = 0;
  for (const Window& window : windows) longest = std::max(longest, window.end - window.start);
  std::ranges::stable_sort(windows, {}, &Window::start);
  std::int64_t end = windows.front().end;
  for (const Window& window : windows) {
    const std::int64_t pause = window.start - end;
    if (pause > longest) {
      throw InputError(
          "traceEvents",
          ranks[window.rank]->prefix() +
              fmt::format("is {:.3f} ms apart from ranks that are busy for at most {:.3f} ms: their clocks differ, and "
                          "no collectives that they have in common say by how much (traces of one step)",
                          static_cast<double>(pause) / 1e6, static_cast<double>(longest) / 1e6));
    }
    end = std::max(end, window.end);
  }
}

}  // namespace

std::vector<std::int64_t> StepsOf(const std::vector<KinetoTrace>& traces) {
  std::vector<std::int64_t> numbers;
  if (traces.empty()) return numbers;
  for (const TraceStepMark& mark : traces.front().steps) {
    const bool is_common = std::all_of(traces.begin(), traces.end(), [&](const KinetoTrace& trace) {
      return FindMark(trace, mark.number) != nullptr;
    });
    if (is_common && std::find(numbers.begin(), numbers.end(), mark.number) == numbers.end())
      numbers.push_back(mark.number);
  }
  return numbers;
}

TraceStep RebuildStep(const std::vector<KinetoTrace>& traces, std::string_view which) {
  TraceStep step;
  step.step = ChooseStep(traces, which, &step);
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const KinetoTrace& trace : traces) origin = std::min(origin, trace.origin);
  std::vector<std::unique_ptr<RankBuilder>> ranks;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const std::string prefix =
        traces.size() == 1 ? "" : fmt::format("rank {} ", traces[r].rank.value_or(static_cast<std::int64_t>(r)));
    const TraceStepMark* const mark = step.step ? FindMark(traces[r], *step.step) : nullptr;
    ranks.push_back(std::make_unique<RankBuilder>(traces[r], r, prefix, traces[r].origin - origin, mark, &step));
    if (!ranks.back()->HasStep()) {
      const std::string of_step = step.step ? fmt::format("in ProfilerStep#{} (--step chooses) ", *step.step) : "";
      throw InputError("traceEvents", prefix + of_step + WithoutCalls(traces[r]));
    }
  }
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const std::int64_t pause = r == 0 ? 0 : std::max(ranks[r]->start() - end, start - ranks[r]->end());
    if (pause > kLargestPause) {
      throw InputError(
          "traceEvents",
          ranks[r]->prefix() + fmt::format("is {:.0f} s apart from the traces before it (traces of one step)",
                                           static_cast<double>(pause) / 1e9));
    }
    start = std::min(start, ranks[r]->start());
    end = std::max(end, ranks[r]->end());
  }
  ClockAligner(ranks, &step).Align();
  RefuseFilesApart(traces, ranks);
  start = std::numeric_limits<std::int64_t>::max();
  end = std::numeric_limits<std::int64_t>::min();
  for (const auto& rank : ranks) {
    start = std::min(start, rank->start());
    end = std::max(end, rank->end());
  }
  for (const auto& rank : ranks) rank->Build(start - rank->shift());
  CollectiveJoiner(ranks, &step).Join();
  for (TraceStep::Op& op : step.ops) op.measured_start -= start;
  for (TraceStep::Activity& activity : step.activities) {
    activity.start -= start;
    activity.end -= start;
  }
  for (TraceStep::Busy& busy : step.backlog) {
    busy.start -= start;
    busy.end -= start;
  }
  step.measured_time = end - start;
  return step;
}

}  // namespace emplace::datasets
