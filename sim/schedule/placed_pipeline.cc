#include "sim/schedule/placed_pipeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "sim/graph_algorithms.h"
#include "sim/network/collective_times.h"
#include "sim/schedule/pipeline_stages.h"
#include "sim/schedule/teams.h"

namespace emplace {
namespace {

using enum PipelineRole;

constexpr std::size_t kInvalidPosition = std::numeric_limits<std::size_t>::max();

ActionKind PartOf(PipelineRole role) {
  if (role == kForwardOp) return ActionKind::kForward;
  return role == kInputOp ? ActionKind::kBackwardInput : ActionKind::kBackwardWeight;
}

// A placed graph whose stages are known.
struct StagedGraph {
  const PlacedGraph& placed;
  const std::vector<PipelineRole>& roles;  // indexed by OpId
  const std::vector<std::size_t>& stages;  // indexed by OpId
  const std::vector<DeviceId>& devices;    // indexed by rank
  std::vector<std::size_t> rank_of_device;

  PipelineRole Role(OpId op) const { return roles[Index(op)]; }
  std::size_t Rank(OpId op) const { return rank_of_device[Index(placed.placement[op])]; }
  StagePart Part(OpId op) const { return {stages[Index(op)], PartOf(Role(op))}; }
  bool IsOnce(OpId op) const { return Role(op) == kSourceOp && placed.graph.op(op).kind == "variable"; }
  const Link& LinkBetween(std::size_t from, std::size_t to) const {
    return placed.cluster.link(devices[from], devices[to]);
  }
  std::size_t Channel(std::size_t from, std::size_t to) const {
    if (placed.cluster.channels() == Channels::kPerDevice) return from;
    // A device that copies by itself has one channel (F13).
    const bool copies_by_itself = !placed.cluster.device(devices[from]).copy_engine;
    return from * rank_of_device.size() + (copies_by_itself ? from : to);
  }
};

// The ranks' devices, then all others.
std::vector<DeviceId> AllDevices(std::vector<DeviceId> devices, std::size_t num_devices) {
  for (std::size_t d = 0; d < num_devices; ++d) {
    const auto device = MakeId<DeviceId>(d);
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

std::vector<std::size_t> RanksOf(const std::vector<DeviceId>& devices) {
  std::vector<std::size_t> ranks(devices.size());
  for (std::size_t rank = 0; rank < devices.size(); ++rank) ranks[Index(devices[rank])] = rank;
  return ranks;
}

// Adds the ranks with what they hold.
void AddRanks(const StagedGraph& staged, PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  for (const DeviceId device : staged.devices) {
    model->ranks.push_back({.copy_engine = staged.placed.cluster.device(device).copy_engine});
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    PipelineModel::Rank& rank = model->ranks[staged.Rank(op)];
    rank.held += graph.op(op).persistent;
    if (!staged.IsOnce(op)) continue;
    for (std::size_t output = 0; output < graph.num_outputs(op); ++output) {
      rank.held += graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + output)).size;
    }
  }
}

// The time of the collective for its members' devices; a time in the graph takes precedence (K6).
Duration TimeOf(const StagedGraph& staged, const std::optional<CollectiveTimes>& times, const Collective& collective) {
  const Graph& graph = staged.placed.graph;
  const auto given =
      MeasuredCollectiveMicros(collective, staged.placed.placement.devices(), graph, staged.placed.cluster);
  if (given) return DurationFromMicros(*given);
  const std::vector<DeviceId> devices = DevicesOf(collective, staged.placed.placement.devices());
  return times->Of(collective.kind, collective.size, devices).duration;
}

// How long the ops of a part take.
struct PartClock {
  Duration host{};  // time of the issue lane
  Duration device{};

  Duration end() const { return std::max(device, host); }
};
// The clocks of the parts of each stage.
using StageClocks = std::vector<std::array<PartClock, 3>>;

void RunOp(const PlacedGraph& placed, OpId op, Duration time, PartClock* clock) {
  const std::optional<IssueLane>& lane = placed.cluster.device(placed.placement[op]).issue;
  if (lane) {
    const double host = placed.costs.HostMicros(op, placed.costs.KindIndex(placed.placement[op]));
    clock->host += DurationFromMicros(std::isnan(host) ? lane->host_micros : host);
    const bool takes_time = time > Duration{} || placed.graph.CollectiveOf(op);
    clock->device = std::max(clock->device,
                             clock->host + (takes_time ? DurationFromMicros(lane->launch_latency_micros) : Duration{}));
  }
  clock->device += time;
}

// The members of a collective meet in it, and it takes `time`.
void RunCollective(const StagedGraph& staged, const Collective& collective, Duration time, StageClocks* clocks) {
  const auto clock_of = [&](OpId op) -> PartClock& {
    return (*clocks)[staged.stages[Index(op)]][static_cast<std::size_t>(staged.Role(op)) - 1];
  };
  Duration meet{};
  for (const OpId member : collective.members) {
    RunOp(staged.placed, member, Duration{}, &clock_of(member));
    meet = std::max(meet, clock_of(member).device);
  }
  for (const OpId member : collective.members) clock_of(member).device = meet + time;
}

// The ops of a part run one after the other (S6); members of a collective meet in it (S22). `times`: null if
// collectives take no time.
StageClocks RunStages(const StagedGraph& staged, const std::vector<OpId>& order, std::size_t num_stages,
                      const std::optional<CollectiveTimes>* times) {
  const Graph& graph = staged.placed.graph;
  StageClocks clocks(num_stages);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const OpId op = order[i];
    const PipelineRole role = staged.Role(op);
    if (role == kSourceOp || role == kFinalOp) continue;
    if (const std::optional<std::size_t> member_of = graph.CollectiveOf(op)) {
      const Collective& collective = graph.collectives()[*member_of];
      RunCollective(staged, collective, times == nullptr ? Duration{} : TimeOf(staged, *times, collective), &clocks);
      i += collective.members.size() - 1;  // they follow one another
    } else {
      RunOp(staged.placed, op, staged.placed.Time(op),
            &clocks[staged.stages[Index(op)]][static_cast<std::size_t>(role) - 1]);
    }
  }
  return clocks;
}

// A team's action ends when the last of its members is done.
void EqualizeStages(const std::vector<std::size_t>& team, PipelineModel* model) {
  if (team.size() < 2) return;
  std::map<std::size_t, std::vector<std::size_t>> of_schedule;  // keyed by the schedule's stage: those of the members
  for (std::size_t s = 0; s < model->stages.size(); ++s) {
    if (std::find(team.begin(), team.end(), model->rank_of_stage[s]) == team.end()) continue;
    of_schedule[model->schedule_stage[s]].push_back(s);
  }
  for (const auto& [stage, own] : of_schedule) {
    PipelineStage most = model->stages[own.front()];
    std::array<Duration, 3> alone{};
    for (const std::size_t s : own) {
      const PipelineStage& of = model->stages[s];
      const std::array<Duration, 3> times = {of.forward, of.backward_input, of.backward_weight};
      for (std::size_t part = 0; part < 3; ++part) {
        alone[part] = std::max(alone[part], times[part] - of.communication[part]);
      }
      most.forward = std::max(most.forward, of.forward);
      most.backward_input = std::max(most.backward_input, of.backward_input);
      most.backward_weight = std::max(most.backward_weight, of.backward_weight);
    }
    for (const std::size_t s : own) {
      PipelineStage& of = model->stages[s];
      of.forward = most.forward;
      of.backward_input = most.backward_input;
      of.backward_weight = most.backward_weight;
      of.communication = {of.forward - alone[0], of.backward_input - alone[1], of.backward_weight - alone[2]};
    }
  }
}

// Adds the times of stages.
void AddTimes(const StagedGraph& staged, const std::vector<OpId>& order, const std::optional<CollectiveTimes>& times,
              PipelineModel* model) {
  const StageClocks clocks = RunStages(staged, order, model->stages.size(), &times);
  const StageClocks alone = RunStages(staged, order, model->stages.size(), nullptr);
  for (std::size_t s = 0; s < clocks.size(); ++s) {
    PipelineStage& stage = model->stages[s];
    const std::array<Duration*, 3> parts = {&stage.forward, &stage.backward_input, &stage.backward_weight};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      *parts[part] = clocks[s][part].end();
      stage.communication[part] = clocks[s][part].end() - alone[s][part].end();
    }
  }
  for (const std::vector<std::size_t>& team : model->teams) EqualizeStages(team, model);
}

// Final ops by their positions in the model.
struct FinalOps {
  std::vector<OpId> ops;
  std::vector<std::size_t> position;  // indexed by OpId; kInvalidPosition: other ops
};

FinalOps AddFinalOps(const StagedGraph& staged, const std::vector<OpId>& order,
                     const std::optional<CollectiveTimes>& times, PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  FinalOps final_ops{.ops = {}, .position = std::vector<std::size_t>(graph.num_ops(), kInvalidPosition)};
  std::map<std::size_t, std::size_t> collectives;  // positions in final_collectives
  for (const OpId op : order) {
    if (staged.Role(op) != kFinalOp) continue;
    final_ops.position[Index(op)] = model->final_ops.size();
    final_ops.ops.push_back(op);
    FinalOp& final_op = model->final_ops.emplace_back();
    final_op.rank = staged.Rank(op);
    const std::optional<std::size_t> member_of = graph.CollectiveOf(op);
    if (!member_of) {
      final_op.time = staged.placed.Time(op);
    } else {
      const Collective& collective = graph.collectives()[*member_of];
      const auto [found, is_new] = collectives.try_emplace(*member_of, collectives.size());
      if (is_new) {
        model->final_collectives.push_back(
            {.num_members = collective.members.size(), .time = TimeOf(staged, times, collective)});
      }
      final_op.collective = found->second;
    }
    ForEachProducer(graph, op, [&](OpId producer) {
      if (staged.Role(producer) != kFinalOp || staged.Rank(producer) != staged.Rank(op)) return;
      const bool in_order = !graph.CollectiveOf(op) && !graph.CollectiveOf(producer);
      if (!in_order) final_op.reads.push_back(final_ops.position[Index(producer)]);
    });
  }
  return final_ops;
}

// Tensors with one sender, receiver, moment and set of readers travel as one message.
struct MessageKey {
  std::optional<StagePart> after = {};
  bool once = false;
  std::vector<StagePart> readers = {};  // ascending: the first reader decides the order
  std::size_t from = 0;
  std::size_t to = 0;
  bool control = false;
  bool until_final = false;  // final ops of the receiver read it too
  auto operator<=>(const MessageKey&) const = default;
};

struct MessageContents {
  Duration transfer{};
  Duration gap{};
  Bytes size;
  Bytes buffer;
  std::size_t tensors = 0;
};

// The readers of a tensor, or the ops that wait for an op, on one rank.
struct RankReaders {
  std::set<StagePart> parts;
  std::vector<OpId> final_ops;
};

std::map<std::size_t, RankReaders> ReadersByRank(const StagedGraph& staged, std::span<const OpId> consumers) {
  std::map<std::size_t, RankReaders> by_rank;
  for (const OpId op : consumers) {
    RankReaders& readers = by_rank[staged.Rank(op)];
    if (staged.Role(op) == kFinalOp) {
      readers.final_ops.push_back(op);
    } else {
      readers.parts.insert(staged.Part(op));
    }
  }
  return by_rank;
}

// Messages between ranks.
struct Traffic {
  std::map<MessageKey, MessageContents> messages;
  std::set<TensorId> gradients;  // tensors that stages produce for final ops
};

// Adds a message that final ops wait for.
void AddFinalMessage(const FinalOps& final_ops, OpId producer, const RankReaders& readers, const PipelineRoute& route,
                     PipelineModel* model) {
  FinalMessage message{.route = route};
  const std::size_t after = final_ops.position[Index(producer)];
  if (after != kInvalidPosition) message.after = after;
  for (const OpId op : readers.final_ops) {
    model->final_ops[final_ops.position[Index(op)]].waits.push_back(model->final_messages.size());
  }
  model->final_messages.push_back(message);
}

// The route of one tensor between two ranks.
PipelineRoute RouteOf(const StagedGraph& staged, Bytes size, std::size_t from, std::size_t to) {
  PipelineRoute route{.from = from, .to = to, .channel = staged.Channel(from, to), .size = size, .tensors = 1};
  if (to == from) return route;
  const Link& link = staged.LinkBetween(from, to);
  route.transfer = DurationFromMicros(link.latency_micros) + TransferDuration(size, link.rate());
  route.gap = DurationFromMicros(link.gap_micros);
  return route;
}

// Adds a tensor to the message that it travels with. Returns the message.
MessageContents* AddToMessage(const MessageKey& key, const PipelineRoute& route, Traffic* traffic) {
  MessageContents& contents = traffic->messages[key];
  const bool travels = key.from != key.to;
  if (travels && contents.transfer + contents.gap > Duration{}) contents.transfer += contents.gap;
  contents.transfer += route.transfer;
  contents.gap = route.gap;
  contents.size += route.size;
  contents.tensors += travels ? 1 : 0;
  return &contents;
}

// Adds the tensor of a source or of a stage to its readers. Tensors that a stage makes and final ops read are kept
// where they were made, and one copy is enough.
void AddTensor(const StagedGraph& staged, const FinalOps& final_ops, TensorId id, Traffic* traffic,
               PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  const Tensor& tensor = graph.tensor(id);
  const OpId producer = tensor.producer;
  const bool is_source = staged.Role(producer) == kSourceOp;
  const std::size_t from = staged.Rank(producer);
  bool is_kept = false;  // whether it is kept on its own rank beyond its action
  MessageContents* last_sent = nullptr;
  for (const auto& [to, readers] : ReadersByRank(staged, graph.consumers(id))) {
    const PipelineRoute route = RouteOf(staged, tensor.size, from, to);
    const bool has_final = !readers.final_ops.empty();
    MessageKey key{.once = staged.IsOnce(producer),
                   .readers = {readers.parts.begin(), readers.parts.end()},
                   .from = from,
                   .to = to};
    if (!is_source) {
      key.after = staged.Part(producer);
      if (to == from) std::erase(key.readers, *key.after);
      if (has_final || (to == from && !key.readers.empty())) is_kept = true;
      if (has_final && traffic->gradients.insert(id).second) model->ranks[from].gradients += tensor.size;
    } else if (to == from) {
      is_kept = true;
      if (key.once) continue;                                           // it is held anyway
      if (key.readers.empty()) model->ranks[from].held += tensor.size;  // kept for final ops
    }
    key.until_final = has_final && (to != from || is_source);
    if (!key.readers.empty()) {
      MessageContents* const contents = AddToMessage(key, route, traffic);
      if (to != from && !key.once) last_sent = contents;
    } else if (has_final && to != from) {
      is_kept = true;
      AddFinalMessage(final_ops, producer, readers, route, model);
    }
  }
  if (!is_kept && last_sent != nullptr) last_sent->buffer += tensor.size;
}

// Adds what a tensor of a final op is to its readers, which are final ops too.
void AddFinalTensor(const StagedGraph& staged, const FinalOps& final_ops, TensorId id, PipelineModel* model) {
  const Tensor& tensor = staged.placed.graph.tensor(id);
  const std::size_t from = staged.Rank(tensor.producer);
  for (const auto& [to, readers] : ReadersByRank(staged, staged.placed.graph.consumers(id))) {
    if (to == from) continue;
    AddFinalMessage(final_ops, tensor.producer, readers, RouteOf(staged, tensor.size, from, to), model);
  }
}

// Control inputs from other ranks arrive a latency later, and occupy no channel.
void AddControlEdges(const StagedGraph& staged, const FinalOps& final_ops, OpId producer, Traffic* traffic,
                     PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  const std::size_t from = staged.Rank(producer);
  if (staged.Role(producer) == kSourceOp) return;  // over before the step
  for (const auto& [to, readers] : ReadersByRank(staged, graph.control_consumers(producer))) {
    if (to == from) continue;
    const Duration latency = DurationFromMicros(staged.LinkBetween(from, to).latency_micros);
    if (staged.Role(producer) == kFinalOp || readers.parts.empty()) {
      AddFinalMessage(final_ops, producer, readers, {.from = from, .to = to, .transfer = latency}, model);
      continue;
    }
    traffic
        ->messages[{.after = staged.Part(producer),
                    .readers = {readers.parts.begin(), readers.parts.end()},
                    .from = from,
                    .to = to,
                    .control = true}]
        .transfer = latency;
  }
}

Traffic AddTraffic(const StagedGraph& staged, const FinalOps& final_ops, PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  Traffic traffic;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    for (std::size_t output = 0; output < graph.num_outputs(op); ++output) {
      const auto tensor = MakeId<TensorId>(Index(graph.first_output(op)) + output);
      if (staged.Role(op) == kFinalOp) {
        AddFinalTensor(staged, final_ops, tensor, model);
      } else {
        AddTensor(staged, final_ops, tensor, &traffic, model);
      }
    }
    AddControlEdges(staged, final_ops, op, &traffic, model);
  }
  return traffic;
}

void AddMessages(const StagedGraph& staged, const std::map<MessageKey, MessageContents>& messages,
                 PipelineModel* model) {
  for (const auto& [key, contents] : messages) {
    PipelineMessage message{.route = {.from = key.from,
                                      .to = key.to,
                                      .transfer = contents.transfer,
                                      .gap = contents.gap,
                                      .size = contents.size,
                                      .buffer = contents.buffer,
                                      .tensors = contents.tensors},
                            .after = key.after,
                            .once = key.once,
                            .until_final = key.until_final,
                            .readers = key.readers};
    if (!key.control && key.from != key.to) message.route.channel = staged.Channel(key.from, key.to);
    model->messages.push_back(std::move(message));
  }
}

// The peak of ops that run one after the other in the order of ids. Tensors that others read stay until the end, except
// gradients, which are added to those that the rank holds. `given` exist before; `inside` is scratch, by OpId.
Bytes WorkingBytes(const StagedGraph& staged, const std::vector<OpId>& ops, std::vector<bool>* inside,
                   const std::vector<TensorId>& given = {}) {
  const Graph& graph = staged.placed.graph;
  std::vector<OpId> sorted = ops;
  std::sort(sorted.begin(), sorted.end());
  for (const OpId op : sorted) (*inside)[Index(op)] = true;
  Bytes live;
  Bytes peak;
  std::map<OpId, Bytes> freed_after;
  const auto add = [&](TensorId id) {
    const Tensor& tensor = graph.tensor(id);
    live += tensor.size;
    OpId last = tensor.producer;
    const bool is_given = !(*inside)[Index(last)];
    for (const OpId consumer : graph.consumers(id)) {
      const bool is_final = staged.Role(consumer) == kFinalOp;
      if ((*inside)[Index(consumer)]) {
        last = std::max(last, consumer);
      } else if (is_given ? is_final : !is_final || staged.Role(tensor.producer) == kFinalOp) {
        return;
      }
    }
    freed_after[last] += tensor.size;
  };
  for (const TensorId id : given) add(id);
  for (const OpId op : sorted) {
    for (std::size_t output = 0; output < graph.num_outputs(op); ++output) {
      add(MakeId<TensorId>(Index(graph.first_output(op)) + output));
    }
    peak = std::max(peak, live + graph.op(op).temp);
    if (const auto freed = freed_after.find(op); freed != freed_after.end()) live -= freed->second;
  }
  for (const OpId op : sorted) (*inside)[Index(op)] = false;
  return peak;
}

// Adds what ops need beside what ranks hold and messages bring.
void AddWorking(const StagedGraph& staged, const std::set<TensorId>& gradients, PipelineModel* model) {
  const Graph& graph = staged.placed.graph;
  std::vector<bool> inside(graph.num_ops(), false);
  std::vector<std::array<std::vector<OpId>, 4>> ops(model->stages.size());
  std::vector<std::vector<OpId>> final_ops(model->ranks.size());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (staged.Role(op) == kFinalOp) final_ops[staged.Rank(op)].push_back(op);
    if (staged.Role(op) == kSourceOp || staged.Role(op) == kFinalOp) continue;
    auto& by_kind = ops[staged.stages[i]];
    by_kind[static_cast<std::size_t>(PartOf(staged.Role(op)))].push_back(op);
    if (staged.Role(op) != kForwardOp) by_kind[static_cast<std::size_t>(ActionKind::kBackward)].push_back(op);
  }
  for (std::size_t stage = 0; stage < ops.size(); ++stage) {
    for (std::size_t kind = 0; kind < 4; ++kind) {
      model->stages[stage].working[kind] = WorkingBytes(staged, ops[stage][kind], &inside);
    }
  }
  std::vector<std::vector<TensorId>> given(final_ops.size());
  for (const TensorId id : gradients) given[staged.Rank(graph.tensor(id).producer)].push_back(id);
  for (std::size_t rank = 0; rank < final_ops.size(); ++rank) {
    model->ranks[rank].final_working = WorkingBytes(staged, final_ops[rank], &inside, given[rank]);
  }
}

}  // namespace

std::size_t CountStageDevices(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement) {
  const PlacedGraph placed{graph, cluster, costs, placement};
  const Teams teams = FindTeams(placed, PipelineRoles(placed));
  if (teams.pipelines.empty()) throw InputError("", "has no forward ops of more than 0 us (a pipeline runs some)");
  const std::size_t count = teams.pipelines.front().size();
  for (const std::vector<std::size_t>& pipeline : teams.pipelines) {
    if (pipeline.size() == count) continue;
    const auto name = [&](std::size_t team) { return cluster.device(teams.members[team].front()).name; };
    throw InputError("", "has replicas with " + std::to_string(count) + " and " + std::to_string(pipeline.size()) +
                             " stages, from " + name(teams.pipelines.front().front()) + " and " +
                             name(pipeline.front()) + " on (as many in each)");
  }
  return count;
}

PlacedPipeline MakePlacedPipeline(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                  const Placement& placement, const std::vector<std::size_t>& rank_of_stage,
                                  const std::string& wanted) {
  const PlacedGraph placed{graph, cluster, costs, placement};
  std::vector<PipelineRole> roles = PipelineRoles(placed);
  StageChoice choice = ChooseStages(placed, rank_of_stage, wanted, &roles);
  PlacedPipeline pipeline;
  pipeline.devices = AllDevices(std::move(choice.device_of_rank), cluster.num_devices());
  pipeline.stages = std::move(choice.stages);
  pipeline.roles = std::move(roles);
  PipelineModel& model = pipeline.model;
  model.stages.resize(choice.rank_of_stage.size());
  model.rank_of_stage = std::move(choice.rank_of_stage);
  std::optional<CollectiveTimes> times;  // none: there are no collectives
  if (!graph.collectives().empty()) {
    times.emplace(cluster, costs.times_collectives());
    model.schedule_rank = std::move(choice.schedule_rank);
    model.schedule_stage = std::move(choice.schedule_stage);
    model.teams = std::move(choice.teams);
  }
  const std::size_t num_ranks = pipeline.devices.size();
  model.num_channels = num_ranks * (cluster.channels() == Channels::kPerPair ? num_ranks : 1);
  const StagedGraph staged{placed, pipeline.roles, pipeline.stages, pipeline.devices, RanksOf(pipeline.devices)};
  const std::vector<OpId> order = OrderOfCollectives(graph);
  AddRanks(staged, &model);
  AddTimes(staged, order, times, &model);
  FinalOps final_ops = AddFinalOps(staged, order, times, &model);
  const Traffic traffic = AddTraffic(staged, final_ops, &model);
  AddMessages(staged, traffic.messages, &model);
  AddWorking(staged, traffic.gradients, &model);
  pipeline.final_ops = std::move(final_ops.ops);
  return pipeline;
}

}  // namespace emplace
