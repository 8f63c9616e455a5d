// tools/throughput_table, tools/import_table and tools/vtrain_table: the CSV files that results pages are made of.

#include <gmock/gmock.h>

#include <string>

#include "tests/e2e/python_tool.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace page_tools_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class PageToolsTest : public PythonToolTest {
 protected:
  static void ExpectRefused(const Ran& ran, const std::string& reason) {
    PythonToolTest::ExpectRefused(ran, reason);
    EXPECT_EQ(ran.out, "");
  }
};

TEST_F(PageToolsTest, TheProgramComputesStatisticsOfPages) {
  const Ran ran =
      Shell(R"(echo '{"differences": [[[1, 3], [6]], [[10]]], "p_values": [0.03, 0.04]}' | $emplace statistics -)");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith(R"({"mean":7,"low_95":3.)"));
  EXPECT_THAT(ran.out, HasSubstr(R"("high_95":10,"p":0.5,"holm":[0.06,0.06]})"));
  ExpectRefused(Shell(R"(echo '{"differences": [[]]}' | $emplace statistics -)"),
                "standard input: differences[0]: is a list of 0 elements (graphs, each a list of rows with numbers)");
  ExpectRefused(Shell("echo '{}' | $emplace statistics -"), "standard input: differences: is missing");
}

constexpr const char* kColumns = "graph,method,seed,evaluations,max_load_us,max_load_bound_us\n";

// 20.084 and 17.790 ms are published: tests/e2e/throughput_test.cc.
TEST_F(PageToolsTest, LoadsOfAGraphAreWrittenLengthy) {
  const std::string folder = ReferenceFolder("msr-fiddle+dnn-partitioning");
  if (folder.empty()) GTEST_SKIP() << "the reference data is absent: set the CMake variable EMPLACE_REFERENCE_DATA";
  const std::string graph = "LayerGraphs/bert24_inference.json";
  const std::string arguments = "--seeds 2 --evaluations 300 '" + folder + "' " + graph;
  const Ran ran = Tool("throughput_table", arguments);
  EXPECT_EQ(ran.status, 0) << ran.err;
  const std::string searched = graph + ",multilevel_search,";
  EXPECT_THAT(Read("throughput.csv"), StartsWith(kColumns + graph + ",expert,,,20083.953,15148.525\n" + graph +
                                                 ",dp_contiguous,,,17789.906,15148.525\n" + graph +
                                                 ",pipedream,,,17789.906,15148.525\n" + searched + "1,300,"));
  EXPECT_THAT(Read("throughput.csv"), HasSubstr("\n" + searched + "2,300,"));
  EXPECT_FALSE(Exists("throughput.csv.part"));

  // A stopped run keeps what it had, of searches those of as many evaluations.
  const std::string kept = graph + ",pipedream,,,1.000,1.000\n";
  Write("throughput.csv.part", kColumns + kept + searched + "1,299,2.000,1.000\n" + searched + "2,300,3.000,1.000\n");
  EXPECT_EQ(Tool("throughput_table", arguments).status, 0);
  const std::string resumed = Read("throughput.csv");
  EXPECT_THAT(resumed, HasSubstr("\n" + kept));
  EXPECT_THAT(resumed, HasSubstr("\n" + searched + "2,300,3.000,1.000\n"));
  EXPECT_THAT(resumed, ::testing::Not(HasSubstr("2.000")));
}

TEST_F(PageToolsTest, BadInputOfThroughputTableIsOneLineLengthy) {
  ExpectRefused(Tool("throughput_table", "none"), "none/throughput-inputs: there is no graph");
  ExpectRefused(Tool("throughput_table", "none Graphs/x.json"),
                "none/throughput-inputs/Graphs/x.json: there is no such");
  ExpectRefused(Tool("throughput_table", "--seeds 0 none"), "--evaluations and --seeds: at least 1 is expected");
  ASSERT_EQ(Shell("mkdir -p data/throughput-inputs/OperatorGraphs").status, 0);
  Write("data/throughput-inputs/OperatorGraphs/x.json", "{}");
  Write("throughput.csv.part", "graph,load\n");
  ExpectRefused(Tool("throughput_table", "data"),
                "throughput.csv.part: is not of a run of this program (columns graph, ");
  Write("throughput.csv.part", std::string(kColumns) + "x,expert,,,1,1,1\n");
  ExpectRefused(Tool("throughput_table", "data"),
                "throughput.csv.part: is not of a run of this program (columns graph, ");
  EXPECT_EQ(Shell("rm throughput.csv.part").status, 0);
  const Ran ran = Tool("throughput_table", "data");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, MatchesRegex("1 of 1: OperatorGraphs/x.json\ntools/throughput_table: [^\n]*x.json: [^\n]*\n"));
  EXPECT_FALSE(Exists("throughput.csv"));
}

TEST_F(PageToolsTest, WhatBecameOfEachFileIsWrittenLengthy) {
  ASSERT_EQ(Shell("mkdir data").status, 0);
  Write("data/graph.txt",
        "node1 -- Conv2d(3, 8) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=1000.0, "
        "parameter_size=500.000\n");
  Write("data/cut.json", R"({"traceEvents": [{"ph": "X")");
  const Ran ran = Tool("import_table", "--emplace $emplace --csv import.csv data");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(Read("import.csv"), MatchesRegex("file,format,ops,attributed_percent,seconds,mebibytes,refused\n"
                                               "cut.json,,,,[0-9.]+,[0-9]+,[^\n]+\n"
                                               "graph.txt,pipedream,2,,[0-9.]+,[0-9]+,\n"));
  EXPECT_THAT(ran.out, HasSubstr("\n| graph.txt | pipedream | 2 | | "));
  ExpectRefused(Tool("import_table", "--emplace $emplace none"), "tools/import_table: none: is not a folder");
  ExpectRefused(Tool("import_table", "--emplace ./none data"), "tools/import_table: ./none: is not a program");
  ExpectRefused(Tool("import_table", "--emplace $emplace --csv none/x.csv data"), "none/x.csv: cannot be written");
  const std::string before = Read("import.csv");
  ASSERT_EQ(Shell("mkdir empty").status, 0);
  const Ran nothing = Tool("import_table", "--emplace $emplace --csv import.csv empty");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("empty: has no file that is imported"));
  EXPECT_EQ(Read("import.csv"), before);
}

// The other rows of the page are those of the archive: 1,440 predictions take three minutes.
TEST_F(PageToolsTest, PredictedIterationsComeOutAgainSlow) {
  const std::string folder = ReferenceFolder("VIA-Research+vTrain");
  if (folder.empty()) GTEST_SKIP() << "the reference data is absent: set the CMake variable EMPLACE_REFERENCE_DATA";
  const std::string table = "'" + folder + "/ground_truth_single.csv'";
  const std::string archived = Quoted("experiments/results/vtrain.csv.xz");
  const std::string again = "--emplace $emplace --again 97 --predictions ";
  const Ran ran = Tool("vtrain_table", again + archived + " " + table);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("15 of 15 predictions come out again\n"));

  // One row that is another.
  ASSERT_EQ(Shell("xz -dc " + archived + " | sed '2s/,[0-9.]*$/,1.5/' > changed.csv").status, 0);
  const Ran changed = Tool("vtrain_table", "--emplace $emplace --again 1440 --predictions changed.csv " + table);
  EXPECT_EQ(changed.status, 1);
  EXPECT_THAT(changed.err, MatchesRegex("gpus [^\n]*: was 1.500000 ms, is [0-9.]+\n"));
  ExpectRefused(Tool("vtrain_table", "--predictions none.csv " + table), "none.csv: No such file or directory");
  ExpectRefused(Tool("vtrain_table", "--predictions " + table + " " + table), "is not of --predictions-out (columns");
  ASSERT_EQ(Shell("xz -dc " + archived + " | sed '3s/^[0-9]*/0/' > zero.csv").status, 0);
  ExpectRefused(Tool("vtrain_table", "--predictions zero.csv " + table),
                "zero.csv: line 3: is not a row of ten integers");
  Write("words.csv", "a,b\nc,d\n");
  ExpectRefused(Tool("vtrain_table", "words.csv"), "words.csv: line 2: is not a row of ten integers");
  EXPECT_EQ(Tool("vtrain_table", "--fit --predictions short.csv " + table).status, 2);
  EXPECT_EQ(Tool("vtrain_table", "--predictions-out none/x.csv " + table).status, 2);
  ASSERT_EQ(Shell("xz -dc " + archived + " | sed '$d' > short.csv").status, 0);
  ExpectRefused(Tool("vtrain_table", "--predictions short.csv " + table), "short.csv: has no prediction of {'gpus': ");
}

}  // namespace page_tools_test
}  // namespace emplace::testing
