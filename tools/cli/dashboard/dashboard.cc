#include "tools/cli/dashboard/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "experiments/plan/problem.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/report/document.h"
#include "experiments/report/grid.h"
#include "experiments/report/learning_curves.h"
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
constexpr std::size_t kMostPictures = 12;
constexpr std::size_t kMostTrialsRead = 1000;  // more would be read each time that the page is
constexpr std::size_t kMostLogBytes = 20'000;
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{1} << 28;
constexpr std::chrono::seconds kOverviewLasts{1};

constexpr std::string_view kPicturesNote =
    "Each picture is one graph on one cluster: the best step time so far, by evaluations. A line is the median over an "
    "agent's seeds, its band the 95 % interval of a bootstrap over them. A search that goes on counts as far as it has "
    "got.";

// A parameter of the request; "" if it has none of the name.
std::string Parameter(const HttpRequest& request, const char* name) {
  const auto found = request.parameters.find(name);
  return found == request.parameters.end() ? std::string() : found->second;
}

std::optional<double> NumberIn(const JsonValue& json, std::string_view key) {
  const JsonValue* const value = FindMember(json, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = value->As<double>()) return *real;
  if (const auto* whole = value->As<std::int64_t>()) return static_cast<double>(*whole);
  return std::nullopt;
}

// A search that goes on, from progress.jsonl. Its last line may be half written.
experiments::GraphRecord ReadProgress(const std::string& text) {
  experiments::GraphRecord search{.finished = false};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      const JsonValue json = ParseJson(line);
      const auto evaluations = NumberIn(json, "evaluations");
      const auto best = NumberIn(json, "best_step_time_us");
      if (evaluations) search.evaluations = *evaluations;
      if (evaluations && best) search.trace.emplace_back(*evaluations, *best);
    } catch (const InputError&) {
      continue;
    }
  }
  return search;
}

// Whether progress.jsonl is of one graph: with several, it counts evaluations on all of them.
bool IsOfOneGraph(const JsonValue& spec) {
  const JsonValue* const together = FindMember(spec, "together");
  const auto* const list = together == nullptr ? nullptr : together->As<JsonList>();
  return list == nullptr || list->size() == 1;
}

// "" if op times are not of a profile.
std::string ProfileOf(const experiments::TrialChoice& choice) {
  const bool is_file = choice.costs.starts_with(experiments::kProfilePrefix);
  return is_file ? choice.costs.substr(experiments::kProfilePrefix.size()) : "";
}

// The table of the improvement, as a report has it: agents that lack a trial are marked and come last.
std::string ImprovementHtml(const experiments::ExperimentRuns& runs) {
  if (runs.trials.empty()) return "";
  const experiments::TableBlock table = experiments::ImprovementTable(runs);
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

// The shortest step that a trial of the question has found, and which trial; "" if none has.
std::string ShortestHtml(const std::vector<experiments::TrialRecord>& trials, const experiments::Question& question) {
  double shortest = std::numeric_limits<double>::infinity();
  const experiments::TrialRecord* found_by = nullptr;
  for (const std::size_t t : question.trials) {
    if (question.graph >= trials[t].graphs.size()) continue;
    for (const auto& [evaluations, micros] : trials[t].graphs[question.graph].trace) {
      if (micros >= shortest) continue;
      shortest = micros;
      found_by = &trials[t];
    }
  }
  if (found_by == nullptr) return "";
  return fmt::format("<p>Shortest step so far: <b>{}</b> ({})</p>\n", HumanReadableMicros(shortest),
                     HtmlText(fmt::format("{}, seed {}", found_by->label, found_by->seed)));
}

// Where an agent stands on a question.
struct Standing {
  std::string label = {};
  std::optional<experiments::CurvePoint> last = {};  // last point of its curve
  std::size_t trials = 0;
  std::size_t finished = 0;
};

// The agents of a question, the shortest median first, those without a curve last.
std::vector<Standing> StandingsOn(const std::vector<experiments::TrialRecord>& trials,
                                  const experiments::Question& question,
                                  const std::vector<experiments::Curve>& curves) {
  std::map<std::string, Standing> by_label;
  for (const std::size_t t : question.trials) {
    Standing& standing = by_label[trials[t].label];
    standing.label = trials[t].label;
    ++standing.trials;
    const bool has_record = question.graph < trials[t].graphs.size();
    if (has_record && trials[t].graphs[question.graph].finished) ++standing.finished;
  }
  for (const experiments::Curve& curve : curves) by_label[curve.label].last = curve.points.back();
  std::vector<Standing> standings;
  for (auto& [label, standing] : by_label) standings.push_back(std::move(standing));
  std::stable_sort(standings.begin(), standings.end(), [](const Standing& a, const Standing& b) {
    return a.last && (!b.last || a.last->centre < b.last->centre);
  });
  return standings;
}

// The legend of a picture: each agent with the end of its line.
std::string StandingsHtml(const std::vector<Standing>& standings, const std::vector<std::string>& labels) {
  const std::optional<experiments::CurvePoint>& first = standings.front().last;
  const TimeUnit unit = UnitFor(first ? first->centre : 0);
  std::vector<std::vector<std::string>> rows;
  for (const Standing& standing : standings) {
    experiments::EstimateText text{.mean = "-", .interval = ""};
    if (const auto& last = standing.last) {
      experiments::Estimate estimate{.mean = last->centre / unit.micros};
      if (standing.trials > 1) {
        estimate.interval = experiments::Interval{.low = last->low / unit.micros, .high = last->high / unit.micros};
      }
      text = experiments::ShownEstimate(estimate);
    }
    rows.push_back({LegendHtml(standing.label, labels), text.mean, text.interval,
                    fmt::format("{} of {}", standing.finished, standing.trials)});
  }
  const std::string median = first ? fmt::format("median, {}", unit.name) : "median";
  return TableHtml("Where the agents stand", {"agent", median, "95 % band", "finished"}, rows);
}

std::string QuestionHtml(const std::vector<experiments::TrialRecord>& trials, const experiments::Question& question,
                         const std::vector<std::string>& labels) {
  const std::vector<experiments::Curve> curves = experiments::StepTimeCurves(trials, question);
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}{}{}</figure>\n", HtmlText(question.title),
                     ShortestHtml(trials, question), CurvesSvg(curves, labels),
                     StandingsHtml(StandingsOn(trials, question, curves), labels));
}

// The range of pictures that is shown, with links to those before and after; "" if all are.
std::string PagingHtml(const std::string& experiment, std::size_t first, std::size_t shown, std::size_t all) {
  if (shown == all) return "";
  const auto link = [&](std::size_t from, const char* text) {
    return " · " + LinkHtml(CurvesAddress(experiment, from), text);
  };
  std::string html = fmt::format("<p>Pictures {} to {} of {}", first + 1, first + shown, all);
  if (first > 0) html += link(first - std::min(first, kMostPictures), "previous");
  if (first + shown < all) html += link(first + shown, "next");
  return html + "</p>\n";
}

std::string RunningHtml(const RunState& state) {
  if (state.running.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(state.running.size(), kMostRows); ++i) {
    const experiments::RunningTrial& trial = state.running[i];
    rows.push_back({LinkHtml(TrialAddress("trial", state.experiment, trial.id), trial.what),
                    HtmlText(trial.holder.host), HumanReadableSeconds(trial.running_seconds),
                    fmt::format("{:.0f} s ago", trial.last_sign_seconds), experiments::EvaluationsText(trial)});
  }
  return TableHtml("Running", {"trial", "on", "for", "last sign", "evaluations"}, rows);
}

std::string FinishedHtml(const RunState& state, const experiments::PlanFile& plan) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& trial : plan.trials()) {
    const std::string path = plan.FolderOf(trial);
    if (rows.size() >= kMostRows) break;
    if (!experiments::IsFinished(path)) continue;
    const experiments::TrialSummary summary = experiments::SummariseTrial(path);
    rows.push_back({LinkHtml(TrialAddress("trial", state.experiment, trial.id()),
                             experiments::DescribeSpec(ParseJson(std::string(trial.spec)))),
                    summary.best_micros ? HumanReadableMicros(*summary.best_micros) : "nothing fits",
                    summary.improvement_percent ? fmt::format("{:.1f}", *summary.improvement_percent) : "-",
                    summary.wall_seconds > 0 ? HumanReadableSeconds(summary.wall_seconds) : "-"});
  }
  if (rows.empty()) return "";
  std::string html = TableHtml("Finished", {"trial", "best step time", "improvement, %", "took"}, rows);
  if (state.finished > rows.size()) html += fmt::format("<p>and {} more</p>\n", state.finished - rows.size());
  return html;
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
    throw InputError(path.filename().string(), "is not a file of this trial");
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
    if (page == "/icon.svg") return {.type = "image/svg+xml", .body = std::string(PageIcon())};
    if (page == "/curves") return CurvesPage(request);
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
  if (overview_.empty() || now > overview_lasts_until_) {
    std::string html;
    for (const std::string& folder : experiments::PlannedFolders(runs_)) html += ExperimentHtml(folder);
    overview_ = PageHtml("Runs in " + root_.filename().string(), html, /*live=*/true);
    const auto done = std::chrono::steady_clock::now();
    overview_lasts_until_ = done + std::max<std::chrono::steady_clock::duration>(kOverviewLasts, 4 * (done - now));
  }
  return {.body = overview_};
}

std::string Dashboard::ExperimentHtml(const std::string& folder) const {
  std::string html = fmt::format("<section>\n<h2>{}</h2>\n", HtmlText(fs::path(folder).filename().string()));
  if (const fs::path out = LinkOut(folder); !out.empty()) {
    return html + fmt::format("<p class=\"error\">not shown: {} leads out of the folder of runs</p>\n</section>\n",
                              HtmlText(out.lexically_relative(root_).string()));
  }
  RunState state;
  std::string finished;
  try {
    state = experiments::ReadRunState(folder);
    finished = FinishedHtml(state, experiments::PlanFile(folder));
  } catch (const InputError& error) {
    return html + fmt::format("<p class=\"error\">{}</p>\n</section>\n", HtmlText(error.what()));
  }
  html +=
      fmt::format("<p>{}</p>\n<progress max=\"{}\" value=\"{}\"></progress>\n",
                  HtmlText(experiments::ProgressText(state)), std::max<std::size_t>(state.trials, 1), state.finished);
  try {
    html += ResultsHtml(folder, 0);
  } catch (const InputError& error) {
    html += fmt::format("<p class=\"error\">{}</p>\n", HtmlText(error.what()));
  }
  html += RunningHtml(state);
  for (const experiments::WaitingTrials& group : state.waiting) {
    html += fmt::format("<p>Waiting: {} ({})</p>\n", group.count, HtmlText(group.reason));
  }
  html += FailedHtml(state) + finished;
  for (const std::string& differing : state.differing) {
    html += fmt::format("<p class=\"error\">A bug of emplace: two runs of {} differed</p>\n", HtmlText(differing));
  }
  return html + "</section>\n";
}

std::string Dashboard::ResultsHtml(const std::string& folder, std::size_t first) const {
  if (experiments::PlanFile(folder).trials().size() > kMostTrialsRead) {
    return fmt::format("<p>Of more than {} trials, the curves and tables are in <code>emplace report</code>.</p>\n",
                       kMostTrialsRead);
  }
  const experiments::ExperimentRuns runs = experiments::ReadExperiment(folder);
  std::vector<experiments::TrialRecord> trials = experiments::WithMissingTrials(runs);
  if (trials.empty()) return "";
  const experiments::ReportGrid grid = experiments::MakeReportGrid(trials);
  for (experiments::TrialRecord& trial : trials) {
    const fs::path progress = fs::path(trial.folder) / "progress.jsonl";
    if (!trial.graphs.empty() || !IsOfOneGraph(trial.spec) || !fs::exists(progress)) continue;
    trial.graphs.push_back(ReadProgress(FileText(progress)));
  }
  const std::vector<experiments::Question> questions = experiments::FindQuestions(trials, grid);
  if (first >= questions.size()) throw InputError("", fmt::format("there are {} pictures", questions.size()));
  const std::size_t shown = std::min(questions.size() - first, kMostPictures);
  std::string html = fmt::format("<p class=\"note\">{}</p>\n<div class=\"questions\">\n", kPicturesNote);
  for (std::size_t q = first; q < first + shown; ++q) html += QuestionHtml(trials, questions[q], grid.labels);
  return html + "</div>\n" + PagingHtml(fs::path(folder).filename().string(), first, shown, questions.size()) +
         ImprovementHtml(runs);
}

HttpAnswer Dashboard::CurvesPage(const HttpRequest& request) const {
  const std::string experiment = Parameter(request, "experiment");
  const std::string folder = FindExperiment(experiment);
  if (!LinkOut(folder).empty()) throw InputError("", "a link in its folder leads out of the folder of runs");
  const std::string text = Parameter(request, "first");
  std::size_t first = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), first);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) throw InputError("first", "is not a number");
  const std::lock_guard lock(mutex_);
  return {.body = PageHtml("Curves of " + experiment,
                           fmt::format("<p>{}</p>\n<h2>{}</h2>\n", LinkHtml("./", "all runs"), HtmlText(experiment)) +
                               ResultsHtml(folder, first),
                           /*live=*/true)};
}

std::string Dashboard::FindExperiment(const std::string& name) const {
  for (const std::string& folder : experiments::PlannedFolders(runs_)) {
    if (fs::path(folder).filename() == name && IsInside(folder)) return folder;
  }
  throw InputError("", "there is no such experiment");
}

Dashboard::Trial Dashboard::FindTrial(const HttpRequest& request) const {
  Trial found{.experiment = Parameter(request, "experiment"), .id = Parameter(request, "trial")};
  const experiments::PlanFile plan(FindExperiment(found.experiment));
  for (const auto& trial : plan.trials()) {
    if (trial.id() != found.id) continue;
    found.folder = plan.FolderOf(trial);
    found.spec = ParseJson(std::string(trial.spec));
    found.what = experiments::DescribeSpec(found.spec);
    if (fs::exists(found.folder) && !LinkOut(found.folder).empty()) break;
    return found;
  }
  throw InputError("", "there is no such trial");
}

HttpAnswer Dashboard::TrialPage(const Trial& trial) const {
  const fs::path& folder = trial.folder;
  std::string html = fmt::format("<p>{} / {}</p>\n<h2>{}</h2>\n", LinkHtml("./", "all runs"),
                                 HtmlText(trial.experiment + " / " + trial.id), HtmlText(trial.what));
  const experiments::TrialSight sight = experiments::InspectTrial(folder.string());
  bool live = false;
  experiments::TrialRecord record;
  switch (sight.state) {
    case experiments::TrialState::kFinished: {
      record = experiments::ReadFinishedTrial(folder.string());
      const std::optional<double>& best = record.graphs.front().best_micros;
      html += fmt::format("<p>Finished. Best step time: <b>{}</b></p>\n",
                          best ? HumanReadableMicros(*best) : "nothing fits");
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
  if (record.graphs.empty() && fs::exists(folder / "progress.jsonl")) {
    record.graphs.push_back(ReadProgress(FileText(folder / "progress.jsonl")));
  }
  record.label = trial.what;
  html += "<figure>" + CurvesSvg(experiments::StepTimeCurves({record}, {.trials = {0}}), {trial.what}) + "</figure>\n";
  if (fs::exists(folder / "crashes.jsonl")) {
    const std::string log = FileText(folder / "crashes.jsonl");
    html += "<h3>Crashes</h3>\n" + LogHtml(log.substr(log.size() - std::min(log.size(), kMostLogBytes)));
  }
  if (fs::exists(folder / "best_placement.json")) {
    const auto address = [&](const char* page) { return TrialAddress(page, trial.experiment, trial.id); };
    html +=
        fmt::format("<h3>Best placement</h3>\n<p>{} · {}</p>\n", LinkHtml(address("placement.json"), "placement.json"),
                    LinkHtml(address("trace.json"), "trace.json, for Perfetto"));
    html += fmt::format("<div class=\"scroll\"><img class=\"timeline\" alt=\"timeline of a step\" src=\"{}\"></div>\n",
                        HtmlText(address("timeline.svg")));
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
