// The arguments of a call of an ATen operator, as text. Part of the library with LibTorch.

#include "profiler/torch/torchscript_recorder_args.h"

#include <torch/script.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

using Json = nlohmann::ordered_json;

// As DTypeFromName reads it.
const char* NameOf(DType dtype) {
  static constexpr const char* kNames[] = {"", "bool", "i8", "u8", "i16", "f16", "bf16", "i32", "f32", "i64", "f64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

class Writer {
 public:
  Writer(const std::string& op, const std::function<std::size_t(const at::Tensor&)>& input) : op_(op), input_(input) {}

  Json Write(const c10::IValue& value, const c10::TypePtr& type) const {
    if (value.isNone()) return nullptr;
    if (type->kind() == c10::TypeKind::OptionalType) {
      return Write(value, type->castRaw<c10::OptionalType>()->getElementType());
    }
    if (value.isTensor()) {
      return value.toTensor().defined() ? Json("%" + std::to_string(input_(value.toTensor()))) : Json(nullptr);
    }
    if (value.isInt()) return WriteInteger(value.toInt(), type->kind());
    if (value.isBool()) return value.toBool();
    if (value.isDouble()) return WriteFloat(value.toDouble());
    if (value.isString()) return Object("str", value.toStringRef());
    if (value.isDevice()) return Object("device", true);
    if (value.isList()) return WriteList(value.toListRef(), type);
    throw InputError(op_, "an argument is of type " + value.tagKind() + " (no graph can hold that)");
  }

 private:
  static Json Object(const char* key, Json value) {
    Json object;
    object[key] = std::move(value);
    return object;
  }

  Json WriteInteger(std::int64_t value, c10::TypeKind kind) const {
    if (kind == c10::TypeKind::ScalarTypeType) {
      return Object("dtype", NameOf(DTypeOf(static_cast<c10::ScalarType>(value), op_)));
    }
    if (kind == c10::TypeKind::LayoutType) return Object("layout", value);
    if (kind == c10::TypeKind::MemoryFormatType) return Object("memory_format", value);
    return value;
  }

  // JSON has no infinite number.
  static Json WriteFloat(double value) {
    if (std::isnan(value)) return Object("float", "nan");
    if (std::isinf(value)) return Object("float", value < 0 ? "-inf" : "inf");
    return value;
  }

  Json WriteList(c10::ArrayRef<c10::IValue> values, const c10::TypePtr& type) const {
    const auto* const list = type->castRaw<c10::ListType>();
    if (list == nullptr) throw InputError(op_, "an argument is a list where its schema has none");
    Json written = Json::array();
    for (const c10::IValue& value : values) written.push_back(Write(value, list->getElementType()));
    return written;
  }

  const std::string& op_;
  const std::function<std::size_t(const at::Tensor&)>& input_;
};

}  // namespace

DType DTypeOf(c10::ScalarType type, const std::string& place) {
  switch (type) {
    case c10::kBool:
      return DType::kBool;
    case c10::kChar:
      return DType::kI8;
    case c10::kByte:
      return DType::kU8;
    case c10::kShort:
      return DType::kI16;
    case c10::kHalf:
      return DType::kF16;
    case c10::kBFloat16:
      return DType::kBf16;
    case c10::kInt:
      return DType::kI32;
    case c10::kFloat:
      return DType::kF32;
    case c10::kLong:
      return DType::kI64;
    case c10::kDouble:
      return DType::kF64;
    default:
      throw InputError(place, std::string("a tensor is of type ") + c10::toString(type) +
                                  " (bool, i8, u8, i16, i32, i64, f16, bf16, f32 and f64 are known)");
  }
}

std::string ArgumentsText(const std::string& op, const c10::FunctionSchema& schema,
                          std::span<const c10::IValue> arguments,
                          const std::function<std::size_t(const at::Tensor&)>& input) {
  const Writer writer(op, input);
  Json args = Json::array();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    args.push_back(writer.Write(arguments[i], schema.arguments()[i].real_type()));
  }
  Json attrs;
  attrs["args"] = std::move(args);
  return attrs.dump();
}

}  // namespace emplace::profiler
