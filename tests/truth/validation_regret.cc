// What periodic validation buys, for tests/truth/validation.py: a simulator made wrong on purpose searches, and one
// with the right times and with noise plays the hardware. Usage: validation_regret GRAPH CLUSTER GPUS EVALUATIONS SEEDS
// AGENT
//
// Writes CSV: how the simulator is wrong, the noise, the number of validations (0: none), the seed, the true step time
// of the answer without noise (µs), and the error of the simulator before and after correction (parts of 1).

#include <fmt/format.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/search.h"
#include "experiments/inputs/load.h"
#include "experiments/validation/periodic_validation.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

struct Wrong {
  std::string_view name;
  double ops = 1;        // a kind of op takes this many times as long, or as short, by a coin
  double bandwidth = 1;  // factor of all links
};
constexpr Wrong kWrongs[] = {{.name = "right"},
                             {.name = "op kinds 2 times off", .ops = 2},
                             {.name = "bandwidth 4 times too large", .bandwidth = 4},
                             {.name = "bandwidth 4 times too small", .bandwidth = 0.25},
                             {.name = "op kinds off and bandwidth too large", .ops = 2, .bandwidth = 4},
                             {.name = "op kinds off and bandwidth too small", .ops = 2, .bandwidth = 0.25}};

CostTable WithWrongKinds(const Graph& graph, const CostTable& costs, double factor, std::uint64_t seed) {
  Rng rng(seed);
  std::map<std::string_view, double> of_kind;
  std::vector<double> factors(costs.num_kinds() * graph.num_ops());
  for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind) {
    of_kind.clear();
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const auto [found, is_new] = of_kind.try_emplace(graph.op(MakeId<OpId>(op)).kind, 1.0);
      if (is_new) found->second = rng.Below(2) == 0 ? factor : 1 / factor;
      factors[kind * graph.num_ops() + op] = found->second;
    }
  }
  return costs.WithFactors(factors);
}

struct Setup {
  const Graph& graph;
  const Cluster& cluster;
  const CostTable& costs;
  std::size_t evaluations;
  std::string agent;
};

void Search(const Setup& setup, const Wrong& wrong, double noise, std::size_t validations, std::uint64_t seed) {
  const Cluster believed = setup.cluster.WithChanges({.bandwidth = wrong.bandwidth});
  const CostTable costs = WithWrongKinds(setup.graph, setup.costs, wrong.ops, seed);
  agents::SearchSpec spec{{}, {.graph = setup.graph, .cluster = believed, .costs = costs}};
  spec.agent = setup.agent;
  spec.evaluations = setup.evaluations;
  spec.seed = seed;
  std::optional<experiments::PeriodicValidation> validation;
  if (validations > 0) {
    // One measurement comes before the first evaluation, and one of the last best.
    validation.emplace(setup.graph, believed, costs, SimOptions{}, setup.evaluations / (validations - 1),
                       experiments::SimulatedHardware(setup.graph, setup.cluster, setup.costs, noise, 1000 + seed));
    spec.validation = &*validation;
  }
  const agents::SearchResult result = agents::RunSearch(spec);
  if (!result.best) throw InputError(std::string(wrong.name), "nothing fits");
  const double micros = Simulator(setup.graph, setup.cluster, setup.costs).Run(*result.best).step_time_micros;
  std::string errors = ",";
  if (validation) {
    const experiments::ValidationSummaryOfSearch summary = validation->Summarise();
    errors = fmt::format("{:.4f},{:.4f}", summary.error_before.value_or(-1), summary.error_after.value_or(-1));
  }
  fmt::print("{},{},{},{},{:.3f},{}\n", wrong.name, noise, validations, seed, micros, errors);
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 6) throw InputError("", "usage: GRAPH CLUSTER GPUS EVALUATIONS SEEDS AGENT");
  const Graph graph = experiments::LoadGraph({.file = arguments[0]});
  const Cluster cluster =
      experiments::LoadWholeCluster({.name = arguments[1]}).KeepAccelerators(std::stoul(arguments[2]));
  const CostTable costs(graph, cluster, *MakeCostModel("roofline"));
  const Setup setup{graph, cluster, costs, std::stoul(arguments[3]), arguments[5]};
  fmt::print("wrong,noise,validations,seed,true_us,error_before,error_after\n");
  for (std::uint64_t seed = 1; seed <= std::stoul(arguments[4]); ++seed) {
    for (const Wrong& wrong : kWrongs) {
      Search(setup, wrong, 0, 0, seed);
      if (wrong.name == "right") continue;
      for (const double noise : {0.05, 0.2, 0.5}) {
        for (const std::size_t validations : {10, 30, 100}) Search(setup, wrong, noise, validations, seed);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace emplace

int main(int argc, char** argv) {
  try {
    return emplace::Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
