#include "tools/sweep_estimate.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/search.h"
#include "experiments/spec/problem.h"
#include "sim/base/check.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/simulator.h"

namespace emplace::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTriedEvaluations = 3;
constexpr std::size_t kTriedEpisodes = 4;
constexpr double kMostSeconds = 2;          // limit of a short search, from its second batch on
constexpr double kMostSecondsOfABatch = 8;  // limit of its first batch
constexpr std::size_t kMostTrialEvaluations = 1000;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Assigns the groups to the devices in turn.
Placement Spread(const agents::Observation& observation, std::size_t first) {
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

// Policy seconds per evaluation, measured by a short search.
double MeasuredSeconds(const agents::SearchSpec& trial) {
  const Clock::time_point started = Clock::now();
  // Times at the end of the first batch, which includes one-time work, and at the end of the last batch.
  double first_seconds = 0;
  double last_seconds = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  try {
    const agents::SearchResult result = agents::RunSearch(trial, [&](const agents::SearchProgress& now) {
      last = now.evaluations;
      last_seconds = Since(started);
      if (first == 0) {
        first = last;
        first_seconds = last_seconds;
      }
      if (last_seconds > (last > first ? kMostSeconds : kMostSecondsOfABatch)) throw TriedLongEnough();
    });
    return result.times.policy / static_cast<double>(result.evaluations);
  } catch (const TriedLongEnough&) {
    // Includes the simulations, so the result is slightly too large.
    if (last > first) return (last_seconds - first_seconds) / static_cast<double>(last - first);
    return last_seconds / static_cast<double>(std::max<std::size_t>(last, 1));
  }
}

// Whether the learned policy is trained further on graphs that it was not trained on.
bool FineTunes(const experiments::ExperimentCell& cell) {
  const auto option = cell.agent.set.find("fine_tune");
  return option != cell.agent.set.end() && option->second == "true";
}

}  // namespace

const SweepEstimator::ProblemCost& SweepEstimator::CostOf(const experiments::GraphSource& graph,
                                                          const experiments::TrialChoice& spec,
                                                          const experiments::ExperimentCell& cell) {
  const std::string key = JsonText({FieldsToJson(graph)}) + JsonText({FieldsToJson(spec.grouping)}) +
                          JsonText({FieldsToJson(spec.cluster)}) + spec.costs + cell.engine;
  const auto [found, is_new] = problems_.try_emplace(key);
  if (!is_new) return found->second;
  ProblemCost& cost = found->second;
  Clock::time_point started = Clock::now();
  const agents::SearchProblem problem = experiments::LoadProblem(graph, spec);
  const Simulator simulator(problem.graph, problem.cluster, problem.costs,
                            {.engine = cell.engine, .peak_memory = !cell.cluster.unlimited_memory});
  agents::Environment environment(problem.graph, problem.cluster, problem.costs,
                                  agents::MakeGrouping(problem, agents::FindAgent(cell.agent.name)), simulator);
  cost.num_groups = environment.observation().num_groups();
  environment.Evaluate(std::vector<Placement>{Spread(environment.observation(), 0)});
  cost.setup_seconds = Since(started);
  started = Clock::now();
  for (std::size_t i = 0; i < kTriedEvaluations; ++i) {
    environment.Evaluate(std::vector<Placement>{Spread(environment.observation(), i)});
  }
  cost.seconds_per_evaluation = Since(started) / kTriedEvaluations;
  return cost;
}

double SweepEstimator::MeasurePolicy(const experiments::TrialChoice& spec, const experiments::ExperimentCell& cell) {
  const agents::AgentEntry& entry = agents::FindAgent(cell.agent.name);
  agents::SearchSpec trial{.problem = experiments::LoadProblem(spec.graphs().front(), spec)};
  trial.engine = cell.engine;
  trial.agent = cell.agent.name;
  trial.agent_options = cell.agent.set;
  trial.reward = cell.reward;
  const std::size_t groups = agents::MakeGrouping(trial.problem, entry).num_groups();
  trial.episodes = std::min(cell.budget.episodes, kTriedEpisodes);
  if (cell.budget.episodes == 0)
    trial.evaluations = std::min({cell.budget.evaluations, groups + 1, kMostTrialEvaluations});
  try {
    return MeasuredSeconds(trial);
  } catch (const InputError&) {  // an agent may reject a budget shorter than its first episode
    trial.episodes = cell.budget.episodes;
    trial.evaluations = cell.budget.evaluations;
  }
  try {
    return MeasuredSeconds(trial);
  } catch (const InputError& error) {
    throw error.In("budget").In(experiment_.path);
  }
}

std::optional<double> SweepEstimator::PolicySeconds(const experiments::TrialChoice& spec,
                                                    const experiments::ExperimentCell& cell, std::size_t groups,
                                                    bool measure) {
  // An agent with one answer cannot be measured in part.
  if (!agents::FindAgent(cell.agent.name).searches()) return std::nullopt;
  std::map<std::size_t, double>& known = policies_[JsonText({FieldsToJson(spec.agent)})];
  const auto ratio = [groups](const auto& one) {
    const auto a = static_cast<double>(std::max<std::size_t>(groups, 1));
    const auto b = static_cast<double>(std::max<std::size_t>(one.first, 1));
    return std::max(a / b, b / a);
  };
  const auto nearest = [&] {
    return std::min_element(known.begin(), known.end(),
                            [&](const auto& a, const auto& b) { return ratio(a) < ratio(b); });
  };
  if (known.empty() || (measure && ratio(*nearest()) > 2)) known[groups] = MeasurePolicy(spec, cell);
  const auto& [measured, seconds] = *nearest();
  return seconds * static_cast<double>(groups) / static_cast<double>(std::max<std::size_t>(measured, 1));
}

TrialEstimate SweepEstimator::Estimate(const experiments::PlannedTrial& trial) {
  const experiments::ExperimentCell& cell = experiment_.cells[trial.cell];
  TrialEstimate estimate;
  bool measure = true;  // only for the first graph
  const auto add = [&](const experiments::GraphSource& graph, bool training) {
    const ProblemCost& cost = CostOf(graph, trial.choice, cell);
    const std::optional<double> policy = PolicySeconds(trial.choice, cell, cost.num_groups, measure);
    measure = false;
    // A policy that is applied without training runs for one episode.
    const std::size_t budget = cell.budget.Evaluations(cost.num_groups);
    const std::size_t evaluations = training || FineTunes(cell) ? budget : std::min(budget, cost.num_groups + 1);
    estimate.evaluations += evaluations;
    const auto count = static_cast<double>(evaluations);
    estimate.simulator_seconds += cost.setup_seconds + count * cost.seconds_per_evaluation;
    if (policy) estimate.policy_seconds = estimate.policy_seconds.value_or(0) + count * *policy;
  };
  for (const experiments::GraphSource& graph : trial.choice.graphs()) add(graph, true);
  for (const experiments::GraphSource& graph : trial.choice.transfer) add(graph, false);
  return estimate;
}

}  // namespace emplace::tools
