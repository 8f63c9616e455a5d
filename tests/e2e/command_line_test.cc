// The program as a whole: help, unknown words, exit statuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class CommandLineTest : public EmplaceTest {};

constexpr const char* kCommands[] = {"import", "generate", "inspect", "simulate", "place", "compare", "list"};

TEST_F(CommandLineTest, HelpNamesEveryCommandAndEachHasItsOwn) {
  const Ran help = Emplace("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.err, "");
  for (const std::string command : kCommands) {
    EXPECT_NE(help.out.find("\n  " + command + " "), std::string::npos) << command;
    const Ran own = Emplace(command + " --help");
    EXPECT_EQ(own.status, 0) << command;
    EXPECT_NE(own.out.find("Exit status: 0 done"), std::string::npos) << command;
    EXPECT_EQ(own.err, "");
  }
}

TEST_F(CommandLineTest, VersionIsOneLine) {
  const Ran ran = Emplace("--version");
  EXPECT_EQ(ran.status, 0);
  EXPECT_TRUE(IsOneLine(ran.out));
  EXPECT_EQ(ran.out.rfind("emplace ", 0), 0U);
}

TEST_F(CommandLineTest, AnUnknownCommandIsRefusedWithTheKnownOnes) {
  ExpectRefused(Emplace("plaice"),
                "unknown command \"plaice\" (import, generate, dataset, inspect, simulate, profile, validate, place, "
                "compare, sweep, "
                "report, reproduce, list)");
  ExpectRefused(Emplace(""),
                "a command is missing (import, generate, dataset, inspect, simulate, profile, validate, place, "
                "compare, sweep, report, "
                "reproduce, list; "
                "emplace --help)");
}

TEST_F(CommandLineTest, TheEnvironmentForcesAnInstructionSetThatThereIs) {
  EXPECT_EQ(Shell("EMPLACE_VECTORS=baseline $emplace --version").status, 0);
  const Ran ran = Shell("EMPLACE_VECTORS=sse9 $emplace --version");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  EXPECT_EQ(ran.err.rfind("EMPLACE_VECTORS: unknown instruction set \"sse9\" (baseline", 0), 0U) << ran.err;
}

TEST_F(CommandLineTest, WrongOptionsAreRefusedInOneLine) {
  for (const char* const arguments : {
           "--frobnicate",
           "simulate",
           "simulate --graph g.json --cluster c.yaml",
           "simulate --graph g.json --cluster c.yaml --placement p.json --frobnicate",
           "simulate --graph g.json --cluster c.yaml --placement p.json stray",
           "simulate --graph g.json --cluster c.yaml --placement",
           "simulate --graph g.json --graph g.json --cluster c.yaml --placement p.json",
           "simulate --graph g.json --cluster c.yaml --placement p.json --gpus two",
           "simulate --graph g.json --cluster c.yaml --placement p.json --gpus -1",
           "simulate --graph g.json --cluster c.yaml --placement p.json --gpus 1.5",
           "place --graph g.json --cluster c.yaml --agent random",
           "place --graph g.json --cluster c.yaml --agent random -o x.json --evaluations 0",
           "place --graph g.json --cluster c.yaml --agent random -o x.json --threads 0",
           "place --graph g.json --cluster c.yaml --agent random -o x.json --seed 1x",
           "place --graph g.json --cluster c.yaml --agent random -o x.json --set evaluations",
           "generate -o x.json",
           "generate nmt",
           "import -o x.json",
           "list",
           "inspect",
       }) {
    const Ran ran = Emplace(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_TRUE(IsOneLine(ran.err)) << arguments;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(Names(), "c.yaml g.json p.json ") << arguments;
  }
}

TEST_F(CommandLineTest, ListsHaveANameOneLineAndASource) {
  for (const std::string what :
       {"agents", "models", "devices", "clusters", "engines", "rewards", "groupers", "cost-models", "importers"}) {
    const Ran ran = Emplace("list " + what + " --json");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto rows = nlohmann::json::parse(ran.out);
    EXPECT_FALSE(rows.empty()) << what;
    const Ran text = Emplace("list " + what);
    for (const auto& row : rows) {
      EXPECT_FALSE(row.at("name").get<std::string>().empty()) << what;
      EXPECT_FALSE(row.at("summary").get<std::string>().empty()) << what << " " << row;
      EXPECT_FALSE(row.at("source").get<std::string>().empty()) << what << " " << row;
      EXPECT_NE(text.out.find("\n" + row.at("name").get<std::string>() + " "), std::string::npos) << what << " " << row;
    }
  }
  ExpectRefused(
      Emplace("list recipes"),
      "there is no list of \"recipes\" (agents, models, datasets, devices, clusters, engines, rewards, groupers, "
      "cost-models, importers)");
}

TEST_F(CommandLineTest, ListHasTheNamesThatOthersRelyOn) {
  const auto names = [this](const std::string& what) {
    std::string all;
    for (const auto& row : nlohmann::json::parse(Emplace("list " + what + " --json").out)) {
      all += row.at("name").get<std::string>() + " ";
    }
    return all;
  };
  EXPECT_EQ(names("engines"), "fifo placeto-reference ");
  EXPECT_EQ(names("groupers"), "identity merge_and_colocate colocation ");
  EXPECT_EQ(names("importers"), "emplace pipedream dnn-partitioning ");
  EXPECT_EQ(names("clusters"), "2x-dgx-h100 dgx-h100 hdp-8k40 p2.8xlarge post-8k80 sgdp-8p100 ");
  EXPECT_EQ(names("agents"),
            "single_device cpu_only expert random round_robin blocks metis scotch m_topo m_etf m_sct heft local_search "
            "annealing random_walk placeto graphsage pgnn hierarchical coloc_rl post sgdp ");
}

TEST_F(CommandLineTest, TheListOfAgentsSaysWhatEachWantsUnlessToldOtherwise) {
  std::map<std::string, nlohmann::json> defaults;
  for (const auto& row : nlohmann::json::parse(Emplace("list agents --json").out)) {
    defaults[row.at("name").get<std::string>()] = row.at("defaults");
  }
  EXPECT_EQ(defaults.at("post"),
            nlohmann::json({{"evaluations", "2400"}, {"grouping", "merge_and_colocate"}, {"reward", "runtime"}}));
  EXPECT_EQ(defaults.at("coloc_rl").at("grouping"), "colocation, merge_and_colocate over 2000 ops");
  EXPECT_EQ(defaults.at("sgdp").at("evaluations"), "800");
  EXPECT_THAT(Emplace("list agents").out, ::testing::HasSubstr("--reward=log_memory_penalty"));
}

TEST_F(CommandLineTest, AReaderThatStopsEarlyIsNoError) {
  const Ran ran = Shell("$emplace list agents | head -n 1");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, "");
}

TEST_F(CommandLineTest, AFullDiskIsReported) {
  const Ran ran = Shell("$emplace list agents > /dev/full");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "-: standard output cannot be written\n");
}

TEST_F(CommandLineTest, TheProgramRunsFromAnyFolder) {
  EXPECT_EQ(Shell("cd / && $emplace list clusters").status, 0);
  EXPECT_EQ(Shell("mkdir deep && cd deep && $emplace inspect ../g.json --cluster p2.8xlarge").status, 0);
}

}  // namespace
}  // namespace emplace::testing
