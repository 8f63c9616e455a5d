#include "datasets/importers/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <istream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/kineto.h"
#include "sim/base/check.h"
#include "sim/base/free_memory.h"
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

// Puts the nodes of all ranks together, in one list. A trace of 1 GB has a million of them and fifty times as many
// dependencies, so these are kept in one list too, and all is given up as soon as the graph holds it.
class ChakraGraphMaker {
 public:
  // What is added from here on is of a further rank.
  void BeginRank() { ++num_ranks_; }
  void Add(ChakraNode&& node) {
    first_before_.push_back(ids_before_.size());
    ids_before_.insert(ids_before_.end(), node.before.begin(), node.before.end());
    FreeMemory(&node.before);
    all_.push_back({std::move(node), num_ranks_ - 1});
  }

  // `ranks`: the number of each.
  Imported Make(std::vector<std::int64_t> ranks) {
    ranks_ = std::move(ranks);
    EMPLACE_CHECK_EQ(ranks_.size(), num_ranks_);
    if (all_.empty()) throw InputError("", "holds no node");
    EMPLACE_CHECK_LT(2 * all_.size(), std::size_t{kNone});
    CheckNames();
    FindDependencies();
    JoinMessages();
    std::vector<Device> devices = MakeDevices();
    JoinCollectives();
    Imported imported{.graph = MakeGraph(), .cluster = std::nullopt, .notes = std::move(notes_)};
    imported.cluster =
        Cluster::Uniform("chakra", std::move(devices),
                         {.bandwidth_gb_per_s = 1e9, .latency_micros = 0, .gap_micros = 0}, Channels::kPerPair);
    Placement placement(imported.graph.num_ops());
    for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
      placement[MakeId<OpId>(i)] = MakeId<DeviceId>(device_of_[imported.graph.op(MakeId<OpId>(i)).file_position]);
    }
    imported.placement = std::move(placement);
    imported.attributed_percent = 100;
    return imported;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Item {
    ChakraNode node;       // without its `before`
    std::size_t rank = 0;  // position in ranks_
  };
  using Track = std::tuple<std::size_t, bool, std::int64_t>;  // rank, CPU, tid

  // The k-th collective of all ranks.
  struct Meeting {
    std::uint32_t first = 0;  // position in all_ of the first rank's
    double micros = 0;        // the shortest of their times
  };

  static Track TrackOf(const Item& item) { return {item.rank, item.node.is_cpu, item.node.thread.value_or(0)}; }
  std::string PlaceOf(std::size_t i) const {
    std::size_t first = i;
    while (first > 0 && all_[first - 1].rank == all_[i].rank) --first;
    return ranks_.size() == 1 ? fmt::format("node {}", i)
                              : fmt::format("rank {}, node {}", ranks_[all_[i].rank], i - first);
  }
  static std::string NameOf(const ChakraNode& node) {
    return node.name.empty() ? std::string(KindOf(node)) : node.name;
  }

  void CheckNames() const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!IsValidUtf8(all_[i].node.name)) throw InputError(PlaceOf(i), "has a name that is not valid UTF-8");
    }
  }

  void FindDependencies() {
    std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> positions(ranks_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const std::uint64_t id = all_[i].node.id;
      if (!positions[all_[i].rank].try_emplace(id, static_cast<std::uint32_t>(i)).second) {
        throw InputError(PlaceOf(i), fmt::format("the id {} is another node's too (each id once)", id));
      }
    }
    is_followed_.assign(all_.size(), false);
    first_before_.push_back(ids_before_.size());
    before_.reserve(ids_before_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const std::size_t begin = std::exchange(first_before_[i], before_.size());
      for (std::size_t k = begin; k < first_before_[i + 1]; ++k) {
        const auto found = positions[all_[i].rank].find(ids_before_[k]);
        if (found == positions[all_[i].rank].end()) {
          ++missing_;
          continue;
        }
        is_followed_[found->second] = true;
        before_.push_back(found->second);
      }
    }
    first_before_.back() = before_.size();
    FreeMemory(&ids_before_);
  }

  std::span<const std::uint32_t> BeforeOf(std::size_t i) const {
    return std::span(before_).subspan(first_before_[i], first_before_[i + 1] - first_before_[i]);
  }

  void JoinMessages() {
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<std::size_t>> sends;
    const auto key = [&](const Item& item) {
      const std::int64_t own = ranks_[item.rank];
      const bool is_send = item.node.type == ChakraNode::Type::kSend;
      return std::tuple(is_send ? own : item.node.source.value_or(-1),
                        is_send ? item.node.destination.value_or(-1) : own, item.node.tag.value_or(0));
    };
    for (std::size_t i = all_.size(); i-- > 0;) {
      if (all_[i].node.type == ChakraNode::Type::kSend) sends[key(all_[i])].push_back(i);
    }
    send_of_.assign(all_.size(), kNone);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].node.type != ChakraNode::Type::kReceive) continue;
      const auto found = sends.find(key(all_[i]));
      if (found == sends.end() || found->second.empty()) {
        ++unsent_;
        continue;
      }
      send_of_[i] = static_cast<std::uint32_t>(found->second.back());
      is_followed_[send_of_[i]] = true;
      found->second.pop_back();
      ++messages_;
    }
  }

  void JoinCollectives() {
    meeting_of_.assign(all_.size(), kNone);
    if (ranks_.size() == 1) return;
    std::vector<std::vector<std::uint32_t>> collectives(ranks_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].node.type == ChakraNode::Type::kCollective) {
        collectives[all_[i].rank].push_back(static_cast<std::uint32_t>(i));
      }
    }
    const std::size_t count = collectives[0].size();
    for (const auto& of_rank : collectives) {
      if (of_rank.size() != count) {
        differs_ = true;
        return;
      }
    }
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint32_t first = collectives[0][k];
      Meeting meeting{.first = first, .micros = MicrosOf(all_[first].node)};
      for (const auto& of_rank : collectives) {
        meeting.micros = std::min(meeting.micros, MicrosOf(all_[of_rank[k]].node));
        meeting_of_[of_rank[k]] = static_cast<std::uint32_t>(k);
      }
      meetings_.push_back(meeting);
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
      devices.push_back({.name = (ranks_.size() == 1 ? "" : fmt::format("rank {} ", ranks_[rank])) +
                                 fmt::format("{} {}", is_cpu ? "thread" : "gpu stream", thread),
                         .kind = std::string(is_cpu ? kChakraCpuKind : kChakraGpuKind),
                         .memory = std::nullopt,
                         .op_gap_micros = 0,
                         .is_cpu = is_cpu});
    }
    return devices;
  }

  // Gives the nodes up.
  Graph MakeGraph() {
    GraphBuilder builder("chakra");
    builder.Reserve(all_.size() + meetings_.size());
    device_of_.reserve(all_.size() + meetings_.size());
    const auto add_before = [&](std::size_t i, OpSpec* spec) {
      const auto before = BeforeOf(i);
      spec->control_positions.insert(spec->control_positions.end(), before.begin(), before.end());
      if (send_of_[i] != kNone) spec->control_positions.push_back(send_of_[i]);
    };
    const auto micros_of = [&](std::size_t i) {
      return meeting_of_[i] != kNone ? meetings_[meeting_of_[i]].micros : MicrosOf(all_[i].node);
    };
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = all_[i].node;
      OpSpec spec;
      spec.name = fmt::format("{:07} {}", i, WithoutColons(ShortName(NameOf(node))));
      spec.kind = KindOf(node);
      add_before(i, &spec);
      if (meeting_of_[i] != kNone) {
        spec.control_positions.push_back(static_cast<std::uint32_t>(all_.size()) + meeting_of_[i]);
      }
      JsonObject attrs;
      AddMember(&attrs, "id", node.id);
      if (node.bytes) AddMember(&attrs, "bytes", *node.bytes);
      spec.attrs = JsonText(ToJson(std::move(attrs)));
      if (node.flop) spec.flop = static_cast<double>(*node.flop);
      spec.kind_times.emplace_back(node.is_cpu ? kChakraCpuKind : kChakraGpuKind, micros_of(i));
      builder.Add(spec);
      device_of_.push_back(tracks_.at(TrackOf(all_[i])));
    }
    std::vector<OpSpec> meetings(meetings_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (meeting_of_[i] != kNone) add_before(i, &meetings[meeting_of_[i]]);
    }
    for (std::size_t k = 0; k < meetings.size(); ++k) {
      meetings[k].name = fmt::format("{:07} meeting {}", all_.size() + k, k);
      meetings[k].kind = "meeting";
      meetings[k].time_micros = 0;
      builder.Add(meetings[k]);
      device_of_.push_back(tracks_.at(TrackOf(all_[meetings_[k].first])));
    }
    builder.SetMetadata(R"({"source":"chakra"})");
    AddNotes();
    FreeMemory(&all_);
    FreeMemory(&before_);
    return builder.Build();
  }

  void AddNotes() {
    std::size_t untimed = 0;
    std::size_t ends = 0;
    double gpu_micros = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = all_[i].node;
      // What emplace wrote has exact times, and messages that take none.
      untimed += node.micros == 0 && !node.nanos ? 1 : 0;
      if (node.is_cpu) continue;
      gpu_micros += MicrosOf(node);
      ends += is_followed_[i] ? 0 : 1;
    }
    if (missing_ > 0) {
      notes_.push_back(fmt::format("{} dependencies are on nodes that are not in the trace: left out", missing_));
    }
    if (messages_ > 0) notes_.push_back(fmt::format("{} messages join {} ranks", messages_, ranks_.size()));
    if (unsent_ > 0)
      notes_.push_back(fmt::format("{} nodes receive what no rank sends: they wait for nothing", unsent_));
    if (differs_) notes_.push_back("the ranks have different numbers of collectives: they are not joined");
    if (!meetings_.empty()) {
      notes_.push_back(
          fmt::format("{} collectives join {} ranks: they start together and take the shortest of their times",
                      meetings_.size(), ranks_.size()));
    }
    if (untimed > 0) notes_.push_back(fmt::format("{} nodes have no duration: they take 0", untimed));
    if (ends > 0) notes_.push_back(fmt::format("nothing depends on {} nodes of the accelerator", ends));
    notes_.push_back(
        fmt::format("attributed: all nodes have a place; {:.3f} ms of accelerator time", gpu_micros / 1000));
  }

  std::size_t num_ranks_ = 0;
  std::vector<std::int64_t> ranks_;
  std::vector<Item> all_;
  // What the node at i waits for begins at first_before_[i]: in ids_before_ until FindDependencies, then in before_, as
  // positions in all_ and so in the graph.
  std::vector<std::size_t> first_before_;
  std::vector<std::uint64_t> ids_before_;
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> send_of_;     // of a receive; kNone: none
  std::vector<std::uint32_t> meeting_of_;  // kNone: none
  std::vector<bool> is_followed_;
  std::map<Track, std::size_t> tracks_;  // positions among devices
  std::vector<Meeting> meetings_;
  std::vector<std::size_t> device_of_;  // by position in the graph
  std::vector<std::string> notes_;
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

void ReadChakra(std::istream& in, const TakeChakraNode& take) {
  IstreamBytes bytes(&in);
  google::protobuf::io::CopyingInputStreamAdaptor buffer(&bytes);
  std::string message;
  for (std::size_t count = 0;; ++count) {
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
    take(std::move(*node));
  }
}

void ReadChakraJson(std::istream& in, const TakeChakraNode& take) {
  const JsonValue empty{JsonList()};
  const JsonValue root = ParseJson(
      in, {.key = "workload_graph", .take = [&](const JsonObject&, std::size_t index, const JsonValue& element) {
             const JsonNode parent(empty);
             const JsonNode list(parent, "workload_graph", empty);
             take(NodeFromJson(JsonNode(list, index, element)));
           }});
  if (FindMember(root, "workload_graph") == nullptr) throw InputError("workload_graph", "is missing (a list of nodes)");
}

Imported MakeChakraGraph(const std::vector<ChakraRank>& ranks) {
  ChakraGraphMaker maker;
  std::vector<std::int64_t> numbers;
  for (const ChakraRank& rank : ranks) {
    maker.BeginRank();
    for (const ChakraNode& node : rank.nodes) maker.Add(ChakraNode(node));
    numbers.push_back(rank.rank);
  }
  return maker.Make(std::move(numbers));
}

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
  if (is_whole && message.size() > 2) {
    return message[0] == '\x0a' &&
           static_cast<std::size_t>(static_cast<unsigned char>(message[1])) + 2 == message.size();
  }
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

}  // namespace

Imported ImportChakra(std::span<const ImportSource> sources, const ImportOptions&) {
  ChakraGraphMaker maker;
  std::vector<std::int64_t> ranks;
  std::set<std::int64_t> named;
  for (const ImportSource& source : sources) {
    const std::optional<std::int64_t> rank = RankFromName(source.name());
    if (rank) named.insert(*rank);
    ranks.push_back(rank.value_or(0));
    maker.BeginRank();
    AtPlace(source.name(), [&] {
      const auto in = source.Open();
      const auto take = [&maker](ChakraNode&& node) { maker.Add(std::move(node)); };
      StartsAnObject(source.head()) ? ReadChakraJson(*in, take) : ReadChakra(*in, take);
    });
  }
  // Without a number in each name, ranks are counted.
  if (named.size() != ranks.size()) std::iota(ranks.begin(), ranks.end(), std::int64_t{0});
  return AtPlace(sources.front().name(), [&] { return maker.Make(std::move(ranks)); });
}

}  // namespace emplace::datasets
