#include "agents/heuristics/heft.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "agents/candidates.h"
#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// The idle intervals of a device.
class IdleGaps {
 public:
  // The earliest start >= ready of an interval of `length`.
  Duration EarliestStart(Duration ready, Duration length) const {
    auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), ready,
                                [](const Gap& candidate, Duration time) { return candidate.to < time; });
    while (std::max(gap->from, ready) > gap->to - length) ++gap;
    return std::max(gap->from, ready);
  }

  void Occupy(Duration start, Duration length) {
    if (length == Duration(0)) return;
    const auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), start + length,
                                      [](const Gap& candidate, Duration time) { return candidate.to < time; });
    EMPLACE_CHECK(gap != gaps_.end() && gap->from <= start);
    const Gap after = {start + length, gap->to};
    gap->to = start;
    if (gap->from == gap->to) {
      *gap = after;
      if (after.from == after.to) gaps_.erase(gap);
    } else if (after.from < after.to) {
      gaps_.insert(gap + 1, after);
    }
  }

 private:
  struct Gap {
    Duration from;
    Duration to;
  };
  std::vector<Gap> gaps_ = {{Duration(0), Duration::max()}};
};

// The remaining memory of a device if nothing is ever freed.
struct Room {
  std::int64_t capacity = 0;
  std::int64_t kept = 0;  // persistent and output bytes
  std::int64_t temp = 0;  // the largest of a group

  std::int64_t LeftAfter(const Observation& observation, std::size_t group) const {
    return capacity - kept - (observation.persistent[group] + observation.output[group]).count -
           std::max(temp, observation.temp[group].count);
  }
  void Add(const Observation& observation, std::size_t group) {
    kept += (observation.persistent[group] + observation.output[group]).count;
    temp = std::max(temp, observation.temp[group].count);
  }
};

class Heft {
 public:
  Heft(const Observation& observation, const HeftOptions& options)
      : observation_(observation),
        options_(options),
        devices_(AllDevices(observation.cluster)),
        edges_(GroupEdges(observation.graph)),
        producers_(observation.num_groups()),
        gaps_(devices_.size()) {
    for (const GroupEdge& edge : edges_) producers_[edge.to].push_back(edge);
    for (const Device& device : observation.cluster.devices()) room_.push_back({.capacity = Capacity(device)});
    schedule_.placement = Placement(observation.num_groups());
    schedule_.start.resize(observation.num_groups());
    schedule_.end.resize(observation.num_groups());
  }

  HeftSchedule Run() {
    Rank();
    std::vector<std::size_t> order(observation_.num_groups());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return schedule_.ranks[a] > schedule_.ranks[b]; });
    for (const std::size_t group : order) Place(group);
    return std::move(schedule_);
  }

 private:
  void Rank() {
    const MeanLink mean_link(observation_.cluster, devices_);
    schedule_.ranks.assign(observation_.num_groups(), 0);
    std::size_t last = edges_.size();
    for (std::size_t group = observation_.num_groups(); group-- > 0;) {
      double longest = 0;
      for (; last > 0 && edges_[last - 1].from == group; --last) {
        const GroupEdge& edge = edges_[last - 1];
        longest = std::max(longest, mean_link.Micros(edge.bytes) + schedule_.ranks[edge.to]);
      }
      schedule_.ranks[group] = MeanMicros(observation_, group, Candidates(observation_, group, devices_)) + longest;
    }
  }

  Duration Time(std::size_t group, DeviceId device) const {
    return DurationFromMicros(observation_.TimeMicros(group, Index(device)));
  }
  // How long the device is occupied.
  Duration Taken(std::size_t group, DeviceId device) const {
    const Duration time = Time(group, device);
    const double gap = observation_.cluster.device(device).op_gap_micros;
    return time > Duration(0) ? time + DurationFromMicros(gap) : time;
  }

  Duration Ready(std::size_t group, DeviceId device) const {
    Duration ready{0};
    for (const GroupEdge& edge : producers_[group]) {
      const DeviceId from = schedule_.placement[MakeId<OpId>(edge.from)];
      ready =
          std::max(ready, schedule_.end[edge.from] + LinkTime(observation_.cluster, from, device, Bytes{edge.bytes}));
    }
    return ready;
  }

  // The candidates that have enough memory; if none has, the one with the most memory left.
  std::vector<DeviceId> WithRoom(std::size_t group) const {
    std::vector<DeviceId> candidates = Candidates(observation_, group, devices_);
    if (!options_.memory_filter) return candidates;
    std::vector<DeviceId> fitting;
    std::optional<DeviceId> roomiest;
    const auto left = [&](DeviceId device) { return room_[Index(device)].LeftAfter(observation_, group); };
    for (const DeviceId device : candidates) {
      if (left(device) >= 0) fitting.push_back(device);
      if (!roomiest || left(device) > left(*roomiest)) roomiest = device;
    }
    return fitting.empty() ? std::vector<DeviceId>{*roomiest} : fitting;
  }

  void Place(std::size_t group) {
    std::optional<DeviceId> best;
    Duration best_start{0};
    Duration best_end = Duration::max();
    for (const DeviceId device : WithRoom(group)) {
      const Duration start = gaps_[Index(device)].EarliestStart(Ready(group, device), Taken(group, device));
      const Duration end = start + Time(group, device);
      if (!best || end < best_end) {
        best = device;
        best_start = start;
        best_end = end;
      }
    }
    schedule_.placement[MakeId<OpId>(group)] = *best;
    schedule_.start[group] = best_start;
    schedule_.end[group] = best_end;
    gaps_[Index(*best)].Occupy(best_start, Taken(group, *best));
    room_[Index(*best)].Add(observation_, group);
  }

  const Observation& observation_;
  const HeftOptions& options_;
  std::vector<DeviceId> devices_;
  std::vector<GroupEdge> edges_;
  std::vector<std::vector<GroupEdge>> producers_;  // [num_groups]
  std::vector<IdleGaps> gaps_;                     // [num_devices]
  std::vector<Room> room_;                         // [num_devices]
  HeftSchedule schedule_;
};

}  // namespace

HeftSchedule ScheduleByHeft(const Observation& observation, const HeftOptions& options) {
  return Heft(observation, options).Run();
}

std::unique_ptr<Agent> MakeHeftAgent(OptionReader& reader, const AgentContext&) {
  HeftOptions options;
  reader.Read("memory_filter", &options.memory_filter, "consider only devices that have room (m-HEFT)");
  reader.Finish();
  return MakeOneShot(
      [options](const Environment& env, Rng&) { return ScheduleByHeft(env.observation(), options).placement; });
}

}  // namespace emplace::agents
