// The program as a whole: help, unknown arguments, exit statuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class CommandLineTest : public EmplaceTest {};

constexpr const char* kCommands[] = {"import", "generate", "inspect", "simulate", "explain",
                                     "diff",   "place",    "compare", "list",     "transform"};

TEST_F(CommandLineTest, HelpNamesEveryCommandAndEachHasItsOwnLengthy) {
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
  ExpectRefused(
      Emplace("plaice"),
      "unknown command \"plaice\" (import, export, generate, transform, dataset, inspect, simulate, bound, explain, "
      "diff, what-if, profile, calibrate, measure, "
      "validate, place, "
      "compare, sweep, worker, submit, status, dashboard, memory, plan, replay, "
      "report, reproduce, library, list, config, completion); did you mean place?");
  ExpectRefused(Emplace(""),
                "a command is missing (import, export, generate, transform, dataset, inspect, simulate, bound, "
                "explain, diff, what-if, profile, calibrate, measure, "
                "validate, place, "
                "compare, sweep, worker, submit, status, dashboard, memory, plan, replay, report, "
                "reproduce, library, list, config, completion; "
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

TEST_F(CommandLineTest, WrongOptionsAreRefusedInOneLineLengthy) {
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

TEST_F(CommandLineTest, ListsHaveANameOneLineAndASourceLengthy) {
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
  ExpectRefused(Emplace("list recipes"),
                "unknown list \"recipes\" (agents, models, datasets, devices, clusters, engines, schedules, "
                "objectives, rewards, groupers, "
                "cost-models, planners, importers)");
}

TEST_F(CommandLineTest, ListHasTheNamesThatOthersRelyOn) {
  const auto names = [this](const std::string& what) {
    std::string all;
    for (const auto& row : nlohmann::json::parse(Emplace("list " + what + " --json").out)) {
      all += row.at("name").get<std::string>() + " ";
    }
    return all;
  };
  EXPECT_EQ(names("engines"), "fifo flow placeto-reference ");
  EXPECT_EQ(names("groupers"), "identity merge_and_colocate colocation modules layers ops ");
  EXPECT_EQ(names("importers"),
            "emplace pipedream dnn-partitioning kineto onnx hlo chakra pytorch-et torch-export stg wfcommons gguf "
            "tensorflow nccl ");
  EXPECT_EQ(names("clusters"),
            "2x-dgx-h100 dgx-a100 dgx-b200 dgx-b300 dgx-h100 dgx-h200 gb200-nvl72 gb300-nvl72 hdp-8k40 hgx-mi300x "
            "home-3090-3060 home-lan home-macs "
            "p2.8xlarge p5.48xlarge "
            "post-8k80 sgdp-8p100 ");
  EXPECT_EQ(
      names("agents"),
      "single_device cpu_only expert random round_robin blocks metis scotch m_topo m_etf m_sct heft dp_contiguous "
      "megatron pipedream multilevel_search local_search "
      "annealing random_walk placeto graphsage pgnn hierarchical coloc_rl post sgdp doppler ");
}

TEST_F(CommandLineTest, TheListOfAgentsSaysWhatEachWantsUnlessToldOtherwise) {
  std::map<std::string, nlohmann::json> defaults;
  for (const auto& row : nlohmann::json::parse(Emplace("list agents --json").out)) {
    defaults[row.at("name").get<std::string>()] = row.at("defaults");
  }
  EXPECT_EQ(defaults.at("post"), nlohmann::json({{"evaluations", "2400"},
                                                 {"grouping", "identity, merge_and_colocate over 1000 ops"},
                                                 {"reward", "runtime"}}));
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

TEST_F(CommandLineTest, AClosedStandardErrorChangesNoExitStatus) {
  EXPECT_EQ(Shell("$emplace simulate --graph none.json --cluster c.yaml --placement p.json 2>&-").status, 2);
  EXPECT_EQ(Shell("$emplace nonsense 2>&-").status, 2);
  EXPECT_EQ(Shell("$emplace generate rnnlm --set layers=1 -o r.json 2>&-").status, 0);
  // The messages did not go into the file, which would have got the closed descriptor's number.
  EXPECT_EQ(Emplace("inspect r.json").status, 0);
  EXPECT_EQ(Shell("$emplace place --graph g.json --cluster c.yaml --agent random -o out.json 2>/dev/full").status, 0);
}

TEST_F(CommandLineTest, AClosedStandardOutputIsRefusedBeforeAnythingIsDone) {
  const Ran ran = Shell("$emplace place --graph g.json --cluster c.yaml --agent random -o out.json >&-");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "-: standard output is closed (>/dev/null discards it)\n");
  EXPECT_FALSE(Exists("out.json"));
  EXPECT_EQ(Shell("$emplace list agents >&- 2>&-").status, 2);
}

TEST_F(CommandLineTest, AClosedStandardInputIsNoFile) {
  const Ran ran = Shell("$emplace inspect - <&-");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
}

TEST_F(CommandLineTest, AnEmptyValueIsRefusedWhateverTheOptionLengthy) {
  const std::string place = "place --graph g.json --cluster c.yaml --agent random -o out.json ";
  for (const std::string option : {"--checkpoint", "--policy", "--policy-out", "--devices", "--gpus", "--costs",
                                   "--profile", "--engine", "--grouping", "--groups", "--evaluations", "--reward",
                                   "--seed", "--torch-device", "--threads", "--timeline", "--set"}) {
    const Ran ran = Emplace(place + option + " ''");
    EXPECT_EQ(ran.status, 2) << option;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    EXPECT_THAT(ran.err, ::testing::StartsWith(option + ": ")) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(Names(), "c.yaml g.json p.json ") << option;
  }
  ExpectRefused(Emplace("inspect g.json --dot ''"), "--dot: is empty (a value) (see emplace inspect --help)");
  ExpectRefused(Emplace("compare --graph g.json --cluster c.yaml --agents random --placements ''"),
                "--placements: is empty (a value) (see emplace compare --help)");
  ExpectRefused(Emplace("generate rnnlm -o ''"), "--output: is empty (a value) (see emplace generate --help)");
  ExpectRefused(Emplace("generate '' -o r.json"), "model: is empty (a value) (see emplace generate --help)");
  ExpectRefused(Emplace("simulate --graph '' --cluster c.yaml --placement p.json"),
                "--graph: is empty (a value) (see emplace simulate --help)");
}

TEST_F(CommandLineTest, HelpOfACommandIsItsHelp) {
  EXPECT_EQ(Emplace("help place").out, Emplace("place --help").out);
  EXPECT_EQ(Emplace("help library list").out, Emplace("library list --help").out);
  EXPECT_EQ(Emplace("help").out, Emplace("--help").out);
  EXPECT_EQ(Emplace("help place").status, 0);
  ExpectRefused(Emplace("help plce"),
                Emplace("plce").err.substr(0, Emplace("plce").err.size() - 1));  // the message suggests place
}

TEST_F(CommandLineTest, AMisspeltOptionIsNamedBesideTheOneThatIsMissing) {
  ExpectRefused(Emplace("place --grph g.json --cluster c.yaml --agent random -o out.json"),
                "unknown: --grph; did you mean --graph? (see emplace place --help)");
}

TEST_F(CommandLineTest, NumbersAreRefusedWithWhatWasWrittenAndWhatIsAllowedLengthy) {
  const std::string place = "place --graph g.json --cluster c.yaml --agent random -o out.json ";
  const std::string help = " (see emplace place --help)";
  ExpectRefused(Emplace(place + "--gpus -1"), "--gpus: is \"-1\" (an integer of 0 or more)" + help);
  ExpectRefused(Emplace(place + "--threads '1\n2'"), "--threads: is \"1\\n2\" (an integer from 1 to 1024)" + help);
  ExpectRefused(Emplace(place + "--threads 2000"), "--threads: is \"2000\" (an integer from 1 to 1024)" + help);
  ExpectRefused(Emplace(place + "--threads 0x10"), "--threads: is \"0x10\" (an integer from 1 to 1024)" + help);
  ExpectRefused(Emplace(place + "--evaluations 1e3"),
                "--evaluations: is \"1e3\" (an integer from 1 to 1099511627776)" + help);
  ExpectRefused(Emplace("compare --graph g.json --cluster c.yaml --gpus 1,-1"),
                "--gpus: is \"-1\" (an integer of 0 or more) (see emplace compare --help)");
  ExpectRefused(Emplace("validate --graph g.json --max-error -1"),
                "--max-error: is \"-1\" (a number from 0 to 1e+09) (see emplace validate --help)");
  EXPECT_EQ(Emplace(place + "--threads 010 --evaluations 1").status, 0);  // decimal 10
  ExpectRefused(Emplace(place + "--gpus 09"), "--gpus: cluster two has 2 accelerators, not 9");
}

TEST_F(CommandLineTest, WhatWouldMoveTheTerminalIsEscapedInMessagesLengthy) {
  for (const std::string name : {"\x1b[31mx", "\u009b2J", "\u202ex", "\u2066x", "\u2028x", "\xff"}) {
    for (const std::string& arguments : {"'" + name + "'", "inspect '" + name + "'", "inspect g.json '--" + name + "'",
                                         "list '" + name + "'", "place --threads '" + name + "'"}) {
      const Ran ran = Emplace(arguments);
      EXPECT_EQ(ran.status, 2);
      EXPECT_EQ(ran.err.find(name.substr(0, 2)), std::string::npos) << arguments;
      EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    }
  }
  // Content of a file, printed on standard output.
  Write("e.json", R"({"schema": "emplace.graph", "version": 1, "name": "a\u001b[31m\u009b\u202e",
 "ops": [{"name": "a", "kind": "k\u001b\u2066", "outputs": [8], "time_us": 1}]})");
  const Ran ran = Emplace("inspect e.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::HasSubstr("graph              a\\u001b[31m\\u009b\\u202e\n"));
  EXPECT_THAT(ran.out, ::testing::HasSubstr("\nk\\u001b\\u2066 "));
  for (const std::string raw : {"\x1b", "\u009b", "\u202e", "\u2066"}) EXPECT_EQ(ran.out.find(raw), std::string::npos);
}

TEST_F(CommandLineTest, NamesThatNoFileCanHaveAreBadInputLengthy) {
  ASSERT_EQ(Shell("ln -s itself itself").status, 0);
  const std::string place = "place --graph g.json --cluster c.yaml --agent random ";
  const std::string compare = "compare --graph g.json --cluster c.yaml --agents random ";
  for (const std::string& name : {std::string(300, 'x'), std::string("itself"), std::string(300, 'x') + "/y"}) {
    for (const std::string& arguments :
         {"inspect " + name,
          "inspect g.json --dot " + name + ".dot",
          place + "-o " + name,
          place + "-o out.json --checkpoint " + name,
          place + "-o out.json --timeline " + name,
          place + "-o out.json --policy " + name,
          place + "-o out.json --profile " + name,
          place + "-o out.json --grouping ./" + name,
          compare + "--placements " + name,
          compare + "-o " + name + ".csv",
          "simulate --graph g.json --placement p.json --cluster " + name,
          "simulate --graph g.json --cluster c.yaml --placement " + name,
          "explain --graph g.json --cluster c.yaml --placement " + name,
          "explain --graph g.json --cluster c.yaml --placement p.json -o " + name + ".html",
          "diff --graph g.json --cluster c.yaml p.json " + name,
          "import " + name + " -o out.json",
          "dataset ptb -o " + name,
          "sweep " + name,
          "report " + name,
          "report . -o " + name + ".html",
          "trial " + name,
          "reproduce networks --from " + name,
          "reproduce networks -o " + name + ".md"}) {
      if (name == "itself" && arguments.find("itself.") != std::string::npos) continue;  // another file name
      const Ran ran = Emplace(arguments);
      EXPECT_EQ(ran.status, 2) << arguments << "\n" << ran.err;
      EXPECT_TRUE(IsOneLine(ran.err)) << arguments << "\n" << ran.err;
      EXPECT_EQ(Names(), "c.yaml g.json itself p.json ") << arguments;
    }
  }
  ExpectRefused(Emplace(place + "-o out.json --checkpoint itself"),
                "itself: cannot be written (Too many levels of symbolic links)");
  Write("e.yaml",
        "schema: emplace.experiment\nversion: 1\nname: e\ngraphs: {file: g.json}\ncluster: {file: c.yaml}\n"
        "agent: {name: random}\nseeds: [1]\nbudget: {evaluations: 5}\n");
  EXPECT_EQ(Emplace("sweep e.yaml -o " + std::string(300, 'x')).status, 2);
  EXPECT_EQ(Emplace("sweep e.yaml -o itself").status, 2);
}

TEST_F(CommandLineTest, TheProgramRunsFromAnyFolder) {
  EXPECT_EQ(Shell("cd / && $emplace list clusters").status, 0);
  EXPECT_EQ(Shell("mkdir deep && cd deep && $emplace inspect ../g.json --cluster p2.8xlarge").status, 0);
}

TEST_F(CommandLineTest, TheParsersMessagesAreInOurWords) {
  ExpectRefused(Emplace("list agents --foo --bar 1"), "unknown: --foo --bar 1 (see emplace list --help)");
  ExpectRefused(Emplace("place --seed 1 --seed 2"), "--seed: is given 2 times (once) (see emplace place --help)");
}

}  // namespace
}  // namespace emplace::testing
