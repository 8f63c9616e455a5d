// Attacks from outside: files without an end, bombs, pipes in place of files, outputs that cannot be written, machines
// without memory or threads. Each command has at most 2 s of CPU time (`ulimit -t`), which does not depend on what else
// the machine does.

#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace attack_test {

using ::testing::HasSubstr;

class AttackTest : public EmplaceTest {
 protected:
  // `command` with little CPU time, and with `data_mib` of memory for data beyond what the program starts with.
  Ran Bounded(const std::string& command, int data_mib = 160) const {
#ifdef EMPLACE_SANITIZED
    static_cast<void>(data_mib);  // sanitizers reserve terabytes
    return Shell("ulimit -t 40; " + command);
#else
    return Shell("ulimit -t 2; ulimit -d " + std::to_string(data_mib * 1024) + "; " + command);
#endif
  }
  static void ExpectOneLine(const Ran& ran, const std::string& part) {
    EXPECT_EQ(ran.status, 2) << ran.err;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err.substr(0, 1000);
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_LT(ran.err.size(), 5000U);
    EXPECT_EQ(ran.out, "");
  }
  std::string RunOneTrial() const {
    Write("x.yaml", kOneTrial);
    const Ran ran = Emplace("sweep x.yaml -o runs --jobs 1");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return Shell("ls -d runs/quick/*/ | tr -d '\\n'").out;
  }
};

TEST_F(AttackTest, FilesWithoutAnEndAreRefusedByTheirHead) {
  const std::string none = "/dev/zero: is in none of the formats that can be imported";
  const std::string problem = " --cluster c.yaml --placement p.json";
  ExpectOneLine(Bounded("$emplace sweep /dev/zero -o r --dry-run"), "/dev/zero: ");
  ExpectOneLine(Bounded("$emplace import /dev/zero -o o.json"), none);
  ExpectOneLine(Bounded("$emplace replay /dev/zero"), none);
  ExpectOneLine(Bounded("$emplace inspect /dev/zero"), "a NUL byte");
  ExpectOneLine(Bounded("$emplace inspect g.json --cluster /dev/zero"), "/dev/zero: ");
  ExpectOneLine(Bounded("$emplace simulate --graph g.json --cluster c.yaml --placement /dev/zero"), "a NUL byte");
  ASSERT_EQ(Shell("ln -s /dev/zero z.csv").status, 0);
  ExpectOneLine(Bounded("$emplace simulate --graph g.json --schedule z.csv" + problem),
                "z.csv: holds more than 50331648");
  ExpectOneLine(Bounded("$emplace simulate --graph g.json --profile /dev/zero" + problem), "a NUL byte");
  ExpectOneLine(Bounded("head -c 100000000 /dev/zero | $emplace import - -o o.json"), "standard input: is in none");
  for (const char* const format : {"kineto", "chakra", "pytorch-et", "onnx", "nccl", "pipedream", "dnn-partitioning"}) {
    ExpectOneLine(Bounded(std::string("$emplace import /dev/zero -o o.json --from ") + format, 900), "/dev/zero: ");
  }
  EXPECT_EQ(Names(), "c.yaml g.json p.json z.csv ");
}

TEST_F(AttackTest, LargeFilesAreRefusedByTheirSize) {
  ASSERT_EQ(Shell("cp g.json big.json; truncate -s 3G big.json; (cat c.yaml; echo) >big.yaml; truncate -s 3G big.yaml")
                .status,
            0);
  ExpectOneLine(Bounded("$emplace sweep big.yaml -o r"), "big.yaml: holds more than 4194304 bytes");
  ExpectOneLine(Bounded("$emplace inspect g.json --cluster big.yaml"), "big.yaml: holds more than 4194304 bytes");
  ExpectOneLine(Bounded("$emplace simulate --graph g.json --cluster c.yaml --placement big.json"), "big.json: ");
  ExpectOneLine(Bounded("$emplace inspect big.json"), "big.json: line 5, column 1: not valid JSON: a NUL byte");
  EXPECT_FALSE(Exists("r"));
}

TEST_F(AttackTest, BombsAreRefusedByTheirHeadOrTheirLimit) {
  // A MiB of each, 3,000 times: gzip takes members behind each other.
  ASSERT_EQ(Shell("head -c 1048576 /dev/zero | gzip -9 >m; yes m | head -n 3000 | xargs cat >zeros.gz; "
                  "head -c 1048576 /dev/zero | tr '\\0' ' ' | gzip -9 >b; yes b | head -n 300 | xargs cat >blank.gz")
                .status,
            0);
  ExpectOneLine(Bounded("$emplace sweep zeros.gz -o r"), "zeros.gz: holds more than 4194304 bytes");
  ExpectOneLine(Bounded("$emplace import zeros.gz -o o.json"), "zeros.gz: is in none of the formats");
  ExpectOneLine(Bounded("cat zeros.gz | $emplace import - -o o.json"), "standard input: is in none of the formats");
  ExpectOneLine(Bounded("$emplace replay zeros.gz"), "zeros.gz: is in none of the formats");
  ExpectOneLine(Bounded("$emplace inspect blank.gz"), "is in white space that is too long (at most 16777216 bytes)");
  ASSERT_EQ(Shell("{ printf '{\"schema\": \"emplace.graph\", \"version\": 1, \"metadata\": {\"a\": [1'; "
                  "yes ,1 | head -n 2000000 | tr -d '\\n'; } >values.json")
                .status,
            0);
  const std::string many = "is one value too many (at most 1048576 of them)";
  ExpectOneLine(Bounded("$emplace inspect values.json"), many);
  ExpectOneLine(Bounded("$emplace import values.json -o o.json"), many);
}

TEST_F(AttackTest, APipeInAFolderOfRunsIsSaidAndNotWaitedFor) {
  const std::string folder = RunOneTrial();
  const std::string refusal = "cannot be read (it is not a regular file)";
  for (const char* const name : {"timing.json", "trial.json", "spec.json"}) {
    const std::string file = folder + name;
    ASSERT_EQ(Shell("mv " + file + " kept; mkfifo " + file).status, 0);
    for (const char* const command : {"report runs", "sweep x.yaml -o runs", "status runs"}) {
      const Ran ran = Shell(std::string("timeout 10 $emplace ") + command);
      EXPECT_NE(ran.status, 124) << name << " hangs " << command;
      const bool is_read = std::string(command) != "status runs" || std::string(name) != "spec.json";
      if (!is_read) continue;
      EXPECT_EQ(ran.status, 2) << name << ", " << command << ": " << ran.err;
      EXPECT_THAT(ran.err, HasSubstr(name + std::string(": ") + refusal)) << command;
    }
    ASSERT_EQ(Shell("rm " + file + "; mv kept " + file).status, 0);
  }
  for (const char* const name : {"timing.json", "checkpoint.bin", "progress.jsonl", "error.txt", "lock"}) {
    ASSERT_EQ(Shell("rm -rf runs; $emplace sweep x.yaml -o runs --plan >/dev/null; mkfifo " + folder + name).status, 0);
    EXPECT_NE(Shell("timeout 20 $emplace sweep x.yaml -o runs --jobs 1").status, 124) << name;
  }
}

TEST_F(AttackTest, OutputsAppearAllOrNone) {
  const std::string place = "$emplace place --graph g.json --cluster c.yaml --agent random --evaluations 4 -o o.json ";
  ExpectOneLine(Shell(place + "--timeline /dev/full"), "/dev/full: cannot be written (No space left on device)");
  EXPECT_EQ(Shell(place + ">/dev/full").status, 2);
  EXPECT_EQ(Shell("$emplace simulate --graph g.json --cluster c.yaml --placement p.json --timeline o.svg >/dev/full; "
                  "$emplace explain --graph g.json --cluster c.yaml --placement p.json -o o.html >/dev/full; "
                  "$emplace compare --graph g.json --cluster c.yaml --agents random --evaluations 4 -o o.csv "
                  "-o o.md --placements . >/dev/full; $emplace inspect g.json --dot o.dot >/dev/full")
                .status,
            2);
  ExpectOneLine(Emplace("inspect g.json --dot o.dot --cluster c.yaml --costs nothing"), "--costs");
  ExpectOneLine(Emplace("inspect g.json --dot o.dot --cluster none.yaml"), "none.yaml");
  EXPECT_THAT(Shell("ls").out, ::testing::Not(HasSubstr("o.")));
}

TEST_F(AttackTest, AnOutputThatCannotBeWrittenIsFoundBeforeTheWork) {
  // 10^9 evaluations would take hours.
  const std::string place = "--graph g.json --cluster c.yaml --evaluations 1000000000 ";
  ExpectOneLine(Bounded("$emplace place --agent random " + place + "-o /proc/o.json"),
                "/proc/o.json: cannot be written (");
  ExpectOneLine(Bounded("$emplace place --agent random -o o.json --timeline /proc/t.json " + place),
                "/proc/t.json: cannot be written (");
  ExpectOneLine(Bounded("$emplace place --agent random -o o.json --checkpoint /proc/c.bin " + place),
                "/proc/c.bin: cannot be written (");
  ExpectOneLine(Bounded("$emplace compare --agents random -o /proc/o.csv " + place),
                "/proc/o.csv: cannot be written (");
  ExpectOneLine(Bounded("$emplace compare --agents random --placements /proc " + place),
                "/proc/placement.json: cannot be written (");
  ExpectOneLine(Bounded("$emplace bound --seconds 1000 --graph g.json --cluster c.yaml --placement-out /proc/o.json"),
                "/proc/o.json: cannot be written (");
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
  if (::geteuid() == 0) return;  // nothing is forbidden to root
  ASSERT_EQ(Shell("mkdir ro; cp p.json ro/old.json; chmod 555 ro").status, 0);
  for (const char* const name : {"new.json", "old.json"}) {
    ExpectOneLine(Bounded("$emplace place --agent random -o ro/" + std::string(name) + " " + place),
                  std::string("ro/") + name + ": cannot be written (Permission denied)");
  }
}

TEST_F(AttackTest, BadUtf8IsRefusedWhereItStandsBeforeAnythingIsMade) {
  Write("bad.yaml", "# M\xff question\n" + std::string(kOneTrial));
  Write("later.yaml", kOneTrial + std::string("# \xc3\x28\n"));
  for (const char* const more : {"", " --dry-run", " --plan"}) {
    ExpectOneLine(Emplace("sweep bad.yaml -o r" + std::string(more)),
                  "bad.yaml: line 1, column 4: the text is not valid UTF-8");
    ExpectOneLine(Emplace("sweep later.yaml -o r" + std::string(more)),
                  "later.yaml: line 10, column 3: the text is not valid UTF-8");
  }
  EXPECT_FALSE(Exists("r"));
}

TEST_F(AttackTest, ALongKeyIsALineOfOrdinaryLength) {
  for (const std::string letter : {"Z", "z ", "\xe2\x82\xac"}) {
    std::string key;
    while (key.size() < 1'000'000) key += letter;
    Write("long.json", R"({"schema": "emplace.graph", "version": 1, ")" + key + R"(": 1, "ops": []})");
    const Ran ran = Emplace("inspect long.json");
    ExpectOneLine(ran, "unknown key");
    EXPECT_LT(ran.err.size(), 500U);
    Write("long.yaml", std::string(kCluster) + "\"" + key + "\": 1\n");
    ExpectOneLine(Emplace("inspect g.json --cluster long.yaml"), "long.yaml: ");
  }
}

TEST_F(AttackTest, ProgressOfASweepIsALineForATrialWhateverItsGraphIsCalled) {
  Write("n.json", R"({"schema": "emplace.graph", "version": 1, "name": "a\nb\u001b[2J", "ops": [)"
                  R"({"name": "x", "kind": "k", "time_us": 1}]})");
  Write("n.yaml",
        "schema: emplace.experiment\nversion: 1\nname: n\ngraphs: {files: [n.json]}\n"
        "cluster: {name: p2.8xlarge, gpus: 1}\ncosts: measured\nagent: {name: random}\n"
        "budget: {evaluations: 2}\nseeds: [1]\n");
  const Ran ran = Emplace("sweep n.yaml -o r");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.err, ::testing::HasSubstr("[1/1] random, a\\nb\\u001b[2J, seed 1: 1 us"));
  EXPECT_EQ(ran.err.find('\x1b'), std::string::npos);
}

TEST_F(AttackTest, WithoutThreadsTheCallerDoesTheWork) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "sanitizers need more memory than is left here";
#endif
  const std::string place =
      "$emplace place --graph g.json --cluster c.yaml --agent random --evaluations 64 --seed 3 --threads 4 -o ";
  ASSERT_EQ(Shell(place + "with.json").status, 0);
  // A thread's stack of 8 GiB does not fit.
  const Ran ran = Shell("ulimit -s 8000000 && ulimit -v 4000000 && " + place + "without.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Shell("cmp with.json without.json").status, 0);
  Write("x.yaml", kOneTrial);
  EXPECT_EQ(Shell("ulimit -s 8000000 && ulimit -v 4000000 && $emplace sweep x.yaml -o r --jobs 1").status, 0);
}

TEST_F(AttackTest, WithoutMemoryTheStatusIs71) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "sanitizers need more memory than is left here";
#endif
  ASSERT_EQ(Emplace("generate rnnlm --set hidden=64 steps=200 layers=4 -o large.json").status, 0);
  const Ran without_room = Shell(
      "ulimit -v 200000; $emplace place --graph g.json --cluster c.yaml --agent hierarchical --evaluations 9 -o "
      "p2.json");
  EXPECT_EQ(without_room.status, 71) << without_room.err;  // LibTorch cannot be loaded
  EXPECT_EQ(without_room.err, "emplace: out of memory\n");
  const Ran ran = Shell("ulimit -d 4000; $emplace inspect large.json");
  EXPECT_EQ(ran.status, 71) << ran.err;
  EXPECT_EQ(ran.err, "emplace: out of memory\n");
}

// Every process that scores an instance fails in the same way.
TEST_F(AttackTest, ScoresThatCannotBeWrittenAreOneLine) {
  ASSERT_EQ(
      Shell("mkdir -p s/random/instances; for i in $($emplace library list --json | grep -o '\"name\": *\"[^\"]*' | "
            "cut -d'\"' -f4); do ln -s /dev/full s/random/instances/$i.json; done")
          .status,
      0);
  const Ran ran = Emplace("library score random --tier tiny --jobs 4 -o s");
  ExpectOneLine(ran, "cannot be written (it is not a regular file)");
}

}  // namespace attack_test
}  // namespace emplace::testing
