#include "datasets/importers/chakra_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/importers/chakra_relations.h"
#include "datasets/importers/kineto.h"
#include "sim/base/check.h"
#include "sim/base/free_memory.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kChakraCpuKind = "host-cpu";
constexpr std::string_view kChakraGpuKind = "gpu";
constexpr std::size_t kMaxChakraTracks = 2000;
constexpr std::int64_t kChakraBarrier = 9;

// The relations between the nodes of a trace.
struct ChakraRelations {
  ChakraDependencies dependencies;
  ChakraMessages messages;
  ChakraJoins joins;
};

// A thread or a stream: rank, whether it is of a CPU, tid.
using ChakraTrack = std::tuple<std::size_t, bool, std::int64_t>;
using TrackDevices = std::map<ChakraTrack, std::size_t>;  // positions among devices

ChakraTrack TrackOf(const ChakraTrace::Item& item) {
  return {item.rank, item.node.is_cpu, item.node.thread.value_or(0)};
}

// A device for each thread and stream.
TrackDevices TracksOf(const ChakraTrace& trace) {
  TrackDevices tracks;
  for (const ChakraTrace::Item& item : trace.items) tracks.try_emplace(TrackOf(item), 0);
  if (tracks.size() > kMaxChakraTracks) {
    throw InputError("", fmt::format("there are {} threads and streams (at most {})", tracks.size(), kMaxChakraTracks));
  }
  std::size_t position = 0;
  for (auto& [track, device] : tracks) device = position++;
  return tracks;
}

// A cluster of the threads and streams.
Cluster ClusterOf(const TrackDevices& tracks, const std::vector<std::int64_t>& ranks) {
  std::vector<Device> devices;
  for (const auto& [track, position] : tracks) {
    const auto& [rank, is_cpu, thread] = track;
    devices.push_back({.name = (ranks.size() == 1 ? "" : fmt::format("rank {} ", ranks[rank])) +
                               fmt::format("{} {}", is_cpu ? "thread" : "gpu stream", thread),
                       .kind = std::string(is_cpu ? kChakraCpuKind : kChakraGpuKind),
                       .memory = std::nullopt,
                       .op_gap_micros = 0,
                       .is_cpu = is_cpu});
  }
  return Cluster::Uniform("chakra", std::move(devices),
                          {.bandwidth_gb_per_s = 1e9, .latency_micros = 0, .gap_micros = 0}, Channels::kPerPair);
}

// The devices of a cluster that is given: an accelerator for each rank, and the first CPU for all.
TrackDevices TracksOnCluster(const ChakraTrace& trace, const Cluster& cluster) {
  std::vector<std::size_t> accelerators;
  std::optional<std::size_t> cpu;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (!cluster.devices()[d].is_cpu) {
      accelerators.push_back(d);
    } else if (!cpu) {
      cpu = d;
    }
  }
  if (accelerators.size() < trace.ranks.size()) {
    throw InputError("--cluster", fmt::format("has {} accelerators for {} ranks (one for each)", accelerators.size(),
                                              trace.ranks.size()));
  }
  TrackDevices tracks;
  for (const ChakraTrace::Item& item : trace.items) {
    const std::size_t own = accelerators[item.rank];
    tracks.try_emplace(TrackOf(item), item.node.is_cpu ? cpu.value_or(own) : own);
  }
  return tracks;
}

struct ChakraPlaces {
  TrackDevices tracks;
  std::optional<Cluster> cluster;
};

// The cluster that is given, or one of the threads and streams; none of a workload, which they could not time.
ChakraPlaces FindPlaces(const ChakraTrace& trace, const Cluster* given) {
  if (given == nullptr) {
    ChakraPlaces places{.tracks = TracksOf(trace), .cluster = std::nullopt};
    if (!trace.is_workload) places.cluster = ClusterOf(places.tracks, trace.ranks);
    return places;
  }
  if (!trace.is_workload) {
    throw InputError("--cluster", "cannot be used (the nodes of the trace have times, on devices of their own)");
  }
  return {.tracks = TracksOnCluster(trace, *given), .cluster = *given};
}

std::string NameOf(const ChakraNode& node) { return node.name.empty() ? std::string(KindOf(node)) : node.name; }

// Whether a message has no duration, neither where it is sent nor where it is received.
bool IsMessage(const ChakraTrace& trace, std::size_t send, std::size_t receive) {
  return NeedsTime(trace.items[send].node) && NeedsTime(trace.items[receive].node);
}

// Nodes that take part in a collective or message with ranks that are not given.
bool IsUnknown(const ChakraTrace& trace, const ChakraRelations& relations, std::size_t i) {
  const ChakraNode& node = trace.items[i].node;
  return IsCommunication(node) && NeedsTime(node) && relations.joins.meeting_of[i] == kInvalidChakraItem &&
         relations.joins.collective_of[i] == kInvalidChakraItem &&
         relations.messages.send_of[i] == kInvalidChakraItem && relations.messages.receive_of[i] == kInvalidChakraItem;
}

// Whether a receive was measured as no shorter than its send, so that it includes the wait for it.
bool EndsWithItsSend(const ChakraTrace& trace, const ChakraRelations& relations, std::size_t i) {
  if (relations.messages.send_of[i] == kInvalidChakraItem) return false;
  const ChakraNode& send = trace.items[relations.messages.send_of[i]].node;
  return HasTime(send) && HasTime(trace.items[i].node) && MicrosOf(trace.items[i].node) >= MicrosOf(send);
}

// The items for which an item waits.
void AddBefore(const ChakraTrace& trace, const ChakraRelations& relations, std::size_t i, OpSpec* spec) {
  const auto before = relations.dependencies.Of(i);
  spec->control_positions.insert(spec->control_positions.end(), before.begin(), before.end());
  // A message is an input.
  if (relations.messages.send_of[i] != kInvalidChakraItem && !IsMessage(trace, relations.messages.send_of[i], i))
    spec->control_positions.push_back(relations.messages.send_of[i]);
}

bool ReadsBuffer(const ChakraJoins::Collective& collective) {
  return collective.kind != "all_gather" && collective.kind != "broadcast";
}

// The data of all ranks after an all_gather.
std::int64_t BytesOfAll(const ChakraJoins::Collective& collective) {
  const auto ranks = static_cast<std::int64_t>(collective.num_ranks);
  if (collective.bytes > kMaxJsonInteger / ranks) {
    throw InputError("", fmt::format("{} gathers more than {} bytes", Quoted(collective.group), kMaxJsonInteger));
  }
  return collective.bytes * ranks;
}

// The buffers that collectives read, by item: their positions in the graph, behind the items and the meetings.
using ChakraBuffers = std::map<std::uint32_t, std::uint32_t>;

ChakraBuffers FindBuffers(const ChakraJoins& joins) {
  ChakraBuffers buffers;
  for (std::uint32_t i = 0; i < joins.collective_of.size(); ++i) {
    if (joins.collective_of[i] == kInvalidChakraItem || !ReadsBuffer(joins.collectives[joins.collective_of[i]]))
      continue;
    buffers.emplace(i, static_cast<std::uint32_t>(joins.collective_of.size() + joins.meetings.size() + buffers.size()));
  }
  return buffers;
}

// Makes the op one of a collective that the cluster times.
void MakeCollective(const ChakraJoins::Collective& collective, const ChakraBuffers& buffers, std::uint32_t item,
                    OpSpec* spec) {
  spec->kind = collective.kind;
  if (ReadsBuffer(collective)) {
    // The buffer waits for what the collective depends on.
    spec->control_positions.clear();
    spec->input_positions.push_back({.op = buffers.at(item), .output = 0});
    return;
  }
  const std::int64_t bytes = collective.kind == "all_gather" ? BytesOfAll(collective) : collective.bytes;
  spec->outputs.push_back({.size = Bytes{std::max<std::int64_t>(bytes, 1)}, .shape = {}});
}

// Times an item that is not a communication, in a trace with nodes that need a time.
void TimeWork(const ChakraNode& node, double micros, OpSpec* spec) {
  if (spec->kind == "kernel" || NeedsTime(node)) spec->kind = "workload";
  if (node.type == ChakraNode::Type::kLoad || node.type == ChakraNode::Type::kStore) spec->kind = KindOf(node);
  if (!NeedsTime(node)) spec->time_micros = micros;
}

// Times one that is.
void TimeCommunication(const ChakraTrace& trace, const ChakraRelations& relations, std::size_t i, double micros,
                       OpSpec* spec) {
  const ChakraNode& node = trace.items[i].node;
  const bool is_send = node.type == ChakraNode::Type::kSend;
  const std::uint32_t other = is_send ? relations.messages.receive_of[i] : relations.messages.send_of[i];
  if (other != kInvalidChakraItem && IsMessage(trace, i, other)) {
    spec->kind = is_send ? "send" : "recv";
    if (is_send) spec->outputs.push_back({.size = Bytes{node.bytes.value_or(0)}, .shape = {}});
    if (!is_send) spec->input_positions.push_back({.op = other, .output = 0});
    return;
  }
  // No kind of the op catalogue: roofline would have no time for those.
  spec->kind = "collective";
  if (!IsUnknown(trace, relations, i)) spec->time_micros = micros;
}

OpSpec OpOf(const ChakraTrace& trace, const ChakraRelations& relations, const ChakraBuffers& buffers, std::size_t i) {
  const ChakraNode& node = trace.items[i].node;
  OpSpec spec;
  spec.name = fmt::format("{:07} {}", i, WithoutColons(ShortName(NameOf(node))));
  spec.kind = KindOf(node);
  AddBefore(trace, relations, i, &spec);
  if (relations.joins.meeting_of[i] != kInvalidChakraItem) {
    spec.control_positions.push_back(static_cast<std::uint32_t>(trace.items.size()) + relations.joins.meeting_of[i]);
  }
  JsonObject attrs;
  AddMember(&attrs, "id", node.id);
  if (node.bytes) AddMember(&attrs, "bytes", *node.bytes);
  if (relations.joins.collective_of[i] != kInvalidChakraItem)
    AddMember(&attrs, "group", relations.joins.collectives[relations.joins.collective_of[i]].group);
  spec.attrs = JsonText(ToJson(std::move(attrs)));
  if (node.flop) spec.flop = static_cast<double>(*node.flop);
  double micros = relations.joins.meeting_of[i] != kInvalidChakraItem
                      ? relations.joins.meetings[relations.joins.meeting_of[i]].micros
                      : MicrosOf(node);
  if (EndsWithItsSend(trace, relations, i)) micros = 0;
  const std::uint32_t collective = relations.joins.collective_of[i];
  if (!trace.is_workload) {
    spec.kind_times.emplace_back(node.is_cpu ? kChakraCpuKind : kChakraGpuKind, micros);
  } else if (!IsCommunication(node)) {
    TimeWork(node, micros, &spec);
  } else if (collective != kInvalidChakraItem) {
    MakeCollective(relations.joins.collectives[collective], buffers, static_cast<std::uint32_t>(i), &spec);
  } else {
    TimeCommunication(trace, relations, i, micros, &spec);
  }
  return spec;
}

// Adds the meetings of collectives. What a rank's part waits for, its meeting waits for.
void AddMeetings(const ChakraTrace& trace, const ChakraRelations& relations, const TrackDevices& tracks,
                 GraphBuilder* builder, std::vector<std::size_t>* device_of) {
  const ChakraJoins& joins = relations.joins;
  std::vector<OpSpec> meetings(joins.meetings.size());
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    if (joins.meeting_of[i] != kInvalidChakraItem) AddBefore(trace, relations, i, &meetings[joins.meeting_of[i]]);
  }
  for (std::size_t k = 0; k < meetings.size(); ++k) {
    meetings[k].name = fmt::format("{:07} meeting {}", trace.items.size() + k, k);
    meetings[k].kind = "meeting";
    meetings[k].time_micros = 0;
    builder->Add(meetings[k]);
    device_of->push_back(tracks.at(TrackOf(trace.items[joins.meetings[k].first])));
  }
}

// Adds all ops: the items, the meetings, the buffers. Returns their devices.
std::vector<std::size_t> AddOps(const ChakraTrace& trace, const ChakraRelations& relations, const TrackDevices& tracks,
                                GraphBuilder* builder) {
  const ChakraBuffers buffers = FindBuffers(relations.joins);
  const std::size_t num_ops = trace.items.size() + relations.joins.meetings.size() + buffers.size();
  std::vector<std::size_t> device_of;
  builder->Reserve(num_ops);
  device_of.reserve(num_ops);
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    builder->Add(OpOf(trace, relations, buffers, i));
    device_of.push_back(tracks.at(TrackOf(trace.items[i])));
  }
  AddMeetings(trace, relations, tracks, builder, &device_of);
  for (const auto& [item, position] : buffers) {
    OpSpec spec;
    spec.name = fmt::format("{:07} buffer", position);
    spec.kind = "input";
    AddBefore(trace, relations, item, &spec);
    const ChakraJoins::Collective& collective = relations.joins.collectives[relations.joins.collective_of[item]];
    spec.outputs.push_back({.size = Bytes{std::max<std::int64_t>(collective.bytes, 1)}, .shape = {}});
    builder->Add(spec);
    device_of.push_back(tracks.at(TrackOf(trace.items[item])));
  }
  return device_of;
}

// Notes about the nodes.
struct NodeCounts {
  std::size_t untimed = 0;
  std::size_t worked = 0;
  std::size_t unknown = 0;
  std::size_t untyped = 0;
  std::size_t unsized = 0;
  std::size_t negative = 0;
  std::size_t ends = 0;  // collective ends on accelerators
  std::size_t timed_on_cpu = 0;
  double gpu_micros = 0;
};

NodeCounts CountNodes(const ChakraTrace& trace, const ChakraRelations& relations) {
  NodeCounts counts;
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    const ChakraNode& node = trace.items[i].node;
    // Files written by emplace have exact times, and messages that take no time.
    counts.untimed += HasTime(node) || NeedsTime(node) ? 0 : 1;
    counts.worked += NeedsTime(node) ? 1 : 0;
    const bool has_type = node.type != ChakraNode::Type::kCollective || !TimedAs(node).empty();
    (has_type ? counts.unknown : counts.untyped) += IsUnknown(trace, relations, i) ? 1 : 0;
    const bool sends_nothing = node.collective == kChakraBarrier || !IsCommunication(node);
    counts.unsized += NeedsTime(node) && !sends_nothing && node.bytes.value_or(0) == 0 ? 1 : 0;
    counts.negative += node.has_negative ? 1 : 0;
    counts.timed_on_cpu += node.is_cpu && HasTime(node) ? 1 : 0;
    if (node.is_cpu) continue;
    counts.gpu_micros += MicrosOf(node);
    const bool is_followed =
        relations.dependencies.is_followed[i] || relations.messages.receive_of[i] != kInvalidChakraItem;
    counts.ends += is_followed ? 0 : 1;
  }
  return counts;
}

// Adds what the trace says of the joins of its nodes.
void AddJoinNotes(const ChakraTrace& trace, const ChakraRelations& relations, std::vector<std::string>* notes) {
  if (relations.dependencies.missing > 0) {
    notes->push_back(fmt::format("{} dependencies are on nodes that are not in the trace: left out",
                                 relations.dependencies.missing));
  }
  if (relations.messages.joined > 0)
    notes->push_back(fmt::format("{} messages join {} ranks", relations.messages.joined, trace.ranks.size()));
  if (relations.messages.unsent > 0)
    notes->push_back(
        fmt::format("{} nodes receive a message that no rank sends: they do not wait", relations.messages.unsent));
  if (trace.unreadable_groups > 0) {
    notes->push_back(
        fmt::format("{} lists of process groups cannot be read: groups are taken to be of all ranks that "
                    "name them",
                    trace.unreadable_groups));
  }
  if (!relations.joins.meetings.empty()) {
    notes->push_back(
        fmt::format("{} collectives join {} ranks: they start together and take the shortest of their times",
                    relations.joins.meetings.size(), trace.ranks.size()));
  }
}

// Adds what it says of the nodes themselves. `shares_cpu`: the ranks share the CPU of a cluster that was given.
void AddNodeNotes(const NodeCounts& counts, std::size_t unlike, bool shares_cpu, std::vector<std::string>* notes) {
  if (counts.untimed > 0) notes->push_back(fmt::format("{} nodes have no duration: they take 0", counts.untimed));
  if (counts.worked > 0) {
    notes->push_back(
        fmt::format("{} nodes have work and no duration: --costs roofline times them, on a cluster with "
                    "rates (--cluster), their FLOP as products in half precision",
                    counts.worked));
  }
  if (counts.unknown > 0) {
    notes->push_back(
        fmt::format("{} of these take part in collectives or messages whose other ranks are not given: nothing "
                    "times them (the traces of all ranks)",
                    counts.unknown));
  }
  if (counts.untyped > 0) {
    notes->push_back(fmt::format(
        "{} of these are collectives without a comm_type that is known (0 to 9): nothing times them", counts.untyped));
  }
  if (counts.unsized > 0) {
    notes->push_back(fmt::format(
        "{} collectives and messages have no size (comm_size) and no duration: they move 0 bytes", counts.unsized));
  }
  if (unlike > 0) {
    notes->push_back(
        fmt::format("{} with different sizes on the ranks: the largest is taken", Counted(unlike, "collective")));
  }
  if (counts.negative > 0) {
    notes->push_back(
        fmt::format("{} with a negative size, work or duration, which is left out", Counted(counts.negative, "node")));
  }
  if (shares_cpu && counts.timed_on_cpu > 0) {
    notes->push_back(fmt::format("{} nodes of the ranks' CPUs share one CPU of the cluster", counts.timed_on_cpu));
  }
  if (counts.ends > 0) notes->push_back(fmt::format("nothing depends on {} nodes of the accelerator", counts.ends));
  notes->push_back(
      fmt::format("attributed: all nodes have a place; {:.3f} ms of accelerator time", counts.gpu_micros / 1000));
}

}  // namespace

Imported MakeGraphOfTrace(ChakraTrace trace, const ChakraOptions& options) {
  if (trace.items.empty()) throw InputError("", "holds no node");
  EMPLACE_CHECK_LT(2 * trace.items.size(), std::size_t{kInvalidChakraItem});
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    ChakraNode& node = trace.items[i].node;
    if (!IsValidUtf8(node.name)) throw InputError(trace.PlaceOf(i), "has a name that is not valid UTF-8");
    if (trace.is_workload) node.is_cpu = node.is_cpu && node.says_cpu;
  }
  ChakraRelations relations;
  relations.dependencies = FindDependencies(&trace);
  relations.messages = JoinMessages(trace);
  ChakraPlaces places = FindPlaces(trace, options.cluster);
  relations.joins = JoinCollectives(trace, options.groups);
  GraphBuilder builder("chakra");
  const std::vector<std::size_t> device_of = AddOps(trace, relations, places.tracks, &builder);
  builder.SetMetadata(R"({"source":"chakra"})");
  std::vector<std::string> notes = std::move(relations.joins.notes);
  AddJoinNotes(trace, relations, &notes);
  AddNodeNotes(CountNodes(trace, relations), relations.joins.unlike,
               options.cluster != nullptr && trace.ranks.size() > 1, &notes);
  FreeMemory(&trace.items);
  FreeMemory(&relations.dependencies.before);
  Imported imported{.graph = builder.Build(), .cluster = std::move(places.cluster), .notes = std::move(notes)};
  imported.attributed_percent = 100;
  if (!imported.cluster) return imported;
  Placement placement(imported.graph.num_ops());
  for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
    placement[MakeId<OpId>(i)] = MakeId<DeviceId>(device_of[imported.graph.op(MakeId<OpId>(i)).file_position]);
  }
  imported.placement = std::move(placement);
  return imported;
}

}  // namespace emplace::datasets
