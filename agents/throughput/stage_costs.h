#ifndef EMPLACE_AGENTS_THROUGHPUT_STAGE_COSTS_H_
#define EMPLACE_AGENTS_THROUGHPUT_STAGE_COSTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

// The load of devices in a pipeline. Samples follow one another, and each device works on another sample: the time per
// sample is that of the device with the largest load, whatever the order of ops.
// Source: Tarnawski et al. 2020, "Efficient algorithms for device placement of DNN graph operators", the computational
// model and the section on throughput; the program throughput-dp of github.com/msr-fiddle/dnn-partitioning.
namespace emplace::agents {

// Devices that are alike: the same times, the same memory, the same cost of crossings.
struct DeviceClass {
  std::vector<DeviceId> devices;  // ascending
  std::vector<double> op_micros;  // [num_ops]; NaN where the op may not run
  std::optional<Bytes> memory;    // memory of each device; none: no limit
};

// A value that an op sends to others. Each device that holds a part of this pays once: the producer's if some consumer
// is elsewhere, and every other device with a consumer.
struct Crossing {
  OpId producer{};
  std::vector<OpId> consumers;  // ascending, distinct, not empty
  std::vector<double> micros;   // [num_classes]: what a device of the class pays
};

// The costs from which loads of devices are computed.
struct StageCosts {
  std::vector<DeviceClass> classes;
  std::vector<Bytes> bytes;  // [num_ops]: memory that the op takes on its device
  std::vector<Crossing> crossings;

  std::size_t num_ops() const { return bytes.size(); }
  std::size_t num_devices() const;
};

// Over which links a crossing goes.
enum class CrossingLink : std::uint8_t {
  kDirect,  // to other accelerators; to CPUs where there is no other accelerator
  kHost,    // to CPUs, as in the paper, where a value goes through host memory; as kDirect without CPUs
};

// Which bytes of an op count.
enum class StageMemory : std::uint8_t {
  kAll,         // persistent, temporary and output bytes
  kPersistent,  // persistent bytes, as in the paper's input files, which count activations among these
  kNone,        // memory has no limit
};

struct StageCostOptions {
  CrossingLink link = CrossingLink::kDirect;
  StageMemory memory = StageMemory::kAll;
};

// Times of `costs`; one crossing for each tensor of at least a byte that another op reads. A CPU pays nothing for
// crossings, as in the paper. An accelerator pays the mean time of the tensor, latency included, over its links of
// `options.link`, both directions alike; 0 where it has none.
StageCosts MakeStageCosts(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          const StageCostOptions& options = {});

// Replaces the crossings by one for each op that others read, all outputs together: accelerators pay op_micros[op], and
// CPUs nothing. For costs that a file gives. Requires: op_micros.size() == graph.num_ops().
void SetCrossings(const Graph& graph, const Cluster& cluster, std::span<const double> op_micros, StageCosts* costs);

// The load of a placement on one device.
struct StageLoad {
  double op_micros = 0;        // its ops; infinite if one may not run there
  double crossing_micros = 0;  // values that come in or go out
  Bytes bytes;

  double micros() const { return op_micros + crossing_micros; }
};

// By DeviceId. Requires: `placement` is of every op, on devices of `costs`.
std::vector<StageLoad> StageLoads(const StageCosts& costs, const Placement& placement);

// The largest load of any device, in µs; 0 for an empty graph. Memory is not asked about.
double MaxLoad(const StageCosts& costs, const Placement& placement);
// The same, with MakeStageCosts.
double MaxLoad(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_STAGE_COSTS_H_
