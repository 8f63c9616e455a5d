#ifndef EMPLACE_TESTS_TESTING_EXPERIMENTS_H_
#define EMPLACE_TESTS_TESTING_EXPERIMENTS_H_

#include <sstream>
#include <string>

#include "experiments/plan/experiment.h"
#include "tests/testing/errors.h"

namespace emplace::testing {

// One cell with one trial on a small graph, for tests to edit.
inline constexpr const char* kExperiment = R"(# Is it small?
schema: emplace.experiment
version: 1
name: small
graphs: {model: rnnlm, set: {hidden: 64, steps: 2}}
cluster: {name: post-8k80, devices: ["gpu:0", "gpu:1"]}
costs: roofline
agent: {name: annealing, set: {final_ratio: 0.5}}
budget: {evaluations: 600}
seeds: [3]
)";

inline experiments::ExperimentSpec ReadText(const std::string& text, const std::string& file = "x.yaml") {
  std::istringstream in(text);
  return experiments::ReadExperiment(in, file);
}

// The experiment with `line` instead of the line with the same key, or appended.
inline std::string WithLine(const std::string& line, std::string text = kExperiment) {
  const std::string key = "\n" + line.substr(0, line.find(':') + 1);
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return text + line + "\n";
  return text.replace(at + 1, text.find('\n', at + 1) - at - 1, line);
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_EXPERIMENTS_H_
