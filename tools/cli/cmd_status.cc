// emplace status.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run/run_state.h"
#include "experiments/run/runs_folder.h"
#include "experiments/run/sweep_view.h"
#include "sim/base/exit_status.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "tools/cli/commands.h"

namespace emplace::tools {
namespace {

using experiments::RunState;

// More are in --json.
constexpr std::size_t kMostShown = 20;

struct StatusOptions {
  std::string runs;
  bool json = false;
};

double Tenths(double value) { return std::round(value * 10) / 10; }

JsonValue RunningJson(const experiments::RunningTrial& trial) {
  JsonObject json;
  AddMember(&json, "trial", trial.id);
  AddMember(&json, "what", trial.what);
  AddMember(&json, "host", trial.holder.host);
  AddMember(&json, "process", trial.holder.process);
  AddMember(&json, "running_s", Tenths(trial.running_seconds));
  AddMember(&json, "last_sign_s", Tenths(trial.last_sign_seconds));
  AddMember(&json, "lease_s", trial.holder.lease_seconds);
  AddMember(&json, "evaluations", trial.evaluations);
  AddMember(&json, "budget", trial.budget);
  return {std::move(json)};
}

JsonValue FailedJson(const experiments::FailedTrial& trial) {
  JsonObject json;
  AddMember(&json, "trial", trial.id);
  AddMember(&json, "what", trial.what);
  AddMember(&json, "error", trial.error);
  AddMember(&json, "folder", trial.folder);
  AddMember(&json, "log", trial.log);
  return {std::move(json)};
}

JsonValue WaitingJson(const experiments::WaitingTrials& group) {
  JsonObject json;
  AddMember(&json, "reason", group.reason);
  AddMember(&json, "trials", group.count);
  return {std::move(json)};
}

template <typename Items, typename ToJsonOf>
JsonList ListOf(const Items& items, const ToJsonOf& to_json) {
  JsonList list;
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

JsonValue StateJson(const RunState& state) {
  JsonObject json;
  AddMember(&json, "experiment", state.experiment);
  AddMember(&json, "folder", state.folder);
  AddMember(&json, "trials", state.trials);
  AddMember(&json, "finished", state.finished);
  AddMember(&json, "failed", ListOf(state.failed, FailedJson));
  AddMember(&json, "running", ListOf(state.running, RunningJson));
  AddMember(&json, "waiting", ListOf(state.waiting, WaitingJson));
  AddMember(&json, "differing", ListOf(state.differing, [](const std::string& folder) { return ToJson(folder); }));
  AddMember(&json, "others", state.others);
  AddMember(&json, "left_s", state.left_seconds);
  AddMember(&json, "work_left_s", state.work_left_seconds);
  return {std::move(json)};
}

void PrintJson(const std::vector<RunState>& states) {
  JsonObject json;
  AddMember(&json, "schema", "emplace.status");
  AddMember(&json, "version", 1);
  AddMember(&json, "experiments", ListOf(states, StateJson));
  std::cout << JsonText({std::move(json)}) << '\n';
}

void PrintRunning(const RunState& state) {
  if (state.running.empty()) return;
  Table table({"running", "on", "process", "for", "last sign", "evaluations"});
  for (std::size_t i = 0; i < std::min(state.running.size(), kMostShown); ++i) {
    const experiments::RunningTrial& trial = state.running[i];
    table.Add({trial.what, trial.holder.host, fmt::format("{}", trial.holder.process),
               HumanReadableSeconds(trial.running_seconds), fmt::format("{:.0f} s ago", trial.last_sign_seconds),
               experiments::EvaluationsText(trial)});
  }
  table.PrintText(std::cout);
  if (state.running.size() > kMostShown) std::cout << fmt::format("and {} more\n", state.running.size() - kMostShown);
}

void PrintFailed(const RunState& state) {
  for (std::size_t i = 0; i < std::min(state.failed.size(), kMostShown); ++i) {
    const experiments::FailedTrial& trial = state.failed[i];
    std::cout << Printable(fmt::format("failed: {} ({}): {}", trial.what, trial.folder, trial.error)) << '\n';
  }
  if (state.failed.size() > kMostShown) {
    std::cout << fmt::format("and {} more failed\n", state.failed.size() - kMostShown);
  }
}

void Print(const RunState& state) {
  std::cout << Printable(state.experiment + ": " + experiments::ProgressText(state)) << '\n';
  PrintRunning(state);
  for (const experiments::WaitingTrials& group : state.waiting) {
    std::cout << Printable(fmt::format("waiting: {} ({})", group.count, group.reason)) << '\n';
  }
  PrintFailed(state);
  for (const std::string& folder : state.differing) {
    std::cout << Printable(fmt::format("a bug of emplace: two runs of {} differed (please report this)", folder))
              << '\n';
  }
  if (state.others > 0) {
    std::cout << fmt::format("others: {} that are not in the plan\n", Counted(state.others, "trial"));
  }
}

int Run(const StatusOptions& options) {
  std::vector<RunState> states;
  for (const std::string& folder : experiments::PlannedFolders(options.runs))
    states.push_back(experiments::ReadRunState(folder));
  if (options.json) {
    PrintJson(states);
    return kSuccess;
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (i > 0) std::cout << '\n';
    Print(states[i]);
  }
  return kSuccess;
}

}  // namespace

Command AddStatus(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("status", "Show running, waiting and failed trials, and the time left");
  auto options = std::make_shared<StatusOptions>();
  command->add_option("RUNS", options->runs, "Folder of runs, or the folder of one experiment in it")->required();
  command->add_flag("--json", options->json, "Print everything as JSON (emplace.status)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
