// Help at the command line: the examples of --help, completion, defaults.

#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace examples_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandHelpTest : public EmplaceTest {
 protected:
  std::vector<std::string> Commands() const {
    std::istringstream help(Emplace("--help").out);
    std::vector<std::string> commands;
    bool inside = false;
    for (std::string line; std::getline(help, line);) {
      if (line.empty()) inside = false;
      if (inside) commands.push_back(line.substr(2, line.find(' ', 2) - 2));
      if (line == "Subcommands:") inside = true;
    }
    for (const char* const part : {"list", "show", "check", "score"}) {
      commands.push_back(std::string("library ") + part);
    }
    return commands;
  }
  std::vector<std::string> ExamplesOf(const std::string& command) const {
    std::istringstream help(Emplace(command + " --help").out);
    std::vector<std::string> examples;
    for (std::string line; std::getline(help, line);) {
      if (line.starts_with("  emplace ")) examples.push_back(line.substr(10));
    }
    return examples;
  }
};

TEST_F(CommandHelpTest, EveryCommandHasThreeExamplesOfItsOwnOptions) {
  for (const std::string& command : Commands()) {
    const std::string help = Emplace(command + " --help").out;
    const std::vector<std::string> examples = ExamplesOf(command);
    EXPECT_EQ(examples.size(), 3U) << command;
    for (const std::string& example : examples) {
      EXPECT_TRUE(example.starts_with(command.substr(0, command.find(' ')))) << example;
      if (command == "library" || example.find("--slurm") != std::string::npos)
        continue;  // options of parts, of sbatch
      std::istringstream words(example);
      for (std::string word; words >> word;) {
        if (!word.starts_with("--")) continue;
        EXPECT_THAT(help, HasSubstr(word.substr(0, word.find('=')))) << example;
      }
    }
  }
}

// In the order of --help, each finds the files of those before.
TEST_F(CommandHelpTest, ExamplesRunSlow) {
  Write("experiment.yaml", kOneTrial);
  // They need files that only users have, GPUs, other machines, a minute or more, or do not end.
  const std::set<std::string> others = {"import",    "profile", "calibrate", "measure",      "validate",
                                        "dashboard", "replay",  "reproduce", "library check"};
  std::set<std::string> run;
  std::size_t count = 0;
  std::vector<std::string> order = {"generate", "transform", "dataset", "inspect", "place", "simulate",
                                    "bound",    "explain",   "diff",    "compare", "export"};
  for (const std::string& command : Commands()) {
    if (std::ranges::count(order, command) == 0) order.push_back(command);
  }
  for (const std::string& command : order) {
    if (others.contains(command)) continue;
    for (const std::string& example : ExamplesOf(command)) {
      const bool needs_more = example.find("/shared/") != std::string::npos ||
                              example.find("my_agents") != std::string::npos || example.find("completion ") == 0 ||
                              example.find("--data tables") != std::string::npos;
      if (needs_more || !run.insert(example).second) continue;
      const Ran ran = Shell("$emplace " + example);
      EXPECT_EQ(ran.status, 0) << example << "\n" << ran.err;
      ++count;
    }
  }
  EXPECT_GT(count, 50U);
}

TEST_F(CommandHelpTest, BashCompletesCommandsOptionsAndNames) {
  Write("ask.sh",
        "source <($1 completion bash); shift\n"
        "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _emplace; echo \" ${COMPREPLY[@]} \"\n");
  const auto completed = [&](const std::string& words) { return Shell("bash ask.sh $emplace emplace " + words).out; };
  EXPECT_THAT(completed("pla"), HasSubstr(" place "));
  EXPECT_THAT(completed("place g.json --micro"), HasSubstr(" --micro-batches "));
  EXPECT_THAT(completed("place --agent multi"), HasSubstr(" multilevel_search "));
  EXPECT_THAT(completed("place --cluster dgx-h"), HasSubstr(" dgx-h100 "));
  EXPECT_THAT(completed("place --collectives r"), HasSubstr(" ring "));
  EXPECT_THAT(completed("generate nm"), HasSubstr(" nmt "));
  EXPECT_THAT(completed("library sh"), HasSubstr(" show "));
  EXPECT_THAT(completed("inspect g"), HasSubstr(" g.json "));
  EXPECT_THAT(Emplace("completion fish").out, AllOf(HasSubstr("-l micro-batches -x"), HasSubstr("-l placement -r")));
  EXPECT_THAT(Emplace("completion zsh").out, HasSubstr("#compdef emplace"));
  ExpectRefused(Emplace("completion tcsh"), "shell: tcsh not in {bash,zsh,fish} (see emplace completion --help)");
}

TEST_F(CommandHelpTest, DefaultsAreThoseOfTheFolderThenOfTheUser) {
  Shell("mkdir -p user/emplace");
  Write("user/emplace/emplace.yaml", "cluster: p2.8xlarge\nthreads: 3\n");
  const auto run = [&](const std::string& arguments) {
    return Shell("XDG_CONFIG_HOME=$PWD/user $emplace " + arguments);
  };
  EXPECT_THAT(run("config").out, ContainsRegex("--cluster +p2.8xlarge +.*user/emplace/emplace.yaml"));
  Write("emplace.yaml", "cluster: c.yaml\n");
  EXPECT_THAT(run("config").out, ContainsRegex("--cluster +c.yaml +emplace.yaml"));
  EXPECT_THAT(run("config").out, ContainsRegex("--threads +3 "));
  EXPECT_THAT(run("config --json").out, HasSubstr("\"schema\": \"emplace.config\""));
  // Options go before defaults, and the answer says which cluster and costs it is of.
  EXPECT_THAT(run("place g.json -o out.json").out, HasSubstr("pair on two, engine fifo, costs measured\n"));
  EXPECT_THAT(run("place g.json --cluster p2.8xlarge --costs measured -o out.json").out, HasSubstr("on p2.8xlarge"));
  for (const auto& [text, error] : {std::pair("clutter: 3\n", "emplace.yaml: clutter: unknown key"),
                                    std::pair("costs: free\n", "emplace.yaml: costs: unknown cost model \"free\""),
                                    std::pair("threads: 0\n", "emplace.yaml: threads: is the number 0"),
                                    std::pair("cluster: [\n", "emplace.yaml: ")}) {
    Write("emplace.yaml", text);
    const Ran ran = run("place g.json -o no.json");
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, ::testing::StartsWith(error));
  }
}

TEST_F(CommandHelpTest, EveryCommandNamesTheCostsOfTheDefaults) {
  Emplace("generate rnnlm --set steps=2 --set hidden=64 -o r.json");
  const std::string on = " r.json --cluster post-8k80";
  for (const char* const text : {"threads: 1\n", "costs: roofline\n"}) {
    Write("emplace.yaml", text);
    EXPECT_THAT(Emplace("inspect" + on).out, ContainsRegex("costs +roofline"));
    EXPECT_THAT(Emplace("bound" + on).out, HasSubstr("costs roofline"));
  }
  Write("emplace.yaml", "costs: measured\n");
  EXPECT_THAT(Emplace("inspect" + on).out, ContainsRegex("costs +measured\n(.*\n)*no bounds +give it a time_us"));
  EXPECT_THAT(Emplace("bound" + on).err, HasSubstr("has no time on any device"));
  EXPECT_THAT(Emplace("inspect g.json --cluster c.yaml").out, ContainsRegex("costs +measured"));
  EXPECT_THAT(Emplace("bound g.json --cluster c.yaml").out, HasSubstr("costs measured"));
}

TEST_F(CommandHelpTest, CostsAreMeasuredWhereEveryOpHasATime) {
  EXPECT_THAT(Emplace("simulate g.json --cluster c.yaml --placement p.json").out, HasSubstr("costs measured\n"));
  EXPECT_THAT(Emplace("generate rnnlm --set steps=2 --set hidden=64 -o r.json").err, Not(HasSubstr("error")));
  EXPECT_THAT(Emplace("place r.json --cluster post-8k80 -o r_placed.json").out,
              HasSubstr("costs roofline (estimates)\n"));
  // One op without a time, and of a kind that roofline does not know: what is missing is the time.
  std::string text = kGraph;
  text.replace(text.find(", \"time_us\": 4"), 14, "");
  Write("untimed.json", text);
  EXPECT_THAT(Emplace("place untimed.json --cluster c.yaml -o no.json").err, HasSubstr("time_us"));
}

TEST_F(CommandHelpTest, TheGraphIsAnArgumentOrAnOption) {
  const std::string graph = Emplace("simulate --graph g.json --cluster c.yaml --placement p.json").out;
  EXPECT_EQ(Emplace("simulate g.json --cluster c.yaml --placement p.json").out, graph);
  EXPECT_EQ(Emplace("inspect --graph g.json").out, Emplace("inspect g.json").out);
  const std::string diff = Emplace("diff p.json p.json --graph g.json --cluster c.yaml").out;
  EXPECT_NE(diff, "");
  EXPECT_EQ(Emplace("diff g.json p.json p.json --cluster c.yaml").out, diff);
  EXPECT_EQ(Emplace("diff p.json p.json --cluster c.yaml").status, 2);
  EXPECT_EQ(Emplace("diff g.json p.json p.json --graph g.json --cluster c.yaml").status, 2);
}

}  // namespace examples_test
}  // namespace emplace::testing
