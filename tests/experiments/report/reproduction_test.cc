#include "experiments/report/reproduction.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "experiments/report/reproduction_tables.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace reproduction_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

experiments::PublishedFigure Figure(const std::string& label, std::optional<double> value,
                                    const std::string& metric = "step_time") {
  return {.match = {{"graph.dataset", "nmt"}, {"agent.label", label}},
          .metric = metric,
          .value = value,
          .missing = value ? "" : "out of memory",
          .place = "table 1, NMT, " + label};
}

experiments::PublishedFigures Published(std::vector<experiments::PublishedFigure> figures) {
  return {.name = "t",
          .source = "someone",
          .figures = std::move(figures),
          .baselines = {{{"agent.label", "one"}}, {{"agent.label", "expert"}}}};
}

// Milliseconds; none: nothing fits.
SampleTrial Trial(const std::string& label, std::optional<double> best, int seed = 1) {
  return {.label = label, .dataset = "nmt", .seed = seed, .best = best ? std::optional(*best * 1000) : std::nullopt};
}

std::vector<experiments::ReproducedTable> Reproduce(const experiments::PublishedFigures& published,
                                                    const std::vector<experiments::TrialRecord>& trials) {
  std::vector<JsonValue> specs;
  specs.reserve(trials.size());
  for (const experiments::TrialRecord& trial : trials) specs.push_back(trial.spec);
  return experiments::ReproduceRow(experiments::RowsOf(published).front(), published, specs, trials);
}

std::string TextOf(const emplace::Table& table) {
  std::ostringstream out;
  table.PrintText(out);
  return out.str();
}

// Ours: expert 4, post (1 + 3) / 2 = 2, metis 2.5, walk 3, one does not fit; published: expert 8, post 2, metis 10.
const std::vector<SampleTrial>& Sample() {
  static const std::vector<SampleTrial> trials = {Trial("one", std::nullopt), Trial("expert", 4),  Trial("post", 1),
                                                  Trial("post", 3, 2),        Trial("metis", 2.5), Trial("walk", 3)};
  return trials;
}
experiments::PublishedFigures SamplePublished() {
  return Published(
      {Figure("one", std::nullopt), Figure("expert", 8), Figure("metis", 10), Figure("post", 2), Figure("pipes", 5)});
}

TEST(ReproductionTest, OursArePutBesideThePublishedFiguresWithRatiosToTheBaseline) {
  const auto tables = Reproduce(SamplePublished(), MakeRecords(Sample()));
  ASSERT_EQ(tables.size(), 1U);
  // `one` has no value on either side, so the expert is the baseline.
  EXPECT_EQ(tables[0].baseline, "expert");
  EXPECT_EQ(experiments::CaptionOf(tables[0]), "NMT (table 1): Step time of the best placement, ms");
  EXPECT_EQ(
      TextOf(experiments::MethodTable(tables[0])),
      "method  ours                   published      ours / expert  published / expert  our rank  published rank\n"
      "one     does not fit           out of memory              -                   -         -               -\n"
      "expert  4.000                  8                       1.00                1.00         3               2\n"
      "metis   2.500                  10                      0.62                1.25         2               3\n"
      "post    2.0 [1.0, 3.0]         2                       0.50                0.25         1               1\n"
      "pipes   not in the experiment  5                          -                0.62         -               -\n"
      "walk    3.000                  -                       0.75                   -         -               -\n");
}

// The paper's order is the same in two of (expert, metis), (expert, post), (metis, post): the last two. Ranks
// 3, 2, 1 and 2, 3, 1: 1 - 6 * 2 / (3 * 8) = 0.5.
TEST(ReproductionTest, TheOrdersOfMethodsThatBothHaveAreCompared) {
  const auto tables = Reproduce(SamplePublished(), MakeRecords(Sample()));
  ASSERT_EQ(tables[0].orders.size(), 1U);
  const experiments::OrderAgreement& order = tables[0].orders[0];
  EXPECT_THAT(order.labels, ElementsAre("post", "metis", "expert"));
  EXPECT_EQ(order.ordered, 3U);
  EXPECT_EQ(order.alike, 2U);
  EXPECT_EQ(order.reversed, 1U);
  EXPECT_NEAR(*order.spearman, 0.5, 1e-12);
  EXPECT_THAT(experiments::OrderTexts(tables[0]),
              ElementsAre("Of 3 pairs that the paper orders, 2 ordered alike here, 1 the other way round, 0 tied; rank "
                          "correlation (Spearman) 0.50. Our order, best first: post | metis | expert."));
}

TEST(ReproductionTest, TiesOfThePaperAreNoPairsAndTiesOfOursAreNeitherAlikeNorReversed) {
  const auto tables = Reproduce(Published({Figure("a", 5), Figure("b", 5), Figure("c", 6)}),
                                MakeRecords({Trial("a", 1), Trial("b", 2), Trial("c", 2)}));
  const experiments::OrderAgreement& order = tables[0].orders[0];
  EXPECT_EQ(order.ordered, 2U);
  EXPECT_EQ(order.alike, 1U);
  EXPECT_EQ(order.reversed, 0U);
  EXPECT_EQ(tables[0].baseline, "");
  const auto tied = Reproduce(Published({Figure("a", 5), Figure("b", 5)}), MakeRecords({Trial("a", 1), Trial("b", 2)}));
  EXPECT_THAT(experiments::OrderTexts(tied[0])[0], HasSubstr("The paper orders none of the pairs"));
}

// Ranks stand for a curve. A large improvement is the better one.
TEST(ReproductionTest, RanksOrderFiguresWithoutValues) {
  experiments::PublishedFigures published =
      Published({Figure("a", std::nullopt, "improvement"), Figure("b", std::nullopt, "improvement")});
  published.figures[0].rank = 1;
  published.figures[1].rank = 2;
  const auto tables = Reproduce(published, MakeRecords({Trial("a", 0.5), Trial("b", 0.7)}));
  EXPECT_THAT(tables[0].orders[0].labels, ElementsAre("a", "b"));
  EXPECT_EQ(tables[0].orders[0].alike, 1U);
  EXPECT_FALSE(tables[0].orders[0].spearman);
}

TEST(ReproductionTest, AFigureForSeveralMethodsIsComparedOnceForEachSetOfOptions) {
  const auto with_options = [](SampleTrial trial, const std::string& name, bool sign) {
    trial.name = name;
    experiments::TrialRecord record = MakeRecord(trial);
    JsonValue* const agent = [&record] {
      for (JsonMember& member : std::get<JsonObject>(record.spec.data)) {
        if (member.key == "agent") return &member.value;
      }
      return static_cast<JsonValue*>(nullptr);
    }();
    for (JsonMember& member : std::get<JsonObject>(agent->data)) {
      if (member.key == "set" && sign) member.value = {JsonObject{{"sign", {std::string("true")}}}};
    }
    return record;
  };
  experiments::PublishedFigures published = Published({Figure("", 5), Figure("", 4)});
  published.figures[0].match = {{"agent.name", "p"}};
  published.figures[1].match = {{"agent.name", "q"}};
  published.figures[1].place = "table 1, NMT, q";
  published.baselines = {{{"agent.name", "p"}}};
  const auto tables =
      Reproduce(published, {with_options(Trial("p 1", 10), "p", false), with_options(Trial("p 2", 4), "p", true),
                            with_options(Trial("q 1", 5), "q", false), with_options(Trial("q 2", 8), "q", true)});
  ASSERT_EQ(tables[0].orders.size(), 2U);
  EXPECT_THAT(tables[0].orders[0].labels, ElementsAre("q 1", "p 1"));
  EXPECT_EQ(tables[0].orders[0].alike, 1U);
  EXPECT_THAT(tables[0].orders[1].labels, ElementsAre("p 2", "q 2"));
  EXPECT_EQ(tables[0].orders[1].reversed, 1U);
  // Each is divided by the baseline with its own options.
  EXPECT_EQ(tables[0].methods[2].our_ratio, 0.5);
  EXPECT_EQ(tables[0].methods[3].our_ratio, 2);
  EXPECT_EQ(TextOf(experiments::AgreementTable(tables)),
            "row             metric     methods  pairs ordered  alike  reversed  rank correlation\n"
            "NMT: q 1 | p 1  step_time  2                    1      1         0                 -\n"
            "NMT: p 2 | q 2  step_time  2                    1      0         1                 -\n"
            "all             step_time                       2      1         1                 -\n");
}

TEST(ReproductionTest, ARowOfAveragesIsComparedWithTheSameAverages) {
  experiments::PublishedFigures published = Published({Figure("a", 5)});
  published.figures[0].over = {{"num_devices", {"2", "3"}}};
  SampleTrial two = Trial("a", 2);
  SampleTrial three = Trial("a", 4);
  three.devices = 3;
  auto tables = Reproduce(published, MakeRecords({two, three}));
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_DOUBLE_EQ(tables[0].methods[0].ours->mean, 3);
  // Nothing is dropped while some cells of the average are missing.
  tables = Reproduce(published, MakeRecords({two}));
  EXPECT_EQ(tables[0].methods[0].no_value, "not all trials finished");
}

TEST(ReproductionTest, RowsWithoutTrialsKeepTheirFigures) {
  const experiments::PublishedFigures published = SamplePublished();
  const experiments::TrialRecord planned = MakeRecord(Trial("post", 1));
  const auto tables = experiments::ReproduceRow(experiments::RowsOf(published)[0], published, {planned.spec}, {});
  ASSERT_EQ(tables[0].methods.size(), 5U);
  EXPECT_EQ(tables[0].methods[3].no_value, "no trial finished");
  EXPECT_EQ(tables[0].methods[4].no_value, "not in the experiment");
  EXPECT_TRUE(tables[0].orders.empty());
}

TEST(ReproductionTest, OursAreNotListedBesideFiguresOfMethodsThatTheExperimentLacks) {
  const auto tables = Reproduce(Published({Figure("pipes", 5)}), MakeRecords(Sample()));
  ASSERT_EQ(tables[0].methods.size(), 1U);
  EXPECT_EQ(tables[0].methods[0].no_value, "not in the experiment");
}

TEST(ReproductionTest, CsvHasALineForEachMethod) {
  std::ostringstream out;
  experiments::ReproductionCsv(Reproduce(SamplePublished(), MakeRecords(Sample()))).PrintCsv(out);
  EXPECT_THAT(out.str(), HasSubstr("NMT,step_time,ms,one,,,,does not fit,,out of memory,expert,,,,,\"table 1, NMT, "
                                   "one\"\n"));
  EXPECT_THAT(out.str(), HasSubstr("NMT,step_time,ms,post,2,1,3,,2,,expert,0.5,0.25,1,1,\"table 1, NMT, post\"\n"));
  EXPECT_THAT(out.str(), HasSubstr("NMT,step_time,ms,walk,3,,,,,,expert,0.75,,,,\n"));
}

}  // namespace reproduction_test
}  // namespace emplace::testing
