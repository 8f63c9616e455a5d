#include "experiments/library/known_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <istream>
#include <limits>
#include <set>
#include <sstream>

#include "experiments/library/library_files.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/units.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kBestKnownSchema = "emplace.best_known";
constexpr const char* kBestKnownFile = "datasets/library/best_known.yaml";

struct BestKnownDocument {
  std::string schema;
  std::uint64_t version = 0;
  std::vector<KnownResult> results;

  static void Fields(auto& visit, auto& self) {
    visit("schema", self.schema);
    visit("version", self.version);
    visit("results", self.results, {.needed = "a list of results"});
  }
};

void CheckResult(const KnownResult& result, const std::string& place) {
  const std::vector<LibraryInstance>& instances = LibraryInstances();
  if (std::none_of(instances.begin(), instances.end(),
                   [&result](const LibraryInstance& instance) { return instance.name == result.instance; })) {
    throw InputError(place + ".instance", "is unknown: " + Quoted(result.instance) + " (a name of the library)");
  }
  if (result.step_time_ns < result.lower_bound_ns) {
    throw InputError(place + ".step_time_ns",
                     fmt::format("is {} (at least {}, the lower bound)", result.step_time_ns, result.lower_bound_ns));
  }
  const ResultStatus status = StatusOf(result.step_time_ns, result.lower_bound_ns);
  if (result.status != status) {
    throw InputError(place + ".status",
                     fmt::format("is {} ({}, by the numbers)", NameOf(result.status), NameOf(status)));
  }
}

// The name of the graph that an instance's recipe makes.
std::string GraphNameOf(const LibraryInstance& instance) {
  const LibraryGraph& graph = instance.graph;
  if (!graph.synthetic.empty()) return instance.name;
  return graph.dataset.empty() ? graph.model : fmt::format("{}_{:02}", graph.dataset, graph.index);
}

std::string TextOfMember(const JsonValue& root, std::string_view key) {
  const JsonValue* member = FindMember(root, key);
  const std::string* text = member == nullptr ? nullptr : member->As<std::string>();
  return text == nullptr ? "" : *text;
}

}  // namespace

double PercentAbove(std::int64_t step_time_ns, std::int64_t below_ns) {
  if (step_time_ns == below_ns) return 0;
  if (below_ns == 0) return std::numeric_limits<double>::infinity();
  return 100 * (static_cast<double>(step_time_ns) / static_cast<double>(below_ns) - 1);
}

ResultStatus StatusOf(std::int64_t step_time_ns, std::int64_t lower_bound_ns) {
  if (step_time_ns <= lower_bound_ns) return ResultStatus::kProved;
  return PercentAbove(step_time_ns, lower_bound_ns) < 10 ? ResultStatus::kBounded : ResultStatus::kOpen;
}

std::vector<KnownResult> ReadKnownResults(std::istream& in, const std::string& file) {
  return WithLocation(file, [&in] {
    const JsonValue root = ParseYaml(in, InputKind::kPublished);
    const JsonNode node(root);
    CheckSchema(node, kBestKnownSchema);
    std::vector<KnownResult> results = ReadFields<BestKnownDocument>(node).results;
    std::set<std::string_view> instances;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string place = fmt::format("results[{}]", i);
      CheckResult(results[i], place);
      if (instances.insert(results[i].instance).second) continue;
      throw InputError(place + ".instance", Quoted(results[i].instance) + " is there already");
    }
    return results;
  });
}

const std::map<std::string, KnownResult, std::less<>>& KnownResults() {
  static const std::map<std::string, KnownResult, std::less<>> results = [] {
    std::istringstream in{std::string(FindLibraryFile("best_known").value_or(""))};
    std::map<std::string, KnownResult, std::less<>> by_instance;
    for (KnownResult& result : ReadKnownResults(in, kBestKnownFile)) {
      const std::string instance = result.instance;
      by_instance.emplace(instance, std::move(result));
    }
    return by_instance;
  }();
  return results;
}

const KnownResult* FindKnownResult(std::string_view instance) {
  const auto found = KnownResults().find(instance);
  return found == KnownResults().end() ? nullptr : &found->second;
}

PlacementVerdict Judge(const LibraryProblem& problem, const Placement& placement) {
  CheckPlacement(placement, problem.graph, problem.cluster, problem.costs);
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, {.engine = std::string(kLibraryEngine)});
  const StepResult result = simulator.Run(placement);
  PlacementVerdict verdict{.step_time_ns = DurationFromMicros(result.step_time_micros).count(),
                           .fits_memory = result.fits_memory};
  for (std::size_t d = 0; d < problem.cluster.num_devices(); ++d) {
    const Device& device = problem.cluster.devices()[d];
    if (device.memory && result.peak_memory[d] > *device.memory) {
      verdict.overflows.emplace_back(device.name, result.peak_memory[d] - *device.memory);
    }
  }
  return verdict;
}

const LibraryInstance& InstanceOfPlacement(std::istream& in, const std::string& file) {
  return WithLocation(file, [&in]() -> std::reference_wrapper<const LibraryInstance> {
    const JsonValue root = ParseJson(in, {}, JsonLimitsOf(InputKind::kMeasurement));
    CheckSchema(JsonNode(root), "emplace.placement");
    const std::string graph = TextOfMember(root, "graph");
    const std::string cluster = TextOfMember(root, "cluster");
    std::vector<std::string> candidates;
    const LibraryInstance* found = nullptr;
    for (const LibraryInstance& instance : LibraryInstances()) {
      if (instance.name == cluster) return instance;
      if (GraphNameOf(instance) != graph) continue;
      if (instance.cluster.name != cluster && !cluster.empty()) continue;
      candidates.push_back(instance.name);
      found = &instance;
    }
    if (candidates.size() == 1) return *found;
    if (candidates.empty()) {
      throw InputError("",
                       fmt::format("is of graph {} and cluster {}, which are those of no instance (say which one it is "
                                   "of with --instance)",
                                   Quoted(graph), Quoted(cluster)));
    }
    throw InputError("", fmt::format("may belong to several instances: {} (choose one with --instance)",
                                     fmt::join(candidates, ", ")));
  });
}

}  // namespace emplace::experiments
