#include "datasets/importers/trace_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// Clocks that differ by less (ns) are taken as they are.
constexpr std::int64_t kLeastShift = 50'000;
// A difference that is the same for at least kLeastCollectives collectives counts from this many ns on.
constexpr std::int64_t kLeastConstantShift = 10'000;
constexpr std::size_t kLeastCollectives = 3;

// When a collective started and ended on a rank, in the time of the step.
struct CollectiveTime {
  std::string_view name;
  TraceInterval interval;
};
// By process group, in the order of launches.
using CollectivesOfRank = std::map<std::string, std::vector<CollectiveTime>>;

CollectivesOfRank CollectiveTimes(const MeasuredRank& rank) {
  CollectivesOfRank times;
  for (const std::uint32_t id : LaunchedCollectives(rank)) {
    const TraceEvent& event = rank.EventOfActivity(id);
    times[ProcessGroupOf(*rank.trace, event)].push_back(
        {rank.trace->text(event.name), {event.start + rank.shift, event.end + rank.shift}});
  }
  return times;
}

// One collective on all of its ranks.
struct CommonCollective {
  struct Part {
    std::size_t rank;
    TraceInterval interval;
  };
  std::vector<Part> parts;
};

// Whether the collectives of a process group are the same on all of its ranks, `members`.
bool AreSame(const std::vector<CollectivesOfRank>& times, const std::string& group,
             const std::vector<std::size_t>& members) {
  const auto& first = times[members[0]].at(group);
  return std::ranges::all_of(members, [&](std::size_t r) {
    return std::ranges::equal(first, times[r].at(group), {}, &CollectiveTime::name, &CollectiveTime::name);
  });
}

// The collectives of all process groups that at least two ranks have.
std::vector<CommonCollective> FindCommon(const std::vector<CollectivesOfRank>& times) {
  std::map<std::string, std::vector<std::size_t>> groups;  // with their ranks
  for (std::size_t r = 0; r < times.size(); ++r) {
    for (const auto& [group, collectives] : times[r]) groups[group].push_back(r);
  }
  std::vector<CommonCollective> all;
  for (const auto& [group, members] : groups) {
    if (members.size() < 2 || !AreSame(times, group, members)) continue;
    for (std::size_t k = 0; k < times[members[0]].at(group).size(); ++k) {
      CommonCollective common;
      for (const std::size_t r : members) common.parts.push_back({r, times[r].at(group)[k].interval});
      all.push_back(std::move(common));
    }
  }
  return all;
}

// By how much the end of each collective on the first rank of a pair is behind that on the second.
using EndDifferences = std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int64_t>>;

EndDifferences FindDifferences(const std::vector<CommonCollective>& common) {
  EndDifferences differences;
  for (const CommonCollective& collective : common) {
    // Against the first rank of the group: what is common to all needs no more.
    const auto& first = collective.parts.front();
    for (const auto& part : collective.parts) {
      if (part.rank == first.rank) continue;
      differences[{first.rank, part.rank}].push_back(first.interval.end - part.interval.end);
      differences[{part.rank, first.rank}].push_back(part.interval.end - first.interval.end);
    }
  }
  return differences;
}

// The pair of a known and an unknown rank with the most collectives; null if there is none.
const EndDifferences::value_type* BestPair(const EndDifferences& differences, const std::vector<bool>& is_known) {
  const EndDifferences::value_type* best = nullptr;
  for (const auto& pair : differences) {
    const auto& [from, to] = pair.first;
    if (!is_known[from] || is_known[to]) continue;
    if (best == nullptr || pair.second.size() > best->second.size()) best = &pair;
  }
  return best;
}

struct ClockShifts {
  std::vector<std::int64_t> of_rank;
  std::int64_t largest = 0;
  std::int64_t spread = 0;  // the largest median distance of the collectives from the shifts
};

// From rank to rank by the most collectives that two have in common.
ClockShifts FindShifts(const std::vector<CommonCollective>& common, std::size_t ranks) {
  const EndDifferences differences = FindDifferences(common);
  ClockShifts shifts{.of_rank = std::vector<std::int64_t>(ranks)};
  std::vector<bool> is_known(ranks);
  for (std::size_t root = 0; root < ranks; ++root) {
    is_known[root] = true;
    while (const auto* const pair = BestPair(differences, is_known)) {
      const auto& [from, to] = pair->first;
      const std::int64_t shift = LowerMedian(pair->second);
      shifts.of_rank[to] = shifts.of_rank[from] + shift;
      shifts.largest = std::max(shifts.largest, std::abs(shifts.of_rank[to]));
      is_known[to] = true;
      std::vector<std::int64_t> off;
      for (const std::int64_t difference : pair->second) off.push_back(std::abs(difference - shift));
      shifts.spread = std::max(shifts.spread, LowerMedian(std::move(off)));
    }
  }
  return shifts;
}

// How many collectives end on a rank before another rank starts them.
std::size_t Contradictions(const std::vector<CommonCollective>& common, const std::vector<std::int64_t>& shifts) {
  return static_cast<std::size_t>(std::ranges::count_if(common, [&](const CommonCollective& collective) {
    std::int64_t arrived = std::numeric_limits<std::int64_t>::min();
    std::int64_t ended = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, interval] : collective.parts) {
      arrived = std::max(arrived, interval.start + shifts[rank]);
      ended = std::min(ended, interval.end + shifts[rank]);
    }
    return ended < arrived;
  }));
}

// Without a contradiction, only clear differences are attributed to clocks: one that is the same for all collectives,
// or a large one.
bool MustShift(const ClockShifts& shifts, std::size_t collectives, std::size_t contradictions) {
  if (contradictions > 0) return shifts.largest > kLeastShift;
  const bool is_constant =
      collectives >= kLeastCollectives && shifts.largest > std::max(kLeastConstantShift, 10 * shifts.spread);
  return is_constant || shifts.largest > std::max(4 * kLeastShift, 5 * shifts.spread);
}

void ShiftRanks(const std::vector<std::int64_t>& shifts, std::vector<MeasuredRank>* ranks,
                std::vector<std::string>* notes) {
  for (std::size_t r = 0; r < ranks->size(); ++r) {
    if (shifts[r] == 0) continue;
    MeasuredRank& rank = (*ranks)[r];
    rank.shift += shifts[r];
    notes->push_back(rank.prefix + fmt::format("has another clock: shifted by {:+.3f} ms, so that its collectives end "
                                               "with the other ranks'",
                                               static_cast<double>(shifts[r]) / 1e6));
  }
}

}  // namespace

void AlignClocks(std::vector<MeasuredRank>* ranks, std::vector<std::string>* notes) {
  if (ranks->size() < 2) return;
  std::vector<CollectivesOfRank> times;
  for (const MeasuredRank& rank : *ranks) times.push_back(CollectiveTimes(rank));
  const std::vector<CommonCollective> common = FindCommon(times);
  if (common.empty()) return;
  const ClockShifts shifts = FindShifts(common, ranks->size());
  std::size_t contradictions = Contradictions(common, std::vector<std::int64_t>(ranks->size()));
  if (MustShift(shifts, common.size(), contradictions)) {
    ShiftRanks(shifts.of_rank, ranks, notes);
    contradictions = Contradictions(common, shifts.of_rank);
  }
  if (contradictions > 1 && 5 * contradictions > common.size()) {
    throw InputError("traceEvents",
                     fmt::format("{} of {} collectives end on a rank before another rank starts them, whatever the "
                                 "clocks' difference (traces of one step)",
                                 contradictions, common.size()));
  }
}

}  // namespace emplace::datasets
