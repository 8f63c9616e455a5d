// emplace explain and diff.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class ExplainTest : public EmplaceTest {
 protected:
  Ran Explain(const std::string& more = "") const {
    return Emplace("explain --graph g.json --cluster c.yaml --placement p.json " + more);
  }
  Ran Diff(const std::string& files, const std::string& more = "") const {
    return Emplace("diff --graph g.json --cluster c.yaml " + files + " " + more);
  }
};

TEST_F(ExplainTest, SaysWhereTheStepGoesAndWhichMoveHelps) {
  // a runs 0-4 on gpu:0, its 2000 bytes travel 4-6, b runs 6-10 on gpu:1. Both on one device: 8 us.
  const Ran ran = Explain();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("step time    10 us\n"));
  EXPECT_THAT(ran.out, HasSubstr("compute        8 us  80.0"));
  EXPECT_THAT(ran.out, HasSubstr("transfer       2 us  20.0"));
  EXPECT_THAT(ran.out, HasSubstr("2 moves simulated, one at a time: 2 make the step shorter.\n"));
  const nlohmann::json json = nlohmann::json::parse(Explain("--json").out);
  EXPECT_EQ(json.at("step_time_us"), 10);
  EXPECT_EQ(json.at("chain").at("parts").size(), 3U);
  EXPECT_EQ(json.at("chain").at("parts")[1],
            nlohmann::json::parse(R"({"kind": "transfer", "start_us": 4, "duration_us": 2, "op": "a",
                                      "device": "gpu:0", "to": "gpu:1", "output": 0, "size_bytes": 2000})"));
  EXPECT_EQ(json.at("moves").at("best")[0].at("step_time_us"), 8);
  EXPECT_EQ(json.at("moves").at("best")[0].at("gain_percent"), 20);
  EXPECT_EQ(json.at("ops")[0].at("slack_us"), 0);
}

TEST_F(ExplainTest, WritesAPageWholeOrNotAtAll) {
  const std::string text = Explain().out;
  EXPECT_EQ(Explain("-o page.html").out, text);
  EXPECT_EQ(Read("page.html").rfind("<!DOCTYPE html>", 0), 0U);
  EXPECT_THAT(Read("page.html"), HasSubstr("its queues"));
  EXPECT_EQ(Explain("-o -").out, Read("page.html"));
  ExpectRefused(Explain("-o page.pdf"), "page.pdf: is not a name for a page (a name that ends in .html)");
  ExpectRefused(Explain("-o no/page.html"), "no/page.html: cannot be written (there is no folder no)");
  ExpectRefused(Explain("-o - --json"), "-: is used for both --output and --json (one may be standard output)");
  EXPECT_EQ(Names(), "c.yaml g.json p.json page.html ");
}

TEST_F(ExplainTest, AnswersForEveryEngineAndNamesUnknownOnes) {
  EXPECT_THAT(Explain("--engine flow").out, HasSubstr("engine flow, costs measured\n"));
  EXPECT_EQ(Explain("--engine placeto-reference").status, 0);
  ExpectRefused(Explain("--engine steam"), "--engine: unknown engine \"steam\" (fifo, flow, placeto-reference)");
}

TEST_F(ExplainTest, SaysWhatDoesNotFit) {
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0);
  const Ran ran = Explain();
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("DOES NOT FIT in memory\n"));
  EXPECT_THAT(ran.out, HasSubstr("memory       gpu:1 is over by "));
  EXPECT_EQ(nlohmann::json::parse(Explain("--json").out).at("fits_memory"), false);
}

TEST_F(ExplainTest, NoMoveIsSaidToBeNone) {
  Write("p.json", Shell("sed 's/gpu:1/gpu:0/' p.json").out);
  EXPECT_THAT(Explain().out, HasSubstr("3 moves simulated, one at a time: none makes the step shorter.\n"));
  EXPECT_THAT(Explain("--devices gpu:0").out, HasSubstr("No move was simulated"));
  EXPECT_THAT(Explain("--moves 1").out, HasSubstr("1 move simulated, one at a time: none makes the step shorter.\n"));
  EXPECT_THAT(Explain("--moves 1").out, HasSubstr("At least 2 further moves not tried (--moves).\n"));
}

TEST_F(ExplainTest, MissingAndWrongFilesAreRefused) {
  ExpectRefused(Emplace("explain --graph none.json --cluster c.yaml --placement p.json"),
                "none.json: cannot be read (No such file or directory)");
  const Ran swapped = Emplace("explain --graph g.json --cluster c.yaml --placement g.json");
  EXPECT_EQ(swapped.status, 2);
  EXPECT_TRUE(IsOneLine(swapped.err));
  ExpectRefused(Explain("--moves -1"),
                "--moves: is \"-1\" (an integer from 0 to 1000000) (see emplace explain --help)");
  EXPECT_EQ(Emplace("explain --graph g.json --cluster c.yaml").status, 2);
}

TEST_F(ExplainTest, DiffSaysWhatMovedAndWhatItGains) {
  Write("q.json", Shell("sed 's/gpu:1/gpu:0/' p.json").out);
  const Ran ran = Diff("p.json q.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("1 of 2 ops moved, in 1 piece. The step gets 2 us shorter, 20.0 %.\n"));
  const nlohmann::json json = nlohmann::json::parse(Diff("p.json q.json", "--json").out);
  EXPECT_EQ(json.at("gain_us"), 2);
  EXPECT_EQ(json.at("pieces")[0].at("ops"), nlohmann::json({"b"}));
  EXPECT_EQ(Diff("p.json q.json", "--by layers").status, 0);
  ExpectRefused(Diff("p.json q.json", "--by color"),
                "--by: unknown \"color\" (pieces, layers) (see emplace diff --help)");
  EXPECT_THAT(Diff("q.json p.json").out, HasSubstr("The step gets 2 us longer, 25.0 %.\n"));
}

TEST_F(ExplainTest, IssueLanesHaveTheirPartsAndColumns) {
  EXPECT_THAT(Explain().out, Not(HasSubstr("issue")));
  EXPECT_FALSE(nlohmann::json::parse(Explain("--json").out).at("chain").contains("issue_us"));
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 1, issue: {host_us: 3, launch_latency_us: 2}/' c.yaml").status,
            0);
  const Ran ran = Explain("-o page.html");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("issue of a"));
  EXPECT_THAT(ran.out, HasSubstr("waits for issue"));
  EXPECT_THAT(Shell("cat page.html").out, HasSubstr("waits for issue"));
  const nlohmann::json json = nlohmann::json::parse(Explain("--json").out);
  // Its chain is a on gpu:0, and b behind the transfer: both are issued and launched.
  EXPECT_EQ(json.at("chain").at("issue_us"), 6);
  EXPECT_EQ(json.at("chain").at("launch_us"), 4);
  EXPECT_EQ(json.at("devices")[0].at("waiting_for_issue_us"), 5);
  Write("q.json", Shell("sed 's/gpu:1/gpu:0/' p.json").out);
  EXPECT_THAT(Diff("p.json q.json").out, HasSubstr("launch"));
}

TEST_F(ExplainTest, DiffOfEqualPlacementsSaysSo) {
  const Ran ran = Diff("p.json p.json");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("p.json and p.json are the same placement: 10 us\n"));
  EXPECT_EQ(nlohmann::json::parse(Diff("p.json p.json", "--json").out).at("pieces").size(), 0U);
}

TEST_F(ExplainTest, DiffNeedsTwoPlacementsOfTheGraph) {
  Write("other.json", Shell("sed 's/\"b\"/\"z\"/' p.json").out);
  ExpectRefused(Diff("p.json other.json"),
                "other.json: devices[\"z\"]: is not an op of graph \"pair\" (which has 2 ops)");
  ExpectRefused(Diff("p.json none.json"), "none.json: cannot be read (No such file or directory)");
  ExpectRefused(Diff("- -"), "-: is used for two inputs (one may be standard input)");
  const Ran one = Diff("p.json");
  EXPECT_EQ(one.status, 2);
  EXPECT_TRUE(IsOneLine(one.err)) << one.err;
  const Ran three = Diff("p.json p.json p.json");
  EXPECT_EQ(three.status, 2);
  EXPECT_TRUE(IsOneLine(three.err)) << three.err;
}

TEST_F(ExplainTest, DiffSaysWhichPieceDoesNotFit) {
  // gpu:1 holds the copy of a and what b keeps; 2000 bytes are 1.9e-6 GiB.
  Write("q.json", Shell("sed 's/gpu:1/gpu:0/' p.json").out);
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.0000021/' c.yaml").status, 0);
  EXPECT_THAT(Diff("q.json p.json").out, HasSubstr("over memory by "));
}

TEST_F(ExplainTest, WhatIfHoldsThePlacementOrSearchesAgain) {
  const std::string what_if = "what-if --graph g.json --cluster c.yaml --placement p.json ";
  // The 2000 bytes between a and b travel in 2 us; twice as fast in 1 us.
  const Ran ran = Emplace(what_if + "--bandwidth 2");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("if           bandwidth x 2\n"));
  EXPECT_THAT(ran.out, HasSubstr("before         10 us          1.000"));
  EXPECT_THAT(ran.out, HasSubstr("held            9 us          1.111"));
  const Ran searched = Emplace(what_if + "--bandwidth 0.5 --search --evaluations 50 -o found.json --json");
  EXPECT_EQ(searched.status, 0) << searched.err;
  const nlohmann::json json = nlohmann::json::parse(searched.out);
  EXPECT_EQ(json.at("schema"), "emplace.what_if");
  EXPECT_EQ(json.at("changes").at("bandwidth"), 0.5);
  EXPECT_EQ(json.at("before").at("step_time_us"), 10);
  EXPECT_EQ(json.at("held").at("step_time_us"), 12);
  EXPECT_EQ(json.at("searched").at("step_time_us"), 8);  // both on one device
  EXPECT_EQ(Emplace("simulate g.json --cluster c.yaml --placement found.json").status, 0);
  // It fits nowhere: an answer, and no file.
  const Ran none = Emplace(what_if + "--memory 0.000001 --search --evaluations 20 -o none.json");
  EXPECT_EQ(none.status, 1) << none.out;
  EXPECT_FALSE(Exists("none.json"));
}

TEST_F(ExplainTest, WhatIfRefusesWhatItCannotChange) {
  const std::string what_if = "what-if --graph g.json --cluster c.yaml --placement p.json ";
  ExpectRefused(Emplace(what_if), "what-if: nothing is changed (--bandwidth, --latency, --memory, --kind)");
  ExpectRefused(Emplace(what_if + "--bandwidth -1"),
                "the factor of bandwidth: is -1 (a number above 0 and at most 1e+06)");
  ExpectRefused(Emplace(what_if + "--kind h100"), "--kind: is \"h100\" (OLD=NEW, such as h100=b200)");
  ExpectRefused(Emplace(what_if + "--kind k80=v100 --kind k80=p100"), "--kind: names \"k80\" twice (once)");
  ExpectRefused(Emplace(what_if + "--memory 2 -o x.json"), "--output: needs --search");
}

}  // namespace
}  // namespace emplace::testing
