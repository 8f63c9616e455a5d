#ifndef EMPLACE_SIM_OPS_ATEN_WORK_H_
#define EMPLACE_SIM_OPS_ATEN_WORK_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/ops/aten_call.h"
#include "sim/ops/op_catalog.h"

namespace emplace {

// The work of one call of an ATen operator, or of a compiled kernel.
struct AtenWork {
  OpWork work;                     // kNone: a view, an allocation or a question, which takes no time
  DType dtype = DType::kNone;      // dtype of the factors of its products; kNone: no dtype that has a rate
  std::optional<bool> allow_tf32;  // for f32 factors: by an argument of the call, or by the kernels of a trace
  double kernels = 1;              // AtenCall::kernels: the work is that of all of them together
  bool is_transfer = false;        // between devices: a collective, or a copy from or to the host
};

// The work of `op` if its kind is an operator of ATen (aten_call.h says how graphs describe calls), a collective of
// PyTorch or a kernel of its compiler; docs/model.md, C18 to C21, has the formulas. nullopt if not, and then `why` (may
// be null) is what is missing, in words: the operator's name, or what the graph does not say of it.
// Conventions as in op_catalog_parts.h. Throws InputError(op name) if shapes contradict the operator.
std::optional<AtenWork> FindAtenWork(const Graph& graph, OpId op, std::string* why = nullptr);

// The elements of the result of a convolution's call, from its result or its arguments; nullopt for other calls, for
// transposed convolutions, and where neither is known.
std::optional<double> ConvolvedElements(const AtenCall& call);

// The class of an operator in lists, by name as in AtenCall. nullopt if it is not known.
std::optional<OpClass> AtenClass(std::string_view name);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_ATEN_WORK_H_
