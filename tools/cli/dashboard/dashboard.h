#ifndef EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_H_
#define EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_H_

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string>

#include "tools/cli/dashboard/http_server.h"

namespace emplace::tools {

// Pages that follow the sweeps in a folder of runs: an overview with a picture for each graph, more such pictures of
// large experiments, and a page of each trial with its curve, its placement and the timeline of a step. All text of
// files is escaped. No file outside the folder is shown, links included; for a timeline, the regular files that the
// trial's spec names are read, wherever they are.
class Dashboard {
 public:
  // Every path begins with "/" and the token; others are unknown. Throws InputError if no sweep is planned there.
  Dashboard(const std::string& runs, std::string token);

  // Safe to call from several threads.
  HttpAnswer Answer(const HttpRequest& request) const;

 private:
  struct Trial;
  HttpAnswer Overview() const;
  std::string ExperimentHtml(const std::string& folder) const;
  HttpAnswer CurvesPage(const HttpRequest& request) const;
  // Pictures of the experiment's questions, `first` and those after it, and the table of the improvement.
  std::string ResultsHtml(const std::string& folder, std::size_t first) const;
  // The experiment's folder; throws InputError where no such sweep is planned.
  std::string FindExperiment(const std::string& name) const;
  // Throws InputError where the plan has no such trial.
  Trial FindTrial(const HttpRequest& request) const;
  HttpAnswer TrialPage(const Trial& trial) const;
  HttpAnswer Timeline(const Trial& trial, bool picture) const;
  // The content of a file in the folder; throws InputError where it is none, or leads out.
  std::string FileText(const std::filesystem::path& path) const;
  bool IsInside(const std::filesystem::path& path) const;
  // The first link below a folder that leads out of the runs; empty if there is none.
  std::filesystem::path LinkOut(const std::filesystem::path& folder) const;

  const std::string runs_;
  const std::filesystem::path root_;  // canonical
  const std::string token_;
  // Large sweeps take a while to look at: an overview serves all who ask within a second, or within four times the time
  // that it took.
  mutable std::mutex mutex_;
  mutable std::chrono::steady_clock::time_point overview_lasts_until_{};
  mutable std::string overview_;
  mutable std::mutex simulating_;  // one timeline at a time
};

// 32 hexadecimal digits from the system's random numbers.
std::string RandomToken();

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_H_
