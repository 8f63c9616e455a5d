#include <ATen/EmptyTensor.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/ScalarType.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/torch/op_runner.h"
#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// One argument: a constant, an input, or a list of inputs.
struct Slot {
  c10::IValue constant = {};
  std::optional<std::size_t> input = std::nullopt;
  c10::TypePtr list_of = nullptr;                      // not null: a list of tensors
  std::vector<std::optional<std::size_t>> parts = {};  // none: None, or an undefined tensor

  c10::IValue Filled(TensorSpan inputs) const {
    if (input) return inputs[*input];
    if (list_of == nullptr) return constant;
    c10::impl::GenericList list(list_of);
    const bool optional = list_of->kind() == c10::TypeKind::OptionalType;
    const c10::IValue none = optional ? c10::IValue() : c10::IValue(at::Tensor());
    for (const auto& part : parts) list.push_back(part ? c10::IValue(inputs[*part]) : none);
    return list;
  }
};

std::optional<std::pair<std::string, nlohmann::json>> Tagged(const nlohmann::json& value) {
  if (!value.is_object() || value.size() != 1) return std::nullopt;
  return std::pair{value.begin().key(), value.begin().value()};
}

std::optional<c10::ScalarType> DTypeNamed(const nlohmann::json& name) {
  constexpr std::array<std::pair<std::string_view, DType>, 10> kNames = {{{"bool", DType::kBool},
                                                                          {"i8", DType::kI8},
                                                                          {"u8", DType::kU8},
                                                                          {"i16", DType::kI16},
                                                                          {"f16", DType::kF16},
                                                                          {"bf16", DType::kBf16},
                                                                          {"i32", DType::kI32},
                                                                          {"f32", DType::kF32},
                                                                          {"i64", DType::kI64},
                                                                          {"f64", DType::kF64}}};
  for (const auto& [word, dtype] : kNames) {
    if (name == word) return ScalarTypeOf(dtype);
  }
  return std::nullopt;
}

// Turns JSON into arguments of one operator.
class Reader {
 public:
  explicit Reader(const RecipeView& recipe) : recipe_(recipe) {}

  Slot Read(const c10::Argument& argument, const nlohmann::json& value) const {
    const c10::TypePtr type = WithoutOptional(argument.type());
    if (value.is_null() && type != argument.type()) return {};
    if (value.is_null() && type->kind() == c10::TypeKind::TensorType) return {.constant = at::Tensor()};
    if (type->kind() == c10::TypeKind::TensorType && value.is_number()) return {.constant = WrappedNumber(value)};
    if (type->kind() == c10::TypeKind::TensorType) return {.input = InputNumber(argument, value)};
    if (type->kind() == c10::TypeKind::ListType) {
      const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
      if (WithoutOptional(element)->kind() == c10::TypeKind::TensorType) return TensorList(argument, element, value);
    }
    return {.constant = Constant(argument, type, value)};
  }

  [[noreturn]] void Refuse(const c10::Argument& argument, const nlohmann::json& value) const {
    recipe_.Refuse("argument " + argument.name() + " cannot be " + value.dump() + " (" + argument.type()->str() +
                   " expected)");
  }

 private:
  // A number where the operator has a tensor, as in x + 1: it does not widen the type of the result.
  static at::Tensor WrappedNumber(const nlohmann::json& value) {
    const c10::Scalar number = value.is_number_integer() ? c10::Scalar(value.get<std::int64_t>()) : value.get<double>();
    at::Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  static c10::TypePtr WithoutOptional(const c10::TypePtr& type) {
    return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
  }

  // The number I of an input that `value` names as "%I".
  std::size_t InputNumber(const c10::Argument& argument, const nlohmann::json& value) const {
    if (value.is_string()) {
      for (std::size_t i = 0; i < recipe_.num_inputs(); ++i) {
        if (value == "%" + std::to_string(i)) return i;
      }
    }
    Refuse(argument, value);
  }

  Slot TensorList(const c10::Argument& argument, const c10::TypePtr& element, const nlohmann::json& value) const {
    if (!value.is_array()) Refuse(argument, value);
    Slot slot = {.list_of = element};
    for (const nlohmann::json& part : value) {
      slot.parts.push_back(part.is_null() ? std::nullopt : std::optional(InputNumber(argument, part)));
    }
    return slot;
  }

  c10::IValue Constant(const c10::Argument& argument, const c10::TypePtr& type, const nlohmann::json& value) const {
    const auto tagged = Tagged(value);
    switch (type->kind()) {
      case c10::TypeKind::BoolType:
        if (value.is_boolean()) return value.get<bool>();
        break;
      case c10::TypeKind::FloatType:
      case c10::TypeKind::NumberType:
        return Number(argument, type, value);
      case c10::TypeKind::StringType:
        if (tagged && tagged->first == "str" && tagged->second.is_string()) return tagged->second.get<std::string>();
        break;
      case c10::TypeKind::DeviceObjType:
        if (tagged && tagged->first == "device" && tagged->second == true) return recipe_.device();
        break;
      case c10::TypeKind::ListType:
        return List(argument, type->expectRef<c10::ListType>().getElementType(), value);
      default:
        if (const std::optional<std::int64_t> number = Integer(type->kind(), value)) return *number;
    }
    Refuse(argument, value);
  }

  c10::IValue List(const c10::Argument& argument, const c10::TypePtr& element, const nlohmann::json& value) const {
    if (!value.is_array()) Refuse(argument, value);
    c10::impl::GenericList list(element);
    for (const nlohmann::json& part : value) list.push_back(Constant(argument, element, part));
    return list;
  }

  // JSON has no infinities: {"float": "-inf"}.
  c10::IValue Number(const c10::Argument& argument, const c10::TypePtr& type, const nlohmann::json& value) const {
    const bool scalar = type->kind() == c10::TypeKind::NumberType;
    if (scalar && value.is_boolean()) return value.get<bool>();
    if (scalar && value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    if (const auto tagged = Tagged(value); tagged && tagged->first == "float") {
      if (tagged->second == "inf") return std::numeric_limits<double>::infinity();
      if (tagged->second == "-inf") return -std::numeric_limits<double>::infinity();
      if (tagged->second == "nan") return std::numeric_limits<double>::quiet_NaN();
    }
    Refuse(argument, value);
  }

  // Dtypes, layouts and memory formats are ints to the dispatcher.
  static std::optional<std::int64_t> Integer(c10::TypeKind kind, const nlohmann::json& value) {
    const bool fits = kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType ||
                      kind == c10::TypeKind::ScalarTypeType || kind == c10::TypeKind::LayoutType ||
                      kind == c10::TypeKind::MemoryFormatType;
    if (!fits) return std::nullopt;
    if (value.is_number_integer()) return value.get<std::int64_t>();
    const auto tagged = Tagged(value);
    if (!tagged) return std::nullopt;
    if (tagged->first == "dtype") {
      const auto type = DTypeNamed(tagged->second);
      return type ? std::optional(static_cast<std::int64_t>(*type)) : std::nullopt;
    }
    const bool format = tagged->first == "layout" || tagged->first == "memory_format";
    return format && tagged->second.is_number_integer() ? std::optional(tagged->second.get<std::int64_t>())
                                                        : std::nullopt;
  }

  const RecipeView& recipe_;
};

c10::OperatorHandle OperatorOf(const RecipeView& recipe) {
  const std::string& kind = recipe.op().kind;
  const std::size_t dot = kind.find('.');
  const std::string overload = dot == std::string::npos ? "" : kind.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({kind.substr(0, dot), overload});
  if (!found) recipe.Refuse("LibTorch has no such operator");
  return *found;
}

std::vector<Slot> SlotsOf(const RecipeView& recipe, const c10::FunctionSchema& schema) {
  const nlohmann::json attrs = nlohmann::json::parse(recipe.op().attrs, nullptr, /*allow_exceptions=*/false);
  if (!attrs.is_object() || !attrs.contains("args") || !attrs["args"].is_array()) {
    recipe.Refuse("has no list of arguments in attr args");
  }
  const nlohmann::json& given = attrs["args"];
  const nlohmann::json named = attrs.value("kwargs", nlohmann::json::object());
  if (!named.is_object()) recipe.Refuse("attr kwargs is not an object");
  const std::vector<c10::Argument>& arguments = schema.arguments();
  if (given.size() > arguments.size()) {
    recipe.Refuse("has " + std::to_string(given.size()) + " arguments (at most " + std::to_string(arguments.size()) +
                  " expected)");
  }
  const Reader reader(recipe);
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i < given.size()) {
      slots.push_back(reader.Read(arguments[i], given[i]));
    } else if (named.contains(arguments[i].name())) {
      slots.push_back(reader.Read(arguments[i], named[arguments[i].name()]));
    } else if (arguments[i].default_value()) {
      slots.push_back({.constant = *arguments[i].default_value()});
    } else {
      recipe.Refuse("argument " + arguments[i].name() + " is missing");
    }
  }
  return slots;
}

// Attr `input_views`: which view of an input the operator is given.
struct InputView {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};
using InputViews = std::vector<std::optional<InputView>>;

InputViews ViewsOf(const RecipeView& recipe) {
  const nlohmann::json attrs = nlohmann::json::parse(recipe.op().attrs, nullptr, /*allow_exceptions=*/false);
  InputViews views;
  if (!attrs.is_object() || !attrs.contains("input_views")) return views;
  try {
    for (const nlohmann::json& each : attrs["input_views"]) {
      views.emplace_back();
      if (each.is_null()) continue;
      views.back() = {.shape = each.at(0), .strides = each.at(1), .offset = each.at(2)};
    }
  } catch (const nlohmann::json::exception&) {
    views.clear();
  }
  if (views.size() != recipe.num_inputs()) {
    recipe.Refuse("attr input_views has another form (null or [shape, strides, offset] for each input)");
  }
  return views;
}

// As as_strided, but without the dispatcher, whose time is not the operator's. What made the tensor may have returned a
// part of a larger one.
at::Tensor ViewOf(const at::Tensor& whole, const InputView& view) {
  const std::int64_t offset = whole.storage_offset() + view.offset;
  const auto end = static_cast<std::size_t>(offset) * whole.itemsize() +
                   at::detail::computeStorageNbytes(view.shape, view.strides, whole.itemsize());
  TORCH_CHECK(end <= whole.storage().nbytes(), "a view reaches beyond its tensor");
  auto part = c10::make_intrusive<c10::TensorImpl>(c10::Storage(whole.storage()), whole.key_set(), whole.dtype());
  part->set_sizes_and_strides(view.shape, view.strides, offset);
  return at::Tensor(std::move(part));
}

std::vector<at::Tensor> Viewed(TensorSpan inputs, const InputViews& views) {
  std::vector<at::Tensor> viewed(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i]) viewed[i] = ViewOf(viewed[i], *views[i]);
  }
  return viewed;
}

// What a captured step calls attention is a kernel of the device: on GPUs the flash kernel for half precision without a
// mask, and otherwise the memory-efficient one. Numbers of heads may differ between queries and keys.
constexpr std::string_view kAttention = "aten::scaled_dot_product_attention";
constexpr std::string_view kAttentionBackward = "aten::scaled_dot_product_attention_backward";

enum class AttentionKernel : std::uint8_t { kCpu, kFlash, kEfficient };

c10::OperatorHandle AttentionOperator(const RecipeView& recipe, AttentionKernel kernel, bool backward) {
  struct Row {
    const char* name;
    std::array<std::size_t, 2> num_arguments;  // forward, backward
  };
  constexpr std::array<Row, 3> kRows = {{{"aten::_scaled_dot_product_flash_attention_for_cpu", {7, 10}},
                                         {"aten::_scaled_dot_product_flash_attention", {7, 15}},
                                         {"aten::_scaled_dot_product_efficient_attention", {8, 13}}}};
  const Row& row = kRows.at(static_cast<std::size_t>(kernel));
  const std::string name = std::string(row.name) + (backward ? "_backward" : "");
  const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!found || found->schema().arguments().size() != row.num_arguments.at(backward ? 1 : 0)) {
    recipe.Refuse("LibTorch " TORCH_VERSION " does not have the operator " + name + " of LibTorch 2.2 and newer");
  }
  return *found;
}

// Where dropout's random numbers start: numbers on the host, but for newer flash kernels a pair on the GPU.
at::Tensor DropoutState([[maybe_unused]] const RecipeView& recipe, [[maybe_unused]] AttentionKernel kernel) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  if (kernel == AttentionKernel::kFlash) {
    const std::vector<c10::Argument>& returns =
        AttentionOperator(recipe, kernel, /*backward=*/false).schema().returns();
    if (std::any_of(returns.begin(), returns.end(), [](const auto& each) { return each.name() == "rng_state"; }))
      return at::zeros({2}, at::device(recipe.device()).dtype(c10::kUInt64));
  }
#endif
  return at::zeros({}, c10::kLong);
}

// `x` with zeros behind its last dimension, whose size is then a multiple.
at::Tensor PaddedTo(std::int64_t multiple, const at::Tensor& x) {
  const std::int64_t size = x.size(-1);
  return at::constant_pad_nd(x, {0, (multiple - size % multiple) % multiple});
}

// Gradients of repeated keys or values are summed over the queries that share one.
at::Tensor SummedLike(const at::Tensor& like, const at::Tensor& x) {
  if (x.size(-3) == like.size(-3)) return x;
  return x.unflatten(-3, {like.size(-3), x.size(-3) / like.size(-3)}).sum(-3);
}

OpFunction MakeAttention(const RecipeView& recipe) {
  const bool backward = recipe.op().kind == kAttentionBackward;
  const nlohmann::json attrs = nlohmann::json::parse(recipe.op().attrs, nullptr, /*allow_exceptions=*/false);
  const std::size_t first = backward ? 1 : 0;  // the query
  const std::size_t numbers = backward ? 7 : 4;
  if (!attrs.is_object() || !attrs.contains("args") || !attrs["args"].is_array() ||
      attrs["args"].size() < numbers + 3) {
    recipe.Refuse("has no list of " + std::to_string(numbers + 3) + " arguments in attr args");
  }
  const nlohmann::json& args = attrs["args"];
  const bool has_mask = args[first + 3].is_string();
  const double dropout = args[numbers].is_number() ? args[numbers].get<double>() : 0.0;
  const bool causal = args[numbers + 1] == true;
  const c10::IValue scale =
      args[numbers + 2].is_number() ? c10::IValue(args[numbers + 2].get<double>()) : c10::IValue();
  const bool learned_mask = has_mask && backward && args.size() > numbers + 3 && args[numbers + 3] == true;
  if (recipe.num_inputs() < first + 3 + (has_mask ? 1 : 0) + (backward ? 2 : 0)) recipe.Refuse("lacks inputs");

  const bool is_half = recipe.in_type(first) == c10::kHalf || recipe.in_type(first) == c10::kBFloat16;
  const AttentionKernel kernel = recipe.device().is_cpu() ? AttentionKernel::kCpu
                                 : is_half && !has_mask   ? AttentionKernel::kFlash
                                                          : AttentionKernel::kEfficient;
  return [=, operation = AttentionOperator(recipe, kernel, backward), state = DropoutState(recipe, kernel),
          wanted = recipe.num_outputs()](TensorSpan in, std::vector<at::Tensor>* out) {
    const at::Tensor& query = in[first];
    const auto repeated = [&query](const at::Tensor& each) {
      const std::int64_t groups = query.size(-3) / each.size(-3);
      return groups == 1 ? each : each.repeat_interleave(groups, -3);
    };
    const at::Tensor key = repeated(in[first + 1]);
    const at::Tensor value = repeated(in[first + 2]);
    const std::int64_t rows = query.size(-2);
    const std::int64_t columns = key.size(-2);
    at::Tensor mask;
    if (has_mask) mask = in[first + 3];
    if (has_mask && mask.scalar_type() == c10::kBool) mask = at::zeros_like(mask, query.options());
    if (has_mask && kernel == AttentionKernel::kEfficient) {  // one for each head, its rows in multiples of 16
      Dims shape = query.sizes().vec();
      shape.back() = columns;
      mask = PaddedTo(16, mask).slice(-1, 0, columns).expand(shape);
    }

    torch::jit::Stack stack;
    const auto push = [&stack](const auto&... values) { (stack.emplace_back(values), ...); };
    const at::Tensor none;
    if (backward) push(in[0]);
    push(query, key, value);
    if (kernel == AttentionKernel::kEfficient) {
      if (has_mask || backward)
        push(mask);
      else
        push(c10::IValue());
    }
    if (backward) {
      const at::Tensor& logsumexp = in[in.size() - 1];
      push(in[in.size() - 2], kernel == AttentionKernel::kEfficient ? PaddedTo(32, logsumexp) : logsumexp);
    }
    switch (kernel) {
      case AttentionKernel::kCpu:
        push(0.0, causal, has_mask ? c10::IValue(mask) : c10::IValue());
        break;
      case AttentionKernel::kFlash:
        if (backward)
          push(none, none, rows, columns, dropout, causal, state, state);
        else
          push(dropout, causal, /*return_debug_mask=*/false);
        break;
      case AttentionKernel::kEfficient:
        if (backward)
          push(state, state, dropout, c10::List<bool>({true, true, true, learned_mask}), causal);
        else
          push(/*compute_log_sumexp=*/true, dropout, causal);
        break;
    }
    push(scale);
    operation.callBoxed(&stack);

    if (backward) {
      for (std::size_t i = 0; i < 3; ++i) out->push_back(SummedLike(in[first + i], stack[i].toTensor()));
      if (learned_mask) out->push_back(at::empty_like(in[first + 3]));
    } else {
      *out = {stack[0].toTensor(), stack[1].toTensor()};
      if ((*out)[1].size(-1) != rows) (*out)[1] = (*out)[1].slice(-1, 0, rows);
    }
    if (out->size() > wanted) out->resize(wanted);
  };
}

// Dropout of a step that was captured for a CPU: there, PyTorch keeps the factor of each element instead of a mask.
// Null for other ops.
OpFunction MakeDropoutByFactor(const RecipeView& recipe) {
  const nlohmann::json attrs = nlohmann::json::parse(recipe.op().attrs, nullptr, /*allow_exceptions=*/false);
  if (recipe.op().kind == "aten::native_dropout" && recipe.num_outputs() == 2 && recipe.out_type(1) != c10::kBool) {
    const bool is_known = attrs.is_object() && attrs.contains("args") && attrs["args"].is_array() &&
                          attrs["args"].size() > 1 && attrs["args"][1].is_number();
    if (!is_known) recipe.Refuse("has no probability in attr args");
    const double kept = 1 - attrs["args"][1].get<double>();
    return [kept](TensorSpan in, std::vector<at::Tensor>* out) {
      at::Tensor factor = at::empty_like(in[0]).bernoulli_(kept);
      if (kept > 0) factor.div_(kept);
      *out = {at::mul(in[0], factor), factor};
    };
  }
  if (recipe.op().kind == "aten::native_dropout_backward" && recipe.num_inputs() == 2 &&
      recipe.in_type(1) != c10::kBool) {
    return [](TensorSpan in, std::vector<at::Tensor>* out) { out->push_back(at::mul(in[0], in[1])); };
  }
  return nullptr;
}

// The tensors that an operator returned. Tensors that it was not to compute are undefined and left out.
void Collect(const c10::IValue& value, std::vector<at::Tensor>* outputs) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) outputs->push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) outputs->push_back(tensor);
  }
}

}  // namespace

OpFunction MakeAtenOp(const RecipeView& recipe) {
  // What holds a tensor to the end of a captured step calls nothing.
  if (recipe.op().kind == "aten::detach" && recipe.num_outputs() == 0)
    return [](TensorSpan, std::vector<at::Tensor>*) {};
  InputViews views = ViewsOf(recipe);
  OpFunction call;
  if (recipe.op().kind == kAttentionBackward || (recipe.op().kind == kAttention && recipe.num_outputs() == 2)) {
    call = MakeAttention(recipe);
  } else if (OpFunction update = MakeCapturedUpdate(recipe)) {
    call = std::move(update);
  } else if (OpFunction dropout = MakeDropoutByFactor(recipe)) {
    call = std::move(dropout);
  } else {
    const c10::OperatorHandle operation = OperatorOf(recipe);
    call = [operation, slots = SlotsOf(recipe, operation.schema()), wanted = recipe.num_outputs()](
               TensorSpan in, std::vector<at::Tensor>* out) {
      torch::jit::Stack stack;
      stack.reserve(slots.size());
      for (const Slot& slot : slots) stack.push_back(slot.Filled(in));
      operation.callBoxed(&stack);
      for (const c10::IValue& value : stack) Collect(value, out);
      if (out->size() > wanted) out->resize(wanted);
    };
  }
  if (views.empty()) return call;
  return [call = std::move(call), views = std::move(views)](TensorSpan in, std::vector<at::Tensor>* out) {
    call(Viewed(in, views), out);
  };
}

}  // namespace emplace::profiler
