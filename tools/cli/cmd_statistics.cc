// emplace statistics: effects and p-values of paired differences, for the pages of docs/results.

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/statistics.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "tools/cli/commands.h"

namespace emplace::tools {
namespace {

struct Question {
  experiments::NestedDifferences differences;
  std::vector<double> p_values;

  static void Fields(auto& visit, auto& self) {
    visit("differences", self.differences,
          {.allowed = "graphs, each a list of rows with numbers",
           .low = -1e9,
           .high = 1e9,
           .not_empty = true,
           .unless = "p_values"});
    visit("p_values", self.p_values, {.optional = true, .high = 1});
  }
};

JsonObject Answered(const Question& question) {
  JsonObject answer;
  if (!question.differences.empty()) {
    const experiments::Estimate estimate = experiments::EstimateNestedMean(question.differences);
    const auto test = experiments::WilcoxonSignedRank(experiments::MeansOfGraphs(question.differences));
    const experiments::Interval interval =
        estimate.interval.value_or(experiments::Interval{estimate.mean, estimate.mean});
    AddMember(&answer, "mean", estimate.mean);
    AddMember(&answer, "low_95", interval.low);
    AddMember(&answer, "high_95", interval.high);
    AddMember(&answer, "p", test.p_value);
  }
  JsonList adjusted;
  for (const double p : experiments::HolmAdjusted(question.p_values)) adjusted.push_back(ToJson(p));
  if (!adjusted.empty()) AddMember(&answer, "holm", std::move(adjusted));
  return answer;
}

int Run(const std::string& file) {
  const JsonValue root = WithLocation(file, [&file] {
    return ParseJson(ReadWholeFile(file, InputKind::kMeasurement), JsonLimitsOf(InputKind::kMeasurement));
  });
  const auto question = WithLocation(file, [&root] { return ReadFields<Question>(JsonNode(root)); });
  std::cout << JsonText({Answered(question)}) << '\n';
  return kSuccess;
}

}  // namespace

Command AddStatistics(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "statistics",
      "Mean, bootstrap interval and signed-rank test of paired differences; Holm's correction of p-values");
  command->group("");  // for experiments/pages only, so hidden in --help
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "JSON with differences by graph, row and seed, or with p_values")->required();
  return {command, [file] { return Run(*file); }};
}

}  // namespace emplace::tools
