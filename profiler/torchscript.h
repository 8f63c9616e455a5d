#ifndef EMPLACE_PROFILER_TORCHSCRIPT_H_
#define EMPLACE_PROFILER_TORCHSCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph.h"

namespace emplace::profiler {

struct TorchScriptInput {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t bound = 1;  // integers are drawn from [0, bound): row numbers of an embedding, classes
};

struct TorchScriptOptions {
  std::string file;  // file written by torch.jit.save
  std::vector<TorchScriptInput> inputs;
  bool backward = false;  // and the gradients of the sum of its outputs
};

// "[DTYPE:]AxBxC[:BOUND]": 32x3x224x224, i64:35x20:10000. Without a dtype f32, without a bound 1. `place` stands in
// front of errors. Throws InputError.
TorchScriptInput ParseTorchScriptInput(const std::string& text, const std::string& place);

// The training step (or with backward = false the forward pass) that a TorchScript module executes, as a graph.
//
// Ops: the module runs once on random inputs, for training (dropout, batch statistics, auxiliary heads) with backward
// and for inference without. In nested calls the outermost ATen operator that is not composite becomes an op, of kind
// "aten::NAME.OVERLOAD", its arguments in attr `args` (op_runner.h). Backward goes from the sum of all float outputs to
// the gradient of every parameter; there are no updates. Left out are operators that hand on their argument as it is
// (detach) or make a tensor without elements, and parameters that no op reads.
//
// Tensors: views and in-place operators are followed by where arrays lie in memory (storage_versions.h). An op reads
// what was last written to its argument. If that was written through another view, the op has further inputs, the
// results of those writes, which no argument names. Whoever read an old value comes before its writer by a control
// edge. Parameters, buffers and constants are `variable` ops, whose bytes are persistent.
//
// `layer`: of what reads a parameter, the module that owns it; of a gradient, that of the op it differentiates; else
// that of the first producer that has one. Names are LAYER/OPERATOR, with a number from the second on.
//
// `flop`: AtenFlop (aten_flop.h).
//
// Same file and options, same graph. Throws InputError if the file cannot be read, the module does not take such
// inputs, an operator has no counterpart here (sparse or complex tensors, other threads), or nothing in it can be
// trained.
Graph GraphFromTorchScript(const TorchScriptOptions& options);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCHSCRIPT_H_
