#include "experiments/library/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>

#include "datasets/shipped_clusters.h"
#include "datasets/synthetic/registry.h"
#include "experiments/inputs/load.h"
#include "experiments/library/library_files.h"
#include "sim/base/check.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"
#include "sim/base/units.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kLibrarySchema = "emplace.library";
constexpr const char* kInstancesFile = "datasets/library/instances.yaml";

struct LibraryDocument {
  std::string schema;
  std::uint64_t version = 0;
  std::vector<LibraryInstance> instances;

  static void Fields(auto& visit, auto& self) {
    visit("schema", self.schema);
    visit("version", self.version);
    visit("instances", self.instances, {.needed = "a list of instances"});
  }
};

Cluster LoadNamedCluster(const std::string& name) {
  if (const std::optional<std::string_view> yaml = FindLibraryFile("clusters/" + name)) {
    std::istringstream in{std::string(*yaml)};
    return ReadCluster(in, name);
  }
  return datasets::LoadCluster(name);
}

// Levenshtein's distance: letters to insert, to delete or to replace.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t replaced = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, row[k] + 1, row[k + 1] + 1});
    }
  }
  return row.back();
}

// The op times of the engine, one line for each op: "-" where it has none.
std::string CostsText(const LibraryProblem& problem) {
  std::string text;
  for (std::size_t i = 0; i < problem.graph.num_ops(); ++i) {
    text += problem.graph.op(MakeId<OpId>(i)).name;
    for (std::size_t kind = 0; kind < problem.costs.num_kinds(); ++kind) {
      const double micros = problem.costs.KindMicros(MakeId<OpId>(i), kind);
      text += std::isnan(micros) ? " -" : fmt::format(" {}", DurationFromMicros(micros).count());
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::size_t MostOps(Tier tier) {
  constexpr std::size_t kMost[] = {30, 500, 5'000, 20'000, 100'000};
  return kMost[static_cast<std::size_t>(tier)];
}

Tier FindTier(std::string_view name) {
  const std::optional<Tier> tier = EnumOfName<Tier>(name);
  if (!tier) {
    std::vector<std::string> known;
    known.reserve(std::size(EnumNames<Tier>::kNames) + 1);
    for (const auto& [each, text] : EnumNames<Tier>::kNames) known.emplace_back(text);
    known.emplace_back(kPlansTier);
    throw InputError(
        "", fmt::format("unknown tier {} ({}){}", Quoted(name), fmt::join(known, ", "), DidYouMean(name, known)));
  }
  return *tier;
}

std::vector<LibraryInstance> ReadLibraryInstances(std::istream& in, const std::string& file) {
  return WithLocation(file, [&in] {
    const JsonValue root = ParseYaml(in, InputKind::kPublished);
    const JsonNode node(root);
    CheckSchema(node, kLibrarySchema);
    std::vector<LibraryInstance> instances = ReadFields<LibraryDocument>(node).instances;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (names.insert(instances[i].name).second) continue;
      throw InputError(fmt::format("instances[{}].name", i), Quoted(instances[i].name) + " is there already");
    }
    return instances;
  });
}

const std::vector<LibraryInstance>& LibraryInstances() {
  static const std::vector<LibraryInstance> instances = [] {
    std::istringstream in{std::string(FindLibraryFile("instances").value_or(""))};
    return ReadLibraryInstances(in, kInstancesFile);
  }();
  return instances;
}

std::vector<std::string> NearestNames(std::string_view name, std::span<const LibraryInstance> instances) {
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<std::size_t, std::string>> by_distance;
  for (const LibraryInstance& instance : instances) {
    by_distance.emplace_back(EditDistance(name, instance.name), instance.name);
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(kMost, by_distance.size()); ++i) nearest.push_back(by_distance[i].second);
  return nearest;
}

const LibraryInstance& FindInstance(std::string_view name) {
  const std::vector<LibraryInstance>& instances = LibraryInstances();
  const auto found = std::find_if(instances.begin(), instances.end(),
                                  [name](const LibraryInstance& instance) { return instance.name == name; });
  if (found != instances.end()) return *found;
  throw InputError("", fmt::format("unknown instance {} (the nearest are {}; emplace library list shows all {})",
                                   Quoted(name), fmt::join(NearestNames(name, instances), ", "), instances.size()));
}

Cluster LoadInstanceCluster(const LibraryInstance& instance) {
  const LibraryCluster& choice = instance.cluster;
  Cluster cluster = LoadNamedCluster(choice.name);
  if (!choice.devices.empty()) cluster = cluster.Keep(choice.devices);
  if (choice.gpus) cluster = cluster.KeepAccelerators(*choice.gpus);
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices) {
    if (choice.memory_kb && !device.is_cpu) device.memory = Bytes{static_cast<std::int64_t>(*choice.memory_kb) * 1000};
  }
  std::vector<Link> links;
  for (std::size_t from = 0; from < devices.size(); ++from) {
    for (std::size_t to = 0; to < devices.size(); ++to) {
      links.push_back(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
    }
  }
  return Cluster(instance.name, cluster.source(), std::move(devices), std::move(links), cluster.channels(),
                 cluster.own_kinds());
}

LibraryProblem LoadInstance(const LibraryInstance& instance) {
  return WithLocation("instance " + instance.name, [&instance] {
    datasets::SyntheticGraph made;
    const LibraryGraph& recipe = instance.graph;
    if (!recipe.synthetic.empty()) {
      made = datasets::MakeSyntheticGraph(recipe.synthetic, recipe.set, instance.name);
    } else {
      made.graph = LoadGraph({.dataset = recipe.dataset,
                              .seed = recipe.seed,
                              .index = recipe.index,
                              .model = recipe.model,
                              .set = recipe.set});
    }
    Cluster cluster = LoadInstanceCluster(instance);
    CostTable costs = MakeCosts(made.graph, cluster, LoadCostModels({.model = instance.costs}),
                                "graph " + made.graph.name(), "cluster " + instance.cluster.name);
    LibraryProblem problem{.graph = made.graph, .cluster = std::move(cluster), .costs = std::move(costs)};
    if (!made.planted.empty()) {
      Placement planted(made.planted.size());
      for (std::size_t i = 0; i < made.planted.size(); ++i) {
        if (made.planted[i] >= problem.cluster.num_devices()) {
          throw InputError("cluster", "has too few devices for the planned placement");
        }
        planted[problem.graph.file_order()[i]] = MakeId<DeviceId>(made.planted[i]);
      }
      problem.planted = std::move(planted);
      problem.planted_ns = made.planted_micros * 1000;
    }
    return problem;
  });
}

std::string InstanceHash(const LibraryProblem& problem) {
  std::ostringstream graph;
  WriteGraph(graph, problem.graph);
  const Cluster& cluster = problem.cluster;
  std::vector<Link> links;
  for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      links.push_back(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
    }
  }
  std::ostringstream without_source;
  WriteCluster(without_source, Cluster(cluster.name(), "", cluster.devices(), std::move(links), cluster.channels(),
                                       cluster.own_kinds()));
  Fingerprint fingerprint;
  fingerprint.Add(graph.view());
  fingerprint.Add(without_source.view());
  fingerprint.Add(CostsText(problem));
  fingerprint.Add(kLibraryRules);
  return fmt::format("{:016x}", fingerprint.value());
}

LibraryProblem LoadFrozenInstance(const LibraryInstance& instance) {
  LibraryProblem problem = LoadInstance(instance);
  const std::string hash = InstanceHash(problem);
  if (!instance.hash.empty() && hash != instance.hash) {
    throw InputError("instance " + instance.name,
                     fmt::format("has the hash {}, not {}: this program makes another graph, cluster or cost of it "
                                 "(an instance is frozen)",
                                 hash, instance.hash));
  }
  return problem;
}

const LibraryProblem& KeptInstance(const LibraryInstance& instance) {
  static std::mutex mutex;
  static std::map<std::string, LibraryProblem> kept;
  const std::lock_guard lock(mutex);
  const auto found = kept.find(instance.name);
  if (found != kept.end()) return found->second;
  return kept.emplace(instance.name, LoadFrozenInstance(instance)).first->second;
}

}  // namespace emplace::experiments
