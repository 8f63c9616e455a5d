#include "tools/cli/dashboard/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "experiments/plan/problem.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/report/results.h"
#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/run_state.h"
#include "experiments/run/runs_folder.h"
#include "experiments/run/sweep_view.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/markup.h"
#include "sim/draw/timeline_svg.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/timeline.h"
#include "tools/cli/dashboard/dashboard_page.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

namespace fs = std::filesystem;

struct Dashboard::Trial {
  std::string experiment = {};
  std::string id = {};
  fs::path folder = {};
  JsonValue spec = {};
  std::string what = {};
};

namespace {

using experiments::RunState;

// Rows of a table, and bytes of a file, that a page shows at most.
constexpr std::size_t kMostRows = 200;
constexpr std::size_t kMostCurves = 12;
constexpr std::size_t kMostTrialsInATable = 1000;  // more would be read each time that the page is
constexpr std::size_t kMostLogBytes = 20'000;
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{1} << 28;
constexpr std::chrono::seconds kOverviewLasts{1};

std::optional<double> NumberIn(const JsonValue& json, std::string_view key) {
  const JsonValue* const value = FindMember(json, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = value->As<double>()) return *real;
  if (const auto* whole = value->As<std::int64_t>()) return static_cast<double>(*whole);
  return std::nullopt;
}

// Best step time by evaluations, from progress.jsonl. Its last line may be half written.
Curve ReadCurve(const std::string& text, const std::string& what) {
  Curve curve{.name = what, .points = {}};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      const JsonValue json = ParseJson(line);
      const auto evaluations = NumberIn(json, "evaluations");
      const auto best = NumberIn(json, "best_step_time_us");
      if (evaluations && best) curve.points.emplace_back(*evaluations, *best);
    } catch (const InputError&) {
      continue;
    }
  }
  return curve;
}

// "" if op times are not of a profile.
std::string ProfileOf(const experiments::TrialChoice& choice) {
  const bool is_file = choice.costs.starts_with(experiments::kProfilePrefix);
  return is_file ? choice.costs.substr(experiments::kProfilePrefix.size()) : "";
}

// The table of the improvement, as a report has it: agents that lack a trial are marked and come last.
std::string ImprovementHtml(const std::string& folder, const RunState& state) {
  if (state.finished == 0 || state.trials > kMostTrialsInATable) return "";
  const experiments::TableBlock table = experiments::ImprovementTable(experiments::ReadRuns(folder).front());
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<experiments::TextCell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const experiments::TextCell& cell : row) {
      std::string html = HtmlText(cell.text);
      if (cell.strong) html = "<b>" + html + "</b>";
      for (const std::string& detail : cell.details) html += " <small>" + HtmlText(detail) + "</small>";
      cells.push_back(std::move(html));
    }
  }
  return TableHtml(table.caption, table.header, rows);
}

std::string FailedHtml(const RunState& state) {
  if (state.failed.empty()) return "";
  std::string html = "<h3>Failed</h3>\n";
  for (std::size_t i = 0; i < std::min(state.failed.size(), kMostRows); ++i) {
    const experiments::FailedTrial& trial = state.failed[i];
    html += fmt::format("<details id=\"{0}\"><summary>{1}: {2}</summary>\n<p>{3}</p>\n", HtmlText(trial.id),
                        HtmlText(trial.what), HtmlText(trial.error),
                        LinkHtml(TrialAddress("trial", state.experiment, trial.id), "trial " + trial.id));
    if (!trial.log.empty()) html += LogHtml(trial.log);
    html += "</details>\n";
  }
  if (state.failed.size() > kMostRows) html += fmt::format("<p>and {} more</p>\n", state.failed.size() - kMostRows);
  return html;
}

}  // namespace

std::string RandomToken() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

Dashboard::Dashboard(const std::string& runs, std::string token)
    : runs_(runs), root_((experiments::PlannedFolders(runs), fs::canonical(runs))), token_(std::move(token)) {}

bool Dashboard::IsInside(const fs::path& path) const {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  const auto [of_root, of_path] = std::mismatch(root_.begin(), root_.end(), real.begin(), real.end());
  return of_root == root_.end();
}

fs::path Dashboard::LinkOut(const fs::path& folder) const {
  if (!IsInside(folder)) return folder;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_symlink(unknown) && !IsInside(entry->path())) return entry->path();
  }
  return {};
}

std::string Dashboard::FileText(const fs::path& path) const {
  std::error_code error;
  if (!IsInside(path) || !fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostFileBytes || error) {
    throw InputError(path.filename().string(), "is no file of this trial");
  }
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

HttpAnswer Dashboard::Answer(const HttpRequest& request) const {
  const std::string start = "/" + token_;
  const auto unknown = [](const std::string& why) {
    return HttpAnswer{.status = 404, .type = "text/plain; charset=utf-8", .body = why + "\n"};
  };
  // All characters are compared, so that the time does not tell how many are right.
  unsigned differs = request.path.size() < start.size() ? 1U : 0U;
  for (std::size_t i = 0; i < start.size() && i < request.path.size(); ++i) {
    differs |= static_cast<unsigned char>(start[i]) ^ static_cast<unsigned char>(request.path[i]);
  }
  if (differs != 0) return unknown("not here");
  const std::string page = request.path.substr(start.size());
  try {
    if (page == "/") return Overview();
    if (page == "/page.js") return {.type = "text/javascript", .body = std::string(PageScript())};
    if (page == "/page.css") return {.type = "text/css", .body = std::string(PageStyle())};
    if (page == "/trial") return TrialPage(FindTrial(request));
    if (page == "/timeline.svg") return Timeline(FindTrial(request), /*picture=*/true);
    if (page == "/trace.json") return Timeline(FindTrial(request), /*picture=*/false);
    if (page == "/placement.json") {
      return {.type = "application/json", .body = FileText(FindTrial(request).folder / "best_placement.json")};
    }
  } catch (const InputError& error) {
    return unknown(error.what());
  }
  return unknown("not here");
}

HttpAnswer Dashboard::Overview() const {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (overview_.empty() || now - made_ > kOverviewLasts) {
    std::string html;
    for (const std::string& folder : experiments::PlannedFolders(runs_)) html += ExperimentHtml(folder);
    overview_ = PageHtml("Runs in " + root_.filename().string(), html, /*live=*/true);
    made_ = std::chrono::steady_clock::now();
  }
  return {.body = overview_};
}

std::string Dashboard::ExperimentHtml(const std::string& folder) const {
  const std::string name = fs::path(folder).filename().string();
  std::string html = fmt::format("<section>\n<h2>{}</h2>\n", HtmlText(name));
  if (const fs::path out = LinkOut(folder); !out.empty()) {
    return html + fmt::format("<p class=\"error\">not shown: {} leads out of the folder of runs</p>\n</section>\n",
                              HtmlText(out.lexically_relative(root_).string()));
  }
  RunState state;
  std::vector<Curve> curves;
  std::vector<std::vector<std::string>> finished;
  std::optional<std::pair<double, std::string>> best;
  const auto see = [&](double micros, const std::string& what) {
    if (!best || micros < best->first) best = {micros, what};
  };
  const auto add_curve = [&](const fs::path& trial, const std::string& what) {
    if (curves.size() >= kMostCurves || !fs::exists(trial / "progress.jsonl")) return;
    curves.push_back(ReadCurve(FileText(trial / "progress.jsonl"), what));
  };
  try {
    state = experiments::ReadRunState(folder);
    const experiments::PlanFile plan(folder);
    std::map<std::string, std::string> folders;
    for (const auto& trial : plan.trials()) folders.emplace(trial.id(), plan.FolderOf(trial));
    for (const experiments::RunningTrial& trial : state.running) {
      if (const auto found = folders.find(trial.id); found != folders.end()) add_curve(found->second, trial.what);
    }
    for (const auto& trial : plan.trials()) {
      const std::string path = plan.FolderOf(trial);
      if (finished.size() >= kMostRows) break;
      if (!experiments::IsFinished(path)) continue;
      const experiments::TrialSummary summary = experiments::SummariseTrial(path);
      const std::string what = experiments::DescribeSpec(ParseJson(std::string(trial.spec)));
      if (summary.best_micros) see(*summary.best_micros, what);
      finished.push_back({LinkHtml(TrialAddress("trial", name, trial.id()), what),
                          summary.best_micros ? HumanReadableMicros(*summary.best_micros) : "nothing fits",
                          summary.improvement_percent ? fmt::format("{:.1f}", *summary.improvement_percent) : "-",
                          summary.wall_seconds > 0 ? HumanReadableSeconds(summary.wall_seconds) : "-"});
      add_curve(path, what);
    }
  } catch (const InputError& error) {
    return html + fmt::format("<p class=\"error\">{}</p>\n</section>\n", HtmlText(error.what()));
  }
  for (const Curve& curve : curves) {
    if (!curve.points.empty()) see(curve.points.back().second, curve.name);
  }
  html +=
      fmt::format("<p>{}</p>\n<progress max=\"{}\" value=\"{}\"></progress>\n",
                  HtmlText(experiments::ProgressText(state)), std::max<std::size_t>(state.trials, 1), state.finished);
  if (best) {
    html += fmt::format("<p>Shortest step so far: <b>{}</b> ({})</p>\n", HumanReadableMicros(best->first),
                        HtmlText(best->second));
  }
  html += CurvesHtml(curves);
  try {
    html += ImprovementHtml(folder, state);
  } catch (const InputError& error) {
    html += fmt::format("<p class=\"error\">{}</p>\n", HtmlText(error.what()));
  }
  if (!state.running.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < std::min(state.running.size(), kMostRows); ++i) {
      const experiments::RunningTrial& trial = state.running[i];
      rows.push_back({LinkHtml(TrialAddress("trial", name, trial.id), trial.what), HtmlText(trial.holder.host),
                      HumanReadableSeconds(trial.running_seconds), fmt::format("{:.0f} s ago", trial.last_sign_seconds),
                      experiments::EvaluationsText(trial)});
    }
    html += TableHtml("Running", {"trial", "on", "for", "last sign", "evaluations"}, rows);
  }
  for (const experiments::WaitingTrials& group : state.waiting) {
    html += fmt::format("<p>Waiting: {} ({})</p>\n", group.count, HtmlText(group.reason));
  }
  html += FailedHtml(state);
  if (!finished.empty()) {
    html += TableHtml("Finished", {"trial", "best step time", "improvement, %", "took"}, finished);
    if (state.finished > finished.size()) {
      html += fmt::format("<p>and {} more</p>\n", state.finished - finished.size());
    }
  }
  for (const std::string& differing : state.differing) {
    html += fmt::format("<p class=\"error\">A bug of emplace: two runs of {} differed</p>\n", HtmlText(differing));
  }
  return html + "</section>\n";
}

Dashboard::Trial Dashboard::FindTrial(const HttpRequest& request) const {
  const auto parameter = [&](const char* name) {
    const auto found = request.parameters.find(name);
    return found == request.parameters.end() ? std::string() : found->second;
  };
  Trial found{.experiment = parameter("experiment"), .id = parameter("trial")};
  for (const std::string& folder : experiments::PlannedFolders(runs_)) {
    if (fs::path(folder).filename() != found.experiment || !IsInside(folder)) continue;
    const experiments::PlanFile plan(folder);
    for (const auto& trial : plan.trials()) {
      if (trial.id() != found.id) continue;
      found.folder = plan.FolderOf(trial);
      found.spec = ParseJson(std::string(trial.spec));
      found.what = experiments::DescribeSpec(found.spec);
      if (fs::exists(found.folder) && !LinkOut(found.folder).empty()) break;
      return found;
    }
  }
  throw InputError("", "there is no such trial");
}

HttpAnswer Dashboard::TrialPage(const Trial& trial) const {
  const fs::path& folder = trial.folder;
  std::string html = fmt::format("<p>{} / {}</p>\n<h2>{}</h2>\n", LinkHtml("./", "all runs"),
                                 HtmlText(trial.experiment + " / " + trial.id), HtmlText(trial.what));
  const experiments::TrialSight sight = experiments::LookAtTrial(folder.string());
  bool live = false;
  switch (sight.state) {
    case experiments::TrialState::kFinished: {
      const experiments::TrialSummary summary = experiments::SummariseTrial(folder.string());
      html += fmt::format("<p>Finished. Best step time: <b>{}</b></p>\n",
                          summary.best_micros ? HumanReadableMicros(*summary.best_micros) : "nothing fits");
      break;
    }
    case experiments::TrialState::kFailed:
      html +=
          fmt::format("<p class=\"error\">Failed: {}</p>\n", HtmlText(experiments::ReadTrialError(folder.string())));
      break;
    case experiments::TrialState::kRunning:
      live = true;
      html += fmt::format("<p>Runs on {}, process {}</p>\n", HtmlText(sight.claim->holder.host),
                          sight.claim->holder.process);
      break;
    case experiments::TrialState::kWaiting:
      live = true;
      html += "<p>Waits.</p>\n";
  }
  if (fs::exists(folder / "progress.jsonl")) {
    html += CurvesHtml({ReadCurve(FileText(folder / "progress.jsonl"), trial.what)});
  }
  if (fs::exists(folder / "crashes.jsonl")) {
    const std::string log = FileText(folder / "crashes.jsonl");
    html += "<h3>Crashes</h3>\n" + LogHtml(log.substr(log.size() - std::min(log.size(), kMostLogBytes)));
  }
  if (fs::exists(folder / "best_placement.json")) {
    const auto address = [&](const char* page) { return TrialAddress(page, trial.experiment, trial.id); };
    html +=
        fmt::format("<h3>Best placement</h3>\n<p>{} · {}</p>\n", LinkHtml(address("placement.json"), "placement.json"),
                    LinkHtml(address("trace.json"), "trace.json, for Perfetto"));
    html += fmt::format("<img alt=\"timeline of a step\" src=\"{}\">\n", HtmlText(address("timeline.svg")));
  }
  html += "<h3>Specification</h3>\n" + LogHtml(JsonText(trial.spec));
  return {.body = PageHtml(trial.what, html, live)};
}

HttpAnswer Dashboard::Timeline(const Trial& trial, bool picture) const {
  const fs::path file = trial.folder / "best_placement.json";
  std::istringstream in(FileText(file));
  const std::lock_guard lock(simulating_);
  const experiments::TrialChoice choice = experiments::ReadTrialChoice(trial.spec);
  if (!choice.schedule.empty()) throw InputError("", "steps with a schedule have no timeline here (emplace simulate)");
  // A pipe would keep this page, and all that wait for it, for ever.
  const experiments::GraphSource graph = choice.graphs().front();
  for (const std::string& named : {graph.file, choice.cluster.file, ProfileOf(choice)}) {
    if (!named.empty()) CheckRegularFile(named);
  }
  const agents::SearchProblem problem = experiments::LoadProblem(graph, choice);
  const Placement placement = ReadPlacement(in, file.filename().string(), problem.graph, problem.cluster);
  CheckPlacement(placement, problem.graph, problem.cluster, problem.costs);
  SimOptions options{.engine = choice.engine, .peak_memory = false, .start_times = true};
  options.collectives = choice.collectives;
  const emplace::Timeline timeline =
      Simulator(problem.graph, problem.cluster, problem.costs, options).Record(placement);
  std::ostringstream out;
  picture ? WriteTimelineSvg(out, timeline, problem.graph, problem.cluster)
          : WriteChromeTrace(out, timeline, problem.graph, problem.cluster);
  return {.type = picture ? "image/svg+xml" : "application/json", .body = out.str()};
}

}  // namespace emplace::tools
