#include "tools/cli/defaults.h"

#include <cstdlib>
#include <filesystem>

#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/registry.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "emplace.yaml";

// "" if the user has none.
std::string UserFolder() {
  const char* const configurations = std::getenv("XDG_CONFIG_HOME");
  if (configurations != nullptr && fs::path(configurations).is_absolute()) return configurations;
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : (fs::path(home) / ".config").string();
}

// The name of a shipped cluster, or a file that is found from any folder.
std::string ClusterOf(const std::string& written, const std::string& file) {
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) {
    if (shipped.name == written) return written;
  }
  return (fs::path(file).parent_path() / written).lexically_normal().string();
}

void AddFile(const std::string& file, Defaults* defaults) {
  const JsonValue root = ParseYaml(*OpenForReading(file, InputKind::kExperiment), InputKind::kExperiment);
  const JsonNode node(root);
  const JsonFields fields(node, {"cluster", "costs", "threads"});
  if (const auto field = fields.Find("cluster"); field && !defaults->cluster) {
    defaults->cluster = {ClusterOf(field->NonEmptyText(), file), file};
  }
  if (const auto field = fields.Find("costs"); field && !defaults->costs) {
    const std::string model = field->NonEmptyText();
    WithLocation(field->Place(), [&] { return MakeCostModel(model); });
    defaults->costs = {model, file};
  }
  if (const auto field = fields.Find("threads"); field && !defaults->threads) {
    defaults->threads = {static_cast<std::uint64_t>(field->Integer(1, 1024)), file};
  }
}

}  // namespace

std::vector<std::string> DefaultsFiles() {
  std::vector<std::string> files = {kFileName};
  if (const std::string folder = UserFolder(); !folder.empty()) {
    files.push_back((fs::path(folder) / "emplace" / kFileName).string());
  }
  return files;
}

const Defaults& LoadDefaults() {
  static const Defaults defaults = [] {
    Defaults read;
    std::error_code ignored;
    for (const std::string& file : DefaultsFiles()) {
      if (fs::is_regular_file(file, ignored)) WithLocation(file, [&] { AddFile(file, &read); });
    }
    return read;
  }();
  return defaults;
}

}  // namespace emplace::tools
