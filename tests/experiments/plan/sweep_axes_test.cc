#include "experiments/plan/sweep_axes.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/formats/cluster_yaml.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace sweep_axes_test {

experiments::SweepCells Expand(const std::string& yaml) {
  std::istringstream in(yaml);
  const JsonValue root = ParseYaml(in);
  return experiments::ExpandSweep(JsonNode(root));
}

std::string Refusal(const std::string& yaml) {
  return ErrorOf([&] { Expand(yaml); });
}

// The settings of every cell: "engine=fifo seeds=3; ...".
std::string CellsText(const experiments::SweepCells& cells) {
  std::string text;
  for (const experiments::SweepCell& cell : cells.cells) {
    text += text.empty() ? "" : "; ";
    for (const experiments::SweepCell::Setting& setting : cell.settings) {
      text += (setting.path == cell.settings.front().path ? "" : " ") + experiments::SettingText(setting.value);
    }
  }
  return text;
}

TEST(SweepAxesTest, CellsAreTheCrossProductTheFirstAxisSlowest) {
  const experiments::SweepCells cells = Expand("{sweep: {engine: [a, b], reward: [x, y, z]}}");
  EXPECT_EQ(CellsText(cells), "a x; a y; a z; b x; b y; b z");
  EXPECT_EQ(experiments::SettingText(*FindPath(cells.cells.at(4).root, "reward")), "y");
  EXPECT_EQ(Expand("{engine: a}").cells.size(), 1U);
}

TEST(SweepAxesTest, AValueReplacesWhatStandsAtItsPathAndNothingElse) {
  const experiments::SweepCells cells =
      Expand("{agent: {name: a, set: {k: 1, l: 2}}, sweep: {agent.set.k: [5], graphs.set.n: [6]}}");
  const JsonValue& root = cells.cells.at(0).root;
  EXPECT_EQ(*FindPath(root, "agent.set.k")->As<std::int64_t>(), 5);
  EXPECT_EQ(*FindPath(root, "agent.set.l")->As<std::int64_t>(), 2);
  EXPECT_EQ(*FindPath(root, "graphs.set.n")->As<std::int64_t>(), 6);
  // A map is replaced as a whole, so one agent's options are not passed to the next.
  const experiments::SweepCells maps =
      Expand("{agent: {name: a, set: {k: 1}}, sweep: {agent: [{name: b}, {name: c}]}}");
  EXPECT_EQ(FindPath(maps.cells.at(1).root, "agent.set"), nullptr);
  EXPECT_EQ(FindPath(maps.cells.at(1).root, "sweep"), nullptr);
}

TEST(SweepAxesTest, ALargerPartMayComeBeforeASmallerOne) {
  EXPECT_EQ(CellsText(Expand("{sweep: {agent: [{name: a}, {name: b}], agent.set.k: [1, 2]}}")), "a 1; a 2; b 1; b 2");
  EXPECT_EQ(Refusal("{sweep: {agent.set.k: [1, 2], agent: [{name: a}]}}"),
            "sweep.agent: would undo agent.set.k above it (the larger part first)");
}

TEST(SweepAxesTest, ExcludedCellsAreThoseThatMatchAllPairsOfAnEntry) {
  const experiments::SweepCells cells = Expand(
      "{engine: e, sweep: {reward: [x, y, z], agent: [{name: a}, {name: b}]},"
      " exclude: [{reward: x, agent.name: a}, {reward: z, engine: e}]}");
  EXPECT_EQ(CellsText(cells), "x b; y a; y b");
  EXPECT_EQ(cells.excluded, 3U);
}

TEST(SweepAxesTest, WhatCannotBeSweptIsRefused) {
  EXPECT_EQ(Refusal("{sweep: [1]}"), "sweep: is a list of 1 element (key paths, each with a list of values)");
  EXPECT_EQ(Refusal("{sweep: {engine: fifo}}"), "sweep.engine: is the text \"fifo\" (a list of at least one value)");
  EXPECT_EQ(Refusal("{sweep: {engine: []}}"), "sweep.engine: is a list of 0 elements (a list of at least one value)");
  EXPECT_EQ(Refusal("{sweep: {engine: [a, b, a]}}"), "sweep.engine[2]: is a duplicate entry (each value once)");
  EXPECT_EQ(Refusal("{agent: 3, sweep: {agent.name: [a]}}"),
            "sweep[\"agent.name\"]: cannot be set: agent is not an object");
  for (const char* const path : {"name", "metrics", "agent.sets", "agent.set.", "agent.set.a.b", "graphs.", ".", ""}) {
    const std::string refusal = Refusal("{sweep: {\"" + std::string(path) + "\": [a]}}");
    EXPECT_NE(refusal.find(": unknown key path (graphs, graphs.dataset, "), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("agent.set.*"), std::string::npos) << refusal;
  }
  std::string numbers = "0";
  for (int i = 1; i < 317; ++i) numbers += ", " + std::to_string(i);
  EXPECT_EQ(Refusal("{sweep: {engine: [" + numbers + "], reward: [" + numbers + "]}}"),
            "sweep: has more than 100000 cells (fewer or shorter lists)");
}

TEST(SweepAxesTest, AnExclusionThatSaysNothingIsRefused) {
  const std::string sweep = "{sweep: {engine: [a, b]}, exclude: ";
  EXPECT_EQ(Refusal(sweep + "[{engine: c}]}"),
            "exclude[0]: matches no cell (key paths with values that some cell has)");
  EXPECT_EQ(Refusal(sweep + "[{engine: a}, {engine: b, reward: x}]}"),
            "exclude[1]: matches no cell (key paths with values that some cell has)");
  EXPECT_EQ(Refusal(sweep + "[{}]}"), "exclude[0]: is an object (at least one key path with a value)");
  EXPECT_EQ(Refusal(sweep + "[{engine: a}, {engine: b}]}"), "exclude: leaves nothing (at least one cell)");
  EXPECT_EQ(Refusal(sweep + "{engine: a}}"), "exclude: is an object (a list of objects, each of key paths and values)");
  EXPECT_EQ(Refusal(sweep + "[{steam: a}]}").rfind("exclude[0].steam: unknown key path (graphs, ", 0), 0U);
}

TEST(SweepAxesTest, AnErrorIsSaidToBeWhereItsValueStands) {
  const experiments::SweepCells cells =
      Expand("{sweep: {agent: [{name: a}, {name: b}], agent.set.k: [1], engine: [e]}}");
  const experiments::SweepCell& second = cells.cells.at(1);
  const auto placed = [&](const std::string& place) {
    return std::string(experiments::PlacedInSweep(InputError(place, "is wrong"), second).what());
  };
  EXPECT_EQ(placed("agent.name"), "sweep.agent[1].name: is wrong");
  EXPECT_EQ(placed("agent.set.k"), "sweep[\"agent.set.k\"][0]: is wrong");
  EXPECT_EQ(placed("engine"), "sweep.engine[0]: is wrong");
  EXPECT_EQ(placed("engines"), "engines: is wrong");
  EXPECT_EQ(placed("costs"), "costs: is wrong");
  // A field that is not swept may be wrong because of a swept one.
  const experiments::SweepCells options =
      Expand("{agent: {name: a}, sweep: {agent.set.k: [1], engine: [e], agent.set.l: [2]}}");
  EXPECT_STREQ(experiments::PlacedInSweep(InputError("agent.set", "is wrong"), options.cells.at(0)).what(),
               "agent.set: is wrong, where agent.set.k is 1 and agent.set.l is 2");
}

TEST(SweepAxesTest, ValuesOfOneNameAreToldApartByTheKeysThatDiffer) {
  const experiments::SweepCells cells =
      Expand("{sweep: {cluster: [{name: p, gpus: 1}, {name: p, gpus: 4}, {name: q}]}}");
  std::vector<std::string> texts;
  for (const experiments::SweepCell& cell : cells.cells) texts.push_back(cell.settings.at(0).text);
  EXPECT_EQ(texts, (std::vector<std::string>{"p gpus 1", "p gpus 4", "q"}));
  EXPECT_EQ(Refusal("{sweep: {cluster: [{name: p, gpus: 1}, {gpus: 1, name: p}]}}"),
            "sweep.cluster[1]: is a duplicate entry (each value once)");
}

TEST(SweepAxesTest, AMapIsNamedByItsLabel) {
  const auto text = [](const std::string& yaml) {
    std::istringstream in(yaml);
    return experiments::SettingText(ParseYaml(in));
  };
  EXPECT_EQ(text("{v: {label: l, name: n}}"), R"({"v":{"label":"l","name":"n"}})");
  EXPECT_EQ(text("{name: n, label: l}"), "l");
  EXPECT_EQ(text("{name: n}"), "n");
  EXPECT_EQ(text("{models: [{model: m, set: {k: 1}}, {model: n}], together: true}"), "m, n");
  EXPECT_EQ(text("[{name: n}, {k: 1}]"), R"(n, {"k":1})");
  EXPECT_EQ(text("[1, 2]"), "[1,2]");
  EXPECT_EQ(text("0.5"), "0.5");
}

}  // namespace sweep_axes_test
}  // namespace emplace::testing
