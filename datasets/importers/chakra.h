#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/chakra_groups.h"
#include "datasets/importers/registry.h"

namespace emplace::datasets {

// Data about process groups, which only few nodes have.
struct ChakraNodeGroups {
  // A collective names its group, attribute pg_name or comm_group; the number of its ranks, attribute pg_size or
  // group_size; whether attribute involved_dim leaves out dimensions of the network.
  std::string name = {};
  std::optional<std::int64_t> size = {};
  bool leaves_out_dimensions = false;
  std::string listed = {};  // inputs.values of PyTorch's node that lists the groups
};

// A node of a Chakra Execution Trace (Sridharan et al. 2023, "Chakra: Advancing Performance Benchmarking and Co-design
// using Standardized Execution Traces"; the schema et_def in github.com/mlcommons/chakra).
struct ChakraNode {
  enum class Type : std::uint8_t { kInvalid, kMetadata, kLoad, kStore, kCompute, kSend, kReceive, kCollective };
  std::uint64_t id = 0;
  std::string name;
  Type type = Type::kInvalid;
  std::vector<std::uint64_t> before = {};  // data_deps, then ctrl_deps
  std::size_t num_data = 0;                // number of data_deps in `before`
  std::uint64_t start_micros = 0;
  std::uint64_t micros = 0;                // duration_micros, or `runtime`
  std::optional<std::int64_t> nanos = {};  // attribute duration_ns, which comes before micros; what emplace writes
  // Attribute is_cpu_op. Without it communication and nodes with num_ops or a size are of an accelerator, others of a
  // CPU; of a workload all are of an accelerator.
  bool is_cpu = true;
  bool says_cpu = false;                                // it has the attribute
  bool has_negative = false;                            // a size, work or duration that is left out
  std::optional<std::int64_t> thread = {};              // attribute tid: a thread, or a stream
  std::optional<std::int64_t> collective = {};          // attribute comm_type
  std::optional<std::int64_t> bytes = {};               // attribute comm_size, num_bytes or tensor_size
  std::optional<std::int64_t> flop = {};                // attribute num_ops
  std::shared_ptr<const ChakraNodeGroups> groups = {};  // null: the node does not list them
  // A message between two ranks has attributes comm_src, comm_dst and comm_tag.
  std::optional<std::int64_t> source = {};
  std::optional<std::int64_t> destination = {};
  std::optional<std::int64_t> tag = {};
};

// The messages of a .et file: a varint length and a message each, GlobalMetadata first, then Nodes. One is held at a
// time. Throws InputError, its place "node N" or "byte N", on a message that is cut off or is not such a message.
using TakeChakraNode = std::function<void(ChakraNode&&)>;
void ReadChakra(std::istream& in, const TakeChakraNode& take);
// The JSON flavour: {"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [], "runtime": 5, ...}]}.
void ReadChakraJson(std::istream& in, const TakeChakraNode& take);

struct ChakraRank {
  std::int64_t rank = 0;
  std::vector<ChakraNode> nodes = {};
};

struct ChakraOptions {
  ChakraGroups groups = {};          // in addition to those that the traces list
  const Cluster* cluster = nullptr;  // a rank's ops go on its accelerators, in order, those of CPUs on its first CPU
};

// Nodes are ops, dependencies are control inputs: the trace does not hold the size of what passes along them. Devices
// are a CPU thread or an accelerator's stream for each tid; of several ranks they are named "rank 1 gpu stream 7".
// Dependencies on nodes that the trace lacks are left out and counted.
// A `receive` waits for the `send` of the same ranks and tag; of several, the k-th for the k-th. Nodes of one
// collective (chakra_groups.h) start together, and take the shortest of their times: the others waited inside.
//
// A trace of a workload has nodes with work and no duration: num_ops, tensor_size, comm_size. Those get no time here:
// - A node with num_ops or tensor_size is an op of kind `workload`, `load` or `store`, which roofline times.
// - A collective is one of the graph's (docs/model.md, K1), which the cluster times. Gather, scatter and reduce are
//   all_gather, reduce_scatter and broadcast, and a barrier is an all_reduce of a byte.
// - A message is a tensor of comm_size bytes, which op `send` writes and op `recv` of another rank reads.
// - A collective or message whose other ranks are not given is an op of kind `collective`, which nothing times.
// All other nodes of such a trace keep their times on every kind of device.
//
// Throws InputError on ids that repeat, and on cycles (with the ops on them).
Imported MakeChakraGraph(const std::vector<ChakraRank>& ranks, const ChakraOptions& options = {});

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_
