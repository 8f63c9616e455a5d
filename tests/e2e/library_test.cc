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
                "--tier: unknown tier \"big\" (tiny, small, medium, large, huge, plans)");
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

// A made-up table: two networks on 8 accelerators. Of the first, dp 8, zero 0 ran three times, the fastest in 2 s, and
// the row with 4 accelerators contradicts itself. Nothing of the second ran.
constexpr const char* kPlanTable =
    "model,layers,hidden,heads,kv_heads,ffn,tied_embeddings,vocab,seq,nodes,gpus,dp,tp,pp,zero,mbs,grad_acc,ran,step_"
    "s\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,8,1,1,0,1,32,1,2.0\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,8,1,1,0,1,32,1,4.0\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,8,1,1,0,1,32,0,\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,8,1,1,1,2,16,1,1.0\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,4,2,1,0,4,16,0,\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,4,2,1,0,2,32,1,1.25\n"
    "T,4,512,8,8,1024,1,1000,128,1,8,4,1,1,0,2,32,1,0.1\n"
    "U,4,1024,8,8,1024,1,1000,128,1,8,8,1,1,0,1,32,0,\n";

class PlanTierTest : public EmplaceTest {
 protected:
  PlanTierTest() {
    Shell("mkdir -p data/huggingface+ultrascale-playbook");
    Write("data/huggingface+ultrascale-playbook/runs.csv", kPlanTable);
    // The order of the settings is dp 4 with micro-batch 2, and 4; dp 8 with zero 0, and 1.
    Write("planners.py",
          "def slow_first(cell):\n"
          "    answers = []\n"
          "    for i in (2, 1, 0, 3):\n"
          "        answers.append((yield cell['settings'][i]))\n"
          "    assert answers == ([2.0, None, 1.25, 1.0] if cell['name'] == 'nanotron-t-8' else 0), answers\n"
          "def nothing(cell):\n    return None\n"
          "def one(cell):\n    return cell['settings'][0]\n"
          "def ranked(cell):\n    return [{'dp': 8, 'tp': 1, 'pp': 1, 'zero': 1, 'micro_batch': 2}]\n"
          "def illegal(cell):\n    return [{**cell['settings'][0], 'tp': 3}, cell['settings'][-1]]\n"
          "def raises(cell):\n    raise ValueError('no idea')\n"
          "def nonsense(cell):\n    return 7\n"
          "def half(cell):\n    yield {'dp': 8}\n"
          "def hangs(cell):\n    import time\n    print('thinking')\n    time.sleep(60)\n"
          "def dies(cell):\n    import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)\n");
  }
  Ran Score(const std::string& arguments) const {
    return Emplace("library score --tier plans --data data " + arguments);
  }
  json Scores(const std::string& arguments) const {
    const Ran ran = Score(arguments + " --json");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json::parse(ran.out);
  }
};

TEST_F(PlanTierTest, ListAndShowTellOfCells) {
  const Ran list = Emplace("library list --tier plans --data data");
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("nanotron-t-8  1 x p5.48xlarge  nanotron          4    3   1.000\n"));
  EXPECT_THAT(list.out, HasSubstr("nanotron-u-8  1 x p5.48xlarge  nanotron          1    0       -\n"));
  const Ran shown = Emplace("library show nanotron-t-8 --data data");
  EXPECT_THAT(shown.out, HasSubstr("machine     1 x p5.48xlarge: 8 h100\n"));
  EXPECT_THAT(shown.out, HasSubstr(" d_model=512 "));
  EXPECT_THAT(shown.out, HasSubstr("\n4    2   1     0            2  32  1.250\n"
                                   "4    2   1     0            4  16  did not run\n"
                                   "8    1   1     0            1  32  2.000\n"
                                   "8    1   1     1            2  16  1.000\n"));
  const json cell = json::parse(Emplace("library show nanotron-t-8 --data data --json").out);
  EXPECT_EQ(cell["schema"], "emplace.plan_cell");
  EXPECT_EQ(cell["settings"][3]["micro_batch"], 2);
  EXPECT_EQ(cell["step_s"], json::parse("[1.25, null, 2, 1]"));
  EXPECT_EQ(Shell("EMPLACE_REFERENCE_DATA=data $emplace library list --tier plans").out, list.out);
}

// The first proposal takes twice as long as the best plan, the second fails, the third takes 1.25 times as long.
TEST_F(PlanTierTest, RegretsFollowFromTheTable) {
  const json score = Scores("planners:slow_first --instances nanotron-t-8")["planners"][0];
  const json& mean = score["means"].back();
  EXPECT_EQ(mean["reached"], 0.5);
  EXPECT_EQ(mean["regret"]["0"], 0.5);
  EXPECT_EQ(mean["regret"]["1"], 0.5);
  EXPECT_NEAR(mean["regret"]["2"].get<double>(), 0.2, 1e-12);
  EXPECT_EQ(mean["regret"]["5"], 0);
  EXPECT_EQ(mean["proposals"], 4);
  EXPECT_EQ(mean["failed"], 1);
  EXPECT_EQ(mean["chosen_failed"], 0);
  EXPECT_EQ(mean["queries_to_near_best"], 3);
  EXPECT_EQ(score["cells"][0]["chosen"], "dp 8, tp 1, pp 1, zero 0, micro-batch 1");
  EXPECT_EQ(score["cells"][0]["problem"], nullptr);
  // With one query there are two proposals.
  const json short_score = Scores("planners:slow_first --instances nanotron-t-8 --queries 1")["planners"][0];
  EXPECT_EQ(short_score["cells"][0]["proposals"], 2);
}

TEST_F(PlanTierTest, PlannersAreFunctionsProgramsAndEntries) {
  Write("program.sh",
        "#!/bin/sh\nread -r cell\necho '{\"dp\": 4, \"tp\": 2, \"pp\": 1, \"zero\": 0, \"micro_batch\": 4}'\n"
        "read -r answer\necho \"$answer\" >> answers.txt\n"
        "echo '{\"dp\": 4, \"tp\": 2, \"pp\": 1, \"micro_batch\": 2}'\nread -r answer\necho \"$answer\" >> "
        "answers.txt\n");
  Shell("chmod +x program.sh");
  const json scores =
      Scores("./program.sh planners:nothing planners:one planners:ranked thumb random --instances nanotron-t-8");
  const auto reached = [&](int planner) { return scores["planners"][planner]["cells"][0]["reached"]; };
  EXPECT_EQ(reached(0)["0"], 0);
  EXPECT_EQ(reached(0)["1"], 0.8);
  EXPECT_EQ(Read("answers.txt"), "{\"step_s\":null,\"why\":\"it did not run\"}\n{\"step_s\":1.25}\n");
  EXPECT_EQ(reached(1)["10"], 0);
  EXPECT_EQ(reached(2)["0"], 0.8);
  EXPECT_EQ(reached(3)["0"], 1);
  EXPECT_EQ(reached(4)["0"], 1);
  // 100 seeds of four settings that reach 0.8, 0, 0.5 and 1; all are tried in the end.
  EXPECT_NEAR(reached(5)["0"].get<double>(), 0.575, 0.15);
  EXPECT_EQ(reached(5)["5"], 1);
  EXPECT_EQ(scores["planners"][5]["cells"][0]["failed"], 1);
  EXPECT_EQ(scores["planners"][5]["runs"], 100);
  const Ran table = Score("thumb planners:slow_first");
  EXPECT_THAT(table.out, HasSubstr("nanotron-t-8         4    3   1.000  1.000                0.500\n"));
  EXPECT_THAT(Emplace("list planners").out, HasSubstr("\ncalculon "));
}

TEST_F(PlanTierTest, BadPlannersFailWithALine) {
  const Ran ran = Score(
      "planners:raises planners:nonsense planners:half planners:dies planners:illegal planners:none nowhere:to_be "
      "--instances nanotron-t-8 --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const json scores = json::parse(ran.out)["planners"];
  for (const json& score : scores) {
    EXPECT_EQ(score["means"][0]["chosen_failed"], 1) << score["name"];
    EXPECT_GE(score["means"][0]["failed"], 1) << score["name"];
    EXPECT_NE(score["cells"][0]["problem"], nullptr) << score["name"];
  }
  EXPECT_THAT(ran.err, HasSubstr("planners:raises: nanotron-t-8: failure: planners.py:15: ValueError: no idea\n"));
  EXPECT_THAT(ran.err,
              HasSubstr("planners:nonsense: nanotron-t-8: failure: TypeError: 'int' object is not iterable\n"));
  EXPECT_THAT(ran.err, HasSubstr("planners:half: nanotron-t-8: failure: its line \"{\\\"dp\\\": 8}\": tp: is missing"));
  EXPECT_THAT(ran.err,
              HasSubstr("planners:dies: nanotron-t-8: failure: was ended by signal 11 (Segmentation fault)\n"));
  EXPECT_THAT(ran.err,
              HasSubstr("planners:illegal: nanotron-t-8: failure: proposed dp 4, tp 3, pp 1, zero 0, micro-batch "
                        "2, which is not among the settings\n"));
  EXPECT_THAT(ran.err, HasSubstr("planners:none: nanotron-t-8: failure: AttributeError: "));
  EXPECT_THAT(ran.err, HasSubstr("nowhere:to_be: nanotron-t-8: failure: ModuleNotFoundError: "));
  // After an illegal proposal, the next one counts.
  EXPECT_EQ(scores[4]["cells"][0]["reached"]["1"], 1);
  const Ran hangs = Score("planners:hangs --timeout 0.5 --instances nanotron-t-8 --json");
  EXPECT_EQ(hangs.status, 0);
  EXPECT_THAT(hangs.err, HasSubstr("failure: did not respond for 0.5 s, and was stopped\n"));
  Write("bad.sh", "#!/bin/sh\necho hello\n");
  Write("exits.sh", "#!/bin/sh\nexit 3\n");
  Shell("chmod +x bad.sh exits.sh");
  const Ran programs = Score("./bad.sh ./exits.sh --instances nanotron-t-8");
  EXPECT_EQ(programs.status, 0);
  EXPECT_THAT(programs.err, HasSubstr("./bad.sh: nanotron-t-8: failure: its line \"hello\": line 1, column 1: "));
  EXPECT_THAT(programs.err, HasSubstr("./exits.sh: nanotron-t-8: failure: ended with status 3\n"));
}

TEST_F(PlanTierTest, AnInterruptedRunGoesOn) {
  Write("counting.py",
        "def first(cell):\n    open('calls.txt', 'a').write(cell['name'] + '\\n')\n    return cell['settings'][0]\n");
  ASSERT_EQ(Score("counting:first -o out").status, 0);
  EXPECT_EQ(Read("calls.txt"), "nanotron-t-8\nnanotron-u-8\n");
  const json written = json::parse(Read("out/counting_first/scores.json"));
  EXPECT_EQ(written["planners"][0]["cells"][0]["reached"]["0"], 0.8);
  // Only an unfinished run has cells, which are used again with the same options.
  EXPECT_FALSE(Exists("out/counting_first/cells"));
  Write("counting.py", Read("counting.py") +
                           "def killer(cell):\n    first(cell)\n    if cell['name'] == 'nanotron-u-8':\n"
                           "        import os, signal\n        os.kill(os.getppid(), signal.SIGKILL)\n"
                           "    return cell['settings'][0]\n");
  Write("calls.txt", "");
  EXPECT_NE(Score("counting:killer -o out").status, 0);
  Shell("sed -i 's/os.kill.*/pass/' counting.py");
  ASSERT_EQ(Score("counting:killer -o out").status, 0);
  EXPECT_EQ(Read("calls.txt"), "nanotron-t-8\nnanotron-u-8\nnanotron-u-8\n");
}

TEST_F(PlanTierTest, BadInputIsRefused) {
  ExpectRefused(Score("thum"),
                "AGENT: unknown planner \"thum\" (emplace, random, thumb, memory_time, calculon, simumax, "
                "MODULE:FUNCTION, or a program's path with a slash); did you mean thumb?");
  ExpectRefused(Score("./none.sh"), "AGENT: ./none.sh: is no program (there is no such file)");
  ExpectRefused(Score("./g.json"), "AGENT: ./g.json: is no program (a file that may be executed)");
  ExpectRefused(
      Score("thumb --instances nanotron-t-9"),
      "--instances: unknown cell \"nanotron-t-9\" (`emplace library list --tier plans` lists them); did you mean "
      "nanotron-t-8?");
  ExpectRefused(Shell("EMPLACE_REFERENCE_DATA= $emplace library score --tier plans thumb"),
                "--data: is missing (the folder with the measured tables of the tier plans, which the library does not "
                "hold; or set EMPLACE_REFERENCE_DATA)");
  ExpectRefused(Emplace("library list --tier plans --data nowhere"),
                "--data: nowhere: has neither huggingface+ultrascale-playbook/runs.csv nor "
                "VIA-Research+vTrain/ground_truth_single.csv");
  ExpectRefused(Score("thumb --budgets 5"), "--budgets: is of agents (--tier plans is of planners)");
  ExpectRefused(Emplace("library score heft --tier tiny --json -o out"), "--json: is of planners (--tier plans)");
  ExpectRefused(Emplace("library score heft --tier tiny"), "--output: is missing (a folder for the scores)");
  ExpectRefused(Emplace("library score heft cpu_only --tier tiny -o out"),
                "AGENT: has 2 names (one; several with --tier plans)");
  ExpectRefused(Emplace("library score --tier plans,tiny thumb --data data"),
                "--tier: has plans beside others (plans alone: it is of planners)");
  ExpectRefused(Emplace("library list --data data"), "--data: is of --tier plans");
  ExpectRefused(Emplace("library show nanotron-t-8 --data data --graph-out x.json"),
                "--graph-out: is of a graph, and nanotron-t-8 is a cell of plans");
  Shell("sed -i 's/,1.25$/,fast/' data/huggingface+ultrascale-playbook/runs.csv");
  ExpectRefused(Score("thumb"),
                "--data: data/huggingface+ultrascale-playbook/runs.csv:7: step_s is \"fast\" (a number)");
  Write("data/huggingface+ultrascale-playbook/runs.csv", "model,dp\nT,1\n");
  ExpectRefused(Score("thumb"),
                "--data: data/huggingface+ultrascale-playbook/runs.csv: has no column \"tp\" (model, dp)");
  Write("data/huggingface+ultrascale-playbook/runs.csv", "model,dp\nT\n");
  ExpectRefused(Score("thumb"),
                "--data: data/huggingface+ultrascale-playbook/runs.csv:2: has 1 cells (2, one for each column)");
}

}  // namespace
}  // namespace emplace::testing
