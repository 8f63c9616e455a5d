#ifndef EMPLACE_DATASETS_IMPORTERS_PYTORCH_ET_H_
#define EMPLACE_DATASETS_IMPORTERS_PYTORCH_ET_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/kineto_trace.h"
#include "datasets/importers/registry.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A tensor of an Execution Trace: [tensor id, storage id, offset, number of elements, bytes of an element, device].
struct EtTensor {
  std::int64_t storage = 0;
  std::int64_t bytes = 0;
  std::uint32_t shape = 0;   // index into EtTrace::shapes
  std::uint32_t device = 0;  // index into EtTrace::texts
  DType dtype = DType::kNone;
  bool is_mutated = false;  // whether the op writes to this input
};

// A node of the call tree. Schemas 1.0.1 (fields at the node) and 1.1.0 and later (`inputs.values`, `attrs`) are read
// into the same. Texts by their position in EtTrace::texts.
struct EtNode {
  std::int64_t id = 0;
  std::int64_t parent = 0;
  std::int64_t rf_id = 0;  // Record function id of the same call in a Kineto trace
  std::uint32_t name = 0;
  std::uint32_t kernel = 0;         // backend of a compiled kernel ("triton"); 0 of ops
  std::uint32_t process_group = 0;  // a collective's; 0: none
  std::uint32_t call = 0;           // an op's members `input_dims`, .. of attrs, as JSON
  std::uint32_t first_input = 0;    // index into EtTrace::tensors of the inputs, which the outputs follow
  std::uint32_t first_output = 0;
  std::uint32_t end_output = 0;
  bool has_schema = false;  // annotations have none
};

// Traces have millions of calls, few of which differ in more than their tensors: what repeats is held once.
struct EtTrace {
  static constexpr std::uint32_t kInvalidNode = ~std::uint32_t{0};

  std::string schema;
  std::vector<EtNode> nodes;           // ordered by id, which is the order of calls
  std::vector<std::uint32_t> parents;  // indexed by node, as positions in `nodes`; kInvalidNode: none
  std::vector<EtTensor> tensors;
  std::vector<std::vector<std::int64_t>> shapes;  // [0] is that of a scalar, and of what has none
  std::vector<std::string> texts;                 // [0] is ""

  std::string_view text(std::uint32_t id) const { return texts[id]; }
  std::string_view name(std::size_t node) const { return texts[nodes[node].name]; }
  std::span<const EtTensor> inputs(const EtNode& node) const {
    return std::span(tensors).subspan(node.first_input, node.first_output - node.first_input);
  }
  std::span<const EtTensor> outputs(const EtNode& node) const {
    return std::span(tensors).subspan(node.first_output, node.end_output - node.first_output);
  }
};

// Throws InputError, its place in the file, on what is not such a trace, and on ids that repeat.
EtTrace ReadEtTrace(std::istream& in);

// The inputs that a schema marks as written to, such as `self` of "add_(Tensor(a!) self, Tensor other)": positions
// among its arguments.
std::vector<std::size_t> MutatedArguments(std::string_view schema);

// Per node of `trace`: whether it becomes an op. Those that do work and whose parts are not recorded: leaves of the
// call tree, and nodes that call nothing but allocations, views, copies and fills.
std::vector<bool> OpsOfTree(const EtTrace& trace);

// Whether an operator that calls `called` remains the op, rather than what it calls: views, allocations, copies, fills.
bool IsPartOfOperator(std::string_view caller, std::string_view called);

// Data from a Kineto trace of the same step: device time in µs for each node (negative: not in it), summed over the
// kernels, copies and sets of the calls inside the node, but not inside a recorded part of it. Joined by Record
// function id, or where the trace has none by order: the k-th call of a name there is the k-th here. For a trace of n
// equal steps, the mean. For a trace of op ranges alone, the times of the ranges themselves.
struct EtTimes {
  std::vector<double> micros;  // indexed by node
  bool is_host = false;        // the trace is of op ranges alone: times are those of the host
  std::size_t joined = 0;      // nodes
  double total_micros = 0;     // device time of one step, whether joined or not
  std::string device_kind;
};
EtTimes JoinTimes(const EtTrace& trace, const KinetoTrace& times);

// Data edges follow storages: an op reads what the last writer of a storage wrote, also through views and after writes
// in place. What is read before anything wrote it is a `variable` if it is written in place later, else an `input`.
// Throws InputError if there is no op, or if ops get less than `min_attributed` per cent of the device time of `times`
// (null: no op has a time).
Imported MakeEtGraph(const EtTrace& trace, const KinetoTrace* times, double min_attributed);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_PYTORCH_ET_H_
