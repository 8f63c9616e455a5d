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

constexpr std::size_t kNoPosition = std::numeric_limits<std::size_t>::max();

ActionKind PartOf(PipelineRole role) {
  if (role == kForwardOp) return ActionKind::kForward;
  return role == kInputOp ? ActionKind::kBackwardInput : ActionKind::kBackwardWeight;
}

// Puts together the model of a placed graph whose stages are known.
class ModelBuilder {
 public:
  ModelBuilder(const PlacedGraph& placed, StageChoice choice, std::vector<PipelineRole> roles)
      : placed_(placed),
        graph_(placed.graph),
        order_(OrderOfCollectives(placed.graph)),
        final_position_(placed.graph.num_ops(), kNoPosition) {
    pipeline_.devices = std::move(choice.device_of_rank);
    pipeline_.stages = std::move(choice.stages);
    pipeline_.roles = std::move(roles);
    pipeline_.model.stages.resize(choice.rank_of_stage.size());
    pipeline_.model.rank_of_stage = std::move(choice.rank_of_stage);
    if (!graph_.collectives().empty()) {
      collective_times_.emplace(placed.cluster);
      pipeline_.model.schedule_rank = std::move(choice.schedule_rank);
      pipeline_.model.schedule_stage = std::move(choice.schedule_stage);
      pipeline_.model.teams = std::move(choice.teams);
    }
    for (std::size_t d = 0; d < placed.cluster.num_devices(); ++d) {
      const auto device = MakeId<DeviceId>(d);
      if (std::find(pipeline_.devices.begin(), pipeline_.devices.end(), device) == pipeline_.devices.end()) {
        pipeline_.devices.push_back(device);
      }
    }
    rank_of_device_.resize(pipeline_.devices.size());
    for (std::size_t rank = 0; rank < pipeline_.devices.size(); ++rank) {
      rank_of_device_[Index(pipeline_.devices[rank])] = rank;
    }
    const bool per_pair = placed.cluster.channels() == Channels::kPerPair;
    pipeline_.model.num_channels = rank_of_device_.size() * (per_pair ? rank_of_device_.size() : 1);
  }

  PlacedPipeline Build() {
    AddRanks();
    AddTimes();
    AddFinalOps();
    for (std::size_t op = 0; op < graph_.num_ops(); ++op) {
      for (std::size_t output = 0; output < graph_.num_outputs(MakeId<OpId>(op)); ++output) {
        AddTensor(MakeId<TensorId>(Index(graph_.first_output(MakeId<OpId>(op))) + output));
      }
      AddControlEdges(MakeId<OpId>(op));
    }
    AddMessages();
    AddWorking();
    return std::move(pipeline_);
  }

 private:
  // Tensors with one sender, receiver, moment and set of readers travel as one message.
  struct Key {
    std::optional<StagePart> after = {};
    bool once = false;
    std::vector<StagePart> readers = {};  // ascending: the first reader decides the order
    std::size_t from = 0;
    std::size_t to = 0;
    bool control = false;
    bool until_final = false;  // final ops of the receiver read it too
    auto operator<=>(const Key&) const = default;
  };
  struct Contents {
    Duration transfer{};
    Duration gap{};
    Bytes size;
    Bytes buffer;
    std::size_t tensors = 0;
  };
  // Who reads a tensor, or waits for an op, on one rank.
  struct Readers {
    std::set<StagePart> parts;
    std::vector<OpId> final_ops;
  };

  PipelineRole Role(OpId op) const { return pipeline_.roles[Index(op)]; }
  std::size_t Rank(OpId op) const { return rank_of_device_[Index(placed_.placement[op])]; }
  StagePart Part(OpId op) const { return {pipeline_.stages[Index(op)], PartOf(Role(op))}; }
  bool IsOnce(OpId op) const { return Role(op) == kSourceOp && graph_.op(op).kind == "variable"; }
  const Link& LinkBetween(std::size_t from, std::size_t to) const {
    return placed_.cluster.link(pipeline_.devices[from], pipeline_.devices[to]);
  }
  std::size_t Channel(std::size_t from, std::size_t to) const {
    if (placed_.cluster.channels() == Channels::kPerDevice) return from;
    // A device that copies by itself has one channel (F13).
    const bool copies_by_itself = !placed_.cluster.device(pipeline_.devices[from]).copy_engine;
    return from * rank_of_device_.size() + (copies_by_itself ? from : to);
  }

  void AddRanks() {
    for (const DeviceId device : pipeline_.devices) {
      pipeline_.model.ranks.push_back({.copy_engine = placed_.cluster.device(device).copy_engine});
    }
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto op = MakeId<OpId>(i);
      PipelineModel::Rank& rank = pipeline_.model.ranks[Rank(op)];
      rank.held += graph_.op(op).persistent;
      if (!IsOnce(op)) continue;
      for (std::size_t output = 0; output < graph_.num_outputs(op); ++output) {
        rank.held += graph_.tensor(MakeId<TensorId>(Index(graph_.first_output(op)) + output)).size;
      }
    }
  }

  // What the collective takes where its members are placed; the graph's own time counts first (K6).
  Duration TimeOf(const Collective& collective) const {
    const auto given = GivenMicros(collective, placed_.placement.devices(), graph_, placed_.cluster);
    if (given) return DurationFromMicros(*given);
    const std::vector<DeviceId> devices = DevicesOf(collective, placed_.placement.devices());
    return collective_times_->Of(collective.kind, collective.size, devices).duration;
  }

  // The ops of a part run one after the other (S6); members of a collective meet in it (S22).
  void AddTimes() {
    struct Clock {
      Duration host{};  // of the issue lane
      Duration device{};
    };
    const std::size_t num_stages = pipeline_.model.stages.size();
    std::vector<std::array<Clock, 3>> clocks(num_stages);
    std::vector<std::array<Clock, 3>> alone(num_stages);  // if collectives took no time
    const auto position = [this](OpId op) { return static_cast<std::size_t>(Role(op)) - 1; };
    const auto run = [&](OpId op, Duration time, Clock* clock) {
      const std::optional<IssueLane>& lane = placed_.cluster.device(placed_.placement[op]).issue;
      if (lane) {
        const double host = placed_.costs.HostMicros(op, placed_.costs.KindIndex(placed_.placement[op]));
        clock->host += DurationFromMicros(std::isnan(host) ? lane->host_micros : host);
        const bool takes_time = time > Duration{} || graph_.CollectiveOf(op);
        clock->device = std::max(
            clock->device, clock->host + (takes_time ? DurationFromMicros(lane->launch_latency_micros) : Duration{}));
      }
      clock->device += time;
    };
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const OpId op = order_[i];
      if (Role(op) == kSourceOp || Role(op) == kFinalOp) continue;
      const std::size_t stage = pipeline_.stages[Index(op)];
      const std::optional<std::size_t> member_of = graph_.CollectiveOf(op);
      if (!member_of) {
        run(op, placed_.Time(op), &clocks[stage][position(op)]);
        run(op, placed_.Time(op), &alone[stage][position(op)]);
        continue;
      }
      const Collective& collective = graph_.collectives()[*member_of];
      for (auto* const of : {&clocks, &alone}) {
        Duration meet{};
        for (const OpId member : collective.members) {
          Clock& clock = (*of)[pipeline_.stages[Index(member)]][position(member)];
          run(member, Duration{}, &clock);
          meet = std::max(meet, clock.device);
        }
        if (of == &clocks) meet += TimeOf(collective);
        for (const OpId member : collective.members) {
          (*of)[pipeline_.stages[Index(member)]][position(member)].device = meet;
        }
      }
      i += collective.members.size() - 1;  // they follow one another
    }
    for (std::size_t s = 0; s < num_stages; ++s) {
      PipelineStage& stage = pipeline_.model.stages[s];
      const std::array<Duration*, 3> times = {&stage.forward, &stage.backward_input, &stage.backward_weight};
      for (std::size_t part = 0; part < 3; ++part) {
        *times[part] = std::max(clocks[s][part].device, clocks[s][part].host);
        stage.communication[part] = *times[part] - std::max(alone[s][part].device, alone[s][part].host);
      }
    }
    // A team's action ends when the last of its members is done.
    for (const std::vector<std::size_t>& team : pipeline_.model.teams) EqualizeStages(team);
  }

  void EqualizeStages(const std::vector<std::size_t>& team) {
    if (team.size() < 2) return;
    std::map<std::size_t, std::vector<std::size_t>> of_schedule;  // by the schedule's stage: those of the members
    for (std::size_t s = 0; s < pipeline_.model.stages.size(); ++s) {
      if (std::find(team.begin(), team.end(), pipeline_.model.rank_of_stage[s]) == team.end()) continue;
      of_schedule[pipeline_.model.schedule_stage[s]].push_back(s);
    }
    for (const auto& [stage, own] : of_schedule) {
      PipelineStage most = pipeline_.model.stages[own.front()];
      std::array<Duration, 3> alone{};
      for (const std::size_t s : own) {
        const PipelineStage& of = pipeline_.model.stages[s];
        const std::array<Duration, 3> times = {of.forward, of.backward_input, of.backward_weight};
        for (std::size_t part = 0; part < 3; ++part) {
          alone[part] = std::max(alone[part], times[part] - of.communication[part]);
        }
        most.forward = std::max(most.forward, of.forward);
        most.backward_input = std::max(most.backward_input, of.backward_input);
        most.backward_weight = std::max(most.backward_weight, of.backward_weight);
      }
      for (const std::size_t s : own) {
        PipelineStage& of = pipeline_.model.stages[s];
        of.forward = most.forward;
        of.backward_input = most.backward_input;
        of.backward_weight = most.backward_weight;
        of.communication = {of.forward - alone[0], of.backward_input - alone[1], of.backward_weight - alone[2]};
      }
    }
  }

  void AddFinalOps() {
    std::map<std::size_t, std::size_t> collectives;  // positions in final_collectives
    for (const OpId op : order_) {
      if (Role(op) != kFinalOp) continue;
      final_position_[Index(op)] = pipeline_.model.final_ops.size();
      pipeline_.final_ops.push_back(op);
      FinalOp& final_op = pipeline_.model.final_ops.emplace_back();
      final_op.rank = Rank(op);
      const std::optional<std::size_t> member_of = graph_.CollectiveOf(op);
      if (!member_of) {
        final_op.time = placed_.Time(op);
      } else {
        const Collective& collective = graph_.collectives()[*member_of];
        const auto [found, is_new] = collectives.try_emplace(*member_of, collectives.size());
        if (is_new) {
          pipeline_.model.final_collectives.push_back(
              {.num_members = collective.members.size(), .time = TimeOf(collective)});
        }
        final_op.collective = found->second;
      }
      ForEachProducer(graph_, op, [&](OpId producer) {
        if (Role(producer) != kFinalOp || Rank(producer) != Rank(op)) return;
        const bool in_order = !graph_.CollectiveOf(op) && !graph_.CollectiveOf(producer);
        if (!in_order) final_op.reads.push_back(final_position_[Index(producer)]);
      });
    }
  }

  std::map<std::size_t, Readers> ReadersByRank(std::span<const OpId> consumers) const {
    std::map<std::size_t, Readers> by_rank;
    for (const OpId op : consumers) {
      Readers& readers = by_rank[Rank(op)];
      if (Role(op) == kFinalOp) {
        readers.final_ops.push_back(op);
      } else {
        readers.parts.insert(Part(op));
      }
    }
    return by_rank;
  }

  void AddTensor(TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    const OpId producer = tensor.producer;
    const std::size_t from = Rank(producer);
    bool is_kept = false;  // on its own rank beyond its action
    Contents* last_sent = nullptr;
    for (const auto& [to, readers] : ReadersByRank(graph_.consumers(id))) {
      const Link& link = LinkBetween(from, to);
      const Duration transfer =
          to == from ? Duration{}
                     : DurationFromMicros(link.latency_micros) + TransferDuration(tensor.size, link.rate());
      const Duration gap = to == from ? Duration{} : DurationFromMicros(link.gap_micros);
      const PipelineRoute alone{.from = from,
                                .to = to,
                                .channel = Channel(from, to),
                                .transfer = transfer,
                                .gap = gap,
                                .size = tensor.size,
                                .tensors = 1};
      if (Role(producer) == kFinalOp) {
        if (to != from) AddFinalMessage(producer, readers, alone);
        continue;
      }
      Key key{
          .once = IsOnce(producer), .readers = {readers.parts.begin(), readers.parts.end()}, .from = from, .to = to};
      if (Role(producer) != kSourceOp) {
        key.after = Part(producer);
        if (to == from) std::erase(key.readers, *key.after);
        if (!readers.final_ops.empty() || (to == from && !key.readers.empty())) is_kept = true;
        if (!readers.final_ops.empty()) AddGradient(id);
      } else if (to == from) {
        is_kept = true;
        if (key.once) continue;                                                    // it is held anyway
        if (key.readers.empty()) pipeline_.model.ranks[from].held += tensor.size;  // for final ops
      }
      key.until_final = !readers.final_ops.empty() && (to != from || Role(producer) == kSourceOp);
      if (!key.readers.empty()) {
        Contents& contents = messages_[key];
        if (to != from && contents.transfer + contents.gap > Duration{}) contents.transfer += contents.gap;
        contents.transfer += transfer;
        contents.gap = gap;
        contents.size += tensor.size;
        contents.tensors += to != from ? 1 : 0;
        if (to != from && !key.once) last_sent = &contents;
      } else if (!readers.final_ops.empty() && to != from) {
        is_kept = true;
        AddFinalMessage(producer, readers, alone);
      }
    }
    if (!is_kept && last_sent != nullptr) last_sent->buffer += tensor.size;
  }

  // What a stage makes and final ops read is kept where it was made, and one copy is enough.
  void AddGradient(TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    if (!gradients_.insert(id).second) return;
    pipeline_.model.ranks[Rank(tensor.producer)].gradients += tensor.size;
  }

  void AddFinalMessage(OpId producer, const Readers& readers, const PipelineRoute& route) {
    FinalMessage message{.route = route};
    if (Role(producer) == kFinalOp) message.after = final_position_[Index(producer)];
    for (const OpId op : readers.final_ops) {
      pipeline_.model.final_ops[final_position_[Index(op)]].waits.push_back(pipeline_.model.final_messages.size());
    }
    pipeline_.model.final_messages.push_back(message);
  }

  // They arrive a latency later, and occupy no channel.
  void AddControlEdges(OpId producer) {
    const std::size_t from = Rank(producer);
    if (Role(producer) == kSourceOp) return;  // over before the step
    for (const auto& [to, readers] : ReadersByRank(graph_.control_consumers(producer))) {
      if (to == from) continue;
      const Duration latency = DurationFromMicros(LinkBetween(from, to).latency_micros);
      if (Role(producer) == kFinalOp || readers.parts.empty()) {
        AddFinalMessage(producer, readers, {.from = from, .to = to, .transfer = latency});
        continue;
      }
      messages_[{.after = Part(producer),
                 .readers = {readers.parts.begin(), readers.parts.end()},
                 .from = from,
                 .to = to,
                 .control = true}]
          .transfer = latency;
    }
  }

  void AddMessages() {
    for (const auto& [key, contents] : messages_) {
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
      if (!key.control && key.from != key.to) message.route.channel = Channel(key.from, key.to);
      pipeline_.model.messages.push_back(std::move(message));
    }
  }

  // The peak of ops that run one after the other in the order of ids. What others read stays until the end, but for
  // gradients, which are added to what the rank holds of them.
  // `given` are there before.
  Bytes WorkingBytes(const std::vector<OpId>& ops, const std::vector<TensorId>& given = {}) {
    std::vector<OpId> sorted = ops;
    std::sort(sorted.begin(), sorted.end());
    for (const OpId op : sorted) inside_[Index(op)] = true;
    Bytes live;
    Bytes peak;
    std::map<OpId, Bytes> freed_after;
    const auto add = [&](TensorId id) {
      const Tensor& tensor = graph_.tensor(id);
      live += tensor.size;
      OpId last = tensor.producer;
      const bool is_given = !inside_[Index(last)];
      for (const OpId consumer : graph_.consumers(id)) {
        const bool is_final = Role(consumer) == kFinalOp;
        if (inside_[Index(consumer)]) {
          last = std::max(last, consumer);
        } else if (is_given ? is_final : !is_final || Role(tensor.producer) == kFinalOp) {
          return;
        }
      }
      freed_after[last] += tensor.size;
    };
    for (const TensorId id : given) add(id);
    for (const OpId op : sorted) {
      for (std::size_t output = 0; output < graph_.num_outputs(op); ++output) {
        add(MakeId<TensorId>(Index(graph_.first_output(op)) + output));
      }
      peak = std::max(peak, live + graph_.op(op).temp);
      if (const auto freed = freed_after.find(op); freed != freed_after.end()) live -= freed->second;
    }
    for (const OpId op : sorted) inside_[Index(op)] = false;
    return peak;
  }

  void AddWorking() {
    inside_.assign(graph_.num_ops(), false);
    std::vector<std::array<std::vector<OpId>, 4>> ops(pipeline_.model.stages.size());
    std::vector<std::vector<OpId>> final_ops(pipeline_.model.ranks.size());
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto op = MakeId<OpId>(i);
      if (Role(op) == kFinalOp) final_ops[Rank(op)].push_back(op);
      if (Role(op) == kSourceOp || Role(op) == kFinalOp) continue;
      auto& by_kind = ops[pipeline_.stages[i]];
      by_kind[static_cast<std::size_t>(PartOf(Role(op)))].push_back(op);
      if (Role(op) != kForwardOp) by_kind[static_cast<std::size_t>(ActionKind::kBackward)].push_back(op);
    }
    for (std::size_t stage = 0; stage < ops.size(); ++stage) {
      for (std::size_t kind = 0; kind < 4; ++kind) {
        pipeline_.model.stages[stage].working[kind] = WorkingBytes(ops[stage][kind]);
      }
    }
    std::vector<std::vector<TensorId>> given(final_ops.size());
    for (const TensorId id : gradients_) given[Rank(graph_.tensor(id).producer)].push_back(id);
    for (std::size_t rank = 0; rank < final_ops.size(); ++rank) {
      pipeline_.model.ranks[rank].final_working = WorkingBytes(final_ops[rank], given[rank]);
    }
  }

  const PlacedGraph& placed_;
  const Graph& graph_;
  std::optional<CollectiveTimes> collective_times_;  // none: there are no collectives
  std::vector<OpId> order_;                          // producers first, members of a collective together
  std::vector<std::size_t> final_position_;          // by OpId
  std::vector<std::size_t> rank_of_device_;
  std::map<Key, Contents> messages_;
  std::set<TensorId> gradients_;
  std::vector<bool> inside_;  // by OpId: scratch
  PlacedPipeline pipeline_;
};

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
  return ModelBuilder(placed, std::move(choice), std::move(roles)).Build();
}

}  // namespace emplace
