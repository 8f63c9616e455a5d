#include "sim/formats/graph_json.h"

#include <istream>
#include <ostream>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

constexpr std::string_view kGraphSchema = "emplace.graph";
constexpr std::string_view kSizeAllowed = "an integer from 0 to 2^62 - 1";
constexpr std::string_view kTimeAllowed = "a number of us, or an object with one for each device kind";

std::vector<std::string> ReadNames(const JsonNode& node, std::string_view allowed) {
  std::vector<std::string> names;
  const JsonList& list = node.List("a list of strings");
  names.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) names.push_back(JsonNode(node, i, list[i]).Text(allowed));
  return names;
}

DType ReadDType(const JsonNode& node) {
  constexpr std::string_view kAllowed = "bool, u4, i4, i8, u8, i16, f8e4m3, f8e5m2, f16, bf16, i32, f32, i64 or f64";
  const auto dtype = DTypeFromName(node.Text(kAllowed));
  if (!dtype) node.Refuse(kAllowed);
  return *dtype;
}

OutputSpec ReadOutput(const JsonNode& node) {
  OutputSpec output;
  if (node.value().As<JsonObject>() == nullptr) {
    output.size = Bytes{node.Integer(0, kMaxJsonInteger, "a size in bytes, or an object with dtype and shape")};
    return output;
  }
  const JsonFields fields(node, {"dtype", "shape", "bytes"});
  const auto dtype = fields.Find("dtype");
  const auto shape = fields.Find("shape");
  const auto bytes = fields.Find("bytes");
  if (dtype) output.dtype = ReadDType(*dtype);
  if (shape) {
    const JsonList& dims = shape->List("a list of integers >= 0");
    output.shape.reserve(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      output.shape.push_back(JsonNode(*shape, i, dims[i]).Integer(0, kMaxJsonInteger, kSizeAllowed));
    }
  }
  if (bytes) output.size = Bytes{bytes->Integer(0, kMaxJsonInteger, kSizeAllowed)};
  if (!bytes && !(dtype && shape)) throw InputError(node.Place(), "has no size (bytes, or dtype and shape)");
  return output;
}

void ReadTimes(const JsonNode& node, std::optional<double>* micros,
               std::vector<std::pair<std::string, double>>* kind_times) {
  const auto* kinds = node.value().As<JsonObject>();
  if (kinds == nullptr) {
    const bool is_number = node.value().As<std::string>() == nullptr && node.value().As<JsonList>() == nullptr;
    *micros = node.Number(0, kMaxJsonMicros, is_number ? std::string_view() : kTimeAllowed);
    return;
  }
  for (const JsonMember& member : *kinds) {
    kind_times->emplace_back(member.key, JsonNode(node, member.key, member.value).Number(0, kMaxJsonMicros));
  }
}

std::string ReadAttrs(const JsonNode& node) {
  std::string attrs;
  if (!node.Object().empty()) AppendJson(&attrs, node.value());
  return attrs;
}

OpSpec ReadOp(const JsonNode& node) {
  const JsonFields fields(
      node, {"name", "kind", "inputs", "control_inputs", "outputs", "attrs", "flop", "temp_bytes", "persistent_bytes",
             "time_us", "host_us", "device_us", "pass", "layer", "colocate_with"});
  OpSpec spec;
  spec.name = fields.Get("name", "a string").Text();
  spec.kind = fields.Get("kind", "a string").Text();
  if (const auto field = fields.Find("inputs")) spec.inputs = ReadNames(*field, "PRODUCER:OUTPUT_INDEX");
  if (const auto field = fields.Find("control_inputs")) spec.control_inputs = ReadNames(*field, "the name of an op");
  if (const auto field = fields.Find("outputs")) {
    const JsonList& list = field->List("a list of outputs");
    spec.outputs.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) spec.outputs.push_back(ReadOutput(JsonNode(*field, i, list[i])));
  }
  if (const auto field = fields.Find("attrs")) spec.attrs = ReadAttrs(*field);
  if (const auto field = fields.Find("flop")) spec.flop = field->Number(0, kMaxFlop);
  if (const auto field = fields.Find("temp_bytes")) spec.temp = {field->Integer(0, kMaxJsonInteger, kSizeAllowed)};
  if (const auto field = fields.Find("persistent_bytes")) {
    spec.persistent = {field->Integer(0, kMaxJsonInteger, kSizeAllowed)};
  }
  if (const auto field = fields.Find("time_us")) ReadTimes(*field, &spec.time_micros, &spec.kind_times);
  if (const auto field = fields.Find("host_us")) spec.host_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("device_us")) ReadTimes(*field, &spec.device_micros, &spec.device_kind_times);
  if (const auto field = fields.Find("pass")) {
    constexpr std::string_view kAllowed = "forward, backward or update";
    const auto pass = PassFromName(field->Text(kAllowed));
    if (!pass) field->Refuse(kAllowed);
    spec.pass = *pass;
  }
  if (const auto field = fields.Find("layer")) spec.layer = field->Text();
  if (const auto field = fields.Find("colocate_with")) {
    spec.colocate_with = field->Text("the name of an op");
    if (spec.colocate_with.empty()) field->Refuse("the name of an op");
  }
  return spec;
}

void CheckGraphLimit(std::size_t count, std::size_t most, std::size_t index, const char* what) {
  if (count <= most) return;
  throw InputError("ops[" + std::to_string(index) + "]",
                   "there are too many " + std::string(what) + " (at most " + std::to_string(most) + ")");
}

Graph ReadGraphFrom(std::istream& in, const GraphLimits& limits) {
  GraphBuilder builder("");
  std::size_t outputs = 0;
  std::size_t reads = 0;
  const JsonValue empty{JsonList()};
  const JsonValue root =
      ParseJson(in,
                {.key = "ops",
                 .take =
                     [&](const JsonObject& so_far, std::size_t index, const JsonValue& element) {
                       // A file of another kind is called that before its ops are looked at.
                       if (index == 0) CheckSchema(JsonNode(JsonValue{so_far}), kGraphSchema, /*complete=*/false);
                       const JsonNode parent(empty);
                       const JsonNode ops(parent, "ops", empty);
                       const OpSpec spec = ReadOp(JsonNode(ops, index, element));
                       builder.Add(spec);
                       CheckGraphLimit(index + 1, limits.ops, index, "ops");
                       CheckGraphLimit(outputs += spec.outputs.size(), limits.outputs, index, "outputs of ops");
                       CheckGraphLimit(reads += spec.inputs.size() + spec.control_inputs.size(), limits.reads, index,
                                       "inputs of ops");
                     }},
                JsonLimitsOf(InputKind::kGraph));
  const JsonNode node(root);
  CheckSchema(node, kGraphSchema);
  const JsonFields fields(node, {"schema", "version", "name", "metadata", "ops"});
  if (const auto ops = fields.Find("ops")) ops->List("a list of ops");
  if (const auto name = fields.Find("name")) builder.SetName(name->Text());
  if (const auto metadata = fields.Find("metadata")) builder.SetMetadata(ReadAttrs(*metadata));
  return builder.Build();
}

// Puts one op of a graph into JSON.
class OpWriter {
 public:
  explicit OpWriter(const Graph& graph) : graph_(graph) {}

  void Append(std::string* out, OpId id) {
    const Op& op = graph_.op(id);
    out->append("{\"name\": ");
    AppendQuoted(out, op.name);
    out->append(", \"kind\": ");
    AppendQuoted(out, op.kind);
    AppendInputs(out, id);
    AppendOutputs(out, id);
    if (!op.attrs.empty()) out->append(", \"attrs\": ").append(Attrs(op.attrs));
    if (op.flop != 0) AppendNumber(Key(out, "flop"), op.flop);
    if (op.temp.count != 0) AppendNumber(Key(out, "temp_bytes"), op.temp.count);
    if (op.persistent.count != 0) AppendNumber(Key(out, "persistent_bytes"), op.persistent.count);
    AppendTimes(out, op);
    if (op.pass != Pass::kNone) AppendQuoted(Key(out, "pass"), Name(op.pass));
    if (!op.layer.empty()) AppendQuoted(Key(out, "layer"), op.layer);
    if (op.colocate_with) AppendQuoted(Key(out, "colocate_with"), graph_.op(*op.colocate_with).name);
    out->push_back('}');
  }

 private:
  static std::string* Key(std::string* out, std::string_view key) {
    out->append(", \"").append(key).append("\": ");
    return out;
  }

  void AppendInputs(std::string* out, OpId id) const {
    std::string_view separator = ", \"inputs\": [";
    for (const TensorId input : graph_.inputs(id)) {
      const Tensor& tensor = graph_.tensor(input);
      out->append(separator);
      AppendQuoted(out, std::string(graph_.op(tensor.producer).name) + ":" + std::to_string(tensor.output_index));
      separator = ", ";
    }
    if (!graph_.inputs(id).empty()) out->push_back(']');
    separator = ", \"control_inputs\": [";
    for (const OpId producer : graph_.control_inputs(id)) {
      out->append(separator);
      AppendQuoted(out, graph_.op(producer).name);
      separator = ", ";
    }
    if (!graph_.control_inputs(id).empty()) out->push_back(']');
  }

  void AppendOutputs(std::string* out, OpId id) const {
    if (graph_.num_outputs(id) == 0) return;
    std::string_view separator = ", \"outputs\": [";
    for (std::size_t k = 0; k < graph_.num_outputs(id); ++k) {
      out->append(separator);
      AppendOutput(out, graph_.tensor(MakeId<TensorId>(Index(graph_.first_output(id)) + k)));
      separator = ", ";
    }
    out->push_back(']');
  }

  static void AppendOutput(std::string* out, const Tensor& tensor) {
    if (tensor.dtype == DType::kNone && tensor.shape.empty()) return AppendNumber(out, tensor.size.count);
    // The size is left out where it follows. A scalar of another size than its dtype's is a tensor of unknown shape.
    const bool follows = tensor.dtype != DType::kNone && TensorBytes(tensor.dtype, tensor.shape, "") == tensor.size;
    std::string_view separator = "{";
    if (tensor.dtype != DType::kNone) {
      AppendQuoted(&out->append("{\"dtype\": "), Name(tensor.dtype));
      separator = ", ";
    }
    if (follows || !tensor.shape.empty()) {
      out->append(separator).append("\"shape\": [");
      separator = ", ";
      for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        if (i > 0) out->append(", ");
        AppendNumber(out, tensor.shape[i]);
      }
      out->push_back(']');
    }
    if (!follows) AppendNumber(&out->append(separator).append("\"bytes\": "), tensor.size.count);
    out->push_back('}');
  }

  static void AppendTimes(std::string* out, std::string_view key, const std::optional<double>& micros,
                          std::span<const KindTime> kind_times) {
    if (micros) return AppendNumber(Key(out, key), *micros);
    if (kind_times.empty()) return;
    Key(out, key)->push_back('{');
    std::string_view separator;
    for (const KindTime& time : kind_times) {
      AppendQuoted(&out->append(separator), time.kind);
      AppendNumber(&out->append(": "), time.micros);
      separator = ", ";
    }
    out->push_back('}');
  }

  static void AppendTimes(std::string* out, const Op& op) {
    AppendTimes(out, "time_us", op.time_micros, op.kind_times);
    if (op.queue_times == nullptr) return;
    if (op.queue_times->host_micros) AppendNumber(Key(out, "host_us"), *op.queue_times->host_micros);
    AppendTimes(out, "device_us", op.queue_times->device_micros, op.queue_times->device_kind_times);
  }

  // The attrs as the reader would keep them, because the graph may have been built with numbers in another notation.
  // Equal attrs are parsed once, unless there are too many of them.
  const std::string& Attrs(std::string_view text) {
    constexpr std::size_t kMost = std::size_t{1} << 16;
    const auto found = attrs_.find(text.data());
    if (found != attrs_.end()) return found->second;
    rare_.clear();
    AppendCompact(&rare_, text);
    return attrs_.size() < kMost ? attrs_.emplace(text.data(), rare_).first->second : rare_;
  }

  const Graph& graph_;
  std::unordered_map<const char*, std::string> attrs_;  // keyed by the text in the graph, which equal ones share
  std::string rare_;
};

}  // namespace

Graph ReadGraph(std::istream& in, const std::string& file, const GraphLimits& limits) {
  try {
    return ReadGraphFrom(in, limits);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

void WriteGraph(std::ostream& out, const Graph& graph) {
  std::string text = "{\"schema\": \"emplace.graph\", \"version\": 1, \"name\": ";
  AppendQuoted(&text, graph.name());
  if (!graph.metadata().empty()) {
    AppendJson(&text.append(",\n \"metadata\": "), ParseJson(graph.metadata()));
  }
  text.append(",\n \"ops\": [");
  OpWriter writer(graph);
  std::string_view separator = "\n  ";
  for (const OpId id : graph.file_order()) {
    writer.Append(&text.append(separator), id);
    separator = ",\n  ";
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
  }
  text.append("]}\n");
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace emplace
