#include "agents/settings.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "agents/settings_json.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace settings_unit_test {

using agents::AllSettings;
using agents::Door;
using agents::SearchSettings;
using agents::Setting;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SettingsTest, NamesAreDistinctAtEveryDoor) {
  for (const Door door : {Door::kExperiment, Door::kSpec, Door::kCommandLine, Door::kPython}) {
    std::set<std::string> places;
    for (const Setting& setting : AllSettings()) {
      EXPECT_TRUE(places.insert(PlaceOf(setting, door)).second) << setting.name;
      EXPECT_NE(setting.help, "") << setting.name;
      EXPECT_NE(setting.hint.empty(), setting.unit.empty()) << setting.name;
    }
  }
  EXPECT_EQ(agents::PlaceOf("micro_batches", Door::kCommandLine), "--micro-batches");
  EXPECT_EQ(agents::PlaceOf("evaluations", Door::kExperiment), "budget.evaluations");
  EXPECT_EQ(agents::PlaceOf("groups", Door::kSpec), "grouping.groups");
  EXPECT_EQ(agents::PlaceOf("set", Door::kPython), "settings");
  EXPECT_EQ(agents::HintOf(agents::FindSetting("steps")), "a number of steps");
  EXPECT_EQ(agents::HintOf(agents::FindSetting("agent")), "an agent");
  const Setting& episodes = agents::FindSetting("episodes");
  EXPECT_THAT(agents::HelpOf(episodes, Door::kCommandLine), StartsWith("Set --evaluations to 1 + N"));
  EXPECT_THAT(agents::HelpOf(episodes, Door::kPython), StartsWith("Set evaluations to 1 + N"));
  EXPECT_TRUE(agents::IsGiven("1f1b"));
  EXPECT_FALSE(agents::IsGiven("none"));
  EXPECT_EQ(ErrorOf([] { agents::FindSetting("sead"); }).substr(0, 22), "unknown setting \"sead\"");
}

TEST(SettingsTest, WhatASpecHasIsReadAgain) {
  SearchSettings settings;
  settings.schedule = "1f1b";
  settings.micro_batches = 8;
  settings.grouping = "colocation";
  settings.reward = "runtime";
  settings.agent_options = {{"use_cpus", "true"}};
  settings.episodes = 3;
  settings.reward_source = "mixed";
  settings.measure_best = true;
  settings.share = 0.25;
  settings.seed = 9;
  settings.label = "mine";
  JsonObject spec;
  agents::AddSettings(settings, &spec);
  const JsonValue json{spec};
  SearchSettings read;
  agents::ReadSettings(JsonNode(json), Door::kSpec, &read);
  EXPECT_EQ(read, settings);
  std::erase_if(spec, [](const JsonMember& member) { return member.key == "reward"; });
  const JsonValue without{spec};
  EXPECT_EQ(ErrorOf([&] { agents::ReadSettings(JsonNode(without), Door::kSpec, &read); }),
            "reward: is missing (a reward)");
  EXPECT_THAT(agents::SettingKeys(Door::kSpec), Contains("grouping"));
  EXPECT_THAT(agents::SettingPaths(), Contains("agent.set.*"));
}

TEST(SettingsTest, EveryConflictIsFoundAndNamedByTheDoor) {
  SearchSettings settings;
  EXPECT_TRUE(FindConflicts(settings).empty());
  settings.objective = "throughput";
  settings.schedule = "gpipe";
  settings.engine = "flow";
  std::set<std::string> names;
  for (const agents::SettingConflict& conflict : FindConflicts(settings)) names.insert(conflict.setting);
  EXPECT_EQ(names, (std::set<std::string>{"engine", "micro_batches", "schedule"}));
  EXPECT_EQ(ErrorOf([&] { CheckSettings(settings, Door::kCommandLine); }),
            "--schedule: changes no load, so not with --objective throughput (--objective step_time)");
  EXPECT_EQ(ErrorOf([&] { CheckSettings(settings, Door::kPython); }),
            "schedule: changes no load, so not with objective throughput (objective step_time)");
  settings = {};
  settings.schedule = "gpipe";
  EXPECT_EQ(ErrorOf([&] { CheckSettings(settings, Door::kExperiment); }),
            "micro_batches: is missing (how many gpipe is to run)");
  CheckSettings(settings, Door::kExperiment, /*complete=*/false);
}

TEST(SettingsTest, NoneIsAsIfItWereNotGiven) {
  SearchSettings settings;
  settings.schedule = "none";
  settings.micro_batches = 4;  // the value of other cells of a sweep
  settings.start = "none";
  CheckSettings(settings, Door::kExperiment);
  const SearchSettings resolved = Resolved(settings);
  EXPECT_EQ(resolved.schedule, "");
  EXPECT_EQ(resolved.micro_batches, 0U);
  EXPECT_EQ(resolved.start, "");
  EXPECT_FALSE(LoadSchedule(resolved, Door::kExperiment).has_value());
}

TEST(SettingsTest, FilesAreToldFromNames) {
  SearchSettings settings;
  settings.grouping = "colocation";
  settings.start = "best";
  settings.schedule = "1f1b";
  for (const Setting& setting : AllSettings()) EXPECT_EQ(FileOf(setting, settings), "") << setting.name;
  settings.grouping = "g.json";
  settings.start = "p";
  settings.schedule = "s.csv.gz";
  EXPECT_EQ(FileOf(agents::FindSetting("grouping"), settings), "g.json");
  EXPECT_EQ(FileOf(agents::FindSetting("start"), settings), "p");
  EXPECT_EQ(FileOf(agents::FindSetting("schedule"), settings), "s.csv.gz");
  EXPECT_TRUE(agents::IsScheduleFile("-"));
  EXPECT_THAT(ErrorOf([&] { CheckSettings(settings, Door::kExperiment); }), HasSubstr("grouping"));
  EXPECT_TRUE(IsSet(agents::FindSetting("start"), settings));
  EXPECT_FALSE(IsSet(agents::FindSetting("seed"), settings));
}

}  // namespace settings_unit_test
}  // namespace emplace::testing
