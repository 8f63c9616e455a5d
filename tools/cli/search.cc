#include "tools/cli/search.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "agents/candidates.h"
#include "agents/environment.h"
#include "agents/named_placement.h"
#include "datasets/exporters/frameworks.h"
#include "datasets/parallel_plan.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_build.h"
#include "sim/base/worker_pool.h"
#include "sim/formats/grouping_json.h"
#include "sim/grouping.h"
#include "sim/placement.h"

namespace emplace::tools {

namespace {

volatile std::sig_atomic_t interrupted = 0;  // the signal

constexpr int kStopSignals[] = {SIGINT, SIGTERM};

void EndProgramOnSignals() {
  for (const int each : kStopSignals) std::signal(each, SIG_DFL);
}

// Signals are often sent twice: to the process, and to its group.
constexpr std::int64_t kSameSignalNanos = 200'000'000;
volatile std::int64_t interrupted_nanos = 0;

std::int64_t NowNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

void Interrupt(int signal) {
  if (interrupted == 0) {
    interrupted_nanos = NowNanos();
    interrupted = signal;
  } else if (NowNanos() - interrupted_nanos > kSameSignalNanos) {
    EndProgramOnSignals();
    raise(signal);
  }
}

}  // namespace

SearchStop::SearchStop(double seconds) : seconds_(seconds) {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = Interrupt;
  action.sa_flags = static_cast<int>(SA_RESTART);
  for (const int each : kStopSignals) sigaction(each, &action, nullptr);
}

SearchStop::~SearchStop() { EndProgramOnSignals(); }

bool SearchStop::Interrupted() const { return interrupted != 0; }

int SearchStop::signal() const { return interrupted; }

std::string SearchStop::Cause() const { return interrupted == SIGTERM ? "SIGTERM" : "Ctrl-C"; }

bool SearchStop::operator()() const {
  return Interrupted() || (seconds_ > 0 && std::chrono::duration<double>(Clock::now() - started_).count() >= seconds_);
}

Placement OnOneDevice(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Simulator& simulator) {
  const agents::Environment env(graph, cluster, costs, ColocationClasses(graph), simulator);
  return env.grouping().Expand(agents::OnOneOf(env.observation(), env.observation().accelerators));
}

namespace {

// A placement, or the stages of a plan on as many accelerators; what the plan divides besides is not counted.
Placement LoadStart(const std::string& file, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const std::string text = ReadWholeFile(file, InputKind::kPlacement);
  if (text.find("\"emplace.plan\"") == std::string::npos) return LoadPlacement(file, graph, cluster, costs);
  std::istringstream in(text);
  datasets::ParallelPlan plan = datasets::ReadPlan(in, file);
  plan.dp = plan.tp = plan.cp = 1;
  if (plan.stages.empty() && plan.pp == 1) plan.stages = {{ToJson("")}};  // the whole model
  return WithLocation(file, [&] {
    Placement placement = datasets::PlacementOfPlan(graph, cluster, plan);
    CheckPlacement(placement, graph, cluster, costs);
    return placement;
  });
}

}  // namespace

std::optional<Placement> FindStart(const ProblemOptions& problem, const std::optional<ScheduleChoice>& schedule,
                                   const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                   const Simulator& simulator) {
  const std::string& start = problem.settings.start;
  if (start.empty() || start == "none") return std::nullopt;
  const std::string file = FileOf(agents::FindSetting("start"), problem.settings);
  if (!file.empty()) return LoadStart(file, graph, cluster, costs);
  agents::SearchSpec one{{}, {.graph = graph, .cluster = cluster, .costs = costs}};
  one.settings() = problem.settings;
  one.pipeline = schedule;
  one.simulator = &simulator;
  std::optional<Placement> found = agents::FindNamedPlacement(start, one);
  if (!found) {
    throw InputError("--start", start == agents::kBestPlacement
                                    ? "best: no agent that evaluates nothing finds a placement that fits"
                                    : fmt::format("{}: finds no placement that fits", start));
  }
  return found;
}

std::size_t EvaluationsIn(double seconds, std::size_t threads, const agents::AgentEntry& agent,
                          const Evaluator& evaluator, const Placement& placement) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 5;
  double fastest = std::numeric_limits<double>::infinity();
  const auto workspace = evaluator.MakeWorkspace();
  StepResult result;
  for (int run = 0; run < kRuns; ++run) {
    const auto started = Clock::now();
    evaluator.RunWith(*workspace, placement, &result);
    fastest = std::min(fastest, std::chrono::duration<double>(Clock::now() - started).count());
  }
  // Threads wait for each other at the end of each batch. That each further one adds 0.6 is an estimate.
  const double speed_up = 1 + 0.6 * static_cast<double>(std::min(threads, agent.batch) - 1);
  const double evaluations = seconds / std::max(fastest, 1e-7) * speed_up;
  return static_cast<std::size_t>(std::clamp(evaluations, 10.0, 1e12));
}

void CheckProblem(const ProblemOptions& problem) { CheckSettings(problem.settings, agents::Door::kCommandLine); }

ProgressState ProgressOf(const agents::SearchProgress& progress) {
  return {.done = progress.evaluations,
          .total = progress.budget,
          .things = "evaluations",
          .note = progress.best_micros ? "best " + HumanReadableMicros(*progress.best_micros) : "none fits yet"};
}

std::optional<double> SingleOpsMicros(const agents::SearchSpec& spec, const agents::SearchResult& result) {
  Progress progress("single ops");
  return agents::MicrosOfSingleOps(spec, result,
                                   [&](const agents::SearchProgress& now) { progress.Show(ProgressOf(now)); });
}

std::string SingleOpsText(std::string_view modules, double micros, double single_ops_micros) {
  return fmt::format("moving single ops, which frameworks do not, gives {}: {} take {:.2f} times as long",
                     HumanReadableMicros(single_ops_micros), modules,
                     single_ops_micros > 0 ? micros / single_ops_micros : 1);
}

std::unique_ptr<const agents::Objective> MakeObjective(const ProblemOptions& problem,
                                                       const agents::ObjectiveContext& context) {
  return WithLocation(problem.cluster.name, [&] { return agents::MakeObjective(context); });
}

agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const std::optional<ScheduleChoice>& schedule,
                                  const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const agents::SearchSettings settings = Resolved(problem.settings);
  std::optional<Grouping> given;
  if (const std::string file = FileOf(agents::FindSetting("grouping"), settings); !file.empty()) {
    given = ReadGrouping(*OpenForReading(file, InputKind::kGrouping), file, graph);
  }
  agents::SearchSpec spec{{}, {.graph = graph, .cluster = cluster, .costs = costs, .given_grouping = std::move(given)}};
  spec.problem.SetGrouping(settings.grouping, settings.groups);
  spec.settings() = settings;
  spec.start.clear();  // FindStart's
  spec.pipeline = schedule;
  spec.threads = NumThreads(spec.threads);
  return spec;
}

}  // namespace emplace::tools
