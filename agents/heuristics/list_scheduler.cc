#include "agents/heuristics/list_scheduler.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "agents/candidates.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

using Nanos = std::int64_t;
constexpr Nanos kNever = -1;

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

struct Input {
  std::size_t producer = 0;
  std::optional<TensorId> tensor;  // none: a control edge
};

// A device and the ready groups that could go there. The list that holds a group may be outdated. As arrivals only get
// later, they are recomputed when a group reaches the front.
struct DeviceState {
  Nanos idle_from = 0;
  std::size_t last_group = kNoFavourite;
  std::set<std::size_t> arrived;                          // all inputs are on the device
  MinHeap<std::pair<Nanos, std::size_t>> waiting;         // (earliest arrival of the last input, group)
  std::multimap<std::int64_t, std::size_t> without_room;  // keyed by bytes needed
  std::int64_t used = 0;
  std::int64_t capacity = 0;
};

class ListScheduler {
 public:
  ListScheduler(const Observation& observation, std::span<const DeviceId> devices,
                std::span<const std::size_t> favourites);
  ListSchedule Run();

 private:
  void ReadGraph();
  void BecomeReady(std::size_t group);
  void EndGroup(std::size_t group);
  void Free(std::size_t device, std::int64_t bytes);
  bool HasRoom(std::size_t group, std::size_t device) const {
    return GroupBytes(observation_, group) <= devices_[device].capacity - devices_[device].used;
  }
  bool Placed(std::size_t group) const { return end_[group] != kNever; }
  bool Ready(std::size_t group) const { return pending_[group] == 0; }

  std::size_t Channel(std::size_t from, std::size_t to) const {
    return observation_.cluster.channels() == Channels::kPerPair ? from * devices_.size() + to : from;
  }
  // The time at which the last input of the group is on the device. With `send`, sends the missing inputs.
  Nanos Arrival(std::size_t group, std::size_t device, bool send);
  // The group that the idle device would start now.
  std::optional<std::size_t> Choose(std::size_t device);
  // Whether it waits for its favourite child; *choice is the group that it starts meanwhile.
  bool Awake(std::size_t device, std::optional<std::size_t>* choice);
  bool Urgent(std::size_t group);
  void Start(std::size_t group, std::size_t device);
  void StartAll();
  bool AdvanceTime();
  void PlaceWithoutRoom();

  const Observation& observation_;
  std::span<const std::size_t> favourites_;
  std::vector<DeviceState> devices_;                 // [num_devices]
  std::vector<std::vector<DeviceId>> candidates_;    // [num_groups]
  std::vector<std::vector<Input>> inputs_;           // [num_groups], distinct
  std::vector<std::vector<std::size_t>> producers_;  // [num_groups], distinct
  std::vector<std::vector<std::size_t>> consumers_;  // [num_groups], distinct
  std::vector<std::size_t> pending_;                 // [num_groups]: producers that have not ended
  std::vector<std::size_t> readers_left_;            // [num_groups]: consumers that have not ended
  std::vector<Nanos> start_;                         // [num_groups]
  std::vector<Nanos> end_;                           // [num_groups]; kNever: not placed
  std::vector<Nanos> sent_;                          // [num_tensors, num_devices]: arrival of the copy, or kNever
  std::vector<Nanos> channels_;                      // time from which each is free
  std::vector<Nanos> scratch_;                       // channels as after one Arrival()
  MinHeap<std::pair<Nanos, std::size_t>> ends_;      // (time, group)
  MinHeap<Nanos> wake_ups_;                          // when a device becomes idle
  std::set<std::size_t> ready_;                      // ready, not placed
  Nanos now_ = 0;
  std::size_t num_placed_ = 0;
  ListSchedule schedule_;
};

ListScheduler::ListScheduler(const Observation& observation, std::span<const DeviceId> devices,
                             std::span<const std::size_t> favourites)
    : observation_(observation), favourites_(favourites), devices_(observation.num_devices()) {
  const std::size_t num_groups = observation.num_groups();
  EMPLACE_CHECK(favourites.empty() || favourites.size() == num_groups);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    devices_[d].capacity = Capacity(observation.cluster.devices()[d]);
  }
  for (std::size_t i = 0; i < num_groups; ++i) candidates_.push_back(Candidates(observation, i, devices));
  ReadGraph();
  start_.assign(num_groups, kNever);
  end_.assign(num_groups, kNever);
  sent_.assign(observation.graph.num_tensors() * devices_.size(), kNever);
  channels_.assign(devices_.size() * devices_.size(), 0);
  scratch_ = channels_;
  schedule_.placement = Placement(num_groups);
}

void ListScheduler::ReadGraph() {
  const Graph& graph = observation_.graph;
  inputs_.resize(graph.num_ops());
  producers_.resize(graph.num_ops());
  consumers_.resize(graph.num_ops());
  for (const GroupEdge& edge : GroupEdges(graph)) {
    producers_[edge.to].push_back(edge.from);
    consumers_[edge.from].push_back(edge.to);
  }
  for (std::size_t group = 0; group < graph.num_ops(); ++group) {
    pending_.push_back(producers_[group].size());
    readers_left_.push_back(consumers_[group].size());
    std::set<TensorId> tensors;
    for (const TensorId tensor : graph.inputs(MakeId<OpId>(group))) {
      if (tensors.insert(tensor).second) inputs_[group].push_back({Index(graph.tensor(tensor).producer), tensor});
    }
    std::set<OpId> controls;
    for (const OpId control : graph.control_inputs(MakeId<OpId>(group))) {
      if (controls.insert(control).second) inputs_[group].push_back({Index(control), std::nullopt});
    }
  }
}

void ListScheduler::BecomeReady(std::size_t group) {
  // The order in which one sender's channel sends them.
  std::sort(inputs_[group].begin(), inputs_[group].end(), [this](const Input& a, const Input& b) {
    return std::pair(end_[a.producer], a.tensor) < std::pair(end_[b.producer], b.tensor);
  });
  ready_.insert(group);
  for (const DeviceId device : candidates_[group]) {
    devices_[Index(device)].waiting.emplace(Arrival(group, Index(device), /*send=*/false), group);
  }
}

void ListScheduler::Free(std::size_t device, std::int64_t bytes) {
  DeviceState& state = devices_[device];
  state.used -= bytes;
  while (!state.without_room.empty() && state.without_room.begin()->first <= state.capacity - state.used) {
    const std::size_t group = state.without_room.begin()->second;
    state.without_room.erase(state.without_room.begin());
    if (!Placed(group)) state.waiting.emplace(now_, group);
  }
}

void ListScheduler::EndGroup(std::size_t group) {
  const auto device_of = [this](std::size_t i) { return Index(schedule_.placement[MakeId<OpId>(i)]); };
  Free(device_of(group), observation_.temp[group].count);
  if (consumers_[group].empty()) Free(device_of(group), observation_.output[group].count);
  for (const std::size_t producer : producers_[group]) {
    if (--readers_left_[producer] == 0) Free(device_of(producer), observation_.output[producer].count);
  }
  for (const std::size_t consumer : consumers_[group]) {
    if (--pending_[consumer] == 0) BecomeReady(consumer);
  }
}

Nanos ListScheduler::Arrival(std::size_t group, std::size_t device, bool send) {
  const Cluster& cluster = observation_.cluster;
  const auto to = MakeId<DeviceId>(device);
  for (const Input& input : inputs_[group]) {
    const std::size_t channel = Channel(Index(schedule_.placement[MakeId<OpId>(input.producer)]), device);
    scratch_[channel] = channels_[channel];
  }
  Nanos last = 0;
  for (const Input& input : inputs_[group]) {
    const DeviceId from = schedule_.placement[MakeId<OpId>(input.producer)];
    Nanos arrival = end_[input.producer];
    if (from != to && !input.tensor) arrival += LinkTime(cluster, from, to, Bytes{0}).count();
    if (from != to && input.tensor) {
      Nanos& sent = sent_[Index(*input.tensor) * devices_.size() + device];
      if (sent != kNever) {
        arrival = sent;
      } else {
        Nanos& channel = scratch_[Channel(Index(from), device)];
        arrival = std::max(arrival, channel) +
                  LinkTime(cluster, from, to, observation_.graph.tensor(*input.tensor).size).count();
        channel = arrival + DurationFromMicros(cluster.link(from, to).gap_micros).count();
        if (send) {
          sent = arrival;
          channels_[Channel(Index(from), device)] = channel;
        }
      }
    }
    last = std::max(last, arrival);
  }
  return last;
}

bool ListScheduler::Urgent(std::size_t group) {
  const std::vector<DeviceId>& devices = candidates_[group];
  return std::all_of(devices.begin(), devices.end(),
                     [&](DeviceId d) { return devices_[Index(d)].idle_from <= now_; }) &&
         std::all_of(devices.begin(), devices.end(), [&](DeviceId d) {
           return !HasRoom(group, Index(d)) || Arrival(group, Index(d), /*send=*/false) <= now_;
         });
}

bool ListScheduler::Awake(std::size_t device, std::optional<std::size_t>* choice) {
  const std::size_t last = devices_[device].last_group;
  if (favourites_.empty() || last == kNoFavourite) return false;
  const std::size_t child = favourites_[last];
  if (child == kNoFavourite || Placed(child) || !Ready(child) || !HasRoom(child, device)) return false;
  const auto start_on = [&](std::size_t d) {
    return std::max({now_, devices_[d].idle_from, Arrival(child, d, /*send=*/false)});
  };
  bool may_go_here = false;
  const Nanos here = start_on(device);
  for (const DeviceId other : candidates_[child]) {
    if (Index(other) == device) may_go_here = true;
    if (HasRoom(child, Index(other)) && start_on(Index(other)) < here) return false;
  }
  if (!may_go_here) return false;
  for (const std::size_t group : devices_[device].arrived) {
    if (Placed(group) || !HasRoom(group, device) || !Urgent(group)) continue;
    *choice = group;
    return true;
  }
  if (here <= now_) *choice = child;
  return true;
}

std::optional<std::size_t> ListScheduler::Choose(std::size_t device) {
  DeviceState& state = devices_[device];
  while (!state.waiting.empty() && state.waiting.top().first <= now_) {
    const std::size_t group = state.waiting.top().second;
    state.waiting.pop();
    if (Placed(group)) continue;
    const Nanos arrival = Arrival(group, device, /*send=*/false);
    if (arrival > now_) {
      state.waiting.emplace(arrival, group);
    } else {
      state.arrived.insert(group);
    }
  }
  std::optional<std::size_t> choice;
  if (Awake(device, &choice)) return choice;
  while (!state.arrived.empty()) {
    const std::size_t group = *state.arrived.begin();
    if (!Placed(group)) {
      const Nanos arrival = Arrival(group, device, /*send=*/false);
      if (arrival <= now_ && HasRoom(group, device)) return group;
      if (arrival > now_) {
        state.waiting.emplace(arrival, group);
      } else {
        state.without_room.emplace(GroupBytes(observation_, group), group);
      }
    }
    state.arrived.erase(state.arrived.begin());
  }
  return std::nullopt;
}

void ListScheduler::Start(std::size_t group, std::size_t device) {
  const auto id = MakeId<DeviceId>(device);
  DeviceState& state = devices_[device];
  Arrival(group, device, /*send=*/true);
  schedule_.placement[MakeId<OpId>(group)] = id;
  const Nanos time = DurationFromMicros(observation_.TimeMicros(group, device)).count();
  start_[group] = now_;
  end_[group] = now_ + time;
  const Nanos gap = DurationFromMicros(observation_.cluster.device(id).op_gap_micros).count();
  state.idle_from = end_[group] + (time > 0 ? gap : 0);
  state.last_group = group;
  state.used += GroupBytes(observation_, group);
  ends_.emplace(end_[group], group);
  if (state.idle_from > now_) wake_ups_.push(state.idle_from);
  ready_.erase(group);
  ++num_placed_;
}

// Starts all groups that can start now. A group of zero duration ends at once, and its consumers may start.
void ListScheduler::StartAll() {
  while (true) {
    while (!ends_.empty() && ends_.top().first <= now_) {
      const std::size_t group = ends_.top().second;
      ends_.pop();
      EndGroup(group);
    }
    std::optional<std::pair<std::size_t, std::size_t>> best;  // (group, device)
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (devices_[d].idle_from > now_) continue;
      const std::optional<std::size_t> group = Choose(d);
      if (group && (!best || *group < best->first)) best = {*group, d};
    }
    if (!best) return;
    Start(best->first, best->second);
  }
}

// Advances to the next time at which a group may start; false if there is none.
bool ListScheduler::AdvanceTime() {
  while (!wake_ups_.empty() && wake_ups_.top() <= now_) wake_ups_.pop();
  std::optional<Nanos> next;
  const auto consider = [&next](Nanos time) { next = next ? std::min(*next, time) : time; };
  if (!ends_.empty()) consider(ends_.top().first);
  if (!wake_ups_.empty()) consider(wake_ups_.top());
  for (DeviceState& state : devices_) {
    while (!state.waiting.empty() && Placed(state.waiting.top().second)) state.waiting.pop();
    if (state.idle_from <= now_ && !state.waiting.empty()) consider(state.waiting.top().first);
  }
  if (!next) return false;
  EMPLACE_CHECK_LT(now_, *next);
  now_ = *next;
  return true;
}

void ListScheduler::PlaceWithoutRoom() {
  EMPLACE_CHECK(!ready_.empty());
  const std::size_t group = *ready_.begin();
  const auto room = [this](DeviceId d) { return devices_[Index(d)].capacity - devices_[Index(d)].used; };
  DeviceId roomiest = candidates_[group].front();
  for (const DeviceId device : candidates_[group]) {
    if (room(device) > room(roomiest)) roomiest = device;
  }
  ++schedule_.without_memory;
  Start(group, Index(roomiest));
}

ListSchedule ListScheduler::Run() {
  for (std::size_t group = 0; group < observation_.num_groups(); ++group) {
    if (Ready(group)) BecomeReady(group);
  }
  while (true) {
    StartAll();
    if (num_placed_ == observation_.num_groups()) break;
    if (!AdvanceTime()) PlaceWithoutRoom();
  }
  for (std::size_t group = 0; group < observation_.num_groups(); ++group) {
    schedule_.start.emplace_back(start_[group]);
    schedule_.end.emplace_back(end_[group]);
  }
  return std::move(schedule_);
}

}  // namespace

ListSchedule ScheduleEarliestFirst(const Observation& observation, std::span<const DeviceId> devices,
                                   std::span<const std::size_t> favourites) {
  return ListScheduler(observation, devices, favourites).Run();
}

}  // namespace emplace::agents
