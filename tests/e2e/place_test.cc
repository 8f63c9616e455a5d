// emplace place and compare.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class PlaceTest : public EmplaceTest {
 protected:
  Ran Place(const std::string& agent, const std::string& more) const {
    return Emplace("place --graph g.json --cluster c.yaml --agent " + agent + " " + more);
  }
};

TEST_F(PlaceTest, FindsTheBestPlacementOfTwoOps) {
  // Together on one device: 8 us; apart: 10 us.
  const Ran ran = Place("local_search", "-o best.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("step time    8 us\n"), std::string::npos) << ran.out;
  const Ran again = Emplace("simulate --graph g.json --cluster c.yaml --placement best.json --json");
  EXPECT_EQ(nlohmann::json::parse(again.out).at("step_time_us"), 8);
}

TEST_F(PlaceTest, TheResultOfPlaceIsTheResultOfSimulate) {
  const Ran placed = Place("round_robin", "-o best.json --json");
  EXPECT_EQ(placed.status, 0) << placed.err;
  // But for what place alone says: how long everything on one device would take.
  nlohmann::ordered_json result = nlohmann::ordered_json::parse(placed.out);
  EXPECT_EQ(result.at("one_device_us"), 8);
  EXPECT_EQ(result.at("worse_than_one_device"), true);
  result.erase("one_device_us");
  result.erase("worse_than_one_device");
  const Ran simulated = Emplace("simulate --graph g.json --cluster c.yaml --placement best.json --json");
  EXPECT_EQ(result, nlohmann::ordered_json::parse(simulated.out));
}

TEST_F(PlaceTest, TheSameSeedGivesTheSameBytesWhateverTheThreadsLengthy) {
  ASSERT_EQ(Emplace("generate nmt --set layers=1 steps=3 -o n.json").status, 0);
  for (const std::string agent : {"random", "annealing"}) {
    const auto place = [&](const std::string& more) {
      return Emplace(
          "place --graph n.json --cluster p2.8xlarge --costs roofline --groups 16 --evaluations 60 --agent " + agent +
          " " + more);
    };
    const Ran first = place("--seed 5 --threads 1 -o 1.json");
    ASSERT_EQ(first.status, 0) << first.err;
    const Ran second = place("--seed 5 --threads 2 -o 2.json");
    EXPECT_EQ(first.out, second.out);
    EXPECT_EQ(Shell("cmp 1.json 2.json").status, 0) << agent;
    EXPECT_EQ(place("--seed 6 --threads 1 -o 3.json").status, 0);
    EXPECT_NE(Shell("cmp -s 1.json 3.json").status, 0) << agent;
  }
}

TEST_F(PlaceTest, RewardsThatAreAllAlikeAreAWarning) {
  // 30 GB of weights each, on cards of 80 GiB.
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 80/' c.yaml").status, 0);
  Write("g.json", R"({"schema": "emplace.graph", "version": 1, "name": "large", "ops": [
    {"name": "a", "kind": "test", "time_us": 10, "persistent_bytes": 30000000000, "outputs": [1000]},
    {"name": "b", "kind": "test", "time_us": 10, "persistent_bytes": 30000000000, "inputs": ["a"]}]})");
  const Ran fixed = Place("placeto", "--evaluations 20 --reward log_memory_penalty:M=10.7 -o best.json");
  EXPECT_EQ(fixed.status, 0);
  EXPECT_NE(fixed.err.find("warning: 19 of 19 evaluations had the smallest value of the reward"), std::string::npos)
      << fixed.err;
  const Ran ran = Place("placeto", "--evaluations 20 -o best.json");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err.find("warning"), std::string::npos) << ran.err;
}

TEST_F(PlaceTest, NothingThatFitsIsAnHonestNoAndNoFile) {
  // 1e-6 GiB are 1074 bytes: b's weights and a's output do not fit together, and a's output alone does not fit either.
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0);
  const Ran ran = Place("local_search", "-o best.json --timeline t.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_NE(ran.err.find("no placement that fits was found"), std::string::npos) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
}

TEST_F(PlaceTest, WritesThePlacementToStandardOutputAndTheSummaryBesideIt) {
  ASSERT_EQ(Place("single_device", "-o best.json").status, 0);
  const Ran ran = Place("single_device", "-o -");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, Read("best.json"));
  EXPECT_NE(ran.err.find("step time    8 us"), std::string::npos);
  EXPECT_EQ(Shell("$emplace place --graph g.json --cluster c.yaml --agent single_device -o - 2>/dev/null | "
                  "$emplace simulate --graph g.json --cluster c.yaml --placement -")
                .status,
            0);
  ASSERT_EQ(Place("single_device", "-o best.json.gz").status, 0);
  EXPECT_EQ(Shell("gzip -dc best.json.gz | cmp - best.json").status, 0);
}

TEST_F(PlaceTest, UnknownWordsAreRefusedBeforeAnySearchLengthy) {
  const auto expect_refused = [this](const Ran& ran, const std::string& start, const std::string& known) {
    EXPECT_EQ(ran.status, 2);
    EXPECT_TRUE(IsOneLine(ran.err));
    EXPECT_EQ(ran.err.rfind(start, 0), 0U) << ran.err;
    EXPECT_NE(ran.err.find(known), std::string::npos) << ran.err;
    EXPECT_EQ(Names(), "c.yaml g.json p.json ");
  };
  expect_refused(Place("wizard", "-o x.json"), "--agent: ", "annealing");
  expect_refused(Place("random", "-o x.json --engine steam"), "--engine: ", "placeto-reference");
  expect_refused(Place("random", "-o x.json --grouping none"), "--grouping: ", "merge_and_colocate");
  expect_refused(Place("random", "-o x.json --reward none"), "--reward: ", "runtime");
  expect_refused(Place("random", "-o x.json --set magic=1"), "--set: random", "magic");
  expect_refused(Place("annealing", "-o x.json --set magic=1 magic=2"), "--set: ", "twice");
  expect_refused(Place("random", "-o no/x.json"), "no/x.json: ", "no folder");
  expect_refused(Place("random", "-o g.json"), "g.json: ", "another name");
  expect_refused(Place("random", "-o x.json --timeline x.json"), "x.json: ", "two results");
  expect_refused(Place("random", "-o - --json"), "-: ", "standard output");
  expect_refused(Place("random", "-o x.json --checkpoint -"), "--checkpoint: ", "file");
}

// A network on four GPUs, with any agent's options.
constexpr const char* kPlaceNetwork =
    "place --graph n.json --cluster p2.8xlarge --gpus 4 --costs roofline -o best.json ";

TEST_F(PlaceTest, WithoutAnAgentTheSearchIsAtLeastAsGoodAsEveryOneShotAgentLengthy) {
  ASSERT_EQ(Emplace("generate inception_v3 -o n.json").status, 0);
  const Ran ran = Emplace(std::string(kPlaceNetwork) + "--evaluations 40 --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double micros = nlohmann::json::parse(ran.out).at("step_time_us");
  EXPECT_LE(micros, 646834) << "HEFT's, on ops";
  const Ran text = Emplace(std::string(kPlaceNetwork) + "--evaluations 40");
  EXPECT_EQ(text.out.rfind("agent multilevel_search, seed 1: ", 0), 0U) << text.out;
  EXPECT_NE(text.out.find("on one device 1.194 s: "), std::string::npos) << text.out;
}

TEST_F(PlaceTest, StartsFromAPlacementLengthy) {
  ASSERT_EQ(Emplace("generate inception_v3 -o n.json").status, 0);
  ASSERT_EQ(Emplace(std::string(kPlaceNetwork) + "--agent heft").status, 0);
  ASSERT_EQ(Shell("mv best.json start.json").status, 0);
  // Default groups are split, so that they can be placed as the start has their ops.
  for (const std::string agent : {"local_search", "annealing", "multilevel_search", "random_walk", "placeto", "post"}) {
    const Ran ran = Emplace(kPlaceNetwork + ("--start start.json --evaluations 1 --json --agent " + agent));
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(Shell("cmp best.json start.json").status, 0) << agent;
  }
  ExpectRefused(Emplace(std::string(kPlaceNetwork) + "--start start.json --agent heft"),
                "--start: agent heft does not search, so it has no start (an agent with more than one evaluation in "
                "`emplace list agents`)");
  const Ran wrong = Emplace(std::string(kPlaceNetwork) + "--start p.json");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err.rfind("p.json: ", 0), 0U) << wrong.err;
  ExpectRefused(Emplace(std::string(kPlaceNetwork) + "--start none.json"),
                "none.json: cannot be read (No such file or directory)");
}

TEST_F(PlaceTest, StartsFromTheBestOfTheAgentsThatEvaluateNothingLengthy) {
  ASSERT_EQ(Emplace("generate inception_v3 -o n.json").status, 0);
  const Ran ran = Emplace(std::string(kPlaceNetwork) + "--agent annealing --start best --evaluations 1 --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double micros = nlohmann::json::parse(ran.out).at("step_time_us");
  EXPECT_NEAR(micros, 646833, 1) << "HEFT's, on ops";
  const Ran compared = Emplace(
      "compare --graph n.json --cluster p2.8xlarge --gpus 4 --costs roofline --agents heft,annealing,post "
      "--start best --evaluations 60 --json");
  ASSERT_EQ(compared.status, 0) << compared.err;
  const nlohmann::json table = nlohmann::json::parse(compared.out);
  for (const nlohmann::json& row : table.at("results")) {
    EXPECT_LE(row.at("step_time_us"), micros) << row;
  }
}

TEST_F(PlaceTest, SecondsAndControlCKeepTheBestSoFarLengthy) {
  ASSERT_EQ(Emplace("generate inception_v3 -o n.json").status, 0);
  const Ran timed = Emplace(std::string(kPlaceNetwork) + "--seconds 0.5 --evaluations 1000000000000 --json");
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_LE(nlohmann::json::parse(timed.out).at("step_time_us"), 646834);
  // Without --evaluations the budget is what fits, and the search ends by itself or by the clock.
  EXPECT_EQ(Emplace(std::string(kPlaceNetwork) + "--agent annealing --seconds 0.2").status, 0);
  // It has begun once it has shown its progress.
  const Ran stopped = Shell(std::string("$emplace ") + kPlaceNetwork +
                            "--evaluations 1000000000000 --checkpoint k.bin 2>err.txt & pid=$!; "
                            "while [ ! -s k.bin ]; do sleep 0.1; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_NE(Read("err.txt").find("stopped after "), std::string::npos) << Read("err.txt");
  EXPECT_EQ(
      Emplace("simulate --graph n.json --cluster p2.8xlarge --gpus 4 --costs roofline --placement best.json").status,
      0);
  EXPECT_TRUE(Exists("k.bin"));
  ExpectRefused(Emplace(std::string(kPlaceNetwork) + "--seconds 1 --checkpoint k2.bin"),
                "--checkpoint: needs --evaluations beside --seconds (a resumed search has the same budget)");
  ExpectRefused(Emplace(std::string(kPlaceNetwork) + "--seconds 0"),
                "--seconds: is \"0\" (a number from 0.001 to 1e+06) (see emplace place --help)");
}

TEST_F(PlaceTest, DevicesWithoutALinkBetweenThemAreRefused) {
  ASSERT_EQ(Shell("sed -i '/^link:/d' c.yaml").status, 0);
  const Ran ran = Place("random", "-o x.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_NE(ran.err.find("no link"), std::string::npos) << ran.err;
  EXPECT_FALSE(Exists("x.json"));
  EXPECT_EQ(Place("random", "-o x.json --devices gpu:1").status, 0);
}

TEST_F(PlaceTest, ACheckpointOfAFinishedSearchChangesNothing) {
  const std::string search = "--evaluations 40 --seed 3 -o ";
  ASSERT_EQ(Place("annealing", search + "1.json").status, 0);
  ASSERT_EQ(Place("annealing", search + "2.json --checkpoint k.bin").status, 0);
  const Ran resumed = Place("annealing", search + "3.json --checkpoint k.bin");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(Shell("cmp 1.json 2.json && cmp 1.json 3.json").status, 0);
  const Ran other = Place("random", search + "4.json --checkpoint k.bin");
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(IsOneLine(other.err));
  EXPECT_FALSE(Exists("4.json"));
}

TEST_F(PlaceTest, CompareShowsEveryAgentOnEveryNumberOfGpus) {
  const std::string compare =
      "compare --graph g.json --cluster c.yaml --agents single_device,round_robin --gpus 1,2 --seed 4";
  const Ran ran = Emplace(compare + " --json -o t.csv t.md t.tex --placements .");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = nlohmann::json::parse(ran.out).at("results");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows.at(0).at("agent"), "single_device");
  EXPECT_EQ(rows.at(0).at("gpus"), 1);
  EXPECT_EQ(rows.at(0).at("step_time_us"), 8);
  EXPECT_EQ(rows.at(3).at("agent"), "round_robin");
  EXPECT_EQ(rows.at(3).at("gpus"), 2);
  EXPECT_EQ(rows.at(3).at("step_time_us"), 10);
  EXPECT_EQ(Emplace(compare + " --csv").out, Read("t.csv"));
  EXPECT_EQ(Read("t.tex").rfind("\\begin{tabular}{llr", 0), 0U) << Read("t.tex");
  const std::string csv = Read("t.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  EXPECT_EQ(Read("t.md").rfind("| gpus | agent |", 0), 0U);
  EXPECT_EQ(Emplace("simulate --graph g.json --cluster c.yaml --placement round_robin-2gpus.json").status, 0);
}

TEST_F(PlaceTest, NamesOfDevicesAreTextInMarkdownAndInCsv) {
  ASSERT_EQ(
      Shell("sed -i 's/\"gpu:0\", kind: k80, memory_gib: 1, count: 2/\"<script>|_\", kind: k80, memory_gib: 1/' c.yaml")
          .status,
      0);
  const std::string compare = "compare --graph g.json --cluster c.yaml --agents single_device -o t.csv t.md";
  ASSERT_EQ(Emplace(compare).status, 0);
  EXPECT_NE(Read("t.md").find("| \\<script\\>\\|\\_ |"), std::string::npos) << Read("t.md");
  EXPECT_NE(Read("t.md").find("| single\\_device |"), std::string::npos) << Read("t.md");
  EXPECT_NE(Read("t.csv").find(",<script>|_,"), std::string::npos) << Read("t.csv");
  ASSERT_EQ(Shell("sed -i 's/<script>|_/=1+1/' c.yaml").status, 0);
  ASSERT_EQ(Emplace(compare).status, 0);
  EXPECT_NE(Read("t.csv").find(",'=1+1,"), std::string::npos) << Read("t.csv");
}

TEST_F(PlaceTest, CompareRefusesBadWords) {
  for (const char* const more : {"--agents wizard", "--gpus 3", "--json --csv", "-o table.txt", "--placements no",
                                 "--engine steam", "--grouping none"}) {
    const Ran ran = Emplace(std::string("compare --graph g.json --cluster c.yaml --agents random ") + more);
    EXPECT_EQ(ran.status, 2) << more;
    EXPECT_TRUE(IsOneLine(ran.err)) << more;
    EXPECT_EQ(ran.out, "") << more;
  }
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
}

TEST_F(PlaceTest, CompareSaysWhereNothingFits) {
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0);
  const Ran ran = Emplace("compare --graph g.json --cluster c.yaml --agents single_device --json");
  EXPECT_EQ(ran.status, 1) << ran.err;
  const auto row = nlohmann::json::parse(ran.out).at("results").at(0);
  EXPECT_EQ(row.at("fits_memory"), false);
  EXPECT_FALSE(row.contains("step_time_us"));
}

TEST_F(PlaceTest, CompareLeavesOutOfAllWhoHasNothingToProposeLengthy) {
  // The sample cluster has no CPU.
  const Ran ran = Emplace("compare --graph g.json --cluster c.yaml --agents all --evaluations 20 --csv");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("cpu_only: left out, cluster"), std::string::npos) << ran.err;
  EXPECT_EQ(ran.out.find("cpu_only"), std::string::npos);
  EXPECT_NE(ran.out.find("random_walk"), std::string::npos);
  EXPECT_EQ(Emplace("compare --graph g.json --cluster c.yaml --agents cpu_only").status, 2);
}

TEST_F(PlaceTest, CompareLeavesOutOfAllWhoRefusesTheGraphLengthy) {
  // Ops without an edge: each set of them is an ideal.
  std::string ops;
  for (int i = 0; i < 16; ++i) {
    ops += fmt::format("{}{{\"name\": \"op{}\", \"kind\": \"test\", \"time_us\": 1}}", i == 0 ? "" : ", ", i);
  }
  const std::string wide = R"({"schema": "emplace.graph", "version": 1, "name": "wide", "ops": [)" + ops + "]}";
  Write("wide.json", wide);
  const std::string compare = "compare --graph wide.json --cluster c.yaml --evaluations 1 --csv --agents ";
  const Ran all = Emplace(compare + "all");
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_NE(all.err.find("left out: dp_contiguous: ideals: the 16 units of the graph have at least 2^16 "
                         "ideals (at most 60000: "),
            std::string::npos)
      << all.err;
  EXPECT_EQ(all.out.find("dp_contiguous"), std::string::npos);
  const Ran one = Emplace(compare + "dp_contiguous");
  EXPECT_EQ(one.status, 2);
  EXPECT_EQ(one.err.find("dp_contiguous: ideals: the 16 units"), one.err.find("dp_contiguous")) << one.err;
}

TEST_F(PlaceTest, APolicyIsWrittenAndAppliedToAnotherGraph) {
  ASSERT_EQ(
      Emplace("generate nmt --set layers=1 steps=2 -o a.json && $emplace generate nmt --set layers=1 steps=3 -o b.json")
          .status,
      0);
  const std::string common = " --cluster p2.8xlarge --gpus 2 --costs roofline --groups 12 --agent placeto ";
  const Ran learned =
      Emplace("place --graph a.json" + common + "--evaluations 200 --policy-out policy.bin -o a.p.json");
  EXPECT_EQ(learned.status, 0) << learned.err;
  EXPECT_NE(learned.out.find("policy entropy, of the largest possible: "), std::string::npos) << learned.out;
  const Ran applied = Emplace("place --graph b.json" + common + "--policy policy.bin -o b.p.json");
  EXPECT_EQ(applied.status, 0) << applied.err;
  // One evaluation of the start, and one for each group.
  EXPECT_NE(applied.out.find(" groups, 13 evaluations"), std::string::npos) << applied.out;
}

TEST_F(PlaceTest, PoliciesThatCannotBeUsedAreRefused) {
  ExpectRefused(Place("annealing", "--policy g.json -o p.json"),
                "--policy: agent annealing has no policy (placeto, graphsage, pgnn, sgdp, doppler)");
  ExpectRefused(Place("annealing", "--policy-out g.bin -o p.json"),
                "--policy-out: agent annealing has no policy (placeto, graphsage, pgnn, sgdp, doppler)");
  ExpectRefused(Place("placeto", "--policy g.json -o p.json"),
                "g.json: is not a policy (a file with a policy that emplace trained)");
  EXPECT_NE(Place("placeto", "--policy missing.bin -o p.json").err.find("missing.bin: cannot be read"),
            std::string::npos);
  EXPECT_EQ(Place("placeto", "--torch-device tpu -o p.json").status, 2);
  EXPECT_EQ(Place("placeto", "--evaluations 2 -o p.json").status, 2);
}

}  // namespace
}  // namespace emplace::testing
