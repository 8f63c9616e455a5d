#ifndef EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_H_
#define EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/sweep_axes.h"
#include "experiments/plan/trial_choice.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// `graphs:` or `transfer:`. Exactly one of dataset, instances, files, model and models is given.
struct GraphChoice {
  std::string dataset;  // a family; "": none
  std::uint64_t family_seed = 42;
  std::string split = "all";             // all, train or test
  std::optional<std::size_t> sample;     // number of members to sample by `seed`; independent of other settings
  std::uint64_t seed = 42;               // seed of the sample
  std::vector<std::size_t> index;        // these members instead of a split and a sample; empty: not given
  std::vector<std::string> instances;    // instances of the library, with their clusters and op times; empty: none
  std::vector<std::string> files;        // paths of graph.json, as written; empty: none
  std::vector<GraphSource> models;       // the one of `model` and `set`, or those of `models`; empty: none
  datasets::TransformOptions transform;  // transformations of each graph
  bool together = false;                 // one agent trains on all of them: one trial
};

// One combination of the swept values, checked as far as possible without opening files.
struct ExperimentCell : agents::SearchSettings {
  SweepCell values;
  GraphChoice graphs;
  std::optional<GraphChoice> transfer;
  ClusterChoice cluster;
  CostsChoice costs = {.model = "measured"};  // a model or a profile
  std::vector<std::uint64_t> seeds;           // instead of `seed`
};

// An experiment: experiment.yaml, `emplace.experiment` version 1.
struct ExperimentSpec {
  std::string path;      // path of the file
  std::string name;      // name of the run folder: letters, digits, '-', '_' and '.'
  std::string question;  // its first comment line, or the key `question`
  std::vector<std::string> metrics;
  std::string published;  // a table of experiments/published, or a file; "": none
  JsonValue root;         // the file
  std::vector<ExperimentCell> cells;
  std::size_t excluded = 0;  // cells that `exclude` left out
};

// Reads an experiment and expands the cross product of its sweep. Agents, their options, rewards, engines, cost models,
// groupers, datasets, models and shipped clusters are checked. No file is opened except the table of published numbers.
// Throws InputError("FILE: PATH: what is wrong (what is allowed)"). The path starts with sweep["KEY.PATH"][i] if a
// swept value is wrong.
ExperimentSpec ReadExperiment(std::istream& in, const std::string& file);

// The comment of an experiment's first line, its question; "" if there is none.
std::string FirstComment(const std::string& text);
// The name of an experiment, which is that of a folder.
std::string ReadExperimentName(const JsonNode& node);

// Resolves `path`, written in the experiment file `file`, relative to that file's folder. Absolute.
std::string ResolvePath(const std::string& path, const std::string& file);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_H_
