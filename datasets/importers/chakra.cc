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
#include <limits>
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
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/free_memory.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"

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

// A list of integers or texts. Lists of other numbers are no names, and are left out.
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

bool IsCommunication(const ChakraNode& node) {
  return node.type == ChakraNode::Type::kSend || node.type == ChakraNode::Type::kReceive ||
         node.type == ChakraNode::Type::kCollective;
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

bool HasTime(const ChakraNode& node) { return node.micros > 0 || node.nanos.has_value(); }

// Whether a node has work that takes time, and no duration that says how long.
bool NeedsTime(const ChakraNode& node) {
  if (HasTime(node)) return false;
  const bool has_bytes = node.bytes.value_or(0) > 0;
  switch (node.type) {
    case ChakraNode::Type::kCompute:
      return node.flop.value_or(0) > 0 || (has_bytes && !node.is_cpu);
    case ChakraNode::Type::kLoad:
    case ChakraNode::Type::kStore:
      return has_bytes;
    case ChakraNode::Type::kSend:
    case ChakraNode::Type::kReceive:
    case ChakraNode::Type::kCollective:
      return !node.is_cpu;  // on a CPU it is the call alone
    default:
      return false;
  }
}

// The graph's collective that takes as long on the same links, by comm_type; empty: there is none.
constexpr std::string_view kTimedAs[] = {"all_reduce",     "broadcast", "all_gather", "all_gather",
                                         "reduce_scatter", "broadcast", "all_to_all", "reduce_scatter",
                                         "reduce_scatter", "all_reduce"};
constexpr std::int64_t kChakraBarrier = 9;
std::string_view TimedAs(const ChakraNode& node) {
  const std::int64_t type = node.collective.value_or(-1);
  return type >= 0 && static_cast<std::size_t>(type) < std::size(kTimedAs) ? kTimedAs[type] : std::string_view();
}

// Puts the nodes of all ranks together, in one list. A trace of 1 GB has a million of them and fifty times as many
// dependencies, so these are kept in one list too, and all is given up as soon as the graph holds it.
class ChakraGraphMaker {
 public:
  explicit ChakraGraphMaker(const ChakraOptions& options) : options_(options) {}

  // What is added from here on is of a further rank.
  void BeginRank() {
    ++num_ranks_;
    listed_.emplace_back();
  }
  void Add(ChakraNode&& node) {
    if (node.groups && !node.groups->listed.empty()) TakeGroups(node.groups->listed);
    is_workload_ = is_workload_ || NeedsTime(node);
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
    if (is_workload_) {
      for (Item& item : all_) item.node.is_cpu = item.node.is_cpu && item.node.says_cpu;
    }
    FindDependencies();
    JoinMessages();
    std::optional<Cluster> cluster = MakeCluster();
    JoinCollectives();
    Imported imported{.graph = MakeGraph(), .cluster = std::move(cluster), .notes = std::move(notes_)};
    imported.attributed_percent = 100;
    if (!imported.cluster) return imported;
    Placement placement(imported.graph.num_ops());
    for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
      placement[MakeId<OpId>(i)] = MakeId<DeviceId>(device_of_[imported.graph.op(MakeId<OpId>(i)).file_position]);
    }
    imported.placement = std::move(placement);
    return imported;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Item {
    ChakraNode node;       // without its `before`
    std::size_t rank = 0;  // position in ranks_
  };
  using Track = std::tuple<std::size_t, bool, std::int64_t>;  // rank, CPU, tid

  // A collective of several ranks that has a duration.
  struct Meeting {
    std::uint32_t first = 0;  // position in all_ of the first rank's
    double micros = 0;        // the shortest of their times
  };
  // One that the cluster times.
  struct Collective {
    std::string group;
    std::string_view kind;
    std::int64_t bytes = 0;  // of a rank, as Chakra has it: what it gives
    std::size_t num_ranks = 0;
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
    receive_of_.assign(all_.size(), kNone);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].node.type != ChakraNode::Type::kReceive) continue;
      const auto found = sends.find(key(all_[i]));
      if (found == sends.end() || found->second.empty()) {
        ++unsent_;
        continue;
      }
      send_of_[i] = static_cast<std::uint32_t>(found->second.back());
      receive_of_[send_of_[i]] = static_cast<std::uint32_t>(i);
      is_followed_[send_of_[i]] = true;
      found->second.pop_back();
      ++messages_;
    }
  }

  void TakeGroups(const std::string& text) {
    std::optional<ChakraGroups> groups = ListedChakraGroups(text);
    if (!groups) {
      ++unreadable_groups_;
      return;
    }
    for (auto& [name, ranks] : *groups) listed_.back().insert_or_assign(name, std::move(ranks));
  }

  void JoinCollectives() {
    meeting_of_.assign(all_.size(), kNone);
    collective_of_.assign(all_.size(), kNone);
    std::vector<ChakraMember> members;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = all_[i].node;
      if (node.type != ChakraNode::Type::kCollective) continue;
      members.push_back({.node = static_cast<std::uint32_t>(i),
                         .rank = static_cast<std::uint32_t>(all_[i].rank),
                         .group = node.groups ? node.groups->name : std::string_view(),
                         .kind = KindOf(node),
                         .is_cpu = node.is_cpu,
                         .has_dimensions = node.groups && node.groups->leaves_out_dimensions,
                         .size = node.groups ? node.groups->size : std::nullopt});
    }
    ChakraCollectives found = JoinChakraCollectives(members, ranks_, options_.groups, listed_);
    if (ranks_.size() > 1) notes_ = std::move(found.notes);
    for (const ChakraCollective& collective : found.joined) Join(collective);
  }

  void Join(const ChakraCollective& found) {
    const auto needs_time = [&](std::uint32_t node) { return NeedsTime(all_[node].node); };
    if (!std::all_of(found.nodes.begin(), found.nodes.end(), needs_time)) {
      if (found.nodes.size() == 1) return;
      Meeting meeting{.first = found.nodes.front(), .micros = std::numeric_limits<double>::infinity()};
      for (const std::uint32_t node : found.nodes) {
        if (!needs_time(node)) meeting.micros = std::min(meeting.micros, MicrosOf(all_[node].node));
        meeting_of_[node] = static_cast<std::uint32_t>(meetings_.size());
      }
      meetings_.push_back(meeting);
      return;
    }
    const ChakraNode& first = all_[found.nodes.front()].node;
    if (!found.is_whole || TimedAs(first).empty()) return;
    Collective& collective = collectives_.emplace_back();
    collective.group = fmt::format("{} {}{}", KindOf(first), collectives_.size() - 1,
                                   first.groups ? ShownGroup(first.groups->name) : "");
    collective.kind = TimedAs(first);
    collective.num_ranks = found.nodes.size();
    bool is_alike = true;
    for (const std::uint32_t node : found.nodes) {
      is_alike = is_alike && all_[node].node.bytes == first.bytes;
      collective.bytes = std::max(collective.bytes, all_[node].node.bytes.value_or(0));
      collective_of_[node] = static_cast<std::uint32_t>(collectives_.size() - 1);
    }
    unlike_ += is_alike ? 0 : 1;
  }

  static std::string ShownGroup(const std::string& group) {
    if (group.empty()) return "";
    return fmt::format(" of {}", IsValidUtf8(group) ? ShortName(group) : "a group");
  }

  static double MicrosOf(const ChakraNode& node) {
    return node.nanos ? static_cast<double>(*node.nanos) / 1000.0 : static_cast<double>(node.micros);
  }

  // The one that is given, or one of the threads and streams; none of a workload, which they could not time.
  std::optional<Cluster> MakeCluster() {
    if (options_.cluster != nullptr) {
      if (!is_workload_) {
        throw InputError("--cluster", "cannot be used (the nodes of the trace have times, on devices of their own)");
      }
      UseGivenCluster();
      return *options_.cluster;
    }
    std::vector<Device> devices = MakeDevices();
    if (is_workload_) return std::nullopt;
    return Cluster::Uniform("chakra", std::move(devices),
                            {.bandwidth_gb_per_s = 1e9, .latency_micros = 0, .gap_micros = 0}, Channels::kPerPair);
  }

  void UseGivenCluster() {
    std::vector<std::size_t> accelerators;
    std::optional<std::size_t> cpu;
    for (std::size_t d = 0; d < options_.cluster->num_devices(); ++d) {
      if (!options_.cluster->devices()[d].is_cpu) {
        accelerators.push_back(d);
      } else if (!cpu) {
        cpu = d;
      }
    }
    if (accelerators.size() < ranks_.size()) {
      throw InputError("--cluster", fmt::format("has {} accelerators for {} ranks (one for each)", accelerators.size(),
                                                ranks_.size()));
    }
    for (const Item& item : all_) {
      const std::size_t own = accelerators[item.rank];
      tracks_.try_emplace(TrackOf(item), item.node.is_cpu ? cpu.value_or(own) : own);
    }
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

  void AddBefore(std::size_t i, OpSpec* spec) const {
    const auto before = BeforeOf(i);
    spec->control_positions.insert(spec->control_positions.end(), before.begin(), before.end());
    // A message is an input.
    if (send_of_[i] != kNone && !IsMessage(send_of_[i], i)) spec->control_positions.push_back(send_of_[i]);
  }

  OpSpec OpOf(std::size_t i) const {
    const ChakraNode& node = all_[i].node;
    OpSpec spec;
    spec.name = fmt::format("{:07} {}", i, WithoutColons(ShortName(NameOf(node))));
    spec.kind = KindOf(node);
    AddBefore(i, &spec);
    if (meeting_of_[i] != kNone) {
      spec.control_positions.push_back(static_cast<std::uint32_t>(all_.size()) + meeting_of_[i]);
    }
    JsonObject attrs;
    AddMember(&attrs, "id", node.id);
    if (node.bytes) AddMember(&attrs, "bytes", *node.bytes);
    if (collective_of_[i] != kNone) AddMember(&attrs, "group", collectives_[collective_of_[i]].group);
    spec.attrs = JsonText(ToJson(std::move(attrs)));
    if (node.flop) spec.flop = static_cast<double>(*node.flop);
    double micros = meeting_of_[i] != kNone ? meetings_[meeting_of_[i]].micros : MicrosOf(node);
    if (EndsWithItsSend(i)) micros = 0;
    if (is_workload_) {
      TimeWorkload(i, micros, &spec);
    } else {
      spec.kind_times.emplace_back(node.is_cpu ? kChakraCpuKind : kChakraGpuKind, micros);
    }
    return spec;
  }

  // Whether a receive was measured as no shorter than its send, so that it includes the wait for it.
  bool EndsWithItsSend(std::size_t i) const {
    if (send_of_[i] == kNone) return false;
    const ChakraNode& send = all_[send_of_[i]].node;
    return HasTime(send) && HasTime(all_[i].node) && MicrosOf(all_[i].node) >= MicrosOf(send);
  }

  // Whether a message has no duration, neither where it is sent nor where it is received.
  bool IsMessage(std::size_t send, std::size_t receive) const {
    return NeedsTime(all_[send].node) && NeedsTime(all_[receive].node);
  }

  // Of a trace with nodes that need a time.
  void TimeWorkload(std::size_t i, double micros, OpSpec* spec) const {
    const ChakraNode& node = all_[i].node;
    if (!IsCommunication(node)) {
      if (spec->kind == "kernel" || NeedsTime(node)) spec->kind = "workload";
      if (node.type == ChakraNode::Type::kLoad || node.type == ChakraNode::Type::kStore) spec->kind = KindOf(node);
      if (!NeedsTime(node)) spec->time_micros = micros;
      return;
    }
    if (collective_of_[i] != kNone) return MakeCollective(i, spec);
    const bool is_send = node.type == ChakraNode::Type::kSend;
    const std::uint32_t other = is_send ? receive_of_[i] : send_of_[i];
    if (other != kNone && IsMessage(i, other)) {
      spec->kind = is_send ? "send" : "recv";
      if (is_send) spec->outputs.push_back({.size = Bytes{node.bytes.value_or(0)}, .shape = {}});
      if (!is_send) spec->input_positions.push_back({.op = other, .output = 0});
      return;
    }
    // No kind of the op catalogue: roofline would have no time for those.
    spec->kind = "collective";
    if (!IsUnknown(i)) spec->time_micros = micros;
  }

  // What takes part in a collective or message of ranks that are not given.
  bool IsUnknown(std::size_t i) const {
    const ChakraNode& node = all_[i].node;
    return IsCommunication(node) && NeedsTime(node) && meeting_of_[i] == kNone && collective_of_[i] == kNone &&
           send_of_[i] == kNone && receive_of_[i] == kNone;
  }

  static bool ReadsBuffer(const Collective& collective) {
    return collective.kind != "all_gather" && collective.kind != "broadcast";
  }

  void MakeCollective(std::size_t i, OpSpec* spec) const {
    const Collective& collective = collectives_[collective_of_[i]];
    spec->kind = collective.kind;
    if (ReadsBuffer(collective)) {
      // The buffer waits for what the collective depends on.
      spec->control_positions.clear();
      spec->input_positions.push_back({.op = buffer_of_.at(static_cast<std::uint32_t>(i)), .output = 0});
      return;
    }
    const auto ranks = static_cast<std::int64_t>(collective.num_ranks);
    const std::int64_t bytes = collective.kind == "all_gather" ? BytesOfAll(collective, ranks) : collective.bytes;
    spec->outputs.push_back({.size = Bytes{std::max<std::int64_t>(bytes, 1)}, .shape = {}});
  }

  std::int64_t BytesOfAll(const Collective& collective, std::int64_t ranks) const {
    if (collective.bytes > kMaxJsonInteger / ranks) {
      throw InputError("", fmt::format("{} gathers more than {} bytes", Quoted(collective.group), kMaxJsonInteger));
    }
    return collective.bytes * ranks;
  }

  // Positions in the graph: the nodes, the meetings, the buffers.
  void FindBuffers() {
    for (std::uint32_t i = 0; i < all_.size(); ++i) {
      if (collective_of_[i] == kNone || !ReadsBuffer(collectives_[collective_of_[i]])) continue;
      const std::size_t position = all_.size() + meetings_.size() + buffer_of_.size();
      buffer_of_.emplace(i, static_cast<std::uint32_t>(position));
    }
  }

  // Gives the nodes up.
  Graph MakeGraph() {
    FindBuffers();
    GraphBuilder builder("chakra");
    builder.Reserve(all_.size() + meetings_.size() + buffer_of_.size());
    device_of_.reserve(all_.size() + meetings_.size() + buffer_of_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      builder.Add(OpOf(i));
      device_of_.push_back(tracks_.at(TrackOf(all_[i])));
    }
    std::vector<OpSpec> meetings(meetings_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (meeting_of_[i] != kNone) AddBefore(i, &meetings[meeting_of_[i]]);
    }
    for (std::size_t k = 0; k < meetings.size(); ++k) {
      meetings[k].name = fmt::format("{:07} meeting {}", all_.size() + k, k);
      meetings[k].kind = "meeting";
      meetings[k].time_micros = 0;
      builder.Add(meetings[k]);
      device_of_.push_back(tracks_.at(TrackOf(all_[meetings_[k].first])));
    }
    for (const auto& [node, position] : buffer_of_) {
      OpSpec spec;
      spec.name = fmt::format("{:07} buffer", position);
      spec.kind = "input";
      AddBefore(node, &spec);
      const std::int64_t bytes = std::max<std::int64_t>(collectives_[collective_of_[node]].bytes, 1);
      spec.outputs.push_back({.size = Bytes{bytes}, .shape = {}});
      builder.Add(spec);
      device_of_.push_back(tracks_.at(TrackOf(all_[node])));
    }
    builder.SetMetadata(R"({"source":"chakra"})");
    AddNotes();
    FreeMemory(&all_);
    FreeMemory(&before_);
    return builder.Build();
  }

  void AddNotes() {
    std::size_t untimed = 0;
    std::size_t worked = 0;
    std::size_t unknown = 0;
    std::size_t untyped = 0;
    std::size_t unsized = 0;
    std::size_t negative = 0;
    std::size_t ends = 0;
    std::size_t on_shared_cpu = 0;
    double gpu_micros = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const ChakraNode& node = all_[i].node;
      // What emplace wrote has exact times, and messages that take none.
      untimed += HasTime(node) || NeedsTime(node) ? 0 : 1;
      worked += NeedsTime(node) ? 1 : 0;
      const bool has_type = node.type != ChakraNode::Type::kCollective || !TimedAs(node).empty();
      (has_type ? unknown : untyped) += IsUnknown(i) ? 1 : 0;
      const bool sends_nothing = node.collective == kChakraBarrier || !IsCommunication(node);
      unsized += NeedsTime(node) && !sends_nothing && node.bytes.value_or(0) == 0 ? 1 : 0;
      negative += node.has_negative ? 1 : 0;
      on_shared_cpu += options_.cluster != nullptr && ranks_.size() > 1 && node.is_cpu && HasTime(node) ? 1 : 0;
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
    if (unreadable_groups_ > 0) {
      notes_.push_back(
          fmt::format("{} lists of process groups cannot be read: groups are taken to be of all ranks that "
                      "name them",
                      unreadable_groups_));
    }
    if (!meetings_.empty()) {
      notes_.push_back(
          fmt::format("{} collectives join {} ranks: they start together and take the shortest of their times",
                      meetings_.size(), ranks_.size()));
    }
    if (untimed > 0) notes_.push_back(fmt::format("{} nodes have no duration: they take 0", untimed));
    if (worked > 0) {
      notes_.push_back(
          fmt::format("{} nodes have work and no duration: --costs roofline times them, on a cluster with "
                      "rates (--cluster), their FLOP as products in half precision",
                      worked));
    }
    if (unknown > 0) {
      notes_.push_back(
          fmt::format("{} of these take part in collectives or messages whose other ranks are not given: nothing "
                      "times them (the traces of all ranks)",
                      unknown));
    }
    if (untyped > 0) {
      notes_.push_back(fmt::format(
          "{} of these are collectives without a comm_type that is known (0 to 9): nothing times them", untyped));
    }
    if (unsized > 0) {
      notes_.push_back(fmt::format(
          "{} collectives and messages have no size (comm_size) and no duration: they move 0 bytes", unsized));
    }
    if (unlike_ > 0) {
      notes_.push_back(
          fmt::format("{} with different sizes on the ranks: the largest is taken", Counted(unlike_, "collective")));
    }
    if (negative > 0) {
      notes_.push_back(
          fmt::format("{} with a negative size, work or duration, which is left out", Counted(negative, "node")));
    }
    if (on_shared_cpu > 0) {
      notes_.push_back(fmt::format("{} nodes of the ranks' CPUs share one CPU of the cluster", on_shared_cpu));
    }
    if (ends > 0) notes_.push_back(fmt::format("nothing depends on {} nodes of the accelerator", ends));
    notes_.push_back(
        fmt::format("attributed: all nodes have a place; {:.3f} ms of accelerator time", gpu_micros / 1000));
  }

  const ChakraOptions& options_;
  std::size_t num_ranks_ = 0;
  bool is_workload_ = false;          // there are nodes that need a time
  std::vector<ChakraGroups> listed_;  // by rank
  std::vector<std::int64_t> ranks_;
  std::vector<Item> all_;
  // What the node at i waits for begins at first_before_[i]: in ids_before_ until FindDependencies, then in before_, as
  // positions in all_ and so in the graph.
  std::vector<std::size_t> first_before_;
  std::vector<std::uint64_t> ids_before_;
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> send_of_;     // of a receive; kNone: none
  std::vector<std::uint32_t> receive_of_;  // of a send
  std::vector<std::uint32_t> meeting_of_;  // kNone: none
  std::vector<std::uint32_t> collective_of_;
  std::vector<bool> is_followed_;
  std::map<Track, std::size_t> tracks_;  // positions among devices
  std::vector<Meeting> meetings_;
  std::vector<Collective> collectives_;
  std::map<std::uint32_t, std::uint32_t> buffer_of_;  // of a node in a collective: positions in the graph
  std::vector<std::size_t> device_of_;                // by position in the graph
  std::vector<std::string> notes_;
  std::size_t missing_ = 0;
  std::size_t messages_ = 0;
  std::size_t unsent_ = 0;
  std::size_t unlike_ = 0;  // collectives whose ranks say different sizes
  std::size_t unreadable_groups_ = 0;
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
  ChakraGraphMaker maker(options);
  std::vector<std::int64_t> numbers;
  for (const ChakraRank& rank : ranks) {
    maker.BeginRank();
    for (const ChakraNode& node : rank.nodes) maker.Add(ChakraNode(node));
    numbers.push_back(rank.rank);
  }
  return maker.Make(std::move(numbers));
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
    chakra.groups = AtPlace(options.comm_groups, [&] { return ReadChakraGroups(*in); });
  }
  ChakraGraphMaker maker(chakra);
  std::vector<std::int64_t> ranks;
  std::set<std::int64_t> named;
  for (const ImportSource& source : sources) {
    const std::optional<std::int64_t> rank = RankFromName(source.name());
    if (rank) named.insert(*rank);
    ranks.push_back(rank.value_or(0));
    maker.BeginRank();
    AtPlace(source.name(), [&] {
      const auto in = source.Open(InputKind::kChakra);
      const auto take = [&maker](ChakraNode&& node) { maker.Add(std::move(node)); };
      StartsAnObject(source.head()) ? ReadChakraJson(*in, take) : ReadChakra(*in, take);
    });
  }
  // Without a number in each name, ranks are counted.
  if (named.size() != ranks.size()) std::iota(ranks.begin(), ranks.end(), std::int64_t{0});
  return AtPlace(sources.front().name(), [&] { return maker.Make(std::move(ranks)); });
}

}  // namespace emplace::datasets
