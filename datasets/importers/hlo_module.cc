#include "datasets/importers/hlo_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

struct HloTypeName {
  std::string_view name;
  DType dtype;
};
constexpr HloTypeName kHloTypes[] = {
    {"pred", DType::kBool}, {"i1", DType::kBool}, {"s1", DType::kI4},    {"u1", DType::kU4},     {"s2", DType::kI4},
    {"u2", DType::kU4},     {"i2", DType::kI4},   {"ui2", DType::kU4},   {"s4", DType::kI4},     {"i4", DType::kI4},
    {"u4", DType::kU4},     {"ui4", DType::kU4},  {"s8", DType::kI8},    {"i8", DType::kI8},     {"u8", DType::kU8},
    {"ui8", DType::kU8},    {"s16", DType::kI16}, {"i16", DType::kI16},  {"u16", DType::kI16},   {"ui16", DType::kI16},
    {"s32", DType::kI32},   {"i32", DType::kI32}, {"u32", DType::kI32},  {"ui32", DType::kI32},  {"s64", DType::kI64},
    {"i64", DType::kI64},   {"u64", DType::kI64}, {"ui64", DType::kI64}, {"index", DType::kI64}, {"f16", DType::kF16},
    {"bf16", DType::kBf16}, {"f32", DType::kF32}, {"tf32", DType::kF32}, {"f64", DType::kF64},
};

std::optional<DType> HloDType(std::string_view name) {
  for (const HloTypeName& type : kHloTypes) {
    if (type.name == name) return type.dtype;
  }
  if (name.starts_with("f8e5m2") || name.starts_with("f8E5M2")) return DType::kF8E5M2;
  if (name.starts_with("f8")) return DType::kF8E4M3;
  if (name.starts_with("f4") || name.starts_with("f6")) return name.starts_with("f4") ? DType::kU4 : DType::kU8;
  return std::nullopt;
}

void AddHloLeaves(const HloShape& shape, std::vector<const HloShape*>* leaves) {
  if (shape.form != HloShape::Form::kTuple) {
    leaves->push_back(&shape);
    return;
  }
  for (const HloShape& element : shape.elements) AddHloLeaves(element, leaves);
}

std::string PrintedHloDims(const HloDims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

class HloChecker {
 public:
  explicit HloChecker(const HloModule& module) : module_(module), states_(module.computations.size()) {}

  void Check() {
    for (std::size_t i = 0; i < module_.computations.size(); ++i) Visit(i, 0);
    for (const HloComputation& computation : module_.computations) {
      for (const std::size_t id : computation.instructions) {
        const HloInstruction& instruction = module_.instructions[id];
        WithLocation(computation.name, [&] { WithLocation(instruction.name, [&] { CheckInstruction(instruction); }); });
      }
    }
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  static constexpr int kMostLevels = 100;

  void Visit(std::size_t computation, int level) {
    const std::string& name = module_.computations[computation].name;
    if (states_[computation] == State::kOpen) throw InputError(name, "calls itself (recursion has no end here)");
    if (level > kMostLevels)
      throw InputError(name, fmt::format("is called at level {} (at most {})", level, kMostLevels));
    // Visited again from deeper levels: the levels below count from here.
    if (states_[computation] == State::kDone && level <= levels_[computation]) return;
    states_[computation] = State::kOpen;
    levels_[computation] = level;
    for (const std::size_t id : module_.computations[computation].instructions) {
      for (const std::size_t called : module_.instructions[id].called) Visit(called, level + 1);
    }
    states_[computation] = State::kDone;
  }

  const HloShape& Shape(const HloInstruction& instruction, std::size_t operand) const {
    if (operand >= instruction.operands.size()) {
      throw InputError(
          "", fmt::format("{} has {} operands (more are needed)", instruction.opcode, instruction.operands.size()));
    }
    return ShapeOf(module_, instruction.operands[operand]);
  }

  void CheckInstruction(const HloInstruction& instruction) const {
    const std::string& opcode = instruction.opcode;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) Shape(instruction, i);
    if (opcode == "call" || opcode == "fusion" || opcode == "composite") {
      ExpectCalled(instruction, 1, 1);
      ExpectSame(OperandShapes(instruction, 0), ParameterShapes(instruction.called[0]), "operands and parameters");
      ExpectSame({&instruction.shape}, ResultShapes(instruction.called[0]), "the call and what it returns");
    } else if (opcode == "while") {
      ExpectCalled(instruction, 2, 2);
      for (const std::size_t called : instruction.called) {
        ExpectSame(OperandShapes(instruction, 0), ParameterShapes(called), "operands and parameters");
      }
      const std::vector<const HloShape*> condition = ResultShapes(instruction.called[0]);
      if (condition.size() != 1 || HloElements(*condition[0]) != 1) {
        throw InputError("", "the condition of the loop is not one truth value");
      }
      ExpectSame({&instruction.shape}, ResultShapes(instruction.called[1]), "the loop and what its body returns");
      ExpectSame({&instruction.shape}, OperandShapes(instruction, 0), "the loop and its operands");
    } else if (opcode == "case") {
      CheckCase(instruction);
    } else if (opcode == "dot_general") {
      CheckDot(instruction);
    } else if (opcode == "convolution") {
      CheckConvolution(instruction);
    } else if (opcode == "get_tuple_element") {
      const HloShape& tuple = Shape(instruction, 0);
      if (tuple.form != HloShape::Form::kTuple || instruction.number < 0 ||
          static_cast<std::size_t>(instruction.number) >= tuple.elements.size()) {
        throw InputError("", fmt::format("{} has no element {}", Printed(tuple), instruction.number));
      }
      ExpectSame({&instruction.shape}, {&tuple.elements[static_cast<std::size_t>(instruction.number)]},
                 "the element and its type");
    } else if (opcode == "tuple" || opcode == "optimization_barrier") {
      ExpectSame({&instruction.shape}, OperandShapes(instruction, 0), "operands and results");
    } else if (opcode == "reduce" || opcode == "reduce_window" || opcode == "map" || opcode == "scatter" ||
               opcode == "sort") {
      ExpectCalled(instruction, 0, 1);
      Shape(instruction, opcode == "reduce" || opcode == "reduce_window" ? 1 : 0);
    } else if (opcode == "select_and_scatter") {
      ExpectCalled(instruction, 2, 2);
      Shape(instruction, 1);
    } else if (opcode == "reshape" || opcode == "transpose" || opcode == "reverse") {
      if (HloElements(Shape(instruction, 0)) != HloElements(instruction.shape)) {
        throw InputError("", fmt::format("the shapes {} and {} differ (as many elements out as in)",
                                         Printed(Shape(instruction, 0)), Printed(instruction.shape)));
      }
    } else if (IsHloElementwise(opcode)) {
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        const HloShape& operand = Shape(instruction, i);
        if (operand.dims == instruction.shape.dims || operand.dims.empty()) continue;
        throw InputError("", fmt::format("the shapes {} and {} differ (operand {} of {} and its result)",
                                         Printed(operand), Printed(instruction.shape), i, opcode));
      }
    }
  }

  void CheckCase(const HloInstruction& instruction) const {
    if (instruction.called.empty()) throw InputError("", "has no branch");
    const HloShape& choice = Shape(instruction, 0);
    if (choice.form != HloShape::Form::kTensor || HloElements(choice) != 1) {
      throw InputError("", fmt::format("chooses by {} (one truth value or integer)", Printed(choice)));
    }
    for (std::size_t i = 0; i < instruction.called.size(); ++i) {
      const std::vector<const HloShape*> parameters = ParameterShapes(instruction.called[i]);
      if (!parameters.empty()) {
        ExpectSame({&Shape(instruction, i + 1)}, parameters, "the operand and the parameter of a branch");
      }
      ExpectSame({&instruction.shape}, ResultShapes(instruction.called[i]), "the results and those of a branch");
    }
  }

  void ExpectCalled(const HloInstruction& instruction, std::size_t least, std::size_t most) const {
    const std::size_t count = instruction.called.size();
    if (count >= least && count <= most) return;
    throw InputError("", fmt::format("{} runs {} computations ({} expected)", instruction.opcode, count, most));
  }

  std::vector<const HloShape*> OperandShapes(const HloInstruction& instruction, std::size_t first) const {
    std::vector<const HloShape*> shapes;
    for (std::size_t i = first; i < instruction.operands.size(); ++i) shapes.push_back(&Shape(instruction, i));
    return shapes;
  }
  std::vector<const HloShape*> ParameterShapes(std::size_t computation) const {
    std::vector<const HloShape*> shapes;
    for (const std::size_t id : module_.computations[computation].parameters) {
      shapes.push_back(&module_.instructions[id].shape);
    }
    return shapes;
  }
  std::vector<const HloShape*> ResultShapes(std::size_t computation) const {
    std::vector<const HloShape*> shapes;
    for (const HloOperand& result : module_.computations[computation].results) {
      shapes.push_back(&ShapeOf(module_, result));
    }
    return shapes;
  }

  static void ExpectSame(const std::vector<const HloShape*>& a, const std::vector<const HloShape*>& b,
                         std::string_view what) {
    std::vector<const HloShape*> all_a;
    std::vector<const HloShape*> all_b;
    for (const HloShape* const shape : a) AddHloLeaves(*shape, &all_a);
    for (const HloShape* const shape : b) AddHloLeaves(*shape, &all_b);
    if (all_a.size() != all_b.size()) {
      throw InputError("", fmt::format("{} and {} tensors do not fit together ({})", all_a.size(), all_b.size(), what));
    }
    for (std::size_t i = 0; i < all_a.size(); ++i) {
      if (all_a[i]->dims == all_b[i]->dims && all_a[i]->dtype == all_b[i]->dtype) continue;
      throw InputError("",
                       fmt::format("the shapes {} and {} differ ({})", Printed(*all_a[i]), Printed(*all_b[i]), what));
    }
  }

  static std::int64_t Size(const HloShape& shape, std::int64_t dim) {
    if (dim < 0 || static_cast<std::size_t>(dim) >= shape.dims.size()) {
      throw InputError("", fmt::format("{} has no dimension {}", Printed(shape), dim));
    }
    return shape.dims[static_cast<std::size_t>(dim)];
  }

  void CheckDot(const HloInstruction& instruction) const {
    const HloShape& a = Shape(instruction, 0);
    const HloShape& b = Shape(instruction, 1);
    const HloDotDims& dims = instruction.dot;
    HloDims result;
    for (const auto& [left, right] :
         {std::pair(&dims.left_batch, &dims.right_batch), std::pair(&dims.left_contracting, &dims.right_contracting)}) {
      bool fits = left->size() == right->size();
      for (std::size_t i = 0; fits && i < left->size(); ++i) fits = Size(a, (*left)[i]) == Size(b, (*right)[i]);
      if (!fits) {
        throw InputError("", fmt::format("dimensions {} of {} and {} of {} do not fit together", PrintedHloDims(*left),
                                         Printed(a), PrintedHloDims(*right), Printed(b)));
      }
      if (left == &dims.left_batch) {
        for (const std::int64_t dim : *left) result.push_back(Size(a, dim));
      }
    }
    const auto add_free = [&](const HloShape& shape, const HloDims& batch, const HloDims& contracting) {
      for (std::size_t i = 0; i < shape.dims.size(); ++i) {
        const auto dim = static_cast<std::int64_t>(i);
        const bool is_free = std::find(batch.begin(), batch.end(), dim) == batch.end() &&
                             std::find(contracting.begin(), contracting.end(), dim) == contracting.end();
        if (is_free) result.push_back(shape.dims[i]);
      }
    };
    add_free(a, dims.left_batch, dims.left_contracting);
    add_free(b, dims.right_batch, dims.right_contracting);
    if (result == instruction.shape.dims) return;
    throw InputError("", fmt::format("the product of {} and {} has shape {} (the file says {})", Printed(a), Printed(b),
                                     PrintedHloDims(result), PrintedHloDims(instruction.shape.dims)));
  }

  void CheckConvolution(const HloInstruction& instruction) const {
    const HloShape& x = Shape(instruction, 0);
    const HloShape& w = Shape(instruction, 1);
    const HloConvolutionDims& dims = instruction.convolution;
    Size(x, dims.input_batch);
    Size(x, dims.input_feature);
    Size(instruction.shape, dims.output_feature);
    const std::size_t space = instruction.window.size();
    if (dims.input_spatial.size() != space || dims.kernel_spatial.size() != space ||
        dims.output_spatial.size() != space || space + 2 != x.dims.size()) {
      throw InputError("", fmt::format("a window of {} dimensions does not fit {}", space, Printed(x)));
    }
    for (std::size_t i = 0; i < space; ++i) {
      Size(x, dims.input_spatial[i]);
      Size(instruction.shape, dims.output_spatial[i]);
      const HloWindowDim& window = instruction.window[i];
      if (Size(w, dims.kernel_spatial[i]) != window.size) {
        throw InputError("", fmt::format("a window of size {} does not fit {}", window.size, Printed(w)));
      }
      if (window.stride < 1 || window.window_dilation < 1 || window.base_dilation < 1) {
        throw InputError("", "strides and dilations of the window are not positive");
      }
    }
    if (instruction.feature_groups < 1 || instruction.batch_groups < 1) {
      throw InputError("", fmt::format("has {} groups of features and {} of the batch (1 or more each)",
                                       instruction.feature_groups, instruction.batch_groups));
    }
  }

  const HloModule& module_;
  std::vector<State> states_;
  std::vector<int> levels_ = std::vector<int>(module_.computations.size(), -1);
};

constexpr std::string_view kHloElementwise[] = {
    "abs",
    "acos",
    "acosh",
    "add",
    "and",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i1e",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "conj",
    "convert",
    "cosh",
    "cosine",
    "count_leading_zeros",
    "digamma",
    "divide",
    "erf",
    "erf_inv",
    "erfc",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "is_inf",
    "lgamma",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "next_after",
    "not",
    "or",
    "polygamma",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sinh",
    "sqrt",
    "square",
    "stochastic_convert",
    "subtract",
    "tan",
    "tanh",
    "xor",
    "zeta",
};

}  // namespace

double HloElements(const HloShape& shape) {
  if (shape.form == HloShape::Form::kToken) return 0;
  if (shape.form == HloShape::Form::kTuple) return shape.elements.empty() ? 0 : HloElements(shape.elements.front());
  if (std::find(shape.dims.begin(), shape.dims.end(), 0) != shape.dims.end()) return 0;
  double elements = 1;
  for (const std::int64_t dim : shape.dims) elements *= static_cast<double>(dim);
  return elements;
}

double HloBytes(const HloShape& shape) {
  double bytes = 0;
  for (const HloShape* const leaf : HloLeaves(shape)) {
    bytes += HloElements(*leaf) * static_cast<double>(ElementBits(leaf->dtype)) / 8 * (leaf->is_complex ? 2 : 1);
  }
  return bytes;
}

std::vector<const HloShape*> HloLeaves(const HloShape& shape) {
  std::vector<const HloShape*> leaves;
  AddHloLeaves(shape, &leaves);
  return leaves;
}

std::string Printed(const HloShape& shape) {
  if (shape.form == HloShape::Form::kToken) return "token";
  if (shape.form == HloShape::Form::kTuple) return fmt::format("a tuple of {}", shape.elements.size());
  return fmt::format("{}{}", shape.is_complex ? "complex " : "", Name(shape.dtype)) + PrintedHloDims(shape.dims);
}

HloShape HloShapeWith(HloShape type, HloDims dims) {
  constexpr double kMostBytes = 0x1p60;
  for (const std::int64_t dim : dims) {
    if (dim < 0) throw InputError("", fmt::format("{} is not a size of a tensor (a number of 0 to 2^60)", dim));
  }
  if (type.form == HloShape::Form::kTensor) type.dims = std::move(dims);
  if (HloBytes(type) <= kMostBytes) return type;
  throw InputError("", fmt::format("a tensor of shape {} is too large (2^60 bytes at most)", Printed(type)));
}

std::optional<HloShape> HloShapeOfType(std::string_view type) {
  HloShape shape;
  if (type == "token" || type == "opaque") {
    shape.form = HloShape::Form::kToken;
    return shape;
  }
  shape.is_complex = type == "c64" || type == "c128" || type.starts_with("complex<");
  if (shape.is_complex) {
    shape.dtype = type == "c128" || type == "complex<f64>" ? DType::kF64 : DType::kF32;
    return shape;
  }
  if (type.starts_with("!quant.uniform<")) {
    type.remove_prefix(type.find('<') + 1);
    type = type.substr(0, type.find_first_of(":<"));
  }
  const std::optional<DType> dtype = HloDType(type);
  if (!dtype) return std::nullopt;
  shape.dtype = *dtype;
  return shape;
}

const HloShape& ShapeOf(const HloModule& module, const HloOperand& operand) {
  const HloInstruction& instruction = module.instructions[operand.instruction];
  if (!operand.result) return instruction.shape;
  if (instruction.shape.form != HloShape::Form::kTuple || *operand.result >= instruction.shape.elements.size()) {
    throw InputError(instruction.name, fmt::format("has no result {}", *operand.result));
  }
  return instruction.shape.elements[*operand.result];
}

void CheckHlo(const HloModule& module) { HloChecker(module).Check(); }

bool IsHloElementwise(std::string_view opcode) {
  return std::binary_search(std::begin(kHloElementwise), std::end(kHloElementwise), opcode);
}

}  // namespace emplace::datasets
