#ifndef EMPLACE_SIM_ENGINES_FLOW_PROBLEM_H_
#define EMPLACE_SIM_ENGINES_FLOW_PROBLEM_H_

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/network/collective_flows.h"
#include "sim/network/collective_times.h"

// The parts of engine `flow` (flow.h). They are inline: a run is a million small steps.
namespace emplace::flow {

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The part that does not depend on the placement.
struct Problem {
  Problem(const Graph& graph_in, const Cluster& cluster_in, const CostTable& costs_in)
      : graph(graph_in),
        cluster(cluster_in),
        costs(costs_in),
        inputs_left(graph.num_ops()),
        collective_times(cluster_in, costs_in.times_collectives()) {
    for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
      for (const OpId reader : graph.consumers(MakeId<TensorId>(t))) ++inputs_left[Index(reader)];
    }
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      for (const OpId waits : graph.control_consumers(MakeId<OpId>(i))) ++inputs_left[Index(waits)];
    }
    if (cluster.has_issue_lanes()) FindLanes();
    for (const Topology::Link& link : cluster.topology().links()) {
      bytes_per_ns.push_back(static_cast<double>(RateFromGbPerS(link.bandwidth_gb_per_s).count) / 1e9);
    }
  }

  std::int64_t Gap(std::size_t device) const {
    return DurationFromMicros(cluster.devices()[device].op_gap_micros).count();
  }
  bool CopiesByItself(std::size_t device) const { return !cluster.devices()[device].copy_engine; }

  bool IsFed(std::size_t device) const { return !lane.empty() && lane[device] != kNone; }
  // docs/model.md, F15.
  std::int64_t HostTime(OpId op, std::size_t device) const {
    const double own = costs.HostMicros(op, costs.KindIndex(MakeId<DeviceId>(device)));
    return DurationFromMicros(std::isnan(own) ? cluster.devices()[device].issue->host_micros : own).count();
  }

  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::vector<std::uint32_t> inputs_left;          // tensors and control inputs that each op waits for
  std::vector<double> bytes_per_ns;                // indexed by link of the topology
  std::vector<std::uint32_t> lane;                 // indexed by device; kNone: the device is not fed. Empty if none is
  std::vector<std::vector<std::uint32_t>> fed_by;  // the devices of each lane
  CollectiveTimes collective_times;

 private:
  // Members of a collective are processes of their own, and so are their lanes (docs/model.md, K14).
  void FindLanes() {
    std::map<std::string, std::uint32_t> named;
    const bool has_ranks = graph.has_ranks();
    for (const Device& device : cluster.devices()) {
      const auto number = static_cast<std::uint32_t>(lane.size());
      lane.push_back(kNone);
      if (!device.issue) continue;
      if (!device.copy_engine) {
        throw InputError("cluster " + cluster.name(),
                         fmt::format("device {} has an issue lane and no copy engine, which engine flow and graphs "
                                     "with collectives do not support (one of them)",
                                     device.name));
      }
      const bool is_shared = !device.issue->lane.empty() && !has_ranks;
      const auto next = static_cast<std::uint32_t>(fed_by.size());
      lane.back() = is_shared ? named.try_emplace(device.issue->lane, next).first->second : next;
      if (lane.back() == next) fed_by.emplace_back();
      fed_by[lane.back()].push_back(number);
    }
  }
};

// The input of one run.
struct RunInput {
  const Problem& problem;
  const Graph& graph;
  const Cluster& cluster;
  std::span<const DeviceId> placement;
  bool counts_memory = false;
  bool shares_links = false;  // whether there is a topology
  std::optional<CollectiveAlgorithm> expand = {};

  std::uint32_t DeviceOf(OpId op) const { return static_cast<std::uint32_t>(Index(placement[Index(op)])); }
  TensorId Output(OpId op, std::size_t k) const { return MakeId<TensorId>(Index(graph.first_output(op)) + k); }
  std::int64_t SizeOf(TensorId tensor) const { return graph.tensor(tensor).size.count; }
  bool IsCollective(OpId op) const { return graph.CollectiveOf(op).has_value(); }
  bool WasIssued(OpId op) const { return problem.IsFed(DeviceOf(op)) && !IsCollective(op); }
  // Whether the end of the op is what `reader`, on the same device, waits for; else its issue.
  bool WaitsForEnd(OpId op, OpId reader) const {
    return problem.lane.empty() || !WasIssued(op) || IsCollective(reader);
  }
};

struct Event {
  enum class Kind {
    kOpEnds,
    kDeviceIsFree,
    kIssued,
    kControlArrives,
    kFlowStarts,
    kTransferArrives,
    kChannelIsFree,
    kCollectiveEnds,
    kPartsBegin,
    kPartStarts,
    kPartArrives
  };
  std::int64_t time = 0;
  std::uint64_t serial = 0;
  Kind kind{};
  std::uint32_t what = 0;  // op, device, op, op, transfer, transfer, channel, collective, collective, part, part
  friend bool operator>(const Event& a, const Event& b) {
    return std::pair(a.time, a.serial) > std::pair(b.time, b.serial);
  }
};

// Future events. Simultaneous events are processed in the order in which they were pushed.
class Events {
 public:
  std::int64_t now() const { return now_; }
  // Null if there is none.
  const Event* next() const { return events_.empty() ? nullptr : &events_.top(); }
  void Push(std::int64_t time, Event::Kind kind, std::size_t what) {
    events_.push({.time = time, .serial = next_serial_++, .kind = kind, .what = static_cast<std::uint32_t>(what)});
  }
  void Pop() { events_.pop(); }
  void GoTo(std::int64_t time) { now_ = time; }

 private:
  std::int64_t now_ = 0;
  std::uint64_t next_serial_ = 0;
  MinHeap<Event> events_;
};

// The memory of devices over time, if it is tracked.
class MemoryLog {
 public:
  explicit MemoryLog(bool counts) : counts_(counts) {}

  bool counts() const { return counts_; }
  void Add(std::uint32_t device, std::int64_t time, std::int64_t bytes) {
    if (counts_ && bytes != 0) changes_.push_back({device, time, bytes});
  }
  // Once all is added: by device, then by time, with a change at 0 for each device.
  void Sort(std::size_t num_devices) {
    if (!counts_) return;
    for (std::size_t d = 0; d < num_devices; ++d) changes_.push_back({static_cast<std::uint32_t>(d), 0, 0});
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return std::tie(a.device, a.time) < std::tie(b.device, b.time); });
  }
  // Calls `tell` with (device, time, in use) for each instant at which that changes, and for 0.
  template <typename Tell>
  void ForEach(const RunInput& input, const Tell& tell) const {
    std::vector<std::int64_t> in_use(input.cluster.num_devices());
    for (std::size_t i = 0; i < input.graph.num_ops(); ++i) {
      const auto op = MakeId<OpId>(i);
      in_use[input.DeviceOf(op)] += input.graph.op(op).persistent.count;
    }
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const Change& change = changes_[i];
      in_use[change.device] += change.bytes;
      // All changes of an instant are in when time advances.
      const bool goes_on =
          i + 1 == changes_.size() || changes_[i + 1].device != change.device || changes_[i + 1].time != change.time;
      if (goes_on) tell(change.device, change.time, in_use[change.device]);
    }
  }

 private:
  struct Change {
    std::uint32_t device = 0;
    std::int64_t time = 0;
    std::int64_t bytes = 0;
  };
  const bool counts_;
  std::vector<Change> changes_;
};

}  // namespace emplace::flow

#endif  // EMPLACE_SIM_ENGINES_FLOW_PROBLEM_H_
