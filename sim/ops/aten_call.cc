#include "sim/ops/aten_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace emplace {
namespace {

using Json = nlohmann::json;

struct NamedType {
  std::string_view name;
  DType dtype;
  double bytes;
};
// As PyTorch's profiler and its Execution Traces write them, and as graphs do.
constexpr NamedType kTypes[] = {
    {"float", DType::kF32, 4},
    {"double", DType::kF64, 8},
    {"c10::Half", DType::kF16, 2},
    {"c10::BFloat16", DType::kBf16, 2},
    {"long int", DType::kI64, 8},
    {"long", DType::kI64, 8},
    {"int", DType::kI32, 4},
    {"short int", DType::kI16, 2},
    {"short", DType::kI16, 2},
    {"signed char", DType::kI8, 1},
    {"unsigned char", DType::kU8, 1},
    {"bool", DType::kBool, 1},
    {"c10::Float8_e4m3fn", DType::kNone, 1},
    {"c10::Float8_e5m2", DType::kNone, 1},
    {"c10::Float8_e4m3fnuz", DType::kNone, 1},
    {"c10::Float8_e5m2fnuz", DType::kNone, 1},
    {"c10::Float8_e8m0fnu", DType::kNone, 1},
    {"c10::complex<float>", DType::kNone, 8},
    {"c10::complex<double>", DType::kNone, 16},
};

std::optional<AtenTensor> TensorOf(std::string_view type) {
  constexpr std::string_view kTensor = "Tensor(";
  if (type.starts_with(kTensor) && type.ends_with(")")) {
    type = type.substr(kTensor.size(), type.size() - kTensor.size() - 1);
  }
  for (const NamedType& known : kTypes) {
    if (known.name == type) return AtenTensor{.dtype = known.dtype, .element_bytes = known.bytes, .shape = {}};
  }
  const std::optional<DType> dtype = DTypeFromName(type);
  if (!dtype || *dtype == DType::kNone) return std::nullopt;
  return AtenTensor{.dtype = *dtype, .element_bytes = static_cast<double>(ElementBits(*dtype)) / 8, .shape = {}};
}

// A list of sizes; nullopt for anything else.
std::optional<std::vector<std::int64_t>> ShapeFrom(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const Json& size : json) {
    if (!size.is_number_integer() || size.get<double>() < 0 || size.get<double>() > 0x1p62) return std::nullopt;
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

// "[16, 16]", "False", "1" and "" are what the profiler calls concrete inputs; other values stay as they are.
Json ValueFrom(const Json& json) {
  if (!json.is_string()) return json;
  std::string text = json.get<std::string>();
  for (const auto& [word, instead] : {std::pair<std::string, std::string>{"True", "true"}, {"False", "false"}}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
      text.replace(at, word.size(), instead);
    }
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json() : value;
}

void SetValue(const Json& value, AtenArgument* argument) {
  const Json list = value.is_array() ? value : Json::array({value});
  const auto all = [&](const auto& is_such) { return std::all_of(list.begin(), list.end(), is_such); };
  if (all([](const Json& each) { return each.is_number_integer(); })) {
    argument->integers = list.get<std::vector<std::int64_t>>();
  } else if (all([](const Json& each) { return each.is_boolean(); })) {
    argument->flags = list.get<std::vector<bool>>();
  }
}

std::string_view TextOf(const Json& json) {
  return json.is_string() ? std::string_view(json.get_ref<const std::string&>()) : std::string_view();
}

const Json* Member(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const Json& At(const Json* list, std::size_t i) {
  static const Json kNull;
  return list != nullptr && list->is_array() && i < list->size() ? (*list)[i] : kNull;
}

// The types of the elements of "GenericList[Tensor(float),Tensor(float)]", where all are tensors and alike.
std::string_view ElementType(std::string_view type) {
  const std::size_t open = type.find('[');
  if (open == std::string_view::npos) return {};
  const std::string_view inner = type.substr(open + 1);
  return inner.substr(0, inner.find_first_of(",]"));
}

AtenArgument ArgumentFrom(const Json& dims, std::string_view type, const Json& value, std::string_view list_type) {
  AtenArgument argument;
  if (auto tensor = TensorOf(type)) {
    if (auto shape = ShapeFrom(dims)) {
      tensor->shape = std::move(*shape);
      argument.tensors.push_back(std::move(*tensor));
      return argument;
    }
  }
  if (type == "TensorList" || type.starts_with("GenericList[Tensor(")) {
    argument.is_list = true;
    auto element = TensorOf(type == "TensorList" ? list_type : ElementType(type));
    if (!element) element = TensorOf("float");  // the profiler does not say: PyTorch's default
    for (const Json& each : dims.is_array() ? dims : Json::array()) {
      if (auto shape = ShapeFrom(each)) {
        element->shape = std::move(*shape);
        argument.tensors.push_back(*element);
      }
    }
    return argument;
  }
  SetValue(ValueFrom(value), &argument);
  return argument;
}

AtenTensor FromGraph(const Tensor& tensor) {
  return {.dtype = tensor.dtype,
          .element_bytes = static_cast<double>(ElementBits(tensor.dtype)) / 8,
          .shape = {tensor.shape.begin(), tensor.shape.end()}};
}

// An argument as TorchScript's recorder writes it: "%0" is the first input.
AtenArgument FromScript(const Json& json, const std::vector<AtenTensor>& inputs) {
  const auto input = [&](const Json& name) -> const AtenTensor* {
    const std::string_view text = TextOf(name);
    if (text.size() < 2 || text.size() > 8 || text[0] != '%') return nullptr;
    std::size_t number = 0;
    for (const char c : text.substr(1)) {
      if (c < '0' || c > '9') return nullptr;
      number = number * 10 + static_cast<std::size_t>(c - '0');
    }
    return number < inputs.size() ? &inputs[number] : nullptr;
  };
  AtenArgument argument;
  if (const AtenTensor* const tensor = input(json)) {
    argument.tensors.push_back(*tensor);
    return argument;
  }
  if (json.is_array()) {
    for (const Json& each : json) {
      if (const AtenTensor* const tensor = input(each)) {
        argument.tensors.push_back(*tensor);
        argument.is_list = true;
      }
    }
  }
  if (!argument.is_list) SetValue(json, &argument);
  return argument;
}

}  // namespace

double AtenTensor::elements() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

const AtenTensor* AtenCall::tensor(std::size_t i) const {
  return i < arguments.size() && !arguments[i].is_list && !arguments[i].tensors.empty() ? &arguments[i].tensors[0]
                                                                                        : nullptr;
}

std::optional<std::vector<std::int64_t>> AtenCall::integers(std::size_t i) const {
  return i < arguments.size() ? arguments[i].integers : std::nullopt;
}

std::optional<bool> AtenCall::flag(std::size_t i) const {
  return i < arguments.size() && arguments[i].flags.size() == 1 ? std::optional<bool>(arguments[i].flags[0])
                                                                : std::nullopt;
}

std::string AtenNameOf(std::string_view kind, bool* in_place) {
  constexpr std::string_view kAutograd = "autograd::engine::evaluate_function: ";
  if (kind.starts_with(kAutograd)) kind.remove_prefix(kAutograd.size());
  constexpr std::string_view kOps = "torch.ops.";
  if (kind.starts_with(kOps)) kind.remove_prefix(kOps.size());
  std::string space;
  constexpr std::string_view kAten = "aten.";
  if (kind.starts_with(kAten)) {
    kind.remove_prefix(kAten.size());
    space = "aten::";
  }
  const std::size_t colons = kind.rfind("::");
  if (colons != std::string_view::npos) {
    space = kind.substr(0, colons + 2);
    kind.remove_prefix(colons + 2);
  }
  if (space == "aten::") kind = kind.substr(0, kind.find('.'));
  const bool ends = kind.size() > 1 && kind.ends_with('_') && !kind.ends_with("__");
  if (in_place != nullptr) *in_place = ends;
  if (ends) kind.remove_suffix(1);
  return space + std::string(kind);
}

AtenCall ReadAtenCall(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  Json attrs = op.attrs.empty() ? Json::object() : Json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
  if (!attrs.is_object()) attrs = Json::object();
  const bool is_kernel = op.kind == "kernel";
  AtenCall call;
  call.flop = op.flop;
  const Json* const operation = Member(attrs, "op");
  const std::string_view of_kernel = operation != nullptr ? TextOf(*operation) : std::string_view();
  call.name = AtenNameOf(is_kernel ? of_kernel : op.kind, &call.in_place);
  if (const Json* const kernels = Member(attrs, "op_kernels"); is_kernel && kernels != nullptr) {
    if (kernels->is_number_integer()) call.kernels = std::max(1.0, kernels->get<double>());
  }
  if (const Json* const kernel = Member(attrs, "kernel"); is_kernel && kernel != nullptr) call.kernel = TextOf(*kernel);
  const auto is_set = [&](std::string_view key) {
    const Json* const flag = Member(attrs, key);
    return flag != nullptr && *flag == true;
  };
  call.is_view = is_set("is_view");
  call.tf32 = is_set("tf32");
  call.crosses_devices = is_set("crosses_devices");

  const Json* const dims = Member(attrs, "input_dims");
  const Json* const types = Member(attrs, "input_types");
  if (dims != nullptr && types != nullptr && dims->is_array() && types->is_array()) {
    const Json* const values = Member(attrs, "input_values");
    const Json* const list_type = Member(attrs, "list_type");
    for (std::size_t i = 0; i < types->size(); ++i) {
      call.arguments.push_back(ArgumentFrom(At(dims, i), TextOf((*types)[i]), At(values, i),
                                            list_type != nullptr ? TextOf(*list_type) : std::string_view()));
    }
    call.has_shapes = true;
    const Json* const output_dims = Member(attrs, "output_dims");
    const Json* const output_types = Member(attrs, "output_types");
    if (output_types != nullptr && output_types->is_array()) {
      call.has_outputs = true;
      for (std::size_t i = 0; i < output_types->size(); ++i) {
        AtenArgument output = ArgumentFrom(At(output_dims, i), TextOf((*output_types)[i]), Json(), {});
        for (AtenTensor& tensor : output.tensors) call.outputs.push_back(std::move(tensor));
      }
    }
    return call;
  }
  if (is_kernel) return call;
  std::vector<AtenTensor> inputs;
  call.has_shapes = true;
  const Json* const views = Member(attrs, "input_views");
  for (const TensorId input : graph.inputs(id)) {
    call.has_shapes = call.has_shapes && graph.tensor(input).dtype != DType::kNone;
    const Json& view = At(views, inputs.size());
    inputs.push_back(FromGraph(graph.tensor(input)));
    if (auto shape = ShapeFrom(At(&view, 0))) inputs.back().shape = std::move(*shape);
  }
  call.has_outputs = true;
  for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
    const Tensor& output = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i));
    call.has_outputs = call.has_outputs && output.dtype != DType::kNone;
    call.outputs.push_back(FromGraph(output));
  }
  if (!call.has_outputs) call.outputs.clear();
  const Json* const args = Member(attrs, "args");
  if (args != nullptr && args->is_array()) {
    for (const Json& each : *args) call.arguments.push_back(FromScript(each, inputs));
  } else {
    for (AtenTensor& input : inputs) {
      call.arguments.emplace_back();
      call.arguments.back().tensors.push_back(std::move(input));
    }
  }
  return call;
}

}  // namespace emplace
