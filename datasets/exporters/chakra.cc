#include "datasets/exporters/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

std::int64_t Nanos(double micros) { return DurationFromMicros(micros).count(); }

// Collects the nodes of all ranks. Ids are those of one counter, so that no two ranks share one.
class ChakraRankMaker {
 public:
  ChakraRankMaker(const Graph& graph, const Cluster& cluster, const Placement& placement, const Timeline& timeline)
      : graph_(graph),
        cluster_(cluster),
        placement_(placement),
        timeline_(timeline),
        op_node_(graph.num_ops()),
        last_sent_(graph.num_ops(), kNone),
        channel_last_(cluster.num_devices() * cluster.num_devices(), kNone),
        ranks_(cluster.num_devices()) {
    for (std::size_t d = 0; d < ranks_.size(); ++d) ranks_[d].rank = static_cast<std::int64_t>(d);
  }

  std::vector<ChakraRank> Make() {
    for (const Timeline::OpRun& run : timeline_.ops) AddOp(run);
    for (const Timeline::Transfer& transfer : timeline_.transfers) AddTransfer(transfer);
    AddLatencies();
    std::vector<std::size_t> before(ranks_.size(), kNone);    // op node before it on its device
    std::vector<std::size_t> transfer(ranks_.size(), kNone);  // last one that these sent
    for (const Timeline::OpRun& run : timeline_.ops) {
      const std::size_t device = Index(run.device);
      FindDependencies(run, before[device], transfer[device]);
      before[device] = op_node_[Index(run.op)];
      if (last_sent_[Index(run.op)] != kNone) transfer[device] = last_sent_[Index(run.op)];
    }
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Made& a, const Made& b) {
      return std::pair(a.start, *a.node.nanos) < std::pair(b.start, *b.node.nanos);
    });
    for (Made& made : nodes_) {
      made.node.before = std::move(made.data);
      made.node.num_data = made.node.before.size();
      made.node.before.insert(made.node.before.end(), made.control.begin(), made.control.end());
      made.node.start_micros = static_cast<std::uint64_t>((made.start + 500) / 1000);
      made.node.micros = static_cast<std::uint64_t>((*made.node.nanos + 500) / 1000);
      ranks_[made.rank].nodes.push_back(std::move(made.node));
    }
    return std::move(ranks_);
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  using Ids = std::vector<std::uint64_t>;

  struct Made {
    std::size_t rank = 0;
    std::int64_t start = 0;
    ChakraNode node = {};
    Ids data = {};
    Ids control = {};
    std::optional<std::size_t> gap = {};  // the node of the gap behind it
  };

  // Threads of a rank: its ops, its channels, what it receives, then as many as its latencies need.
  std::int64_t ReceiveTrack() const { return 1 + static_cast<std::int64_t>(ranks_.size()); }

  std::size_t Add(std::size_t rank, ChakraNode::Type type, std::string name, std::int64_t start, std::int64_t end,
                  std::int64_t track) {
    Made made{.rank = rank, .start = start};
    made.node.id = nodes_.size() + 1;
    made.node.name = std::move(name);
    made.node.type = type;
    made.node.nanos = end - start;
    made.node.is_cpu = false;
    made.node.thread = track;
    nodes_.push_back(std::move(made));
    return nodes_.size() - 1;
  }
  std::uint64_t Id(std::size_t node) const { return nodes_[node].node.id; }

  void AddOp(const Timeline::OpRun& run) {
    const Op& op = graph_.op(run.op);
    const std::size_t node = Add(Index(run.device), ChakraNode::Type::kCompute, std::string(op.name),
                                 Nanos(run.start_micros), Nanos(run.end_micros), 0);
    nodes_[node].node.is_cpu = cluster_.device(run.device).is_cpu;
    std::int64_t bytes = 0;
    for (const TensorId input : graph_.inputs(run.op)) bytes += graph_.tensor(input).size.count;
    for (std::size_t k = 0; k < graph_.num_outputs(run.op); ++k) {
      bytes += graph_.tensor(MakeId<TensorId>(Index(graph_.first_output(run.op)) + k)).size.count;
    }
    nodes_[node].node.bytes = bytes;
    constexpr double kMostFlop = 9e18;
    if (op.flop > 0) nodes_[node].node.flop = static_cast<std::int64_t>(std::min(op.flop, kMostFlop));
    op_node_[Index(run.op)] = node;
  }

  // A message, and what receives it. Returns both.
  std::pair<std::size_t, std::size_t> AddMessage(DeviceId from, DeviceId to, const std::string& name,
                                                 std::int64_t start, std::int64_t end, std::int64_t track,
                                                 std::int64_t bytes) {
    const std::size_t send = Add(Index(from), ChakraNode::Type::kSend, "send " + name, start, end, track);
    const std::size_t receive = Add(Index(to), ChakraNode::Type::kReceive, "receive " + name, end, end, ReceiveTrack());
    ++messages_;
    for (const std::size_t node : {send, receive}) {
      nodes_[node].node.bytes = bytes;
      nodes_[node].node.source = static_cast<std::int64_t>(Index(from));
      nodes_[node].node.destination = static_cast<std::int64_t>(Index(to));
      nodes_[node].node.tag = messages_;
    }
    return {send, receive};
  }

  // The node of the gap behind a node, or the node itself if there is none.
  std::size_t GapBehind(std::size_t node, std::int64_t gap) {
    if (gap == 0) return node;
    if (!nodes_[node].gap) {
      const std::int64_t start = nodes_[node].start + *nodes_[node].node.nanos;
      const std::size_t added =
          Add(nodes_[node].rank, ChakraNode::Type::kCompute, "gap behind " + nodes_[node].node.name, start, start + gap,
              *nodes_[node].node.thread);
      nodes_[added].node.is_cpu = nodes_[node].node.is_cpu;
      nodes_[added].control.push_back(Id(node));
      nodes_[node].gap = added;
    }
    return *nodes_[node].gap;
  }

  // docs/model.md, F5 and F13.
  std::size_t Channel(DeviceId from, DeviceId to) const {
    if (cluster_.channels() == Channels::kPerDevice) return Index(from) * ranks_.size();
    return Index(from) * ranks_.size() + Index(cluster_.device(from).copy_engine ? to : from);
  }
  std::int64_t LinkGap(std::size_t send) const {
    const ChakraNode& node = nodes_[send].node;
    return Nanos(cluster_
                     .link(MakeId<DeviceId>(static_cast<std::size_t>(*node.source)),
                           MakeId<DeviceId>(static_cast<std::size_t>(*node.destination)))
                     .gap_micros);
  }

  void AddTransfer(const Timeline::Transfer& transfer) {
    const Tensor& tensor = graph_.tensor(transfer.tensor);
    const std::size_t channel = Channel(transfer.from, transfer.to);
    const auto [send, receive] = AddMessage(transfer.from, transfer.to,
                                            fmt::format("{}:{}", graph_.op(tensor.producer).name, tensor.output_index),
                                            Nanos(transfer.start_micros), Nanos(transfer.arrival_micros),
                                            1 + static_cast<std::int64_t>(channel % ranks_.size()), tensor.size.count);
    nodes_[send].data.push_back(Id(op_node_[Index(tensor.producer)]));
    std::size_t& last = channel_last_[channel];
    if (last != kNone) {
      const std::size_t gap = GapBehind(last, LinkGap(last));
      nodes_[send].control.push_back(Id(gap));
    }
    last = send;
    last_sent_[Index(tensor.producer)] = send;
    received_[{Index(transfer.tensor), Index(transfer.to)}] = receive;
  }

  // A message for each op that an op on another device waits for. Messages overlap freely, so each is put on the first
  // free thread.
  void AddLatencies() {
    struct Latency {
      std::int64_t start = 0;
      OpId op{};
      DeviceId to{};
    };
    std::vector<std::vector<Latency>> of_rank(ranks_.size());
    for (const Timeline::OpRun& run : timeline_.ops) {
      std::vector<DeviceId> to;
      for (const OpId waits : graph_.control_consumers(run.op)) {
        if (placement_[waits] != run.device) to.push_back(placement_[waits]);
      }
      std::sort(to.begin(), to.end());
      to.erase(std::unique(to.begin(), to.end()), to.end());
      for (const DeviceId device : to) of_rank[Index(run.device)].push_back({Nanos(run.end_micros), run.op, device});
    }
    for (std::vector<Latency>& latencies : of_rank) {
      std::stable_sort(latencies.begin(), latencies.end(),
                       [](const Latency& a, const Latency& b) { return a.start < b.start; });
      std::vector<std::int64_t> free_at;
      for (const Latency& latency : latencies) {
        const DeviceId from = placement_[latency.op];
        const std::int64_t end = latency.start + Nanos(cluster_.link(from, latency.to).latency_micros);
        std::size_t track = 0;
        while (track < free_at.size() && free_at[track] > latency.start) ++track;
        if (track == free_at.size()) free_at.push_back(0);
        free_at[track] = end;
        const auto [send, receive] =
            AddMessage(from, latency.to, fmt::format("the end of {}", graph_.op(latency.op).name), latency.start, end,
                       ReceiveTrack() + 1 + static_cast<std::int64_t>(track), 0);
        nodes_[send].data.push_back(Id(op_node_[Index(latency.op)]));
        latency_receive_[{Index(latency.op), Index(latency.to)}] = receive;
      }
    }
  }

  void FindDependencies(const Timeline::OpRun& run, std::size_t before, std::size_t transfer) {
    const std::size_t node = op_node_[Index(run.op)];
    const auto add = [](Ids* ids, std::uint64_t id) {
      if (std::find(ids->begin(), ids->end(), id) == ids->end()) ids->push_back(id);
    };
    for (const TensorId input : graph_.inputs(run.op)) {
      const OpId producer = graph_.tensor(input).producer;
      const bool is_here = placement_[producer] == run.device;
      const std::size_t from = is_here ? op_node_[Index(producer)] : received_.at({Index(input), Index(run.device)});
      add(&nodes_[node].data, Id(from));
    }
    for (const OpId producer : graph_.control_inputs(run.op)) {
      const bool is_here = placement_[producer] == run.device;
      const std::size_t from =
          is_here ? op_node_[Index(producer)] : latency_receive_.at({Index(producer), Index(run.device)});
      add(&nodes_[node].control, Id(from));
    }
    if (before != kNone) {
      const bool has_gap = *nodes_[before].node.nanos != 0;
      const std::size_t gap = GapBehind(before, has_gap ? Nanos(cluster_.device(run.device).op_gap_micros) : 0);
      add(&nodes_[node].control, Id(gap));
    }
    if (transfer != kNone && !cluster_.device(run.device).copy_engine) {
      const std::size_t gap = GapBehind(transfer, LinkGap(transfer));
      add(&nodes_[node].control, Id(gap));
    }
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
  const Timeline& timeline_;
  std::vector<Made> nodes_;
  std::vector<std::size_t> op_node_;                                     // [num_ops]
  std::vector<std::size_t> last_sent_;                                   // [num_ops]: the last transfer of its tensors
  std::vector<std::size_t> channel_last_;                                // indexed by Channel()
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> received_;  // (tensor, device)
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> latency_receive_;  // (op, device)
  std::int64_t messages_ = 0;
  std::vector<ChakraRank> ranks_;
};

// Wire format of protobuf.
constexpr std::uint32_t Tag(std::uint32_t field, std::uint32_t type) { return field << 3 | type; }
constexpr std::uint32_t kWireVarint = 0;
constexpr std::uint32_t kWireBytes = 2;

void PutBytes(CodedOutputStream* out, std::uint32_t field, const std::string& bytes) {
  out->WriteTag(Tag(field, kWireBytes));
  out->WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
  out->WriteString(bytes);
}

void PutInteger(CodedOutputStream* out, std::uint32_t field, std::uint64_t integer) {
  out->WriteTag(Tag(field, kWireVarint));
  out->WriteVarint64(integer);
}

template <typename Write>
std::string MessageOf(const Write& write) {
  std::string bytes;
  StringOutputStream buffer(&bytes);
  {
    CodedOutputStream out(&buffer);
    write(&out);
  }
  return bytes;
}

void PutAttribute(CodedOutputStream* out, const std::string& name, std::uint32_t value_field, std::uint64_t value) {
  constexpr std::uint32_t kAttributes = 10;
  PutBytes(out, kAttributes, MessageOf([&](CodedOutputStream* attribute) {
             PutBytes(attribute, 1, name);
             PutInteger(attribute, value_field, value);
           }));
}

void PutIds(CodedOutputStream* out, std::uint32_t field, std::span<const std::uint64_t> ids) {
  if (ids.empty()) return;
  PutBytes(out, field, MessageOf([&](CodedOutputStream* packed) {
             for (const std::uint64_t id : ids) packed->WriteVarint64(id);
           }));
}

void PutNode(CodedOutputStream* out, const ChakraNode& node) {
  const std::span<const std::uint64_t> before(node.before);
  PutInteger(out, 1, node.id);
  PutBytes(out, 2, node.name);
  PutInteger(out, 3, static_cast<std::uint64_t>(node.type));
  PutIds(out, 4, before.subspan(node.num_data));
  PutIds(out, 5, before.first(node.num_data));
  PutInteger(out, 6, node.start_micros);
  PutInteger(out, 7, node.micros);
  constexpr std::uint32_t kInt32 = 7;
  constexpr std::uint32_t kInt64 = 9;
  constexpr std::uint32_t kUint64 = 13;
  constexpr std::uint32_t kBool = 27;
  PutAttribute(out, "is_cpu_op", kBool, node.is_cpu ? 1 : 0);
  const auto put = [&](const char* name, std::uint32_t field, const std::optional<std::int64_t>& value) {
    if (value) PutAttribute(out, name, field, static_cast<std::uint64_t>(*value));
  };
  put("tid", kInt64, node.thread);
  put("duration_ns", kInt64, node.nanos);
  if (node.type == ChakraNode::Type::kCompute) {
    put("num_ops", kInt64, node.flop);
    put("tensor_size", kUint64, node.bytes);
    return;
  }
  put("comm_size", kInt64, node.bytes);
  put("comm_src", kInt32, node.source);
  put("comm_dst", kInt32, node.destination);
  put("comm_tag", kInt32, node.tag);
}

void PutDelimited(std::ostream& out, const std::string& message) {
  const std::string length =
      MessageOf([&](CodedOutputStream* stream) { stream->WriteVarint32(static_cast<std::uint32_t>(message.size())); });
  out << length << message;
}

}  // namespace

std::vector<ChakraRank> MakeChakraRanks(const Graph& graph, const Cluster& cluster, const Placement& placement,
                                        const Timeline& timeline) {
  EMPLACE_CHECK_EQ(timeline.ops.size(), graph.num_ops());
  if (cluster.has_issue_lanes()) {
    throw InputError("cluster " + cluster.name(),
                     "has issue lanes, which Chakra's nodes cannot say (a cluster without)");
  }
  return ChakraRankMaker(graph, cluster, placement, timeline).Make();
}

void WriteChakra(std::ostream& out, std::span<const ChakraNode> nodes) {
  // The version that PyTorch's converter writes.
  PutDelimited(out, MessageOf([](CodedOutputStream* metadata) { PutBytes(metadata, 1, "0.0.4"); }));
  for (const ChakraNode& node : nodes) {
    PutDelimited(out, MessageOf([&](CodedOutputStream* message) { PutNode(message, node); }));
  }
}

}  // namespace emplace::datasets
