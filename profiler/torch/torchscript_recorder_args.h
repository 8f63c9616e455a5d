#ifndef EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_ARGS_H_
#define EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_ARGS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <functional>
#include <span>
#include <string>

#include "sim/graph.h"

namespace emplace::profiler {

// Throws InputError(place) if there is no such type here.
DType DTypeOf(c10::ScalarType type, const std::string& place);

// Attr `args` of a call, as op_runner.h describes it, all arguments of `schema` included: {"args":["%0",1]}. `input`
// gives the number of the op's input that holds a defined tensor; it is called in the order of the arguments. Throws
// InputError(op) for what cannot be written down.
std::string ArgumentsText(const std::string& op, const c10::FunctionSchema& schema,
                          std::span<const c10::IValue> arguments,
                          const std::function<std::size_t(const at::Tensor&)>& input);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_TORCHSCRIPT_RECORDER_ARGS_H_
