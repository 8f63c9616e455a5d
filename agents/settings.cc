#include "agents/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "agents/agent.h"
#include "agents/named_placement.h"
#include "agents/objective.h"
#include "agents/python/python_agent.h"
#include "agents/reward.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/registry.h"
#include "sim/grouping.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_csv.h"
#include "sim/simulator.h"

namespace emplace::agents {
namespace {

constexpr unsigned kDocuments = static_cast<unsigned>(Door::kExperiment) | static_cast<unsigned>(Door::kSpec);
constexpr unsigned kCommands = static_cast<unsigned>(Door::kCommandLine) | static_cast<unsigned>(Door::kPython);
constexpr unsigned kOnlySpec = static_cast<unsigned>(Door::kSpec);

constexpr std::size_t kSomeBudget = 1 << 20;  // where only an agent's options are checked

bool IsDocument(Door door) { return (static_cast<unsigned>(door) & kDocuments) != 0; }

// Names of groupers hold neither a slash nor a dot, and those of placements are known: anything else is a file.
bool IsGroupingFile(std::string_view value) { return value.find_first_of("/.") != std::string_view::npos; }
bool IsPlacementFile(std::string_view value) {
  return !value.empty() && value != "none" && std::ranges::count(PlacementNames(), value) == 0;
}

void CheckEngine(const std::string& value, Door /*door*/) { FindByName(AllEngines(), value, "engine", ""); }
void CheckObjective(const std::string& value, Door /*door*/) { FindObjective(value); }
void CheckSchedule(const std::string& value, Door door) {
  if (IsDocument(door) || !IsScheduleFile(value)) ParseScheduleName(value, "");
}
void CheckAgent(const std::string& value, Door /*door*/) { FindAgent(value); }
void CheckGrouping(const std::string& value, Door door) {
  if (IsDocument(door) || !IsGroupingFile(value)) FindGrouper(value);
}
void CheckReward(const std::string& value, Door /*door*/) { ParseReward(value); }
void CheckPlacement(const std::string& value, Door door) {
  if (!IsPlacementFile(value) || !IsDocument(door)) return;
  std::vector<std::string_view> names = {"none"};
  for (const std::string_view name : PlacementNames()) names.push_back(name);
  throw InputError("", fmt::format("is {} ({})", Quoted(value), fmt::join(names, ", ")));
}

bool Always(const SearchSettings& /*settings*/) { return true; }
bool WithHardware(const SearchSettings& settings) { return settings.NeedsHardware(); }

constexpr std::string_view kCollectives[] = {"model", "ring", "tree"};
constexpr std::string_view kDraws[] = {"shared", "per_graph"};
constexpr std::string_view kTorchDevices[] = {"cpu", "cuda"};
constexpr std::string_view kRewardSources[] = {"simulator", "hardware", "mixed"};
constexpr std::string_view kStatistics[] = {"median", "mean"};

}  // namespace

std::span<const Setting> AllSettings() {
  using S = SearchSettings;
  static const Setting kSettings[] = {
      {.name = "grouping",
       .member = &S::grouping,
       .placeholder = "NAME|FILE",
       .hint = "a grouper",
       .help = "How ops are grouped: a name of `emplace list groupers`, or a grouping.json (a name with a point or a "
               "slash). Default: the choice of the agent",
       .example = "colocation",
       .path = "graphs.grouping.name",
       .spec_path = "grouping.name",
       .names = [] { return NamesOf(AllGroupers()); },
       .check = CheckGrouping,
       .is_required = true},
      {.name = "groups",
       .member = &S::groups,
       .placeholder = "N",
       .hint = "a number of groups",
       .help = "Number of groups at which merge_and_colocate stops (default: 256, or that of the family's member)",
       .example = "8",
       .path = "graphs.grouping.groups",
       .spec_path = "grouping.groups",
       .least = 1,
       .most = std::uint64_t{1} << 32U,
       .is_required = true},
      {.name = "engine",
       .member = &S::engine,
       .placeholder = "NAME",
       .hint = "an engine",
       .help = "Simulation engine, of `emplace list engines` (default: fifo)",
       .example = "flow",
       .names = [] { return NamesOf(AllEngines()); },
       .check = CheckEngine,
       .is_required = true,
       .doors = kDocuments | static_cast<unsigned>(Door::kCommandLine),  // Python has it from its Simulator
       .is_simulation = true},
      {.name = "collectives",
       .member = &S::collectives,
       .placeholder = "model|ring|tree",
       .hint = "a way to time collectives",
       .help = "How collectives are timed: by a model, or as flows of a ring or a tree (default: model)",
       .example = "ring",
       .words = kCollectives,
       .doors = kDocuments | static_cast<unsigned>(Door::kCommandLine),  // Python has it from its Simulator
       .is_simulation = true},
      {.name = "label",
       .member = &S::label,
       .placeholder = "NAME",
       .hint = "a name",
       .help = "Name of the agent in reports (default: the agent's)",
       .example = "mine",
       .path = "agent.label",
       .is_written = Always,
       .doors = kDocuments},
      {.name = "agent",
       .member = &S::agent,
       .placeholder = "NAME",
       .hint = "an agent",
       .help = "Agent, of `emplace list agents`, or a class in Python, MODULE:CLASS (default: multilevel_search)",
       .example = "local_search",
       .path = "agent.name",
       .names = [] { return NamesOf(AllAgents()); },
       .check = CheckAgent,
       .is_required = true},
      {.name = "set",
       .member = &S::agent_options,
       .placeholder = "KEY=VALUE",
       .hint = "options",
       .help = "Options of the agent, which `emplace list agents` shows",
       .example = "final_ratio=0.5",
       .path = "agent.set",
       .keyword = "settings",
       .is_required = true},
      {.name = "evaluations",
       .member = &S::evaluations,
       .placeholder = "N",
       .hint = "a number of placements",
       .help = "Placements to simulate at most (default: what `emplace list agents` says)",
       .example = "20",
       .path = "budget.evaluations",
       .least = 1,
       .most = std::uint64_t{1} << 40U,
       .is_written = [](const S& settings) { return settings.episodes == 0; }},
      {.name = "episodes",
       .member = &S::episodes,
       .placeholder = "N",
       .hint = "a number of episodes",
       .help = "Instead of --evaluations: 1 + N times the number of groups",
       .example = "2",
       .path = "budget.episodes",
       .least = 1,
       .most = 1'000'000'000},
      {.name = "seconds",
       .member = &S::seconds,
       .placeholder = "S",
       .hint = "a number of seconds",
       .help = "Seconds to search at most. Without --evaluations, the budget is about what fits into them, so that "
               "schedules end in time; the answer then depends on the machine",
       .example = "30",
       .low = 0.001,
       .high = 1'000'000,
       .doors = static_cast<unsigned>(Door::kCommandLine)},
      {.name = "objective",
       .member = &S::objective,
       .placeholder = "NAME",
       .hint = "an objective",
       .help = "What to minimise, of `emplace list objectives`, its options behind a colon: "
               "throughput:crossing=host,memory=persistent (default: step_time)",
       .example = "throughput",
       .names = [] { return NamesOf(ListedObjectives()); },
       .check = CheckObjective},
      {.name = "schedule",
       .member = &S::schedule,
       .placeholder = "NAME|FILE",
       .hint = "a schedule",
       .help = "The graph is one micro-batch of a pipeline, which runs this schedule: gpipe, 1f1b, interleaved:V (V "
               "stages on each device), zb-h1, zb-v, or a file of torch.distributed.pipelining that ends in .csv "
               "(default: none, the graph is the whole step)",
       .example = "gpipe",
       .names = [] { return NamesOf(AllSchedules()); },
       .check = CheckSchedule,
       .may_be_none = true,
       .is_simulation = true},
      {.name = "micro_batches",
       .member = &S::micro_batches,
       .placeholder = "M",
       .hint = "a number of micro-batches",
       .help = "Micro-batches of the schedule (default: what its file has)",
       .example = "4",
       .least = 1,
       .most = kMaxActions,
       .is_simulation = true},
      {.name = "reward",
       .member = &S::reward,
       .placeholder = "NAME",
       .hint = "a reward",
       .help = "What agents maximise, of `emplace list rewards`, its options behind a colon: memory_penalty:c=2,M=8 "
               "(default: the choice of the agent)",
       .example = "log_runtime",
       .names = [] { return NamesOf(AllRewards()); },
       .check = CheckReward,
       .is_required = true},
      {.name = "start",
       .member = &S::start,
       .placeholder = "FILE|NAME",
       .hint = "a placement",
       .help = "Placement from which agents that search start: a file, the name of an agent that evaluates nothing, or "
               "best, the best of these. Default groups are split where the start has their ops on several devices",
       .example = "best",
       .names = [] { return NamesOf(PlacementNames()); },
       .check = CheckPlacement,
       .may_be_none = true},
      {.name = "incumbent",
       .member = &S::incumbent,
       .placeholder = "NAME",
       .hint = "a placement",
       .help = "Placement that is known before the search and costs no evaluation: what is found counts from there. "
               "The name of an agent that evaluates nothing, or best",
       .example = "single_device",
       .names = [] { return NamesOf(PlacementNames()); },
       .check = [](const std::string& value, Door) { CheckPlacement(value, Door::kSpec); },
       .may_be_none = true},
      {.name = "draws",
       .member = &S::draws,
       .placeholder = "shared|per_graph",
       .hint = "whose random numbers graphs have",
       .help = "Whether graphs share the random numbers of a seed, or have some of their own (default: shared)",
       .example = "per_graph",
       .words = kDraws,
       .doors = kDocuments},
      {.name = "torch_device",
       .member = &S::torch_device,
       .placeholder = "cpu|cuda",
       .hint = "a device of LibTorch",
       .help = "Where learning agents compute gradients (default: cpu)",
       .example = "cuda",
       .words = kTorchDevices},
      {.name = "threads",
       .member = &S::threads,
       .placeholder = "N",
       .hint = "a number of threads",
       .help = "Simulations to run at once; the result does not depend on it (default: one for each core)",
       .example = "1",
       .least = 1,
       .most = 1024,
       .doors = kCommands},
      {.name = "reward_source",
       .member = &S::reward_source,
       .placeholder = "NAME",
       .hint = "where rewards come from",
       .help = "What times placements during the search (default: simulator)",
       .example = "mixed",
       .spec_path = "hardware.reward_source",
       .words = kRewardSources,
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "share",
       .member = &S::share,
       .placeholder = "X",
       .hint = "a share",
       .help = "Share of evaluations that reward_source mixed measures (default: 0.1)",
       .example = "0.5",
       .path = "hardware.share",
       .low = 0.0001,
       .high = 0.9999,
       .is_written = [](const S& settings) { return settings.reward_source == "mixed"; },
       .doors = kDocuments},
      {.name = "validate_every",
       .member = &S::validate_every,
       .placeholder = "N",
       .hint = "a number of placements",
       .help = "One new best placement in this many is measured (default: none)",
       .example = "10",
       .spec_path = "hardware.validate_every",
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "warmups",
       .member = &S::warmups,
       .placeholder = "N",
       .hint = "a number of steps",
       .help = "Steps before those that are measured (default: 1)",
       .example = "2",
       .path = "hardware.warmups",
       .most = 1000,
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "steps",
       .member = &S::steps,
       .placeholder = "N",
       .hint = "a number of steps",
       .help = "Steps that are measured (default: 3)",
       .example = "5",
       .path = "hardware.steps",
       .least = 1,
       .most = 1000,
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "statistic",
       .member = &S::statistic,
       .placeholder = "median|mean",
       .hint = "median or mean",
       .help = "What is taken of the measured steps (default: median)",
       .example = "mean",
       .path = "hardware.statistic",
       .words = kStatistics,
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "patience",
       .member = &S::patience,
       .placeholder = "S",
       .hint = "a number of seconds",
       .help = "Seconds to wait for a quiet machine (default: 1)",
       .example = "2",
       .path = "hardware.patience",
       .high = 3600,
       .is_written = WithHardware,
       .doors = kDocuments},
      {.name = "interleave",
       .member = &S::interleave,
       .placeholder = "true|false",
       .hint = "true or false",
       .help = "Whether ops are run by themselves too between measured steps (default: false)",
       .example = "true",
       .path = "hardware.interleave",
       .doors = kDocuments},
      {.name = "seed",
       .member = &S::seed,
       .placeholder = "S",
       .hint = "a seed",
       .help = "Seed of all randomness: the same seed gives the same bytes (default: 1)",
       .example = "7",
       .most = std::numeric_limits<std::uint64_t>::max(),
       .is_required = true,
       .doors = kCommands | kOnlySpec},
  };
  return kSettings;
}

const Setting& FindSetting(std::string_view name) { return FindByName(AllSettings(), name, "setting"); }

std::string PlaceOf(const Setting& setting, Door door) {
  const std::string_view path = setting.path.empty() ? setting.name : setting.path;
  switch (door) {
    case Door::kExperiment:
      return std::string(path);
    case Door::kSpec:
      return std::string(setting.spec_path.empty() ? path : setting.spec_path);
    case Door::kPython:
      return std::string(setting.keyword.empty() ? setting.name : setting.keyword);
    case Door::kCommandLine:
      break;
  }
  std::string option = "--" + std::string(setting.name);
  std::ranges::replace(option, '_', '-');
  return option;
}

std::string PlaceOf(std::string_view setting, Door door) { return PlaceOf(FindSetting(setting), door); }

bool IsSet(const Setting& setting, const SearchSettings& settings) {
  static const SearchSettings defaults;
  return std::visit([&](auto member) { return settings.*member != defaults.*member; }, setting.member);
}

namespace {

bool IsNone(const std::string& value) { return value.empty() || value == "none"; }

void FindScheduleConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  const bool has_schedule = !IsNone(settings.schedule);
  if (settings.schedule.empty() && settings.micro_batches != 0) {
    conflicts->push_back({"micro_batches", "is used without a schedule ({schedule} gpipe ..)", /*is_missing=*/true});
  }
  if (!has_schedule) return;
  if (settings.engine != "fifo") {
    conflicts->push_back({"engine", fmt::format("{} runs no schedules (fifo)", Quoted(settings.engine))});
  }
  if (settings.micro_batches == 0 && !IsScheduleFile(settings.schedule)) {
    conflicts->push_back(
        {"micro_batches", fmt::format("is missing (how many {} is to run)", settings.schedule), /*is_missing=*/true});
  }
}

void FindAgentConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (settings.evaluations != 0 && settings.episodes != 0) {
    conflicts->push_back({"episodes", "cannot be used together with {evaluations} (one of them)"});
  }
  if (settings.groups != 0 && IsGroupingFile(settings.grouping)) {
    conflicts->push_back({"groups", "is not for a grouping of a file, which has its groups (leave it out)"});
  }
  if (!IsNone(settings.start) && !FindAgent(settings.agent).searches()) {
    conflicts->push_back({"start", fmt::format("agent {} does not search, so it has no start (an agent with more than "
                                               "one evaluation in `emplace list agents`)",
                                               settings.agent)});
  }
}

void FindHardwareConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (settings.share != 0 && settings.reward_source.empty()) {
    conflicts->push_back({"share", "is used without {reward_source} mixed", /*is_missing=*/true});
  }
  if (!IsNone(settings.incumbent) && settings.NeedsHardware()) {
    conflicts->push_back({"incumbent", "is simulated, so not with rewards from hardware (none)"});
  }
}

// `text` with {NAME} as PlaceOf.
std::string WithPlaces(std::string text, Door door) {
  for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at)) {
    const std::size_t end = text.find('}', at);
    const std::string place = PlaceOf(std::string_view(text).substr(at + 1, end - at - 1), door);
    text.replace(at, end + 1 - at, place);
    at += place.size();
  }
  return text;
}

void CheckValue(const Setting& setting, const SearchSettings& settings, Door door) {
  if (!IsSet(setting, settings)) return;
  const auto* const member = std::get_if<std::string SearchSettings::*>(&setting.member);
  if (member == nullptr) return;
  const std::string& value = settings.**member;
  const std::string place = PlaceOf(setting, door);
  if (!setting.words.empty() && std::ranges::count(setting.words, value) == 0) {
    throw InputError(place, fmt::format("is {} ({})", Quoted(value), fmt::join(setting.words, ", ")));
  }
  if (setting.check == nullptr || (setting.may_be_none && value == "none")) return;
  WithLocation(place, [&] { setting.check(value, door); });
}

}  // namespace

std::vector<SettingConflict> FindConflicts(const SearchSettings& settings) {
  std::vector<SettingConflict> conflicts;
  if (const auto find = FindObjective(settings.objective).find_conflicts) find(settings, &conflicts);
  FindScheduleConflicts(settings, &conflicts);
  FindAgentConflicts(settings, &conflicts);
  FindHardwareConflicts(settings, &conflicts);
  return conflicts;
}

void CheckSettings(const SearchSettings& settings, Door door, bool complete) {
  for (const Setting& setting : AllSettings()) CheckValue(setting, settings, door);
  std::vector<SettingConflict> conflicts = FindConflicts(settings);
  // An experiment without its sweep is checked first, and does not know what is missing.
  std::ranges::stable_sort(conflicts, {}, &SettingConflict::is_missing);
  if (!conflicts.empty() && (complete || !conflicts.front().is_missing)) {
    throw InputError(PlaceOf(conflicts.front().setting, door), WithPlaces(conflicts.front().text, door));
  }
  // To ask a class in Python takes a process, which the search starts anyway.
  if (!complete || settings.agent_options.empty() || IsPythonAgent(settings.agent)) return;
  WithLocation(PlaceOf("set", door),
               [&] { return MakeAgent(settings.agent, settings.agent_options, {.evaluations = kSomeBudget}); });
}

SearchSettings Resolved(SearchSettings settings) {
  for (const Setting& setting : AllSettings()) {
    if (!setting.may_be_none) continue;
    std::string& value = settings.*std::get<std::string SearchSettings::*>(setting.member);
    if (value == "none") value.clear();
  }
  if (settings.schedule.empty()) settings.micro_batches = 0;
  if (settings.reward_source.empty()) settings.reward_source = "simulator";
  if (settings.reward_source != "mixed") {
    settings.share = 0;
  } else if (settings.share == 0) {
    settings.share = kDefaultShare;
  }
  return settings;
}

std::string FileOf(const Setting& setting, const SearchSettings& settings) {
  if (setting.name == "grouping") return IsGroupingFile(settings.grouping) ? settings.grouping : "";
  if (setting.name == "start") return IsPlacementFile(settings.start) ? settings.start : "";
  if (setting.name == "schedule") return IsScheduleFile(settings.schedule) ? settings.schedule : "";
  return "";
}

bool IsScheduleFile(std::string_view name) {
  return name == "-" || name.ends_with(".csv") || name.ends_with(".csv.gz");
}

std::optional<ScheduleChoice> LoadSchedule(const SearchSettings& settings, Door door) {
  if (IsNone(settings.schedule)) return std::nullopt;
  ScheduleChoice choice{.name = settings.schedule, .micro_batches = settings.micro_batches};
  if (!IsScheduleFile(settings.schedule)) return choice;
  choice.given = ReadScheduleCsv(*OpenForReading(choice.name, InputKind::kSchedule), choice.name);
  const std::size_t in_file = choice.given->micro_batches;
  if (choice.micro_batches != 0 && choice.micro_batches != in_file) {
    throw InputError(PlaceOf("micro_batches", door),
                     fmt::format("is {}, but {} has {} (leave it out)", choice.micro_batches, choice.name, in_file));
  }
  choice.micro_batches = in_file;
  return choice;
}

}  // namespace emplace::agents
