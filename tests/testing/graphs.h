#ifndef EMPLACE_TESTS_TESTING_GRAPHS_H_
#define EMPLACE_TESTS_TESTING_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/rng.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// The graph as its file.
std::string GraphText(const Graph& graph);

// An op that takes `micros` on every kind of device and writes one tensor for each entry of `output_bytes`.
OpSpec MakeOp(std::string name, double micros, std::vector<std::string> inputs = {},
              const std::vector<std::int64_t>& output_bytes = {0});

// The graph of some ops.
Graph Build(const std::vector<OpSpec>& specs);

// a -> b -> c ... : names "op0", "op1", ...; every op takes `micros` and sends `bytes` to the next.
Graph MakeChain(std::size_t length, double micros, std::int64_t bytes);

// Two independent chains of three ops, of 30 and 25 us per op. The best placement on two equal devices puts each chain
// on its own device, and takes 90 us.
Graph MakeTwoChains();
// The same on a MakeMixedCluster(1). One chain, of kind "relu", takes 30 us per op on the CPU and 60 on the
// accelerator; the other, of kind "tanh", takes 60 and 25.
Graph MakeTwoChainsOfKinds();

// Two independent ops, ten times as fast on an accelerator of MakeMixedCluster(), 10 us, as on its CPU, which is device
// 0.
Graph MakeTwoOpsForTheAccelerator();

// "a" feeds "b" and "c", which feed "d".
Graph MakeDiamond(double micros, std::int64_t bytes);

// "source" feeds "branch0" ... , which all feed "sink".
Graph MakeForkJoin(std::size_t branches, double micros, std::int64_t bytes);

// `count` equal accelerators "gpu:0"... of kind "test-gpu", connected by `link`.
Cluster MakeCluster(std::size_t count, Link link = {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0},
                    double op_gap_micros = 0, std::optional<Bytes> memory = std::nullopt);
// Two of them: 1 GB/s is 1000 bytes per µs.
Cluster TwoDevices();
// Devices of two kinds: "cpu:0" of kind "test-cpu" and `gpus` of "test-gpu".
Cluster MakeMixedCluster(std::size_t gpus, std::optional<Bytes> gpu_memory = std::nullopt);

// The same time for every op on every device, or a time by op name.
class FixedCostModel : public CostModel {
 public:
  explicit FixedCostModel(double micros) : micros_(micros) {}
  FixedCostModel(double micros, std::map<std::string, double, std::less<>> by_name)
      : micros_(micros), by_name_(std::move(by_name)) {}
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view) const override;
  std::string WhyNoTime(const Graph&, OpId) const override { return "FixedCostModel"; }

 private:
  double micros_;
  std::map<std::string, double, std::less<>> by_name_;
};

// The costs in the graph itself (cost model "measured").
CostTable MeasuredCosts(const Graph& graph, const Cluster& cluster);

// The same, but ops take longer beside a busy neighbour: CostModel::Contention by class of op, for all kinds.
CostTable ContendedCosts(const Graph& graph, const Cluster& cluster, std::map<OpClass, double> factors);

// The cluster with issue lanes for one of its kinds, or for all; some devices share one.
Cluster WithIssueLanes(Rng& rng, const Cluster& cluster);

// "d0", "d1", ... of kind "test-gpu".
std::vector<Device> RowOfDevices(std::size_t count);

// 2 to 6 devices that hang on 1 to 3 switches, the switches in a row; links, gaps and rules of channels differ.
Cluster RandomTree(Rng& rng);

// Parameters of a random graph.
struct RandomDagOptions {
  std::size_t num_ops = 50;
  std::size_t max_inputs = 4;  // data inputs of an op
  std::size_t max_outputs = 3;
  double control_probability = 0.2;  // probability of one control edge per op
  double zero_time_probability = 0.2;
  double zero_bytes_probability = 0.2;
  std::int64_t max_micros = 4;  // small: ties are common
  std::int64_t max_kilobytes = 4;
  bool kinds_differ = false;  // times per kind "test-cpu", "test-gpu"; some ops lack one of them
  bool memory = false;        // temporary and persistent bytes too
  bool fractional = false;    // times that are not whole µs
  bool host_times = false;    // some ops have a host time, some of these a device time too
  bool classes = false;       // ops of several classes in the catalogue; else of none
  bool layers = false;        // ops are of one of seven layers
  bool colocated = false;     // some ops are colocated with an earlier one (that has times on the same kinds)
};
Graph RandomDag(Rng& rng, const RandomDagOptions& options);

// A random device for every op, with a time for it; ops of a colocation class are together.
Placement RandomPlacement(Rng& rng, const Graph& graph, const Cluster& cluster, const CostTable& costs);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_GRAPHS_H_
