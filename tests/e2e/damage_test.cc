// Damaged, too large and incomplete files: the program's messages, and the files that it leaves.

#include <gmock/gmock.h>

#include <string>

#include "tests/e2e/samples.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DamageTest : public EmplaceTest {
 protected:
  // Expects exit status 2 and one line that ends with `end`.
  static void ExpectRefusal(const Ran& ran, const std::string& end) {
    EXPECT_EQ(ran.status, 2) << ran.err;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    EXPECT_THAT(ran.err, EndsWith(end + "\n"));
  }
  Ran Simulate(const std::string& graph) const {
    return Emplace("simulate --graph " + graph + " --cluster c.yaml --placement p.json");
  }
  // Creates RUNS/quick with one finished trial, and returns the trial's folder.
  std::string RunOneTrial() const {
    Write("x.yaml", kOneTrial);
    const Ran ran = Emplace("sweep x.yaml -o runs --jobs 1");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return Shell("ls -d runs/quick/*/ | tr -d '\\n'").out;
  }
};

TEST_F(DamageTest, APolicyWithAFlippedBitIsRefusedLengthy) {
  const std::string place =
      "place --graph g.json --cluster c.yaml --agent placeto --grouping identity --evaluations 60 ";
  ASSERT_EQ(Emplace(place + "--policy-out good.bin -o best.json").status, 0);
  ASSERT_EQ(Emplace(place + "--policy good.bin -o applied.json").status, 0);
  const std::string policy = Read("good.bin");
  constexpr std::size_t kFlips = 40;
  for (std::size_t i = 0; i < kFlips; ++i) {
    std::string flipped = policy;
    char& byte = flipped[i * policy.size() / kFlips];
    byte = static_cast<char>(byte ^ (1 << (i % 8)));
    Write("bad.bin", flipped);
    const Ran ran = Emplace(place + "--policy bad.bin -o never.json");
    EXPECT_EQ(ran.status, 2) << i;
    EXPECT_THAT(ran.err, StartsWith("bad.bin: is "));
  }
  EXPECT_FALSE(Exists("never.json"));
  Write("old.bin", "emplace.policy 1 placeto 2 " + policy.substr(policy.find('\n') + 1));
  ExpectRefusal(Emplace(place + "--policy old.bin -o never.json"),
                "old.bin: is a policy of an earlier version of emplace, without a checksum (train it again)");
}

TEST_F(DamageTest, JsonAndYamlEndWhereTheFileEndsLengthy) {
  Write("nul.json", std::string(kGraph) + '\0' + "anything");
  ExpectRefusal(Simulate("nul.json"),
                "nul.json: line 5, column 1: not valid JSON: a NUL byte (nothing but white space behind the document)");
  Write("nul.yaml", std::string(kCluster) + '\0' + "anything");
  ExpectRefusal(
      Emplace("simulate --graph g.json --cluster nul.yaml --placement p.json"),
      "nul.yaml: line 8, column 1: not valid YAML: a control character (of them only tabs and ends of lines)");
  ASSERT_EQ(Shell("gzip -k g.json && cp g.json.gz more.gz && printf garbage >>more.gz").status, 0);
  EXPECT_EQ(Simulate("g.json.gz").status, 0);
  ExpectRefusal(Simulate("more.gz"), "more.gz: cannot be read (there is something behind the gzip data)");
  ASSERT_EQ(Shell("head -c 100 g.json | gzip >two.gz; tail -c +101 g.json | gzip >>two.gz").status, 0);
  EXPECT_EQ(Simulate("two.gz").status, 0);
  EXPECT_EQ(Shell("cat two.gz | $emplace simulate --graph - --cluster c.yaml --placement p.json").status, 0);
  EXPECT_EQ(Shell("cat g.json | $emplace simulate --graph /dev/stdin --cluster c.yaml --placement p.json").status, 0);
}

TEST_F(DamageTest, WhatIsTooLargeIsRefusedWhileItIsReadLengthy) {
  const std::string said = "is in a text or number that is too long (at most 16777216 bytes)";
  Shell("{ printf '{\"schema\": \"'; head -c 17000000 /dev/zero | tr '\\0' a; printf '\"}'; } >text.json");
  ExpectRefusal(Simulate("text.json"), "text.json: line 1, column 16777229: " + said);
  Shell("{ printf '['; head -c 17000000 /dev/zero | tr '\\0' 7; printf ']'; } | gzip -1 >number.gz");
  ExpectRefusal(Simulate("number.gz"),
                R"(number.gz: [0]: is the number ")" + std::string(120, '7') + R"(..." (a number below 1.8e308))");
  ExpectRefusal(Simulate("/dev/zero"),
                "line 1, column 1: not valid JSON: a NUL byte (nothing but white space behind the document)");
  const std::string place = "place --graph g.json --cluster c.yaml --evaluations 20 -o best.json ";
  ExpectRefusal(Emplace(place + "--agent annealing --checkpoint /dev/zero"),
                "/dev/zero: cannot be read (it is not a regular file)");
  ExpectRefusal(Emplace(place + "--agent placeto --policy /dev/zero"),
                "/dev/zero: is not a policy (a file with a policy that emplace trained)");
  ASSERT_EQ(Shell("mkfifo pipe").status, 0);
  ExpectRefusal(Emplace(place + "--agent annealing --checkpoint pipe"),
                "pipe: cannot be read (it is not a regular file)");
  EXPECT_FALSE(Exists("best.json"));
}

TEST_F(DamageTest, ALinkToAFileThatIsNotThereIsFollowed) {
  ASSERT_EQ(Shell("mkdir folder && ln -s folder/target.json link.json && ln -s self.json self.json").status, 0);
  const Ran ran = Emplace("generate rnnlm --set hidden=64 steps=2 -o link.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Shell("test -L link.json && test -s folder/target.json && ls folder").out, "target.json\n");
  EXPECT_EQ(Emplace("generate rnnlm --set hidden=64 steps=2 -o self.json").status, 2);
  EXPECT_EQ(Shell("readlink self.json").out, "self.json\n");
}

TEST_F(DamageTest, WhatAKilledRunLeftIsRemovedByTheNextLengthy) {
  ASSERT_EQ(Shell("mkdir -p d/graphs d/groupings && cd d && touch graphs/cifar10_00.json.7.3.tmp "
                  "groupings/cifar10_31.json.4194000.0.tmp dataset.json.9.9.tmp graphs/mine.tmp")
                .status,
            0);
  const Ran ran = Emplace("dataset cifar10 -o d");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Shell("find d -name '*.tmp'").out, "d/graphs/mine.tmp\n");
}

TEST_F(DamageTest, AFileThatMayNotGrowIsAnError) {
  const std::string before = Names();
  ExpectRefused(Shell("ulimit -f 20; $emplace generate nmt -o big.json"),
                "big.json: cannot be written (File too large)");
  EXPECT_EQ(Names(), before);
}

TEST_F(DamageTest, AReportIsWrittenWholeOrNotAtAll) {
  RunOneTrial();
  ASSERT_EQ(Shell("mkdir out && echo old >out/page.md").status, 0);
  // The page is the largest of the five files; the others would fit.
  const Ran ran = Shell("ulimit -f 200; $emplace report runs -o out/page.html");
  ExpectRefusal(ran, "out/page.html: cannot be written (File too large)");
  EXPECT_EQ(Shell("ls out; cat out/page.md").out, "page.md\nold\n");
  EXPECT_EQ(Emplace("report runs -o out/page.html").status, 0);
  EXPECT_EQ(Shell("ls out").out, "page.csv\npage.html\npage.md\npage_table.csv\npage_tests.csv\n");
}

TEST_F(DamageTest, ATrialThatIsNotWhatWasWrittenIsRefusedUntilItRunsAgainLengthy) {
  const std::string trial = RunOneTrial();
  const std::string whole = Read(trial + "trial.json");
  const std::string advice = " (without trial.json and timing.json the same sweep runs the trial again)";
  const auto refusals = [&](const std::string& text, const std::string& end) {
    Write(trial + "trial.json", text);
    for (const char* const command : {"report runs -o page.html", "sweep x.yaml -o runs"}) {
      const Ran ran = Emplace(command);
      EXPECT_EQ(ran.status, 2) << command;
      EXPECT_THAT(ran.err, EndsWith("trial.json: " + end + "\n")) << command;
    }
    EXPECT_FALSE(Exists("page.html"));
  };
  refusals(Replaced(whole, "\"fitting\":100", "\"fitting\":101"),
           "checksum: is not that of the rest of the file, which is damaged or was changed" + advice);
  refusals(Replaced(whole, "\"fitting\"", "\"fiting\""),
           "graphs[0].fiting: unknown key (graph, num_ops, num_groups, num_devices, "
           "single_device_step_time_us, "
           "start_step_time_us, best_step_time_us, improvement_percent, beaten_by_one_device_us, "
           "single_ops_step_time_us, lower_bound_us, lower_bound_method, evaluations, fitting, saturated, warning, "
           "trace, episodes); did you mean fitting?");
  refusals(whole + '\0',
           "line 2, column 1: not valid JSON: a NUL byte (nothing but white space behind the document)" + advice);
  Shell("rm " + trial + "trial.json " + trial + "timing.json");
  EXPECT_EQ(Emplace("sweep x.yaml -o runs").status, 0);
  EXPECT_EQ(Read(trial + "trial.json"), whole);
  EXPECT_EQ(Emplace("report runs -o page.html").status, 0);
}

TEST_F(DamageTest, ADamagedSpecOrPlacementOfAFinishedTrialIsNotBelieved) {
  const std::string trial = RunOneTrial();
  const std::string spec = Read(trial + "spec.json");
  Write(trial + "spec.json", Replaced(spec, "\"seed\":1}", "\"seed\":2}"));
  const Ran ran = Emplace("report runs -o page.html");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("spec.json: is the spec of trial "));
  const Ran again = Emplace("sweep x.yaml -o runs");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("; written again\n"));
  EXPECT_EQ(Read(trial + "spec.json"), spec);
  const std::string placement = Read(trial + "best_placement.json");
  std::string moved = placement;
  const std::size_t first = moved.find("gpu:");
  moved[first + 4] = moved[first + 4] == '0' ? '1' : '0';
  Write(trial + "best_placement.json", moved);
  ExpectRefusal(Emplace("report runs -o page.html"),
                "best_placement.json: is not what trial.json was written with: it is damaged or was changed (without "
                "trial.json the same sweep runs the trial again)");
  Write(trial + "best_placement.json", placement);
  EXPECT_EQ(Emplace("report runs -o page.html").status, 0);
}

}  // namespace
}  // namespace emplace::testing
