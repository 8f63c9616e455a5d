#include "datasets/importers/pytorch_et.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/kineto.h"
#include "datasets/importers/text_pool.h"
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
// Operators that may move data between the host and a device.
constexpr std::string_view kCrossing[] = {"to", "_to_copy", "copy_", "item", "_local_scalar_dense", "pin_memory"};
// Ops with kernels of their own beside those of recorded parts.
constexpr std::string_view kWholeOps[] = {"convolution_backward", "native_layer_norm_backward"};

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

std::int64_t IntegerAt(const JsonNode& node, std::string_view key) {
  return NeedMember(node, key, "an integer").Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
}

const std::string& TextAt(const JsonNode& node, std::string_view key) {
  static const std::string none;
  const JsonValue* const value = FindMember(node.value(), key);
  return value == nullptr ? none : JsonNode(node, key, *value).Text();
}

// One side of a node, its inputs or outputs, or null if it has no such list. In old schemas the side is the list of
// values, and the other lists are members of the node.
struct EtSide {
  std::string_view name;       // "inputs"
  std::string_view types_key;  // "types", or "input_types"
  const JsonValue* side = nullptr;
  const JsonValue* values = nullptr;
  const JsonValue* types = nullptr;
  const JsonValue* shapes = nullptr;

  bool is_new() const { return values != side; }
};

const JsonList* ListOf(const JsonValue* value) { return value == nullptr ? nullptr : value->As<JsonList>(); }

const JsonValue* ElementAt(const JsonList* list, std::size_t i) {
  return list != nullptr && i < list->size() ? &(*list)[i] : nullptr;
}

EtSide SideOf(const JsonNode& node, std::string_view name, std::string_view types_key, std::string_view shapes_key) {
  EtSide side{.name = name, .types_key = types_key, .side = FindMember(node.value(), name)};
  if (side.side == nullptr) return side;
  if (side.side->As<JsonObject>() != nullptr) {
    side.types_key = "types";
    side.values = FindMember(*side.side, "values");
    side.types = FindMember(*side.side, "types");
    side.shapes = FindMember(*side.side, "shapes");
  } else {
    side.values = side.side;
    side.types = FindMember(node.value(), types_key);
    side.shapes = FindMember(node.value(), shapes_key);
  }
  return side;
}

// Shapes, types and values of a side, by position, as members of an object: what cost models read of a call
// (sim/ops/aten_call.h). Values of tensors are addresses, so they are left out.
void AppendCall(const EtSide& side, std::string_view prefix, std::string* out) {
  const JsonList* const values = ListOf(side.values);
  const JsonList* const types = ListOf(side.types);
  if (values == nullptr || types == nullptr) return;
  const auto append_list = [&](std::string_view key, const auto& append) {
    if (!out->empty()) out->push_back(',');
    out->append(1, '"').append(prefix).append(key).append("\":[");
    for (std::size_t i = 0; i < types->size(); ++i) {
      if (i > 0) out->push_back(',');
      const auto* const type = (*types)[i].As<std::string>();
      append(i, type == nullptr ? std::string_view() : std::string_view(*type));
    }
    out->push_back(']');
  };
  const auto is_tensor = [](std::string_view type) { return type.find("Tensor(") != std::string_view::npos; };
  append_list("_dims", [&](std::size_t i, std::string_view type) {
    const JsonValue* const shape = is_tensor(type) ? ElementAt(ListOf(side.shapes), i) : nullptr;
    if (ListOf(shape) != nullptr) {
      AppendJson(out, *shape);
    } else {
      out->append("[]");
    }
  });
  append_list("_types", [&](std::size_t, std::string_view type) { AppendQuoted(out, type); });
  if (side.name != "inputs") return;
  append_list("_values", [&](std::size_t i, std::string_view type) {
    const JsonValue* const value = is_tensor(type) ? nullptr : ElementAt(values, i);
    AppendJson(out, value == nullptr ? JsonValue{std::monostate()} : *value);
  });
}

// Takes the nodes of a trace one by one.
class EtReader {
 public:
  EtTrace Read(std::istream& in) {
    const JsonValue empty{JsonList()};
    const JsonValue root = ParseJson(in,
                                     {.key = "nodes",
                                      .take =
                                          [&](const JsonObject&, std::size_t index, const JsonValue& element) {
                                            const JsonNode parent(empty);
                                            const JsonNode nodes(parent, "nodes", empty);
                                            ReadNode(JsonNode(nodes, index, element));
                                          }},
                                     JsonLimitsOf(InputKind::kPyTorchTrace));
    const JsonNode node(root);
    trace_.schema = TextAt(node, "schema");
    if (trace_.schema.empty()) throw InputError("schema", "is missing (such as \"1.0.1\" or \"1.1.0-chakra.0.0.4\")");
    if (FindMember(root, "nodes") == nullptr) throw InputError("nodes", "is missing (a list of nodes)");
    trace_.texts = texts_.Take();
    trace_.shapes.resize(shapes_.size());
    for (const auto& [shape, number] : shapes_) trace_.shapes[number] = shape;
    SortNodes();
    return std::move(trace_);
  }

 private:
  struct HashOfShape {
    std::size_t operator()(const std::vector<std::int64_t>& shape) const {
      return std::hash<std::string_view>()(
          {reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(shape[0])});
    }
  };

  void ReadNode(const JsonNode& json) {
    json.Object();
    EtNode node;
    node.id = IntegerAt(json, "id");
    const std::string& name = TextAt(json, "name");
    if (name.empty()) throw InputError(PlaceOfKey(json.Place(), "name"), "is missing (a string)");
    std::string_view schema;
    if (const JsonValue* const attrs = FindMember(json.value(), "attrs")) {
      node.parent = IntegerAt(json, "ctrl_deps");
      const JsonNode at(json, "attrs", *attrs);
      const JsonList& list = at.List("a list of attributes");
      for (std::size_t i = 0; i < list.size(); ++i) {
        const JsonNode attr(at, i, list[i]);
        const std::string& key = TextAt(attr, "name");
        if (key == "rf_id") node.rf_id = IntegerAt(attr, "value");
        if (key == "op_schema") schema = TextAt(attr, "value");
        if (key == "kernel_backend") node.kernel = texts_.Id(TextAt(attr, "value"));
        if (key == "pg_name") node.process_group = texts_.Id(TextAt(attr, "value"));
      }
    } else {
      node.parent = IntegerAt(json, "parent");
      node.rf_id = IntegerAt(json, "rf_id");
      schema = TextAt(json, "op_schema");
    }
    node.has_schema = !schema.empty();
    node.name = texts_.Id(name);
    const EtSide inputs = SideOf(json, "inputs", "input_types", "input_shapes");
    const EtSide outputs = SideOf(json, "outputs", "output_types", "output_shapes");
    // Collectives write to what they are given, and say so by their names only: allreduce_, alltoall_base_.
    mutated_ = MutatedArguments(schema);
    if (name.starts_with("c10d::")) mutated_.push_back(0);
    node.first_input = NextTensor();
    ReadTensors(json, inputs);
    node.first_output = NextTensor();
    ReadTensors(json, outputs);
    node.end_output = NextTensor();
    if (node.has_schema || node.kernel != 0) {
      call_.clear();
      AppendCall(inputs, "input", &call_);
      AppendCall(outputs, "output", &call_);
      node.call = texts_.Id(call_);
    }
    trace_.nodes.push_back(node);
  }

  // The tensors among the values of a side, those in lists too.
  void ReadTensors(const JsonNode& node, const EtSide& side) {
    static const JsonValue empty{JsonList()};
    if (side.values == nullptr || (side.is_new() && side.types == nullptr)) return;
    const JsonNode at(node, side.name, *side.side);
    const JsonNode values = side.is_new() ? JsonNode(at, "values", *side.values) : at;
    const JsonNode types(side.is_new() ? at : node, side.types_key, side.types == nullptr ? empty : *side.types);
    const JsonList& list = values.List("a list of values");
    const JsonList& type_list = types.List("a list of types");
    const JsonList* const shapes = ListOf(side.shapes);
    for (std::size_t i = 0; i < list.size() && i < type_list.size(); ++i) {
      const std::string& type = JsonNode(types, i, type_list[i]).Text();
      const JsonNode value(values, i, list[i]);
      const JsonValue* const shape = ElementAt(shapes, i);
      // The arguments of an op may be written to.
      const bool is_mutated = side.name == "inputs" && std::find(mutated_.begin(), mutated_.end(), i) != mutated_.end();
      if (ReadTensor(value, shape, type, is_mutated)) continue;
      const auto* const elements = list[i].As<JsonList>();
      if (elements == nullptr || !type.starts_with("GenericList[")) continue;
      const std::vector<std::string_view> element_types = ElementTypes(type);
      for (std::size_t k = 0; k < elements->size() && k < element_types.size(); ++k) {
        ReadTensor(JsonNode(value, k, (*elements)[k]), ElementAt(ListOf(shape), k), element_types[k], is_mutated);
      }
    }
  }

  // Adds a value that is a tensor by its type. False: it is another, or a tensor that was not set.
  bool ReadTensor(const JsonNode& value, const JsonValue* shape, std::string_view type, bool is_mutated) {
    if (!type.starts_with("Tensor(")) return false;
    const auto* tuple = value.value().As<JsonList>();
    constexpr std::size_t kParts = 6;
    if (tuple == nullptr) return false;
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
    tensor.device = texts_.Id(JsonNode(value, 5, (*tuple)[5]).Text());
    tensor.dtype = TypeFrom(type);
    tensor.is_mutated = is_mutated;
    shape_.clear();
    if (const JsonList* const dims = ListOf(shape)) {
      for (const JsonValue& dim : *dims) {
        const auto* size = dim.As<std::int64_t>();
        if (size == nullptr || *size < 0) break;  // not a shape: the size is known all the same
        shape_.push_back(*size);
      }
    }
    tensor.shape = shapes_.try_emplace(shape_, static_cast<std::uint32_t>(shapes_.size())).first->second;
    trace_.tensors.push_back(tensor);
    return true;
  }

  std::uint32_t NextTensor() const {
    EMPLACE_CHECK_LT(trace_.tensors.size(), std::size_t{EtTrace::kInvalidNode});
    return static_cast<std::uint32_t>(trace_.tensors.size());
  }

  void SortNodes() {
    std::vector<EtNode>& nodes = trace_.nodes;
    const auto is_less = [](const EtNode& a, const EtNode& b) { return a.id < b.id; };
    std::stable_sort(nodes.begin(), nodes.end(), is_less);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].id == nodes[i - 1].id) {
        throw InputError("nodes", fmt::format("the id {} is that of two nodes (each id once)", nodes[i].id));
      }
    }
    trace_.parents.reserve(nodes.size());
    for (const EtNode& node : nodes) {
      const auto parent = std::lower_bound(nodes.begin(), nodes.end(), EtNode{.id = node.parent}, is_less);
      const bool is_there = parent != nodes.end() && parent->id == node.parent && node.parent != node.id;
      trace_.parents.push_back(is_there ? static_cast<std::uint32_t>(parent - nodes.begin()) : EtTrace::kInvalidNode);
    }
  }

  EtTrace trace_;
  TextPool texts_;
  std::unordered_map<std::vector<std::int64_t>, std::uint32_t, HashOfShape> shapes_ = {{{}, 0}};
  // The node that is being read.
  std::vector<std::size_t> mutated_;
  std::vector<std::int64_t> shape_;
  std::string call_;
};

class EtGraphMaker {
 public:
  EtGraphMaker(const EtTrace& trace, const KinetoTrace* times) : trace_(trace), is_op_(OpsOfTree(trace)) {
    if (times == nullptr) return;
    times_ = JoinTimes(trace, *times);
    // Everything that runs inside an op is part of it.
    micros_ = times_->micros;
    for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
      if (times_->micros[i] < 0 || is_op_[i]) continue;
      std::uint32_t at = trace.parents[i];
      bool is_inside = false;
      for (std::size_t steps = 0; at != EtTrace::kInvalidNode && steps < trace.nodes.size(); ++steps) {
        if (is_op_[at]) {
          micros_[at] = std::max(0.0, micros_[at]) + times_->micros[i];
          is_inside = true;
          break;
        }
        at = trace.parents[at];
      }
      // On a host, views and the calls around ops take time too, which no op has.
      if (times_->is_host && !is_inside) times_->total_micros -= times_->micros[i];
    }
  }

  Imported Make(double min_attributed) {
    FindLaterWrites();
    builder_.Reserve(static_cast<std::size_t>(std::count(is_op_.begin(), is_op_.end(), true)) + sources_.size());
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      if (is_op_[i]) AddOp(i);
    }
    const std::size_t num_ops = num_added_ - num_sources_;
    if (num_ops == 0) throw InputError("nodes", "hold no op");
    JsonObject metadata;
    AddMember(&metadata, "source", "pytorch-et");
    AddMember(&metadata, "schema", trace_.schema);
    builder_.SetMetadata(JsonText(ToJson(std::move(metadata))));
    Imported imported{.graph = builder_.Build(), .cluster = std::nullopt, .notes = {}};
    imported.notes.push_back(fmt::format("schema {}: {} of {} nodes are ops; {} tensors were there before",
                                         trace_.schema, num_ops, trace_.nodes.size(), num_sources_));
    if (times_) {
      const double percent = times_->total_micros > 0 ? 100 * timed_micros_ / times_->total_micros : 0;
      if (percent < min_attributed) {
        throw InputError(
            "nodes", fmt::format("only {:.1f} % of the {:.3f} ms of {} time belong to an op, {} of {} nodes "
                                 "joined (at least {} %; --min-attributed lowers that)",
                                 percent, times_->total_micros / 1000, TimeOf(), times_->joined, trace_.nodes.size(),
                                 NumberText(min_attributed)));
      }
      imported.attributed_percent = percent;
      imported.notes.push_back(fmt::format("attributed: {:.1f} % of {:.3f} ms of {} time; {} of {} ops have a time",
                                           percent, times_->total_micros / 1000, TimeOf(), timed_, num_ops));
    }
    return imported;
  }

 private:
  std::string_view TimeOf() const { return times_->is_host ? "host" : "device"; }

  std::vector<EtTensor> Writes(const EtNode& node) const {
    const auto outputs = trace_.outputs(node);
    std::vector<EtTensor> writes(outputs.begin(), outputs.end());
    for (const EtTensor& input : trace_.inputs(node)) {
      // A compiled kernel says nothing of what it writes: what nobody has written before.
      const bool is_new = node.kernel != 0 && !written_.contains(input.storage) && !sources_.contains(input.storage);
      if ((input.is_mutated || is_new) && !HoldStorage(writes, input.storage)) writes.push_back(input);
    }
    return writes;
  }

  void FindLaterWrites() {
    std::unordered_set<std::int64_t> made;
    for (const EtNode& node : trace_.nodes) {
      for (const EtTensor& tensor : trace_.outputs(node)) made.insert(tensor.storage);
    }
    // In the order of calls: what a compiled kernel is the first to name was not there before, as far as we know.
    std::unordered_set<std::int64_t> named_by_kernels;
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      const EtNode& node = trace_.nodes[i];
      for (const EtTensor& input : trace_.inputs(node)) {
        if (is_op_[i] && input.is_mutated) mutated_.insert(input.storage);
        if (made.contains(input.storage) || sources_.contains(input.storage)) continue;
        if (node.kernel != 0) {
          named_by_kernels.insert(input.storage);
        } else if (!named_by_kernels.contains(input.storage)) {
          sources_.insert(input.storage);
        }
      }
    }
  }

  std::string NameOf(std::string_view what) { return fmt::format("{:07} {}", num_added_, WithoutColons(what)); }

  // Returns its position.
  std::uint32_t Add(const OpSpec& spec) {
    builder_.Add(spec);
    return static_cast<std::uint32_t>(num_added_++);
  }

  OutputSpec OutputOf(const EtTensor& tensor) const {
    OutputSpec output;
    const std::vector<std::int64_t>& shape = trace_.shapes[tensor.shape];
    output.size = Bytes{tensor.bytes};
    std::int64_t bytes = ElementBytes(tensor.dtype);
    for (const std::int64_t dim : shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) bytes = -1;
    }
    // A view that repeats elements has fewer bytes than its shape.
    if (tensor.dtype != DType::kNone && bytes == tensor.bytes) {
      output.dtype = tensor.dtype;
      output.shape = shape;
    }
    return output;
  }

  OutputPosition Source(const EtTensor& tensor) {
    OpSpec spec;
    const bool is_variable = mutated_.contains(tensor.storage);
    spec.kind = is_variable ? "variable" : "input";
    spec.name = NameOf(fmt::format("{} {}", spec.kind, tensor.storage));
    spec.outputs.push_back(OutputOf(tensor));
    spec.pass = Pass::kForward;
    ++num_sources_;
    return written_[tensor.storage] = {.op = Add(spec), .output = 0};
  }

  void AddOp(std::size_t i) {
    const EtNode& node = trace_.nodes[i];
    const std::vector<EtTensor> writes = Writes(node);
    OpSpec spec;
    for (const EtTensor& tensor : trace_.inputs(node)) {
      const auto found = written_.find(tensor.storage);
      if (found != written_.end()) {
        spec.input_positions.push_back(found->second);
      } else if (!HoldStorage(writes, tensor.storage)) {  // not an `out` argument
        spec.input_positions.push_back(Source(tensor));
      }
    }
    spec.kind = trace_.name(i);
    spec.name = NameOf(spec.kind);
    spec.pass = PassOf(i);
    JsonObject attrs;
    AddMember(&attrs, "id", node.id);
    if (node.kernel != 0) AddMember(&attrs, "kernel_backend", trace_.text(node.kernel));
    if (node.process_group != 0) AddMember(&attrs, "process_group", trace_.text(node.process_group));
    // Outputs come behind inputs.
    const std::uint32_t any = node.first_output < node.end_output ? node.first_output : node.first_input;
    if (any < node.end_output) AddMember(&attrs, "device", trace_.text(trace_.tensors[any].device));
    AddTraits(i, &attrs);
    spec.attrs = JsonText(ToJson(std::move(attrs)));
    const std::string_view call = trace_.text(node.call);
    if (!call.empty()) {
      spec.attrs.back() = ',';
      spec.attrs.append(call).push_back('}');
    }
    std::map<std::int64_t, std::uint32_t> outputs;  // writers, by storage
    for (const EtTensor& tensor : writes) {
      const auto [output, added] = outputs.try_emplace(tensor.storage, static_cast<std::uint32_t>(spec.outputs.size()));
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
    const std::uint32_t op = Add(spec);
    for (const auto& [storage, output] : outputs) written_[storage] = {.op = op, .output = output};
  }

  static bool HoldStorage(std::span<const EtTensor> tensors, std::int64_t storage) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [storage](const EtTensor& tensor) { return tensor.storage == storage; });
  }

  // Properties of a call that follow from its tensors, other than their sizes.
  void AddTraits(std::size_t i, JsonObject* attrs) const {
    const auto inputs = trace_.inputs(trace_.nodes[i]);
    const auto outputs = trace_.outputs(trace_.nodes[i]);
    const bool writes =
        std::any_of(inputs.begin(), inputs.end(), [](const EtTensor& input) { return input.is_mutated; });
    // It returns its argument: nothing was copied.
    if (!writes && !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [&](const EtTensor& output) {
          return HoldStorage(inputs, output.storage);
        })) {
      AddMember(attrs, "is_view", true);
    }
    if (!Holds(kCrossing, AtenName(trace_.name(i)))) return;
    bool on_host = false;
    bool on_device = false;
    for (const auto side : {inputs, outputs}) {
      for (const EtTensor& tensor : side) (trace_.text(tensor.device) == "cpu" ? on_host : on_device) = true;
    }
    if (on_host && on_device) AddMember(attrs, "crosses_devices", true);
  }

  // By the names of the calls around it.
  Pass PassOf(std::size_t i) const {
    std::size_t at = i;
    for (std::size_t steps = 0; steps < trace_.nodes.size(); ++steps) {
      const std::string_view name = trace_.name(at);
      if (name.starts_with("autograd::engine")) return Pass::kBackward;
      if (name.starts_with("Optimizer.step")) return Pass::kUpdate;
      if (trace_.parents[at] == EtTrace::kInvalidNode) break;
      at = trace_.parents[at];
    }
    return Pass::kForward;
  }

  const EtTrace& trace_;
  std::vector<bool> is_op_;
  std::optional<EtTimes> times_;
  std::vector<double> micros_;  // indexed by node: with those inside an op
  GraphBuilder builder_{"pytorch-et"};
  std::size_t num_added_ = 0;  // number of ops added to builder_
  std::size_t num_sources_ = 0;
  std::unordered_map<std::int64_t, OutputPosition> written_;  // the output that holds the content of a storage
  std::unordered_set<std::int64_t> mutated_;                  // storages that an op writes in place
  std::unordered_set<std::int64_t> sources_;                  // storages that are there before
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

bool IsPartOfOperator(std::string_view caller, std::string_view called) {
  if (Holds(kIdle, AtenName(called)) || Holds(kWholeOps, AtenName(caller))) return true;
  return Holds(kIncidental, AtenName(called)) && !Holds(kCopying, AtenName(caller));
}

std::vector<bool> OpsOfTree(const EtTrace& trace) {
  enum class Work : std::uint8_t { kNone, kIncidental, kOwn };
  std::vector<Work> below(trace.nodes.size(), Work::kNone);  // the most that a recorded part does
  std::vector<bool> works(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const EtNode& node = trace.nodes[i];
    works[i] = node.kernel != 0 || (node.has_schema && !Holds(kIdle, AtenName(trace.name(i))));
  }
  // Depth of each node, so that parts come before what holds them; a cycle of parents ends it.
  std::vector<std::size_t> order(trace.nodes.size());
  std::vector<std::size_t> depth(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    order[i] = i;
    std::size_t at = i;
    while (trace.parents[at] != EtTrace::kInvalidNode && depth[i] < JsonBuilder::kMaxDepth * 64) {
      at = trace.parents[at];
      ++depth[i];
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return depth[a] > depth[b]; });
  std::vector<bool> is_op(trace.nodes.size());
  for (const std::size_t i : order) {
    const std::string_view aten = AtenName(trace.name(i));
    if (works[i]) {
      is_op[i] = Holds(kWholeOps, aten) || below[i] == Work::kNone ||
                 (below[i] == Work::kIncidental && !Holds(kCopying, aten));
    }
    Work work = works[i] ? (Holds(kIncidental, aten) ? Work::kIncidental : Work::kOwn) : Work::kNone;
    work = std::max(work, below[i]);
    const std::uint32_t parent = trace.parents[i];
    if (parent != EtTrace::kInvalidNode) below[parent] = std::max(below[parent], work);
  }
  // Everything inside an op is part of it.
  std::reverse(order.begin(), order.end());
  std::vector<bool> inside(trace.nodes.size());
  for (const std::size_t i : order) {
    const std::uint32_t parent = trace.parents[i];
    if (parent != EtTrace::kInvalidNode) inside[i] = inside[parent] || is_op[parent];
    if (inside[i]) is_op[i] = false;
  }
  return is_op;
}

EtTrace ReadEtTrace(std::istream& in) { return EtReader().Read(in); }

EtTimes JoinTimes(const EtTrace& trace, const KinetoTrace& times) {
  EtTimes joined;
  joined.micros.assign(trace.nodes.size(), -1);
  joined.is_host = HoldsOpsAlone(times);
  joined.device_kind =
      joined.is_host ? kTraceThreadKind : KindOfGpu(times.gpus.empty() ? "" : times.gpus.begin()->second);
  // Device time of each op range of the Kineto trace, by event.
  const TraceStep step = WithLocation("--times", [&] { return RebuildStep({times}, "all"); });
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
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) nodes[trace.name(i)].push_back(i);
  std::size_t by_id = 0;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const auto found = by_record.find(trace.nodes[i].rf_id);
    if (found == by_record.end() || times.text(times.events[found->second].name) != trace.name(i)) continue;
    joined.micros[i] = time_of(found->second);
    ++by_id;
  }
  joined.joined = by_id;
  joined.total_micros = MicrosFromDuration(Duration(step.activity_time));
  // Ids that agree with few names are those of another numbering.
  if (2 * by_id >= trace.nodes.size()) return joined;
  joined.micros.assign(trace.nodes.size(), -1);
  joined.joined = 0;
  // How many times the trace holds the step: what most of the nodes say.
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
    times = WithLocation(options.times, [&] { return ReadKinetoTrace(file); });
  }
  return WithLocation(source.name(), [&] {
    const auto in = source.Open(InputKind::kPyTorchTrace);
    return MakeEtGraph(ReadEtTrace(*in), times ? &*times : nullptr, options.min_attributed_percent);
  });
}

}  // namespace emplace::datasets
