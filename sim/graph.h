#ifndef EMPLACE_SIM_GRAPH_H_
#define EMPLACE_SIM_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/units.h"

namespace emplace {

enum class DType : std::uint8_t {
  kNone,
  kBool,
  kI8,
  kU8,
  kI16,
  kF16,
  kBf16,
  kI32,
  kF32,
  kI64,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kU4,
  kI4
};
enum class Pass : std::uint8_t { kNone, kForward, kBackward, kUpdate };

// The name in graph.json ("f32", "forward"; "" for kNone) and back (nullopt for an unknown word).
std::string_view Name(DType dtype);
std::string_view Name(Pass pass);
std::optional<DType> DTypeFromName(std::string_view name);
std::optional<Pass> PassFromName(std::string_view name);
// Bits of one element; 0 for kNone.
std::int64_t ElementBits(DType dtype);
// Bytes of one element that is alone: 1 of a type of 4 bits; 0 for kNone.
std::int64_t ElementBytes(DType dtype);
// Bytes of a whole tensor; two elements of 4 bits share a byte. Throws InputError(place) where the product does not fit
// in 62 bits.
Bytes TensorBytes(DType dtype, std::span<const std::int64_t> shape, const std::string& place);

// A tensor: one output of one op. Lives as long as its graph.
struct Tensor {
  OpId producer{};
  std::uint32_t output_index = 0;
  Bytes size;
  DType dtype = DType::kNone;  // kNone: only the size is known
  std::span<const std::int64_t> shape;
};

// The measured time of an op on one device kind, in µs, as read.
struct KindTime {
  std::string_view kind;
  double micros = 0;
};

// The times of an op that a thread of the host issues and a device runs behind it (docs/model.md, F15), in µs, as read.
struct QueueTimes {
  std::optional<double> host_micros;    // time of the host thread
  std::optional<double> device_micros;  // time on every device kind
  std::span<const KindTime> device_kind_times = {};
};

// An op. The views live as long as its graph.
struct Op {
  std::string_view name;
  std::string_view kind;
  std::string_view layer;  // "" if none
  std::string_view attrs;  // a JSON object as compact text, keys in file order; "" if none
  Pass pass = Pass::kNone;
  double flop = 0;                    // a multiply-add is 2
  Bytes temp;                         // lives while the op runs
  Bytes persistent;                   // lives the whole step
  std::optional<double> time_micros;  // one time for every device kind
  std::span<const KindTime> kind_times;
  const QueueTimes* queue_times = nullptr;  // null: none are given
  std::optional<OpId> colocate_with;
  std::uint32_t file_position = 0;  // position in the file, or in the order of GraphBuilder::Add
};

// The operation of a group of members.
enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSendReceive,
};
// The kind of op: "all_reduce"; for kSendReceive "send_receive", whose ops are `send` and `recv`.
std::string_view Name(CollectiveKind kind);

// One collective: ops of one kind with the attr `group`, each of another device. They start when all have arrived, and
// end together (docs/model.md, K1 to K6).
struct Collective {
  CollectiveKind kind{};
  std::string_view group;
  std::span<const OpId> members;  // ascending; of kSendReceive the sender, then the receiver
  // The whole message, as NCCL counts it: what each member has before a reduction or an exchange, and what each has
  // after a gathering, a broadcast or a receipt. The largest of any member.
  Bytes size;
};

namespace internal {
class GraphAssembler;
class CollectiveFinder;
}  // namespace internal

// The op graph of one training step: ops joined by tensors (data) and by control edges (order). Immutable; copies
// share their storage.
//
// Ids: OpId is the op's position in the canonical order: repeatedly take, among the ops whose producers (data and
// control) have all been taken, the one whose name is smallest, byte by byte (docs/model.md, G3). So ids are a
// topological order, and depend neither on the order of ops nor on that of edges in a file. TensorIds count
// the outputs of op 0, then of op 1, and so on.
class Graph {
 public:
  // Vertices are ops; one edge for each (producer, consumer) pair, data and control alike. A graph of Boost.Graph:
  // include sim/graph_adjacency.h.
  struct Adjacency;

  Graph();  // empty

  const std::string& name() const;
  // Additional information about the graph: a JSON object as compact text; "" if there is none.
  const std::string& metadata() const;
  // For what is known only once the graph is there. Requires: no copy of the graph exists.
  void SetMetadata(std::string metadata);
  std::size_t num_ops() const;
  std::size_t num_tensors() const;
  const Op& op(OpId id) const;
  const Tensor& tensor(TensorId id) const;

  // Op ids in the order of the file.
  std::span<const OpId> file_order() const;
  // The inputs of the op in the order of its input list, including repeats.
  std::span<const TensorId> inputs(OpId id) const;
  // The ops that it waits for without reading, in the order of its list, repeats included.
  std::span<const OpId> control_inputs(OpId id) const;
  // The tensors it writes: consecutive ids from first_output(id).
  TensorId first_output(OpId id) const;
  std::size_t num_outputs(OpId id) const;
  // The distinct ops that read a tensor, or wait for an op; ascending.
  std::span<const OpId> consumers(TensorId id) const;
  std::span<const OpId> control_consumers(OpId id) const;

  const Adjacency& adjacency() const;

  // Ops that must share a device: the smallest id of the op's colocation class (the closure of `colocate_with`).
  OpId colocation_class(OpId id) const;

  // In the order of their first members.
  std::span<const Collective> collectives() const;
  // Whether each device runs a program of its own, as the ranks of a job do: there are collectives, or ops that receive
  // messages (kind "recv"). O(n).
  bool has_ranks() const;
  // The position in collectives() of the one that the op is a member of; none: of none.
  std::optional<std::size_t> CollectiveOf(OpId id) const;

  // The op of that name, if there is one. O(log n).
  std::optional<OpId> FindOp(std::string_view name) const;

  // Time on a device kind as the graph gives it, in µs: time_us, or else the larger of device_us and host_us. Ops of
  // kind `input` and `variable` take 0 where none is given.
  std::optional<double> MeasuredMicros(OpId id, std::string_view device_kind) const;
  // device_us on a device kind, and host_us, in µs; nullopt where the graph gives none.
  std::optional<double> DeviceMicros(OpId id, std::string_view device_kind) const;
  std::optional<double> HostMicros(OpId id) const;

  // Heap bytes that this graph holds.
  std::size_t MemoryUsage() const;

 private:
  friend class GraphBuilder;
  friend class internal::GraphAssembler;
  friend class internal::CollectiveFinder;
  struct Data;
  explicit Graph(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
};

// The argument of GraphBuilder::Add, with fields as in graph.json.
struct OutputSpec {
  std::optional<Bytes> size;  // or from dtype and shape
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
};

// An output of an op, by the op's position in the order of GraphBuilder::Add.
struct OutputPosition {
  std::uint32_t op = 0;
  std::uint32_t output = 0;
};

struct OpSpec {
  std::string name;
  std::string kind;
  std::vector<std::string> inputs;          // "producer:index" or "producer"
  std::vector<std::string> control_inputs;  // op names
  // Further inputs and control inputs, as positions in the order of GraphBuilder::Add: for graphs with millions of ops.
  std::vector<OutputPosition> input_positions;
  std::vector<std::uint32_t> control_positions;
  std::vector<OutputSpec> outputs;
  std::string attrs;
  double flop = 0;
  Bytes temp;
  Bytes persistent;
  std::optional<double> time_micros;
  std::vector<std::pair<std::string, double>> kind_times;
  std::optional<double> host_micros;
  std::optional<double> device_micros;
  std::vector<std::pair<std::string, double>> device_kind_times;
  Pass pass = Pass::kNone;
  std::string layer;
  std::string colocate_with;  // an op's name; "" if none
};

// Collects ops and checks them. Ops may name others that are added later.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;

  void Add(const OpSpec& spec);
  // Reserves room for this many ops in all: saves memory where they are many.
  void Reserve(std::size_t num_ops);
  void SetName(std::string name);
  // `metadata`: Graph::metadata().
  void SetMetadata(std::string metadata);

  // The graph, with ids in canonical order. Leaves the builder empty. Cost: O((ops + edges) log ops).
  // Throws InputError, its place "ops[POSITION].FIELD" counted in the order of Add, if: a name is empty, repeated,
  // holds ':' or starts with '^'; a kind is empty; an input's producer is unknown or its index out of range; a size,
  // time or flop is negative, not finite or too large; sizes or times together overflow; there is a cycle (the message
  // lists the ops on it); a `group` is not a name, or its members do not fit; collectives wait for one another.
  Graph Build();

 private:
  friend class internal::GraphAssembler;
  using Data = Graph::Data;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_H_
