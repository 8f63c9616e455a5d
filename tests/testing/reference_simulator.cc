#include "tests/testing/reference_simulator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace emplace::testing {
namespace {

std::int64_t Nanoseconds(double micros) { return static_cast<std::int64_t>(std::floor(micros * 1000.0 + 0.5)); }

// size / bandwidth in ns, rounded to the nearest, halves up: long division, digit by digit, without overflow.
std::int64_t DividedSlowly(std::int64_t bytes, std::int64_t bytes_per_s) {
  std::int64_t quotient = bytes / bytes_per_s;
  std::int64_t rest = bytes % bytes_per_s;
  for (int digit = 0; digit < 9; ++digit) {
    std::int64_t next = 0;  // 10 * rest / bytes_per_s, by repeated subtraction
    std::int64_t sum = 0;
    for (int i = 0; i < 10; ++i) {
      // Computes sum += rest, modulo bytes_per_s, without exceeding 2^63.
      if (sum >= bytes_per_s - rest) {
        sum -= bytes_per_s - rest;
        ++next;
      } else {
        sum += rest;
      }
    }
    quotient = 10 * quotient + next;
    rest = sum;
  }
  return quotient + (rest >= bytes_per_s - rest ? 1 : 0);
}

struct Interval {
  DeviceId device{};
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
};

class Reference {
 public:
  Reference(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement)
      : graph_(graph), cluster_(cluster), costs_(costs), placement_(placement) {}

  ReferenceResult Run() {
    const std::size_t n = graph_.num_ops();
    for (std::size_t started = 0; started < n; ++started) StartNext();
    ReferenceResult result;
    for (std::size_t i = 0; i < n; ++i) {
      result.start_ns.push_back(start_.at(MakeId<OpId>(i)));
      result.step_time_ns = std::max(result.step_time_ns, End(MakeId<OpId>(i)));
    }
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) result.peak_bytes.push_back(Peak(MakeId<DeviceId>(d)));
    return result;
  }

 private:
  std::int64_t Time(OpId op) const {
    const std::int64_t alone = Nanoseconds(costs_.Micros(op, placement_[op]));
    const double factor = costs_.KindContention(op, costs_.KindIndex(placement_[op]));
    if (factor == 1 || contended_.count(op) == 0) return alone;
    return static_cast<std::int64_t>(std::floor(static_cast<double>(alone) * factor + 0.5));
  }
  const std::optional<IssueLane>& Lane(OpId op) const { return cluster_.device(placement_[op]).issue; }
  std::int64_t HostTime(OpId op) const {
    const double micros = costs_.HostMicros(op, costs_.KindIndex(placement_[op]));
    return Nanoseconds(std::isnan(micros) ? Lane(op)->host_micros : micros);
  }
  // When an op that has started is done for those on the same device that need it: issued, or over.
  std::int64_t Usable(OpId op) const { return Lane(op) ? issue_start_.at(op) + HostTime(op) : End(op); }
  // docs/model.md, F16 and F18: the first time at which the device's issue lane could issue another op.
  std::int64_t LaneFree(DeviceId device) const {
    std::int64_t free = 0;
    std::vector<std::int64_t> ends;
    const IssueLane& lane = *cluster_.device(device).issue;
    for (const auto& [other, when] : issue_start_) {
      const DeviceId of = placement_[other];
      if (of == device || (!lane.lane.empty() && Lane(other) && Lane(other)->lane == lane.lane)) {
        free = std::max(free, when + HostTime(other));
      }
      if (of == device && Time(other) != 0) ends.push_back(End(other));
    }
    // Ops of a device end in the order of their issue: with the last max_queued - 1 of them another one may be queued.
    std::sort(ends.begin(), ends.end());
    const auto most = static_cast<std::size_t>(lane.max_queued);
    if (most != 0 && ends.size() >= most) free = std::max(free, ends[ends.size() - most]);
    return free;
  }
  // Whether an op that has started on another device of the same kind is still running.
  bool Contends(OpId op, std::int64_t start) const {
    for (const auto& [other, when] : start_) {
      if (other == op || placement_[other] == placement_[op]) continue;
      if (costs_.KindIndex(placement_[other]) == costs_.KindIndex(placement_[op]) && End(other) > start) return true;
    }
    return false;
  }
  std::int64_t End(OpId op) const { return start_.at(op) + Time(op); }
  bool Started(OpId op) const { return start_.count(op) != 0; }

  bool ProducersStarted(OpId op) const {
    for (const TensorId input : graph_.inputs(op)) {
      if (!Started(graph_.tensor(input).producer)) return false;
    }
    for (const OpId producer : graph_.control_inputs(op)) {
      if (!Started(producer)) return false;
    }
    return true;
  }

  std::int64_t ReadyTime(OpId op) const {
    std::int64_t ready = 0;
    for (const TensorId input : graph_.inputs(op)) {
      const OpId producer = graph_.tensor(input).producer;
      ready = std::max(ready, placement_[producer] == placement_[op] ? Usable(producer)
                                                                     : arrival_.at({input, placement_[op]}).second);
    }
    for (const OpId producer : graph_.control_inputs(op)) {
      const bool local = placement_[producer] == placement_[op];
      if (local) {
        ready = std::max(ready, Usable(producer));
        continue;
      }
      const Link& link = cluster_.link(placement_[producer], placement_[op]);
      ready = std::max(ready, End(producer) + Nanoseconds(link.latency_micros));
    }
    return ready;
  }

  // docs/model.md, F10 and F11, implemented literally.
  void StartNext() {
    std::optional<std::pair<std::int64_t, OpId>> next;
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      const DeviceId device = MakeId<DeviceId>(d);
      std::optional<std::pair<std::int64_t, OpId>> candidate;
      for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
        const OpId op = MakeId<OpId>(i);
        if (Started(op) || placement_[op] != device || !ProducersStarted(op)) continue;
        const auto key = std::make_pair(ReadyTime(op), op);
        if (!candidate || key < *candidate) candidate = key;
      }
      if (!candidate) continue;
      const std::int64_t free = cluster_.device(device).issue ? LaneFree(device) : device_free_[device];
      const std::int64_t start = std::max(candidate->first, free);
      if (!next || start < next->first) next = {start, candidate->second};
    }
    Start(next->second, next->first);
  }

  void Start(OpId op, std::int64_t start) {
    const DeviceId device = placement_[op];
    if (const auto& lane = Lane(op)) {
      issue_start_[op] = start;
      start += HostTime(op);
      if (Time(op) != 0) start += Nanoseconds(lane->launch_latency_micros);
      start = std::max(start, device_free_[device]);
    }
    start_[op] = start;
    if (costs_.has_contention() && Contends(op, start)) contended_.insert(op);
    const std::int64_t gap = Nanoseconds(cluster_.device(device).op_gap_micros);
    device_free_[device] = End(op) + (Time(op) == 0 ? 0 : gap);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph_.first_output(op)) + k);
      for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
        const DeviceId to = MakeId<DeviceId>(d);
        if (to == device || !IsReadOn(tensor, to)) continue;
        const std::int64_t sent = Send(tensor, device, to, End(op));
        if (!cluster_.device(device).copy_engine) device_free_[device] = std::max(device_free_[device], sent);
      }
    }
  }

  bool IsReadOn(TensorId tensor, DeviceId device) const {
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto inputs = graph_.inputs(MakeId<OpId>(i));
      if (placement_[MakeId<OpId>(i)] != device) continue;
      if (std::find(inputs.begin(), inputs.end(), tensor) != inputs.end()) return true;
    }
    return false;
  }

  // Returns the time when the channel is free again.
  std::int64_t Send(TensorId tensor, DeviceId from, DeviceId to, std::int64_t queued) {
    const Link& link = cluster_.link(from, to);
    const auto rate_of = [](double gb_per_s) { return static_cast<std::int64_t>(std::floor(gb_per_s * 1e9 + 0.5)); };
    const std::int64_t size = graph_.tensor(tensor).size.count;
    const std::int64_t beyond = link.knee.count > 0 && size > link.knee.count ? size - link.knee.count : 0;
    std::int64_t takes = DividedSlowly(size - beyond, rate_of(link.bandwidth_gb_per_s));
    if (beyond > 0) takes += DividedSlowly(beyond, rate_of(link.beyond_gb_per_s));
    const bool one_for_each = cluster_.channels() == Channels::kPerPair && cluster_.device(from).copy_engine;
    const auto channel = std::make_pair(from, one_for_each ? to : from);
    const std::int64_t start = std::max(queued, channel_free_[channel]);
    const std::int64_t arrival = start + Nanoseconds(link.latency_micros) + takes;
    channel_free_[channel] = arrival + Nanoseconds(link.gap_micros);
    arrival_[{tensor, to}] = {start, arrival};
    return channel_free_[channel];
  }

  std::vector<Interval> Allocations() const {
    std::vector<Interval> all;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      const DeviceId device = placement_[op];
      all.push_back({device, start_.at(op), End(op), graph_.op(op).temp.count});
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
        const TensorId tensor = MakeId<TensorId>(Index(graph_.first_output(op)) + k);
        const std::int64_t bytes = graph_.tensor(tensor).size.count;
        std::int64_t home_until = std::max(End(op), LastReaderEnd(tensor, device));
        for (const auto& [key, sent] : arrival_) {
          if (key.first != tensor) continue;
          home_until = std::max(home_until, sent.second);
          all.push_back({key.second, sent.first, LastReaderEnd(tensor, key.second), bytes});
        }
        all.push_back({device, start_.at(op), home_until, bytes});
      }
    }
    return all;
  }

  std::int64_t LastReaderEnd(TensorId tensor, DeviceId device) const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      const auto inputs = graph_.inputs(op);
      if (placement_[op] != device || std::find(inputs.begin(), inputs.end(), tensor) == inputs.end()) continue;
      last = std::max(last, End(op));
    }
    return last;
  }

  std::int64_t Peak(DeviceId device) const {
    std::int64_t persistent = 0;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      if (placement_[MakeId<OpId>(i)] == device) persistent += graph_.op(MakeId<OpId>(i)).persistent.count;
    }
    std::int64_t peak = 0;
    const std::vector<Interval> all = Allocations();
    for (const Interval& at : all) {
      if (at.device != device) continue;
      std::int64_t sum = 0;
      for (const Interval& other : all) {
        if (other.device == device && other.from <= at.from && at.from < other.to) sum += other.bytes;
      }
      peak = std::max(peak, sum);
    }
    return persistent + peak;
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  const Placement& placement_;
  std::set<OpId> contended_;  // took longer because another device was busy
  std::map<OpId, std::int64_t> start_;
  std::map<OpId, std::int64_t> issue_start_;  // on devices with an issue lane
  std::map<DeviceId, std::int64_t> device_free_;
  std::map<std::pair<DeviceId, DeviceId>, std::int64_t> channel_free_;
  std::map<std::pair<TensorId, DeviceId>, std::pair<std::int64_t, std::int64_t>> arrival_;  // start, arrival
};

}  // namespace

ReferenceResult SimulateSlowly(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                               const Placement& placement) {
  return Reference(graph, cluster, costs, placement).Run();
}

}  // namespace emplace::testing
