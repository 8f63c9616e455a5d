// emplace library: list, show, check and score from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class LibraryCommandTest : public EmplaceTest {
 protected:
  // p.json becomes a placement of everything on one device of an instance.
  void PlaceOnOne(const std::string& instance, const std::string& device) const {
    ASSERT_EQ(Emplace("library show " + instance + " --graph-out g.json --cluster-out c.yaml").status, 0);
    const json graph = json::parse(Read("g.json"));
    json placement = {{"schema", "emplace.placement"}, {"version", 1}, {"graph", graph["name"]}, {"cluster", instance}};
    for (const json& op : graph["ops"]) placement["devices"][op["name"].get<std::string>()] = device;
    Write("p.json", placement.dump());
  }
};

TEST_F(LibraryCommandTest, ListHasARowForEachInstanceAndASummary) {
  const json list = json::parse(Emplace("library list --tier huge --json").out);
  EXPECT_EQ(list["schema"], "emplace.library_list");
  ASSERT_EQ(list["instances"].size(), 4U);
  EXPECT_EQ(list["instances"][0]["tier"], "huge");
  EXPECT_EQ(list["instances"][0]["hash"].get<std::string>().size(), 16U);
  const Ran text = Emplace("library list");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("\nchain-8-equal-2 "));
  EXPECT_THAT(text.out, HasSubstr("\nhuge    up to 100000          4"));
}

TEST_F(LibraryCommandTest, WhatShowWritesIsWhatOtherCommandsTake) {
  PlaceOnOne("chain-8-equal-2", "gpu:0");
  const json result = json::parse(Emplace("simulate --graph g.json --cluster c.yaml --placement p.json --json").out);
  const json verdict = json::parse(Emplace("library check p.json --json").out);
  EXPECT_EQ(verdict["instance"], "chain-8-equal-2");
  EXPECT_EQ(verdict["step_time_ns"], result["step_time_us"].get<double>() * 1000);
  // One device is optimal for a chain.
  EXPECT_EQ(verdict["verdict"], "equal");
  EXPECT_EQ(verdict["gap_percent"], 0);
  const json shown = json::parse(Emplace("library show chain-8-equal-2 --json").out);
  EXPECT_EQ(shown["hash"], shown["computed_hash"]);
  EXPECT_EQ(shown["step_time_ns"], verdict["step_time_ns"]);
}

TEST_F(LibraryCommandTest, APlantedPlacementIsAsGoodAsTheBestKnown) {
  ASSERT_EQ(Emplace("library show planted-20-equal-4 --planted-out p.json").status, 0);
  EXPECT_THAT(Emplace("library check p.json").out, HasSubstr("verdict     equal to the best known\n"));
  ExpectRefused(Emplace("library show chain-8-equal-2 --planted-out p.json"),
                "--planted-out: instance chain-8-equal-2 was not built around a placement");
}

TEST_F(LibraryCommandTest, CheckSaysHowFarAPlacementIsBehind) {
  PlaceOnOne("independent-16-equal-4", "gpu:2");
  const Ran ran = Emplace("library check p.json");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr(" % behind the best known\n"));
  const Ran differs = Emplace("library check p.json --step-time-ns 5");
  EXPECT_EQ(differs.status, 1);
  EXPECT_THAT(differs.out, HasSubstr("verdict     differs from the 5 ns that were expected\n"));
}

TEST_F(LibraryCommandTest, WhatDoesNotFitIsAnHonestNo) {
  PlaceOnOne("layered-12-equal-2-tight", "gpu:1");
  const Ran ran = Emplace("library check p.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, HasSubstr("memory      gpu:1 is over by "));
  EXPECT_THAT(ran.out, HasSubstr("verdict     does not fit in memory\n"));
  EXPECT_EQ(json::parse(Emplace("library check p.json --json").out)["verdict"], "does not fit");
}

TEST_F(LibraryCommandTest, BadInputIsRefusedLengthy) {
  const Ran unknown = Emplace("library show chain-8-equal-9");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(IsOneLine(unknown.err));
  EXPECT_THAT(unknown.err, HasSubstr("unknown instance \"chain-8-equal-9\" (the nearest are chain-8-equal-2, "));
  ExpectRefused(Emplace("library"), "library: a command is missing (list, show, check, score; emplace library --help)");
  ExpectRefused(Emplace("library lst"),
                "library: unknown command \"lst\" (list, show, check, score); did you mean list?");
  ExpectRefused(Emplace("library list --tier big"),
                "--tier: unknown tier \"big\" (tiny, small, medium, large or huge)");
  ExpectRefused(Emplace("library check none.json"), "none.json: cannot be read (No such file or directory)");
  ExpectRefused(Emplace("library check p.json --instance ''"),
                "--instance: is empty (a value) (see emplace library --help)");
  ExpectRefused(
      Emplace("library check p.json"),
      "p.json: is of graph \"pair\" and cluster \"two\", which are those of no instance (say which one it is of with "
      "--instance)");
  EXPECT_THAT(Emplace("library check p.json --instance chain-8-equal-2").err, HasSubstr("p.json: devices"));
  EXPECT_THAT(Emplace("library check g.json").err, HasSubstr("g.json: schema: is the text \"emplace.graph\""));
  Write("cut.json", "{\"schema\": \"emplace.placement\", ");
  EXPECT_EQ(Emplace("library check cut.json").status, 2);
  EXPECT_THAT(Emplace("library score nobody -o out").err, HasSubstr("AGENT: unknown agent \"nobody\" ("));
  EXPECT_THAT(Emplace("library score annealing --set x=1 -o out").err, HasSubstr("annealing"));
  EXPECT_THAT(Emplace("library score heft --instances nothing -o out").err, HasSubstr("--instances: unknown instance"));
  EXPECT_FALSE(Exists("out"));
}

TEST_F(LibraryCommandTest, APlacementThatSplitsAColocationIsRefused) {
  PlaceOnOne("layered-14-equal-2-colocated", "gpu:0");
  json placement = json::parse(Read("p.json"));
  const json graph = json::parse(Read("g.json"));
  for (const json& op : graph["ops"]) {
    if (op.contains("colocate_with")) placement["devices"][op["name"].get<std::string>()] = "gpu:1";
  }
  Write("p.json", placement.dump());
  const Ran ran = Emplace("library check p.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
}

TEST_F(LibraryCommandTest, ScoresDependOnNeitherJobsNorInterruptionsLengthy) {
  const std::string command = "library score annealing --instances chain-8-equal-2,layered-8-equal-2 --budgets 5,50 ";
  const Ran first = Emplace(command + "--jobs 2 -o a");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("gap % at 50"));
  EXPECT_THAT(Read("a/index.html"), HasSubstr("<table"));
  ASSERT_EQ(Emplace(command + "--jobs 1 --seconds 0.01 -o b").status, 0);
  EXPECT_EQ(Read("a/annealing/scores.json"), Read("b/annealing/scores.json"));
  const json times = json::parse(Read("b/annealing/times.json"));
  EXPECT_EQ(times["instances"][0]["seconds"].size(), 2U);
  EXPECT_EQ(times["instances"][0]["by_the_clock"]["found"], true);
  // An instance that is done is not run again; a damaged file is.
  Shell("rm a/annealing/scores.json; echo '{' > a/annealing/instances/chain-8-equal-2.json");
  const std::string kept = Read("a/annealing/instances/layered-8-equal-2.json");
  ASSERT_EQ(Emplace(command + "-o a").status, 0);
  EXPECT_EQ(Read("a/annealing/scores.json"), Read("b/annealing/scores.json"));
  EXPECT_EQ(Read("a/annealing/instances/layered-8-equal-2.json"), kept);
}

TEST_F(LibraryCommandTest, ThePageSetsSearchersBesideEachOther) {
  ASSERT_EQ(Emplace("library score heft --instances layered-8-equal-2 --budgets 5 -o a").status, 0);
  const Ran second = Emplace("library score cpu_only --instances layered-8-equal-2 --budgets 5 --label mine -o a");
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("layered-8-equal-2: nothing found: the cluster has no CPU"));
  EXPECT_THAT(second.out, HasSubstr("tiny  heft"));
  EXPECT_THAT(Read("a/index.html"), HasSubstr("mine"));
}

}  // namespace
}  // namespace emplace::testing
