#include "datasets/importers/trace_rank_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "datasets/importers/pytorch_et.h"
#include "datasets/importers/trace_memory.h"

namespace emplace::datasets {
namespace {

// A pause of a thread that is looked at: shorter ones are its own work.
constexpr std::int64_t kShortestPause = 20'000;
// How soon after the end of another stream an activity must have started to have waited for it, where a wait was called
// but no record says for what. A collective needs some time to start.
constexpr std::int64_t kSoonAfterWait = 45'000;
// A launch waits for room if this many activities are queued; CUDA's queues hold 1,024.
constexpr std::size_t kFullQueue = 900;

// A pause of a thread in which it waited for another one.
struct ThreadPause {
  TraceInterval interval;
  std::size_t thread = 0;  // the thread to wait for
  std::int64_t until = 0;  // time at which it stopped
};
struct ThreadPauses {
  std::vector<ThreadPause> pauses;
  std::vector<std::int64_t> cuts;  // times at which others wait for it, sorted
};

// The thread that worked in a pause of thread `t` and stopped before the pause ended; of several the last to stop.
std::optional<ThreadPause> FindReason(const MeasuredRank& rank, std::size_t t, const TraceInterval& pause) {
  const std::vector<RankThread>& threads = rank.calls.threads;
  ThreadPause best;
  best.until = pause.start;
  for (std::size_t other = 0; other < threads.size(); ++other) {
    const RankThread& candidate = threads[other];
    if (other == t || !candidate.is_used || rank.trace->threads[other].process != rank.trace->threads[t].process)
      continue;
    // Its last interval that begins before the pause ends.
    const auto next = std::lower_bound(candidate.busy.begin(), candidate.busy.end(), pause.end,
                                       [](const TraceInterval& busy, std::int64_t time) { return busy.start < time; });
    if (next == candidate.busy.begin()) continue;
    const TraceInterval& last = *std::prev(next);
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
  if (best.until == pause.start) return std::nullopt;
  best.interval = pause;
  return best;
}

// Pauses in which another thread worked and stopped are waits for it.
std::vector<ThreadPauses> FindPauses(const MeasuredRank& rank, std::int64_t start) {
  const std::vector<RankThread>& threads = rank.calls.threads;
  std::vector<ThreadPauses> pauses(threads.size());
  for (std::size_t t = 0; t < threads.size(); ++t) {
    if (!threads[t].is_used) continue;
    std::int64_t free = start;
    for (const TraceInterval& busy : threads[t].busy) {
      const auto pause = busy.start - free >= kShortestPause ? FindReason(rank, t, {free, busy.start}) : std::nullopt;
      if (pause) {
        pauses[t].pauses.push_back(*pause);
        pauses[pause->thread].cuts.push_back(pause->until);
      }
      free = std::max(free, busy.end);
    }
  }
  for (auto& [_, cuts] : pauses) {
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  }
  return pauses;
}

std::uint32_t AddDevice(const MeasuredRank& rank, TraceStep::Device device, TraceStep* step) {
  device.name = rank.prefix + device.name;
  device.rank = rank.number;
  step->devices.push_back(std::move(device));
  return static_cast<std::uint32_t>(step->devices.size() - 1);
}

std::uint32_t AddStream(const MeasuredRank& rank, std::size_t s, TraceStep* step) {
  TraceStep::Device device;
  device.name = fmt::format("gpu {} stream {}", rank.trace->streams[s].device, rank.trace->streams[s].stream);
  device.is_stream = true;
  device.gpu = rank.trace->streams[s].device;
  device.launch_delay = rank.delays.launch;
  device.gap = rank.delays.gap;
  return AddDevice(rank, std::move(device), step);
}

TraceStep::OpType TypeOfActivity(const MeasuredRank& rank, const RankActivity& activity) {
  if (activity.is_backlog) return TraceStep::OpType::kBacklog;
  const TraceEvent& event = rank.EventOf(activity);
  if (event.category == TraceCategory::kCopy) return TraceStep::OpType::kCopy;
  if (event.category == TraceCategory::kSet) return TraceStep::OpType::kSet;
  return IsCollective(*rank.trace, event) ? TraceStep::OpType::kCollective : TraceStep::OpType::kKernel;
}

// The op of an activity on a stream that is free from `free` on.
TraceStep::Op OpOfActivity(const MeasuredRank& rank, const RankActivity& activity, std::int64_t start,
                           std::int64_t free) {
  const TraceEvent& event = rank.EventOf(activity);
  TraceStep::Op op;
  op.type = TypeOfActivity(rank, activity);
  op.measured_start = activity.is_backlog ? start : std::max(event.start, free);
  op.time = std::max<std::int64_t>(0, event.end - op.measured_start);
  op.measured_start += rank.shift;
  op.event = activity.event;
  if (activity.call != kInvalidTraceId) {
    op.source = rank.calls.calls[activity.call].source;
    op.outer = rank.calls.calls[activity.call].outer;
  }
  return op;
}

// Where the activities of a rank are in the step.
struct StepActivities {
  std::vector<std::uint32_t> ops;   // positions in TraceStep::ops
  std::vector<std::uint32_t> runs;  // positions in TraceStep::activities; kInvalidTraceId: a backlog
};

// Adds the streams with their ops, each op after the one before it on its stream.
StepActivities AddStreams(const MeasuredRank& rank, std::int64_t start, TraceStep* step) {
  const RankActivities& measured = rank.activities;
  StepActivities added;
  added.ops.assign(measured.activities.size(), kInvalidTraceId);
  added.runs.assign(measured.activities.size(), kInvalidTraceId);
  std::vector<std::uint32_t> devices(measured.streams.size(), kInvalidTraceId);
  for (std::size_t s = 0; s < measured.streams.size(); ++s) {
    if (measured.streams[s].empty()) continue;
    devices[s] = AddStream(rank, s, step);
    std::int64_t free = start;
    std::uint32_t before = kInvalidTraceId;
    for (const std::uint32_t id : measured.streams[s]) {
      const RankActivity& activity = measured.activities[id];
      const TraceEvent& event = rank.EventOf(activity);
      TraceStep::Op op = OpOfActivity(rank, activity, start, free);
      op.device = devices[s];
      if (before != kInvalidTraceId) op.after.push_back(before);
      before = added.ops[id] = static_cast<std::uint32_t>(step->ops.size());
      step->ops.push_back(std::move(op));
      free = std::max(free, event.end);
      if (activity.is_backlog) continue;
      added.runs[id] = static_cast<std::uint32_t>(step->activities.size());
      step->activities.push_back(
          {before, before, std::max(event.start, start) + rank.shift, event.end + rank.shift, devices[s]});
    }
  }
  for (const auto& [stream, busy] : measured.backlog) {
    step->backlog.push_back({devices[stream], busy.start + rank.shift, busy.end + rank.shift});
  }
  return added;
}

// The last activity of a stream that was launched before `time`; kInvalidTraceId if there is none.
std::uint32_t LastLaunched(const MeasuredRank& rank, std::size_t stream, std::int64_t time) {
  const auto& ids = rank.activities.streams[stream];
  const auto next = std::partition_point(
      ids.begin(), ids.end(), [&](std::uint32_t id) { return rank.activities.activities[id].launch < time; });
  return next == ids.begin() ? kInvalidTraceId : *std::prev(next);
}

// The first one that was not.
std::uint32_t FirstLaunched(const MeasuredRank& rank, std::size_t stream, std::int64_t time) {
  const auto& ids = rank.activities.streams[stream];
  const auto next = std::partition_point(
      ids.begin(), ids.end(), [&](std::uint32_t id) { return rank.activities.activities[id].launch < time; });
  return next == ids.end() ? kInvalidTraceId : *next;
}

// Adds an activity that had ended when `call` did to what the call waited for.
void AddTarget(const MeasuredRank& rank, std::uint32_t activity, const TraceEvent& call,
               std::vector<std::uint32_t>* targets) {
  if (activity != kInvalidTraceId && rank.EventOfActivity(activity).end <= call.end + kClockTolerance) {
    targets->push_back(activity);
  }
}

std::optional<std::size_t> FindStream(const MeasuredRank& rank, std::int64_t device, std::int64_t stream) {
  for (std::size_t s = 0; s < rank.trace->streams.size(); ++s) {
    if (rank.trace->streams[s].device == device && rank.trace->streams[s].stream == stream) return s;
  }
  return std::nullopt;
}

// The record of what a call waited for; null if the trace has none.
const TraceEvent* SyncOf(const MeasuredRank& rank, const TraceEvent& call) {
  const auto found = rank.calls.syncs.find(call.correlation);
  return found == rank.calls.syncs.end() ? nullptr : &rank.trace->events[found->second];
}

// When the event that a record names was recorded; `otherwise` where that is not known.
std::int64_t RecordTime(const MeasuredRank& rank, const TraceDetails& details, std::int64_t otherwise) {
  if (!details.record) return otherwise;
  const auto call = rank.calls.by_id.find(*details.record);
  return call == rank.calls.by_id.end() ? otherwise : rank.EventOf(rank.calls.calls[call->second]).start;
}

// The activity that a call waited for, as the record of the call says; none: no record names a stream.
std::optional<std::uint32_t> RecordedTarget(const MeasuredRank& rank, const RankCall& call) {
  const TraceEvent& event = rank.EventOf(call);
  const TraceEvent* const sync = SyncOf(rank, event);
  if (sync == nullptr) return std::nullopt;
  const TraceStream& named = rank.trace->streams[sync->track];
  const TraceDetails& details = rank.trace->details_of(*sync);
  const auto stream = FindStream(rank, named.device, details.waited_stream.value_or(named.stream));
  if (!stream) return std::nullopt;
  return LastLaunched(rank, *stream, RecordTime(rank, details, event.start));
}

// What an event's synchronisation without a record waited for: of what it can have been, the last that ended.
std::uint32_t GuessEventTarget(const MeasuredRank& rank, const TraceEvent& call) {
  std::uint32_t best = kInvalidTraceId;
  for (const auto& ids : rank.activities.streams) {
    const auto next = std::partition_point(ids.begin(), ids.end(), [&](std::uint32_t id) {
      return rank.EventOfActivity(id).end <= call.end + kClockTolerance;
    });
    if (next == ids.begin()) continue;
    const std::uint32_t last = *std::prev(next);
    if (rank.activities.activities[last].launch >= call.start) continue;
    if (best == kInvalidTraceId || rank.EventOfActivity(last).end > rank.EventOfActivity(best).end) best = last;
  }
  return best;
}

// The activity for which a call waited. `last_launched`: the last activity that its thread had launched.
std::vector<std::uint32_t> Targets(const MeasuredRank& rank, const RankCall& call, std::uint32_t last_launched) {
  const TraceEvent& event = rank.EventOf(call);
  std::vector<std::uint32_t> targets;
  if (call.type == RankCallType::kSyncStream || call.type == RankCallType::kSyncEvent) {
    std::optional<std::uint32_t> target = RecordedTarget(rank, call);
    if (!target && call.type == RankCallType::kSyncEvent) target = GuessEventTarget(rank, event);
    if (!target && last_launched != kInvalidTraceId) {
      target = LastLaunched(rank, rank.activities.activities[last_launched].stream, event.start);
    }
    if (target) {
      AddTarget(rank, *target, event, &targets);
      return targets;
    }
  }
  for (std::size_t s = 0; s < rank.activities.streams.size(); ++s) {
    AddTarget(rank, LastLaunched(rank, s, event.start), event, &targets);
  }
  if (call.type == RankCallType::kFree) {
    // It only waited if something was still running.
    const bool waited =
        std::ranges::any_of(targets, [&](std::uint32_t id) { return rank.EventOfActivity(id).end > event.start; });
    if (!waited) targets.clear();
  }
  return targets;
}

// The activity whose start made room in the queue for a launch that took long; kInvalidTraceId if it was not such a
// launch.
std::uint32_t FindQueueReleaser(const MeasuredRank& rank, const RankCall& call) {
  const TraceEvent& event = rank.EventOf(call);
  if (call.activities.empty() || event.end - event.start < kLongLaunch) return kInvalidTraceId;
  const RankActivity& launched = rank.activities.activities[call.activities.front()];
  const auto& ids = rank.activities.streams[launched.stream];
  const auto started = std::partition_point(
      ids.begin(), ids.end(), [&](std::uint32_t id) { return rank.EventOfActivity(id).end <= event.end; });
  const auto position = static_cast<std::size_t>(started - ids.begin());
  if (position == 0 || launched.position < position + kFullQueue) return kInvalidTraceId;
  return *std::prev(started);
}

// Puts a thread together, from its start to its end.
class ThreadWriter {
 public:
  ThreadWriter(std::uint32_t device, std::int64_t start, std::int64_t shift, TraceStep* step)
      : step_(*step), device_(device), shift_(shift), cursor_(start) {}

  // The thread's own work up to `end`; an op without time only if `needed`.
  void WorkUntil(std::int64_t end, const RankCall* call, bool needed) {
    const std::int64_t time = std::max<std::int64_t>(0, end - cursor_);
    if (time == 0 && !needed && waits_.empty()) return;
    Add(TraceStep::OpType::kHost, time, call);
    cursor_ = std::max(cursor_, end);
  }
  // The work after a wait for `ops`, until `end`.
  void WaitUntil(std::int64_t over, std::int64_t end, std::vector<std::uint32_t> ops, const RankCall* call) {
    cursor_ = std::max(cursor_, over);
    waits_.insert(waits_.end(), ops.begin(), ops.end());
    Add(TraceStep::OpType::kWait, std::max<std::int64_t>(0, end - cursor_), call);
    cursor_ = std::max(cursor_, end);
  }
  // An op range that ends at `end`; `own`: the part of its time that is its own.
  void EndRange(std::uint32_t event, std::uint32_t outer, std::int64_t own, std::int64_t end, bool calls_operators) {
    TraceStep::Op op;
    op.type = TraceStep::OpType::kRange;
    op.time = own;
    op.measured_start = end - own + shift_;
    op.event = op.source = event;
    op.outer = outer;
    op.calls_operators = calls_operators;
    Push(std::move(op));
    cursor_ = std::max(cursor_, end);
  }
  // The next op waits for what ended at `time`.
  void PauseUntil(std::int64_t time) { cursor_ = std::max(cursor_, time); }
  std::uint32_t last() const { return last_; }

 private:
  void Add(TraceStep::OpType type, std::int64_t time, const RankCall* call) {
    TraceStep::Op op;
    op.type = type;
    op.time = time;
    op.measured_start = cursor_ + shift_;
    if (call != nullptr) {
      op.event = call->event;
      op.source = call->source;
      op.outer = call->outer;
    }
    Push(std::move(op));
  }

  void Push(TraceStep::Op op) {
    op.device = device_;
    op.after = std::move(waits_);
    waits_.clear();
    if (last_ != kInvalidTraceId) op.after.push_back(last_);
    last_ = static_cast<std::uint32_t>(step_.ops.size());
    step_.ops.push_back(std::move(op));
  }

  TraceStep& step_;
  std::uint32_t device_;
  std::int64_t shift_;  // offset from the trace's times to the step's
  std::int64_t cursor_;
  std::uint32_t last_ = kInvalidTraceId;
  std::vector<std::uint32_t> waits_;
};

// The name of thread `t`, with its process where several processes have a thread of that name.
std::string NameOfThread(const MeasuredRank& rank, std::size_t t) {
  const TraceThread& thread = rank.trace->threads[t];
  const bool is_alone = std::all_of(
      rank.trace->threads.begin(), rank.trace->threads.end(),
      [&](const TraceThread& other) { return other.thread != thread.thread || other.process == thread.process; });
  return is_alone ? fmt::format("thread {}", thread.thread)
                  : fmt::format("process {} thread {}", thread.process, thread.thread);
}

// Adds a call that starts activities: its thread works until they are launched, and they come after that.
void AddLaunch(const MeasuredRank& rank, const StepActivities& added, const RankCall& call, ThreadWriter* writer,
               TraceStep* step) {
  const TraceEvent& event = rank.EventOf(call);
  const RankActivity& first = rank.activities.activities[call.activities.front()];
  const TraceEvent& started = rank.EventOf(first);
  const bool blocks = rank.Blocks(first);
  if (blocks || started.start + kShortestPause < event.end) {
    // The call has started something long before it returns: a copy that it waits for, or helps with.
    const std::uint32_t before =
        first.position == 0 ? kInvalidTraceId : rank.activities.streams[first.stream][first.position - 1];
    const bool queued = before != kInvalidTraceId && rank.EventOfActivity(before).end > event.start;
    writer->WorkUntil(queued ? event.start : std::clamp(started.start - rank.delays.launch, event.start, event.end),
                      &call, true);
    for (const std::uint32_t id : call.activities) step->ops[added.ops[id]].after.push_back(writer->last());
    if (blocks)
      writer->WaitUntil(std::min(started.end, event.end), event.end, {added.ops[call.activities.front()]}, &call);
    return;
  }
  const std::uint32_t room = FindQueueReleaser(rank, call);
  if (room != kInvalidTraceId) {
    writer->WorkUntil(event.start, &call, false);
    writer->WaitUntil(std::max(event.start, rank.EventOfActivity(room).end), event.end, {added.ops[room]}, &call);
  } else {
    writer->WorkUntil(event.end, &call, true);
  }
  for (const std::uint32_t id : call.activities) step->ops[added.ops[id]].after.push_back(writer->last());
}

// Adds a call that waits for the activities in `targets`, if it waits at all.
void AddWait(const MeasuredRank& rank, const StepActivities& added, const RankCall& call,
             const std::vector<std::uint32_t>& targets, ThreadWriter* writer) {
  if (targets.empty()) return;
  const TraceEvent& event = rank.EventOf(call);
  std::int64_t over = event.start;
  std::vector<std::uint32_t> ops;
  for (const std::uint32_t target : targets) {
    over = std::max(over, rank.EventOfActivity(target).end);
    ops.push_back(added.ops[target]);
  }
  writer->WorkUntil(event.start, &call, false);
  writer->WaitUntil(std::min(over, event.end), event.end, std::move(ops), &call);
}

// An op that waits for a pause's other thread.
struct PausedOp {
  ThreadPause pause;
  std::uint32_t op = kInvalidTraceId;
};
// The ops of a thread that others wait for, and those that wait for others.
struct ThreadOps {
  std::map<std::int64_t, std::uint32_t> op_of_cut;  // kInvalidTraceId: the thread had not begun
  std::vector<PausedOp> paused;
};

// How far a thread was written.
struct CutPosition {
  std::size_t cut = 0;
  std::size_t pause = 0;
};

// Cuts a thread up to `time`, where others wait for it and where it waits for others.
void CutUntil(std::int64_t time, const ThreadPauses& thread, CutPosition* at, ThreadWriter* writer, ThreadOps* ops) {
  while (true) {
    const bool has_cut = at->cut < thread.cuts.size() && thread.cuts[at->cut] <= time;
    const bool has_pause = at->pause < thread.pauses.size() && thread.pauses[at->pause].interval.end <= time;
    if (!has_cut && !has_pause) return;
    if (has_cut && (!has_pause || thread.cuts[at->cut] <= thread.pauses[at->pause].interval.start)) {
      const std::int64_t cut = thread.cuts[at->cut++];
      writer->WorkUntil(cut, nullptr, writer->last() == kInvalidTraceId);
      ops->op_of_cut[cut] = writer->last();
    } else {
      const ThreadPause& pause = thread.pauses[at->pause++];
      writer->WorkUntil(pause.interval.start, nullptr, false);
      writer->PauseUntil(pause.until);
      writer->WorkUntil(pause.interval.end, nullptr, true);
      ops->paused.push_back({pause, writer->last()});
    }
  }
}

bool Synchronizes(RankCallType type) {
  return type == RankCallType::kSyncDevice || type == RankCallType::kSyncStream || type == RankCallType::kSyncEvent ||
         type == RankCallType::kFree;
}

// Adds a thread with its ops. It is cut where it launches something, where it waits, and where others wait for it.
ThreadOps AddThread(const MeasuredRank& rank, std::int64_t start, std::size_t t, const ThreadPauses& pauses,
                    const StepActivities& added, TraceStep* step) {
  ThreadOps ops;
  const RankThread& thread = rank.calls.threads[t];
  if (!thread.is_used || thread.busy.empty()) return ops;
  ThreadWriter writer(AddDevice(rank, {.name = NameOfThread(rank, t)}, step), start, rank.shift, step);
  std::uint32_t last_launched = kInvalidTraceId;  // the last activity launched by this thread
  CutPosition position;
  for (const std::uint32_t id : thread.calls) {
    const RankCall& call = rank.calls.calls[id];
    const TraceEvent& event = rank.EventOf(call);
    // Calls that ended before the step began started the activities that exist from its first moment on.
    const bool is_in_step = event.end > start;
    if (is_in_step) CutUntil(event.start, pauses, &position, &writer, &ops);
    if (!call.activities.empty()) {
      if (is_in_step) AddLaunch(rank, added, call, &writer, step);
      last_launched = call.activities.back();
    } else if (is_in_step && Synchronizes(call.type)) {
      AddWait(rank, added, call, Targets(rank, call, last_launched), &writer);
    }
  }
  CutUntil(std::numeric_limits<std::int64_t>::max(), pauses, &position, &writer, &ops);
  writer.WorkUntil(thread.busy.back().end, nullptr, false);
  return ops;
}

// Where the op ranges and the allocations of a trace are in the step: positions in TraceStep::ops, or kInvalidTraceId.
struct StepRanges {
  std::vector<std::uint32_t> first;  // indexed by event: the first op inside a range
  std::vector<std::uint32_t> own;    // indexed by event: the range's own op
  std::vector<std::uint32_t> users;  // indexed by allocation
};

// Writes the op ranges of a thread, each where it ends, with the time that no range inside it has.
class RangeWriter {
 public:
  RangeWriter(const MeasuredRank& rank, const ThreadPauses& pauses, std::int64_t start, ThreadWriter* writer,
              ThreadOps* ops, StepRanges* ranges, TraceStep* step)
      : rank_(rank), pauses_(pauses), cursor_(start), writer_(*writer), ops_(*ops), ranges_(*ranges), step_(*step) {}

  void Begin(std::uint32_t id) {
    const TraceEvent& event = rank_.trace->events[id];
    CloseUntil(event.start);
    if (open_.empty()) {
      CutUntil(event.start, pauses_, &position_, &writer_, &ops_);
      writer_.WorkUntil(event.start, nullptr, false);
    } else {
      Range& around = open_.back();
      around.own += event.start - cursor_;
      const std::string_view name = NameOf(around.event);
      around.calls_operators = around.calls_operators || !IsPartOfOperator(name, rank_.trace->text(event.name));
    }
    cursor_ = event.start;
    ranges_.first[id] = NextOp();
    open_.push_back({.event = id, .end = std::min(event.end, rank_.window.end)});
  }

  // Memory that is allocated counts with the op that ends next, and what is released with the one that has ended:
  // between two ranges inside another one, these are the ranges.
  void Allocate(std::size_t allocation) {
    const TraceAllocation& change = rank_.trace->allocations[allocation];
    CloseUntil(change.time);
    const bool has_ended =
        open_.empty() ? writer_.last() != kInvalidTraceId : NextOp() > ranges_.first[open_.back().event];
    ranges_.users[allocation] = change.bytes < 0 && has_ended ? NextOp() - 1 : NextOp();
  }

  void Finish(std::int64_t end) {
    CloseUntil(std::numeric_limits<std::int64_t>::max());
    CutUntil(std::numeric_limits<std::int64_t>::max(), pauses_, &position_, &writer_, &ops_);
    writer_.WorkUntil(end, nullptr, false);
  }

 private:
  struct Range {
    std::uint32_t event = 0;
    std::int64_t end = 0;
    std::int64_t own = 0;
    bool calls_operators = false;
  };

  std::string_view NameOf(std::uint32_t event) const { return rank_.trace->text(rank_.trace->events[event].name); }
  std::uint32_t NextOp() const { return static_cast<std::uint32_t>(step_.ops.size()); }

  void CloseUntil(std::int64_t time) {
    while (!open_.empty() && open_.back().end <= time) {
      Range range = open_.back();
      const std::uint32_t outer = open_.front().event;
      open_.pop_back();
      const std::int64_t end = std::max(range.end, cursor_);
      range.own += end - cursor_;
      cursor_ = end;
      writer_.EndRange(range.event, outer, range.own, end, range.calls_operators);
      ranges_.own[range.event] = writer_.last();
      const TraceStep::Op& op = step_.ops[writer_.last()];
      step_.activities.push_back(
          {writer_.last(), writer_.last(), op.measured_start, op.measured_start + op.time, op.device});
      step_.activity_time += range.own;
      step_.launched_time += range.own;
      step_.named_time += range.own;
    }
  }

  const MeasuredRank& rank_;
  const ThreadPauses& pauses_;
  std::int64_t cursor_;
  CutPosition position_;
  ThreadWriter& writer_;
  ThreadOps& ops_;
  StepRanges& ranges_;
  TraceStep& step_;
  std::vector<Range> open_;
};

// The op ranges, and the allocations, of a thread in the step: positions in the trace.
struct ThreadRanges {
  std::vector<std::uint32_t> events;
  std::vector<std::uint32_t> allocations;
};

std::vector<ThreadRanges> RangesByThread(const MeasuredRank& rank) {
  std::vector<ThreadRanges> threads(rank.trace->threads.size());
  for (std::uint32_t id = 0; id < rank.trace->events.size(); ++id) {
    const TraceEvent& event = rank.trace->events[id];
    if (rank.IsInWindow(event)) threads[event.track].events.push_back(id);
  }
  for (std::uint32_t i = 0; i < rank.trace->allocations.size(); ++i) {
    const TraceAllocation& change = rank.trace->allocations[i];
    if (change.time >= rank.window.start && change.time < rank.window.end)
      threads[change.thread].allocations.push_back(i);
  }
  return threads;
}

// Adds a thread of a trace of op ranges alone.
ThreadOps AddRanges(const MeasuredRank& rank, std::int64_t start, std::size_t t, const ThreadPauses& pauses,
                    const ThreadRanges& thread, StepRanges* ranges, TraceStep* step) {
  ThreadOps ops;
  if (!rank.calls.threads[t].is_used || rank.calls.threads[t].busy.empty()) return ops;
  ThreadWriter writer(AddDevice(rank, {.name = NameOfThread(rank, t)}, step), start, rank.shift, step);
  RangeWriter range_writer(rank, pauses, start, &writer, &ops, ranges, step);
  auto allocation = thread.allocations.begin();
  const auto allocate_until = [&](std::int64_t time) {
    while (allocation != thread.allocations.end() && rank.trace->allocations[*allocation].time < time) {
      range_writer.Allocate(*allocation++);
    }
  };
  for (const std::uint32_t id : thread.events) {
    allocate_until(rank.trace->events[id].start);
    range_writer.Begin(id);
  }
  allocate_until(std::numeric_limits<std::int64_t>::max());
  range_writer.Finish(rank.calls.threads[t].busy.back().end);
  for (const std::uint32_t i : thread.allocations) ranges->users[i] = std::min(ranges->users[i], writer.last());
  return ops;
}

// The range that starts on a thread at `time`, the innermost of several; kInvalidTraceId if there is none.
std::uint32_t RangeAt(const KinetoTrace& trace, const ThreadRanges& thread, std::int64_t time) {
  const auto next = std::partition_point(thread.events.begin(), thread.events.end(),
                                         [&](std::uint32_t id) { return trace.events[id].start <= time; });
  if (next == thread.events.begin() || trace.events[*std::prev(next)].start != time) return kInvalidTraceId;
  return *std::prev(next);
}

// An op of the backward pass comes after its op of the forward pass.
void JoinPasses(const MeasuredRank& rank, const std::vector<ThreadRanges>& threads, const StepRanges& ranges,
                TraceStep* step) {
  for (const TraceFlow& flow : rank.trace->flows) {
    const std::uint32_t from = RangeAt(*rank.trace, threads[flow.from_thread], flow.from);
    const std::uint32_t to = RangeAt(*rank.trace, threads[flow.to_thread], flow.to);
    if (from == kInvalidTraceId || to == kInvalidTraceId) continue;
    if (rank.trace->events[from].end > rank.trace->events[to].start) continue;
    std::vector<std::uint32_t>& after = step->ops[ranges.first[to]].after;
    if (std::ranges::find(after, ranges.own[from]) == after.end()) after.push_back(ranges.own[from]);
  }
}

// Ops behind pauses wait for the ops that end them, which are known once all threads are there.
void JoinThreads(const std::vector<ThreadOps>& threads, TraceStep* step) {
  for (const ThreadOps& thread : threads) {
    for (const auto& [pause, op] : thread.paused) {
      const auto& cuts = threads[pause.thread].op_of_cut;
      const auto found = cuts.find(pause.until);
      if (found != cuts.end() && found->second != kInvalidTraceId) step->ops[op].after.push_back(found->second);
    }
  }
}

// The op of one activity waits for that of another.
void JoinActivities(const MeasuredRank& rank, const StepActivities& added, std::uint32_t source, std::uint32_t target,
                    TraceStep* step) {
  // Starts that contradict a wait show that it was for something else.
  if (rank.EventOfActivity(source).end > rank.EventOfActivity(target).start + kClockTolerance) return;
  std::vector<std::uint32_t>& after = step->ops[added.ops[target]].after;
  const std::uint32_t op = added.ops[source];
  if (std::find(after.begin(), after.end(), op) == after.end()) after.push_back(op);
}

// The activity that was launched on a stream before `launched` and ended right before `time`; kInvalidTraceId if none.
std::uint32_t EndedBefore(const MeasuredRank& rank, std::size_t stream, std::int64_t time, std::int64_t launched) {
  const auto& ids = rank.activities.streams[stream];
  auto next = std::partition_point(
      ids.begin(), ids.end(), [&](std::uint32_t id) { return rank.EventOfActivity(id).end <= time + kClockTolerance; });
  while (next != ids.begin()) {
    --next;
    if (rank.EventOf(rank.activities.activities[*next]).end + kSoonAfterWait < time) return kInvalidTraceId;
    if (rank.activities.activities[*next].launch < launched) return *next;
  }
  return kInvalidTraceId;
}

// The activity among those of EndedBefore on streams other than `to` that ended last; kInvalidTraceId if there is none.
std::uint32_t LastEndedBefore(const MeasuredRank& rank, std::size_t to, std::int64_t started, std::int64_t launched) {
  std::uint32_t best = kInvalidTraceId;
  for (std::size_t from = 0; from < rank.activities.streams.size(); ++from) {
    if (from == to) continue;
    const std::uint32_t source = EndedBefore(rank, from, started, launched);
    if (source == kInvalidTraceId) continue;
    if (best == kInvalidTraceId || rank.EventOfActivity(source).end > rank.EventOfActivity(best).end) best = source;
  }
  return best;
}

// A wait of some stream for some other: the one that a start shows, if any does.
void GuessWait(const MeasuredRank& rank, const StepActivities& added, std::int64_t time, TraceStep* step) {
  for (std::size_t to = 0; to < rank.activities.streams.size(); ++to) {
    const std::uint32_t target = FirstLaunched(rank, to, time);
    if (target == kInvalidTraceId) continue;
    const RankActivity& activity = rank.activities.activities[target];
    if (activity.call == kInvalidTraceId) continue;
    const std::int64_t started = rank.EventOf(activity).start;
    std::int64_t explained = rank.SubmitOf(activity).end + rank.delays.launch;
    if (activity.position > 0) {
      explained = std::max(
          explained, rank.EventOf(rank.activities.activities[rank.activities.streams[to][activity.position - 1]]).end +
                         rank.delays.gap);
    }
    if (started <= explained + kClockTolerance) continue;
    const std::uint32_t best = LastEndedBefore(rank, to, started, time);
    if (best != kInvalidTraceId) JoinActivities(rank, added, best, target, step);
  }
}

// Joins the two streams of a recorded wait. Returns whether the record names them.
bool JoinRecordedWait(const MeasuredRank& rank, const StepActivities& added, const TraceEvent& call, TraceStep* step) {
  const TraceEvent* const sync = SyncOf(rank, call);
  if (sync == nullptr) return false;
  const TraceDetails& details = rank.trace->details_of(*sync);
  if (!details.waited_stream) return false;
  const TraceStream& waiting = rank.trace->streams[sync->track];
  const auto to = FindStream(rank, waiting.device, waiting.stream);
  const auto from = FindStream(rank, waiting.device, *details.waited_stream);
  if (!to || !from || *to == *from) return true;
  const std::uint32_t source = LastLaunched(rank, *from, RecordTime(rank, details, call.start));
  const std::uint32_t target = FirstLaunched(rank, *to, call.end);
  if (source != kInvalidTraceId && target != kInvalidTraceId) JoinActivities(rank, added, source, target, step);
  return true;
}

// Joins streams that wait for each other: by the records first, then where only a start shows it.
void JoinStreams(const MeasuredRank& rank, const StepActivities& added, TraceStep* step) {
  std::vector<std::int64_t> waits_without_record;
  for (const RankCall& call : rank.calls.calls) {
    if (call.type != RankCallType::kWaitEvent) continue;
    const TraceEvent& event = rank.EventOf(call);
    if (!JoinRecordedWait(rank, added, event, step)) waits_without_record.push_back(event.start);
  }
  for (const std::int64_t time : waits_without_record) GuessWait(rank, added, time, step);
}

// How many launches of the step left nothing on a GPU.
std::size_t CutLaunches(const RankCalls& calls) {
  std::size_t count = 0;
  for (const RankCall& call : calls.calls) {
    const bool is_outermost = &calls.calls[call.outermost] == &call;
    if (call.is_own && call.type == RankCallType::kLaunch && is_outermost && !call.ran_early && call.activities.empty())
      ++count;
  }
  return count;
}

// Says what of the trace is not in the step, and what is there without its cause.
void AddNotes(const MeasuredRank& rank, TraceStep* step) {
  const RankActivities& activities = rank.activities;
  const auto note = [&](std::string text) { step->notes.push_back(rank.prefix + std::move(text)); };
  const auto millis = [](std::int64_t nanos) { return static_cast<double>(nanos) / 1e6; };
  if (activities.trimmed > 0) {
    note(fmt::format("{} GPU activities ({:.3f} ms) at the window's edges without their calls: trimmed",
                     activities.trimmed, millis(activities.trimmed_time)));
  }
  if (activities.backlog_time > 0) {
    note(fmt::format("{:.3f} ms of GPU activities were launched before the step and hold their streams",
                     millis(activities.backlog_time)));
  }
  if (rank.before_calls > 0) {
    note(fmt::format("{} GPU activities start before their calls: they count as without one", rank.before_calls));
  }
  if (activities.early > 0) {
    note(fmt::format("{} GPU activities ran before the previous step had ended: left out", activities.early));
  }
  if (activities.unknown > 0)
    note(
        fmt::format("{} GPU activities ({:.3f} ms) have no call", activities.unknown, millis(activities.unknown_time)));
  if (const std::size_t cut = CutLaunches(rank.calls); cut > 0)
    note(fmt::format("{} launches left no GPU activity", cut));
  if (rank.unused_threads > 0) {
    note(fmt::format("{} threads that only poll or query: left out", rank.unused_threads));
  }
  if (rank.trace->spoiled > 0) note(fmt::format("{} events without ts or dur: left out", rank.trace->spoiled));
  if (rank.trace->endless > 0)
    note(fmt::format("{} events that did not end (dur below 0, or B and E without the other): left out",
                     rank.trace->endless));
  if (rank.trace->placeholders > 0) {
    note(fmt::format("{} events whose times are not of the trace's clock (placeholders, mostly 0): left out",
                     rank.trace->placeholders));
  }
}

void AddTimes(const RankActivities& activities, TraceStep* step) {
  step->activity_time += activities.activity_time;
  step->launched_time += activities.launched_time;
  step->named_time += activities.named_time;
  step->backlog_time += activities.backlog_time;
  step->trimmed_time += activities.trimmed_time;
}

// Adds the threads of a trace of op ranges alone.
void AddThreadsOfRanges(const MeasuredRank& rank, std::int64_t start, const std::vector<ThreadPauses>& pauses,
                        TraceStep* step) {
  const std::vector<ThreadRanges> in_step = RangesByThread(rank);
  StepRanges ranges;
  ranges.first.assign(rank.trace->events.size(), kInvalidTraceId);
  ranges.own = ranges.first;
  ranges.users.assign(rank.trace->allocations.size(), kInvalidTraceId);
  std::vector<ThreadOps> threads;
  for (std::size_t t = 0; t < pauses.size(); ++t) {
    threads.push_back(AddRanges(rank, start, t, pauses[t], in_step[t], &ranges, step));
  }
  JoinThreads(threads, step);
  JoinPasses(rank, in_step, ranges, step);
  AddMemory(rank, ranges.users, step);
  AddNotes(rank, step);
}

}  // namespace

RankCollectives AddRankOps(const MeasuredRank& rank, std::int64_t start, TraceStep* step) {
  const std::vector<ThreadPauses> pauses = FindPauses(rank, start);
  if (HoldsOpsAlone(*rank.trace)) {
    AddThreadsOfRanges(rank, start, pauses, step);
    return {};
  }
  const StepActivities added = AddStreams(rank, start, step);
  std::vector<ThreadOps> threads;
  for (std::size_t t = 0; t < pauses.size(); ++t) threads.push_back(AddThread(rank, start, t, pauses[t], added, step));
  JoinThreads(threads, step);
  JoinStreams(rank, added, step);
  AddNotes(rank, step);
  AddTimes(rank.activities, step);
  RankCollectives collectives;
  for (const std::uint32_t id : LaunchedCollectives(rank)) {
    collectives[ProcessGroupOf(*rank.trace, rank.EventOfActivity(id))].push_back(added.runs[id]);
  }
  return collectives;
}

}  // namespace emplace::datasets
