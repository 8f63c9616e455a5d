#include "experiments/library/plans/planners.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "datasets/planner/plan_search.h"
#include "experiments/library/plans/plan_estimates.h"

namespace emplace::experiments {
namespace {

// The fitting settings by `key_of` their number: the smallest first, those with equal keys in their order.
std::vector<std::size_t> Ordered(std::vector<std::size_t> fitting, auto key_of) {
  std::ranges::stable_sort(fitting, {}, key_of);
  return fitting;
}

std::vector<std::size_t> OrderAtRandom(const PlanCell& cell, Rng& rng) {
  std::vector<std::size_t> order(cell.settings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  return order;
}

// The plans of `emplace plan --all` that fit, in its order, as far as they are settings of the cell.
std::vector<std::size_t> OrderOfEmplace(const PlanCell& cell, Rng&) {
  const PlanProblem problem(cell);
  datasets::PlanQuestion question;
  question.network = problem.network;
  question.machine = problem.machine;
  question.framework = &datasets::NamedFramework(cell.framework, cell.name);
  question.global_batch = cell.global_batch;
  question.sequence = cell.sequence;
  question.only = cell.fixed;
  question.best = 0;
  std::map<PlanSetting, std::size_t> settings;
  for (std::size_t i = 0; i < cell.settings.size(); ++i) settings.emplace(cell.settings[i], i);
  std::vector<std::size_t> order;
  for (const datasets::ScoredPlan& scored : datasets::SearchPlans(question).plans) {
    const datasets::ParallelPlan& plan = scored.plan;
    if (!scored.fits || plan.cp != 1 || plan.vpp != 1) continue;
    const auto found = settings.find({.dp = plan.dp,
                                      .tp = plan.tp,
                                      .pp = plan.pp,
                                      .zero = plan.zero,
                                      .micro_batch = plan.micro_batch,
                                      .grad_accumulation = plan.grad_accumulation});
    if (found == settings.end()) continue;
    order.push_back(found->second);
    settings.erase(found);
  }
  return order;
}

// Those that fit by the usual formula: the least tp x pp, then the largest micro-batch, and ZeRO 1 rather than none.
std::vector<std::size_t> OrderByThumb(const PlanCell& cell, Rng&) {
  const PlanProblem problem(cell);
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < cell.settings.size(); ++i) {
    if (UsualBytes(problem, cell.settings[i]) <= problem.memory_bytes()) fitting.push_back(i);
  }
  return Ordered(std::move(fitting), [&](std::size_t i) {
    const PlanSetting& setting = cell.settings[i];
    return std::tuple(setting.tp * setting.pp, -setting.micro_batch, -setting.zero, setting.pp);
  });
}

// Those that fit by a model of published formulas, the fastest first.
template <PlanEstimate (*kEstimate)(const PlanProblem&, const PlanSetting&)>
std::vector<std::size_t> OrderByEstimate(const PlanCell& cell, Rng&) {
  const PlanProblem problem(cell);
  std::vector<std::size_t> fitting;
  std::vector<double> steps(cell.settings.size());
  for (std::size_t i = 0; i < cell.settings.size(); ++i) {
    const PlanEstimate expected = kEstimate(problem, cell.settings[i]);
    steps[i] = expected.step_s;
    if (expected.bytes <= problem.memory_bytes()) fitting.push_back(i);
  }
  return Ordered(std::move(fitting), [&](std::size_t i) { return steps[i]; });
}

constexpr PlannerEntry kPlanners[] = {
    {"emplace", "`emplace plan`: steps from measured curves of kernels, memory from a model of the allocator",
     "docs/plan.md", OrderOfEmplace},
    {"random", "Settings in a random order, those that do not fit too", "-", OrderAtRandom, true},
    {"thumb", "The least tp x pp that fits by the usual formula for memory, then the largest micro-batch",
     "Rajbhandari et al. 2020, section 3.1; Korthikanti et al. 2022, section 4", OrderByThumb},
    {"memory_time", "What fits by the usual formula, ordered by a step of three terms: products, and two rings",
     "the same, and Narayanan et al. 2021, section 2.2", OrderByEstimate<EstimateInThreeTerms>},
    {"calculon", "Calculon's formulas with the rates of its published systems",
     "Isaev et al. 2023, and their published tool", OrderByEstimate<EstimateAsCalculon>},
    {"simumax", "SimuMax's formulas with the rates of its published systems, without measured shapes",
     "Moore Threads 2025, SimuMax 1.2: docs/system.md, docs/model.md", OrderByEstimate<EstimateAsSimuMax>},
};

}  // namespace

std::span<const PlannerEntry> AllPlanners() { return kPlanners; }

}  // namespace emplace::experiments
