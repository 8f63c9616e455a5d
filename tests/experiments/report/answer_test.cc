#include "experiments/report/answer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

experiments::AnswerBlock Answer(const std::vector<SampleTrial>& samples) {
  const std::vector<experiments::TrialRecord> trials = MakeRecords(samples);
  return experiments::MakeAnswer("Which?", experiments::CompareAgents(trials, experiments::MakeReportGrid(trials)));
}

std::string Notes(const experiments::AnswerBlock& block) {
  std::string text;
  for (const std::string& note : block.notes) text += note + "\n";
  return text;
}

// Step times of the agents on as many graphs, each slightly longer than the one before; all differences are distinct.
std::vector<SampleTrial> OnGraphs(int graphs, const std::vector<std::pair<std::string, double>>& agents) {
  std::vector<SampleTrial> trials;
  for (int index = 0; index < graphs; ++index) {
    for (const auto& [label, best] : agents) {
      trials.push_back({.label = label, .name = label, .index = index, .best = best + index * best / 700});
    }
  }
  return trials;
}

TEST(ReportAnswerTest, AWinnerIsNamedWithItsLeadAndHowSureThatIs) {
  // 700 and 800 us against 1000: 30 and 20 %, less 0.05 for each graph; six of six in one direction, p = 2 / 2^6.
  const experiments::AnswerBlock block = Answer(OnGraphs(6, {{"post", 700}, {"heft", 800}}));
  EXPECT_EQ(block.question, "Which?");
  EXPECT_THAT(block.answer, HasSubstr("post wins: its step times are 29.75 % shorter than with everything on the "
                                      "fastest device. It leads heft, the next best, by 10.0"));
  EXPECT_THAT(block.answer, HasSubstr("]. That is significant over graphs: p = 0.031 over 6 graphs."));
  EXPECT_THAT(Notes(block), HasSubstr("Every agent in the figure solved all 6 problems."));
}

TEST(ReportAnswerTest, FewerSeedsOfAnAgentAreTold) {
  const auto trials = [](int seeds_of_b) {
    std::vector<SampleTrial> samples;
    for (int seed = 1; seed <= 6; ++seed) {
      samples.push_back({.label = "a", .name = "post", .seed = seed, .best = 700.0 + seed});
      if (seed <= seeds_of_b) samples.push_back({.label = "b", .name = "post", .seed = seed, .best = 800});
    }
    return samples;
  };
  EXPECT_THAT(Notes(Answer(trials(2))), HasSubstr("different numbers of trials of these problems: a 6, b 2."));
  EXPECT_THAT(Notes(Answer(trials(6))), Not(HasSubstr("different numbers")));
}

TEST(ReportAnswerTest, ALeadOnOneGraphIsOfThatGraph) {
  std::vector<SampleTrial> trials;
  for (int seed = 1; seed <= 6; ++seed) {
    trials.push_back({.label = "a", .name = "post", .seed = seed, .best = 700.0 + seed});
    trials.push_back({.label = "b", .name = "post", .seed = seed, .best = 800});
  }
  const experiments::AnswerBlock block = Answer(trials);
  EXPECT_THAT(block.answer, HasSubstr("a wins: "));
  EXPECT_THAT(block.answer, HasSubstr("That is significant for this graph alone: p = 0.031 over 6 pairs."));
}

TEST(ReportAnswerTest, ALeadThatMayBeChanceIsCalledThat) {
  // b is better on the odd graphs.
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 6; ++index) {
    trials.push_back({.label = "a", .name = "post", .index = index, .best = 700});
    trials.push_back(
        {.label = "b", .name = "post", .index = index, .best = index % 2 == 0 ? 720 + index : 690 - index});
    trials.push_back(
        {.label = "c", .name = "post", .index = index, .best = index % 2 == 0 ? 760 + index : 690 - index});
  }
  const experiments::AnswerBlock block = Answer(trials);
  EXPECT_THAT(block.answer, HasSubstr("a is ahead, but not for certain: "));
  EXPECT_THAT(block.answer, HasSubstr("That may be chance: p = "));
  EXPECT_THAT(Notes(block), HasSubstr("No test separates it from c."));
}

TEST(ReportAnswerTest, FewPairsAreNoProof) {
  EXPECT_THAT(Answer(OnGraphs(2, {{"post", 700}, {"heft", 800}})).answer,
              HasSubstr("It rests on 2 pairs, too few for a test to be sure."));
}

TEST(ReportAnswerTest, EqualAgentsAreLevel) {
  const experiments::AnswerBlock two = Answer(OnGraphs(6, {{"post", 700}, {"heft", 700}}));
  EXPECT_THAT(two.answer, HasSubstr("heft and post are level: their step times are 29.75 % shorter"));
  EXPECT_THAT(two.answer, HasSubstr("No agent is slower"));
  const experiments::AnswerBlock three = Answer(OnGraphs(8, {{"post", 700}, {"heft", 700}, {"sgdp", 800}}));
  EXPECT_THAT(three.answer, HasSubstr("heft and post are level: "));
  EXPECT_THAT(three.answer, HasSubstr("They lead sgdp, the next best, by 10.0"));
}

TEST(ReportAnswerTest, OneAgentHasNoRival) {
  const experiments::AnswerBlock block = Answer(OnGraphs(3, {{"post", 1100}}));
  EXPECT_EQ(
      block.answer,
      "post is the only agent here: its step times are 10.16 % longer than with everything on the fastest device.");
}

TEST(ReportAnswerTest, AgentsWithoutACommonSeedHaveNoTest) {
  const experiments::AnswerBlock block =
      Answer({{.label = "a", .seed = 1, .best = 700}, {.label = "b", .seed = 2, .best = 800}});
  EXPECT_THAT(block.answer, HasSubstr("a is ahead, but not for certain: "));
  EXPECT_THAT(
      block.answer,
      HasSubstr("It leads b, the next best, by 10.00 percentage points. They share no seed, so there is no test."));
}

TEST(ReportAnswerTest, ControlsAreSpokenOf) {
  EXPECT_THAT(Notes(Answer(OnGraphs(6, {{"random", 700}, {"heft", 800}}))),
              HasSubstr("random is a control: no other agent is ahead of it."));
  EXPECT_THAT(Notes(Answer(OnGraphs(6, {{"heft", 700}, {"random", 800}}))), HasSubstr("random is a control."));
  EXPECT_THAT(Notes(Answer(OnGraphs(6, {{"heft", 700}, {"post", 750}, {"random", 800}, {"round_robin", 900}}))),
              HasSubstr("The best control, random, is 10."));
}

TEST(ReportAnswerTest, WhatDoesNotCountIsSaid) {
  std::vector<SampleTrial> trials = OnGraphs(4, {{"post", 700}, {"heft", 800}, {"sgdp", 600}});
  for (SampleTrial& trial : trials) {
    if (trial.label == "heft" && trial.index == 3) trial.best.reset();
    if (trial.label == "sgdp" && trial.index != 3) trial.best.reset();
  }
  const std::string notes = Notes(Answer(trials));
  EXPECT_THAT(notes, HasSubstr("3 of 4 problems count: those that every agent in the figure solved."));
  EXPECT_THAT(notes, HasSubstr("Not in the figure, with too few problems solved: sgdp."));
}

TEST(ReportAnswerTest, TheFigureHasEveryAgentOneDeviceAndTheLowerBound) {
  const experiments::AnswerBlock block = Answer(OnGraphs(6, {{"post", 700}, {"random", 800}}));
  ASSERT_TRUE(block.figure);
  const auto spec = nlohmann::json::parse(block.figure->vega);
  const auto& agents = spec["data"][0]["values"];
  ASSERT_EQ(agents.size(), 2U);
  EXPECT_EQ(agents[0]["label"], "post");
  EXPECT_EQ(agents[1]["label"], "random");
  EXPECT_EQ(agents[1]["note"], " (control)");
  EXPECT_EQ(agents[1]["fill"], "Canvas");
  const auto& lines = spec["data"][1]["values"];
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["name"], "one device");
  EXPECT_EQ(lines[0]["at"], 0);
  EXPECT_EQ(lines[1]["name"], "lower bound");
  EXPECT_EQ(lines[1]["at"], 60);  // 400 of 1000 us
  EXPECT_THAT(block.figure->note, HasSubstr("Hollow dots are controls"));
  EXPECT_THAT(Answer(OnGraphs(2, {{"post", 700}})).figure->note, Not(HasSubstr("Hollow")));
}

TEST(ReportAnswerTest, WithoutAComparisonItSaysSo) {
  const experiments::AnswerBlock block = experiments::MakeAnswer("Which?", std::nullopt);
  EXPECT_THAT(block.answer, HasSubstr("There is no improvement to compare."));
  EXPECT_FALSE(block.figure);
}

TEST(ReportAnswerTest, RivalsAreThoseThatTheQuestionNames) {
  const std::vector<std::string> labels = {"placeto", "pgnn", "random walk", "random"};
  EXPECT_EQ(experiments::NamedInQuestion("Does P-GNN place better than Placeto's own embedding?", labels),
            (std::vector<std::string>{"pgnn", "placeto"}));
  EXPECT_TRUE(experiments::NamedInQuestion("Who is best?", labels).empty());
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 8; ++index) {
    for (const char* const label : {"pgnn", "placeto", "random"}) {
      SampleTrial trial{.label = label, .index = index};
      trial.best = std::string(label) == "random" ? 500 : std::string(label) == "pgnn" ? 800 + index : 900 - index;
      trials.push_back(trial);
    }
  }
  const auto records = MakeRecords(trials);
  const std::string text =
      experiments::RivalSentences("Does P-GNN beat Placeto?", records, experiments::MakeReportGrid(records));
  EXPECT_TRUE(text.starts_with("pgnn is ahead of placeto by ")) << text;
}

TEST(ReportAnswerTest, ASweepOfSettingsIsAnsweredBySettings) {
  // On both graphs, steps on 4 devices take half the time.
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 2; ++index) {
    for (const int devices : {2, 4}) {
      trials.push_back({.label = "a", .index = index, .devices = devices, .best = (1 + index) * 1600.0 / devices});
    }
  }
  const auto records = MakeRecords(trials);
  const auto settings = experiments::CompareSettings(records, experiments::MakeReportGrid(records));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->problems, 2U);
  EXPECT_EQ(experiments::SettingSentence(*settings),
            "Steps are shortest with 4 GPUs; they take 2 times as long with 2 GPUs (geometric means over 2 problems).");
  const auto comparison = experiments::CompareAgents(records, experiments::MakeReportGrid(records));
  EXPECT_TRUE(experiments::MakeAnswer("How many?", comparison, "", settings).answer.starts_with("Steps are shortest"));
  EXPECT_FALSE(experiments::CompareSettings(MakeRecords({{.index = 0}, {.index = 1}}),
                                            experiments::MakeReportGrid(MakeRecords({{.index = 0}, {.index = 1}}))));
}

}  // namespace
}  // namespace emplace::testing
