#include "sim/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.h"
#include "sim/graph_algorithms.h"

namespace emplace {
namespace {

// The time of each op on its fastest device, in ns.
std::vector<std::int64_t> FastestNanos(const Graph& graph, const CostTable& costs) {
  std::vector<std::int64_t> fastest(graph.num_ops(), std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind) {
      const double micros = costs.KindMicros(op, kind);
      if (!std::isnan(micros)) fastest[i] = std::min(fastest[i], DurationFromMicros(micros).count());
    }
    EMPLACE_CHECK_LT(fastest[i], std::numeric_limits<std::int64_t>::max());
  }
  return fastest;
}

}  // namespace

Bounds ComputeBounds(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  EMPLACE_CHECK_EQ(costs.num_ops(), graph.num_ops());
  const std::vector<std::int64_t> fastest = FastestNanos(graph, costs);
  std::int64_t work = 0;
  Bounds bounds;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    work += fastest[i];
    bounds.persistent += graph.op(MakeId<OpId>(i)).persistent;
  }
  bounds.critical_path_micros = MicrosFromDuration(Duration(CriticalPath(graph, fastest)));
  bounds.work_micros = MicrosFromDuration(Duration(work));
  // Both divisions round monotonically, so that this stays at or below every step time, a whole number of ns.
  const double share_micros = static_cast<double>(work) / static_cast<double>(cluster.num_devices()) / 1000.0;
  bounds.lower_bound_micros = std::max(bounds.critical_path_micros, share_micros);
  if (share_micros > bounds.critical_path_micros) bounds.lower_bound_method = kWorkBound;
  return bounds;
}

double RepeatedWorkMicros(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          std::span<const std::int64_t> times) {
  EMPLACE_CHECK_EQ(times.size(), graph.num_ops());
  const std::vector<std::int64_t> fastest = FastestNanos(graph, costs);
  std::int64_t work = 0;
  for (std::size_t i = 0; i < times.size(); ++i) work += fastest[i] * times[i];
  return static_cast<double>(work) / static_cast<double>(cluster.num_devices()) / 1000.0;
}

std::vector<DeviceLoad> ComputeLoads(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement) {
  EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
  const std::size_t num_devices = cluster.num_devices();
  std::vector<DeviceLoad> loads(num_devices);
  std::vector<std::int64_t> busy(num_devices, 0);
  std::vector<TensorId> last_sent(num_devices);  // the tensor whose copy a device got last
  std::vector<bool> received(num_devices, false);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    const std::size_t device = Index(placement[op]);
    ++loads[device].ops;
    busy[device] += DurationFromMicros(costs.Micros(op, placement[op])).count();
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
      for (const OpId consumer : graph.consumers(tensor)) {
        const std::size_t to = Index(placement[consumer]);
        if (to == device || (received[to] && last_sent[to] == tensor)) continue;
        received[to] = true;
        last_sent[to] = tensor;
        ++loads[device].tensors_sent;
        loads[device].sent += graph.tensor(tensor).size;
      }
    }
  }
  for (std::size_t d = 0; d < num_devices; ++d) loads[d].busy_micros = MicrosFromDuration(Duration(busy[d]));
  return loads;
}

}  // namespace emplace
