#include "tests/bench/topological_sweep.h"

#include <algorithm>
#include <bit>

#include "sim/base/check.h"

namespace emplace::testing {

TopologicalSweep::TopologicalSweep(const Graph& graph, const Cluster& cluster, const CostTable& costs)
    : ready_(graph.num_ops()),
      device_free_(cluster.num_devices()),
      channel_free_(cluster.num_devices()),
      arrival_(cluster.num_devices()) {
  EMPLACE_CHECK(cluster.num_devices() >= 2 && cluster.num_devices() <= 64);
  const Link& link = cluster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1));
  op_gap_ = DurationFromMicros(cluster.devices()[0].op_gap_micros).count();
  latency_ = DurationFromMicros(link.latency_micros).count();
  link_gap_ = DurationFromMicros(link.gap_micros).count();
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    Step step{.time = DurationFromMicros(costs.Micros(id, MakeId<DeviceId>(0))).count()};
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
      const auto consumers = graph.consumers(tensor);
      if (consumers.empty()) continue;
      ++step.tensors;
      const Duration transfer = TransferDuration(graph.tensor(tensor).size, RateFromGbPerS(link.bandwidth_gb_per_s));
      tensors_.push_back({transfer.count(), static_cast<std::uint32_t>(consumers.size())});
      for (const OpId reader : consumers) readers_.push_back(static_cast<std::uint32_t>(reader));
    }
    for (const OpId waiting : graph.control_consumers(id)) readers_.push_back(static_cast<std::uint32_t>(waiting));
    step.waiting = static_cast<std::uint32_t>(graph.control_consumers(id).size());
    steps_.push_back(step);
  }
}

std::int64_t TopologicalSweep::Run(std::span<const DeviceId> placement) {
  std::fill(ready_.begin(), ready_.end(), 0);
  std::fill(device_free_.begin(), device_free_.end(), 0);
  std::fill(channel_free_.begin(), channel_free_.end(), 0);
  const Sent* tensor = tensors_.data();
  const std::uint32_t* reader = readers_.data();
  std::int64_t last = 0;
  for (std::size_t op = 0; op < steps_.size(); ++op) {
    const Step& step = steps_[op];
    const std::size_t device = Index(placement[op]);
    const std::int64_t end = std::max(ready_[op], device_free_[device]) + step.time;
    device_free_[device] = end + op_gap_;
    last = std::max(last, end);
    arrival_[device] = end;
    for (const Sent* const behind = tensor + step.tensors; tensor != behind; ++tensor) {
      std::uint64_t destinations = 0;
      for (std::uint32_t k = 0; k < tensor->readers; ++k)
        destinations |= std::uint64_t{1} << Index(placement[reader[k]]);
      destinations &= ~(std::uint64_t{1} << device);
      for (; destinations != 0; destinations &= destinations - 1) {
        const auto to = static_cast<std::size_t>(std::countr_zero(destinations));
        arrival_[to] = std::max(end, channel_free_[device]) + latency_ + tensor->transfer;
        channel_free_[device] = arrival_[to] + link_gap_;
      }
      for (const std::uint32_t* const behind_readers = reader + tensor->readers; reader != behind_readers; ++reader) {
        ready_[*reader] = std::max(ready_[*reader], arrival_[Index(placement[*reader])]);
      }
    }
    for (const std::uint32_t* const behind_waiting = reader + step.waiting; reader != behind_waiting; ++reader) {
      ready_[*reader] = std::max(ready_[*reader], end);
    }
  }
  return last;
}

}  // namespace emplace::testing
