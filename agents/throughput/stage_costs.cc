#include "agents/throughput/stage_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// The cost of a crossing of this many bytes for a device, in µs.
class CrossingTimes {
 public:
  CrossingTimes(const Cluster& cluster, DeviceId device, CrossingLink link) {
    if (cluster.device(device).is_cpu) return;
    AddPeers(cluster, device, link == CrossingLink::kHost);
    if (links_.empty()) AddPeers(cluster, device, link != CrossingLink::kHost);
  }

  double Micros(Bytes size) const {
    double sum = 0;
    for (const Link* link : links_) sum += link->latency_micros + link->MicrosOf(static_cast<double>(size.count));
    return links_.empty() ? 0 : sum / static_cast<double>(links_.size());
  }

  // Up to rounding: the same links may be added in another order.
  bool Equals(const CrossingTimes& other) const {
    constexpr std::array<std::int64_t, 4> kSizes = {1, 1 << 12, 1 << 20, std::int64_t{1} << 32};
    return std::all_of(kSizes.begin(), kSizes.end(), [&](std::int64_t size) {
      const double a = Micros({size});
      const double b = other.Micros({size});
      return std::abs(a - b) <= 1e-9 * std::max(a, b);
    });
  }

 private:
  void AddPeers(const Cluster& cluster, DeviceId device, bool cpus) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      const auto peer = MakeId<DeviceId>(d);
      if (peer == device || cluster.device(peer).is_cpu != cpus) continue;
      for (const Link* link : {&cluster.link(device, peer), &cluster.link(peer, device)}) {
        if (link->exists()) links_.push_back(link);
      }
    }
  }

  std::vector<const Link*> links_;
};

// The device that stands for a class, and what sets it apart.
struct ClassKey {
  DeviceId device{};
  CrossingTimes times;
};

bool Alike(const Cluster& cluster, const CostTable& costs, DeviceId a, DeviceId b) {
  return costs.KindIndex(a) == costs.KindIndex(b) && cluster.device(a).is_cpu == cluster.device(b).is_cpu &&
         cluster.device(a).memory == cluster.device(b).memory;
}

Bytes BytesOf(const Graph& graph, OpId op, StageMemory memory) {
  Bytes bytes = graph.op(op).persistent;
  if (memory == StageMemory::kPersistent) return bytes;
  bytes += graph.op(op).temp;
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    bytes += graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + k)).size;
  }
  return bytes;
}

}  // namespace

std::size_t StageCosts::num_devices() const {
  std::size_t count = 0;
  for (const DeviceClass& of_class : classes) count += of_class.devices.size();
  return count;
}

StageCosts MakeStageCosts(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          const StageCostOptions& options) {
  StageCosts stage;
  std::vector<ClassKey> keys;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const auto device = MakeId<DeviceId>(d);
    CrossingTimes times(cluster, device, options.link);
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const ClassKey& other) {
      return Alike(cluster, costs, device, other.device) && times.Equals(other.times);
    });
    const auto index = static_cast<std::size_t>(key - keys.begin());
    if (key == keys.end()) {
      keys.push_back({.device = device, .times = std::move(times)});
      DeviceClass& added = stage.classes.emplace_back();
      if (options.memory != StageMemory::kNone) added.memory = cluster.device(device).memory;
      for (std::size_t op = 0; op < graph.num_ops(); ++op) {
        added.op_micros.push_back(costs.Micros(MakeId<OpId>(op), device));
      }
    }
    stage.classes[index].devices.push_back(device);
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    stage.bytes.push_back(BytesOf(graph, MakeId<OpId>(i), options.memory));
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const auto tensor = MakeId<TensorId>(t);
    const auto consumers = graph.consumers(tensor);
    const Bytes size = graph.tensor(tensor).size;
    if (consumers.empty() || size.count == 0) continue;
    Crossing& crossing = stage.crossings.emplace_back();
    crossing.producer = graph.tensor(tensor).producer;
    crossing.consumers.assign(consumers.begin(), consumers.end());
    for (const ClassKey& key : keys) crossing.micros.push_back(key.times.Micros(size));
  }
  return stage;
}

void SetCrossings(const Graph& graph, const Cluster& cluster, std::span<const double> op_micros, StageCosts* costs) {
  EMPLACE_CHECK_EQ(op_micros.size(), graph.num_ops());
  costs->crossings.clear();
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    Crossing crossing{.producer = op, .consumers = {}, .micros = {}};
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const auto consumers = graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + k));
      crossing.consumers.insert(crossing.consumers.end(), consumers.begin(), consumers.end());
    }
    if (crossing.consumers.empty()) continue;
    std::sort(crossing.consumers.begin(), crossing.consumers.end());
    const auto end = std::unique(crossing.consumers.begin(), crossing.consumers.end());
    crossing.consumers.erase(end, crossing.consumers.end());
    for (const DeviceClass& of_class : costs->classes) {
      crossing.micros.push_back(cluster.device(of_class.devices.front()).is_cpu ? 0 : op_micros[i]);
    }
    costs->crossings.push_back(std::move(crossing));
  }
}

std::vector<StageLoad> StageLoads(const StageCosts& costs, const Placement& placement) {
  EMPLACE_CHECK_EQ(placement.num_ops(), costs.num_ops());
  std::vector<StageLoad> loads(costs.num_devices());
  std::vector<std::size_t> class_of(costs.num_devices());
  for (std::size_t c = 0; c < costs.classes.size(); ++c) {
    for (const DeviceId device : costs.classes[c].devices) class_of[Index(device)] = c;
  }
  for (std::size_t op = 0; op < costs.num_ops(); ++op) {
    const std::size_t device = Index(placement[MakeId<OpId>(op)]);
    const double micros = costs.classes[class_of[device]].op_micros[op];
    if (std::isnan(micros)) {
      loads[device].op_micros = std::numeric_limits<double>::infinity();
    } else {
      loads[device].op_micros += micros;
    }
    loads[device].bytes += costs.bytes[op];
  }
  std::vector<std::size_t> paying;
  for (const Crossing& crossing : costs.crossings) {
    const std::size_t home = Index(placement[crossing.producer]);
    paying.clear();
    for (const OpId consumer : crossing.consumers) paying.push_back(Index(placement[consumer]));
    paying.push_back(home);
    std::sort(paying.begin(), paying.end());
    paying.erase(std::unique(paying.begin(), paying.end()), paying.end());
    if (paying.size() == 1) continue;
    for (const std::size_t device : paying) loads[device].crossing_micros += crossing.micros[class_of[device]];
  }
  return loads;
}

double MaxLoad(const StageCosts& costs, const Placement& placement) {
  double most = 0;
  for (const StageLoad& load : StageLoads(costs, placement)) most = std::max(most, load.micros());
  return most;
}

double MaxLoad(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement) {
  return MaxLoad(MakeStageCosts(graph, cluster, costs), placement);
}

}  // namespace emplace::agents
