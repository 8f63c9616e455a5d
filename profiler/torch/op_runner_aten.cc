#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

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
  const c10::OperatorHandle operation = OperatorOf(recipe);
  return [operation, slots = SlotsOf(recipe, operation.schema()), wanted = recipe.num_outputs()](
             TensorSpan in, std::vector<at::Tensor>* out) {
    torch::jit::Stack stack;
    stack.reserve(slots.size());
    for (const Slot& slot : slots) stack.push_back(slot.Filled(in));
    operation.callBoxed(&stack);
    for (const c10::IValue& value : stack) Collect(value, out);
    if (out->size() > wanted) out->resize(wanted);
  };
}

}  // namespace emplace::profiler
