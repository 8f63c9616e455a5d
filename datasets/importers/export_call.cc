#include "datasets/importers/export_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// The name in {"name": "x"}; "" where there is none.
std::string_view NameOf(const JsonValue& value) {
  const JsonValue* const name = FindMember(value, "name");
  const auto* const text = name == nullptr ? nullptr : name->As<std::string>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

// The name of a tensor in an element of as_tensors or as_optional_tensors; "" of None.
std::string_view ElementName(const JsonValue& element) {
  const JsonValue* const tensor = FindMember(element, "as_tensor");
  return NameOf(tensor == nullptr ? element : *tensor);
}

// Parameters that ATen's schemas have behind a "*". They and those that follow are passed by name, so others may be
// missing in front of them.
constexpr std::string_view kByName[] = {"dtype",      "layout",      "device",       "pin_memory", "memory_format",
                                        "alpha",      "beta",        "generator",    "correction", "rounding_mode",
                                        "enable_gqa", "approximate", "non_blocking", "side",       "sorter"};

JsonValue TextValue(std::string text) { return {.data = std::move(text)}; }
JsonValue TaggedValue(const char* tag, JsonValue value) {
  JsonObject object;
  object.push_back({.key = tag, .value = std::move(value)});
  return {.data = std::move(object)};
}

// PyTorch's own numbers of memory formats and layouts, of those in the file.
std::int64_t MemoryFormatOf(std::int64_t number) {
  switch (number) {
    case 1:
      return 0;  // contiguous
    case 4:
      return 1;  // preserve
    default:
      return number;  // channels last
  }
}
std::int64_t LayoutOf(std::int64_t number) { return number == 7 ? 0 : number; }

}  // namespace

ExportCall::ExportCall(NetworkBuilder& net, ExportNames& names, const ExportGraph& graph, const ExportNode& node,
                       std::string place, bool training)
    : net_(net),
      names_(names),
      graph_(graph),
      node_(node),
      place_(std::move(place)),
      training_(training),
      layer_(node.layer) {
  for (const ExportArgument& output : node.outputs) {
    if (output.tag == "as_tensor") {
      if (!NameOf(*output.value).empty()) outputs_.push_back(NameOf(*output.value));
    } else if (const auto* const list = output.value->As<JsonList>(); list != nullptr) {
      for (const JsonValue& element : *list) {
        if (!ElementName(element).empty()) outputs_.push_back(ElementName(element));
      }
    }
  }
  results_.resize(outputs_.size());
  const std::string own(outputs_.empty() ? ExportKind(node.target, false) : std::string(outputs_.front()));
  base_name_ = node.layer.empty() ? own : node.layer + "/" + own;
}

const ExportArgument* ExportCall::Find(std::string_view name) const {
  for (const ExportArgument& input : node_.inputs) {
    if (input.name == name) return input.tag == "as_none" ? nullptr : &input;
  }
  return nullptr;
}

void ExportCall::Refuse(std::string_view name, std::string_view allowed) const {
  throw OtherArgument(place_, fmt::format("argument {} of {} is not {}", Quoted(name), Quoted(node_.target), allowed));
}

bool ExportCall::IsTensor(std::string_view name) const {
  const ExportArgument* const argument = Find(name);
  return argument != nullptr && argument->tag == "as_tensor";
}

Value ExportCall::Tensor(std::string_view name) const {
  if (!IsTensor(name)) Refuse(name, "a tensor");
  return names_.ValueOf(NameOf(*Find(name)->value), place_);
}

std::vector<Value> ExportCall::Tensors(std::string_view name) const {
  const ExportArgument* const argument = Find(name);
  const auto* const list = argument == nullptr ? nullptr : argument->value->As<JsonList>();
  if (list == nullptr || !argument->tag.ends_with("tensors")) Refuse(name, "a list of tensors");
  std::vector<Value> values;
  for (const JsonValue& element : *list) values.push_back(names_.ValueOf(ElementName(element), place_));
  return values;
}

const ExportTensor& ExportCall::MetaOf(std::string_view name) const {
  if (!IsTensor(name)) Refuse(name, "a tensor");
  const std::string_view tensor = NameOf(*Find(name)->value);
  const auto found = graph_.tensors.find(tensor);
  if (found == graph_.tensors.end()) throw InputError(place_, "tensor " + Quoted(tensor) + " has no shape");
  return found->second;
}

std::int64_t ExportCall::IntegerIn(const JsonValue& value, std::string_view name) const {
  if (const auto* const number = value.As<std::int64_t>()) return *number;
  if (const JsonValue* const number = FindMember(value, "as_int"); number != nullptr) return IntegerIn(*number, name);
  if (const JsonValue* const symbol = FindMember(value, "as_name"); symbol != nullptr) {
    if (const auto* const text = symbol->As<std::string>()) {
      const auto known = graph_.integers.find(*text);
      if (known == graph_.integers.end()) {
        throw InputError(place_, fmt::format("argument {} of {}: nothing says how large {} is", Quoted(name),
                                             Quoted(node_.target), Quoted(*text)));
      }
      return known->second;
    }
  }
  Refuse(name, "an integer");
}

std::int64_t ExportCall::Integer(std::string_view name, std::int64_t absent) const {
  const ExportArgument* const argument = Find(name);
  return argument == nullptr ? absent : IntegerIn(*argument->value, name);
}

Shape ExportCall::Integers(std::string_view name, Shape absent) const {
  const ExportArgument* const argument = Find(name);
  if (argument == nullptr) return absent;
  const auto* const list = argument->value->As<JsonList>();
  if (list == nullptr) return {IntegerIn(*argument->value, name)};
  Shape integers;
  for (const JsonValue& value : *list) integers.push_back(IntegerIn(value, name));
  return integers;
}

std::optional<double> ExportCall::Number(std::string_view name) const {
  const ExportArgument* const argument = Find(name);
  if (argument == nullptr) return std::nullopt;
  if (const auto* const number = argument->value->As<double>()) return *number;
  if (const auto* const number = argument->value->As<std::int64_t>()) return static_cast<double>(*number);
  if (argument->tag == "as_sym_int") return static_cast<double>(IntegerIn(*argument->value, name));
  return std::nullopt;
}

bool ExportCall::Flag(std::string_view name, bool absent) const {
  const ExportArgument* const argument = Find(name);
  if (argument == nullptr) return absent;
  const auto* const flag = argument->value->As<bool>();
  if (flag == nullptr) Refuse(name, "true or false");
  return *flag;
}

std::string_view ExportCall::Text(std::string_view name) const {
  const ExportArgument* const argument = Find(name);
  const auto* const text = argument == nullptr ? nullptr : argument->value->As<std::string>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

std::size_t ExportCall::Axis(std::string_view name, std::int64_t absent, std::size_t rank) const {
  const std::int64_t axis = Integer(name, absent);
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) Refuse(name, fmt::format("an axis of {} dimensions", rank));
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

const ExportTensor& ExportCall::out(std::size_t i) const {
  if (i >= outputs_.size()) throw InputError(place_, Quoted(node_.target) + " has no tensor as a result");
  const auto found = graph_.tensors.find(outputs_[i]);
  if (found == graph_.tensors.end()) throw InputError(place_, "tensor " + Quoted(outputs_[i]) + " has no shape");
  return found->second;
}

std::vector<Value> ExportCall::Emit(std::string_view kind, std::vector<Value> inputs,
                                    std::vector<NetworkBuilder::Output> outputs, std::string attrs,
                                    std::string_view suffix, double flop) {
  NetworkBuilder::Node node;
  node.name = names_.UniqueName(suffix.empty() ? base_name_ : base_name_ + "/" + std::string(suffix));
  node.kind = kind;
  node.attrs = std::move(attrs);
  node.layer = layer_;
  node.pass = pass_;
  node.inputs = std::move(inputs);
  node.control_inputs = controls_;
  node.flop = flop;
  ++num_emitted_;
  return net_.Add(std::move(node), std::move(outputs));
}

Value ExportCall::EmitOne(std::string_view kind, std::vector<Value> inputs, Shape shape, std::string attrs,
                          std::string_view suffix, double flop) {
  return Emit(kind, std::move(inputs), {{.dtype = out().dtype, .shape = std::move(shape)}}, std::move(attrs), suffix,
              flop)
      .front();
}

void ExportCall::EmitAsItIs(double flop) {
  if (!IsForeignKind(ExportKind(node_.target, true))) {
    throw InputError(place_, Quoted(node_.target) + " makes a tensor (operators torch.ops.NAMESPACE.NAME)");
  }
  std::vector<Value> inputs;
  const auto input = [&](std::string_view name) -> JsonValue {
    if (name.empty()) return {};
    inputs.push_back(names_.ValueOf(name, place_));
    return TextValue(fmt::format("%{}", inputs.size() - 1));
  };
  const auto number = [&](const JsonValue& value) {
    const auto* const integer = value.As<std::int64_t>();
    return integer == nullptr ? std::int64_t{0} : *integer;
  };
  const auto written = [&](const ExportArgument& argument) -> JsonValue {
    const JsonValue& value = *argument.value;
    const auto* const list = value.As<JsonList>();
    if (argument.tag == "as_none") return {};
    if (argument.tag == "as_tensor") return input(NameOf(value));
    if (argument.tag == "as_optional_tensor") return input(ElementName(value));
    if (argument.tag == "as_string") return TaggedValue("str", value);
    if (argument.tag == "as_device") return TaggedValue("device", {.data = true});
    if (argument.tag == "as_layout") return TaggedValue("layout", {.data = LayoutOf(number(value))});
    if (argument.tag == "as_memory_format")
      return TaggedValue("memory_format", {.data = MemoryFormatOf(number(value))});
    if (argument.tag == "as_scalar_type") {
      // A result has that type; else the file's number says it.
      return num_outputs() > 0 ? TaggedValue("dtype", TextValue(std::string(Name(out().dtype)))) : JsonValue();
    }
    if (argument.tag == "as_float" && value.As<std::string>() != nullptr) {  // JSON has no infinite numbers
      const std::string& text = *value.As<std::string>();
      return TaggedValue("float", TextValue(text == "NaN" ? "nan" : text == "-Infinity" ? "-inf" : "inf"));
    }
    if (argument.tag == "as_sym_int") return {.data = IntegerIn(value, argument.name)};
    if (list != nullptr) {
      JsonList items;
      for (const JsonValue& item : *list) {
        if (argument.tag.ends_with("tensors")) {
          items.push_back(input(ElementName(item)));
        } else if (argument.tag == "as_sym_ints") {
          items.push_back({.data = IntegerIn(item, argument.name)});
        } else {
          items.push_back(item);
        }
      }
      return {.data = std::move(items)};
    }
    if (argument.tag.starts_with("as_sym_") || argument.tag == "as_custom_obj" || argument.tag == "as_graph") return {};
    return value;
  };
  JsonList args;
  JsonObject kwargs;
  for (const ExportArgument& argument : node_.inputs) {
    const bool by_name = std::find(std::begin(kByName), std::end(kByName), argument.name) != std::end(kByName);
    JsonValue value = written(argument);
    if (by_name || !kwargs.empty()) {
      if (FindMember(kwargs, argument.name) != nullptr) {
        throw InputError(place_, "argument " + Quoted(argument.name) + " is given twice");
      }
      kwargs.push_back({.key = std::string(argument.name), .value = std::move(value)});
    } else {
      args.push_back(std::move(value));
    }
  }
  JsonObject attrs;
  attrs.push_back({.key = "args", .value = {.data = std::move(args)}});
  if (!kwargs.empty()) attrs.push_back({.key = "kwargs", .value = {.data = std::move(kwargs)}});
  std::vector<NetworkBuilder::Output> outputs;
  for (std::size_t i = 0; i < num_outputs(); ++i) outputs.push_back({.dtype = out(i).dtype, .shape = out(i).shape});
  // Python takes a number for a tensor; the operator itself has another overload for it.
  std::string kind = ExportKind(node_.target, true);
  if (kind.ends_with(".Tensor") && Has("other") && !IsTensor("other")) {
    kind.replace(kind.size() - std::string_view("Tensor").size(), std::string::npos, "Scalar");
  }
  const std::vector<Value> values =
      Emit(kind, std::move(inputs), std::move(outputs), JsonText({.data = std::move(attrs)}), {}, flop);
  for (std::size_t i = 0; i < values.size(); ++i) Set(i, values[i]);
}

std::string ExportKind(std::string_view target, bool with_overload) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps)) return std::string(target);
  target.remove_prefix(kOps.size());
  const std::size_t dot = target.find('.');
  if (dot == std::string_view::npos) return std::string(target);
  std::string kind = std::string(target.substr(0, dot)) + "::";
  target.remove_prefix(dot + 1);
  const std::size_t overload = target.find('.');
  kind += target.substr(0, overload);
  if (with_overload && overload != std::string_view::npos && target.substr(overload) != ".default") {
    kind += target.substr(overload);
  }
  return kind;
}

bool IsContiguous(const ExportTensor& tensor) {
  if (tensor.strides.size() != tensor.shape.size()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, tensor.shape[i], &expected)) return false;
  }
  return true;
}

}  // namespace emplace::datasets
