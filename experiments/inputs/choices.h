#ifndef EMPLACE_EXPERIMENTS_INPUTS_CHOICES_H_
#define EMPLACE_EXPERIMENTS_INPUTS_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/families/families.h"
#include "datasets/transform/transform.h"
#include "sim/base/json_struct.h"
#include "sim/base/options.h"

namespace emplace::experiments {

// The problem of a search, by name: from an experiment, a spec.json or command-line options. load.h loads it.
// Each struct has one list of its fields in spec.json (json_struct.h).

// One graph: a member of a family, an instance of the library, a file or a generated network, and what is made of it.
struct GraphSource {
  std::string dataset = {};  // a family; "": none
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  std::string instance = {};     // instance of the library, which also determines cluster and op times; "": none
  std::string file = {};         // "": none
  std::string fingerprint = {};  // fingerprint of the file, or hash of the instance, which must match; "": not checked
  std::string model = {};
  OptionMap set = {};
  datasets::TransformOptions transform = {};
  std::optional<std::uint64_t> groups = {};  // instead of SearchSettings::groups
  bool operator==(const GraphSource&) const = default;

  static void Fields(auto& visit, auto& self) {
    // Fields are read in order, so a field must precede the rules that depend on it.
    const auto has = [](const std::string& text) { return !text.empty(); };
    visit("dataset", self.dataset, {.optional = true, .written = has(self.dataset), .not_empty = true});
    const bool family = has(self.dataset);
    visit("seed", self.seed, {.optional = !family, .written = family, .needed = "a seed"});
    visit("index", self.index,
          {.optional = !family, .written = family, .needed = "a member", .most = datasets::kFamilySize - 1});
    visit("instance", self.instance, {.optional = true, .written = has(self.instance), .not_empty = true});
    visit("file", self.file, {.optional = true, .written = has(self.file), .not_empty = true});
    visit("fingerprint", self.fingerprint, {.optional = true, .written = has(self.file) || has(self.instance)});
    const bool other = family || has(self.file) || has(self.instance);
    visit("model", self.model,
          {.optional = other,
           .written = !other,
           .needed = "a dataset, an instance, a file or a model",
           .not_empty = true});
    visit("set", self.set, {.optional = true, .written = !other, .integers = true});
    visit("transform", self.transform, {.optional = true, .written = self.transform.ChangesSomething()});
    visit("groups", self.groups, {.optional = true, .written = self.groups.has_value()});
  }
};

// `cluster:`. An experiment gives either name or file; a spec also has the name of a file's cluster.
struct ClusterChoice {
  std::string name = {};                  // a shipped one
  std::string file = {};                  // see GraphSource
  std::string fingerprint = {};           // see GraphSource::fingerprint
  std::size_t nodes = 1;                  // copies of the cluster, joined by its network
  std::vector<std::string> devices = {};  // empty: all
  std::optional<std::size_t> gpus =
      {};  // number of accelerators to keep, in addition to every CPU; a spec names the devices instead
  bool unlimited_memory = false;

  static void Fields(auto& visit, auto& self) {
    const bool file = !self.file.empty();
    visit("name", self.name, {.needed = "a shipped cluster", .not_empty = true, .unless = "file"});
    visit("file", self.file, {.optional = true, .written = file, .not_empty = true});
    visit("fingerprint", self.fingerprint, {.optional = true, .written = file});
    visit("nodes", self.nodes, {.optional = true, .written = self.nodes != 1, .most = 1024});
    visit("devices", self.devices, {.optional = true, .allowed = "a list of at least one device", .not_empty = true});
    visit("memory", self.unlimited_memory, {.optional = true, .written = self.unlimited_memory, .word = "unlimited"});
  }
};

// The files of `emplace calibrate` that a source of op times names, one or several with commas between them, whose
// curves come before those that ship; empty if it is the name of a cost model.
std::vector<std::string> CurvesFiles(std::string_view model);

// The source of op times.
struct CostsChoice {
  std::string model = {};        // a cost model, or CurvesFiles; with a profile, for the ops that it lacks; "": none
  std::string profile = {};      // a file; "": none
  std::string fingerprint = {};  // of the profile, or of the one file of curves; see GraphSource
  std::string tf32 = {};         // for roofline: the f32 products in TF32 (Tf32FromName)
  std::string runtime = {};      // for curves: what runs the kernels (RuntimeFromName)

  bool has_curves() const { return model == "curves" || !CurvesFiles(model).empty(); }
};

// The prefix of `costs` if it names a file.
inline constexpr std::string_view kProfilePrefix = "profile: ";

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_INPUTS_CHOICES_H_
