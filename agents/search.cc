#include "agents/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>

#include "agents/bounds/branch_and_bound.h"
#include "agents/bounds/lower_bound.h"
#include "agents/candidates.h"
#include "agents/environment.h"
#include "agents/objective.h"
#include "agents/rl/policy_file.h"
#include "agents/saved_state.h"
#include "agents/score.h"
#include "agents/throughput/pipeline_start.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/worker_pool.h"
#include "sim/formats/graph_json.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::agents {
namespace {

// Minimum evaluations between two checkpoints, and minimum time as a multiple of the time to save one. On a disk that
// is slow to sync, saving would otherwise take longer than the search.
constexpr std::size_t kCheckpointEvery = 500;
constexpr double kCheckpointTimeRatio = 20;
// The default searcher proves its answers for graphs of so many ops, if that takes at most so many partial placements.
constexpr std::size_t kMostProvedOps = 40;
constexpr std::size_t kMostProofNodes = 20'000;

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
      const DeviceId device = MakeId<DeviceId>(d);
      problem->Add(fmt::format("{} us", costs.Micros(id, device)));
      if (!costs.has_contention()) continue;
      problem->Add(fmt::format("{} times", costs.KindContention(id, costs.KindIndex(device))));
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
    if (!device.copy_engine) problem->Add("no copy engine");
    if (device.issue) {
      problem->Add(fmt::format("issue {} {} {} {}", device.issue->lane, device.issue->host_micros,
                               device.issue->launch_latency_micros, device.issue->max_queued));
    }
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(d), MakeId<DeviceId>(to));
      problem->Add(fmt::format("{} {} {}", link.bandwidth_gb_per_s, link.latency_micros, link.gap_micros));
      if (!link.contention) problem->Add("without contention");
      if (link.receive) problem->Add("receives");
      if (link.knee.count > 0) problem->Add(fmt::format("knee {} {}", link.knee.count, link.beyond_gb_per_s));
    }
  }
}

// State shared by the links.
void AddTopology(const emplace::Topology& topology, Fingerprint* problem) {
  for (const emplace::Topology::Link& link : topology.links()) {
    problem->Add(fmt::format("{} to {}: {} {}", link.from, link.to, link.bandwidth_gb_per_s, link.latency_micros));
  }
  for (const emplace::Topology::GivenRoute& route : topology.given()) {
    for (const emplace::Topology::Vertex vertex : route) problem->Add(fmt::format("over {}", vertex));
    problem->Add("there");
  }
}

std::string DescribeSchedule(const ScheduleChoice& choice) {
  if (!choice.given) return fmt::format("{} of {}", choice.name, choice.micro_batches);
  Fingerprint actions;
  for (const auto& rank : choice.given->ranks) {
    for (const PipelineAction& action : rank) actions.Add(Text(action));
    actions.Add("rank");
  }
  return fmt::format("{:016x}", actions.value());
}

// Identifies a search by all inputs that affect its results.
std::string Describe(const SearchSpec& spec, const SearchProblem& problem, const Grouping& grouping,
                     std::size_t budget) {
  Fingerprint fingerprint;
  AddOps(problem.graph, problem.costs, problem.cluster.num_devices(), grouping, &fingerprint);
  AddDevices(problem.cluster, &fingerprint);
  if (problem.costs.times_collectives()) fingerprint.Add("collectives by curves");
  if (spec.engine == "flow") AddTopology(problem.cluster.topology(), &fingerprint);
  std::string options;
  for (const auto& [key, value] : spec.agent_options) options += fmt::format(" {}={}", key, value);
  std::string start;
  if (spec.given_start) {
    Fingerprint placement;
    for (const DeviceId device : spec.given_start->devices()) placement.Add(fmt::format("{}", Index(device)));
    start = fmt::format(", start {:016x}", placement.value());
  }
  if (!spec.start.empty()) start += ", start " + spec.start;
  if (!spec.incumbent.empty()) start += ", incumbent " + spec.incumbent;
  std::string objective =
      spec.objective.empty() || spec.objective == "step_time" ? "" : ", objective " + spec.objective;
  if (spec.pipeline) objective += ", schedule " + DescribeSchedule(*spec.pipeline);
  if (spec.collectives != "model") objective += ", collectives " + spec.collectives;
  if (spec.validation != nullptr) objective += fmt::format(", measured every {}", spec.validation->every());
  return fmt::format(
      "{} on {} in {} groups, problem {:016x}, engine {}, agent {}{} on {}, {} evaluations, reward {}, seed {}{}{}",
      problem.graph.name(), problem.cluster.name(), grouping.num_groups(), fingerprint.value(), spec.engine, spec.agent,
      options, spec.torch_device, budget, spec.reward, spec.seed, start, objective);
}

RewardOptions RewardOfSpec(const SearchSpec& spec, const AgentEntry& entry) {
  return ParseReward(spec.reward.empty() ? entry.reward : std::string_view(spec.reward));
}

bool HasLimit(const Cluster& cluster) {
  return std::any_of(cluster.devices().begin(), cluster.devices().end(),
                     [](const Device& device) { return device.memory.has_value(); });
}

// CPU time of this process, in s, independent of other load on the machine.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

using Clock = std::chrono::steady_clock;
double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The caller's evaluator and simulator of the first problem: see SearchSpec. Null if not given.
struct GivenEvaluators {
  const Evaluator* evaluator = nullptr;
  const Simulator* simulator = nullptr;
  const SearchValidation* validation = nullptr;
};

// One graph of a search: its environment and progress.
class GraphSearch {
 public:
  GraphSearch(const SearchSpec& spec, const SearchProblem& problem, const AgentEntry& entry, Grouping grouping,
              std::size_t budget, const EvaluationNeeds& needs, const GivenEvaluators& given, std::size_t index)
      : spec_(spec),
        problem_(problem),
        entry_(entry),
        budget_(budget),
        needs_(needs),
        given_(given),
        index_(index),
        reward_floor_(FindReward(RewardOfSpec(spec, entry).name).floor) {
    Build(std::move(grouping));
    may_prove_ = MayProve(spec, problem, environment_->grouping());
  }

  // One Propose, Evaluate and Observe.
  void Step(Agent& agent, Rng& rng, Mode mode, SearchTimes* times) {
    const double started = CpuSeconds();
    Proposal proposal = agent.Propose(*environment_, mode, rng);
    std::vector<Placement>& batch = proposal.placements;
    EMPLACE_CHECK(!batch.empty());
    batch.resize(std::min(batch.size(), budget_ - state_.evaluations));
    const double proposed = CpuSeconds();
    times->policy += proposed - started;
    const std::vector<Outcome> outcomes = environment_->Evaluate(batch);
    // Before the agent sees them, so that they count also where it never answers.
    for (std::size_t i = 0; i < batch.size(); ++i) Keep(batch[i], outcomes[i], proposal.may_be_best);
    const double evaluated = CpuSeconds();
    times->simulator += evaluated - proposed;
    for (const EpisodeRecord& record : agent.Observe(*environment_, batch, outcomes)) state_.episodes.Add(record);
    times->policy += CpuSeconds() - evaluated;
    in_episode_ = proposal.episode_continues && !Spent();
  }

  void SetStart(const Placement& ops) { environment_->SetStart(ops); }
  void SetIncumbent(const Placement& ops) {
    incumbent_ = environment_->OfGroups(ops);
    incumbent_outcome_.result = objective_->evaluator().Run(environment_->grouping().Expand(*incumbent_));
    if (!ScoreOf(incumbent_outcome_, problem_.cluster).fits) incumbent_.reset();
  }

  // With the problem's costs, and evaluators that answer otherwise than before. The best is chosen anew, among it, the
  // incumbent and `others`, which are of ops.
  void Correct(std::vector<Placement> others) {
    Rebuild();
    const std::optional<Placement> best = state_.best;
    if (best) others.push_back(environment_->grouping().Expand(*best));
    if (incumbent_) others.push_back(environment_->grouping().Expand(*incumbent_));
    state_.best.reset();
    state_.best_micros.reset();
    for (const Placement& ops : others) {
      const Placement groups = environment_->OfGroups(ops);
      Outcome outcome;
      outcome.result = objective_->evaluator().Run(environment_->grouping().Expand(groups));
      const double now = outcome.result.step_time_micros;
      if (!ScoreOf(outcome, problem_.cluster).fits || (state_.best_micros && now >= *state_.best_micros)) continue;
      KeepBest(groups, now);
    }
  }
  // The same after a restart from a checkpoint, whose best was chosen by these answers.
  void Rebuild() {
    given_.simulator = nullptr;
    const std::optional<Placement> start = environment_->start();
    Build(Grouping(environment_->grouping()));
    if (start) environment_->SetStart(environment_->grouping().Expand(*start));
  }
  Placement Ops(const Placement& groups) const { return environment_->grouping().Expand(groups); }
  // Every group on a device drawn from those where it is allowed.
  Placement Random(Rng& rng) const {
    const Observation& seen = environment_->observation();
    const std::vector<DeviceId> all = AllDevices(seen.cluster);
    Placement groups(seen.num_groups());
    for (std::size_t group = 0; group < groups.num_ops(); ++group) {
      const std::vector<DeviceId> devices = Candidates(seen, group, all);
      groups[MakeId<OpId>(group)] = devices[rng.Below(devices.size())];
    }
    return groups;
  }

  // Whether the search is between two steps of an episode.
  bool in_episode() const { return in_episode_; }
  bool Spent() const { return state_.evaluations >= budget_; }
  std::size_t budget() const { return budget_; }
  const Environment& environment() const { return *environment_; }
  const GraphState& state() const { return state_; }
  void Restore(GraphState state) {
    if (state.best) EMPLACE_CHECK_EQ(state.best->num_ops(), environment_->observation().num_groups());
    state_ = std::move(state);
  }

  GraphResult Result() const {
    GraphResult result;
    SetSingleDevice(&result);
    result.evaluations = state_.evaluations;
    result.num_groups = environment_->observation().num_groups();
    result.fitting = state_.fitting;
    if (std::isfinite(reward_floor_)) result.saturated = state_.saturated;
    result.invalid_micros = InvalidMicros(environment_->reward());
    result.smallest_overflow_bytes = state_.smallest_overflow_bytes;
    result.start_micros = state_.start_micros.value_or(0);
    result.final_micros = state_.final_micros;
    result.trace = state_.trace;
    result.episodes = state_.episodes.records();
    result.num_episodes = state_.episodes.num_episodes();
    if (!state_.best) return result;
    if (result.trace.back().first != state_.evaluations) {
      result.trace.emplace_back(state_.evaluations, *state_.best_micros);
    }
    result.best = Ops(*state_.best);
    if (index_ == 0 && given_.validation != nullptr) SetMeasuredBest(&result);
    if (may_prove_) Prove(&result);
    result.best_result = objective_->RunWithPeakMemory(*result.best);
    return result;
  }

 private:
  void Build(Grouping grouping) {
    objective_ = MakeObjective({.graph = problem_.graph,
                                .cluster = problem_.cluster,
                                .costs = problem_.costs,
                                .settings = spec_,
                                .schedule = spec_.pipeline,
                                .peak_memory = needs_.peak_memory || HasLimit(problem_.cluster) ||
                                               FindReward(RewardOfSpec(spec_, entry_).name).needs_peak_memory,
                                .start_times = needs_.start_times,
                                .simulator = given_.simulator,
                                .evaluator = given_.evaluator});
    environment_.emplace(problem_.graph, problem_.cluster, problem_.costs, std::move(grouping), objective_->evaluator(),
                         RewardOfSpec(spec_, entry_), NumThreads(spec_.threads), index_);
    if (objective_->loads() != nullptr) {
      environment_->SetStageCosts(*objective_->loads(), StageCostOptionsOf(spec_.objective));
    }
  }

  // The answer is one that was measured.
  void SetMeasuredBest(GraphResult* result) const {
    const std::vector<Placement> measured = given_.validation->Measured();
    if (!measured.empty()) result->best = measured.front();
  }

  // Whether the default searcher answers a question to which branch and bound has an exact answer: which placement of
  // single ops has the shortest step.
  static bool MayProve(const SearchSpec& spec, const SearchProblem& problem, const Grouping& grouping) {
    const bool is_step_time = spec.objective.empty() || spec.objective == "step_time";
    return spec.agent == "multilevel_search" && is_step_time && !spec.pipeline && spec.evaluator == nullptr &&
           spec.validation == nullptr && spec.collectives == "model" && !HasOnlySimpleBounds(spec.engine) &&
           problem.graph.num_ops() <= kMostProvedOps && CanBeExact(problem.graph, problem.cluster) &&
           grouping.num_groups() == NumClasses(problem.graph);
  }

  static std::size_t NumClasses(const Graph& graph) {
    std::size_t classes = 0;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      classes = std::max(classes, Index(graph.colocation_class(MakeId<OpId>(i))) + 1);
    }
    return classes;
  }

  // Replaces the best by the optimum, if branch and bound finds it soon.
  void Prove(GraphResult* result) const {
    const ExactResult exact = BranchAndBound(problem_.graph, problem_.cluster, problem_.costs,
                                             {.simulation = {.engine = spec_.engine, .peak_memory = true},
                                              .start = result->best,
                                              .max_nodes = kMostProofNodes});
    if (!exact.is_complete || !exact.best) return;
    result->is_proved = true;
    result->best = exact.best;
    const double micros = MicrosFromDuration(Duration(exact.best_nanos));
    if (micros < result->trace.back().second) result->trace.back().second = micros;
  }

  // With every group on one accelerator, or elsewhere if not allowed there: on the first, and where that is best.
  void SetSingleDevice(GraphResult* result) const {
    const Observation& seen = environment_->observation();
    const Cluster& cluster = problem_.cluster;
    std::vector<DeviceId> tried;
    for (const DeviceId device : seen.accelerators) {
      const bool alike = std::ranges::any_of(tried, [&](DeviceId other) {
        return problem_.costs.KindIndex(other) == problem_.costs.KindIndex(device) &&
               cluster.device(other).memory == cluster.device(device).memory &&
               cluster.device(other).op_gap_micros == cluster.device(device).op_gap_micros;
      });
      if (alike) continue;
      const StepResult step = objective_->simulated().Run(environment_->grouping().Expand(OnOneOf(seen, {&device, 1})));
      if (tried.empty()) result->single_device_micros = step.step_time_micros;
      tried.push_back(device);
      if (!step.runs || !step.fits_memory) continue;
      result->one_device_micros =
          std::min(step.step_time_micros, result->one_device_micros.value_or(step.step_time_micros));
    }
  }

  void Keep(const Placement& placement, const Outcome& outcome, bool may_be_best) {
    ++state_.evaluations;
    if (outcome.reward <= reward_floor_) ++state_.saturated;
    const double micros = outcome.result.step_time_micros;
    const Score score = ScoreOf(outcome, problem_.cluster);
    state_.final_micros = score.fits ? std::optional(micros) : std::nullopt;
    if (!state_.start_micros) Begin(micros);
    if (!score.fits) {
      if (!outcome.result.runs) return;
      if (!state_.smallest_overflow_bytes || score.overflow_bytes < *state_.smallest_overflow_bytes) {
        state_.smallest_overflow_bytes = score.overflow_bytes;
      }
      return;
    }
    ++state_.fitting;
    if (!may_be_best || (state_.best_micros && micros >= *state_.best_micros)) return;
    KeepBest(placement, micros);
  }

  // The first evaluation, of this step time.
  void Begin(double micros) {
    state_.start_micros = incumbent_ ? incumbent_outcome_.result.step_time_micros : micros;
    if (incumbent_) KeepBest(*incumbent_, *state_.start_micros);
  }

  void KeepBest(const Placement& placement, double micros) {
    state_.best_micros = micros;
    state_.best = placement;
    // The incumbent and a first placement that is faster are one point.
    if (!state_.trace.empty() && state_.trace.back().first == state_.evaluations) state_.trace.pop_back();
    state_.trace.emplace_back(state_.evaluations, micros);
  }

  const SearchSpec& spec_;
  const SearchProblem& problem_;
  const AgentEntry& entry_;
  std::size_t budget_;
  EvaluationNeeds needs_;
  GivenEvaluators given_;
  std::size_t index_;
  double reward_floor_;
  std::unique_ptr<const Objective> objective_;
  std::optional<Environment> environment_;  // never none; agents know it by its address
  std::optional<Placement> incumbent_;      // placement of groups
  Outcome incumbent_outcome_;
  GraphState state_;
  bool in_episode_ = false;
  bool may_prove_ = false;
};

// The groups, split where the start has their ops on several devices.
Grouping SplitAtStart(const SearchProblem& problem, const Grouping& grouping, const Placement& start) {
  std::vector<std::size_t> labels;
  for (std::size_t i = 0; i < problem.graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    labels.push_back(grouping.group_of(op) * problem.cluster.num_devices() + Index(start[op]));
  }
  return Grouping(problem.graph, labels);
}

// Whether the user asks for CPUs as stages of a pipeline beside accelerators: SearchSpec says when.
bool RequestsCpus(const SearchSpec& spec, const AgentEntry& agent, const SearchProblem& problem,
                  const std::optional<Placement>& start) {
  const Cluster& cluster = problem.cluster;
  const auto is_option = [&](std::string_view key, std::string_view value) {
    const auto found = spec.agent_options.find(std::string(key));
    return found != spec.agent_options.end() && found->second == value;
  };
  if (cluster.names_cpu() || agent.needs_cpu) return true;
  if (is_option("use_cpus", "true") || is_option("accelerators_only", "false")) return true;
  const ObjectiveEntry& objective = ObjectiveOf(spec);
  if (objective.asks_for_cpus != nullptr && objective.asks_for_cpus(spec)) return true;
  std::vector<DeviceId> accelerators;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    if (device.is_cpu && is_option("device", device.name)) return true;
    if (!device.is_cpu) accelerators.push_back(MakeId<DeviceId>(d));
  }
  for (std::size_t i = 0; start && i < start->num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (!cluster.device((*start)[op]).is_cpu) continue;
    if (std::ranges::any_of(accelerators, [&](DeviceId device) { return problem.costs.Allowed(op, device); })) {
      return true;
    }
  }
  return false;
}

// A running search.
class Search {
 public:
  Search(const SearchSpec& spec, const AgentEntry& entry) : spec_(spec), entry_(entry), rng_(spec.seed) {
    std::vector<const SearchProblem*> problems = {&spec.problem};
    for (const SearchProblem& problem : spec.also) problems.push_back(&problem);
    for (const SearchProblem* const problem : problems) {
      prepared_.push_back(Prepare(*problem, graphs_.empty() ? spec.given_start : std::nullopt));
      const Prepared& ready = *prepared_.back();
      const std::size_t budget = EvaluationBudget(spec, entry, ready.grouping.num_groups());
      if (!agent_) {
        agent_ = NewAgent(budget, problems.size());
        LoadPolicy();
      }
      if (!spec.checkpoint.empty()) {
        description_ += Describe(spec, ready.problem, ready.grouping, budget) + policy_text_;
      }
      const SearchValidation* const validation = spec.validation;
      const GivenEvaluators given = {.evaluator = validation != nullptr ? &validation->evaluator() : spec.evaluator,
                                     .simulator = spec.simulator,
                                     .validation = validation};
      graphs_.push_back(std::make_unique<GraphSearch>(spec, ready.problem, entry, ready.grouping, budget,
                                                      agent_->Needs(), graphs_.empty() ? given : GivenEvaluators(),
                                                      graphs_.size()));
      if (ready.start) graphs_.back()->SetStart(*ready.start);
      if (ready.incumbent) graphs_.back()->SetIncumbent(*ready.incumbent);
    }
  }

  SearchResult Run(const std::function<void(const SearchProgress&)>& on_progress) {
    Resume();
    started_ = Clock::now();
    saved_at_ = Evaluations();
    saved_time_ = started_;
    try {
      Explore(on_progress);
    } catch (const AgentDoesNotAnswer& error) {
      if (Evaluations() == 0) throw;
      unanswered_ = error.what();
    }
    return Result();
  }

 private:
  // Evaluations of one graph that the agent has.
  std::unique_ptr<Agent> NewAgent(std::size_t budget, std::size_t num_graphs) const {
    return MakeAgent(spec_.agent, spec_.agent_options,
                     {.evaluations = budget,
                      .episodes = spec_.episodes,
                      .num_graphs = num_graphs,
                      .torch_device = spec_.torch_device,
                      .stop = spec_.stop});
  }

  void Explore(const std::function<void(const SearchProgress&)>& on_progress) {
    if (spec_.validation != nullptr && !validated_.has_begun) {
      Rng rng(spec_.seed);
      Validate(graphs_[0]->Random(rng));
    }
    while (!ExploreOnce(on_progress) && ValidateEnd()) {
    }
    if (spec_.validation != nullptr) ValidateEnd();
    if (MaySave()) SaveNow(Since(saved_time_) >= spec_.sync_end_after_seconds);
  }

  // Has a placement of groups measured, and goes on with what that says.
  void Validate(const Placement& groups) {
    GraphSearch& graph = *graphs_[0];
    const std::size_t evaluations = graph.state().evaluations;
    const bool differs = spec_.validation->Measure(graph.Ops(groups), evaluations);
    validated_.has_begun = true;
    validated_.at = evaluations;
    validated_.last = groups;
    AdoptCosts();
    graph.Correct(spec_.validation->Measured());
    const bool goes_on = evaluations > 0 && evaluations < graph.budget() && graph.state().best;
    if (differs && entry_.keeps_times && goes_on) Restart();
  }
  void Restart() {
    validated_.restarted_at = graphs_[0]->state().evaluations;
    validated_.restarted_from = *graphs_[0]->state().best;
    ResumeRestarted();
  }
  void ResumeRestarted() {
    GraphSearch& graph = *graphs_[0];
    agent_ = NewAgent(graph.budget() - validated_.restarted_at, graphs_.size());
    graph.SetStart(graph.Ops(*validated_.restarted_from));
  }
  void AdoptCosts() {
    prepared_[0]->problem.cluster = spec_.validation->cluster();
    prepared_[0]->problem.costs = spec_.validation->costs();
  }
  bool ValidationIsDue() const {
    if (spec_.validation == nullptr || graphs_[0]->in_episode() || !graphs_[0]->state().best) return false;
    const std::size_t every = spec_.validation->every();
    return graphs_[0]->state().evaluations / every > validated_.at / every;
  }
  // Measures the best unless it was the last that was measured. Returns whether the search goes on.
  bool ValidateEnd() {
    if (spec_.validation == nullptr) return false;
    const std::size_t restarted_at = validated_.restarted_at;
    const auto& best = graphs_[0]->state().best;
    if (best && (!validated_.last || *validated_.last != *best)) Validate(*best);
    return validated_.restarted_at != restarted_at;
  }

  // Returns whether it was stopped.
  bool ExploreOnce(const std::function<void(const SearchProgress&)>& on_progress) {
    bool stopped = false;
    while (!agent_->Finished() && !AllSpent() && !stopped) {
      for (const auto& graph : graphs_) {
        do {
          if (graph->Spent() || agent_->Finished() || stopped) break;
          graph->Step(*agent_, rng_, Mode::kExplore, &times_);
          if (on_progress) on_progress(Progress());
          stopped = spec_.stop && spec_.stop();
        } while (graphs_.size() > 1 && graph->in_episode());
      }
      if (!stopped && ValidationIsDue()) Validate(*graphs_[0]->state().best);
      if (!MaySave()) continue;
      if (spec_.interrupt && !AllSpent() && spec_.interrupt()) {
        SaveNow();
        throw SearchInterrupted();
      }
      SaveNowAndThen();
    }
    return stopped;
  }

  // What was measured last, and when.
  struct Validated {
    bool has_begun = false;
    std::size_t at = 0;                            // evaluations of the first graph
    std::optional<Placement> last = {};            // of groups
    std::size_t restarted_at = 0;                  // 0: the agent is the first
    std::optional<Placement> restarted_from = {};  // of groups

    static void SavedFields(auto& state, auto& self) {
      state(self.has_begun, self.at, self.last, self.restarted_at, self.restarted_from);
      state.NewLine();
    }
  };

  // A problem as it is searched.
  struct Prepared {
    SearchProblem problem;  // its costs leave out CPUs that may be no stage
    Grouping grouping;
    std::optional<Placement> start;
    std::optional<Placement> incumbent;
  };

  std::unique_ptr<Prepared> Prepare(const SearchProblem& problem, const std::optional<Placement>& given) const {
    std::optional<Placement> start = given;
    if (!start && entry_.searches()) start = problem.start;
    Grouping grouping = GroupingOf(problem, start);
    auto ready = std::make_unique<Prepared>(Prepared{.problem = problem,
                                                     .grouping = std::move(grouping),
                                                     .start = std::move(start),
                                                     .incumbent = problem.incumbent});
    LeaveOutCpus(ready.get());
    if (!ready->start && entry_.searches()) {
      const bool asked = problem.given_grouping || !problem.grouping.empty();
      ready->start = StartFor(ready->problem, ready->grouping, /*may_split=*/!asked);
      if (ready->start && !asked) ready->grouping = SplitAtStart(problem, ready->grouping, *ready->start);
    }
    return ready;
  }
  void LeaveOutCpus(Prepared* ready) const {
    if (!ObjectiveOf(spec_).is_pipeline) return;
    for (const auto& placement : {ready->start, ready->incumbent}) {
      if (RequestsCpus(spec_, entry_, ready->problem, placement)) return;
    }
    ready->problem.costs = WithoutCpuStages(ready->problem.cluster, ready->problem.costs, ready->grouping);
  }
  // The start that the objective gives a search.
  std::optional<Placement> StartFor(const SearchProblem& problem, const Grouping& grouping, bool may_split) const {
    if (!spec_.pipeline) return std::nullopt;
    const auto objective = MakeObjective({.graph = problem.graph,
                                          .cluster = problem.cluster,
                                          .costs = problem.costs,
                                          .settings = spec_,
                                          .schedule = spec_.pipeline});
    const std::optional<Grouping> finer = may_split ? std::optional(ForwardOpGroups(problem.graph)) : std::nullopt;
    return objective->Start(grouping, finer, spec_.stop);
  }
  Grouping GroupingOf(const SearchProblem& problem, const std::optional<Placement>& start) const {
    const bool asked = problem.given_grouping || !problem.grouping.empty();
    if (asked || !spec_.pipeline || !entry_.searches()) return MakeGrouping(problem, entry_, start);
    const Grouping layers = PipelineGroups(problem.graph, problem.cluster, problem.costs);
    return start ? SplitAtStart(problem, layers, *start) : layers;
  }

  std::size_t Evaluations() const {
    std::size_t evaluations = 0;
    for (const auto& graph : graphs_) evaluations += graph->state().evaluations;
    return evaluations;
  }
  bool AllSpent() const {
    return std::all_of(graphs_.begin(), graphs_.end(), [](const auto& graph) { return graph->Spent(); });
  }
  bool MaySave() const {
    return !spec_.checkpoint.empty() &&
           std::none_of(graphs_.begin(), graphs_.end(), [](const auto& graph) { return graph->in_episode(); });
  }
  SearchProgress Progress() const {
    SearchProgress now{.evaluations = Evaluations(), .budget = 0, .best_micros = graphs_[0]->state().best_micros};
    for (const auto& graph : graphs_) now.budget += graph->budget();
    return now;
  }
  SearchTimes Times() const {
    SearchTimes times = times_;
    times.wall += Since(started_);
    times.policy += agent_->CpuSecondsElsewhere() + transfer_times_.policy;
    times.simulator += transfer_times_.simulator;
    return times;
  }

  void LoadPolicy() {
    if (spec_.policy.empty()) return;
    const auto in = OpenForReading(spec_.policy, InputKind::kPolicy);
    try {
      const std::string text = ReadPolicyText(*in);
      policy_text_ = ", policy " + FingerprintText(text);
      std::istringstream again(text);
      agent_->LoadPolicy(again);
    } catch (const InputError& error) {
      throw error.In(spec_.policy);
    }
  }

  void Resume() {
    if (spec_.checkpoint.empty() || !std::filesystem::exists(spec_.checkpoint)) return;
    try {
      const auto in = OpenForReading(spec_.checkpoint, InputKind::kCheckpoint);
      WithLocation(spec_.checkpoint, [&] { LoadFrom(*in); });
    } catch (const InputError& error) {
      throw UnusableCheckpoint(error);
    }
  }

  void LoadFrom(std::istream& in) {
    std::ostringstream whole;
    whole << in.rdbuf();
    std::istringstream text(whole.str());
    SearchState state = LoadCheckpoint(text, description_, *agent_, rng_);
    EMPLACE_CHECK_EQ(state.graphs.size(), graphs_.size());
    if (spec_.validation != nullptr) {
      std::istringstream part(state.part);
      LoadState(part, &validated_);
      spec_.validation->Load(part);
      AdoptCosts();
      graphs_[0]->Rebuild();
      if (validated_.restarted_at > 0) {
        // The agent of that part of the search, which has its own budget.
        ResumeRestarted();
        std::istringstream again(whole.str());
        LoadCheckpoint(again, description_, *agent_, rng_);
      }
    }
    for (std::size_t i = 0; i < graphs_.size(); ++i) graphs_[i]->Restore(std::move(state.graphs[i]));
    times_ = state.times;
    if (spec_.evaluator_state != nullptr) {
      std::istringstream part(state.part);
      spec_.evaluator_state->Load(part);
    }
  }

  void SaveNowAndThen() {
    if (Evaluations() - saved_at_ < kCheckpointEvery || Clock::now() < next_save_) return;
    const auto started = Clock::now();
    SaveNow();
    saved_at_ = Evaluations();
    saved_time_ = Clock::now();
    next_save_ =
        saved_time_ + std::chrono::duration_cast<Clock::duration>(kCheckpointTimeRatio * (saved_time_ - started));
  }

  void SaveNow(bool durable = true) const {
    SearchState state{.graphs = {}, .times = Times(), .part = {}};
    for (const auto& graph : graphs_) state.graphs.push_back(graph->state());
    if (spec_.evaluator_state != nullptr) {
      std::ostringstream part;
      spec_.evaluator_state->Save(part);
      state.part = std::move(part).str();
    }
    if (spec_.validation != nullptr) {
      std::ostringstream part;
      SaveState(part, validated_);
      spec_.validation->Save(part);
      state.part = std::move(part).str();
    }
    const auto write = [&](std::ostream& out) { SaveCheckpoint(out, description_, state, *agent_, rng_); };
    WriteFiles({{.path = spec_.checkpoint, .write = write, .durable = durable, .only_regular = true}});
  }

  // Applies the policy to a graph that was not trained on: one argmax episode, or with fine_tune a separate search.
  GraphResult Transfer(const SearchProblem& problem, const std::string& policy) {
    Prepared ready{.problem = problem, .grouping = MakeGrouping(problem, entry_), .start = {}, .incumbent = {}};
    if (entry_.searches()) ready.start = problem.start;
    if (ready.start) ready.grouping = MakeGrouping(problem, entry_, ready.start);
    ready.incumbent = problem.incumbent;
    LeaveOutCpus(&ready);
    const std::size_t num_groups = ready.grouping.num_groups();
    std::size_t budget = EvaluationBudget(spec_, entry_, num_groups);
    const auto load = [&] {
      auto agent = MakeAgent(
          spec_.agent, spec_.agent_options,
          {.evaluations = budget, .episodes = spec_.episodes, .num_graphs = 1, .torch_device = spec_.torch_device});
      std::istringstream in(policy);
      agent->LoadPolicy(in);
      return agent;
    };
    auto agent = load();
    if (agent->OnlyApplies()) {
      // The budget must not end the episode, even if the training budget was small.
      constexpr std::size_t kMostPasses = 100;
      budget = std::max(budget, 1 + kMostPasses * num_groups);
      agent = load();
    }
    GraphSearch graph(spec_, ready.problem, entry_, ready.grouping, budget, agent->Needs(), GivenEvaluators(),
                      /*index=*/0);
    if (ready.start) graph.SetStart(*ready.start);
    if (ready.incumbent) graph.SetIncumbent(*ready.incumbent);
    Rng rng(spec_.seed);
    while (!graph.Spent() && !agent->Finished()) graph.Step(*agent, rng, Mode::kExplore, &transfer_times_);
    transfer_times_.policy += agent->CpuSecondsElsewhere();
    return graph.Result();
  }

  SearchResult Result() {
    SearchResult result;
    static_cast<GraphResult&>(result) = graphs_[0]->Result();
    for (std::size_t i = 1; i < graphs_.size(); ++i) result.also.push_back(graphs_[i]->Result());
    result.was_stopped = !unanswered_.empty();
    result.note = result.was_stopped ? unanswered_ : agent_->Note();
    if (agent_->HasPolicy()) {
      std::ostringstream out;
      agent_->SavePolicy(out);
      result.policy = std::move(out).str();
    } else if (!spec_.transfer.empty()) {
      throw InputError("transfer", fmt::format("agent {} has no policy to transfer", spec_.agent));
    }
    for (const SearchProblem& problem : spec_.transfer) result.transfer.push_back(Transfer(problem, result.policy));
    result.times = Times();
    return result;
  }

  const SearchSpec& spec_;
  const AgentEntry& entry_;
  std::unique_ptr<Agent> agent_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
  std::vector<std::unique_ptr<GraphSearch>> graphs_;
  Rng rng_;
  std::string description_;  // identifies checkpoints of this search
  std::string policy_text_;
  Validated validated_;
  std::string unanswered_;      // message about an agent that was stopped; "": it was not
  SearchTimes times_;           // times of earlier runs and of this one, without those that Times() adds
  SearchTimes transfer_times_;  // of policies that were applied to graphs that they had not learned on
  Clock::time_point started_;
  std::size_t saved_at_ = 0;      // evaluations
  Clock::time_point saved_time_;  // time of the last checkpoint, or of the start of the search
  Clock::time_point next_save_;   // earliest time of the next checkpoint
};

}  // namespace

Grouping MakeGrouping(const SearchProblem& problem, const AgentEntry& agent, const std::optional<Placement>& start) {
  if (problem.given_grouping) return *problem.given_grouping;
  const std::string_view name =
      problem.grouping.empty() ? DefaultGrouping(agent, problem.graph.num_ops()) : problem.grouping;
  Grouping grouping = FindGrouper(name).make(problem.graph, {.max_groups = problem.max_groups});
  return start && problem.grouping.empty() ? SplitAtStart(problem, grouping, *start) : grouping;
}

std::size_t EvaluationBudget(const SearchSettings& settings, const AgentEntry& agent, std::size_t num_groups) {
  const std::size_t budget = settings.Budget(num_groups);
  return budget != 0 ? budget : agent.default_evaluations;
}

std::string RewardWarning(const GraphResult& result) {
  if (result.saturated && IsMostlySaturated(*result.saturated, result.evaluations)) {
    return fmt::format(
        "{} of {} evaluations had the smallest value of the reward, so the agent could not tell their placements apart "
        "(--reward memory_penalty has no smallest value; more memory, or a larger M)",
        *result.saturated, result.evaluations);
  }
  const double best_micros = result.best ? result.best_result.step_time_micros : 0;
  if (result.invalid_micros && *result.invalid_micros < best_micros && result.fitting < result.evaluations) {
    return fmt::format(
        "{} of {} placements did not fit, and the reward counted each as a step of {:.6g} s: less than the {:.6g} s of "
        "the best that fits, so an agent that follows the reward is led away from what fits (a larger `invalid`, such "
        "as invalid={:.0f}, or --reward memory_penalty)",
        result.evaluations - result.fitting, result.evaluations, *result.invalid_micros * 1e-6, best_micros * 1e-6,
        std::ceil(10 * best_micros * 1e-6));
  }
  return "";
}

bool NeedsLibTorch(const SearchSettings& settings) {
  const auto autograd = settings.agent_options.find("autograd");
  const bool has_torch_networks = std::ranges::any_of(
      AllAgents(), [&](const AgentEntry& entry) { return entry.needs_torch && entry.name == settings.agent; });
  return has_torch_networks || settings.torch_device != "cpu" ||
         (autograd != settings.agent_options.end() && autograd->second == "true");
}

SearchResult RunSearch(const SearchSpec& spec, const std::function<void(const SearchProgress&)>& on_progress) {
  EMPLACE_CHECK(spec.names_are_resolved || (spec.start.empty() && spec.incumbent.empty()));
  if (spec.schedule.empty() || spec.pipeline) return Search(spec, FindAgent(spec.agent)).Run(on_progress);
  SearchSpec loaded = spec;
  loaded.pipeline = LoadSchedule(spec, Door::kSpec);
  return Search(loaded, FindAgent(spec.agent)).Run(on_progress);
}

bool MovesModules(const SearchSettings& settings) {
  return settings.grouping == "modules" || settings.grouping == "layers";
}

std::optional<double> MicrosOfSingleOps(const SearchSpec& spec, const SearchResult& result,
                                        const std::function<void(const SearchProgress&)>& on_progress) {
  if (!MovesModules(spec) || spec.validation != nullptr || !result.best || result.was_stopped || result.evaluations < 2)
    return std::nullopt;
  SearchSpec ops = spec;
  ops.agent = "multilevel_search";
  ops.agent_options.clear();
  ops.grouping = "ops";
  ops.problem.SetGrouping(ops.grouping, ops.groups);
  ops.problem.given_grouping.reset();
  ops.also.clear();
  ops.transfer.clear();
  ops.given_start = result.best;
  ops.start.clear();
  ops.incumbent.clear();
  ops.problem.start.reset();
  ops.problem.incumbent.reset();
  ops.checkpoint.clear();
  ops.policy.clear();
  ops.seconds = 0;
  ops.episodes = 0;
  ops.evaluations = result.evaluations;
  ops.interrupt = {};
  ops.stop = [&spec] { return (spec.stop && spec.stop()) || (spec.interrupt && spec.interrupt()); };
  const SearchResult found = RunSearch(ops, on_progress);
  if (spec.interrupt && spec.interrupt()) throw SearchInterrupted();
  if (!found.best) return std::nullopt;
  return found.best_result.step_time_micros;
}

}  // namespace emplace::agents
