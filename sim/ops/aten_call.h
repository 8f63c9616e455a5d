#ifndef EMPLACE_SIM_OPS_ATEN_CALL_H_
#define EMPLACE_SIM_OPS_ATEN_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph.h"

namespace emplace {

struct AtenTensor {
  DType dtype = DType::kNone;  // kNone: one that graphs cannot name, such as f8
  double element_bytes = 0;
  std::vector<std::int64_t> shape;

  double elements() const;
  double bytes() const { return elements() * element_bytes; }
};

// One argument: a tensor, a list of tensors, or a value.
struct AtenArgument {
  std::vector<AtenTensor> tensors;
  bool is_list = false;  // a list of tensors
  // For values: one or several whole numbers, or one or several flags; neither where it is something else or not known.
  std::optional<std::vector<std::int64_t>> integers;
  std::vector<bool> flags;
};

// An operator's call, as the op of a graph describes it:
//
//   from                  operator        arguments                                   results
//   TorchScript, capture  kind            attr `args`, "%0" being the first input     the op's outputs
//   Execution Traces      kind            `input_dims`, `input_types`, `input_values` `output_dims`, `output_types`
//   Kineto traces         attr `op`       `input_dims`, `input_types`, `input_values` not known
//   graphs without those  kind            the op's inputs, in their order             the op's outputs
//
// Attr `input_views` has, for each input, null or the shape, the strides and the offset (in elements) of the view of it
// that the operator is given.
struct AtenCall {
  std::string name;       // "aten::add.Tensor" and "torch.ops.aten.add_.default" are "aten::add"
  bool in_place = false;  // its name ended in "_"
  std::vector<AtenArgument> arguments;
  std::vector<AtenTensor> outputs;
  bool has_shapes = false;  // whether its arguments have shapes; a trace without record_shapes has none
  bool has_outputs = false;
  double kernels = 1;  // among which its work is divided: each is an op of the graph
  double flop = 0;     // the op's own
  std::string kernel;  // the name of the kernel, where a trace has one
  bool tf32 = false;   // the kernels of a trace say that its f32 products are in TF32
  bool is_view = false;
  bool crosses_devices = false;

  // Null if that argument is not a tensor.
  const AtenTensor* tensor(std::size_t i) const;
  // Whole numbers of a list or of one number; nullopt if they are not known.
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const;
  std::optional<bool> flag(std::size_t i) const;
};

AtenCall ReadAtenCall(const Graph& graph, OpId op);

// The name as in AtenCall, without namespace and overload. `in_place` (may be null) gets whether "_" was cut off.
std::string AtenNameOf(std::string_view kind, bool* in_place);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_ATEN_CALL_H_
