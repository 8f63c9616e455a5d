#include "datasets/importers/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/kineto.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using google::protobuf::io::CodedInputStream;

constexpr std::string_view kChakraCpuKind = "host-cpu";
constexpr std::string_view kChakraGpuKind = "gpu";
constexpr std::uint32_t kMaxMessage = std::uint32_t{1} << 28;
constexpr std::uint64_t kMaxChakraMicros = 1'000'000'000'000;
constexpr std::size_t kMaxChakraTracks = 2000;
constexpr std::string_view kCollectives[] = {
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

// Wire types of protobuf.
enum : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Fields of a message, one after another.
class Fields {
 public:
  explicit Fields(std::string_view message)
      : stream_(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size())) {}

  // False at the end, and if the message is broken.
  bool Next() {
    const std::uint32_t tag = stream_.ReadTag();
    if (tag == 0) {
      ok_ = ok_ && stream_.ConsumedEntireMessage();
      return false;
    }
    number_ = tag >> 3;
    type_ = tag & 7;
    std::uint32_t four = 0;
    switch (type_) {
      case kVarint:
        return ok_ = stream_.ReadVarint64(&integer_);
      case kFixed64:
        return ok_ = stream_.ReadLittleEndian64(&integer_);
      case kFixed32:
        ok_ = stream_.ReadLittleEndian32(&four);
        integer_ = four;
        return ok_;
      case kBytes:
        return ok_ = stream_.ReadVarint32(&four) && four <= kMaxMessage &&
                     stream_.ReadString(&bytes_, static_cast<int>(four));
      default:
        return ok_ = false;
    }
  }
  bool ok() const { return ok_; }
  bool Is(std::uint32_t number, std::uint32_t type) const { return number_ == number && type_ == type; }
  std::uint32_t number() const { return number_; }
  std::uint64_t integer() const { return integer_; }
  const std::string& bytes() const { return bytes_; }

 private:
  CodedInputStream stream_;
  bool ok_ = true;
  std::uint32_t number_ = 0;
  std::uint32_t type_ = 0;
  std::uint64_t integer_ = 0;
  std::string bytes_;
};

// Repeated integers: packed, or one for each field.
bool AddIntegers(const Fields& field, std::uint32_t number, std::vector<std::uint64_t>* values) {
  if (field.Is(number, kVarint)) {
    values->push_back(field.integer());
    return true;
  }
  CodedInputStream packed(reinterpret_cast<const std::uint8_t*>(field.bytes().data()),
                          static_cast<int>(field.bytes().size()));
  std::uint64_t value = 0;
  while (packed.CurrentPosition() < static_cast<int>(field.bytes().size())) {
    if (!packed.ReadVarint64(&value)) return false;
    values->push_back(value);
  }
  return true;
}

// Attributes with an integer or a truth value that we know.
bool ReadAttribute(const std::string& message, ChakraNode* node) {
  std::string name;
  std::optional<std::uint64_t> value;
  Fields field(message);
  while (field.Next()) {
    constexpr std::uint32_t kZigzag32 = 15;
    constexpr std::uint32_t kZigzag64 = 17;
    if (field.Is(1, kBytes)) {
      name = field.bytes();
    } else if (field.Is(kZigzag32, kVarint) || field.Is(kZigzag64, kVarint)) {
      value = (field.integer() >> 1) ^ (~(field.integer() & 1) + 1);
    } else if (field.number() >= 7 &&
               (field.Is(field.number(), kVarint) ||
                (field.number() >= 19 && field.number() <= 25 && !field.Is(field.number(), kBytes)))) {
      value = field.integer();
    }
  }
  if (!field.ok()) return false;
  if (!value) return true;
  const auto integer = static_cast<std::int64_t>(*value);
  const auto keep = [&](std::string_view wanted, std::optional<std::int64_t>* kept) {
    if (name == wanted) *kept = integer;
  };
  keep("comm_src", &node->source);
  keep("comm_dst", &node->destination);
  keep("comm_tag", &node->tag);
  if (integer >= 0) keep("duration_ns", &node->nanos);
  if (integer >= 0) keep("num_ops", &node->flop);
  if (name == "is_cpu_op") node->is_cpu = integer != 0;
  if (name == "tid") node->thread = integer;
  if (name == "comm_type") node->collective = integer;
  if ((name == "comm_size" || name == "num_bytes" || name == "tensor_size") && integer >= 0) node->bytes = integer;
  return true;
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
    if (!ok) return std::nullopt;
  }
  if (!field.ok()) return std::nullopt;
  node.num_data = node.before.size();
  node.before.insert(node.before.end(), control.begin(), control.end());
  return node;
}

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

std::string_view KindOf(const ChakraNode& node) {
  switch (node.type) {
    case ChakraNode::Type::kCollective:
      if (node.collective && *node.collective >= 0 &&
          static_cast<std::size_t>(*node.collective) < std::size(kCollectives)) {
        return kCollectives[static_cast<std::size_t>(*node.collective)];
      }
      return "collective";
    case ChakraNode::Type::kSend:
      return "send";
    case ChakraNode::Type::kReceive:
      return "receive";
    case ChakraNode::Type::kLoad:
      return "load";
    case ChakraNode::Type::kStore:
      return "store";
    case ChakraNode::Type::kMetadata:
      return "metadata";
    default:
      return node.is_cpu ? "host" : "kernel";
  }
}

// All nodes of all ranks, in one list.
class ChakraGraphMaker {
 public:
  explicit ChakraGraphMaker(const std::vector<ChakraRank>& ranks) : ranks_(ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (const ChakraNode& node : ranks[r].nodes) all_.push_back({&node, r});
    }
  }

  Imported Make() {
    if (all_.empty()) throw InputError("", "holds no node");
    NameNodes();
    FindDependencies();
    JoinMessages();
    std::vector<Device> devices = MakeDevices();
    JoinCollectives();
    Imported imported = MakeGraph();
    imported.cluster =
        Cluster::Uniform("chakra", std::move(devices),
                         {.bandwidth_gb_per_s = 1e9, .latency_micros = 0, .gap_micros = 0}, Channels::kPerPair);
    AddNotes(&imported);
    return imported;
  }

 private:
  struct Item {
    const ChakraNode* node = nullptr;
    std::size_t rank = 0;  // position in ranks_
    std::string name = {};
    std::vector<std::size_t> before = {};  // positions in all_
    std::optional<std::size_t> meeting = {};
  };
  using Track = std::tuple<std::size_t, bool, std::int64_t>;  // rank, CPU, tid

  Track TrackOf(const Item& item) const { return {item.rank, item.node->is_cpu, item.node->thread.value_or(0)}; }
  std::string PlaceOf(std::size_t i) const {
    std::size_t first = i;
    while (first > 0 && all_[first - 1].rank == all_[i].rank) --first;
    return ranks_.size() == 1 ? fmt::format("node {}", i)
                              : fmt::format("rank {}, node {}", ranks_[all_[i].rank].rank, i - first);
  }

  void NameNodes() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = *all_[i].node;
      const std::string name = node.name.empty() ? std::string(KindOf(node)) : node.name;
      if (!IsValidUtf8(name)) throw InputError(PlaceOf(i), "has a name that is not valid UTF-8");
      all_[i].name = fmt::format("{:07} {}", i, WithoutColons(ShortName(name)));
    }
  }

  void FindDependencies() {
    std::vector<std::unordered_map<std::uint64_t, std::size_t>> positions(ranks_.size());
    std::size_t i = 0;
    for (const Item& item : all_) {
      if (!positions[item.rank].try_emplace(item.node->id, i).second) {
        throw InputError(PlaceOf(i), fmt::format("the id {} is another node's too (each id once)", item.node->id));
      }
      ++i;
    }
    is_followed_.assign(all_.size(), false);
    for (Item& item : all_) {
      for (const std::uint64_t before : item.node->before) {
        const auto found = positions[item.rank].find(before);
        if (found == positions[item.rank].end()) {
          ++missing_;
          continue;
        }
        is_followed_[found->second] = true;
        item.before.push_back(found->second);
      }
    }
  }

  void JoinMessages() {
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<std::size_t>> sends;
    const auto key = [&](const Item& item) {
      const std::int64_t own = ranks_[item.rank].rank;
      const bool is_send = item.node->type == ChakraNode::Type::kSend;
      return std::tuple(is_send ? own : item.node->source.value_or(-1),
                        is_send ? item.node->destination.value_or(-1) : own, item.node->tag.value_or(0));
    };
    for (std::size_t i = all_.size(); i-- > 0;) {
      if (all_[i].node->type == ChakraNode::Type::kSend) sends[key(all_[i])].push_back(i);
    }
    for (Item& item : all_) {
      if (item.node->type != ChakraNode::Type::kReceive) continue;
      const auto found = sends.find(key(item));
      if (found == sends.end() || found->second.empty()) {
        ++unsent_;
        continue;
      }
      item.before.push_back(found->second.back());
      is_followed_[found->second.back()] = true;
      found->second.pop_back();
      ++messages_;
    }
  }

  void JoinCollectives() {
    if (ranks_.size() == 1) return;
    std::vector<std::vector<std::size_t>> collectives(ranks_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].node->type == ChakraNode::Type::kCollective) collectives[all_[i].rank].push_back(i);
    }
    const std::size_t count = collectives[0].size();
    for (const auto& of_rank : collectives) {
      if (of_rank.size() != count) {
        differs_ = true;
        return;
      }
    }
    for (std::size_t k = 0; k < count; ++k) {
      Meeting& meeting = meetings_.emplace_back();
      meeting.track = TrackOf(all_[collectives[0][k]]);
      meeting.micros = MicrosOf(*all_[collectives[0][k]].node);
      for (const auto& of_rank : collectives) {
        Item& item = all_[of_rank[k]];
        meeting.micros = std::min(meeting.micros, MicrosOf(*item.node));
        meeting.before.insert(meeting.before.end(), item.before.begin(), item.before.end());
        item.meeting = k;
      }
    }
  }

  static double MicrosOf(const ChakraNode& node) {
    return node.nanos ? static_cast<double>(*node.nanos) / 1000.0 : static_cast<double>(node.micros);
  }

  std::vector<Device> MakeDevices() {
    for (const Item& item : all_) tracks_.try_emplace(TrackOf(item), 0);
    if (tracks_.size() > kMaxChakraTracks) {
      throw InputError("",
                       fmt::format("there are {} threads and streams (at most {})", tracks_.size(), kMaxChakraTracks));
    }
    std::vector<Device> devices;
    for (auto& [track, position] : tracks_) {
      position = devices.size();
      const auto& [rank, is_cpu, thread] = track;
      devices.push_back({.name = (ranks_.size() == 1 ? "" : fmt::format("rank {} ", ranks_[rank].rank)) +
                                 fmt::format("{} {}", is_cpu ? "thread" : "gpu stream", thread),
                         .kind = std::string(is_cpu ? kChakraCpuKind : kChakraGpuKind),
                         .memory = std::nullopt,
                         .op_gap_micros = 0,
                         .is_cpu = is_cpu});
    }
    return devices;
  }

  std::string MeetingName(std::size_t k) const { return fmt::format("{:07} meeting {}", all_.size() + k, k); }

  Imported MakeGraph() const {
    GraphBuilder builder("chakra");
    builder.Reserve(all_.size() + meetings_.size());
    for (const Item& item : all_) {
      const ChakraNode& node = *item.node;
      OpSpec spec;
      spec.name = item.name;
      spec.kind = KindOf(node);
      for (const std::size_t before : item.before) spec.control_inputs.push_back(all_[before].name);
      if (item.meeting) spec.control_inputs.push_back(MeetingName(*item.meeting));
      JsonObject attrs;
      AddMember(&attrs, "id", node.id);
      if (node.bytes) AddMember(&attrs, "bytes", *node.bytes);
      spec.attrs = JsonText(ToJson(std::move(attrs)));
      if (node.flop) spec.flop = static_cast<double>(*node.flop);
      spec.kind_times.emplace_back(node.is_cpu ? kChakraCpuKind : kChakraGpuKind,
                                   item.meeting ? meetings_[*item.meeting].micros : MicrosOf(node));
      builder.Add(spec);
    }
    for (std::size_t k = 0; k < meetings_.size(); ++k) {
      OpSpec spec;
      spec.name = MeetingName(k);
      spec.kind = "meeting";
      for (const std::size_t before : meetings_[k].before) spec.control_inputs.push_back(all_[before].name);
      spec.time_micros = 0;
      builder.Add(spec);
    }
    builder.SetMetadata(R"({"source":"chakra"})");
    Imported imported{.graph = builder.Build(), .cluster = std::nullopt, .notes = {}};
    Placement placement(imported.graph.num_ops());
    for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
      const OpId id = MakeId<OpId>(i);
      const std::size_t position = imported.graph.op(id).file_position;
      placement[id] = MakeId<DeviceId>(
          tracks_.at(position < all_.size() ? TrackOf(all_[position]) : meetings_[position - all_.size()].track));
    }
    imported.placement = std::move(placement);
    return imported;
  }

  void AddNotes(Imported* imported) const {
    std::size_t untimed = 0;
    std::size_t ends = 0;
    double gpu_micros = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = *all_[i].node;
      // What emplace wrote has exact times, and messages that take none.
      untimed += node.micros == 0 && !node.nanos ? 1 : 0;
      if (node.is_cpu) continue;
      gpu_micros += MicrosOf(node);
      ends += is_followed_[i] ? 0 : 1;
    }
    std::vector<std::string>& notes = imported->notes;
    if (missing_ > 0) {
      notes.push_back(fmt::format("{} dependencies are on nodes that are not in the trace: left out", missing_));
    }
    if (messages_ > 0) notes.push_back(fmt::format("{} messages join {} ranks", messages_, ranks_.size()));
    if (unsent_ > 0)
      notes.push_back(fmt::format("{} nodes receive what no rank sends: they wait for nothing", unsent_));
    if (differs_) notes.push_back("the ranks have different numbers of collectives: they are not joined");
    if (!meetings_.empty()) {
      notes.push_back(
          fmt::format("{} collectives join {} ranks: they start together and take the shortest of their times",
                      meetings_.size(), ranks_.size()));
    }
    if (untimed > 0) notes.push_back(fmt::format("{} nodes have no duration: they take 0", untimed));
    if (ends > 0) notes.push_back(fmt::format("nothing depends on {} nodes of the accelerator", ends));
    notes.push_back(
        fmt::format("attributed: all nodes have a place; {:.3f} ms of accelerator time", gpu_micros / 1000));
    imported->attributed_percent = 100;
  }

  struct Meeting {
    Track track = {};
    double micros = 0;
    std::vector<std::size_t> before = {};
  };
  const std::vector<ChakraRank>& ranks_;
  std::vector<Item> all_;
  std::vector<bool> is_followed_;
  std::map<Track, std::size_t> tracks_;  // positions among devices
  std::vector<Meeting> meetings_;
  std::size_t missing_ = 0;
  std::size_t messages_ = 0;
  std::size_t unsent_ = 0;
  bool differs_ = false;
};

std::uint64_t IdFrom(const JsonNode& node) {
  return static_cast<std::uint64_t>(node.Integer(0, kMaxJsonInteger, "the id of a node"));
}

ChakraNode NodeFromJson(const JsonNode& json) {
  ChakraNode node;
  bool has_id = false;
  for (const JsonMember& member : json.Object()) {
    const JsonNode value(json, member.key, member.value);
    if (member.key == "Id") {
      node.id = IdFrom(value);
      has_id = true;
    } else if (member.key == "Name") {
      node.name = value.Text();
    } else if (member.key == "NodeType") {
      node.type = static_cast<ChakraNode::Type>(value.Integer(0, 7, "a type of node, 0 to 7"));
    } else if (member.key == "runtime") {
      node.micros = static_cast<std::uint64_t>(value.Integer(0, static_cast<std::int64_t>(kMaxChakraMicros), "us"));
    } else if (member.key == "is_cpu_op") {
      const auto* flag = member.value.As<bool>();
      if (flag == nullptr) value.Refuse("true or false");
      node.is_cpu = *flag;
    } else if (member.key == "tid") {
      node.thread = value.Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
    } else if (member.key == "comm_type") {
      node.collective = value.Integer(-kMaxJsonInteger, kMaxJsonInteger, "an integer");
    } else if (member.key == "comm_size") {
      node.bytes = value.Integer(0, kMaxJsonInteger, "bytes");
    } else if (member.key == "data_deps" || member.key == "ctrlDeps") {
      const JsonList& list = value.List("a list of ids");
      for (std::size_t i = 0; i < list.size(); ++i) node.before.push_back(IdFrom(JsonNode(value, i, list[i])));
    }
  }
  if (!has_id) throw InputError(PlaceOfKey(json.Place(), "Id"), "is missing (the id of a node)");
  return node;
}

}  // namespace

std::vector<ChakraNode> ReadChakra(std::istream& in) {
  IstreamBytes bytes(&in);
  google::protobuf::io::CopyingInputStreamAdaptor buffer(&bytes);
  std::vector<ChakraNode> nodes;
  std::string message;
  for (std::size_t count = 0;; ++count) {
    CodedInputStream stream(&buffer);  // one for each message: it counts bytes in 31 bits
    std::uint32_t length = 0;
    const std::int64_t at = buffer.ByteCount();
    const void* peek = nullptr;
    int available = 0;
    if (!stream.GetDirectBufferPointer(&peek, &available)) break;  // the end
    const bool ok =
        stream.ReadVarint32(&length) && length <= kMaxMessage && stream.ReadString(&message, static_cast<int>(length));
    if (!ok)
      throw InputError(fmt::format("byte {}", at), "is not a message of a Chakra trace (a length, then the message)");
    if (count == 0) continue;  // GlobalMetadata
    auto node = NodeFrom(message);
    if (!node) throw InputError(fmt::format("node {}", count - 1), "is not a Node of a Chakra trace");
    if (node->nanos && *node->nanos > static_cast<std::int64_t>(kMaxChakraMicros) * 1000) {
      throw InputError(fmt::format("node {}", count - 1),
                       fmt::format("takes {} ns (at most {} us)", *node->nanos, kMaxChakraMicros));
    }
    if (node->micros > kMaxChakraMicros) {
      throw InputError(fmt::format("node {}", count - 1),
                       fmt::format("takes {} us (at most {})", node->micros, kMaxChakraMicros));
    }
    nodes.push_back(std::move(*node));
  }
  return nodes;
}

std::vector<ChakraNode> ReadChakraJson(std::istream& in) {
  std::vector<ChakraNode> nodes;
  const JsonValue empty{JsonList()};
  const JsonValue root = ParseJson(
      in, {.key = "workload_graph", .take = [&](const JsonObject&, std::size_t index, const JsonValue& element) {
             const JsonNode parent(empty);
             const JsonNode list(parent, "workload_graph", empty);
             nodes.push_back(NodeFromJson(JsonNode(list, index, element)));
           }});
  if (FindMember(root, "workload_graph") == nullptr) throw InputError("workload_graph", "is missing (a list of nodes)");
  return nodes;
}

Imported MakeChakraGraph(const std::vector<ChakraRank>& ranks) { return ChakraGraphMaker(ranks).Make(); }

bool LooksLikeChakra(std::string_view head) {
  if (StartsAnObject(head)) return head.find("\"workload_graph\"") != std::string_view::npos;
  // GlobalMetadata begins with its version or an attribute, a Node with its id.
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(head.data()), static_cast<int>(head.size()));
  std::uint32_t length = 0;
  if (!stream.ReadVarint32(&length) || length > kMaxMessage) return false;
  std::string message;
  if (length > 0) {
    if (!stream.ReadString(&message, static_cast<int>(length))) return false;
    if (message[0] != '\x0a' && message[0] != '\x12') return false;
  }
  // A rank without nodes: GlobalMetadata, which holds nothing but a version.
  const bool is_whole = stream.CurrentPosition() == static_cast<int>(head.size());
  if (is_whole && message.size() > 2) return message[0] == '\x0a' && message[1] + 2U == message.size();
  if (!stream.ReadVarint32(&length) || length == 0) return false;
  std::uint8_t tag = 0;
  return stream.ReadRaw(&tag, 1) && tag == 0x08;
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

std::vector<ChakraNode> NodesOf(const ImportSource& source) {
  return AtPlace(source.name(), [&] {
    const auto in = source.Open();
    return StartsAnObject(source.head()) ? ReadChakraJson(*in) : ReadChakra(*in);
  });
}

}  // namespace

Imported ImportChakra(std::span<const ImportSource> sources, const ImportOptions&) {
  std::vector<ChakraRank> ranks;
  std::set<std::int64_t> named;
  for (const ImportSource& source : sources) {
    const std::optional<std::int64_t> rank = RankFromName(source.name());
    if (rank) named.insert(*rank);
    ranks.push_back({.rank = rank.value_or(0), .nodes = NodesOf(source)});
  }
  // Without a number in each name, ranks are counted.
  for (std::size_t i = 0; i < ranks.size() && named.size() != ranks.size(); ++i)
    ranks[i].rank = static_cast<std::int64_t>(i);
  return AtPlace(sources.front().name(), [&] { return MakeChakraGraph(ranks); });
}

}  // namespace emplace::datasets
