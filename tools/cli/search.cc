#include "tools/cli/search.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "agents/candidates.h"
#include "agents/environment.h"
#include "agents/named_placement.h"
#include "agents/objective.h"
#include "agents/reward.h"
#include "agents/throughput/load_report.h"
#include "agents/throughput/max_load_evaluator.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/file_io.h"
#include "sim/formats/grouping_json.h"
#include "sim/grouping.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {

std::string GroupingFile(const SearchOptions& options) {
  // The names of groupers contain no slash and no dot.
  return options.grouping.find_first_of("/.") == std::string::npos ? "" : options.grouping;
}

void AddObjectiveOptions(CLI::App& app, SearchOptions* options) {
  app.add_option("--objective", options->objective,
                 "What is made small, of `emplace list objectives`, its options behind a colon: "
                 "throughput:crossing=host,memory=persistent (default: step_time)")
      ->type_name("NAME");
  AddScheduleOptions(app, &options->schedule);
}

void AddSearchOptions(CLI::App& app, SearchOptions* options) {
  app.add_option("--grouping", options->grouping,
                 "How ops are grouped, of `emplace list groupers`, or a grouping.json (a name with a point or "
                 "a slash; default: what the agent wants)")
      ->type_name("NAME");
  app.add_option("--groups", options->max_groups, "Number of groups at which merge_and_colocate stops (default: 256)")
      ->type_name("N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 32U));
  app.add_option("--evaluations", options->evaluations,
                 "Placements to simulate at most (default: what `emplace list agents` says)")
      ->type_name("N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 40U));
  app.add_option("--seconds", options->seconds,
                 "Seconds to search at most. Without --evaluations, the budget is about what fits into them, so that "
                 "schedules end in time; the answer then depends on the machine")
      ->type_name("S")
      ->transform(NumberFrom(0.001, 1000000));
  app.add_option("--reward", options->reward,
                 "What agents maximise, of `emplace list rewards`, its options behind a colon: memory_penalty:c=2,M=8 "
                 "(default: what the agent wants)")
      ->type_name("NAME");
  app.add_option("--start", options->start,
                 "Placement from which agents that search start, or best: the best of the agents that evaluate "
                 "nothing. Default groups are split where the start has their ops on several devices")
      ->type_name("FILE|best");
  AddSeedOption(app, &options->seed, "Seed of all randomness: the same seed gives the same bytes (default: 1)");
  app.add_option("--torch-device", options->torch_device,
                 "Where learning agents compute gradients: cpu or cuda (default: cpu)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cpu", "cuda"}).description(""));
  app.add_option("--threads", options->threads,
                 "Simulations at one time; the answer does not depend on it (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
}

namespace {

volatile std::sig_atomic_t interrupted = 0;  // the signal

constexpr int kStopSignals[] = {SIGINT, SIGTERM};

void EndProgramOnSignals() {
  for (const int each : kStopSignals) std::signal(each, SIG_DFL);
}

// What sends a signal often sends it twice: to the process, and to its group.
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

std::string StartFile(const SearchOptions& options) {
  return options.start == agents::kBestPlacement ? "" : options.start;
}

void CheckTakesStart(const SearchOptions& options, const std::string& agent) {
  if (options.start.empty() || agents::FindAgent(agent).searches()) return;
  throw InputError("--start", "agent " + agent +
                                  " does not search, so it has no start (an agent with more than one evaluation in "
                                  "`emplace list agents`)");
}

std::optional<Placement> FindStart(const SearchOptions& options, const Graph& graph, const Cluster& cluster,
                                   const CostTable& costs, const Simulator& simulator) {
  if (options.start.empty()) return std::nullopt;
  if (options.start != agents::kBestPlacement) return LoadPlacement(options.start, graph, cluster, costs);
  agents::SearchSpec one{.problem = {.graph = graph, .cluster = cluster, .costs = costs}};
  one.engine = simulator.options().engine;
  one.collectives = simulator.options().collectives;
  one.objective = options.objective;
  if (options.schedule.any()) one.schedule = LoadScheduleChoice(options.schedule);
  one.seed = options.seed;
  one.simulator = &simulator;
  std::optional<Placement> best = agents::FindNamedPlacement(agents::kBestPlacement, one);
  if (!best) throw InputError("--start", "best: no agent that evaluates nothing finds a placement that fits");
  return best;
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

void CheckObjective(const SearchOptions& options, const ProblemOptions& problem, const std::string& timeline) {
  const agents::Objective objective = AtPlace("--objective", [&] { return agents::ParseObjective(options.objective); });
  CheckScheduleOptions(options.schedule, problem.engine, problem.collectives, timeline);
  if (objective.is_max_load() && problem.collectives != "model") {
    throw InputError("--collectives", fmt::format("is {}, but loads time collectives by the model (model)",
                                                  Quoted(problem.collectives)));
  }
  if (objective.is_max_load() && options.schedule.any()) {
    throw InputError("--schedule", "changes no load, so not with --objective throughput (--objective step_time)");
  }
}

std::unique_ptr<const Evaluator> OtherEvaluator(const ProblemOptions& problem, const SearchOptions& options,
                                                const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const agents::Objective objective = agents::ParseObjective(options.objective);
  if (objective.is_max_load()) {
    return std::make_unique<agents::MaxLoadEvaluator>(agents::MakeStageCosts(graph, cluster, costs, objective.load));
  }
  if (!options.schedule.any()) return nullptr;
  return AtPlace(problem.cluster.name, [&] {
    return std::make_unique<ScheduleEvaluator>(graph, cluster, costs, LoadScheduleChoice(options.schedule));
  });
}

StepReport ReportOf(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                    const Cluster& cluster, const CostTable& costs, const Placement& placement,
                    const StepResult& result) {
  const agents::Objective objective = agents::ParseObjective(search.objective);
  StepReport report;
  if (objective.is_max_load()) {
    const agents::StageCosts loads = agents::MakeStageCosts(graph, cluster, costs, objective.load);
    report = agents::MakeLoadReport(graph, cluster, costs, loads, placement);
  } else if (search.schedule.any()) {
    const ScheduleEvaluator evaluator(graph, cluster, costs, LoadScheduleChoice(search.schedule));
    const auto [schedule, pipeline, simulated] = evaluator.Simulate(placement);
    report = MakeScheduleReport(graph, cluster, costs, placement, search.schedule.name, schedule, pipeline, simulated);
  } else {
    report = MakeStepReport(graph, cluster, costs, placement, problem.engine, result);
  }
  report.costs = CostsText(problem);
  return report;
}

agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                                  const Cluster& cluster, const CostTable& costs) {
  std::optional<Grouping> given;
  if (!GroupingFile(search).empty()) {
    const auto in = OpenForReading(search.grouping, InputKind::kGrouping);
    given = ReadGrouping(*in, search.grouping, graph);
  } else if (!search.grouping.empty()) {
    AtPlace("--grouping", [&] { FindGrouper(search.grouping); });
  }
  if (!search.reward.empty()) AtPlace("--reward", [&] { agents::ParseReward(search.reward); });
  agents::SearchSpec spec{.problem = {.graph = graph,
                                      .cluster = cluster,
                                      .costs = costs,
                                      .grouping = search.grouping,
                                      .given_grouping = std::move(given),
                                      .max_groups = search.max_groups}};
  spec.engine = problem.engine;
  spec.collectives = problem.collectives;
  spec.objective = search.objective;
  if (search.schedule.any()) spec.schedule = LoadScheduleChoice(search.schedule);
  spec.evaluations = search.evaluations.value_or(0);
  spec.reward = search.reward;
  spec.seed = search.seed;
  spec.torch_device = search.torch_device;
  spec.threads = search.threads > 0 ? search.threads : std::max(1U, std::thread::hardware_concurrency());
  return spec;
}

}  // namespace emplace::tools
