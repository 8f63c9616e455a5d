#include "datasets/shipped_clusters.h"

#include <array>
#include <memory>
#include <sstream>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/registry.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::datasets {
namespace {

constexpr ShippedCluster kShippedClusters[] = {
#include "shipped_clusters.inc"
};

}  // namespace

std::span<const ShippedCluster> AllShippedClusters() { return kShippedClusters; }

Cluster LoadCluster(const std::string& name_or_path) {
  for (const ShippedCluster& shipped : AllShippedClusters()) {
    if (shipped.name != name_or_path) continue;
    std::istringstream in{std::string(shipped.yaml)};
    return ReadCluster(in, name_or_path);
  }
  std::unique_ptr<std::istream> in;
  try {
    in = OpenForReading(name_or_path, InputKind::kCluster);
  } catch (const InputError& error) {
    throw InputError("", std::string(error.what()) + "; it is not a shipped cluster either (" +
                             Listed(AllShippedClusters()) + ")" +
                             DidYouMean(name_or_path, NamesOf(AllShippedClusters())));
  }
  return ReadCluster(*in, name_or_path);
}

}  // namespace emplace::datasets
