// emplace bound.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class BoundTest : public EmplaceTest {
 protected:
  Ran Bound(const std::string& more = "") const { return Emplace("bound --graph g.json --cluster c.yaml " + more); }
};

TEST_F(BoundTest, ProvesTheOptimumAndWritesIt) {
  // a and b on one device: 4 + 4.
  const Ran ran = Bound("--json --placement-out best.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.bound");
  EXPECT_EQ(json.at("lower_bound_us"), 8);
  EXPECT_EQ(json.at("lower_bound_ns"), 8000);
  EXPECT_EQ(json.at("step_time_us"), 8);
  EXPECT_EQ(json.at("optimal"), true);
  EXPECT_EQ(json.at("method"), "critical path");
  EXPECT_GE(json.at("bounds").size(), 4U);
  const Ran again = Emplace("simulate --graph g.json --cluster c.yaml --placement best.json --json");
  EXPECT_EQ(nlohmann::json::parse(again.out).at("step_time_us"), 8);
  const Ran text = Bound();
  EXPECT_NE(text.out.find("optimal      8 us: no placement that fits is faster\n"), std::string::npos) << text.out;
}

TEST_F(BoundTest, EveryCommandSaysTheSameBound) {
  // c reads 5 us of tensors from each of a and b: 10 + 1 us without transfers, 10 + 5 + 1 with one of them.
  Write("g.json", R"({"schema": "emplace.graph", "version": 1, "name": "fork", "ops": [
    {"name": "a", "kind": "test", "time_us": 10, "outputs": [5000]},
    {"name": "b", "kind": "test", "time_us": 10, "outputs": [5000]},
    {"name": "c", "kind": "test", "time_us": 1, "inputs": ["a", "b"]}]})");
  const std::string problem = "--graph g.json --cluster c.yaml ";
  const auto placed = nlohmann::json::parse(Emplace("place " + problem + "--json -o p.json").out);
  EXPECT_EQ(placed.at("lower_bound_us"), 16);
  EXPECT_EQ(placed.at("best_bound_us"), 16);
  const std::string method = placed.at("lower_bound_method");
  const auto same = [&](const nlohmann::json& json) {
    EXPECT_EQ(json.at("lower_bound_us"), 16) << json;
    EXPECT_EQ(json.at("lower_bound_method"), method) << json;
  };
  same(nlohmann::json::parse(Emplace("simulate " + problem + "--json --placement p.json").out));
  same(nlohmann::json::parse(Emplace("explain " + problem + "--json --placement p.json").out));
  const auto compared = nlohmann::json::parse(Emplace("compare " + problem + "--json --agents heft,random").out);
  for (const auto& row : compared.at("results")) same(row);
  const Ran inspected = Emplace("inspect g.json --cluster c.yaml");
  EXPECT_NE(inspected.out.find("lower bound        16 us (" + method + ")\n"), std::string::npos) << inspected.out;
  EXPECT_EQ(nlohmann::json::parse(Bound("--json").out).at("lower_bound_us"), 16);
  Write("x.yaml",
        R"({schema: emplace.experiment, version: 1, name: x, graphs: {files: [g.json]}, cluster: {file: c.yaml},
    agent: {name: random}, budget: {evaluations: 5}})");
  ASSERT_EQ(Emplace("sweep x.yaml -o runs").status, 0);
  same(nlohmann::json::parse(Shell("cat runs/x/*/trial.json").out).at("graphs").at(0));
  // The published simulator is bounded by the simple argument alone.
  const auto published = nlohmann::json::parse(
      Emplace("simulate " + problem + "--json --placement p.json --engine placeto-reference").out);
  EXPECT_EQ(published.at("lower_bound_us"), 11);
}

TEST_F(BoundTest, SaysHowFarAPlacementIsAtMost) {
  // A chain of more ops than branch and bound takes, all on one device but the last.
  std::string ops;
  std::string devices;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "op" + std::to_string(1000 + i);
    ops += R"(,{"name": ")" + name + R"(", "kind": "test", "time_us": 1, "outputs": [1000])";
    if (i > 0) ops += R"(, "inputs": ["op)" + std::to_string(999 + i) + R"("])";
    ops += "}";
    devices += ",\"" + name + "\": \"gpu:" + (i < 99 ? "0" : "1") + "\"";
  }
  Write("g.json", R"({"schema": "emplace.graph", "version": 1, "name": "chain", "ops": [)" + ops.substr(1) + "]}");
  Write("p.json", R"({"schema": "emplace.placement", "version": 1, "devices": {)" + devices.substr(1) + "}}");
  const Ran ran = Bound("--placement p.json --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("lower_bound_us"), 100);
  EXPECT_EQ(json.at("step_time_us"), 101);
  EXPECT_NEAR(json.at("gap_percent").get<double>(), 1, 1e-9);
  EXPECT_EQ(json.at("optimal"), false);
  const Ran none = Bound("--placement-out best.json");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("has nothing to write"), std::string::npos) << none.err;
  EXPECT_NE(Shell("test -e best.json").status, 0);
}

TEST_F(BoundTest, BoundsTheStepsOfTheEngineThatIsNamed) {
  // Two tensors of 5,000 bytes leave the node together and share its link of 1,000 bytes a us.
  Write("g.json", R"({"schema": "emplace.graph", "version": 1, "name": "apart", "ops": [
    {"name": "a", "kind": "test", "time_us": {"left": 10}, "outputs": [5000]},
    {"name": "b", "kind": "test", "time_us": {"left": 10}, "outputs": [5000]},
    {"name": "c", "kind": "test", "time_us": {"right": 10}, "inputs": ["a"]},
    {"name": "d", "kind": "test", "time_us": {"right": 10}, "inputs": ["b"]}]})");
  Write("c.yaml", R"({schema: emplace.cluster, version: 1, name: nodes,
    devices: [{name: "gpu:0", kind: left, count: 2}, {name: "gpu:2", kind: right, count: 2}],
    topology: {switches: [hub], links: [
      {between: ["gpu:0", "hub"], bandwidth_gb_per_s: 1}, {between: ["gpu:1", "hub"], bandwidth_gb_per_s: 1},
      {between: ["hub", ["gpu:2", "gpu:3"]], bandwidth_gb_per_s: 1}]}})");
  const auto bound = [&](const std::string& engine) {
    const Ran ran = Bound("--json --engine " + engine);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  };
  for (const std::string engine : {"fifo", "flow"}) {
    const nlohmann::json json = bound(engine);
    EXPECT_EQ(json.at("engine"), engine);
    EXPECT_EQ(json.at("optimal"), true) << json;
    EXPECT_EQ(json.at("lower_bound_us"), json.at("step_time_us"));
  }
  const nlohmann::json published = bound("placeto-reference");
  EXPECT_EQ(published.at("bounds").size(), 2U) << published;
  EXPECT_EQ(published.at("optimal"), false);
  EXPECT_NE(Bound("--engine placeto-reference").out.find("No other argument holds for engine placeto-reference"),
            std::string::npos);
  EXPECT_EQ(Bound("--engine nosuch").status, 2);
}

TEST_F(BoundTest, NothingThatFitsIsAnHonestNo) {
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0);
  const Ran ran = Bound("--placement-out best.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("no placement on two fits in memory: every one was ruled out"), std::string::npos) << ran.err;
  EXPECT_NE(Shell("test -e best.json").status, 0);
}

TEST_F(BoundTest, RefusesBadInputInOneLine) {
  EXPECT_EQ(Emplace("bound --graph nosuch.json --cluster c.yaml").status, 2);
  ExpectRefused(Emplace("bound --graph nosuch.json --cluster c.yaml"),
                "nosuch.json: cannot be read (No such file or directory)");
  ExpectRefused(Bound("--placement g.json"), "g.json: schema: is the text \"emplace.graph\" (\"emplace.placement\")");
  ExpectRefused(Bound("--placement-out - --json"),
                "-: is used for both --placement-out and --json (one may be standard output)");
  EXPECT_EQ(Bound("--seconds 0").status, 2);
}

}  // namespace
}  // namespace emplace::testing
