#ifndef EMPLACE_TOOLS_CLI_PLACE_INFERENCE_H_
#define EMPLACE_TOOLS_CLI_PLACE_INFERENCE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/inference/inference_model.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

// Options of `emplace place` with a model that generates text: a GGUF file, or a network's name or config.json with
// --quantise.
struct InferencePlaceOptions {
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> parallel;
  std::optional<std::int64_t> depth;
  std::optional<std::int64_t> prompt;
  std::optional<std::int64_t> micro_batch;
  std::vector<std::string> benches;  // KIND=FILE of llama-bench
  std::string quantisation;          // of a network without a file
  std::string client;
  std::string key_type;
  std::string value_type;
  std::string target;   // --to
  std::string changes;  // --what-if
  bool all = false;
};
void AddQuantiseOption(CLI::App& app, std::string* quantisation);
void AddInferenceOptions(CLI::App& app, InferencePlaceOptions* options);

// The model of a GGUF file, or with a quantisation that of a network's name or config.json. Prints what was not
// understood. Throws InputError as their readers do, and where a GGUF file comes with a quantisation.
datasets::InferenceModel LoadInferenceModel(const std::string& file, const std::string& quantisation);

// Whether the graph is a model that generates text, or the objective one of generating text. Throws InputError where
// only one of the two holds, or where options of inference come with another graph.
bool IsInference(const ProblemOptions& problem, const InferencePlaceOptions& options);
// Throws InputError where a setting of the search is given, or `has_more` options that a GGUF model does not take: its
// split is found exactly.
void RefuseSearchOptions(const ProblemOptions& problem, bool has_more);
// Writes the placement, or the script of --to, to `output`, and the picture of --timeline, and prints the plan. Returns
// the exit status.
int PlaceInference(const ProblemOptions& problem, const InferencePlaceOptions& options, const std::string& output,
                   const ShowOptions& show);

// `emplace memory model.gguf --from llama.cpp FILE`: what each device holds under the arguments in the file.
int PrintInferenceMemory(const ProblemOptions& problem, const std::string& model, const std::string& file, bool json);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_PLACE_INFERENCE_H_
