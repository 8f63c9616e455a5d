#include "datasets/importers/trace_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "datasets/importers/trace_clocks.h"
#include "datasets/importers/trace_rank.h"
#include "datasets/importers/trace_rank_ops.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// How far apart (ns) traces of one step may be.
constexpr std::int64_t kLargestPause = 10'000'000'000;

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
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths;  // (length, number) of steps
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
  if (HoldsOpsAlone(trace)) return "has no op range (a step on a CPU)";
  std::string text = "has no kernel, copy or set with its call (a step on a GPU)";
  for (const auto& [category, count] : trace.like_calls) {
    text += fmt::format("; {} events of category {} have correlation ids, but it is not known what they are", count,
                        Quoted(category));
  }
  return text;
}

std::vector<MeasuredRank> MeasureRanks(const std::vector<KinetoTrace>& traces, std::optional<std::int64_t> number) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const KinetoTrace& trace : traces) origin = std::min(origin, trace.origin);
  std::vector<MeasuredRank> ranks;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const std::string prefix =
        traces.size() == 1 ? "" : fmt::format("rank {} ", traces[r].rank.value_or(static_cast<std::int64_t>(r)));
    const TraceStepMark* const mark = number ? FindMark(traces[r], *number) : nullptr;
    ranks.push_back(MeasureRank(traces[r], r, prefix, traces[r].origin - origin, mark));
    if (HoldsOpsAlone(traces[r]) != HoldsOpsAlone(traces[0])) {
      throw InputError("traceEvents", prefix + "holds op ranges alone, or another trace does (traces of one step)");
    }
    if (!ranks.back().HasStep()) {
      const std::string of_step = number ? fmt::format("in ProfilerStep#{} (--step chooses) ", *number) : "";
      throw InputError("traceEvents", prefix + of_step + WithoutCalls(traces[r]));
    }
  }
  return ranks;
}

void CheckRanksOverlap(const std::vector<MeasuredRank>& ranks) {
  TraceInterval window{ranks.front().start(), ranks.front().end()};
  for (const MeasuredRank& rank : ranks) {
    const std::int64_t pause = std::max(rank.start() - window.end, window.start - rank.end());
    if (pause > kLargestPause) {
      throw InputError("traceEvents",
                       rank.prefix + fmt::format("is {:.0f} s apart from the traces before it (traces of one step)",
                                                 static_cast<double>(pause) / 1e9));
    }
    window.start = std::min(window.start, rank.start());
    window.end = std::max(window.end, rank.end());
  }
}

// Files of one step overlap, or nearly so. Where they do not, their clocks differ, and no collective says by how much.
void CheckFilesOverlap(const std::vector<KinetoTrace>& traces, const std::vector<MeasuredRank>& ranks) {
  struct Window {
    std::int64_t start;
    std::int64_t end;
    std::size_t rank;  // the first of the file
  };
  std::vector<Window> windows;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (r == 0 || traces[r].file != traces[r - 1].file) windows.push_back({ranks[r].start(), ranks[r].end(), r});
    windows.back().start = std::min(windows.back().start, ranks[r].start());
    windows.back().end = std::max(windows.back().end, ranks[r].end());
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
          ranks[window.rank].prefix +
              fmt::format("is {:.3f} ms apart from ranks that are busy for at most {:.3f} ms: their clocks differ, and "
                          "no collectives that they have in common say by how much (traces of one step)",
                          static_cast<double>(pause) / 1e6, static_cast<double>(longest) / 1e6));
    }
    end = std::max(end, window.end);
  }
}

// The collectives of one process group that were joined, and those among them that end too early.
struct JoinedCollectives {
  std::size_t joined = 0;
  std::size_t skewed = 0;
};

std::string_view NameOfActivity(const MeasuredRank& rank, const TraceStep& step, std::uint32_t activity) {
  const TraceStep::Op& op = step.ops[step.activities[activity].last];
  return rank.trace->text(rank.trace->events[op.event].name);
}

// A part of a collective for each of its ranks that waits for the other ranks: it takes no time.
std::vector<std::uint32_t> AddArrivals(const std::vector<std::uint32_t>& parts, TraceStep* step) {
  std::vector<std::uint32_t> arrivals;
  for (const std::uint32_t part : parts) {
    TraceStep::Activity& activity = step->activities[part];
    TraceStep::Op arrival = step->ops[activity.last];
    arrival.type = TraceStep::OpType::kArrival;
    arrival.time = 0;
    activity.first = static_cast<std::uint32_t>(step->ops.size());
    arrivals.push_back(activity.first);
    step->ops.push_back(std::move(arrival));
  }
  return arrivals;
}

// Joins the parts of a collective, an activity of each rank: none goes on before all have arrived. Returns whether one
// ends before another starts.
bool JoinCollective(const std::vector<std::uint32_t>& parts, TraceStep* step) {
  std::int64_t arrived = std::numeric_limits<std::int64_t>::min();
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
  for (const std::uint32_t part : parts) {
    const TraceStep::Activity& activity = step->activities[part];
    arrived = std::max(arrived, activity.start);
    shortest = std::min(shortest, step->ops[activity.last].time);
    first_end = std::min(first_end, activity.end);
  }
  const bool is_skewed = first_end < arrived;
  const std::vector<std::uint32_t> arrivals = AddArrivals(parts, step);
  for (const std::uint32_t part : parts) {
    const TraceStep::Activity& activity = step->activities[part];
    TraceStep::Op& op = step->ops[activity.last];
    op.after = arrivals;
    if (is_skewed) {
      op.time = shortest;
      op.measured_start = activity.end - shortest;
    } else {
      op.measured_start = std::max(op.measured_start, arrived);
      op.time = std::max<std::int64_t>(0, activity.end - op.measured_start);
    }
  }
  return is_skewed;
}

// The k-th collectives of a process group belong together, as long as their names are the same on all ranks.
JoinedCollectives JoinGroup(const std::string& group, const std::vector<MeasuredRank>& ranks,
                            const std::vector<RankCollectives>& collectives, TraceStep* step) {
  JoinedCollectives joined;
  std::vector<std::size_t> members;  // ranks
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (collectives[r].contains(group)) members.push_back(r);
  }
  if (members.size() < 2) return joined;
  const std::vector<std::uint32_t>& first = collectives[members[0]].at(group);
  for (std::size_t k = 0; k < first.size(); ++k) {
    const std::string_view name = NameOfActivity(ranks[members[0]], *step, first[k]);
    std::vector<std::uint32_t> parts;
    for (const std::size_t r : members) {
      const std::vector<std::uint32_t>& other = collectives[r].at(group);
      if (other.size() != first.size() || NameOfActivity(ranks[r], *step, other[k]) != name) {
        step->notes.push_back(fmt::format(
            "process group {}: the ranks' collectives differ from number {} on: not joined", Quoted(group), k));
        return joined;
      }
      parts.push_back(other[k]);
    }
    ++joined.joined;
    joined.skewed += JoinCollective(parts, step) ? 1 : 0;
  }
  return joined;
}

void JoinCollectives(const std::vector<MeasuredRank>& ranks, const std::vector<RankCollectives>& collectives,
                     TraceStep* step) {
  std::set<std::string> groups;
  for (const RankCollectives& of_rank : collectives) {
    for (const auto& [group, activities] : of_rank) groups.insert(group);
  }
  JoinedCollectives all;
  for (const std::string& group : groups) {
    const JoinedCollectives joined = JoinGroup(group, ranks, collectives, step);
    all.joined += joined.joined;
    all.skewed += joined.skewed;
  }
  if (all.joined > 0) step->notes.push_back(fmt::format("{} collectives of several ranks joined", all.joined));
  if (all.skewed > 0) {
    step->notes.push_back(fmt::format(
        "{} collectives end on a rank before another rank starts them: the shortest part is taken as their time",
        all.skewed));
  }
}

// Makes the times in the step relative to its start.
void StartAtZero(std::int64_t start, TraceStep* step) {
  for (TraceStep::Op& op : step->ops) op.measured_start -= start;
  for (TraceStep::Activity& activity : step->activities) {
    activity.start -= start;
    activity.end -= start;
  }
  for (TraceStep::Busy& busy : step->backlog) {
    busy.start -= start;
    busy.end -= start;
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
  std::vector<MeasuredRank> ranks = MeasureRanks(traces, step.step);
  CheckRanksOverlap(ranks);
  AlignClocks(&ranks, &step.notes);
  CheckFilesOverlap(traces, ranks);
  TraceInterval window;
  for (const MeasuredRank& rank : ranks) {
    window.start = std::min(window.start, rank.start());
    window.end = std::max(window.end, rank.end());
  }
  std::vector<RankCollectives> collectives;
  collectives.reserve(ranks.size());
  for (const MeasuredRank& rank : ranks) {
    collectives.push_back(AddRankOps(rank, window.start - rank.shift, &step));
  }
  JoinCollectives(ranks, collectives, &step);
  StartAtZero(window.start, &step);
  step.measured_time = window.end - window.start;
  return step;
}

}  // namespace emplace::datasets
