#include "experiments/inputs/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>
#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "datasets/transform/transform.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/cost/cost_models.h"
#include "sim/cost/curves.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/network/collective_times.h"
#include "sim/op_kinds.h"
#include "sim/profile.h"

namespace emplace::experiments {
namespace {

// Reads a file, whose content must match the fingerprint in the spec.
std::string ReadUnchanged(const std::string& path, InputKind kind, const std::string& fingerprint) {
  std::string text = ReadWholeFile(path, kind);
  if (!fingerprint.empty() && fingerprint != FingerprintText(text)) {
    throw InputError(path, "has changed since the trial was planned (sweep again to make a new trial)");
  }
  return text;
}

// Applies `read` to the file. Without a fingerprint, the file is parsed as a stream and never entirely in memory.
template <typename Read>
auto ReadChosen(const std::string& path, InputKind kind, const std::string& fingerprint, Read read) {
  if (fingerprint.empty()) return read(*OpenForReading(path, kind), path);
  std::istringstream in(ReadUnchanged(path, kind, fingerprint));
  return read(in, path);
}

}  // namespace

Graph LoadGraph(const GraphSource& source) {
  if (source.transform.ChangesSomething()) {
    GraphSource before = source;
    before.transform = {};
    const Graph graph = LoadGraph(before);
    return WithLocation("transform", [&] { return datasets::Transform(graph, source.transform); });
  }
  if (!source.dataset.empty()) {
    return datasets::MakeFamilyMember(datasets::FindFamily(source.dataset), source.seed, source.index).graph;
  }
  if (!source.file.empty()) {
    return ReadChosen(source.file, InputKind::kGraph, source.fingerprint,
                      [](std::istream& in, const std::string& path) { return ReadGraph(in, path); });
  }
  return datasets::MakeModel(source.model, source.set);
}

const Graph& KeptGraph(const GraphSource& source) {
  static std::mutex mutex;
  static std::map<std::string, Graph, std::less<>> kept;
  GraphSource alone = source;
  alone.groups.reset();
  const std::string key = JsonText({FieldsToJson(alone)});
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  return kept.emplace(key, LoadGraph(source)).first->second;
}

Cluster LoadWholeCluster(const ClusterChoice& choice) {
  if (choice.file.empty()) return datasets::LoadCluster(choice.name);
  return ReadChosen(choice.file, InputKind::kCluster, choice.fingerprint, ReadCluster);
}

namespace {

// A request for 0 GPUs does not mean a step on the CPU, which is another machine.
void RefuseNoAccelerators(const Cluster& cluster, const std::string& devices) {
  std::vector<std::string> cpus;
  for (const Device& device : cluster.devices()) {
    if (device.is_cpu) cpus.push_back(device.name);
  }
  if (cpus.empty() || cpus.size() == cluster.num_devices()) return;
  throw InputError("", fmt::format("is 0, which leaves only {} (at least 1, or {} {})",
                                   cpus.size() == 1 ? "the CPU" : "CPUs", devices, fmt::join(cpus, ",")));
}

}  // namespace

Cluster KeepChosen(Cluster cluster, const ClusterChoice& choice, const std::string& prefix) {
  const auto place = [&prefix](const char* field) { return prefix + field; };
  if (choice.nodes != 1) cluster = WithLocation(place("nodes"), [&] { return cluster.Repeat(choice.nodes); });
  if (!choice.devices.empty()) cluster = WithLocation(place("devices"), [&] { return cluster.Keep(choice.devices); });
  if (choice.gpus) {
    cluster = WithLocation(place("gpus"), [&] {
      if (*choice.gpus == 0 && choice.devices.empty()) RefuseNoAccelerators(cluster, prefix + "devices");
      return cluster.KeepAccelerators(*choice.gpus);
    });
  }
  return choice.unlimited_memory ? cluster.WithoutMemoryLimits() : cluster;
}

namespace {

// The number of ops, without sources, to which the model gives a time on a device of the cluster.
std::size_t CountTimed(const CostModel& model, const Graph& graph, const Cluster& cluster) {
  std::size_t timed = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    timed += !IsSourceKind(graph.op(op).kind) && std::ranges::any_of(cluster.devices(), [&](const Device& device) {
      return model.OpMicros(graph, op, cluster, device.kind).has_value();
    });
  }
  return timed;
}

bool RooflineTimesAll(const Graph& graph, const Cluster& cluster, std::size_t ops) {
  try {
    return CountTimed(*MakeCostModel("roofline"), graph, cluster) == ops;
  } catch (const InputError&) {
    return false;
  }
}

// The kinds of accelerators of the cluster that have no curves.
std::set<std::string> KindsWithoutCurves(const Cluster& cluster) {
  std::set<std::string> without;
  for (const Device& device : cluster.devices()) {
    if (!device.is_cpu && FindDeviceCurves(device.kind) == nullptr) without.insert(device.kind);
  }
  return without;
}

// How many collectives have curves, if each member is on an accelerator of its own; "" if there are none.
std::string CollectivesText(const Graph& graph, const Cluster& cluster) {
  if (graph.collectives().empty()) return "";
  const CollectiveTimes times(cluster, /*by_curves=*/true);
  const auto curved = std::ranges::count_if(graph.collectives(), [&](const Collective& each) {
    return times.CurveMicros(each.kind, each.size, FirstDevicesFor(each, cluster)).has_value();
  });
  return fmt::format("; {} of {} collectives", curved, graph.collectives().size());
}

bool HasCurves(const Cluster& cluster) {
  const bool has_accelerators = !std::ranges::all_of(cluster.devices(), &Device::is_cpu);
  return has_accelerators && KindsWithoutCurves(cluster).empty();
}

}  // namespace

CostsChoice ResolvedCosts(CostsChoice choice, const Graph& graph, const Cluster& cluster) {
  if (!choice.model.empty() || !choice.profile.empty()) return choice;
  std::size_t ops = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) ops += !IsSourceKind(graph.op(MakeId<OpId>(i)).kind);
  const std::size_t measured = CountTimed(*MakeCostModel("measured"), graph, cluster);
  const bool is_measured = choice.tf32.empty() && choice.runtime.empty() &&
                           (measured == ops || (measured > 0 && !RooflineTimesAll(graph, cluster, ops)));
  choice.model = is_measured ? "measured" : HasCurves(cluster) ? "curves" : "roofline";
  return choice;
}

std::string CostsText(const CostsChoice& choice) {
  const std::string model = choice.model + (choice.tf32.empty() ? "" : ", tf32 " + choice.tf32) +
                            (choice.runtime.empty() ? "" : ", runtime " + choice.runtime);
  if (choice.profile.empty()) return choice.model.empty() ? "measured" : model;
  return "profile " + choice.profile + (choice.model.empty() ? "" : ", else " + model);
}

std::vector<std::string> CurvesFiles(std::string_view model) {
  constexpr std::string_view kEnds[] = {".yaml", ".yml", ".json", ".gz"};
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin < model.size();) {
    const std::size_t end = std::min(model.find(',', begin), model.size());
    const std::string_view file = model.substr(begin, end - begin);
    if (std::ranges::none_of(kEnds, [&](std::string_view ending) { return file.ends_with(ending); })) return {};
    files.emplace_back(file);
    begin = end + 1;
  }
  return files;
}

RooflineOptions LoadCostOptions(const CostsChoice& choice) {
  RooflineOptions options = {.tf32 = Tf32FromName(choice.tf32, "tf32"),
                             .runtime = RuntimeFromName(choice.runtime, "runtime")};
  auto own = std::make_shared<OwnCurves>();
  for (const std::string& file : CurvesFiles(choice.model)) {
    const std::string text =
        ReadUnchanged(file, InputKind::kCluster, choice.profile.empty() ? choice.fingerprint : std::string());
    WithLocation(file, [&] {
      const JsonValue root = ParseYaml(text, InputKind::kCluster);
      DeviceCurves curves = ReadDeviceCurves(JsonNode(root));
      const std::string kind = curves.kind;
      if (!own->emplace(kind, std::move(curves)).second) {
        throw InputError("kind", fmt::format("is \"{}\", which another file has as well (each kind once)", kind));
      }
    });
  }
  if (!own->empty()) options.own = std::move(own);
  return options;
}

std::string CostsDetail(const CostsChoice& asked, const CostsChoice& used, const Graph& graph, const Cluster& cluster) {
  if (used.has_curves()) {
    const RooflineOptions options = LoadCostOptions(used);
    std::string text = CoverageText(CoverOps(graph, cluster, options)) + CollectivesText(graph, cluster);
    if (options.own == nullptr) return text;
    for (const auto& [kind, curves] : *options.own) {
      const bool is_here = std::ranges::find(cluster.devices(), kind, &Device::kind) != cluster.devices().end();
      if (!is_here) text += fmt::format("; no device is of kind {}, whose curves {} has", kind, used.model);
    }
    return text;
  }
  if (!asked.model.empty() || used.model != "roofline") return "";
  const std::set<std::string> without = KindsWithoutCurves(cluster);
  return without.empty() ? "" : fmt::format("no curves of {}", fmt::join(without, ", "));
}

CostModels LoadCostModels(const CostsChoice& choice, const std::string& place) {
  CostModels models;
  if (!choice.tf32.empty() && choice.model != "roofline" && !choice.has_curves())
    throw InputError("tf32", "is only for the cost models roofline and curves (costs roofline)");
  if (!choice.runtime.empty() && !choice.has_curves())
    throw InputError("runtime", "is only for the cost model curves (costs curves)");
  if (!choice.model.empty() || choice.profile.empty()) {
    if (choice.has_curves()) {
      models.model = MakeCurvesCostModel(LoadCostOptions(choice));
    } else if (!choice.tf32.empty()) {
      models.model = MakeRooflineCostModel(LoadCostOptions(choice));
    } else {
      models.model =
          WithLocation(place, [&] { return MakeCostModel(choice.model.empty() ? "measured" : choice.model); });
    }
  }
  if (!choice.profile.empty()) {
    models.fallback = std::move(models.model);
    models.model =
        MakeProfiledCostModel(ReadChosen(choice.profile, InputKind::kProfile, choice.fingerprint, ReadProfile));
  }
  return models;
}

void CheckKinds(const CostModels& models, const Cluster& cluster, const std::string& place) {
  if (models.fallback != nullptr) return;
  for (const Device& device : cluster.devices()) {
    WithLocation(place, [&] { models.model->CheckKind(cluster, device.kind); });
  }
}

CostTable MakeCosts(const Graph& graph, const Cluster& cluster, const CostModels& models,
                    const std::string& graph_place, const std::string& cluster_place) {
  CheckKinds(models, cluster, cluster_place);
  return WithLocation(graph_place, [&] { return CostTable(graph, cluster, *models.model, models.fallback.get()); });
}

const std::vector<FamilyMemberFacts>& FamilyFacts(std::string_view family, std::uint64_t seed) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::uint64_t>, std::vector<FamilyMemberFacts>> kept;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = kept.try_emplace({std::string(family), seed});
  if (is_new) {
    for (const datasets::FamilyMember& member : datasets::MakeFamily(datasets::FindFamily(family), seed)) {
      found->second.push_back(
          {.training = member.training, .num_ops = member.graph.num_ops(), .num_groups = member.num_groups});
    }
  }
  return found->second;
}

std::string FingerprintOfFile(const std::string& path) {
  return FingerprintText(ReadWholeFile(path, InputKind::kGraph));
}

}  // namespace emplace::experiments
