#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/registry.h"

namespace emplace::datasets {

// A node of a Chakra Execution Trace (Sridharan et al. 2023, "Chakra: Advancing Performance Benchmarking and Co-design
// using Standardized Execution Traces"; the schema et_def in github.com/mlcommons/chakra).
struct ChakraNode {
  enum class Type : std::uint8_t { kInvalid, kMetadata, kLoad, kStore, kCompute, kSend, kReceive, kCollective };
  std::uint64_t id = 0;
  std::string name;
  Type type = Type::kInvalid;
  std::vector<std::uint64_t> before = {};  // data_deps, then ctrl_deps
  std::size_t num_data = 0;                // of `before`: how many are data_deps
  std::uint64_t start_micros = 0;
  std::uint64_t micros = 0;                // duration_micros, or `runtime`
  std::optional<std::int64_t> nanos = {};  // attribute duration_ns, which comes before micros; what emplace writes
  bool is_cpu = true;                      // attribute is_cpu_op; without it all but communication is of an accelerator
  std::optional<std::int64_t> thread = {};      // attribute tid: a thread, or a stream
  std::optional<std::int64_t> collective = {};  // attribute comm_type
  std::optional<std::int64_t> bytes = {};       // attribute comm_size, num_bytes or tensor_size
  std::optional<std::int64_t> flop = {};        // attribute num_ops
  // Of a message between two ranks: attributes comm_src, comm_dst, comm_tag.
  std::optional<std::int64_t> source = {};
  std::optional<std::int64_t> destination = {};
  std::optional<std::int64_t> tag = {};
};

// The messages of a .et file: a varint length and a message each, GlobalMetadata first, then Nodes. One is held at a
// time. Throws InputError, its place "node N" or "byte N", on a message that is cut or is no such message.
using TakeChakraNode = std::function<void(ChakraNode&&)>;
void ReadChakra(std::istream& in, const TakeChakraNode& take);
// The JSON flavour: {"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [], "runtime": 5, ...}]}.
void ReadChakraJson(std::istream& in, const TakeChakraNode& take);

struct ChakraRank {
  std::int64_t rank = 0;
  std::vector<ChakraNode> nodes = {};
};

// Nodes are ops, dependencies are control inputs: the trace says nothing of the size of what passes along them. Devices
// are a CPU thread or an accelerator's stream for each tid; of several ranks they are named "rank 1 gpu stream 7".
// Dependencies on nodes that the trace lacks are left out and counted.
// A `receive` waits for the `send` of the same ranks and tag; of several, the k-th for the k-th. If all ranks have as
// many collectives, the k-th of all start together, and take the shortest of their times: the others waited inside.
// Throws InputError on ids that repeat, and on cycles (with the ops on them).
Imported MakeChakraGraph(const std::vector<ChakraRank>& ranks);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_H_
