#include "datasets/importers/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <istream>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "datasets/importers/chakra_graph.h"
#include "datasets/importers/importers.h"
#include "datasets/importers/protobuf_fields.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using google::protobuf::io::CodedInputStream;
using protobuf::AddIntegers;
using protobuf::Fields;
using protobuf::kBytes;
using protobuf::kMaxMessage;
using protobuf::kVarint;

constexpr std::uint64_t kMaxChakraMicros = 1'000'000'000'000;

// A value of an attribute: what it is as an integer, and as a text.
struct AttributeValue {
  std::optional<std::int64_t> integer;
  std::string text;        // empty if it is an integer
  bool has_false = false;  // a list of truth values
};

void AppendElement(const std::string& text, AttributeValue* value) {
  value->text += (value->text.empty() ? "" : ",") + text;
}

// A text may be a number.
void TakeText(const std::string& text, AttributeValue* value) {
  std::int64_t integer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error == std::errc() && end == text.data() + text.size()) value->integer = integer;
}

void TakeDouble(double number, AttributeValue* value) {
  constexpr double kMost = 4e18;
  if (!(std::fabs(number) < kMost)) return;
  value->integer = std::llround(number);
}

std::int64_t Unzigzag(std::uint64_t integer) {
  return static_cast<std::int64_t>((integer >> 1) ^ (~(integer & 1) + 1));
}

// Numbers of the fields of AttributeProto. A list has the number behind that of its value.
enum : std::uint32_t {
  kDoubleValue = 3,
  kFloatValue = 5,
  kInt32Value = 7,
  kSint32Value = 15,
  kSint64Value = 17,
  kFixed32Value = 19,
  kBoolValue = 27,
  kStringValue = 29,
  kBytesValue = 31,
};

// A list of integers or texts. Lists of other numbers are not names, and are left out.
bool TakeList(const Fields& list, AttributeValue* value) {
  const std::uint32_t of = list.number() - 1;
  if (of == kDoubleValue || of == kFloatValue || (of >= kFixed32Value && of < kBoolValue)) return true;
  Fields element(list.bytes());
  while (element.Next()) {
    if (of == kStringValue || of == kBytesValue) {
      if (element.Is(1, kBytes)) AppendElement(element.bytes(), value);
      continue;
    }
    std::vector<std::uint64_t> integers;
    if (element.number() == 1 && !AddIntegers(element, 1, &integers)) return false;
    for (const std::uint64_t integer : integers) {
      value->has_false = value->has_false || (of == kBoolValue && integer == 0);
      const bool is_zigzag = of == kSint32Value || of == kSint64Value;
      AppendElement(std::to_string(is_zigzag ? Unzigzag(integer) : static_cast<std::int64_t>(integer)), value);
    }
  }
  return element.ok();
}

bool NamesGroup(std::string_view attribute) { return attribute == "pg_name" || attribute == "comm_group"; }
bool NamesDimensions(std::string_view attribute) { return attribute == "involved_dim"; }

bool TakeValue(const Fields& field, std::string_view name, AttributeValue* value) {
  const std::uint32_t number = field.number();
  if (number < kDoubleValue || number > kBytesValue + 1) return true;
  if (number % 2 == 0) {
    const bool is_wanted = NamesGroup(name) || NamesDimensions(name);
    return !is_wanted || !field.Is(number, kBytes) || TakeList(field, value);
  }
  if (field.Is(number, kBytes)) {
    if (number != kStringValue && number != kBytesValue) return true;
    NamesGroup(name) ? static_cast<void>(value->text = field.bytes()) : TakeText(field.bytes(), value);
    return true;
  }
  if (number == kDoubleValue) {
    TakeDouble(std::bit_cast<double>(field.integer()), value);
  } else if (number == kFloatValue) {
    TakeDouble(std::bit_cast<float>(static_cast<std::uint32_t>(field.integer())), value);
  } else if (number == kSint32Value || number == kSint64Value) {
    value->integer = Unzigzag(field.integer());
  } else {
    value->integer = static_cast<std::int64_t>(field.integer());
  }
  return true;
}

template <typename Set>
void SetGroups(ChakraNode* node, Set set) {
  auto groups = std::make_shared<ChakraNodeGroups>(node->groups ? *node->groups : ChakraNodeGroups());
  set(groups.get());
  node->groups = std::move(groups);
}

// The attributes that are known; the others are left out.
void KeepAttribute(const std::string& name, const AttributeValue& value, ChakraNode* node) {
  if (NamesGroup(name)) {
    SetGroups(node, [&](ChakraNodeGroups* groups) {
      groups->name = value.text.empty() && value.integer ? std::to_string(*value.integer) : value.text;
    });
  }
  if (NamesDimensions(name) && value.has_false) {
    SetGroups(node, [](ChakraNodeGroups* groups) { groups->leaves_out_dimensions = true; });
  }
  if (!value.integer) return;
  const std::int64_t integer = *value.integer;
  const auto keep = [&](std::string_view wanted, std::optional<std::int64_t>* kept) {
    if (name == wanted) *kept = integer;
  };
  keep("comm_src", &node->source);
  keep("comm_dst", &node->destination);
  keep("comm_tag", &node->tag);
  keep("tid", &node->thread);
  keep("comm_type", &node->collective);
  if (name == "is_cpu_op") {
    node->is_cpu = integer != 0;
    node->says_cpu = true;
  }
  constexpr std::string_view kSizes[] = {"comm_size", "num_bytes", "tensor_size"};
  if (integer < 0) {
    node->has_negative = node->has_negative || name == "duration_ns" || name == "num_ops" ||
                         std::find(std::begin(kSizes), std::end(kSizes), name) != std::end(kSizes);
    return;
  }
  keep("duration_ns", &node->nanos);
  keep("num_ops", &node->flop);
  if (name == "pg_size" || name == "group_size") {
    SetGroups(node, [&](ChakraNodeGroups* groups) { groups->size = integer; });
  }
  for (const std::string_view size : kSizes) keep(size, &node->bytes);
}

// False if the message is broken.
bool ReadAttribute(const std::string& message, ChakraNode* node) {
  std::string name;
  AttributeValue value;
  Fields field(message);
  while (field.Next()) {
    if (field.Is(1, kBytes)) name = field.bytes();
    if (!TakeValue(field, name, &value)) return false;
  }
  if (!field.ok()) return false;
  KeepAttribute(name, value, node);
  return true;
}

// Puts what attributes do not say.
void CompleteChakraNode(ChakraNode* node) {
  if (node->says_cpu) return;
  node->is_cpu = !IsCommunication(*node) && node->flop.value_or(0) == 0 && node->bytes.value_or(0) == 0;
}

// PyTorch's node that lists the process groups.
bool ListsGroups(const ChakraNode& node) { return node.name.find("process_group:init") != std::string::npos; }

std::string ValuesOf(const std::string& io_info) {
  std::string values;
  Fields field(io_info);
  while (field.Next()) {
    if (field.Is(1, kBytes)) values = field.bytes();
  }
  return values;
}

std::optional<ChakraNode> NodeFrom(const std::string& message) {
  ChakraNode node;
  std::vector<std::uint64_t> control;
  Fields field(message);
  while (field.Next()) {
    bool ok = true;
    if (field.Is(1, kVarint)) node.id = field.integer();
    if (field.Is(2, kBytes)) node.name = field.bytes();
    if (field.Is(3, kVarint)) {
      ok = field.integer() <= static_cast<std::uint64_t>(ChakraNode::Type::kCollective);
      node.type = static_cast<ChakraNode::Type>(field.integer());
    }
    if (field.number() == 4) ok = AddIntegers(field, 4, &control);
    if (field.number() == 5) ok = AddIntegers(field, 5, &node.before);
    if (field.Is(6, kVarint)) node.start_micros = field.integer();
    if (field.Is(7, kVarint)) node.micros = field.integer();
    constexpr std::uint32_t kAttributes = 10;
    if (field.Is(kAttributes, kBytes)) ok = ReadAttribute(field.bytes(), &node);
    constexpr std::uint32_t kInputs = 8;
    if (field.Is(kInputs, kBytes) && ListsGroups(node)) {
      SetGroups(&node, [&](ChakraNodeGroups* groups) { groups->listed = ValuesOf(field.bytes()); });
    }
    if (!ok) return std::nullopt;
  }
  if (!field.ok()) return std::nullopt;
  CompleteChakraNode(&node);
  node.num_data = node.before.size();
  node.before.insert(node.before.end(), control.begin(), control.end());
  return node;
}

// A Node whose id is not 0; GlobalMetadata starts with its version or an attribute.
bool StartsWithId(std::string_view message) { return message.starts_with('\x08'); }

class IstreamBytes : public google::protobuf::io::CopyingInputStream {
 public:
  explicit IstreamBytes(std::istream* in) : in_(*in) {}
  int Read(void* buffer, int size) override {
    in_.read(static_cast<char*>(buffer), size);
    return static_cast<int>(in_.gcount());
  }

 private:
  std::istream& in_;
};

std::uint64_t IdFrom(const JsonNode& node) {
  return static_cast<std::uint64_t>(node.Integer(0, kMaxJsonInteger, "the id of a node"));
}

// The two spellings of a node's keys: those of the format's protobuf, in snake and in camel case, and of its JSON.
bool IsKey(std::string_view key, std::initializer_list<std::string_view> spellings) {
  return std::find(spellings.begin(), spellings.end(), key) != spellings.end();
}
constexpr std::string_view kJsonSizes[] = {"comm_size",   "num_bytes", "num_ops",   "tensor_size",
                                           "duration_ns", "pg_size",   "group_size"};

// An attribute that is written as a member of the node.
void KeepMember(const std::string& key, const JsonNode& value, ChakraNode* node) {
  AttributeValue kept;
  const auto append = [&](const JsonNode& element) {
    if (const bool* const flag = element.value().As<bool>()) {
      kept.integer = *flag ? 1 : 0;
      kept.has_false = kept.has_false || !*flag;
      AppendElement(std::to_string(*kept.integer), &kept);
    } else if (const auto* const integer = element.value().As<std::int64_t>()) {
      kept.integer = *integer;
      AppendElement(std::to_string(*integer), &kept);
    } else if (const auto* const text = element.value().As<std::string>()) {
      TakeText(*text, &kept);
      AppendElement(*text, &kept);
    }
  };
  if (std::find(std::begin(kJsonSizes), std::end(kJsonSizes), key) != std::end(kJsonSizes)) {
    kept.integer = value.Integer(0, kMaxJsonInteger, "a size");
  } else if (const auto* const list = value.value().As<JsonList>()) {
    for (std::size_t i = 0; i < list->size(); ++i) append(JsonNode(value, i, (*list)[i]));
    kept.integer.reset();
  } else {
    append(value);
  }
  KeepAttribute(key, kept, node);
}

ChakraNode NodeFromJson(const JsonNode& json) {
  ChakraNode node;
  bool has_id = false;
  for (const JsonMember& member : json.Object()) {
    const JsonNode value(json, member.key, member.value);
    if (IsKey(member.key, {"Id", "id"})) {
      node.id = IdFrom(value);
      has_id = true;
    } else if (IsKey(member.key, {"Name", "name"})) {
      node.name = value.Text();
    } else if (IsKey(member.key, {"NodeType", "type"})) {
      node.type = static_cast<ChakraNode::Type>(value.Integer(0, 7, "a type of node, 0 to 7"));
    } else if (IsKey(member.key, {"runtime", "duration_micros", "durationMicros"})) {
      node.micros = static_cast<std::uint64_t>(value.Integer(0, static_cast<std::int64_t>(kMaxChakraMicros), "us"));
    } else if (member.key == "is_cpu_op") {
      const auto* flag = member.value.As<bool>();
      if (flag == nullptr) value.Refuse("true or false");
      node.is_cpu = *flag;
      node.says_cpu = true;
    } else if (IsKey(member.key, {"data_deps", "dataDeps", "ctrl_deps", "ctrlDeps"})) {
      const JsonList& list = value.List("a list of ids");
      for (std::size_t i = 0; i < list.size(); ++i) node.before.push_back(IdFrom(JsonNode(value, i, list[i])));
    } else {
      KeepMember(member.key, value, &node);
    }
  }
  if (!has_id) throw InputError(PlaceOfKey(json.Place(), "Id"), "is missing (the id of a node)");
  CompleteChakraNode(&node);
  return node;
}

}  // namespace

void ReadChakra(std::istream& in, const TakeChakraNode& take) {
  IstreamBytes bytes(&in);
  google::protobuf::io::CopyingInputStreamAdaptor buffer(&bytes);
  std::string message;
  std::size_t num_nodes = 0;
  for (bool is_first = true;; is_first = false) {
    const std::int64_t at = buffer.ByteCount();  // before the stream takes the next block
    CodedInputStream stream(&buffer);            // one for each message: it counts bytes in 31 bits
    std::uint32_t length = 0;
    const void* peek = nullptr;
    int available = 0;
    if (!stream.GetDirectBufferPointer(&peek, &available)) break;  // the end
    if (!stream.ReadVarint32(&length) || length > kMaxMessage) {
      throw InputError(fmt::format("byte {}", at), "is not a message of a Chakra trace (a length, then the message)");
    }
    if (!stream.ReadString(&message, static_cast<int>(length))) {
      throw InputError(fmt::format("byte {}", at),
                       fmt::format("is not a message of a Chakra trace: the file ends before its {} bytes do", length));
    }
    if (is_first && !StartsWithId(message)) continue;  // GlobalMetadata
    const auto place = [num_nodes] { return fmt::format("node {}", num_nodes); };
    // Zeros without an end would be nodes without an end.
    if (length == 0) throw InputError(place(), "is empty (a Node of a Chakra trace)");
    auto node = NodeFrom(message);
    if (!node) throw InputError(place(), "is not a Node of a Chakra trace");
    if (node->nanos && *node->nanos > static_cast<std::int64_t>(kMaxChakraMicros) * 1000) {
      throw InputError(place(), fmt::format("takes {} ns (at most {} us)", *node->nanos, kMaxChakraMicros));
    }
    if (node->micros > kMaxChakraMicros) {
      throw InputError(place(), fmt::format("takes {} us (at most {})", node->micros, kMaxChakraMicros));
    }
    ++num_nodes;
    take(std::move(*node));
  }
}

void ReadChakraJson(std::istream& in, const TakeChakraNode& take) {
  const JsonValue empty{JsonList()};
  const JsonValue root = ParseJson(in,
                                   {.key = "workload_graph",
                                    .take =
                                        [&](const JsonObject&, std::size_t index, const JsonValue& element) {
                                          const JsonNode parent(empty);
                                          const JsonNode list(parent, "workload_graph", empty);
                                          take(NodeFromJson(JsonNode(list, index, element)));
                                        }},
                                   JsonLimitsOf(InputKind::kChakra));
  if (FindMember(root, "workload_graph") == nullptr) throw InputError("workload_graph", "is missing (a list of nodes)");
}

Imported MakeChakraGraph(const std::vector<ChakraRank>& ranks, const ChakraOptions& options) {
  ChakraTrace trace;
  for (const ChakraRank& rank : ranks) {
    trace.BeginRank(rank.rank);
    for (const ChakraNode& node : rank.nodes) trace.Add(ChakraNode(node));
  }
  return MakeGraphOfTrace(std::move(trace), options);
}

namespace {

// Whether bytes are those of a GlobalMetadata with an attribute: perhaps a version, then the attribute's name.
bool StartsWithMetadata(std::string_view bytes) {
  constexpr std::uint32_t kFirst = 0x0a;  // the tags of fields 1 and 2
  constexpr std::uint32_t kSecond = 0x12;
  constexpr std::uint32_t kLongest = 256;
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  std::uint32_t length = 0;
  std::string text;
  const auto read_text = [&] {
    return stream.ReadVarint32(&length) && length <= kLongest && stream.ReadString(&text, static_cast<int>(length));
  };
  std::uint32_t tag = stream.ReadTag();
  if (tag == kFirst) tag = read_text() ? stream.ReadTag() : 0;
  if (tag != kSecond || !stream.ReadVarint32(&length)) return false;
  if (stream.ReadTag() != kFirst || !read_text() || text.empty()) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isgraph(c) != 0; });
}

}  // namespace

bool LooksLikeChakra(std::string_view head) {
  if (StartsAnObject(head)) return head.find("\"workload_graph\"") != std::string_view::npos;
  // GlobalMetadata begins with its version or an attribute, a Node with its id or, because proto3 leaves out an id of
  // 0, with its name or type.
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(head.data()), static_cast<int>(head.size()));
  std::uint32_t length = 0;
  if (!stream.ReadVarint32(&length) || length > kMaxMessage) return false;
  std::string message;
  if (length > 0) {
    const std::string_view rest = head.substr(static_cast<std::size_t>(stream.CurrentPosition()));
    if (rest.size() < length) return StartsWithMetadata(rest);  // a file that is cut, or more than the head
    if (!stream.ReadString(&message, static_cast<int>(length))) return false;
    if (message[0] != '\x0a' && message[0] != '\x12') return false;
  }
  // A rank without nodes: GlobalMetadata, which holds nothing but a version.
  const bool is_whole = stream.CurrentPosition() == static_cast<int>(head.size());
  if (is_whole && message.size() > 2) {
    return message[0] == '\x0a' &&
           static_cast<std::size_t>(static_cast<unsigned char>(message[1])) + 2 == message.size();
  }
  if (!stream.ReadVarint32(&length) || length == 0 || length > kMaxMessage) return false;
  const std::string_view rest = head.substr(static_cast<std::size_t>(stream.CurrentPosition()));
  if (rest.empty()) return false;
  if (StartsWithId(rest)) return true;
  if (rest[0] != '\x12' && rest[0] != '\x18') return false;
  // A node that is cut is one as far as it goes.
  return rest.size() < length || NodeFrom(std::string(rest.substr(0, length))).has_value();
}

namespace {

// The number N of a file name PREFIX.N.et, which is the rank.
std::optional<std::int64_t> RankFromName(std::string_view name) {
  for (const std::string_view ending : {".gz", ".et", ".json"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  std::size_t digits = 0;
  while (digits < name.size() && name[name.size() - 1 - digits] >= '0' && name[name.size() - 1 - digits] <= '9')
    ++digits;
  constexpr std::size_t kMostDigits = 9;
  if (digits == 0 || digits > kMostDigits) return std::nullopt;
  return std::stoll(std::string(name.substr(name.size() - digits)));
}

}  // namespace

Imported ImportChakra(std::span<const ImportSource> sources, const ImportOptions& options) {
  ChakraOptions chakra;
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) chakra.cluster = &cluster.emplace(LoadCluster(options.cluster));
  if (!options.comm_groups.empty()) {
    const auto in = OpenForReading(options.comm_groups, InputKind::kChakra);
    chakra.groups = WithLocation(options.comm_groups, [&] { return ReadChakraGroups(*in); });
  }
  ChakraTrace trace;
  std::set<std::int64_t> named;
  for (const ImportSource& source : sources) {
    const std::optional<std::int64_t> rank = RankFromName(source.name());
    if (rank) named.insert(*rank);
    trace.BeginRank(rank.value_or(0));
    WithLocation(source.name(), [&] {
      const auto in = source.Open(InputKind::kChakra);
      const auto take = [&trace](ChakraNode&& node) { trace.Add(std::move(node)); };
      StartsAnObject(source.head()) ? ReadChakraJson(*in, take) : ReadChakra(*in, take);
    });
  }
  // Without a number in each name, ranks are counted.
  if (named.size() != trace.ranks.size()) std::iota(trace.ranks.begin(), trace.ranks.end(), std::int64_t{0});
  return WithLocation(sources.front().name(), [&] { return MakeGraphOfTrace(std::move(trace), chakra); });
}

}  // namespace emplace::datasets
