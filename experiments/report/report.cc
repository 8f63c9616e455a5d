#include "experiments/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "experiments/report/answer.h"
#include "experiments/report/charts.h"
#include "experiments/report/comparison.h"
#include "experiments/report/grid.h"
#include "experiments/report/hardware.h"
#include "experiments/report/provenance.h"
#include "experiments/report/published.h"
#include "experiments/report/results.h"
#include "experiments/report/test_tables.h"

namespace emplace::experiments {
namespace {

using Blocks = std::vector<ReportBlock>;

Blocks CurveBlocks(const ExperimentRuns& runs, const ReportGrid& grid) {
  Blocks blocks;
  const std::string note =
      "Mean over graphs, and the 95 % band of a bootstrap over them (over seeds if there is one graph).";
  blocks.push_back(HeadingBlock{3, "Learning curves"});
  const auto groups = ColumnsByDataset(grid);
  for (const auto& group : groups) {
    const std::string of = groups.size() > 1 ? ", " + grid.columns[group[0]][0] : "";
    const auto add = [&](const std::vector<Curve>& curves, const std::string& caption,
                         const CurveChartOptions& options) {
      // A line needs two points: after a single episode there is none to draw.
      const bool has_line =
          std::any_of(curves.begin(), curves.end(), [](const Curve& c) { return c.points.size() > 1; });
      if (has_line) blocks.push_back(ChartBlock{caption + of, note, CurveChart(curves, options)});
    };
    add(ImprovementCurves(runs.trials, grid, group), "Best so far against evaluations",
        {.x_title = "evaluations", .y_title = "improvement, %", .labels = grid.labels, .log_x = true});
    add(SampleCurves(runs.trials, grid, group), "Mean step time of drawn placements against evaluations",
        {.x_title = "evaluations", .y_title = "step time / that of one device", .labels = grid.labels, .log_x = true});
    const auto add_episodes = [&](std::optional<double> EpisodeTrace::*value, const std::string& caption,
                                  const std::string& y_title) {
      add(EpisodeCurves(runs.trials, grid, group, value), caption + " against episodes",
          {.x_title = "episode", .y_title = y_title, .labels = grid.labels, .log_x = false});
    };
    add_episodes(&EpisodeTrace::entropy, "Policy entropy", "entropy, of the largest possible");
    add_episodes(&EpisodeTrace::grouper_entropy, "Entropy of the groups", "entropy, of the largest possible");
    add_episodes(&EpisodeTrace::gradient_norm, "Norm of the gradient", "norm before clipping");
  }
  return blocks;
}

// The agents in the figure's order, then those that it leaves out.
std::vector<std::string> LabelsInOrder(const ReportGrid& grid, const std::optional<Comparison>& comparison) {
  if (!comparison) return grid.labels;
  std::vector<std::string> labels;
  for (const ComparedAgent& contender : comparison->contenders) labels.push_back(contender.label);
  for (const LeftOutAgent& agent : comparison->left_out) labels.push_back(agent.label);
  return labels;
}

// All blocks except the heading and the answer, which is written to `answer`.
Blocks ExperimentBlocks(const ExperimentRuns& runs, const RebuildProblem& rebuild, AnswerBlock* answer) {
  if (runs.trials.empty()) {
    *answer = {.question = runs.question, .answer = "No trial is finished."};
    return ProvenanceBlocks(runs);
  }
  std::optional<PublishedFigures> published;
  if (!runs.published.empty()) published = LoadPublished(runs.published);
  const ReportGrid grid = MakeReportGrid(WithMissingTrials(runs));  // the finished trials come first
  const std::optional<Comparison> comparison = CompareAgents(runs.trials, grid, runs.unfinished);
  *answer = MakeAnswer(runs.question, comparison, RivalSentences(runs.question, runs.trials, grid),
                       CompareSettings(runs.trials, grid));
  Blocks blocks;
  for (Blocks part :
       {ResultBlocks(runs, grid, published ? &*published : nullptr), HardwareBlocks(runs.trials, grid.labels),
        TestBlocks(runs.trials, grid, LabelsInOrder(grid, comparison)), CurveBlocks(runs, grid),
        PictureBlocks(runs, grid, rebuild), ProvenanceBlocks(runs)}) {
    blocks.insert(blocks.end(), part.begin(), part.end());
  }
  return blocks;
}

}  // namespace

ReportDocument MakeReport(const std::vector<ExperimentRuns>& experiments, const RebuildProblem& rebuild) {
  ReportDocument document;
  document.title = experiments.size() == 1 ? "emplace report: " + experiments[0].name : "emplace report";
  BulletsBlock answers;
  Blocks parts;
  for (const ExperimentRuns& runs : experiments) {
    AnswerBlock answer;
    const Blocks blocks = ExperimentBlocks(runs, rebuild, &answer);
    answers.items.push_back(fmt::format("{}: {}", runs.name, answer.answer));
    parts.push_back(HeadingBlock{2, runs.name});
    parts.push_back(std::move(answer));
    parts.insert(parts.end(), blocks.begin(), blocks.end());
  }
  if (experiments.size() > 1) document.blocks.push_back(std::move(answers));
  document.blocks.insert(document.blocks.end(), parts.begin(), parts.end());
  return document;
}

}  // namespace emplace::experiments
