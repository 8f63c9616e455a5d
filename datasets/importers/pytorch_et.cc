#include "datasets/importers/pytorch_et.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/kineto.h"
#include "datasets/importers/trace_step.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/units.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMaxEtBytes = std::int64_t{1} << 50;

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr NamedDType kEtTypes[] = {
    {"float", DType::kF32},        {"double", DType::kF64}, {"c10::Half", DType::kF16}, {"c10::BFloat16", DType::kBf16},
    {"long int", DType::kI64},     {"int", DType::kI32},    {"short int", DType::kI16}, {"signed char", DType::kI8},
    {"unsigned char", DType::kU8}, {"bool", DType::kBool},  {"long", DType::kI64},      {"short", DType::kI16},
};

// Ops that do nothing on a device: views, allocations, questions.
constexpr std::string_view kIdle[] = {"_reshape_alias",
                                      "_unsafe_view",
                                      "alias",
                                      "as_strided",
                                      "chunk",
                                      "detach",
                                      "detach_",
                                      "empty",
                                      "empty_like",
                                      "empty_strided",
                                      "expand",
                                      "expand_as",
                                      "is_pinned",
                                      "lift_fresh",
                                      "narrow",
                                      "new_empty",
                                      "numpy_T",
                                      "permute",
                                      "result_type",
                                      "resize_",
                                      "select",
                                      "set_",
                                      "slice",
                                      "split",
                                      "split_with_sizes",
                                      "squeeze",
                                      "squeeze_",
                                      "t",
                                      "t_",
                                      "transpose",
                                      "transpose_",
                                      "unbind",
                                      "unsqueeze",
                                      "unsqueeze_",
                                      "view",
                                      "view_as",
                                      "unfold",
                                      "diagonal",
                                      "_nested_tensor_size",
                                      "size",
                                      "stride",
                                      "is_nonzero"};
// Ops that others call on the way: they do not make their caller a composite one.
constexpr std::string_view kIncidental[] = {
    "copy_", "fill_", "zero_", "to", "_to_copy", "item", "_local_scalar_dense", "clone", "contiguous"};
// Ops that are nothing but such calls.
constexpr std::string_view kCopying[] = {"to",        "_to_copy",     "contiguous",     "clone",
                                         "zeros",     "ones",         "zeros_like",     "ones_like",
                                         "new_zeros", "new_ones",     "full",           "full_like",
                                         "item",      "zero_",        "pin_memory",     "_pin_memory",
                                         "reshape",   "flatten",      "slice_backward", "select_backward",
                                         "new_full",  "scalar_tensor"};
// Of those, what may move data between the host and a device.
constexpr std::string_view kCrossing[] = {"to", "_to_copy", "copy_", "item", "_local_scalar_dense", "pin_memory"};
// Ops with kernels of their own beside those of recorded parts.
constexpr std::string_view kWhole[] = {"convolution_backward", "native_layer_norm_backward"};

template <std::size_t kSize>
bool Holds(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// "aten::add_" is "add_"; "" of ops of other libraries.
std::string_view AtenName(std::string_view name) {
  constexpr std::string_view kAten = "aten::";
  return name.starts_with(kAten) ? name.substr(kAten.size()) : std::string_view();
}

DType TypeFrom(std::string_view type) {
  constexpr std::string_view kTensor = "Tensor(";
  if (!type.starts_with(kTensor) || !type.ends_with(")")) return DType::kNone;
  const std::string_view element = type.substr(kTensor.size(), type.size() - kTensor.size() - 1);
  for (const NamedDType& known : kEtTypes) {
    if (known.name == element) return known.dtype;
  }
  return DType::kNone;
}

// The elements of "GenericList[Tensor(float),Int]".
std::vector<std::string_view> ElementTypes(std::string_view type) {
  std::vector<std::string_view> types;
  const std::size_t open = type.find('[');
  if (open == std::string_view::npos || !type.ends_with("]")) return types;
  std::string_view rest = type.substr(open + 1, type.size() - open - 2);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= rest.size(); ++i) {
    if (i == rest.size() || (rest[i] == ',' && depth == 0)) {
      if (i > begin) types.push_back(rest.substr(begin, i - begin));
      begin = i + 1;
    } else if (rest[i] == '(' || rest[i] == '[') {
      ++depth;
    } else if (rest[i] == ')' || rest[i] == ']') {
      --depth;
    }
  }
  return types;
}

// A value that is a tensor by its type; nullopt for any other, and for a tensor that was not set.
std::optional<EtTensor> TensorFrom(const JsonNode& value, const JsonValue* shape, std::string_view type) {
  if (!type.starts_with("Tensor(")) return std::nullopt;
  const auto* tuple = value.value().As<JsonList>();
  constexpr std::size_t kParts = 6;
  if (tuple == nullptr) return std::nullopt;
  if (tuple->size() < kParts) value.Refuse("a tensor: [id, storage, offset, elements, bytes of one, device]");
  const auto integer = [&](std::size_t k) {
    return JsonNode(value, k, (*tuple)[k]).Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
  };
  EtTensor tensor;
  tensor.storage = integer(1);
  const std::int64_t elements = integer(3);
  const std::int64_t element_bytes = integer(4);
  if (elements < 0 || element_bytes < 0 || __builtin_mul_overflow(elements, element_bytes, &tensor.bytes) ||
      tensor.bytes > kMaxEtBytes) {
    value.Refuse(fmt::format("a tensor of at most {} bytes", kMaxEtBytes));
  }
  tensor.device = JsonNode(value, 5, (*tuple)[5]).Text();
  tensor.dtype = TypeFrom(type);
  if (shape != nullptr) {
    if (const auto* dims = shape->As<JsonList>()) {
      for (const JsonValue& dim : *dims) {
        const auto* size = dim.As<std::int64_t>();
        if (size == nullptr || *size < 0) return tensor;  // not a shape: the size is known all the same
        tensor.shape.push_back(*size);
      }
    }
  }
  return tensor;
}

// The tensors among the values of a node, those in lists too; `argument` gets the position of each.
void ReadTensors(const JsonNode& values, const JsonValue* shapes, const JsonNode& types, std::vector<EtTensor>* tensors,
                 std::vector<std::size_t>* argument) {
  const JsonList& list = values.List("a list of values");
  const JsonList& type_list = types.List("a list of types");
  const auto* shape_list = shapes == nullptr ? nullptr : shapes->As<JsonList>();
  const auto shape_at = [](const JsonList* of, std::size_t i) -> const JsonValue* {
    return of != nullptr && i < of->size() ? &(*of)[i] : nullptr;
  };
  for (std::size_t i = 0; i < list.size() && i < type_list.size(); ++i) {
    const std::string type = JsonNode(types, i, type_list[i]).Text();
    const JsonNode value(values, i, list[i]);
    const JsonValue* const shape = shape_at(shape_list, i);
    if (auto tensor = TensorFrom(value, shape, type)) {
      tensors->push_back(std::move(*tensor));
      if (argument != nullptr) argument->push_back(i);
      continue;
    }
    const auto* elements = list[i].As<JsonList>();
    if (elements == nullptr || !type.starts_with("GenericList[")) continue;
    const std::vector<std::string_view> element_types = ElementTypes(type);
    const auto* element_shapes = shape == nullptr ? nullptr : shape->As<JsonList>();
    for (std::size_t k = 0; k < elements->size() && k < element_types.size(); ++k) {
      auto tensor = TensorFrom(JsonNode(value, k, (*elements)[k]), shape_at(element_shapes, k), element_types[k]);
      if (!tensor) continue;
      tensors->push_back(std::move(*tensor));
      if (argument != nullptr) argument->push_back(i);
    }
  }
}

std::int64_t IntegerAt(const JsonNode& node, std::string_view key) {
  const JsonValue* const value = FindMember(node.value(), key);
  if (value == nullptr) throw InputError(PlaceOfKey(node.Place(), key), "is missing (an integer)");
  return JsonNode(node, std::string(key), *value).Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
}

std::string TextAt(const JsonNode& node, std::string_view key) {
  const JsonValue* const value = FindMember(node.value(), key);
  return value == nullptr ? "" : JsonNode(node, std::string(key), *value).Text();
}

void ReadSide(const JsonNode& node, const std::string& side, std::vector<EtTensor>* tensors,
              std::vector<std::size_t>* argument) {
  static const JsonValue kEmpty{JsonList()};
  const JsonValue* const value = FindMember(node.value(), side);
  if (value == nullptr) return;
  const JsonNode at(node, side, *value);
  if (value->As<JsonObject>() != nullptr) {
    // 1.1.0 and later.
    const JsonValue* const values = FindMember(*value, "values");
    const JsonValue* const types = FindMember(*value, "types");
    if (values == nullptr || types == nullptr) return;
    ReadTensors(JsonNode(at, "values", *values), FindMember(*value, "shapes"), JsonNode(at, "types", *types), tensors,
                argument);
    return;
  }
  const std::string prefix = side.substr(0, side.size() - 1);  // input, output
  const JsonValue* const types = FindMember(node.value(), prefix + "_types");
  ReadTensors(at, FindMember(node.value(), prefix + "_shapes"),
              JsonNode(node, prefix + "_types", types == nullptr ? kEmpty : *types), tensors, argument);
}

// Sizes as the profiler writes them: where a trace has [[], []] for two numbers, it has no sizes.
JsonValue DimsFrom(const JsonValue* shape) {
  const auto* const list = shape == nullptr ? nullptr : shape->As<JsonList>();
  if (list == nullptr) return ToJson(JsonList());
  return *shape;
}

// Shapes, types and values of one side of a node, position by position: what cost models read of a call
// (sim/ops/aten_call.h). Values of tensors are where they lie in memory, and are left out.
void AddSide(const JsonNode& node, const std::string& side, JsonObject* call) {
  const JsonValue* const value = FindMember(node.value(), side);
  if (value == nullptr) return;
  const std::string prefix = side.substr(0, side.size() - 1);
  const bool is_new = value->As<JsonObject>() != nullptr;
  const JsonValue* const values = is_new ? FindMember(*value, "values") : value;
  const JsonValue* const types = is_new ? FindMember(*value, "types") : FindMember(node.value(), prefix + "_types");
  const JsonValue* const shapes = is_new ? FindMember(*value, "shapes") : FindMember(node.value(), prefix + "_shapes");
  const auto* const value_list = values == nullptr ? nullptr : values->As<JsonList>();
  const auto* const type_list = types == nullptr ? nullptr : types->As<JsonList>();
  const auto* const shape_list = shapes == nullptr ? nullptr : shapes->As<JsonList>();
  if (type_list == nullptr || value_list == nullptr) return;
  JsonList dims;
  JsonList names;
  JsonList others;
  for (std::size_t i = 0; i < type_list->size(); ++i) {
    const auto* const type = (*type_list)[i].As<std::string>();
    const bool is_tensor = type != nullptr && type->find("Tensor(") != std::string::npos;
    dims.push_back(
        DimsFrom(is_tensor && shape_list != nullptr && i < shape_list->size() ? &(*shape_list)[i] : nullptr));
    names.push_back(ToJson(type == nullptr ? std::string_view() : std::string_view(*type)));
    others.push_back(is_tensor || i >= value_list->size() ? JsonValue{std::monostate()} : (*value_list)[i]);
  }
  AddMember(call, prefix + "_dims", std::move(dims));
  AddMember(call, prefix + "_types", std::move(names));
  if (side == "inputs") AddMember(call, "input_values", std::move(others));
}

EtNode ReadEtNode(const JsonNode& json) {
  json.Object();
  EtNode node;
  node.id = IntegerAt(json, "id");
  node.name = TextAt(json, "name");
  if (node.name.empty()) throw InputError(PlaceOfKey(json.Place(), "name"), "is missing (a string)");
  if (const JsonValue* const attrs = FindMember(json.value(), "attrs")) {
    node.parent = IntegerAt(json, "ctrl_deps");
    const JsonNode at(json, "attrs", *attrs);
    const JsonList& list = at.List("a list of attributes");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const JsonNode attr(at, i, list[i]);
      const std::string name = TextAt(attr, "name");
      if (name == "rf_id") node.rf_id = IntegerAt(attr, "value");
      if (name == "op_schema") node.schema = TextAt(attr, "value");
      if (name == "kernel_backend") node.kernel = TextAt(attr, "value");
      if (name == "pg_name") node.process_group = TextAt(attr, "value");
    }
  } else {
    node.parent = IntegerAt(json, "parent");
    node.rf_id = IntegerAt(json, "rf_id");
    node.schema = TextAt(json, "op_schema");
  }
  std::vector<std::size_t> arguments;
  ReadSide(json, "inputs", &node.inputs, &arguments);
  ReadSide(json, "outputs", &node.outputs, nullptr);
  if (!node.schema.empty() || !node.kernel.empty()) {
    JsonObject call;
    AddSide(json, "inputs", &call);
    AddSide(json, "outputs", &call);
    node.call = JsonText(ToJson(std::move(call)));
  }
  const std::vector<std::size_t> mutated = MutatedArguments(node.schema);
  // Collectives write to what they are given, and say so by their names only: allreduce_, alltoall_base_.
  const bool is_collective = node.name.starts_with("c10d::");
  for (const std::size_t argument : arguments) {
    node.is_mutated.push_back(std::find(mutated.begin(), mutated.end(), argument) != mutated.end() ||
                              (is_collective && argument == 0));
  }
  return node;
}

class EtGraphMaker {
 public:
  EtGraphMaker(const EtTrace& trace, const KinetoTrace* times) : trace_(trace), is_op_(OpsOfTree(trace)) {
    for (std::size_t i = 0; i < trace.nodes.size(); ++i) positions_[trace.nodes[i].id] = i;
    if (times == nullptr) return;
    times_ = JoinTimes(trace, *times);
    // What runs inside an op is part of it.
    micros_ = times_->micros;
    for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
      if (times_->micros[i] < 0 || is_op_[i]) continue;
      for (std::size_t at = ParentOf(i), steps = 0; at != kNoNode && steps < trace.nodes.size(); ++steps) {
        if (is_op_[at]) {
          micros_[at] = std::max(0.0, micros_[at]) + times_->micros[i];
          break;
        }
        at = ParentOf(at);
      }
    }
  }

  Imported Make(double min_attributed) {
    FindLaterWrites();
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      if (is_op_[i]) AddOp(i);
    }
    if (specs_.empty()) throw InputError("nodes", "hold no op");
    GraphBuilder builder("pytorch-et");
    builder.Reserve(specs_.size());
    const std::size_t num_ops = specs_.size() - num_sources_;
    for (OpSpec& spec : specs_) builder.Add(spec);
    JsonObject metadata;
    AddMember(&metadata, "source", "pytorch-et");
    AddMember(&metadata, "schema", trace_.schema);
    builder.SetMetadata(JsonText(ToJson(std::move(metadata))));
    Imported imported{.graph = builder.Build(), .cluster = std::nullopt, .notes = {}};
    imported.notes.push_back(fmt::format("schema {}: {} of {} nodes are ops; {} tensors were there before",
                                         trace_.schema, num_ops, trace_.nodes.size(), num_sources_));
    if (times_) {
      const double percent = times_->total_micros > 0 ? 100 * timed_micros_ / times_->total_micros : 0;
      if (percent < min_attributed) {
        throw InputError("nodes",
                         fmt::format("only {:.1f} % of the {:.3f} ms of device time belong to an op, {} of {} nodes "
                                     "joined (at least {} %; --min-attributed lowers that)",
                                     percent, times_->total_micros / 1000, times_->joined, trace_.nodes.size(),
                                     NumberText(min_attributed)));
      }
      imported.attributed_percent = percent;
      imported.notes.push_back(fmt::format("attributed: {:.1f} % of {:.3f} ms of device time; {} of {} ops have a time",
                                           percent, times_->total_micros / 1000, timed_, num_ops));
    }
    return imported;
  }

 private:
  // Where a storage's content is.
  struct Written {
    std::size_t op = 0;  // of specs_
    std::size_t output = 0;
  };

  static constexpr std::size_t kNoNode = ~std::size_t{0};

  std::size_t ParentOf(std::size_t i) const {
    const auto parent = positions_.find(trace_.nodes[i].parent);
    return parent == positions_.end() || parent->second == i ? kNoNode : parent->second;
  }

  std::vector<EtTensor> Writes(const EtNode& node) const {
    std::vector<EtTensor> writes = node.outputs;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const bool is_there = std::any_of(writes.begin(), writes.end(), [&](const EtTensor& tensor) {
        return tensor.storage == node.inputs[k].storage;
      });
      // A compiled kernel says nothing of what it writes: what nobody has written before.
      const bool is_new = !node.kernel.empty() && !written_.contains(node.inputs[k].storage) &&
                          !sources_.contains(node.inputs[k].storage);
      if ((node.is_mutated[k] || is_new) && !is_there) writes.push_back(node.inputs[k]);
    }
    return writes;
  }

  void FindLaterWrites() {
    std::set<std::int64_t> made;
    for (const EtNode& node : trace_.nodes) {
      for (const EtTensor& tensor : node.outputs) made.insert(tensor.storage);
    }
    // In the order of calls: what a compiled kernel is the first to name was not there before, as far as we know.
    std::set<std::int64_t> named_by_kernels;
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      const EtNode& node = trace_.nodes[i];
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::int64_t storage = node.inputs[k].storage;
        if (is_op_[i] && node.is_mutated[k]) mutated_.insert(storage);
        if (made.contains(storage) || sources_.contains(storage)) continue;
        if (!node.kernel.empty()) {
          named_by_kernels.insert(storage);
        } else if (!named_by_kernels.contains(storage)) {
          sources_.insert(storage);
        }
      }
    }
  }

  std::string NameOf(std::string_view what) { return fmt::format("{:07} {}", specs_.size(), WithoutColons(what)); }

  static OutputSpec OutputOf(const EtTensor& tensor) {
    OutputSpec output;
    output.size = Bytes{tensor.bytes};
    std::int64_t bytes = ElementBytes(tensor.dtype);
    for (const std::int64_t dim : tensor.shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) bytes = -1;
    }
    // A view that repeats elements has fewer bytes than its shape.
    if (tensor.dtype != DType::kNone && bytes == tensor.bytes) {
      output.dtype = tensor.dtype;
      output.shape = tensor.shape;
    }
    return output;
  }

  Written Source(const EtTensor& tensor) {
    OpSpec spec;
    const bool is_variable = mutated_.contains(tensor.storage);
    spec.kind = is_variable ? "variable" : "input";
    spec.name = NameOf(fmt::format("{} {}", spec.kind, tensor.storage));
    spec.outputs.push_back(OutputOf(tensor));
    spec.pass = Pass::kForward;
    specs_.push_back(std::move(spec));
    ++num_sources_;
    return written_[tensor.storage] = {specs_.size() - 1, 0};
  }

  void AddOp(std::size_t i) {
    const EtNode& node = trace_.nodes[i];
    std::vector<std::string> inputs;
    const std::vector<EtTensor> writes = Writes(node);
    for (const EtTensor& tensor : node.inputs) {
      auto found = written_.find(tensor.storage);
      if (found == written_.end()) {
        const bool is_only_written = std::any_of(
            writes.begin(), writes.end(), [&](const EtTensor& written) { return written.storage == tensor.storage; });
        if (is_only_written) continue;  // `out` arguments
        Source(tensor);
        found = written_.find(tensor.storage);
      }
      inputs.push_back(fmt::format("{}:{}", specs_[found->second.op].name, found->second.output));
    }
    OpSpec spec;
    spec.kind = node.name;
    spec.name = NameOf(node.name);
    spec.inputs = std::move(inputs);
    spec.pass = PassOf(i);
    JsonObject attrs;
    AddMember(&attrs, "id", node.id);
    if (!node.kernel.empty()) AddMember(&attrs, "kernel_backend", node.kernel);
    if (!node.process_group.empty()) AddMember(&attrs, "process_group", node.process_group);
    const EtTensor* const any = !node.outputs.empty() ? &node.outputs[0]
                                : node.inputs.empty() ? nullptr
                                                      : &node.inputs[0];
    if (any != nullptr) AddMember(&attrs, "device", any->device);
    AddCall(node, &attrs);
    spec.attrs = JsonText(ToJson(std::move(attrs)));
    std::map<std::int64_t, std::size_t> outputs;  // of storages
    for (const EtTensor& tensor : writes) {
      const auto [output, added] = outputs.try_emplace(tensor.storage, spec.outputs.size());
      if (added) {
        spec.outputs.push_back(OutputOf(tensor));
      } else if (tensor.bytes > spec.outputs[output->second].size->count) {
        spec.outputs[output->second] = OutputOf(tensor);
      }
    }
    if (times_ && micros_[i] >= 0) {
      spec.kind_times.emplace_back(times_->device_kind, micros_[i]);
      ++timed_;
      timed_micros_ += micros_[i];
    }
    specs_.push_back(std::move(spec));
    for (const auto& [storage, output] : outputs) written_[storage] = {specs_.size() - 1, output};
  }

  static void AddCall(const EtNode& node, JsonObject* attrs) {
    if (node.call.empty()) return;
    JsonValue call = ParseJson(node.call);
    const auto shares = [&](const EtTensor& output) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](const EtTensor& input) { return input.storage == output.storage; });
    };
    const bool writes = std::find(node.is_mutated.begin(), node.is_mutated.end(), true) != node.is_mutated.end();
    // What it returns is what it was given: nothing was copied.
    if (!writes && !node.outputs.empty() && std::all_of(node.outputs.begin(), node.outputs.end(), shares)) {
      AddMember(attrs, "is_view", true);
    }
    bool on_host = false;
    bool on_device = false;
    for (const std::vector<EtTensor>* const side : {&node.inputs, &node.outputs}) {
      for (const EtTensor& tensor : *side) (tensor.device == "cpu" ? on_host : on_device) = true;
    }
    if (Holds(kCrossing, AtenName(node.name)) && on_host && on_device) AddMember(attrs, "crosses_devices", true);
    if (auto* const members = std::get_if<JsonObject>(&call.data)) {
      for (JsonMember& member : *members) attrs->push_back(std::move(member));
    }
  }

  // By the names of the calls around it.
  Pass PassOf(std::size_t i) {
    for (std::size_t steps = 0; steps < trace_.nodes.size(); ++steps) {
      const EtNode& node = trace_.nodes[i];
      if (node.name.starts_with("autograd::engine")) return Pass::kBackward;
      if (node.name.starts_with("Optimizer.step")) return Pass::kUpdate;
      const std::size_t parent = ParentOf(i);
      if (parent == kNoNode) break;
      i = parent;
    }
    return Pass::kForward;
  }

  const EtTrace& trace_;
  std::vector<bool> is_op_;
  std::optional<EtTimes> times_;
  std::vector<double> micros_;  // by node: with those inside an op
  std::vector<OpSpec> specs_;
  std::size_t num_sources_ = 0;
  std::unordered_map<std::int64_t, Written> written_;
  std::set<std::int64_t> mutated_;                           // storages that an op writes in place
  std::set<std::int64_t> sources_;                           // storages that are there before
  std::unordered_map<std::int64_t, std::size_t> positions_;  // of nodes, by id
  std::size_t timed_ = 0;
  double timed_micros_ = 0;
};

}  // namespace

std::vector<std::size_t> MutatedArguments(std::string_view schema) {
  std::vector<std::size_t> mutated;
  const std::size_t open = schema.find('(');
  if (open == std::string_view::npos) return mutated;
  std::size_t argument = 0;
  int depth = 0;
  bool is_mutated = false;
  bool is_empty = true;
  for (std::size_t i = open + 1; i < schema.size(); ++i) {
    const char c = schema[i];
    if (depth == 0 && (c == ',' || c == ')')) {
      if (is_mutated) mutated.push_back(argument);
      // "*" separates arguments by name and is none itself.
      if (!is_empty) ++argument;
      is_mutated = false;
      is_empty = true;
      if (c == ')') break;
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == '!') is_mutated = true;
    if (c != ' ' && c != '*') is_empty = false;
  }
  return mutated;
}

std::vector<bool> OpsOfTree(const EtTrace& trace) {
  std::unordered_map<std::int64_t, std::size_t> positions;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) positions[trace.nodes[i].id] = i;
  enum class Work : std::uint8_t { kNone, kIncidental, kOwn };
  std::vector<Work> below(trace.nodes.size(), Work::kNone);  // the most that a recorded part does
  std::vector<bool> works(trace.nodes.size());
  std::vector<std::size_t> parents(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const EtNode& node = trace.nodes[i];
    const auto parent = positions.find(node.parent);
    parents[i] = parent == positions.end() ? i : parent->second;
    const std::string_view aten = AtenName(node.name);
    works[i] = !node.kernel.empty() || (!node.schema.empty() && !Holds(kIdle, aten));
  }
  // Depth of each node, so that parts come before what holds them; a cycle of parents ends it.
  std::vector<std::size_t> order(trace.nodes.size());
  std::vector<std::size_t> depth(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    order[i] = i;
    std::size_t at = i;
    while (parents[at] != at && depth[i] < JsonBuilder::kMaxDepth * 64) {
      at = parents[at];
      ++depth[i];
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return depth[a] > depth[b]; });
  std::vector<bool> is_op(trace.nodes.size());
  for (const std::size_t i : order) {
    const std::string_view aten = AtenName(trace.nodes[i].name);
    if (works[i]) {
      is_op[i] =
          Holds(kWhole, aten) || below[i] == Work::kNone || (below[i] == Work::kIncidental && !Holds(kCopying, aten));
    }
    Work work = works[i] ? (Holds(kIncidental, aten) ? Work::kIncidental : Work::kOwn) : Work::kNone;
    work = std::max(work, below[i]);
    if (parents[i] != i) below[parents[i]] = std::max(below[parents[i]], work);
  }
  // What is inside an op is part of it.
  std::reverse(order.begin(), order.end());
  std::vector<bool> inside(trace.nodes.size());
  for (const std::size_t i : order) {
    if (parents[i] != i) inside[i] = inside[parents[i]] || is_op[parents[i]];
    if (inside[i]) is_op[i] = false;
  }
  return is_op;
}

EtTrace ReadEtTrace(std::istream& in) {
  EtTrace trace;
  const JsonValue empty{JsonList()};
  const JsonValue root =
      ParseJson(in, {.key = "nodes", .take = [&](const JsonObject&, std::size_t index, const JsonValue& element) {
                       const JsonNode parent(empty);
                       const JsonNode nodes(parent, "nodes", empty);
                       trace.nodes.push_back(ReadEtNode(JsonNode(nodes, index, element)));
                     }});
  const JsonNode node(root);
  trace.schema = TextAt(node, "schema");
  if (trace.schema.empty()) throw InputError("schema", "is missing (such as \"1.0.1\" or \"1.1.0-chakra.0.0.4\")");
  if (FindMember(root, "nodes") == nullptr) throw InputError("nodes", "is missing (a list of nodes)");
  std::stable_sort(trace.nodes.begin(), trace.nodes.end(),
                   [](const EtNode& a, const EtNode& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < trace.nodes.size(); ++i) {
    if (trace.nodes[i].id == trace.nodes[i - 1].id) {
      throw InputError("nodes", fmt::format("the id {} is that of two nodes (each id once)", trace.nodes[i].id));
    }
  }
  return trace;
}

EtTimes JoinTimes(const EtTrace& trace, const KinetoTrace& times) {
  EtTimes joined;
  joined.micros.assign(trace.nodes.size(), -1);
  joined.device_kind = KindOfGpu(times.gpus.empty() ? "" : times.gpus.begin()->second);
  // Device time of each op range of the Kineto trace, by event.
  const TraceStep step = AtPlace("--times", [&] { return RebuildStep({times}); });
  std::unordered_map<std::uint32_t, double> micros_of;
  for (const TraceStep::Activity& activity : step.activities) {
    const std::uint32_t source = step.ops[activity.last].source;
    if (source != TraceStep::kNone) {
      micros_of[source] += MicrosFromDuration(Duration(activity.end - activity.start));
    }
  }
  const auto time_of = [&](std::uint32_t event) {
    const auto found = micros_of.find(event);
    return found == micros_of.end() ? 0.0 : found->second;
  };
  std::unordered_map<std::int64_t, std::uint32_t> by_record;
  std::map<std::string_view, std::vector<std::uint32_t>> by_name;
  for (std::size_t i = 0; i < times.events.size(); ++i) {
    const TraceEvent& event = times.events[i];
    if (event.category != TraceCategory::kOp) continue;
    const std::int64_t record = times.details_of(event).record_function;
    if (record >= 0) by_record[record] = static_cast<std::uint32_t>(i);
    by_name[times.text(event.name)].push_back(static_cast<std::uint32_t>(i));
  }
  std::map<std::string_view, std::vector<std::size_t>> nodes;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) nodes[trace.nodes[i].name].push_back(i);
  std::size_t by_id = 0;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const auto found = by_record.find(trace.nodes[i].rf_id);
    if (found == by_record.end() || times.text(times.events[found->second].name) != trace.nodes[i].name) continue;
    joined.micros[i] = time_of(found->second);
    ++by_id;
  }
  joined.joined = by_id;
  joined.total_micros = MicrosFromDuration(Duration(step.activity_time));
  // Ids that agree with few names are those of another numbering.
  if (2 * by_id >= trace.nodes.size()) return joined;
  joined.micros.assign(trace.nodes.size(), -1);
  joined.joined = 0;
  // The trace holds the step so many times: what most of the nodes say.
  std::map<std::size_t, std::size_t> votes;
  for (const auto& [name, list] : nodes) {
    const auto found = by_name.find(name);
    if (found != by_name.end() && found->second.size() % list.size() == 0) {
      votes[found->second.size() / list.size()] += list.size();
    }
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t steps = most == votes.end() ? 1 : most->first;
  for (const auto& [name, list] : nodes) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.size() != steps * list.size()) continue;
    for (std::size_t k = 0; k < list.size(); ++k) {
      double sum = 0;
      for (std::size_t s = 0; s < steps; ++s) sum += time_of(found->second[s * list.size() + k]);
      joined.micros[list[k]] = sum / static_cast<double>(steps);
      ++joined.joined;
    }
  }
  joined.total_micros /= static_cast<double>(steps);
  return joined;
}

Imported MakeEtGraph(const EtTrace& trace, const KinetoTrace* times, double min_attributed) {
  return EtGraphMaker(trace, times).Make(min_attributed);
}

bool LooksLikePyTorchEt(std::string_view head) {
  return StartsAnObject(head) && head.find("\"nodes\"") != std::string_view::npos &&
         (head.find("\"rf_id\"") != std::string_view::npos || head.find("execution_graph") != std::string_view::npos ||
          head.find("execution_trace") != std::string_view::npos);
}

Imported ImportPyTorchEt(std::span<const ImportSource> sources, const ImportOptions& options) {
  const ImportSource& source = sources.front();
  std::optional<KinetoTrace> times;
  if (!options.times.empty()) {
    const ImportSource file(options.times);
    times = AtPlace(options.times, [&] {
      const auto in = file.Open();
      return ReadKinetoTrace(*in);
    });
  }
  return AtPlace(source.name(), [&] {
    const auto in = source.Open();
    return MakeEtGraph(ReadEtTrace(*in), times ? &*times : nullptr, options.min_attributed_percent);
  });
}

}  // namespace emplace::datasets
