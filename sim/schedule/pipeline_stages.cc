#include "sim/schedule/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/graph_algorithms.h"
#include "sim/schedule/teams.h"

namespace emplace {
namespace {

using enum PipelineRole;

std::string_view PassName(PipelineRole role) {
  switch (role) {
    case kSourceOp:
    case kForwardOp:
      return "forward pass";
    case kInputOp:
    case kWeightOp:
      return "backward pass";
    case kFinalOp:
      break;
  }
  return "update";
}

std::string DevicePlace(const PlacedGraph& placed, OpId op) {
  return fmt::format("devices[{}]", Quoted(placed.graph.op(op).name));
}

std::vector<OpId> OpsOf(const std::vector<PipelineRole>& roles, PipelineRole role) {
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == role) ops.push_back(MakeId<OpId>(i));
  }
  return ops;
}

// Source, forward, the input's part or final; weights' parts are found later.
PipelineRole FirstRole(const PlacedGraph& placed, OpId op, const std::vector<PipelineRole>& roles) {
  const Graph& graph = placed.graph;
  const bool reads_nothing = graph.inputs(op).empty() && graph.control_inputs(op).empty() && !graph.CollectiveOf(op);
  if (reads_nothing && DurationFromMicros(placed.costs.Micros(op, placed.placement[op])) == Duration{})
    return kSourceOp;
  std::optional<OpId> later;  // a producer that is not of the forward pass
  std::optional<OpId> update;
  ForEachProducer(graph, op, [&](OpId producer) {
    if (roles[Index(producer)] == kInputOp) later = producer;
    if (roles[Index(producer)] == kFinalOp) update = producer;
  });
  const auto refuse = [&](OpId producer) {
    throw InputError(fmt::format("ops[{}]", Quoted(graph.op(op).name)),
                     fmt::format("of the {} reads {} of the {} (forward, then backward, then update)",
                                 graph.op(op).pass == Pass::kBackward ? "backward pass" : "forward pass",
                                 Quoted(graph.op(producer).name), PassName(roles[Index(producer)])));
  };
  switch (graph.op(op).pass) {
    case Pass::kNone:
      return later || update ? kFinalOp : kForwardOp;
    case Pass::kForward:
      if (update) refuse(*update);
      if (later) refuse(*later);
      return kForwardOp;
    case Pass::kBackward:
      if (update) refuse(*update);
      return kInputOp;
    case Pass::kUpdate:
      break;
  }
  return kFinalOp;
}

// Whether the op adds up gradients, one of which `producer` computed: all of its inputs are as large as its one output
// and belong to the backward pass. A scatter_add also reads positions and smaller gradients.
bool AddsUp(const Graph& graph, OpId op, OpId producer, const std::vector<PipelineRole>& roles) {
  if (graph.num_outputs(op) != 1 || graph.inputs(op).empty()) return false;
  const Bytes size = graph.tensor(graph.first_output(op)).size;
  if (size == Bytes{}) return false;
  const bool scatters = graph.op(op).kind == "scatter_add";
  return std::all_of(graph.inputs(op).begin(), graph.inputs(op).end(), [&](TensorId input) {
    const Tensor& tensor = graph.tensor(input);
    if (scatters && tensor.producer != producer) return true;
    const PipelineRole role = roles[Index(tensor.producer)];
    return tensor.size == size && (role == kInputOp || role == kWeightOp);
  });
}

// Calls `visit` with the ops that read the op's outputs or wait for it.
template <typename Visit>
void ForEachConsumer(const Graph& graph, OpId op, Visit visit) {
  for (std::size_t output = 0; output < graph.num_outputs(op); ++output) {
    for (const OpId consumer : graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + output)))
      visit(consumer);
  }
  for (const OpId consumer : graph.control_consumers(op)) visit(consumer);
}

// Only final ops read a weights' gradient, directly or over sums of several.
void FindWeightParts(const Graph& graph, std::vector<PipelineRole>* roles) {
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    if ((*roles)[i] != kInputOp) continue;
    bool is_read = false;
    bool is_gradient = true;
    ForEachConsumer(graph, MakeId<OpId>(i), [&](OpId consumer) {
      is_read = true;
      const PipelineRole role = (*roles)[Index(consumer)];
      is_gradient =
          is_gradient && (role == kFinalOp || (role == kWeightOp && AddsUp(graph, consumer, MakeId<OpId>(i), *roles)));
    });
    if (is_read && is_gradient) (*roles)[i] = kWeightOp;
  }
}

// Chooses devices of ranks and stages of ops.
class StageFinder {
 public:
  // `depths`: Depths(placed.graph).
  StageFinder(const PlacedGraph& placed, const std::vector<std::size_t>& rank_of_stage, const std::string& wanted,
              const std::vector<std::uint32_t>& depths, std::vector<PipelineRole>* roles)
      : placed_(placed),
        graph_(placed.graph),
        rank_of_stage_(rank_of_stage),
        wanted_(wanted),
        roles_(*roles),
        depths_(depths),
        choice_{.stages = std::vector<std::size_t>(placed.graph.num_ops(), 0)} {
    for (const OpId op : OpsOf(roles_, kForwardOp)) {
      const DeviceId device = placed_.placement[op];
      if (std::find(stage_devices_.begin(), stage_devices_.end(), device) == stage_devices_.end()) {
        stage_devices_.push_back(device);
      }
    }
    for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
      if (stage == 0 || rank_of_stage[stage] != rank_of_stage[stage - 1]) runs_.push_back({stage, 0});
      ++runs_.back().num_stages;
    }
  }

  StageChoice Find() {
    const std::vector<DeviceId> devices = runs_.size() == NumRanks() ? ChainOfDevices() : LevelsOfDevices();
    AssignRanks(devices);
    AssignForward(devices);
    AssignBackward(devices);
    SplitRuns();
    CheckBackward();
    return std::move(choice_);
  }

 private:
  struct Run {
    std::size_t first_stage = 0;
    std::size_t num_stages = 0;
  };

  std::size_t NumRanks() const { return 1 + *std::max_element(rank_of_stage_.begin(), rank_of_stage_.end()); }
  std::size_t Stage(OpId op) const { return choice_.stages[Index(op)]; }
  const std::string& Name(DeviceId device) const { return placed_.cluster.device(device).name; }

  std::string Listed(const std::vector<DeviceId>& devices) const {
    std::string listed;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (i == 8) return listed + " ..";
      listed += (i == 0 ? "" : " ") + Name(devices[i]);
    }
    return listed;
  }

  // `found`: the devices in the order in which micro-batches pass them.
  [[noreturn]] void RefuseStages(const std::vector<DeviceId>& found) const {
    std::string ranks;
    for (std::size_t stage = 0; stage < rank_of_stage_.size(); ++stage) {
      if (stage == 8) {
        ranks += " ..";
        break;
      }
      ranks += fmt::format("{}{}", stage == 0 ? "" : " ", rank_of_stage_[stage]);
    }
    throw InputError(wanted_, fmt::format("needs stages ({}) on devices in the order {} (the placement has them on {})",
                                          rank_of_stage_.size(), ranks, Listed(found)));
  }

  // One run on each device: the devices, each after those that it reads.
  std::vector<DeviceId> ChainOfDevices() {
    if (stage_devices_.size() != NumRanks()) RefuseStages(stage_devices_);
    const std::size_t count = placed_.cluster.num_devices();
    std::vector<std::vector<bool>> reads(count, std::vector<bool>(count, false));
    for (const OpId op : OpsOf(roles_, kForwardOp)) {
      ForEachProducer(graph_, op, [&](OpId producer) {
        const DeviceId from = placed_.placement[producer];
        const DeviceId to = placed_.placement[op];
        if (roles_[Index(producer)] == kForwardOp && from != to) reads[Index(to)][Index(from)] = true;
      });
    }
    std::vector<DeviceId> order;
    std::vector<bool> taken(count, false);
    while (order.size() < stage_devices_.size()) {
      const auto next = std::find_if(stage_devices_.begin(), stage_devices_.end(), [&](DeviceId device) {
        if (taken[Index(device)]) return false;
        return std::all_of(stage_devices_.begin(), stage_devices_.end(),
                           [&](DeviceId other) { return taken[Index(other)] || !reads[Index(device)][Index(other)]; });
      });
      if (next == stage_devices_.end()) RefuseCircle(taken);
      taken[Index(*next)] = true;
      order.push_back(*next);
    }
    return order;
  }

  // Names an op that reads from a device whose forward pass has read from this one before.
  [[noreturn]] void RefuseCircle(const std::vector<bool>& taken) const {
    const std::size_t count = placed_.cluster.num_devices();
    std::vector<std::vector<std::optional<OpId>>> read(count, std::vector<std::optional<OpId>>(count));
    std::vector<OpId> ops = OpsOf(roles_, kForwardOp);
    std::stable_sort(ops.begin(), ops.end(), [&](OpId a, OpId b) { return depths_[Index(a)] < depths_[Index(b)]; });
    for (const OpId op : ops) {
      const DeviceId to = placed_.placement[op];
      ForEachProducer(graph_, op, [&](OpId producer) {
        const DeviceId from = placed_.placement[producer];
        if (roles_[Index(producer)] != kForwardOp || from == to || taken[Index(from)] || taken[Index(to)]) return;
        // The inputs of `from` are now read by `to`.
        std::vector<std::optional<OpId>>& by_op = read[Index(to)];
        for (std::size_t d = 0; d < count; ++d) {
          if (!by_op[d]) by_op[d] = read[Index(from)][d];
        }
        if (!by_op[Index(from)]) by_op[Index(from)] = producer;
        if (!by_op[Index(to)]) return;
        throw InputError(DevicePlace(placed_, op),
                         fmt::format("is on {} and reads {} on {}, which goes back to {} on {} (a stage reads from "
                                     "earlier stages only, and each device has one)",
                                     Name(to), Quoted(graph_.op(producer).name), Name(from),
                                     Quoted(graph_.op(*by_op[Index(to)]).name), Name(to)));
      });
    }
    RefuseStages(stage_devices_);
  }

  // Several runs on a device: the devices along the paths of the forward pass that change devices most often.
  std::vector<DeviceId> LevelsOfDevices() {
    std::vector<std::size_t> before(graph_.num_ops(), 0);  // changes on the way to the op
    std::vector<std::size_t> after(graph_.num_ops(), 0);
    const std::vector<OpId> ops = OpsOf(roles_, kForwardOp);
    const auto changes = [&](OpId a, OpId b) { return placed_.placement[a] != placed_.placement[b] ? 1U : 0U; };
    std::size_t most = 0;
    for (const OpId op : ops) {
      ForEachProducer(graph_, op, [&](OpId producer) {
        if (roles_[Index(producer)] != kForwardOp) return;
        before[Index(op)] = std::max(before[Index(op)], before[Index(producer)] + changes(producer, op));
      });
      most = std::max(most, before[Index(op)]);
    }
    for (std::size_t i = ops.size(); i-- > 0;) {
      ForEachProducer(graph_, ops[i], [&](OpId producer) {
        if (roles_[Index(producer)] != kForwardOp) return;
        after[Index(producer)] = std::max(after[Index(producer)], after[Index(ops[i])] + changes(producer, ops[i]));
      });
    }
    std::vector<std::optional<DeviceId>> levels(most + 1);
    for (const OpId op : ops) {
      if (before[Index(op)] + after[Index(op)] != most) continue;
      std::optional<DeviceId>& level = levels[before[Index(op)]];
      if (!level) level = placed_.placement[op];
      if (*level != placed_.placement[op]) {
        throw InputError(DevicePlace(placed_, op),
                         fmt::format("is on {}, but other ops that change devices as often before it are on {} (one "
                                     "chain of stages)",
                                     placed_.DeviceName(op), Name(*level)));
      }
    }
    std::vector<DeviceId> devices;
    for (const std::optional<DeviceId>& level : levels) {
      if (level) devices.push_back(*level);
    }
    return devices;
  }

  // Which device is which rank. Throws unless the devices come in the order of the ranks of runs.
  void AssignRanks(const std::vector<DeviceId>& devices) {
    if (devices.size() != runs_.size() || stage_devices_.size() != NumRanks()) RefuseStages(devices);
    std::vector<std::optional<DeviceId>> device_of_rank(NumRanks());
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      std::optional<DeviceId>& device = device_of_rank[rank_of_stage_[runs_[run].first_stage]];
      if (!device) device = devices[run];
      if (*device != devices[run]) RefuseStages(devices);
    }
    for (const std::optional<DeviceId>& device : device_of_rank) {
      const auto& ranks = choice_.device_of_rank;
      if (std::find(ranks.begin(), ranks.end(), *device) != ranks.end()) RefuseStages(devices);
      choice_.device_of_rank.push_back(*device);
    }
  }

  // The first run of its device that is not before those that it reads. Stages are runs until SplitRuns.
  void AssignForward(const std::vector<DeviceId>& devices) {
    for (const OpId op : OpsOf(roles_, kForwardOp)) {
      std::size_t run = 0;
      OpId from{};
      ForEachProducer(graph_, op, [&](OpId producer) {
        if (roles_[Index(producer)] != kForwardOp || Stage(producer) < run) return;
        run = Stage(producer);
        from = producer;
      });
      const auto found =
          std::find(devices.begin() + static_cast<std::ptrdiff_t>(run), devices.end(), placed_.placement[op]);
      if (found == devices.end()) {
        throw InputError(DevicePlace(placed_, op),
                         fmt::format("is on {} and reads {} on {}, which comes after it in the pipeline (a stage reads "
                                     "from earlier stages only)",
                                     placed_.DeviceName(op), Quoted(graph_.op(from).name), placed_.DeviceName(from)));
      }
      choice_.stages[Index(op)] = static_cast<std::size_t>(found - devices.begin());
    }
  }

  // The last run of its device that is not after those that it reads in the backward pass.
  void AssignBackward(const std::vector<DeviceId>& devices) {
    for (std::size_t i = 0; i < roles_.size(); ++i) {
      if (roles_[i] != kInputOp && roles_[i] != kWeightOp) continue;
      const auto op = MakeId<OpId>(i);
      std::size_t run = devices.size() - 1;
      std::optional<OpId> from;
      ForEachProducer(graph_, op, [&](OpId producer) {
        const PipelineRole role = roles_[Index(producer)];
        // A sum of weights' gradients of several devices runs at the end.
        const bool sums = role == kWeightOp && placed_.placement[producer] != placed_.placement[op] &&
                          AddsUp(graph_, op, producer, roles_);
        if ((role != kInputOp && role != kWeightOp) || sums || Stage(producer) > run) return;
        run = Stage(producer);
        from = producer;
      });
      while (run > 0 && devices[run] != placed_.placement[op]) --run;
      if (devices[run] != placed_.placement[op]) RefuseBackward(op, from);
      choice_.stages[i] = run;
    }
  }

  [[noreturn]] void RefuseBackward(OpId op, std::optional<OpId> from) const {
    const std::string place = DevicePlace(placed_, op);
    if (std::find(stage_devices_.begin(), stage_devices_.end(), placed_.placement[op]) == stage_devices_.end()) {
      throw InputError(place, fmt::format("is on {}, which has no forward ops (the backward pass is where the forward "
                                          "pass is)",
                                          placed_.DeviceName(op)));
    }
    const OpId producer = from.value_or(op);
    throw InputError(
        place, fmt::format("is on {} and reads {} on {}, which comes before it in the pipeline (the backward "
                           "pass goes from the last stage to the first)",
                           placed_.DeviceName(op), Quoted(graph_.op(producer).name), placed_.DeviceName(producer)));
  }

  // Cuts runs of several stages where about as much time is before as after, and turns runs into stages.
  void SplitRuns() {
    for (const PipelineRole role : {kForwardOp, kInputOp, kWeightOp}) {
      std::vector<std::vector<OpId>> by_run(runs_.size());
      for (const OpId op : OpsOf(roles_, role)) by_run[Stage(op)].push_back(op);
      for (std::size_t run = 0; run < runs_.size(); ++run) {
        Split(runs_[run], &by_run[run], /*reversed=*/role != kForwardOp);
      }
    }
    for (const OpId op : OpsOf(roles_, kWeightOp)) {
      ForEachProducer(graph_, op, [&](OpId producer) {
        if (roles_[Index(producer)] != kInputOp) return;
        choice_.stages[Index(op)] = std::min(choice_.stages[Index(op)], Stage(producer));
      });
    }
  }

  void Split(const Run& run, std::vector<OpId>* ops, bool reversed) {
    const auto less_deep = [&](OpId a, OpId b) { return depths_[Index(a)] < depths_[Index(b)]; };
    std::stable_sort(ops->begin(), ops->end(), less_deep);
    double total = 0;
    for (const OpId op : *ops) total += static_cast<double>(placed_.Time(op).count());
    double before = 0;
    for (const OpId op : *ops) {
      const auto time = static_cast<double>(placed_.Time(op).count());
      const double share = total > 0 ? (before + time / 2) / total : 0;
      const auto part =
          std::min(run.num_stages - 1, static_cast<std::size_t>(share * static_cast<double>(run.num_stages)));
      choice_.stages[Index(op)] = run.first_stage + (reversed ? run.num_stages - 1 - part : part);
      before += time;
    }
  }

  // Sums of several stages' gradients, and what reads them, run at the end. Other backward ops go back only.
  void CheckBackward() {
    for (std::size_t i = 0; i < roles_.size(); ++i) {
      const auto op = MakeId<OpId>(i);
      if (roles_[i] != kInputOp && roles_[i] != kWeightOp) continue;
      ForEachProducer(graph_, op, [&](OpId producer) {
        const PipelineRole role = roles_[Index(producer)];
        if (role == kFinalOp || (role == kWeightOp && Stage(producer) != Stage(op))) {
          roles_[i] = kFinalOp;
        } else if (role == kInputOp && Stage(producer) < Stage(op)) {
          RefuseBackward(op, producer);
        }
      });
      if (roles_[i] == kFinalOp) choice_.stages[i] = 0;
    }
  }

  const PlacedGraph& placed_;
  const Graph& graph_;
  const std::vector<std::size_t>& rank_of_stage_;
  const std::string& wanted_;
  std::vector<PipelineRole>& roles_;
  const std::vector<std::uint32_t>& depths_;
  std::vector<DeviceId> stage_devices_;  // in the order of their first forward op
  std::vector<Run> runs_;                // stages that follow one another on one rank
  StageChoice choice_;
};

}  // namespace

Duration PlacedGraph::Time(OpId op) const {
  const DeviceId device = placement[op];
  const Duration time = DurationFromMicros(costs.Micros(op, device));
  if (time == Duration{}) return time;
  return time + DurationFromMicros(cluster.device(device).op_gap_micros);
}

std::vector<PipelineRole> PipelineRoles(const PlacedGraph& placed) {
  std::vector<PipelineRole> roles(placed.graph.num_ops());
  for (std::size_t i = 0; i < roles.size(); ++i) {
    roles[i] = FirstRole(placed, MakeId<OpId>(i), roles);
  }
  FindWeightParts(placed.graph, &roles);
  return roles;
}

namespace {

// Throws unless the members of each collective are in one stage and part, or all final.
void CheckMembers(const PlacedGraph& placed, const std::vector<PipelineRole>& roles, const StageChoice& choice) {
  for (const Collective& collective : placed.graph.collectives()) {
    const OpId first = collective.members.front();
    for (const OpId op : collective.members) {
      const PipelineRole role = roles[Index(op)];
      const bool is_alike =
          role == roles[Index(first)] && (role == kFinalOp || choice.schedule_stage[choice.stages[Index(op)]] ==
                                                                  choice.schedule_stage[choice.stages[Index(first)]]);
      if (is_alike) continue;
      throw InputError(
          fmt::format("ops[{}]", Quoted(placed.graph.op(op).name)),
          fmt::format("of the {} is in the group {} with {} of the {} (members in one stage and pass)", PassName(role),
                      Quoted(collective.group), Quoted(placed.graph.op(first).name), PassName(roles[Index(first)])));
    }
  }
}

}  // namespace

StageChoice ChooseStages(const PlacedGraph& placed, const std::vector<std::size_t>& rank_of_stage,
                         const std::string& wanted, std::vector<PipelineRole>* roles) {
  const std::size_t num_ops = placed.graph.num_ops();
  const Teams teams = FindTeams(placed, *roles);
  const std::vector<std::uint32_t> depths = Depths(placed.graph);
  StageChoice all{.stages = std::vector<std::size_t>(num_ops, 0)};
  for (std::size_t pipeline = 0; pipeline < teams.pipelines.size(); ++pipeline) {
    const auto is_inside = [&](DeviceId device) {
      const std::size_t team = teams.team_of_device[Index(device)];
      return team != Teams::kNone && teams.pipeline_of_team[team] == pipeline;
    };
    // A team is one device here, and other pipelines are not looked at.
    Placement on_teams(num_ops);
    std::vector<PipelineRole> roles_here = *roles;
    for (std::size_t i = 0; i < num_ops; ++i) {
      const auto op = MakeId<OpId>(i);
      const DeviceId device = placed.placement[op];
      on_teams[op] = is_inside(device) ? teams.members[teams.team_of_device[Index(device)]].front() : device;
      const bool is_elsewhere = teams.team_of_device[Index(device)] != Teams::kNone && !is_inside(device);
      if (is_elsewhere && roles_here[i] != kSourceOp) roles_here[i] = kFinalOp;
    }
    const PlacedGraph mapped{placed.graph, placed.cluster, placed.costs, on_teams};
    const StageChoice choice = StageFinder(mapped, rank_of_stage, wanted, depths, &roles_here).Find();
    for (std::size_t i = 0; i < num_ops; ++i) {
      if (!is_inside(placed.placement[MakeId<OpId>(i)])) continue;
      (*roles)[i] = roles_here[i];
      all.stages[i] = choice.stages[i];
    }
    for (std::size_t rank = 0; rank < choice.device_of_rank.size(); ++rank) {
      std::vector<std::size_t>& team = all.teams.emplace_back();
      for (const DeviceId device : teams.members[teams.team_of_device[Index(choice.device_of_rank[rank])]]) {
        team.push_back(all.device_of_rank.size());
        all.device_of_rank.push_back(device);
        all.schedule_rank.push_back(rank);
      }
    }
  }
  // Each device has stages of its own, in the order of the schedule's.
  std::vector<std::vector<std::size_t>> own_stage(placed.cluster.num_devices());
  for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
    for (std::size_t rank = 0; rank < all.device_of_rank.size(); ++rank) {
      std::vector<std::size_t>& own = own_stage[Index(all.device_of_rank[rank])];
      own.resize(rank_of_stage.size(), 0);
      if (all.schedule_rank[rank] != rank_of_stage[stage]) continue;
      own[stage] = all.rank_of_stage.size();
      all.rank_of_stage.push_back(rank);
      all.schedule_stage.push_back(stage);
    }
  }
  for (std::size_t i = 0; i < num_ops; ++i) {
    if ((*roles)[i] == kSourceOp || (*roles)[i] == kFinalOp) continue;
    all.stages[i] = own_stage[Index(placed.placement[MakeId<OpId>(i)])][all.stages[i]];
  }
  CheckMembers(placed, *roles, all);
  return all;
}

}  // namespace emplace
