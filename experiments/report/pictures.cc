#include "experiments/report/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "experiments/report/charts.h"
#include "experiments/report/devices.h"
#include "experiments/report/placement_picture.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

// The trial with the largest improvement among those with a placement; ties go to the first by id. If the single-device
// step time is not known, the improvement is over the first placement.
const TrialRecord* BestTrial(const ExperimentRuns& runs, const ReportGrid& grid,
                             const std::vector<std::size_t>& group) {
  const TrialRecord* best = nullptr;
  double best_ratio = 0;
  for (std::size_t t = 0; t < runs.trials.size(); ++t) {
    const TrialRecord& trial = runs.trials[t];
    if (std::find(group.begin(), group.end(), grid.column_of[t]) == group.end()) continue;
    const GraphRecord& graph = trial.graphs[0];
    const std::optional<double>& base = graph.single_device_micros ? graph.single_device_micros : graph.start_micros;
    if (!graph.best_micros || !base || *base <= 0) continue;
    if (!std::filesystem::exists(trial.folder + "/best_placement.json")) continue;
    const double ratio = *graph.best_micros / *base;
    if (best != nullptr && ratio >= best_ratio) continue;
    best = &trial;
    best_ratio = ratio;
  }
  return best;
}

// "the 400 heaviest of 812 tensors", "all 17 tensors"
std::string LinesInWords(const PlacementPicture& picture) {
  const std::size_t drawn = picture.lines.size();
  if (picture.lines_left_out == 0) return "all " + Counted(drawn, "tensor");
  return fmt::format("the {} heaviest of {}", drawn, Counted(drawn + picture.lines_left_out, "tensor"));
}

ReportBlock ShowPicture(const TrialRecord& trial, const RebuildProblem& rebuild) {
  const std::string name =
      fmt::format("{} on {}, {}, seed {}", trial.label, trial.graphs[0].graph, DevicesInWords(trial), trial.seed);
  std::optional<PictureInputs> inputs;
  try {
    if (rebuild) inputs = rebuild(trial.spec);
  } catch (const InputError& error) {  // a file that the trial read is gone, or another
    return ParagraphBlock{fmt::format("No picture of {}: {}.", name, error.what())};
  }
  if (!inputs) return ParagraphBlock{fmt::format("No picture of {}: its graph cannot be rebuilt here.", name)};
  const std::string file = trial.folder + "/best_placement.json";
  const std::string text = ReadWholeFile(file, InputKind::kTrialFile);
  if (!trial.placement_fingerprint.empty() && FingerprintText(text) != trial.placement_fingerprint) {
    throw InputError(file,
                     "is not what trial.json was written with: it is damaged or was changed (without trial.json "
                     "the same sweep runs the trial again)");
  }
  std::istringstream in(text);
  const Placement placement = ReadPlacement(in, file, inputs->graph, inputs->cluster);
  const PlacementPicture picture =
      MakePlacementPicture(inputs->graph, inputs->cluster, inputs->costs, inputs->engine, placement);
  const std::string note = fmt::format(
      "{}: {} ms a step. Each dot is an op, larger if it takes longer. Colours are devices. Lines are {} sent. {} of "
      "no time or of the shortest are not drawn. Trial {}.",
      name, ShownNumber(picture.step_time_micros / 1000), LinesInWords(picture), Counted(picture.ops_left_out, "op"),
      trial.id);
  return ChartBlock{"Best placement of " + picture.graph, note, PictureChart(picture)};
}

}  // namespace

std::vector<ReportBlock> PictureBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                       const RebuildProblem& rebuild) {
  std::vector<ReportBlock> pictures;
  for (const auto& group : ColumnsByDataset(grid)) {
    if (const TrialRecord* best = BestTrial(runs, grid, group)) pictures.push_back(ShowPicture(*best, rebuild));
  }
  if (!pictures.empty()) pictures.insert(pictures.begin(), HeadingBlock{3, "Best placements"});
  return pictures;
}

}  // namespace emplace::experiments
