#include "sim/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

struct Options {
  std::int64_t steps = 10;
  double rate = 0.5;
  bool greedy = false;
  std::string mode = "fast";
  std::string label = "any";
};

// Reads options as an agent does.
Options ReadAll(const OptionMap& values) {
  Options options;
  OptionReader reader(values, "agent");
  reader.Read("steps", &options.steps, 1, 100, "how many");
  reader.Read("rate", &options.rate, 0.0, 1.0, "how fast");
  reader.Read("greedy", &options.greedy, "whether");
  reader.Read("mode", &options.mode, {"fast", "slow"}, "how");
  reader.Read("label", &options.label, {}, "free text");
  reader.Finish();
  return options;
}

TEST(OptionsTest, WhatIsNotGivenKeepsItsDefault) {
  const Options options = ReadAll({});
  EXPECT_EQ(options.steps, 10);
  EXPECT_EQ(options.rate, 0.5);
  EXPECT_FALSE(options.greedy);
  EXPECT_EQ(options.mode, "fast");
}

TEST(OptionsTest, ReadsEveryType) {
  const Options options =
      ReadAll({{"steps", "100"}, {"rate", "2.5e-1"}, {"greedy", "true"}, {"mode", "slow"}, {"label", "a b"}});
  EXPECT_EQ(options.steps, 100);
  EXPECT_EQ(options.rate, 0.25);
  EXPECT_TRUE(options.greedy);
  EXPECT_EQ(options.mode, "slow");
  EXPECT_EQ(options.label, "a b");
}

TEST(OptionsTest, SaysWhatIsWrongAndWhatIsAllowed) {
  const auto error = [](const std::string& key, const std::string& value) {
    return ErrorOf([&] { ReadAll({{key, value}}); });
  };
  for (const std::string value : {"0", "101", "-5"}) {
    EXPECT_EQ(error("steps", value), "agent: steps must be 1..100, got " + value);
  }
  for (const std::string value : {"-0.1", "1.1"}) {
    EXPECT_EQ(error("rate", value), "agent: rate must be 0..1, got " + value);
  }
  for (const std::string value : {"1.0", "x", "", " 5", "5 ", "99999999999999999999"}) {
    EXPECT_EQ(error("steps", value), "agent.steps: is \"" + value + "\" (an integer from 1 to 100)");
  }
  for (const std::string value : {"nan", "inf", "x", "", "0.5x", "1e999"}) {
    EXPECT_EQ(error("rate", value), "agent.rate: is \"" + value + "\" (a number from 0 to 1)");
  }
  EXPECT_EQ(error("greedy", "yes"), "agent.greedy: is \"yes\" (true or false)");
  EXPECT_EQ(error("mode", "Fast"), "agent.mode: is \"Fast\" (fast, slow)");
  EXPECT_EQ(error("stepz", "1"), "agent.stepz: unknown option (steps, rate, greedy, mode, label); did you mean steps?");
}

TEST(OptionsTest, SaysThatThereAreNone) {
  const OptionMap values = {{"a", "1"}};
  EXPECT_EQ(ErrorOf([&] { OptionReader(values, "random").Finish(); }), "random.a: unknown option (random has none)");
}

TEST(OptionsTest, RemembersWhatWasDeclared) {
  const OptionMap values = {{"rate", "0.25"}};
  OptionReader reader(values, "agent");
  Options options;
  reader.Read("rate", &options.rate, 0.0, 1.0, "how fast");
  reader.Read("greedy", &options.greedy, "whether");
  ASSERT_EQ(reader.declared().size(), 2U);
  EXPECT_EQ(reader.declared()[0].key, "rate");
  EXPECT_EQ(reader.declared()[0].default_value, "0.5") << "the default, not what was read";
  EXPECT_EQ(reader.declared()[0].help, "how fast");
  EXPECT_EQ(reader.declared()[1].default_value, "false");
}

TEST(OptionsTest, ASettingIsAKeyAndAValueAndIsMadeOnce) {
  OptionMap map;
  AddSetting("rate=0.5=x", "--set", &map);
  EXPECT_EQ(map, (OptionMap{{"rate", "0.5=x"}}));
  EXPECT_EQ(ErrorOf([&] { AddSetting("rate=1", "--set", &map); }), "--set: \"rate\" is set twice (once)");
  for (const std::string_view setting : {"rate", "=1"}) {
    EXPECT_THAT(ErrorOf([&] { AddSetting(setting, "--set", &map); }),
                ::testing::EndsWith("is not a setting (key=value)"));
  }
}

TEST(OptionsTest, ANameMayHaveOptionsBehindAColon) {
  const NamedOptions plain = ParseNamedOptions("runtime");
  EXPECT_EQ(plain.name, "runtime");
  EXPECT_TRUE(plain.options.empty());
  const NamedOptions set = ParseNamedOptions("penalty:c=2,M=8");
  EXPECT_EQ(set.name, "penalty");
  EXPECT_EQ(set.options, (OptionMap{{"c", "2"}, {"M", "8"}}));
  EXPECT_EQ(ErrorOf([] { ParseNamedOptions("penalty:c"); }), "penalty: \"c\" is not a setting (key=value)");
}

}  // namespace
}  // namespace emplace
