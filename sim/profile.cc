#include "sim/profile.h"

#include <algorithm>
#include <array>
#include <istream>
#include <ostream>
#include <set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

constexpr std::string_view kProfileSchema = "emplace.profile";
constexpr double kMaxContention = 1000;
constexpr std::string_view kMicrosAllowed = "a number of us";

template <typename Entry>
std::vector<Entry> ReadEntries(const JsonFields& fields, std::string_view key, Entry (*read)(const JsonNode&)) {
  std::vector<Entry> entries;
  const auto node = fields.Find(key);
  if (!node) return entries;
  const JsonList& list = node->List();
  entries.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) entries.push_back(read(JsonNode(*node, i, list[i])));
  return entries;
}

Profile::DeviceEntry ReadDevice(const JsonNode& node) {
  const JsonFields fields(node, {"kind", "backend", "op_gap_us", "probe_us", "contention"});
  Profile::DeviceEntry entry;
  entry.kind = fields.Get("kind", "a device kind").NonEmptyText();
  if (const auto field = fields.Find("backend")) entry.backend = field->Text();
  if (const auto field = fields.Find("op_gap_us")) entry.op_gap_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("probe_us")) entry.probe_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("contention")) {
    for (const JsonMember& member : field->Object("an object of factors by class of op")) {
      entry.contention.emplace(member.key, JsonNode(*field, member.key, member.value).Number(0, kMaxContention));
    }
  }
  return entry;
}

Profile::OpEntry ReadOpEntry(const JsonNode& node) {
  const JsonFields fields(node, {"signature", "device", "samples", "median_us", "mean_us", "p10_us", "p90_us",
                                 "kernels", "temp_bytes", "contention", "host_us", "device_us"});
  Profile::OpEntry entry;
  entry.signature = fields.Get("signature", "the signature of an op").NonEmptyText();
  entry.device = fields.Get("device", "a device kind").NonEmptyText();
  if (const auto field = fields.Find("samples")) entry.samples = field->Integer(1, kMaxJsonInteger);
  entry.median_micros = fields.Get("median_us", kMicrosAllowed).Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("mean_us")) entry.mean_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("p10_us")) entry.p10_micros = field->Number(0, entry.median_micros);
  if (const auto field = fields.Find("p90_us")) {
    entry.p90_micros = field->Number(entry.median_micros, kMaxJsonMicros);
  }
  if (const auto field = fields.Find("kernels")) entry.kernels = field->Integer(0, kMaxJsonInteger);
  if (const auto field = fields.Find("temp_bytes")) entry.temp = {field->Integer(0, kMaxJsonInteger)};
  if (const auto field = fields.Find("contention")) entry.contention = field->Number(0, kMaxContention);
  if (const auto field = fields.Find("host_us")) entry.host_micros = field->Number(0, kMaxJsonMicros);
  if (const auto field = fields.Find("device_us")) entry.device_micros = field->Number(0, kMaxJsonMicros);
  return entry;
}

Profile::LinkEntry ReadLink(const JsonNode& node) {
  const JsonFields fields(node, {"from", "to", "from_device", "to_device", "latency_us", "bandwidth_gb_per_s",
                                 "knee_bytes", "beyond_gb_per_s", "samples", "largest_residual"});
  Profile::LinkEntry entry;
  entry.from = fields.Get("from", "a device kind").NonEmptyText();
  entry.to = fields.Get("to", "a device kind").NonEmptyText();
  if (const auto field = fields.Find("latency_us")) entry.latency_micros = field->Number(0, kMaxJsonMicros);
  entry.bandwidth_gb_per_s =
      fields.Get("bandwidth_gb_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
  if (const auto field = fields.Find("knee_bytes")) {
    entry.knee = {field->Integer(1, kMaxJsonInteger)};
    entry.beyond_gb_per_s = fields.Get("beyond_gb_per_s", kRateAllowed).Number(kMinGbPerS, kMaxGbPerS, kRateAllowed);
  } else if (const auto beyond = fields.Find("beyond_gb_per_s")) {
    beyond->Refuse("only beside knee_bytes");
  }
  if (const auto field = fields.Find("from_device")) {
    entry.from_device = field->NonEmptyText();
    entry.to_device = fields.Get("to_device", "the name of a device").NonEmptyText();
  } else if (const auto to = fields.Find("to_device")) {
    to->Refuse("only beside from_device");
  }
  if (const auto field = fields.Find("samples")) entry.samples = field->Integer(1, kMaxJsonInteger);
  if (const auto field = fields.Find("largest_residual")) entry.largest_residual = field->Number(0, kMaxJsonMicros);
  return entry;
}

// Two answers to one question would leave it to chance which one counts.
void CheckDistinct(const Profile& profile) {
  std::set<std::string_view> kinds;
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    if (!kinds.insert(profile.devices[i].kind).second) {
      throw InputError("devices[" + std::to_string(i) + "].kind",
                       "duplicate kind " + Quoted(profile.devices[i].kind) + " (each kind once)");
    }
  }
  std::set<std::pair<std::string_view, std::string>> ops;
  for (std::size_t i = 0; i < profile.ops.size(); ++i) {
    const Profile::OpEntry& op = profile.ops[i];
    if (!ops.emplace(op.device, CanonicalSignature(op.signature)).second) {
      throw InputError("ops[" + std::to_string(i) + "].signature", "duplicate signature " + Quoted(op.signature) +
                                                                       " for device " + Quoted(op.device) +
                                                                       " (each once for a device)");
    }
  }
  std::set<std::array<std::string_view, 4>> links;
  for (std::size_t i = 0; i < profile.links.size(); ++i) {
    const Profile::LinkEntry& link = profile.links[i];
    if (!links.insert({link.from, link.to, link.from_device, link.to_device}).second) {
      const bool has_names = !link.from_device.empty();
      throw InputError("links[" + std::to_string(i) + "]",
                       "duplicate link from " + Quoted(has_names ? link.from_device : link.from) + " to " +
                           Quoted(has_names ? link.to_device : link.to) + " (each pair once)");
    }
  }
}

Profile ReadProfileFrom(std::istream& in) {
  const JsonValue root = ParseJson(in, {}, JsonLimitsOf(InputKind::kProfile));
  const JsonNode node(root);
  CheckSchema(node, kProfileSchema);
  const JsonFields fields(node, {"schema", "version", "created", "host", "devices", "ops", "links"});
  Profile profile;
  if (const auto field = fields.Find("created")) profile.created = field->Text();
  if (const auto field = fields.Find("host")) {
    for (const JsonMember& member : field->Object("an object of strings")) {
      profile.host.emplace(member.key, JsonNode(*field, member.key, member.value).Text());
    }
  }
  profile.devices = ReadEntries(fields, "devices", ReadDevice);
  profile.ops = ReadEntries(fields, "ops", ReadOpEntry);
  profile.links = ReadEntries(fields, "links", ReadLink);
  CheckDistinct(profile);
  return profile;
}

// Members of an object as they are added: `{"a": 1, "b": 2}`.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string* out) : out_(out) { out_->push_back('{'); }
  ObjectWriter& Text(std::string_view key, std::string_view value) {
    AppendQuoted(Key(key), value);
    return *this;
  }
  template <typename Number>
  ObjectWriter& Value(std::string_view key, Number value) {
    AppendNumber(Key(key), value);
    return *this;
  }
  ObjectWriter& Values(std::string_view key, const std::map<std::string, double, std::less<>>& values) {
    ObjectWriter object(Key(key));
    for (const auto& [name, value] : values) object.Value(name, value);
    object.End();
    return *this;
  }
  void End() { out_->push_back('}'); }

 private:
  std::string* Key(std::string_view key) {
    AppendQuoted(&out_->append(separator_), key);
    separator_ = ", ";
    return &out_->append(": ");
  }
  std::string* out_;
  std::string_view separator_;
};

template <typename Entry, typename Write>
void WriteEntries(std::string* out, std::string_view key, const std::vector<Entry>& entries, Write write) {
  out->append(",\n \"").append(key).append("\": [");
  std::string_view separator = "\n  ";
  for (const Entry& entry : entries) {
    ObjectWriter object(&out->append(separator));
    write(&object, entry);
    object.End();
    separator = ",\n  ";
  }
  out->push_back(']');
}

// The text of a signature: numbers as in JSON; a word without quotes, any other string in quotes.
bool IsBareWord(std::string_view text) {
  if (text == "true" || text == "false" || text == "null") return false;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

void AppendWord(std::string* out, std::string_view text) {
  if (IsBareWord(text)) {
    out->append(text);
  } else {
    AppendQuoted(out, text);
  }
}

void AppendMembers(std::string* out, const JsonObject& members);

void AppendAttr(std::string* out, const JsonValue& value) {
  if (const auto* text = value.As<std::string>()) return AppendWord(out, *text);
  if (const auto* members = value.As<JsonObject>()) return AppendMembers(out, *members);
  const auto* list = value.As<JsonList>();
  if (list == nullptr) return AppendJson(out, value);
  out->push_back('[');
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendAttr(out, (*list)[i]);
  }
  out->push_back(']');
}

void AppendMembers(std::string* out, const JsonObject& members) {
  out->push_back('{');
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendWord(out, members[i].key);
    out->push_back('=');
    AppendAttr(out, members[i].value);
  }
  out->push_back('}');
}

// An f32 of another size than 4 bytes that has no shape is a tensor of unknown shape.
bool HasShape(const Tensor& tensor) {
  return tensor.dtype != DType::kNone && (!tensor.shape.empty() || tensor.size.count == ElementBytes(tensor.dtype));
}

void AppendTensor(std::string* out, const Tensor& tensor) {
  if (!HasShape(tensor)) {
    AppendNumber(out, tensor.size.count);
    out->push_back('B');
    return;
  }
  out->append(Name(tensor.dtype)).push_back('[');
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendNumber(out, tensor.shape[i]);
  }
  out->push_back(']');
}

// Kinds of the op catalogue whose outputs do not follow from inputs and attrs.
constexpr std::array<std::string_view, 16> kKindsKnownByOutputs = {"avg_pool_grad",
                                                                   "bias_add_grad",
                                                                   "broadcast_grad",
                                                                   "concat_grad",
                                                                   "conv2d_grad_filter",
                                                                   "conv2d_grad_input",
                                                                   "depthwise_conv2d_grad_filter",
                                                                   "depthwise_conv2d_grad_input",
                                                                   "fill",
                                                                   "reduce_mean_grad",
                                                                   "reduce_sum_grad",
                                                                   "reshape",
                                                                   "reshape_grad",
                                                                   "slice",
                                                                   "slice_grad",
                                                                   "split"};

// `text` cut at the commas that are outside brackets, braces and quotes; empty if those do not close.
std::vector<std::string_view> SplitMembers(std::string_view text) {
  std::vector<std::string_view> members;
  std::size_t begin = 0;
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return {};
      --depth;
    } else if (c == ',' && depth == 0) {
      members.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (quoted || depth > 0) return {};
  members.push_back(text.substr(begin));
  return members;
}

}  // namespace

Profile ReadProfile(std::istream& in, const std::string& file) {
  try {
    return ReadProfileFrom(in);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

void WriteProfile(std::ostream& out, const Profile& profile) {
  std::string text = "{\"schema\": \"emplace.profile\", \"version\": 1, \"created\": ";
  AppendQuoted(&text, profile.created);
  text.append(",\n \"host\": ");
  ObjectWriter host(&text);
  for (const auto& [key, value] : profile.host) host.Text(key, value);
  host.End();
  WriteEntries(&text, "devices", profile.devices, [](ObjectWriter* object, const Profile::DeviceEntry& device) {
    object->Text("kind", device.kind).Text("backend", device.backend).Value("op_gap_us", device.op_gap_micros);
    if (device.probe_micros) object->Value("probe_us", *device.probe_micros);
    if (!device.contention.empty()) object->Values("contention", device.contention);
  });
  WriteEntries(&text, "ops", profile.ops, [](ObjectWriter* object, const Profile::OpEntry& op) {
    object->Text("signature", op.signature).Text("device", op.device);
    if (op.samples > 0) object->Value("samples", op.samples);
    object->Value("median_us", op.median_micros);
    if (op.mean_micros) object->Value("mean_us", *op.mean_micros);
    if (op.p10_micros) object->Value("p10_us", *op.p10_micros);
    if (op.p90_micros) object->Value("p90_us", *op.p90_micros);
    if (op.kernels) object->Value("kernels", *op.kernels);
    if (op.temp.count > 0) object->Value("temp_bytes", op.temp.count);
    if (op.contention) object->Value("contention", *op.contention);
    if (op.host_micros) object->Value("host_us", *op.host_micros);
    if (op.device_micros) object->Value("device_us", *op.device_micros);
  });
  WriteEntries(&text, "links", profile.links, [](ObjectWriter* object, const Profile::LinkEntry& link) {
    object->Text("from", link.from).Text("to", link.to);
    if (!link.from_device.empty()) object->Text("from_device", link.from_device).Text("to_device", link.to_device);
    object->Value("latency_us", link.latency_micros).Value("bandwidth_gb_per_s", link.bandwidth_gb_per_s);
    if (link.knee.count > 0) {
      object->Value("knee_bytes", link.knee.count).Value("beyond_gb_per_s", link.beyond_gb_per_s);
    }
    if (link.samples > 0) object->Value("samples", link.samples);
    if (link.largest_residual) object->Value("largest_residual", *link.largest_residual);
  });
  text.append("}\n");
  out << text;
}

std::string Signature(const Graph& graph, OpId op) {
  std::string signature(graph.op(op).kind);
  signature.push_back('(');
  const auto inputs = graph.inputs(op);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) signature.push_back(',');
    AppendTensor(&signature, graph.tensor(inputs[i]));
  }
  signature.push_back(')');
  if (graph.op(op).attrs.empty()) return signature;
  const JsonValue attrs = ParseJson(graph.op(op).attrs);
  const auto* members = attrs.As<JsonObject>();
  EMPLACE_CHECK(members != nullptr);  // GraphBuilder is given a JSON object, or nothing
  // Where a model calls an operator changes no work.
  JsonObject kept = *members;
  std::erase_if(kept, [](const JsonMember& member) { return member.key == "source"; });
  if (!kept.empty()) AppendMembers(&signature, kept);
  return signature;
}

std::string FullSignature(const Graph& graph, OpId op) {
  std::string signature = Signature(graph, op);
  const auto& kinds = kKindsKnownByOutputs;
  if (std::find(kinds.begin(), kinds.end(), graph.op(op).kind) == kinds.end()) return signature;
  signature.append("->");
  for (std::size_t o = 0; o < graph.num_outputs(op); ++o) {
    if (o > 0) signature.push_back(',');
    AppendTensor(&signature, graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + o)));
  }
  return signature;
}

std::string CanonicalSignature(std::string_view signature) {
  const std::size_t outputs = signature.rfind("}->");
  if (outputs != std::string_view::npos) {
    return CanonicalSignature(signature.substr(0, outputs + 1)) + std::string(signature.substr(outputs + 1));
  }
  const std::size_t begin = signature.find("){");
  if (begin == std::string_view::npos || !signature.ends_with('}')) return std::string(signature);
  const std::string_view head = signature.substr(0, begin + 2);
  const std::string_view attrs = signature.substr(head.size(), signature.size() - head.size() - 1);
  std::vector<std::string_view> members = SplitMembers(attrs);
  if (members.empty()) return std::string(signature);  // not one of ours
  std::sort(members.begin(), members.end());
  std::string canonical(head);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) canonical.push_back(',');
    canonical.append(members[i]);
  }
  return canonical + "}";
}

}  // namespace emplace
