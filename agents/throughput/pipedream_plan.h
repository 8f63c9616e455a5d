#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPEDREAM_PLAN_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPEDREAM_PLAN_H_

#include <cstddef>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/stage_costs.h"
#include "sim/cluster.h"
#include "sim/graph.h"

// The planner of PipeDream: a chain of layers in stages, and each stage on some devices that work on different
// micro-batches. Source: Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training", section
// 3.1, the partitioning algorithm.
namespace emplace::agents {

// A network as a chain.
struct LayerChain {
  std::vector<double> micros;        // [num_layers]: forward and backward
  std::vector<double> sent_bytes;    // [num_layers]: both ways between the layers up to this one and those behind it
  std::vector<double> weight_bytes;  // [num_layers]: what replicas synchronise

  std::size_t size() const { return micros.size(); }
};

// The units in their order. A layer's time is the mean over `devices` where it may run, 0 if it may run on none. What
// is sent behind a layer is each tensor that some op before reads from behind, or the reverse, once: a chain hands on
// what is read further on. Weights are the outputs of ops of kind "variable"; in a unit without them, persistent bytes.
LayerChain MakeLayerChain(const Graph& graph, const ContiguousUnits& units, const StageCosts& costs,
                          const std::vector<DeviceId>& devices);

// A level of a hierarchy of links: a number of components of the level within, or devices, and the links between them.
struct BandwidthLevel {
  std::size_t components = 1;
  double bytes_per_micro = 0;
};

// Devices by links, from the innermost level to the outermost. All devices, if links are alike, are one level.
struct DeviceHierarchy {
  std::vector<BandwidthLevel> levels;  // at least one
  std::vector<DeviceId> devices;       // those of a component are neighbours
};

// Groups `devices` by links that are at least so fast, from the fastest to the slowest. A level is where all groups
// have the same number of groups of the level within. Its bandwidth is the mean over links between those. `flat`: one
// level of all. Requires: `devices` is not empty, and there is a link for each pair.
DeviceHierarchy FindHierarchy(const Cluster& cluster, const std::vector<DeviceId>& devices, bool flat = false);

struct ReplicatedStage {
  std::size_t first = 0;  // layers
  std::size_t last = 0;
  std::size_t replicas = 1;
  std::size_t first_device = 0;  // index in DeviceHierarchy::devices of the first device of the first replica
  bool operator==(const ReplicatedStage&) const = default;
};

struct PipeDreamPlan {
  std::vector<ReplicatedStage> stages;  // in the order of layers, and of devices
  double micros = 0;                    // time per micro-batch: that of the slowest stage or transfer
};

// The plan with the least time for a micro-batch. With levels k of m_k components and bandwidth B_k, for layers i to j
// on m components:
//   T_k(i, j, m) = max(A_{k-1}(i, j, m_{k-1}), 2 (m - 1) weights(i..j) / B_k) / m, one stage on all of them;
//   A_k(i, j, m) = the least, over T_k(i, j, m) and all s and n, of
//                  max(A_k(i, s, m - n), sent(s) / B_k, T_k(s + 1, j, n));
//   A_0(i, j, 1) = the sum of times.
// Without `replicas` each stage is on one device, and devices may stay empty: the published program's
// --straight_pipeline. (Its formulas differ from the paper's: it adds the time of synchronisation, and halves its
// bandwidth.) Throws InputError("") if that takes over 2e9 steps, about layers^3 / 12 components^2 for an inner level.
// Requires: the chain is not empty.
PipeDreamPlan PlanPipeDream(const LayerChain& chain, const std::vector<BandwidthLevel>& levels, bool replicas);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPEDREAM_PLAN_H_
