#include "agents/heuristics/list_scheduler.h"
#include "agents/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "agents/heuristics/solver_input.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::IsAllowed;
using testing::MakeCluster;
using testing::MakeObservation;
using testing::MakeOp;

agents::ListSchedule Schedule(const agents::Observation& observation, const std::vector<std::size_t>& favourites = {}) {
  return agents::ScheduleEarliestFirst(observation, observation.accelerators, favourites);
}

std::vector<double> Micros(const std::vector<Duration>& times) {
  std::vector<double> micros;
  micros.reserve(times.size());
  for (const Duration time : times) micros.push_back(MicrosFromDuration(time));
  return micros;
}

Cluster TwoOf(std::int64_t bytes) {
  return MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{bytes});
}

TEST(ListSchedulerTest, StartsEachGroupWhereItCanStartFirst) {
  // a runs 0-2 on device 0, b 0-3 on device 1. c needs both, 1 µs of transfer: at max(2, 3 + 1) on device 0, at
  // max(2 + 1, 3) on device 1.
  GraphBuilder builder("join");
  builder.Add(MakeOp("a", 2, {}, {1000}));
  builder.Add(MakeOp("b", 3, {}, {1000}));
  builder.Add(MakeOp("c", 1, {"a", "b"}));
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), testing::TwoDevices()));
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 3}));
  EXPECT_EQ(Micros(schedule.end), (std::vector<double>{2, 3, 4}));
}

TEST(ListSchedulerTest, QueuesInputsOnTheChannelOfTheirSender) {
  // a and aa run 0-1 on devices 0 and 1; b takes device 0 until 6. c reads two tensors of a, 2 µs each: on device 1
  // they arrive at 3 and 5, one after the other.
  GraphBuilder builder("channel");
  builder.Add(MakeOp("a", 1, {}, {2000, 2000}));
  builder.Add(MakeOp("aa", 1));
  builder.Add(MakeOp("b", 5, {"aa"}));
  builder.Add(MakeOp("c", 1, {"a:0", "a:1"}));
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), testing::TwoDevices()));
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 1, 5}));
}

TEST(ListSchedulerTest, SendsATensorToADeviceOnce) {
  // As above, but c and d read the same tensor: it arrives at 3; c runs 3-4 and d 4-5. If it were sent twice, d would
  // wait until 5.
  GraphBuilder builder("cache");
  builder.Add(MakeOp("a", 1, {}, {2000}));
  builder.Add(MakeOp("aa", 1));
  builder.Add(MakeOp("b", 9, {"aa"}));
  builder.Add(MakeOp("c", 1, {"a"}));
  builder.Add(MakeOp("d", 1, {"a"}));
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), testing::TwoDevices()));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 1, 3, 4}));
}

TEST(ListSchedulerTest, GoesWhereThereIsRoom) {
  // 80 bytes of output each, 100 on a device. b does not fit beside a, whose output lives until b has ended. Then
  // device 0 is empty, and device 1 still holds b's output for c.
  const agents::ListSchedule schedule = Schedule(MakeObservation(testing::MakeChain(3, 1, 80), TwoOf(100)));
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(schedule.without_memory, 0U);
}

TEST(ListSchedulerTest, WaitsForRoom) {
  // Two devices of 100 bytes; a, b and c have 80 temporary bytes each. a and b run side by side; c fits when a ends at
  // 4.
  GraphBuilder builder("temp");
  for (const auto& [name, micros, temp] : {std::tuple{"a", 4, 80}, {"b", 9, 80}, {"c", 1, 80}}) {
    OpSpec op = MakeOp(name, micros);
    op.temp = Bytes{temp};
    builder.Add(op);
  }
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), TwoOf(100)));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 4}));
  // Persistent bytes are never freed: if a and b hold 80 bytes each, c never fits.
  GraphBuilder kept("persistent");
  for (const char* name : {"a", "b", "c"}) {
    OpSpec op = MakeOp(name, 1);
    op.persistent = Bytes{80};
    kept.Add(op);
  }
  EXPECT_EQ(Schedule(MakeObservation(kept.Build(), TwoOf(100))).without_memory, 1U);
}

TEST(ListSchedulerTest, TakesTheRoomiestDeviceWhereNothingEverFits) {
  // a keeps 90 of 100 bytes on device 0, b 60 on device 1, c needs 80: 10 and 40 bytes are left.
  GraphBuilder builder("full");
  for (const auto& [name, bytes] : {std::pair{"a", 90}, {"b", 60}, {"c", 80}}) {
    OpSpec op = MakeOp(name, 1);
    op.persistent = Bytes{bytes};
    builder.Add(op);
  }
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), TwoOf(100)));
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(schedule.without_memory, 1U);
}

// a (2 µs, device 0) and b (3 µs, device 1) feed f: 10 µs from a, 1 µs from b. x (20 µs) and y (5 µs) read a tensor of
// b that takes 0.5 µs. Ids: a, b, f, x, y.
Graph Tempting() {
  GraphBuilder builder("tempting");
  builder.Add(MakeOp("a", 2, {}, {10000}));
  builder.Add(MakeOp("b", 3, {}, {1000, 500}));
  builder.Add(MakeOp("f", 1, {"a", "b:0"}));
  builder.Add(MakeOp("x", 20, {"b:1"}));
  builder.Add(MakeOp("y", 5, {"b:1"}));
  return builder.Build();
}

TEST(ListSchedulerTest, TakesWhatComesFirstWithoutFavourites) {
  // At 3 x starts on device 1. On device 0 y's input arrives at 3.5 and f's at 4: y runs 3.5-8.5.
  const agents::ListSchedule schedule = Schedule(MakeObservation(Tempting(), testing::TwoDevices()));
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 8.5, 3, 3.5}));
}

TEST(ListSchedulerTest, WaitsForTheFavouriteChild) {
  // f is a's favourite, ready at 3, and starts first on device 0, where a ran: the device waits for it until 4, then
  // takes y at 5. (y is not urgent: device 1 is busy with x.)
  const std::vector<std::size_t> favourites = {2, agents::kNoFavourite, agents::kNoFavourite, agents::kNoFavourite,
                                               agents::kNoFavourite};
  const agents::ListSchedule schedule = Schedule(MakeObservation(Tempting(), testing::TwoDevices()), favourites);
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 4, 3, 5}));
}

TEST(ListSchedulerTest, StartsUrgentGroupsOnAWaitingDevice) {
  // As before, but y depends only on b, by a control edge without latency. At 3 both devices are idle, and y starts on
  // device 0, although that waits for f. f then starts on device 0 at 8, before its 12 on device 1.
  GraphBuilder builder("urgent");
  builder.Add(MakeOp("a", 2, {}, {10000}));
  builder.Add(MakeOp("b", 3, {}, {1000}));
  builder.Add(MakeOp("f", 1, {"a", "b"}));
  OpSpec y = MakeOp("y", 5);
  y.control_inputs = {"b"};
  builder.Add(y);
  const agents::ListSchedule schedule = Schedule(MakeObservation(builder.Build(), testing::TwoDevices()),
                                                 {2, agents::kNoFavourite, agents::kNoFavourite, agents::kNoFavourite});
  EXPECT_EQ(Devices(schedule.placement), (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(Micros(schedule.start), (std::vector<double>{0, 0, 8, 3}));
}

// Earliest time first without favourites and memory, implemented as a scan over all pairs at each step.
class Scan {
 public:
  explicit Scan(const agents::Observation& observation) : observation_(observation) {}

  agents::ListSchedule Run() {
    const std::size_t num_groups = observation_.num_groups();
    schedule_.placement = Placement(num_groups);
    schedule_.start.resize(num_groups);
    schedule_.end.resize(num_groups);
    std::vector<Duration> idle(observation_.num_devices());
    while (placed_.size() < num_groups) {
      std::optional<std::tuple<Duration, std::size_t, std::size_t>> best;
      for (std::size_t group = 0; group < num_groups; ++group) {
        if (placed_.contains(group) || !Ready(group)) continue;
        for (const DeviceId device : agents::Candidates(observation_, group, observation_.accelerators)) {
          const Duration start = std::max(idle[Index(device)], Arrival(group, device, false));
          const std::tuple pair(start, group, Index(device));
          if (!best || pair < *best) best = pair;
        }
      }
      const auto [start, group, device] = *best;
      Arrival(group, MakeId<DeviceId>(device), true);
      placed_.insert(group);
      schedule_.placement[MakeId<OpId>(group)] = MakeId<DeviceId>(device);
      schedule_.start[group] = start;
      schedule_.end[group] = start + DurationFromMicros(observation_.TimeMicros(group, device));
      idle[device] = schedule_.end[group];
    }
    return schedule_;
  }

 private:
  bool Ready(std::size_t group) const {
    const auto id = MakeId<OpId>(group);
    const auto placed = [this](OpId producer) { return placed_.contains(Index(producer)); };
    const auto inputs = observation_.graph.inputs(id);
    const auto controls = observation_.graph.control_inputs(id);
    return std::all_of(controls.begin(), controls.end(), placed) &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](TensorId tensor) { return placed(observation_.graph.tensor(tensor).producer); });
  }

  Duration Arrival(std::size_t group, DeviceId to, bool send) {
    const auto id = MakeId<OpId>(group);
    std::set<std::pair<Duration, TensorId>> tensors;
    for (const TensorId tensor : observation_.graph.inputs(id)) {
      tensors.insert({schedule_.end[Index(observation_.graph.tensor(tensor).producer)], tensor});
    }
    std::map<DeviceId, Duration> channels = channels_;
    Duration last{0};
    for (const auto& [end, tensor] : tensors) {
      const DeviceId from = schedule_.placement[observation_.graph.tensor(tensor).producer];
      Duration arrival = end;
      if (const auto copy = copies_.find({tensor, to}); copy != copies_.end()) {
        arrival = copy->second;
      } else if (from != to) {
        arrival = std::max(end, channels[from]) +
                  agents::LinkTime(observation_.cluster, from, to, observation_.graph.tensor(tensor).size);
        channels[from] = arrival;
        if (send) copies_[{tensor, to}] = arrival;
      }
      last = std::max(last, arrival);
    }
    for (const OpId control : observation_.graph.control_inputs(id)) {
      const DeviceId from = schedule_.placement[control];
      last = std::max(last, schedule_.end[Index(control)] + agents::LinkTime(observation_.cluster, from, to, Bytes{0}));
    }
    if (send) channels_ = channels;
    return last;
  }

  const agents::Observation& observation_;
  std::set<std::size_t> placed_;
  std::map<DeviceId, Duration> channels_;
  std::map<std::pair<TensorId, DeviceId>, Duration> copies_;
  agents::ListSchedule schedule_;
};

TEST(ListSchedulerTest, AgreesWithAScanOverAllPairs) {
  // The scan starts a group once its producers are placed, the scheduler once they have ended. Both agree if every op
  // takes time.
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    const testing::RandomDagOptions options = {
        .num_ops = 1 + rng.Below(50), .zero_time_probability = 0, .kinds_differ = i % 3 == 0, .fractional = i % 2 == 0};
    const Graph graph = testing::RandomDag(rng, options);
    const agents::Observation observation = MakeObservation(
        graph, i % 3 == 0 ? testing::MakeMixedCluster(3)
                          : MakeCluster(1 + rng.Below(5), {.bandwidth_gb_per_s = 1, .latency_micros = 0.5}));
    const agents::ListSchedule expected = Scan(observation).Run();
    const agents::ListSchedule actual = Schedule(observation);
    ASSERT_EQ(actual.placement, expected.placement) << i;
    ASSERT_EQ(actual.start, expected.start) << i;
  }
}

TEST(ListSchedulerTest, SchedulesOfRandomGraphsAreValid) {
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    const Graph graph =
        testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = i % 2 == 0});
    const agents::Observation observation =
        MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(4), Bytes{30000}));
    // Some child of each group as its favourite.
    std::vector<std::size_t> favourites(graph.num_ops(), agents::kNoFavourite);
    for (const agents::GroupEdge& edge : agents::GroupEdges(graph)) favourites[edge.from] = edge.to;
    const agents::ListSchedule schedule = Schedule(observation, favourites);
    ASSERT_TRUE(IsAllowed(observation, schedule.placement));
    EXPECT_EQ(schedule.placement, Schedule(observation, favourites).placement);
    for (const agents::GroupEdge& edge : agents::GroupEdges(graph))
      EXPECT_LE(schedule.end[edge.from], schedule.start[edge.to]);
    for (std::size_t a = 0; a < graph.num_ops(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (schedule.placement.devices()[a] != schedule.placement.devices()[b]) continue;
        EXPECT_TRUE(schedule.end[a] <= schedule.start[b] || schedule.end[b] <= schedule.start[a]) << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace emplace
