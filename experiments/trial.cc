#include "experiments/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "agents/checkpoint.h"
#include "agents/environment.h"
#include "agents/heuristics/score.h"
#include "sim/check.h"
#include "sim/file_io.h"
#include "sim/fingerprint.h"
#include "sim/graph_json.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

// How many evaluations pass between two checkpoints.
constexpr std::size_t kCheckpointEvery = 500;

void AddOps(const Graph& graph, const CostTable& costs, std::size_t num_devices, const Grouping& grouping,
            Fingerprint* problem) {
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    for (const std::string_view text : {op.name, op.kind, op.layer}) problem->Add(text);
    problem->Add(fmt::format("{} {} {} {} {} {}", op.flop, op.temp.count, op.persistent.count, op.file_position,
                             Index(graph.colocation_class(id)), grouping.group_of(id)));
    for (const TensorId input : graph.inputs(id)) problem->Add(fmt::format("{}", Index(input)));
    for (const OpId producer : graph.control_inputs(id)) problem->Add(fmt::format("after {}", Index(producer)));
    for (std::size_t d = 0; d < num_devices; ++d) {
      problem->Add(fmt::format("{} us", costs.Micros(id, MakeId<DeviceId>(d))));
    }
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const Tensor& tensor = graph.tensor(MakeId<TensorId>(t));
    problem->Add(fmt::format("{} {}", Index(tensor.producer), tensor.size.count));
  }
}

void AddDevices(const Cluster& cluster, Fingerprint* problem) {
  problem->Add(cluster.channels() == Channels::kPerDevice ? "device" : "pair");
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    problem->Add(device.name);
    problem->Add(fmt::format("{} {} {}", device.is_cpu ? "cpu" : "accelerator", device.op_gap_micros,
                             device.memory ? device.memory->count : -1));
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(d), MakeId<DeviceId>(to));
      problem->Add(fmt::format("{} {} {}", link.bandwidth_gb_per_s, link.latency_micros, link.gap_micros));
    }
  }
}

// Everything that the course of a search depends on.
std::string Describe(const TrialSpec& spec, const Grouping& grouping, std::size_t budget) {
  Fingerprint problem;
  AddOps(spec.graph, spec.costs, spec.cluster.num_devices(), grouping, &problem);
  AddDevices(spec.cluster, &problem);
  std::string options;
  for (const auto& [key, value] : spec.agent_options) options += fmt::format(" {}={}", key, value);
  return fmt::format(
      "{} on {} in {} groups, problem {:016x}, engine {}, agent {}{}, {} evaluations, reward {}, seed {}",
      spec.graph.name(), spec.cluster.name(), grouping.num_groups(), problem.value(), spec.engine, spec.agent, options,
      budget, spec.reward, spec.seed);
}

Grouping MakeGrouping(const TrialSpec& spec, const AgentEntry& entry) {
  if (spec.given_grouping) return *spec.given_grouping;
  const std::string_view name = spec.grouping.empty() ? DefaultGrouping(entry, spec.graph.num_ops()) : spec.grouping;
  return FindGrouper(name).make(spec.graph, {.max_groups = spec.max_groups});
}

// A search under way: the state that a checkpoint holds, and what it is made of.
class Search {
 public:
  Search(const TrialSpec& spec, const AgentEntry& entry)
      : spec_(spec),
        budget_(spec.evaluations != 0 ? spec.evaluations : entry.default_evaluations),
        simulator_(spec.graph, spec.cluster, spec.costs, {.engine = spec.engine, .peak_memory = true}),
        environment_(spec.graph, spec.cluster, spec.costs, MakeGrouping(spec, entry), simulator_,
                     {.name = FindReward(spec.reward).name}, spec.threads),
        agent_(MakeAgent(spec.agent, spec.agent_options, {.evaluations = budget_})),
        rng_(spec.seed),
        description_(spec.checkpoint.empty() ? "" : Describe(spec, environment_.grouping(), budget_)) {}

  TrialResult Run(const std::function<void(const TrialProgress&)>& on_progress) {
    Resume();
    std::size_t saved_at = state_.evaluations;
    while (state_.evaluations < budget_ && !agent_->Finished()) {
      std::vector<Placement> batch = agent_->Propose(environment_, Mode::kExplore, rng_);
      EMPLACE_CHECK(!batch.empty());
      batch.resize(std::min(batch.size(), budget_ - state_.evaluations));
      const std::vector<Outcome> outcomes = environment_.Evaluate(batch);
      agent_->Observe(environment_, batch, outcomes);
      for (std::size_t i = 0; i < batch.size(); ++i) Keep(batch[i], outcomes[i]);
      state_.evaluations += batch.size();
      if (!spec_.checkpoint.empty() && state_.evaluations - saved_at >= kCheckpointEvery) {
        SaveNow();
        saved_at = state_.evaluations;
      }
      if (on_progress) on_progress({.evaluations = state_.evaluations, .budget = budget_, .best_micros = best_micros_});
    }
    if (!spec_.checkpoint.empty()) SaveNow();
    return Result();
  }

 private:
  void Keep(const Placement& placement, const Outcome& outcome) {
    const Score score = ScoreOf(outcome, spec_.cluster);
    if (!score.fits) {
      if (!state_.smallest_overflow_bytes || score.overflow_bytes < *state_.smallest_overflow_bytes) {
        state_.smallest_overflow_bytes = score.overflow_bytes;
      }
      return;
    }
    ++state_.fitting;
    if (best_micros_ && outcome.result.step_time_micros >= *best_micros_) return;
    best_micros_ = outcome.result.step_time_micros;
    state_.best = placement;
  }

  void Resume() {
    if (spec_.checkpoint.empty() || !std::filesystem::exists(spec_.checkpoint)) return;
    try {
      const auto in = OpenForReading(spec_.checkpoint);
      state_ = LoadCheckpoint(*in, description_, *agent_, rng_);
    } catch (const InputError& error) {
      throw error.In(spec_.checkpoint);
    }
    if (!state_.best) return;
    EMPLACE_CHECK_EQ(state_.best->num_ops(), environment_.observation().num_groups());
    best_micros_ = simulator_.Run(environment_.grouping().Expand(*state_.best)).step_time_micros;
  }

  void SaveNow() const {
    WriteFile(spec_.checkpoint,
              [this](std::ostream& out) { SaveCheckpoint(out, description_, state_, *agent_, rng_); });
  }

  TrialResult Result() const {
    TrialResult result{.evaluations = state_.evaluations,
                       .num_groups = environment_.observation().num_groups(),
                       .fitting = state_.fitting,
                       .best = std::nullopt,
                       .best_result = {},
                       .smallest_overflow_bytes = state_.smallest_overflow_bytes};
    if (state_.best) {
      result.best = environment_.grouping().Expand(*state_.best);
      result.best_result = simulator_.Run(*result.best);
    }
    return result;
  }

  const TrialSpec& spec_;
  std::size_t budget_;
  Simulator simulator_;
  Environment environment_;
  std::unique_ptr<Agent> agent_;
  Rng rng_;
  std::string description_;  // what a checkpoint must be of
  SearchState state_;
  std::optional<double> best_micros_;
};

}  // namespace

TrialResult RunTrial(const TrialSpec& spec, const std::function<void(const TrialProgress&)>& on_progress) {
  return Search(spec, FindAgent(spec.agent)).Run(on_progress);
}

}  // namespace emplace
