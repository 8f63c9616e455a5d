#include "tools/cli/library_plans.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "experiments/library/instances.h"
#include "experiments/library/plans/plan_cells.h"
#include "experiments/library/plans/plan_estimates.h"
#include "experiments/library/plans/plan_score.h"
#include "experiments/plan/checked_json.h"
#include "experiments/version.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_build.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "tools/cli/library_score.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;
using experiments::PlanCell;
using experiments::PlannerScore;
using experiments::PlanRun;

std::vector<PlanCell> ReadCells(const std::string& data) {
  if (!data.empty()) return WithLocation("--data", [&] { return experiments::ReadPlanCells(data); });
  const char* const folder = std::getenv("EMPLACE_REFERENCE_DATA");
  if (folder == nullptr || *folder == '\0') {
    throw InputError("--data",
                     "is missing (the folder with the measured tables of the tier plans, which the library does "
                     "not hold; or set EMPLACE_REFERENCE_DATA)");
  }
  return WithLocation("EMPLACE_REFERENCE_DATA", [&] { return experiments::ReadPlanCells(folder); });
}

void PrintJson(JsonObject object) {
  std::cout << nlohmann::ordered_json::parse(JsonText({std::move(object)})).dump(1) << '\n';
}

std::string NetworkText(const PlanCell& cell) {
  std::string text = cell.network;
  for (const auto& [key, value] : cell.set) text += fmt::format(" {}={}", key, value);
  return text;
}

std::string MachineText(const PlanCell& cell) { return fmt::format("{} x {}", cell.nodes, cell.cluster); }

std::string Seconds(const std::optional<double>& seconds) { return seconds ? fmt::format("{:.3f}", *seconds) : "-"; }

// The runs of a planner in a cell, in a file that is used if `key` is that of the options.
struct CellFile {
  std::string key;
  std::vector<PlanRun> runs;

  static void Fields(auto& visit, auto& self) {
    visit("key", self.key);
    visit("runs", self.runs);
  }
};

std::string KeyOf(const PlanTierOptions& options, const std::string& planner, const PlanCell& cell) {
  std::string text = fmt::format("{} {} {} {} {} {}", experiments::Version(), experiments::Revision(), planner,
                                 options.queries, options.timeout, options.seed);
  text += JsonText({experiments::PlanCellToJson(cell)});
  for (const std::optional<double>& step_s : cell.step_s) text += " " + (step_s ? NumberText(*step_s) : "-");
  return FingerprintText(text);
}

std::optional<std::vector<PlanRun>> Finished(const fs::path& path, const std::string& key) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const JsonValue root = experiments::ReadJsonFile(path.string());
    CellFile file = ReadFields<CellFile>(JsonNode(root));
    return file.key == key ? std::optional(std::move(file.runs)) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // a damaged file; the cell is run again
  }
}

// Runs a planner in all cells. Finished ones are in the folder until the last is done.
PlannerScore ScoreOne(const experiments::PlannerChoice& planner, const std::vector<const PlanCell*>& cells,
                      const PlanTierOptions& options) {
  PlannerScore score{.planner = planner, .runs = {}};
  const fs::path folder =
      options.output.empty() ? fs::path() : fs::path(options.output) / ScoreFolder(planner.name) / "cells";
  if (!folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw InputError(folder.string(), "cannot be created (" + error.message() + ")");
  }
  Progress progress(planner.name);
  for (const PlanCell* const cell : cells) {
    progress.Show({.done = score.runs.size(), .total = cells.size(), .things = "cells"});
    const std::string key = folder.empty() ? "" : KeyOf(options, planner.name, *cell);
    const fs::path path = folder / (cell->name + ".json");
    std::optional<std::vector<PlanRun>> runs;
    if (!folder.empty()) runs = Finished(path, key);
    if (!runs) {
      runs = experiments::RunPlanner(planner, *cell,
                                     {.queries = options.queries,
                                      .patience = std::chrono::duration<double>(options.timeout),
                                      .seed = options.seed});
      if (!folder.empty()) experiments::WriteJsonFile(path.string(), {FieldsToJson(CellFile{key, *runs})});
    }
    for (const PlanRun& run : *runs) {
      if (run.problem.empty()) continue;
      PrintMessage(fmt::format("{}: {}: failure: {}", planner.name, cell->name, run.problem));
    }
    score.runs.push_back(*std::move(runs));
  }
  return score;
}

// What the first proposal in a cell reached, on average over runs.
std::string ReachedText(const std::vector<PlanRun>& runs, const PlanCell& cell) {
  double reached = 0;
  for (const PlanRun& run : runs) reached += experiments::Reached(run, cell, 0);
  return fmt::format("{:.3f}", reached / static_cast<double>(runs.size()));
}

void PrintScores(const std::vector<PlannerScore>& scores, const std::vector<const PlanCell*>& cells,
                 const PlanTierOptions& options) {
  std::vector<std::string> header = {"cell", "settings", "ran", "best s"};
  for (const PlannerScore& score : scores) header.push_back(score.planner.name);
  Table by_cell(header);
  std::set<std::string> tables;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const PlanCell& cell = *cells[c];
    tables.insert(cell.table);
    std::vector<std::string> row = {cell.name, fmt::format("{}", cell.settings.size()), fmt::format("{}", cell.ran()),
                                    Seconds(cell.best_step_s())};
    for (const PlannerScore& score : scores) {
      row.push_back(cell.best_step_s() ? ReachedText(score.runs[c], cell) : "-");
    }
    by_cell.Add(std::move(row));
  }
  by_cell.PrintText(std::cout);
  std::cout << '\n';

  header = {"cells", "planner", "reached", "failed"};
  for (const std::size_t queries : experiments::kShownQueries) {
    if (queries <= options.queries) header.push_back(fmt::format("regret % at {}", queries));
  }
  header.insert(header.end(), {"failed plans", "of", "within 5 %", "queries"});
  Table means(header);
  std::vector<std::string> of_tables(tables.begin(), tables.end());
  if (of_tables.size() > 1) of_tables.emplace_back();
  for (const std::string& table : of_tables) {
    for (const PlannerScore& score : scores) {
      const experiments::PlanSummary summary = experiments::Summarise(score, cells, table);
      if (summary.cells == 0) continue;
      std::vector<std::string> row = {
          fmt::format("{} {}", summary.cells, table.empty() ? "of all" : table), score.planner.name,
          fmt::format("{:.3f}", summary.reached) + (summary.spread > 0 ? fmt::format(" ± {:.3f}", summary.spread) : ""),
          fmt::format("{:.3g}", summary.chosen_failed)};
      for (std::size_t i = 0; i < experiments::kShownQueries.size(); ++i) {
        if (experiments::kShownQueries[i] <= options.queries)
          row.push_back(fmt::format("{:.1f}", 100 * summary.regret[i]));
      }
      row.insert(row.end(),
                 {fmt::format("{:.4g}", summary.failed), fmt::format("{:.4g}", summary.proposals),
                  fmt::format("{:.3g}", summary.near_best),
                  summary.queries_to_near_best ? fmt::format("{:.1f}", *summary.queries_to_near_best) : "-"});
      means.Add(std::move(row));
    }
  }
  means.PrintText(std::cout);
}

}  // namespace

int ListPlanCells(const std::string& data, bool json) {
  const std::vector<PlanCell> cells = ReadCells(data);
  if (json) {
    JsonList rows;
    for (const PlanCell& cell : cells) {
      JsonObject row;
      AddMember(&row, "name", cell.name);
      AddMember(&row, "tier", experiments::kPlansTier);
      AddMember(&row, "network", NetworkText(cell));
      AddMember(&row, "cluster", cell.cluster);
      AddMember(&row, "nodes", cell.nodes);
      AddMember(&row, "gpus", cell.gpus);
      AddMember(&row, "framework", cell.framework);
      AddMember(&row, "settings", cell.settings.size());
      AddMember(&row, "ran", cell.ran());
      AddMember(&row, "best_step_s", cell.best_step_s());
      rows.push_back(ToJson(std::move(row)));
    }
    JsonObject root;
    AddMember(&root, "schema", "emplace.plan_cells");
    AddMember(&root, "version", 1);
    AddMember(&root, "cells", std::move(rows));
    PrintJson(std::move(root));
    return kSuccess;
  }
  Table table({"cell", "machine", "framework", "settings", "ran", "best s"});
  for (const PlanCell& cell : cells) {
    table.Add({cell.name, MachineText(cell), cell.framework, fmt::format("{}", cell.settings.size()),
               fmt::format("{}", cell.ran()), Seconds(cell.best_step_s())});
  }
  table.PrintText(std::cout);
  return kSuccess;
}

int ShowPlanCell(const std::string& data, const std::string& name, bool json) {
  const std::vector<PlanCell> cells = ReadCells(data);
  const PlanCell& cell = experiments::FindPlanCell(cells, name, "");
  if (json) {
    JsonObject row = experiments::PlanCellToJson(cell);
    JsonList steps;
    for (const std::optional<double>& step_s : cell.step_s) steps.push_back(ToJson(step_s));
    AddMember(&row, "step_s", std::move(steps));
    PrintJson(std::move(row));
    return kSuccess;
  }
  const experiments::PlanProblem problem(cell);
  std::string source;
  for (const experiments::PlanTable& table : experiments::PlanTables()) {
    if (table.name == cell.table) source = table.source;
  }
  std::cout << fmt::format("cell        {}\ntier        {}\nmeasured    {}\n", cell.name, experiments::kPlansTier,
                           source);
  std::cout << fmt::format("network     {}: {:.2f} billion parameters\n", NetworkText(cell),
                           static_cast<double>(datasets::Parameters(problem.network).total) / 1e9);
  std::cout << fmt::format("machine     {}: {} {}\nframework   {}\n", MachineText(cell), cell.gpus,
                           problem.machine.device.name, cell.framework);
  std::cout << fmt::format("step        {} sequences of {} tokens\n", cell.global_batch, cell.sequence);
  if (!cell.fixed.empty()) {
    std::string fixed;
    for (const auto& [key, value] : cell.fixed) fixed += fmt::format("{}{}={}", fixed.empty() ? "" : ",", key, value);
    std::cout << fmt::format("fixed       {}\n", fixed);
  }
  std::cout << fmt::format("settings    {}, of which {} ran; the best takes {} s\n\n", cell.settings.size(), cell.ran(),
                           Seconds(cell.best_step_s()));
  Table table({"dp", "tp", "pp", "zero", "micro-batch", "x", "step s"});
  for (std::size_t i = 0; i < cell.settings.size(); ++i) {
    const experiments::PlanSetting& setting = cell.settings[i];
    std::vector<std::string> row;
    for (const std::int64_t number :
         {setting.dp, setting.tp, setting.pp, setting.zero, setting.micro_batch, setting.grad_accumulation}) {
      row.push_back(fmt::format("{}", number));
    }
    row.push_back(cell.step_s[i] ? Seconds(cell.step_s[i]) : "did not run");
    table.Add(std::move(row));
  }
  table.PrintText(std::cout);
  return kSuccess;
}

int ScorePlanners(const PlanTierOptions& options) {
  std::vector<experiments::PlannerChoice> planners;
  for (const std::string& name : options.planners) planners.push_back(experiments::FindPlanner(name, "AGENT"));
  const std::vector<PlanCell> all = ReadCells(options.data);
  std::vector<const PlanCell*> cells;
  for (const std::string& name : options.cells) cells.push_back(&experiments::FindPlanCell(all, name, "--instances"));
  if (cells.empty()) {
    for (const PlanCell& cell : all) cells.push_back(&cell);
  }
  const experiments::PlanScoreOptions with = {
      .queries = options.queries, .patience = std::chrono::duration<double>(options.timeout), .seed = options.seed};
  std::vector<PlannerScore> scores;
  std::vector<FileToWrite> files;
  for (const experiments::PlannerChoice& planner : planners) {
    scores.push_back(ScoreOne(planner, cells, options));
    if (options.output.empty()) continue;
    const fs::path folder = fs::path(options.output) / ScoreFolder(planner.name);
    std::string text = JsonText({experiments::PlanScoresToJson({scores.back()}, cells, with)});
    WriteFiles({{(folder / "scores.json").string(), [&](std::ostream& out) { out << text << '\n'; }}});
    std::error_code ignored;
    fs::remove_all(folder / "cells", ignored);
  }
  if (options.json) {
    PrintJson(experiments::PlanScoresToJson(scores, cells, with));
  } else {
    PrintScores(scores, cells, options);
  }
  return kSuccess;
}

}  // namespace emplace::tools
