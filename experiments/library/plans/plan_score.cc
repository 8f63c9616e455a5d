#include "experiments/library/plans/plan_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "experiments/library/plans/plan_estimates.h"
#include "experiments/library/plans/planner_process.h"
#include "sim/base/check.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/suggestion.h"

namespace emplace::experiments {
namespace {

constexpr double kNearBest = 0.95;

JsonValue OrNull(const std::optional<double>& number) { return ToJson(number); }

std::optional<double> StepOf(const PlanCell& cell, const PlanSetting& setting, bool* is_setting) {
  const auto found = std::ranges::find(cell.settings, setting);
  *is_setting = found != cell.settings.end();
  return *is_setting ? cell.step_s[static_cast<std::size_t>(found - cell.settings.begin())] : std::nullopt;
}

// A proposal of a process. Throws InputError where the line is none.
PlanSetting ReadProposal(const std::string& line, const PlanCell& cell) {
  const JsonValue root = WithLocation("its line " + Quoted(line), [&] { return ParseJson(line); });
  if (const JsonObject* const object = root.As<JsonObject>()) {
    if (const JsonValue* const error = FindMember(root, "error"); error != nullptr && object->size() == 1) {
      const std::string* const text = error->As<std::string>();
      throw InputError("", text != nullptr ? *text : "an error");
    }
  }
  PlanSetting setting =
      WithLocation("its line " + Quoted(line), [&] { return ReadFields<PlanSetting>(JsonNode(root)); });
  if (FindMember(root, "grad_accumulation") == nullptr) {
    const std::int64_t sequences = setting.dp * setting.micro_batch;
    setting.grad_accumulation = sequences > 0 ? cell.global_batch / sequences : 0;
  }
  return setting;
}

PlanRun RunProcess(const PlannerChoice& planner, const PlanCell& cell, const PlanScoreOptions& options) {
  PlanRun run;
  try {
    PlannerProcess process(planner.command, options.patience);
    JsonObject question = PlanCellToJson(cell);
    AddMember(&question, "queries", options.queries);
    process.WriteLine(JsonText({std::move(question)}));
    while (run.step_s.size() <= options.queries) {
      const std::optional<std::string> line = process.ReadLine();
      if (!line) break;
      const PlanSetting setting = ReadProposal(*line, cell);
      bool is_setting = false;
      const std::optional<double> step_s = StepOf(cell, setting, &is_setting);
      if (run.step_s.empty()) run.chosen = SettingText(setting);
      run.step_s.push_back(step_s);
      if (!is_setting && run.problem.empty()) {
        run.problem = fmt::format("proposed {}, which is not among the settings", SettingText(setting));
      }
      JsonObject answer;
      AddMember(&answer, "step_s", OrNull(step_s));
      if (!step_s) AddMember(&answer, "why", is_setting ? "it did not run" : "it is not among the settings");
      process.WriteLine(JsonText({std::move(answer)}));
    }
  } catch (const InputError& error) {
    run.step_s.push_back(std::nullopt);
    run.problem = error.what();
  }
  return run;
}

PlanRun RunEntry(const PlannerEntry& entry, const PlanCell& cell, const PlanScoreOptions& options, std::uint64_t seed) {
  PlanRun run;
  Rng rng(FingerprintOf(fmt::format("{} {}", cell.name, seed)));  // cells with as many settings differ
  for (const std::size_t setting : entry.order(cell, rng)) {
    if (run.step_s.size() > options.queries) break;
    if (run.step_s.empty()) run.chosen = SettingText(cell.settings[setting]);
    run.step_s.push_back(cell.step_s[setting]);
  }
  return run;
}

double MeanOver(const std::vector<PlanRun>& runs, auto value_of) {
  double sum = 0;
  for (const PlanRun& run : runs) sum += static_cast<double>(value_of(run));
  return sum / static_cast<double>(runs.size());
}

JsonObject SummaryToJson(const PlanSummary& summary) {
  JsonObject row;
  AddMember(&row, "table", summary.table.empty() ? std::string_view("all") : std::string_view(summary.table));
  AddMember(&row, "cells", summary.cells);
  AddMember(&row, "reached", summary.reached);
  AddMember(&row, "spread", summary.spread);
  AddMember(&row, "chosen_failed", summary.chosen_failed);
  JsonObject regret;
  for (std::size_t i = 0; i < kShownQueries.size(); ++i) {
    AddMember(&regret, fmt::format("{}", kShownQueries[i]), summary.regret[i]);
  }
  AddMember(&row, "regret", std::move(regret));
  AddMember(&row, "proposals", summary.proposals);
  AddMember(&row, "failed", summary.failed);
  AddMember(&row, "near_best", summary.near_best);
  AddMember(&row, "queries_to_near_best", OrNull(summary.queries_to_near_best));
  AddMember(&row, "nothing_ran", summary.nothing_ran);
  AddMember(&row, "nothing_ran_wrong", summary.nothing_ran_wrong);
  return row;
}

JsonObject CellScoreToJson(const std::vector<PlanRun>& runs, const PlanCell& cell) {
  JsonObject row;
  AddMember(&row, "cell", cell.name);
  AddMember(&row, "best_step_s", OrNull(cell.best_step_s()));
  if (runs.size() == 1) {
    const PlanRun& run = runs[0];
    AddMember(&row, "chosen", run.chosen.empty() ? JsonValue{std::monostate()} : ToJson(run.chosen));
    AddMember(&row, "chosen_step_s", run.step_s.empty() ? JsonValue{std::monostate()} : OrNull(run.step_s[0]));
    AddMember(&row, "problem", run.problem.empty() ? JsonValue{std::monostate()} : ToJson(run.problem));
  }
  AddMember(&row, "proposals", MeanOver(runs, [](const PlanRun& run) { return run.step_s.size(); }));
  AddMember(&row, "failed", MeanOver(runs, [](const PlanRun& run) { return run.failed(); }));
  if (!cell.best_step_s()) return row;
  JsonObject reached;
  for (const std::size_t queries : kShownQueries) {
    AddMember(&reached, fmt::format("{}", queries),
              MeanOver(runs, [&](const PlanRun& run) { return Reached(run, cell, queries); }));
  }
  AddMember(&row, "reached", std::move(reached));
  if (runs.size() == 1) {
    const std::optional<std::size_t> queries = QueriesToNearBest(runs[0], cell);
    AddMember(&row, "queries_to_near_best", queries ? ToJson(*queries) : JsonValue{std::monostate()});
  }
  return row;
}

}  // namespace

PlannerChoice FindPlanner(const std::string& name, const std::string& place) {
  const auto entry = std::ranges::find(AllPlanners(), name, &PlannerEntry::name);
  if (entry != AllPlanners().end()) return {.name = name, .entry = &*entry};
  PlannerChoice choice{.name = name, .command = WithLocation(place, [&] { return PlannerCommand(name); })};
  if (!choice.command.empty()) return choice;
  throw InputError(place, fmt::format("unknown planner {} ({}, MODULE:FUNCTION, or a program's path with a slash){}",
                                      Quoted(name), Listed(AllPlanners()), DidYouMean(name, NamesOf(AllPlanners()))));
}

std::size_t PlanRun::failed() const {
  return static_cast<std::size_t>(std::ranges::count_if(step_s, [](const auto& step) { return !step.has_value(); }));
}

std::vector<PlanRun> RunPlanner(const PlannerChoice& planner, const PlanCell& cell, const PlanScoreOptions& options) {
  if (planner.entry == nullptr) return {RunProcess(planner, cell, options)};
  std::vector<PlanRun> runs;
  const std::size_t count = planner.entry->is_random ? kRandomRuns : 1;
  for (std::size_t i = 0; i < count; ++i) runs.push_back(RunEntry(*planner.entry, cell, options, options.seed + i));
  return runs;
}

double Reached(const PlanRun& run, const PlanCell& cell, std::size_t queries) {
  double reached = 0;
  for (std::size_t i = 0; i < std::min(queries + 1, run.step_s.size()); ++i) {
    if (run.step_s[i]) reached = std::max(reached, cell.best_step_s().value() / *run.step_s[i]);
  }
  return reached;
}

std::optional<std::size_t> QueriesToNearBest(const PlanRun& run, const PlanCell& cell) {
  for (std::size_t i = 0; i < run.step_s.size(); ++i) {
    if (Reached(run, cell, i) >= kNearBest) return i;
  }
  return std::nullopt;
}

PlanSummary Summarise(const PlannerScore& score, const std::vector<const PlanCell*>& cells, const std::string& table) {
  PlanSummary summary;
  summary.table = table;
  std::vector<double> of_runs;  // sums of what the first proposals reached
  double queries = 0;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const PlanCell& cell = *cells[c];
    const std::vector<PlanRun>& runs = score.runs[c];
    if (!table.empty() && cell.table != table) continue;
    if (!cell.best_step_s()) {
      ++summary.nothing_ran;
      summary.nothing_ran_wrong += MeanOver(runs, [](const PlanRun& run) { return !run.step_s.empty(); });
      continue;
    }
    ++summary.cells;
    of_runs.resize(runs.size());
    for (std::size_t r = 0; r < runs.size(); ++r) of_runs[r] += Reached(runs[r], cell, 0);
    summary.chosen_failed += MeanOver(runs, [&](const PlanRun& run) { return Reached(run, cell, 0) == 0; });
    for (std::size_t i = 0; i < kShownQueries.size(); ++i) {
      summary.regret[i] += MeanOver(runs, [&](const PlanRun& run) { return 1 - Reached(run, cell, kShownQueries[i]); });
    }
    summary.proposals += MeanOver(runs, [](const PlanRun& run) { return run.step_s.size(); });
    summary.failed += MeanOver(runs, [](const PlanRun& run) { return run.failed(); });
    summary.near_best += MeanOver(runs, [&](const PlanRun& run) { return QueriesToNearBest(run, cell).has_value(); });
    queries += MeanOver(runs, [&](const PlanRun& run) { return QueriesToNearBest(run, cell).value_or(0); });
  }
  if (summary.cells == 0) return summary;
  const auto count = static_cast<double>(summary.cells);
  for (double& regret : summary.regret) regret /= count;
  for (double& of_run : of_runs) of_run /= count;
  const auto num_runs = static_cast<double>(of_runs.size());
  summary.reached = std::accumulate(of_runs.begin(), of_runs.end(), 0.0) / num_runs;
  double squares = 0;
  for (const double of_run : of_runs) squares += (of_run - summary.reached) * (of_run - summary.reached);
  if (of_runs.size() > 1) summary.spread = std::sqrt(squares / (num_runs - 1));
  if (summary.near_best > 0) summary.queries_to_near_best = queries / summary.near_best;
  return summary;
}

JsonObject PlanCellToJson(const PlanCell& cell) {
  const PlanProblem problem(cell);
  JsonObject row;
  AddMember(&row, "schema", "emplace.plan_cell");
  AddMember(&row, "version", 1);
  AddMember(&row, "name", cell.name);
  AddMember(&row, "network", cell.network);
  AddMember(&row, "set", OptionsToJson(cell.set, true));
  AddMember(&row, "sizes", FieldsToJson(problem.network));
  AddMember(&row, "parameters", datasets::Parameters(problem.network).total);
  AddMember(&row, "cluster", cell.cluster);
  AddMember(&row, "nodes", cell.nodes);
  AddMember(&row, "gpus", cell.gpus);
  AddMember(&row, "gpu", problem.machine.device.name);
  AddMember(&row, "memory_bytes", problem.memory_bytes());
  AddMember(&row, "framework", cell.framework);
  AddMember(&row, "global_batch", cell.global_batch);
  AddMember(&row, "sequence", cell.sequence);
  AddMember(&row, "fixed", OptionsToJson(cell.fixed, true));
  JsonList settings;
  for (const PlanSetting& setting : cell.settings) settings.push_back(ToJson(FieldsToJson(setting)));
  AddMember(&row, "settings", std::move(settings));
  return row;
}

JsonObject PlanScoresToJson(const std::vector<PlannerScore>& scores, const std::vector<const PlanCell*>& cells,
                            const PlanScoreOptions& options) {
  JsonObject root;
  AddMember(&root, "schema", "emplace.plan_scores");
  AddMember(&root, "version", 1);
  AddMember(&root, "queries", options.queries);
  AddMember(&root, "seed", options.seed);
  JsonList planners;
  std::set<std::string> tables;
  for (const PlanCell* cell : cells) tables.insert(cell->table);
  for (const PlannerScore& score : scores) {
    JsonObject planner;
    AddMember(&planner, "name", score.planner.name);
    AddMember(&planner, "summary", score.planner.entry != nullptr ? score.planner.entry->summary : std::string_view());
    AddMember(&planner, "source", score.planner.entry != nullptr ? score.planner.entry->source : std::string_view());
    AddMember(&planner, "runs", score.runs.empty() ? std::size_t{0} : score.runs[0].size());
    JsonList means;
    for (const std::string& table : tables) means.push_back(ToJson(SummaryToJson(Summarise(score, cells, table))));
    means.push_back(ToJson(SummaryToJson(Summarise(score, cells, ""))));
    AddMember(&planner, "means", std::move(means));
    JsonList rows;
    for (std::size_t c = 0; c < cells.size(); ++c) rows.push_back(ToJson(CellScoreToJson(score.runs[c], *cells[c])));
    AddMember(&planner, "cells", std::move(rows));
    planners.push_back(ToJson(std::move(planner)));
  }
  AddMember(&root, "planners", std::move(planners));
  return root;
}

}  // namespace emplace::experiments
