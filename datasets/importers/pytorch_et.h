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
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
  std::string device;
};

// A node of the call tree. Schemas 1.0.1 (fields at the node) and 1.1.0 and later (`inputs.values`, `attrs`) are read
// into the same.
struct EtNode {
  std::int64_t id = 0;
  std::int64_t parent = 0;
  std::int64_t rf_id = 0;  // Record function id of the same call in a Kineto trace
  std::string name;
  std::string schema;         // "aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)"; "" of annotations
  std::string kernel;         // backend of a compiled kernel ("triton"); "" of ops
  std::string process_group;  // of a collective
  std::vector<EtTensor> inputs;
  std::vector<bool> is_mutated;  // of each input: whether the op writes to it
  std::vector<EtTensor> outputs;
  std::string call;  // of ops: a JSON object with `input_dims`, .. as the op's attrs have them; "" otherwise
};

struct EtTrace {
  std::string schema;
  std::vector<EtNode> nodes;  // by id, which is the order of calls
};

// Throws InputError, its place in the file, on what is no such trace, and on ids that repeat.
EtTrace ReadEtTrace(std::istream& in);

// The inputs that a schema marks as written to, such as `self` of "add_(Tensor(a!) self, Tensor other)": positions
// among its arguments.
std::vector<std::size_t> MutatedArguments(std::string_view schema);

// Per node of `trace`: whether it becomes an op. Those that do work and whose parts are not recorded: leaves of the
// call tree, and nodes that call nothing but allocations, views, copies and fills.
std::vector<bool> OpsOfTree(const EtTrace& trace);

// What a Kineto trace of the same step says: device time in µs for each node (negative: not in it), summed over the
// kernels, copies and sets of the calls inside the node, but not inside a recorded part of it. Joined by Record
// function id, or where the trace has none by order: the k-th call of a name there is the k-th here. Of a trace of n
// equal steps, the mean.
struct EtTimes {
  std::vector<double> micros;  // by node
  std::size_t joined = 0;      // nodes
  double total_micros = 0;     // of one step, whether joined or not
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
