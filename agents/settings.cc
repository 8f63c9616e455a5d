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

constexpr std::size_t kSomeBudget = 1 << 20;  // arbitrary budget to check the options of an agent

bool IsDocument(Door door) { return (static_cast<unsigned>(door) & kDocuments) != 0; }

// Names of groupers hold neither a slash nor a dot, and those of placements are known: anything else is a file.
bool IsGroupingFile(std::string_view value) { return value.find_first_of("/.") != std::string_view::npos; }
bool IsPlacementFile(std::string_view value) {
  return IsGiven(value) && std::ranges::count(PlacementNames(), value) == 0;
}

void RefusePlacementFile(const std::string& value) {
  if (!IsPlacementFile(value)) return;
  throw InputError("", fmt::format("is {} (none, {})", Quoted(value), fmt::join(PlacementNames(), ", ")));
}

}  // namespace

const KnownNames kEngineNames = {
    .names = [] { return NamesOf(AllEngines()); },
    .check = [](const std::string& value, Door) { FindByName(AllEngines(), value, "engine"); }};
const KnownNames kObjectiveNames = {.names = [] { return NamesOf(ListedObjectives()); },
                                    .check = [](const std::string& value, Door) { FindObjective(value); }};
const KnownNames kScheduleNames = {.names = [] { return NamesOf(AllSchedules()); },
                                   .check =
                                       [](const std::string& value, Door door) {
                                         if (IsDocument(door) || !IsScheduleFile(value)) ParseScheduleName(value, "");
                                       },
                                   .is_file = IsScheduleFile};
const KnownNames kAgentNames = {.names = [] { return NamesOf(AllAgents()); },
                                .check = [](const std::string& value, Door) { FindAgent(value); }};
const KnownNames kGrouperNames = {.names = [] { return NamesOf(AllGroupers()); },
                                  .check =
                                      [](const std::string& value, Door door) {
                                        if (IsDocument(door) || !IsGroupingFile(value)) FindGrouper(value);
                                      },
                                  .is_file = IsGroupingFile};
const KnownNames kRewardNames = {.names = [] { return NamesOf(AllRewards()); },
                                 .check = [](const std::string& value, Door) { ParseReward(value); }};
const KnownNames kStartNames = {.names = [] { return NamesOf(PlacementNames()); },
                                .check =
                                    [](const std::string& value, Door door) {
                                      if (IsDocument(door)) RefusePlacementFile(value);
                                    },
                                .is_file = IsPlacementFile};
const KnownNames kIncumbentNames = {.names = kStartNames.names,
                                    .check = [](const std::string& value, Door) { RefusePlacementFile(value); }};

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

namespace {

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

}  // namespace

std::string HintOf(const Setting& setting) {
  return setting.hint.empty() ? fmt::format("a number of {}", setting.unit) : std::string(setting.hint);
}

std::string HelpOf(const Setting& setting, Door door) { return WithPlaces(std::string(setting.help), door); }

bool IsSet(const Setting& setting, const SearchSettings& settings) {
  static const SearchSettings defaults;
  return std::visit([&](auto member) { return settings.*member != defaults.*member; }, setting.member);
}

namespace {

void FindScheduleConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (settings.schedule.empty() && settings.micro_batches != 0) {
    conflicts->push_back({"micro_batches", "is used without a schedule ({schedule} gpipe ..)", /*is_missing=*/true});
  }
  if (!settings.HasSchedule()) return;
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
    conflicts->push_back(
        {"groups", "cannot be combined with a grouping from a file, which has its own groups (leave it out)"});
  }
  if (IsGiven(settings.start) && !FindAgent(settings.agent).searches()) {
    conflicts->push_back({"start", fmt::format("agent {} does not search, so it has no start (an agent with more than "
                                               "one evaluation in `emplace list agents`)",
                                               settings.agent)});
  }
}

void FindHardwareConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (settings.share != 0 && settings.reward_source.empty()) {
    conflicts->push_back({"share", "is used without {reward_source} mixed", /*is_missing=*/true});
  }
  if (settings.Validates() && settings.engine == "flow") {
    conflicts->push_back({"validate_every", "corrects links one by one, so not with {engine} flow (fifo)"});
  }
  if (IsGiven(settings.incumbent) && settings.MeasuresRewards()) {
    conflicts->push_back({"incumbent", "is simulated, so it cannot be combined with rewards from hardware (none)"});
  }
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
  if (setting.known == nullptr || (setting.may_be_none && value == "none")) return;
  WithLocation(place, [&] { setting.known->check(value, door); });
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
  if (setting.known == nullptr || setting.known->is_file == nullptr) return "";
  const std::string& value = settings.*std::get<std::string SearchSettings::*>(setting.member);
  return setting.known->is_file(value) ? value : "";
}

bool IsScheduleFile(std::string_view name) {
  return name == "-" || name.ends_with(".csv") || name.ends_with(".csv.gz");
}

std::optional<ScheduleChoice> LoadSchedule(const SearchSettings& settings, Door door) {
  if (!settings.HasSchedule()) return std::nullopt;
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
