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
#include "sim/graph_json.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

// How many evaluations pass between two checkpoints.
constexpr std::size_t kCheckpointEvery = 500;

// FNV-1a, 64 bits: tells one search from another, nothing more.
class Fingerprint {
 public:
  void Add(std::string_view text) {
    for (const char c : text) {
      hash_ ^= static_cast<unsigned char>(c);
      hash_ *= 0x100000001b3ULL;
    }
    hash_ *= 0x100000001b3ULL;
  }
  std::string Text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// Everything that the course of a search depends on.
std::string Describe(const TrialSpec& spec, const std::string& grouping, std::size_t budget) {
  Fingerprint problem;
  problem.Add(spec.graph.name());
  for (std::size_t op = 0; op < spec.graph.num_ops(); ++op) {
    problem.Add(spec.graph.op(MakeId<OpId>(op)).name);
    for (std::size_t d = 0; d < spec.cluster.num_devices(); ++d) {
      problem.Add(fmt::format("{}", spec.costs.Micros(MakeId<OpId>(op), MakeId<DeviceId>(d))));
    }
  }
  for (std::size_t t = 0; t < spec.graph.num_tensors(); ++t) {
    const Tensor& tensor = spec.graph.tensor(MakeId<TensorId>(t));
    problem.Add(fmt::format("{} {}", Index(tensor.producer), tensor.size.count));
    for (const OpId reader : spec.graph.consumers(MakeId<TensorId>(t))) problem.Add(std::to_string(Index(reader)));
  }
  for (std::size_t d = 0; d < spec.cluster.num_devices(); ++d) {
    const Device& device = spec.cluster.devices()[d];
    problem.Add(fmt::format("{} {} {}", device.name, device.op_gap_micros, device.memory ? device.memory->count : -1));
    for (std::size_t to = 0; to < spec.cluster.num_devices(); ++to) {
      const Link& link = spec.cluster.link(MakeId<DeviceId>(d), MakeId<DeviceId>(to));
      problem.Add(fmt::format("{} {} {}", link.bandwidth_gb_per_s, link.latency_micros, link.gap_micros));
    }
  }
  std::string options;
  for (const auto& [key, value] : spec.agent_options) options += fmt::format(" {}={}", key, value);
  return fmt::format("{} on {}, problem {}, engine {}, agent {}{}, grouping {} {}, {} evaluations, reward {}, seed {}",
                     spec.graph.name(), spec.cluster.name(), problem.Text(), spec.engine, spec.agent, options, grouping,
                     spec.max_groups, budget, spec.reward, spec.seed);
}

// A search under way: the state that a checkpoint holds, and what it is made of.
class Search {
 public:
  Search(const TrialSpec& spec, const AgentEntry& entry)
      : spec_(spec),
        grouping_name_(spec.grouping.empty() ? std::string(DefaultGrouping(entry, spec.graph.num_ops()))
                                             : spec.grouping),
        budget_(spec.evaluations != 0 ? spec.evaluations : entry.default_evaluations),
        simulator_(spec.graph, spec.cluster, spec.costs, {.engine = spec.engine, .peak_memory = true}),
        environment_(spec.graph, spec.cluster, spec.costs,
                     FindGrouper(grouping_name_).make(spec.graph, {.max_groups = spec.max_groups}), simulator_,
                     {.name = FindReward(spec.reward).name}, spec.threads),
        agent_(MakeAgent(spec.agent, spec.agent_options, {.evaluations = budget_})),
        rng_(spec.seed) {}

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
      state_ = LoadCheckpoint(*in, Description(), *agent_, rng_);
    } catch (const InputError& error) {
      throw error.In(spec_.checkpoint);
    }
    if (!state_.best) return;
    if (state_.best->num_ops() != environment_.observation().num_groups()) {
      throw InputError(spec_.checkpoint, "checkpoint: is broken (expected one device per group)");
    }
    best_micros_ = simulator_.Run(environment_.grouping().Expand(*state_.best)).step_time_micros;
  }

  void SaveNow() const {
    WriteFile(spec_.checkpoint,
              [this](std::ostream& out) { SaveCheckpoint(out, Description(), state_, *agent_, rng_); });
  }

  std::string Description() const { return Describe(spec_, grouping_name_, budget_); }

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
  std::string grouping_name_;
  std::size_t budget_;
  Simulator simulator_;
  Environment environment_;
  std::unique_ptr<Agent> agent_;
  Rng rng_;
  SearchState state_;
  std::optional<double> best_micros_;
};

}  // namespace

TrialResult RunTrial(const TrialSpec& spec, const std::function<void(const TrialProgress&)>& on_progress) {
  return Search(spec, FindAgent(spec.agent)).Run(on_progress);
}

}  // namespace emplace
