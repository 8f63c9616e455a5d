#ifndef EMPLACE_AGENTS_SETTINGS_H_
#define EMPLACE_AGENTS_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/options.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::agents {

// Whether a name or a file is given: neither "" nor none.
inline bool IsGiven(std::string_view value) { return !value.empty() && value != "none"; }

// All settings of a search that are names or numbers. Experiments, spec.json, the command line and Python fill the same
// struct through one list of its fields, kAllSettings; help texts, signatures and reports are made from that list. To
// add a setting: a member here, its row below, and the code that reads it.
struct SearchSettings {
  // The settings alone of a struct that has more.
  SearchSettings& settings() { return *this; }
  const SearchSettings& settings() const { return *this; }

  // The objective: how long a placement takes.
  std::string engine = "fifo";
  std::string collectives = "model";
  std::string objective = "step_time";  // text for ParseObjective
  std::string schedule = {};            // name or file; "": a step has one batch
  std::size_t micro_batches = 0;        // number of micro-batches of a named schedule

  // The agent, and what it may do.
  std::string label = {};  // its name in reports
  std::string agent = "multilevel_search";
  OptionMap agent_options = {};
  std::size_t evaluations = 0;  // evaluations per graph; 0: the agent's default
  std::size_t episodes = 0;     // if not 0, replaces evaluations: 1 + episodes * number of groups
  double seconds = 0;           // 0: no limit
  std::string grouping = {};    // a grouper, or a file; "": the agent's default
  std::size_t groups =
      0;  // number of groups at which merge_and_colocate stops; 0: kDefaultGroups, or the number of the family's member
  std::string reward = {};  // text for ParseReward; "": the agent's default
  // Placements by name (named_placement.h), or a file; "": none. The search begins at `start`. What it finds counts
  // from `incumbent`, which costs no evaluation and is not shown to the agent; it changes nothing where it does not
  // fit.
  std::string start = {};
  std::string incumbent = {};

  std::uint64_t seed = 1;
  std::string draws = "shared";      // per_graph: each graph has random numbers of its own
  std::size_t threads = 0;           // 0: one for each core; results do not depend on it
  std::string torch_device = "cpu";  // device of learning agents

  // Measurements on real devices during the search, and of its best placement.
  std::string reward_source = {};  // "": simulator
  std::size_t validate_every = 0;  // evaluations between measurements of the best placement; 0: none
  double share = 0;         // share of evaluations that reward_source mixed measures, in (0, 1); 0: kDefaultShare
  std::size_t warmups = 1;  // steps before those that are measured
  std::size_t steps = 3;
  std::string statistic = "median";
  double patience = 1;        // seconds spent on steps that do not count because others disturbed a device
  bool interleave = false;    // between steps, ops are run by themselves too
  bool measure_best = false;  // measure the best placement at the end; always done if devices are used

  bool operator==(const SearchSettings&) const = default;

  // Whether devices are used during the search or at its end.
  bool NeedsHardware() const { return measure_best || MeasuresRewards() || validate_every > 0; }
  // Whether measurements correct the times of simulated rewards (SearchValidation).
  bool Validates() const { return validate_every > 0 && !MeasuresRewards(); }
  bool MixesRewards() const { return reward_source == "mixed"; }
  bool CountsEvaluations() const { return episodes == 0; }
  bool HasSchedule() const { return IsGiven(schedule); }
  bool MeasuresRewards() const { return !reward_source.empty() && reward_source != "simulator"; }
  // The budget on a graph of `num_groups` groups.
  std::size_t Budget(std::size_t num_groups) const { return episodes != 0 ? 1 + episodes * num_groups : evaluations; }
};

// The number of groups if neither the user nor the family says it.
inline constexpr std::size_t kDefaultGroups = 256;
inline constexpr double kDefaultShare = 0.1;

// A way in which users give settings. Each names them in its own manner (PlaceOf).
enum class Door : std::uint8_t {
  kExperiment = 1,   // experiment.yaml: a key path
  kSpec = 2,         // spec.json: a key path
  kCommandLine = 4,  // --NAME
  kPython = 8,       // a keyword
};
inline constexpr unsigned kDocuments = static_cast<unsigned>(Door::kExperiment) | static_cast<unsigned>(Door::kSpec);
inline constexpr unsigned kCommands = static_cast<unsigned>(Door::kCommandLine) | static_cast<unsigned>(Door::kPython);

// The names that a setting may have.
struct KnownNames {
  std::vector<std::string> (*names)();
  // Throws InputError on a value that is not allowed at this door.
  void (*check)(const std::string& value, Door door);
  bool (*is_file)(std::string_view value) = nullptr;  // whether a value names a file; null: none does
};
extern const KnownNames kEngineNames, kObjectiveNames, kScheduleNames, kAgentNames, kGrouperNames, kRewardNames,
    kStartNames, kIncumbentNames;

// A row of the list: one member of SearchSettings.
struct Setting {
  using Member = std::variant<std::string SearchSettings::*, std::uint64_t SearchSettings::*, double SearchSettings::*,
                              bool SearchSettings::*, OptionMap SearchSettings::*>;

  std::string_view name;
  Member member;
  std::string_view placeholder;     // placeholder for the value in help texts
  std::string_view hint = {};       // noun for a value: "a reward"; "": a number of `unit`
  std::string_view unit = {};       // what a number counts: "seconds"
  std::string_view help;            // description, with the default; other settings in it as {NAME}
  std::string_view example;         // a valid value that is not the default
  std::string_view path = {};       // key path in experiments, if it differs from the name
  std::string_view spec_path = {};  // key in spec.json, if it differs from `path`
  std::string_view keyword = {};    // keyword in Python, if it differs from the name
  std::uint64_t least = 0;          // smallest value of an integer
  std::uint64_t most = kMostInteger;
  double low = 0;  // smallest value of a number
  double high = 0;
  std::span<const std::string_view> words = {};  // the allowed ones; empty: `known`, or any
  const KnownNames* known = nullptr;             // where a value may be one of more names, or a file
  bool may_be_none = false;                      // "none" is a value: as if it were not given
  bool is_required = false;                      // spec.json always has it
  // Whether spec.json has it otherwise. Null: if it is not the default.
  bool (SearchSettings::*is_written)() const = nullptr;
  unsigned doors = 15;         // sum of Door
  bool is_simulation = false;  // also an option of commands that simulate and do not search

  static constexpr std::uint64_t kMostInteger = (std::uint64_t{1} << 62) - 1;

  bool Has(Door door) const { return (doors & static_cast<unsigned>(door)) != 0; }
};
// A schedule is a file if its name ends in .csv or .csv.gz, or is "-".
bool IsScheduleFile(std::string_view name);

inline constexpr std::string_view kCollectives[] = {"model", "ring", "tree"};
inline constexpr std::string_view kDraws[] = {"shared", "per_graph"};
inline constexpr std::string_view kTorchDevices[] = {"cpu", "cuda"};
inline constexpr std::string_view kRewardSources[] = {"simulator", "hardware", "mixed"};
inline constexpr std::string_view kStatistics[] = {"median", "mean"};

// The list, in the order of spec.json.
inline constexpr Setting kAllSettings[] = {
    {.name = "grouping",
     .member = &SearchSettings::grouping,
     .placeholder = "NAME|FILE",
     .hint = "a grouper",
     .help = "Grouping of ops: a name of `emplace list groupers`, or a grouping.json whose name contains a dot or a "
             "slash (default: that of the agent)",
     .example = "colocation",
     .path = "graphs.grouping.name",
     .spec_path = "grouping.name",
     .known = &kGrouperNames,
     .is_required = true},
    {.name = "groups",
     .member = &SearchSettings::groups,
     .placeholder = "N",
     .unit = "groups",
     .help = "Number of groups at which merge_and_colocate stops (default: 256, or that of the graph in its family)",
     .example = "8",
     .path = "graphs.grouping.groups",
     .spec_path = "grouping.groups",
     .least = 1,
     .most = std::uint64_t{1} << 32U,
     .is_required = true},
    {.name = "engine",
     .member = &SearchSettings::engine,
     .placeholder = "NAME",
     .hint = "an engine",
     .help = "Simulation engine of `emplace list engines` (default: fifo)",
     .example = "flow",
     .known = &kEngineNames,
     .is_required = true,
     .doors = kDocuments | static_cast<unsigned>(Door::kCommandLine),  // Python has it from its Simulator
     .is_simulation = true},
    {.name = "collectives",
     .member = &SearchSettings::collectives,
     .placeholder = "model|ring|tree",
     .hint = "a way to time collectives",
     .help = "How collectives are simulated: by a model, or as flows of a ring or a tree (default: model)",
     .example = "ring",
     .words = kCollectives,
     .doors = kDocuments | static_cast<unsigned>(Door::kCommandLine),  // Python has it from its Simulator
     .is_simulation = true},
    {.name = "label",
     .member = &SearchSettings::label,
     .placeholder = "NAME",
     .hint = "a name",
     .help = "Name of the agent in reports (default: the agent's)",
     .example = "mine",
     .path = "agent.label",
     .doors = kDocuments},
    {.name = "agent",
     .member = &SearchSettings::agent,
     .placeholder = "NAME",
     .hint = "an agent",
     .help = "Agent of `emplace list agents`, or a Python class, MODULE:CLASS (default: multilevel_search)",
     .example = "local_search",
     .path = "agent.name",
     .known = &kAgentNames,
     .is_required = true},
    {.name = "set",
     .member = &SearchSettings::agent_options,
     .placeholder = "KEY=VALUE",
     .hint = "options",
     .help = "Options of the agent, as shown by `emplace list agents`",
     .example = "final_ratio=0.5",
     .path = "agent.set",
     .keyword = "settings",
     .is_required = true},
    {.name = "evaluations",
     .member = &SearchSettings::evaluations,
     .placeholder = "N",
     .unit = "placements",
     .help = "Maximum number of placements to simulate (default: that of the agent in `emplace list agents`)",
     .example = "20",
     .path = "budget.evaluations",
     .least = 1,
     .most = std::uint64_t{1} << 40U,
     .is_written = &SearchSettings::CountsEvaluations},
    {.name = "episodes",
     .member = &SearchSettings::episodes,
     .placeholder = "N",
     .unit = "episodes",
     .help = "Set {evaluations} to 1 + N times the number of groups",
     .example = "2",
     .path = "budget.episodes",
     .least = 1,
     .most = 1'000'000'000},
    {.name = "seconds",
     .member = &SearchSettings::seconds,
     .placeholder = "S",
     .unit = "seconds",
     .help = "Time limit of the search in seconds. Without {evaluations}, the budget is estimated from it, so that "
             "annealing and learning schedules end in time; the result then depends on the machine",
     .example = "30",
     .low = 0.001,
     .high = 1'000'000,
     .doors = static_cast<unsigned>(Door::kCommandLine)},
    {.name = "objective",
     .member = &SearchSettings::objective,
     .placeholder = "NAME",
     .hint = "an objective",
     .help = "Objective of `emplace list objectives` to minimise, with options after a colon: "
             "throughput:crossing=host,memory=persistent (default: step_time)",
     .example = "throughput",
     .known = &kObjectiveNames},
    {.name = "schedule",
     .member = &SearchSettings::schedule,
     .placeholder = "NAME|FILE",
     .hint = "a schedule",
     .help = "Schedule of a pipeline of which the graph is one micro-batch: gpipe, 1f1b, interleaved:V (V stages on "
             "each device), zb-h1, zb-v, or a .csv file of torch.distributed.pipelining (default: none, the graph is "
             "the whole step)",
     .example = "gpipe",
     .known = &kScheduleNames,
     .may_be_none = true,
     .is_simulation = true},
    {.name = "micro_batches",
     .member = &SearchSettings::micro_batches,
     .placeholder = "M",
     .unit = "micro-batches",
     .help = "Number of micro-batches of the schedule (default: the number in its file)",
     .example = "4",
     .least = 1,
     .most = kMaxActions,
     .is_simulation = true},
    {.name = "reward",
     .member = &SearchSettings::reward,
     .placeholder = "NAME",
     .hint = "a reward",
     .help = "Reward of `emplace list rewards` that agents maximise, with options after a colon: "
             "memory_penalty:c=2,M=8 (default: that of the agent)",
     .example = "log_runtime",
     .known = &kRewardNames,
     .is_required = true},
    {.name = "start",
     .member = &SearchSettings::start,
     .placeholder = "FILE|NAME",
     .hint = "a placement",
     .help = "Placement from which searches start: a file, the name of an agent that evaluates nothing, or best, the "
             "best of these. Default groups are split if the start has their ops on several devices",
     .example = "best",
     .known = &kStartNames,
     .may_be_none = true},
    {.name = "incumbent",
     .member = &SearchSettings::incumbent,
     .placeholder = "NAME",
     .hint = "a placement",
     .help = "Placement that the search has to beat, which costs no evaluation: the name of an agent that evaluates "
             "nothing, or best",
     .example = "single_device",
     .known = &kIncumbentNames,
     .may_be_none = true},
    {.name = "draws",
     .member = &SearchSettings::draws,
     .placeholder = "shared|per_graph",
     .hint = "whose random numbers graphs have",
     .help = "Whether graphs share the random numbers of a seed, or have some of their own (default: shared)",
     .example = "per_graph",
     .words = kDraws,
     .doors = kDocuments},
    {.name = "torch_device",
     .member = &SearchSettings::torch_device,
     .placeholder = "cpu|cuda",
     .hint = "a device of LibTorch",
     .help = "Device on which learning agents compute gradients (default: cpu)",
     .example = "cuda",
     .words = kTorchDevices},
    {.name = "threads",
     .member = &SearchSettings::threads,
     .placeholder = "N",
     .unit = "threads",
     .help = "Number of simulations to run at once, which does not affect the result (default: one for each core)",
     .example = "1",
     .least = 1,
     .most = 1024,
     .doors = kCommands},
    {.name = "reward_source",
     .member = &SearchSettings::reward_source,
     .placeholder = "NAME",
     .hint = "where rewards come from",
     .help = "What times placements during the search (default: simulator)",
     .example = "mixed",
     .spec_path = "hardware.reward_source",
     .words = kRewardSources,
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments},
    {.name = "share",
     .member = &SearchSettings::share,
     .placeholder = "X",
     .hint = "a share",
     .help = "Share of evaluations that {reward_source} mixed measures (default: 0.1)",
     .example = "0.5",
     .path = "hardware.share",
     .low = 0.0001,
     .high = 0.9999,
     .is_written = &SearchSettings::MixesRewards,
     .doors = kDocuments},
    {.name = "validate_every",
     .member = &SearchSettings::validate_every,
     .placeholder = "N",
     .unit = "evaluations",
     .help = "Measure the best placement on real devices every N evaluations, a random one first, and the last best; "
             "search on with corrected times, and answer with one that was measured (default: 0, never)",
     .example = "10",
     .spec_path = "hardware.validate_every",
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments | static_cast<unsigned>(Door::kCommandLine)},
    {.name = "warmups",
     .member = &SearchSettings::warmups,
     .placeholder = "N",
     .unit = "steps",
     .help = "Steps before those that are measured (default: 1)",
     .example = "2",
     .path = "hardware.warmups",
     .most = 1000,
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments},
    {.name = "steps",
     .member = &SearchSettings::steps,
     .placeholder = "N",
     .unit = "steps",
     .help = "Steps that are measured (default: 3)",
     .example = "5",
     .path = "hardware.steps",
     .least = 1,
     .most = 1000,
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments},
    {.name = "statistic",
     .member = &SearchSettings::statistic,
     .placeholder = "median|mean",
     .hint = "median or mean",
     .help = "What is taken of the measured steps (default: median)",
     .example = "mean",
     .path = "hardware.statistic",
     .words = kStatistics,
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments},
    {.name = "patience",
     .member = &SearchSettings::patience,
     .placeholder = "S",
     .unit = "seconds",
     .help = "Seconds to wait for a quiet machine (default: 1)",
     .example = "2",
     .path = "hardware.patience",
     .high = 3600,
     .is_written = &SearchSettings::NeedsHardware,
     .doors = kDocuments},
    {.name = "interleave",
     .member = &SearchSettings::interleave,
     .placeholder = "true|false",
     .hint = "true or false",
     .help = "Whether ops are run by themselves too between measured steps (default: false)",
     .example = "true",
     .path = "hardware.interleave",
     .doors = kDocuments},
    {.name = "seed",
     .member = &SearchSettings::seed,
     .placeholder = "S",
     .hint = "a seed",
     .help = "Random seed: the same seed gives the same result (default: 1)",
     .example = "7",
     .most = std::numeric_limits<std::uint64_t>::max(),
     .is_required = true,
     .doors = kCommands | static_cast<unsigned>(Door::kSpec)},
};
inline std::span<const Setting> AllSettings() { return kAllSettings; }
const Setting& FindSetting(std::string_view name);

// The name of the setting at this door: "--micro-batches", "micro_batches", "budget.evaluations".
std::string PlaceOf(const Setting& setting, Door door);
std::string PlaceOf(std::string_view setting, Door door);

// What a value of it is: "a reward", "a number of steps".
std::string HintOf(const Setting& setting);
// What it does, with other settings as PlaceOf.
std::string HelpOf(const Setting& setting, Door door);

// Whether it has another value than the default.
bool IsSet(const Setting& setting, const SearchSettings& settings);

// Two settings that contradict each other, or one that nothing would read.
struct SettingConflict {
  std::string setting;      // its name
  std::string text;         // other settings in it as {NAME}
  bool is_missing = false;  // whether another setting is missing, which a sweep may add
};
// Every conflict, in the order of AllSettings().
std::vector<SettingConflict> FindConflicts(const SearchSettings& settings);

// Throws InputError, its place PlaceOf, on a value that is not allowed and on the first conflict. With `complete`
// false, settings may still be missing.
void CheckSettings(const SearchSettings& settings, Door door, bool complete = true);

// The same with every "none" as if it were not given, and without what only it would read. Requires: CheckSettings.
SearchSettings Resolved(SearchSettings settings);

// The file that a setting's value names; "" if it is not a file.
std::string FileOf(const Setting& setting, const SearchSettings& settings);
// Reads the file if it is one. none: a step has one batch. Throws InputError, its place the file or `door`'s name.
std::optional<ScheduleChoice> LoadSchedule(const SearchSettings& settings, Door door);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SETTINGS_H_
