#ifndef EMPLACE_AGENTS_SETTINGS_H_
#define EMPLACE_AGENTS_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/options.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::agents {

// All settings of a search that are names or numbers. Experiments, spec.json, the command line and Python fill the same
// struct through one list of its fields, AllSettings(); help texts and signatures are made from that list. To add a
// setting: a member here, its row in settings.cc, and the code that reads it.
struct SearchSettings {
  // The objective: how long a placement takes.
  std::string engine = "fifo";
  std::string collectives = "model";
  std::string objective = "step_time";  // as ParseObjective reads it
  std::string schedule = {};            // by name, or a file; "": a step has one batch
  std::size_t micro_batches = 0;        // of a schedule by name

  // The agent, and what it may do.
  std::string label = {};  // its name in reports
  std::string agent = "multilevel_search";
  OptionMap agent_options = {};
  std::size_t evaluations = 0;  // on each graph; 0: the agent's default
  std::size_t episodes = 0;     // if not 0, replaces evaluations: 1 + episodes * number of groups
  double seconds = 0;           // 0: no limit
  std::string grouping = {};    // a grouper, or a file; "": the agent's default
  std::size_t groups = 0;       // at which merge_and_colocate stops; 0: kDefaultGroups, or the family member's number
  std::string reward = {};      // as ParseReward reads it; "": the agent's default
  // Placements by name (named_placement.h), or a file; "": none. The search begins at `start`. What it finds counts
  // from `incumbent`, which costs no evaluation and is not shown to the agent; it changes nothing where it does not
  // fit.
  std::string start = {};
  std::string incumbent = {};

  std::uint64_t seed = 1;
  std::string draws = "shared";      // per_graph: each graph has random numbers of its own
  std::size_t threads = 0;           // 0: one for each core; results do not depend on it
  std::string torch_device = "cpu";  // of learning agents

  // Measurements on real devices during the search, and of its best placement.
  std::string reward_source = {};  // "": simulator
  std::size_t validate_every = 0;  // one new best placement in this many is measured; 0: none
  double share = 0;                // of evaluations that reward_source mixed measures, in (0, 1); 0: kDefaultShare
  std::size_t warmups = 1;         // steps before those that are measured
  std::size_t steps = 3;
  std::string statistic = "median";
  double patience = 1;        // seconds spent on steps that do not count because others disturbed a device
  bool interleave = false;    // between steps, ops are run by themselves too
  bool measure_best = false;  // at the end; always done if devices are used

  bool operator==(const SearchSettings&) const = default;

  // Whether devices are used during the search or at its end.
  bool NeedsHardware() const { return measure_best || MeasuresRewards() || validate_every > 0; }
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

// A row of the list: one member of SearchSettings.
struct Setting {
  using Member = std::variant<std::string SearchSettings::*, std::uint64_t SearchSettings::*, double SearchSettings::*,
                              bool SearchSettings::*, OptionMap SearchSettings::*>;

  std::string_view name;
  Member member;
  std::string_view placeholder;     // for the value in help texts
  std::string_view hint;            // what a value is: "a reward"
  std::string_view help;            // what it does, and the default
  std::string_view example;         // a valid value that is not the default
  std::string_view path = {};       // in experiments, if it is not the name
  std::string_view spec_path = {};  // in spec.json, if it is not `path`
  std::string_view keyword = {};    // in Python, if it is not the name
  std::uint64_t least = 0;          // of an integer
  std::uint64_t most = kMostInteger;
  double low = 0;  // of a number
  double high = 0;
  std::span<const std::string_view> words = {};   // the allowed ones; empty: any text that passes `check`
  std::vector<std::string> (*names)() = nullptr;  // the known ones, where a value may be something else too
  // Throws InputError on a value that is not allowed at this door.
  void (*check)(const std::string& value, Door door) = nullptr;
  bool may_be_none = false;  // "none" is a value: as if it were not given
  bool is_required = false;  // spec.json always has it
  // Whether spec.json has it otherwise. Null: if it is not the default.
  bool (*is_written)(const SearchSettings& settings) = nullptr;
  unsigned doors = 15;         // sum of Door
  bool is_simulation = false;  // also of commands that simulate and do not search

  static constexpr std::uint64_t kMostInteger = (std::uint64_t{1} << 62) - 1;

  bool Has(Door door) const { return (doors & static_cast<unsigned>(door)) != 0; }
};
// In the order of spec.json.
std::span<const Setting> AllSettings();
const Setting& FindSetting(std::string_view name);

// What the setting is called at this door: "--micro-batches", "micro_batches", "budget.evaluations".
std::string PlaceOf(const Setting& setting, Door door);
std::string PlaceOf(std::string_view setting, Door door);

// Whether it has another value than the default.
bool IsSet(const Setting& setting, const SearchSettings& settings);

// Two settings that contradict each other, or one that nothing would read.
struct SettingConflict {
  std::string setting;      // its name
  std::string text;         // other settings in it as {NAME}
  bool is_missing = false;  // what is given needs another setting, which a sweep may have
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
// A schedule is a file if its name ends in .csv or .csv.gz, or is "-".
bool IsScheduleFile(std::string_view name);
// Reads the file if it is one. none: a step has one batch. Throws InputError, its place the file or `door`'s name.
std::optional<ScheduleChoice> LoadSchedule(const SearchSettings& settings, Door door);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SETTINGS_H_
