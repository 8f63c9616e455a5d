#include "experiments/report/published.h"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>
#include <string>

#include "experiments/shipped_tables.h"
#include "tests/testing/errors.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace published_test {

using ::testing::HasSubstr;

constexpr const char* kFile =
    "schema: emplace.published\nversion: 1\nname: t\nsource: someone\nfigures:\n"
    "  - {match: {agent.name: random, num_devices: 2}, metric: improvement, value: 1.5, place: \"table 1\"}\n"
    "  - {match: {agent.name: random}, over: {num_devices: [2, 3]}, metric: improvement, value: 2, place: \"table "
    "2\"}\n";

experiments::PublishedFigures Read(const std::string& text) {
  std::istringstream in(text);
  return experiments::ReadPublished(in, "p.yaml");
}

TEST(PublishedTest, AFigureMatchesTrialsByKeyPathAndByNumberOfDevices) {
  const experiments::PublishedFigures published = Read(kFile);
  ASSERT_EQ(published.figures.size(), 2U);
  const experiments::PublishedFigure& figure = published.figures[0];
  EXPECT_EQ(figure.value, 1.5);
  EXPECT_EQ(experiments::FigureText(figure), "1.5");
  EXPECT_TRUE(experiments::Matches(figure, MakeRecord({.devices = 2})));
  EXPECT_FALSE(experiments::Matches(figure, MakeRecord({.devices = 3})));
  EXPECT_FALSE(experiments::Matches(figure, MakeRecord({.name = "other", .devices = 2})));
  // Figures match by the agent's name, not by its label.
  EXPECT_TRUE(experiments::Matches(figure, MakeRecord({.label = "other", .devices = 2})));
  EXPECT_EQ(published.figures[1].over.at("num_devices"), (std::vector<std::string>{"2", "3"}));
}

TEST(PublishedTest, OfGraphsTrainedTogetherCountsWhatAllSay) {
  const auto member = [](std::int64_t index) {
    return JsonValue{JsonObject{{"dataset", {std::string("nmt")}}, {"index", {index}}}};
  };
  experiments::TrialRecord trial = MakeRecord({});
  JsonValue& graphs = std::get<JsonObject>(trial.spec.data)[3].value;
  std::get<JsonObject>(trial.spec.data)[3].key = "together";
  graphs = {JsonList{member(1), member(2)}};
  EXPECT_EQ(experiments::MatchText(trial, "graph.dataset"), "nmt");
  EXPECT_EQ(experiments::MatchText(trial, "graph.index"), "");
  EXPECT_EQ(experiments::MatchText(trial, "graph.model"), "");
  graphs = {JsonList{member(1), {JsonObject{}}}};
  EXPECT_EQ(experiments::MatchText(trial, "graph.dataset"), "");
}

TEST(PublishedTest, TheThesisAgreesWithItself) {
  // The averages are plain means of the thesis's own cells, to the three printed decimals: over device counts (0.0005
  // of rounding in each cell and in the mean), then over datasets.
  const experiments::PublishedFigures thesis = experiments::LoadPublished("thesis");
  // 3 datasets x 3 agents x (2 metrics x 4 + 1) + 3 agents x 3.
  EXPECT_EQ(thesis.figures.size(), 90U);
  for (const experiments::PublishedFigure& mean : thesis.figures) {
    if (mean.over.empty() || mean.metric == "pc_ratio") continue;
    double sum = 0;
    double count = 0;
    for (const experiments::PublishedFigure& cell : thesis.figures) {
      if (!cell.over.empty() || cell.metric != mean.metric) continue;
      if (!std::includes(cell.match.begin(), cell.match.end(), mean.match.begin(), mean.match.end())) continue;
      sum += *cell.value;
      ++count;
    }
    EXPECT_EQ(count, mean.match.size() == 2 ? 3 : 9);
    EXPECT_NEAR(sum / count, *mean.value, 0.00105) << mean.place << ' ' << mean.metric;
  }
}

TEST(PublishedTest, BadTablesAreRefusedWithTheirPlace) {
  const auto error_of = [](const std::string& text) { return ErrorOf([&] { Read(text); }); };
  EXPECT_EQ(error_of(Replaced(kFile, "value: 1.5", "value: much")),
            "p.yaml: figures[0].value: is the text \"much\" (a number from -1e+18 to 1e+18)");
  EXPECT_EQ(error_of(Replaced(kFile, "value: 1.5, ", "")),
            "p.yaml: figures[0].value: is missing (a number, or `missing`: why there is none)");
  EXPECT_EQ(error_of(Replaced(kFile, "value: 1.5", "value: 1.5, missing: out of memory")),
            "p.yaml: figures[0]: has both value and missing (one of them)");
  EXPECT_EQ(error_of(Replaced(kFile, "value: 1.5", "value: 1.5, rank: 1")),
            "p.yaml: figures[0].rank: is not for a figure with a value");
  EXPECT_THAT(error_of(Replaced(kFile, "figures:", "baselines: 3\nfigures:")),
              HasSubstr("p.yaml: baselines: is the number 3"));
  EXPECT_EQ(error_of(Replaced(kFile, ", place: \"table 1\"", "")),
            "p.yaml: figures[0].place: is missing (table and row)");
  EXPECT_THAT(error_of(Replaced(kFile, "value: 1.5", "value: 1.5, extra: 1")),
              HasSubstr("figures[0].extra: unknown key"));
  EXPECT_THAT(error_of(Replaced(kFile, "[2, 3]", "2")), HasSubstr("figures[1].over.num_devices: is the number 2"));
  EXPECT_THAT(error_of(Replaced(kFile, "metric: improvement, value: 2", "metric: beauty, value: 2")),
              HasSubstr("figures[1].metric: unknown metric \"beauty\" (step_time, step_time_best, step_time_median"));
  EXPECT_THAT(error_of(Replaced(kFile, "emplace.published", "emplace.other")), HasSubstr("p.yaml: schema"));
}

TEST(PublishedTest, AFigureMayHaveAReasonAndARankInPlaceOfAValue) {
  const std::string file = Replaced(kFile, "value: 1.5", "missing: out of memory, rank: 2");
  const experiments::PublishedFigure figure = Read(file).figures[0];
  EXPECT_FALSE(figure.value);
  EXPECT_EQ(figure.rank, 2);
  EXPECT_EQ(experiments::FigureText(figure), "out of memory");
  EXPECT_TRUE(Read(file).baselines.empty());
  const auto baselines =
      Read(Replaced(kFile, "figures:", "baselines: [{agent.label: one}, {num_devices: 2}]\nfigures:")).baselines;
  ASSERT_EQ(baselines.size(), 2U);
  EXPECT_EQ(baselines[1].at("num_devices"), "2");
}

TEST(PublishedTest, ASpecTellsItsNumberOfDevices) {
  const JsonValue spec = MakeRecord({.label = "a", .devices = 3}).spec;
  EXPECT_EQ(experiments::MatchText(spec, "num_devices"), "3");
  EXPECT_EQ(experiments::MatchText(spec, "agent.label"), "a");
  EXPECT_EQ(experiments::MatchText(JsonValue{JsonObject{}}, "num_devices"), "");
}

TEST(PublishedTest, EveryShippedTableCanBeRead) {
  EXPECT_THAT(experiments::PublishedTableNames(), ::testing::IsSupersetOf({"hierarchical", "post", "sgdp", "thesis"}));
  for (const std::string_view name : experiments::PublishedTableNames()) {
    const experiments::PublishedFigures published = experiments::LoadPublished(std::string(name));
    EXPECT_EQ(published.name, name);
    EXPECT_FALSE(published.figures.empty()) << name;
  }
}

TEST(PublishedTest, ATableIsShippedOrAFile) {
  const std::string file = ::testing::TempDir() + "/published_test.yaml";
  WriteText(file, kFile);
  EXPECT_EQ(experiments::LoadPublished(file).figures.size(), 2U);
  EXPECT_EQ(ErrorOf([] { experiments::LoadPublished("nothing"); }),
            "published: there is no table \"nothing\" (a file, or one of: hierarchical, placeto, post, sgdp, thesis)");
}

}  // namespace published_test
}  // namespace emplace::testing
