#include "experiments/run/sweep_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/python/python_agent.h"
#include "agents/search.h"
#include "experiments/plan/problem.h"
#include "sim/base/check.h"
#include "sim/base/json_options.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTriedEvaluations = 3;  // or as many as these seconds have room for
constexpr double kTriedSeconds = 0.01;
constexpr std::size_t kMostTriedEvaluations = 100;
constexpr std::size_t kTriedEpisodes = 4;
constexpr double kMostSeconds = 2;            // limit of a short search, from its second batch on
constexpr double kMostSecondsOfASearch = 20;  // and in all
// How much a trial's time may differ from the estimate, because of other placements than those of the short search, and
// of other trials at the same time. docs/experiments.md says how the ranges compare with the trials of the shipped
// experiments.
constexpr double kSpread = 2.5;
constexpr double kEarlyEnd = 50;       // the same for searches that may end before their budget
constexpr double kStartSeconds = 0.3;  // a trial's process, its files
constexpr std::size_t kMostTrialEvaluations = 1000;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Assigns the groups to the devices in turn.
Placement SpreadPlacement(const agents::Observation& observation, std::size_t first) {
  Placement placement(observation.num_groups());
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    const auto& devices = observation.accelerators;
    const DeviceId wanted = devices[(group + first) % devices.size()];
    placement[MakeId<OpId>(group)] =
        observation.Allowed(group, Index(wanted)) ? wanted : observation.Fastest(group, devices);
  }
  return placement;
}

struct TriedLongEnough : std::exception {};

// Whether the learned policy is trained further on graphs that it was not trained on.
bool FineTunes(const ExperimentCell& cell) {
  const auto option = cell.agent_options.find("fine_tune");
  return option != cell.agent_options.end() && option->second == "true";
}

}  // namespace

const SweepEstimator::ProblemCost& SweepEstimator::CostOf(const GraphSource& graph, const TrialChoice& spec,
                                                          const ExperimentCell& cell) {
  const std::string key = JsonText({FieldsToJson(graph)}) + fmt::format(" {} {} ", spec.grouping, spec.groups) +
                          JsonText({FieldsToJson(spec.cluster)}) + spec.costs + cell.engine;
  const auto [found, is_new] = problems_.try_emplace(key);
  if (!is_new) return found->second;
  ProblemCost& cost = found->second;
  Clock::time_point started = Clock::now();
  const agents::SearchProblem problem = LoadProblem(graph, spec);
  const Simulator simulator(problem.graph, problem.cluster, problem.costs,
                            {.engine = cell.engine, .peak_memory = !cell.cluster.unlimited_memory});
  agents::Environment environment(problem.graph, problem.cluster, problem.costs,
                                  agents::MakeGrouping(problem, agents::FindAgent(cell.agent)), simulator);
  cost.num_groups = environment.observation().num_groups();
  environment.Evaluate(std::vector<Placement>{SpreadPlacement(environment.observation(), 0)});
  cost.setup_seconds = Since(started);
  started = Clock::now();
  std::size_t tried = 0;
  while (tried < kTriedEvaluations || (Since(started) < kTriedSeconds && tried < kMostTriedEvaluations)) {
    environment.Evaluate(std::vector<Placement>{SpreadPlacement(environment.observation(), tried++)});
  }
  cost.seconds_per_evaluation = Since(started) / static_cast<double>(tried);
  return cost;
}

SweepEstimator::PolicyCost SweepEstimator::MeasuredCost(agents::SearchSpec trial, std::size_t budget) {
  const Clock::time_point started = Clock::now();
  // An agent in Python that does not answer is stopped: AgentDoesNotAnswer.
  trial.stop = [&] { return Since(started) > kMostSecondsOfASearch; };
  // Times at the end of the first batch, which includes what is done once, and at the end of the last batch.
  double first_seconds = 0;
  double last_seconds = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  bool is_whole = true;
  try {
    const agents::SearchResult result = agents::RunSearch(trial, [&](const agents::SearchProgress& now) {
      last = now.evaluations;
      last_seconds = Since(started);
      if (first == 0) {
        first = last;
        first_seconds = last_seconds;
      }
      if (last > first && last_seconds - first_seconds > kMostSeconds) throw TriedLongEnough();
      if (last_seconds > kMostSecondsOfASearch) throw TriedLongEnough();
    });
    if (result.was_stopped) throw agents::AgentDoesNotAnswer("", result.note);
  } catch (const TriedLongEnough&) {
    is_whole = false;
  }
  PolicyCost cost;
  if (is_whole && last < budget) cost.evaluations = last;
  if (last <= first) {
    cost.per_evaluation = Since(started) / static_cast<double>(std::max<std::size_t>(last, 1));
    cost.had_one_batch = true;
  } else {
    cost.per_evaluation = (last_seconds - first_seconds) / static_cast<double>(last - first);
    cost.once = std::max(0.0, first_seconds - static_cast<double>(first) * cost.per_evaluation);
  }
  return cost;
}

SweepEstimator::PolicyCost SweepEstimator::MeasurePolicy(const TrialChoice& spec, const ExperimentCell& cell) {
  const agents::AgentEntry& entry = agents::FindAgent(cell.agent);
  agents::SearchSpec trial{{}, LoadProblem(spec.graphs().front(), spec)};
  trial.engine = cell.engine;
  trial.agent = cell.agent;
  trial.agent_options = cell.agent_options;
  trial.reward = cell.reward;
  trial.threads = 1;
  const std::size_t groups = agents::MakeGrouping(trial.problem, entry).num_groups();
  trial.episodes = std::min(cell.episodes, kTriedEpisodes);
  if (cell.episodes == 0 && entry.searches()) {
    // Where a search ends by itself is only seen with all of its budget.
    trial.evaluations =
        entry.may_end ? cell.evaluations : std::min({cell.evaluations, 4 * (groups + 1), kMostTrialEvaluations});
  }
  const auto measured = [&] { return MeasuredCost(trial, trial.Budget(groups)); };
  try {
    return measured();
  } catch (const agents::AgentDoesNotAnswer&) {
    throw;
  } catch (const InputError&) {  // an agent may reject a budget shorter than its first episode
    trial.episodes = cell.episodes;
    trial.evaluations = cell.evaluations;
  }
  try {
    return measured();
  } catch (const InputError& error) {
    throw error.In(agents::IsPythonAgent(cell.agent) ? "agent" : "budget").In(experiment_.path);
  }
}

std::optional<SweepEstimator::PolicyCost> SweepEstimator::PolicyCostOf(const TrialChoice& spec,
                                                                       const ExperimentCell& cell,
                                                                       const ProblemCost& problem, bool measure) {
  const agents::AgentEntry& entry = agents::FindAgent(cell.agent);
  const std::size_t groups = problem.num_groups;
  // An agent with one answer cannot be measured in part.
  if (!entry.searches() && (entry.refuses_some || !agents::IsQuick(entry, groups))) return std::nullopt;
  std::map<std::size_t, PolicyCost>& known =
      policies_[spec.agent + JsonText({OptionsToJson(spec.agent_options, false)})];
  const auto ratio = [groups](const auto& one) {
    const auto a = static_cast<double>(std::max<std::size_t>(groups, 1));
    const auto b = static_cast<double>(std::max<std::size_t>(one.first, 1));
    return std::max(a / b, b / a);
  };
  const auto nearest = [&] {
    return std::min_element(known.begin(), known.end(),
                            [&](const auto& a, const auto& b) { return ratio(a) < ratio(b); });
  };
  if (known.empty() || (measure && ratio(*nearest()) > 2)) {
    try {
      known[groups] = MeasurePolicy(spec, cell);
    } catch (const agents::AgentDoesNotAnswer&) {
      return std::nullopt;  // the duration is unknown
    }
    known[groups].simulated = problem.seconds_per_evaluation;
  }
  const auto& [measured, cost] = *nearest();
  PolicyCost scaled = cost;
  // Some agents take most of their time for groups, others for the simulation.
  const double of_groups = static_cast<double>(groups) / static_cast<double>(std::max<std::size_t>(measured, 1));
  const double of_simulation = cost.simulated > 0 ? problem.seconds_per_evaluation / cost.simulated : of_groups;
  scaled.least_per_evaluation = cost.per_evaluation * std::min(of_groups, of_simulation);
  scaled.per_evaluation = cost.per_evaluation * std::max(of_groups, of_simulation);
  return scaled;
}

TrialEstimate SweepEstimator::Estimate(const PlannedTrial& trial) {
  const ExperimentCell& cell = experiment_.cells[trial.cell];
  const agents::AgentEntry& entry = agents::FindAgent(cell.agent);
  TrialEstimate estimate;
  bool measure = true;  // only for the first graph
  double low = 0;
  double high = 0;
  const auto add = [&](const GraphSource& graph, bool training) {
    const ProblemCost& cost = CostOf(graph, trial.choice, cell);
    const std::optional<PolicyCost> policy = PolicyCostOf(trial.choice, cell, cost, measure);
    // A policy that is applied without training runs for one episode. An agent with one answer evaluates one placement.
    const std::size_t budget = entry.searches() ? cell.Budget(cost.num_groups) : 1;
    const std::size_t evaluations = training || FineTunes(cell) ? budget : std::min(budget, cost.num_groups + 1);
    estimate.evaluations += evaluations;
    const auto count = static_cast<double>(evaluations);
    // A search that ended by itself may do so here too. Graphs that it learns on have one end.
    std::size_t least = evaluations;
    if (policy && policy->evaluations) least = measure || !training ? std::min(evaluations, *policy->evaluations) : 0;
    const double part = static_cast<double>(least) / std::max(count, 1.0);
    // Placements of a search come to be better than those tried here, which make the simulator send nearly everything.
    const double simulated = count * cost.seconds_per_evaluation;
    const double searched = policy ? count * policy->per_evaluation : simulated;
    const double once = policy && measure ? policy->once : 0;
    const double least_searched = policy ? count * policy->least_per_evaluation : simulated;
    low += once + part * (policy && policy->had_one_batch ? std::min(least_searched, simulated) : least_searched);
    high += cost.setup_seconds + once + std::max(searched, simulated);
    // MicrosOfSingleOps searches once more, on the first graph.
    if (measure && agents::MovesModules(trial.choice)) high += simulated;
    estimate.is_bounded = estimate.is_bounded && policy.has_value();
    measure = false;
  };
  for (const GraphSource& graph : trial.choice.graphs()) add(graph, true);
  for (const GraphSource& graph : trial.choice.transfer) add(graph, false);
  // Some searches end before their budget, at a placement that nothing improves.
  estimate.low_seconds = low / (entry.may_end ? kEarlyEnd : kSpread);
  estimate.high_seconds = high * kSpread + kStartSeconds;
  return estimate;
}

}  // namespace emplace::experiments
