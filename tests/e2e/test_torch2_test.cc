// Runs tools/test_torch2 with fake commands: which commands it calls, which files it copies, and how it summarises
// results. Only the script itself tests emplace on a newer Debian.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/run_program.h"

namespace emplace::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs the commands of the other system: `unshare ... sh -c SCRIPT sh ROOT REFERENCE NAME=VALUE... COMMAND...`, and
// debootstrap.
constexpr const char* kFakeUnshare = R"sh(#!/bin/sh
echo "$*" | tr '\n' ' ' | sed 's/.*exit [$][?]//; s/ *$//' >> "$HERE/notes"
echo >> "$HERE/notes"
case "$*" in
  *debootstrap*) for last; do target=$before; before=$last; done; mkdir -p "$target/etc" ;;
  *"dpkg-query"*) echo "${TORCH:-2.6.0+dfsg-7}" ;;
  *"c++ -dumpfullversion"*) echo 14.2.0 ;;
  *"cmake --version"*) echo "cmake version 3.31.6" ;;
  *"cmake --build"*) [ -z "$FAIL_BUILD" ] || { echo "a.cc:1:2: error: no such header"; exit 1; } ;;
  *ctest*) mkdir -p "$HERE/root/emplace/build"; cp "$HERE/results.xml" "$HERE/root/emplace/build/test_torch2.xml"; exit "${CTEST_STATUS:-0}" ;;
esac
)sh";

// Shortened output of ctest 3.25 and 3.31: a check, parts of a program with their own counts, one that ended early.
constexpr const char* kTestTorch2Results = R"xml(<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++"
	tests="6"
	failures="2"
	disabled="0"
	skipped="1"
	hostname=""
	time="5">
	<testcase name="check" classname="check" time="0.1" status="run">
		<system-out>tests="99"</system-out>
	</testcase>
	<testcase name="sim_test.part0" classname="sim_test.part0" time="0.1" status="fail">
		<failure message=""/>
		<system-out>Running main() from gmock_main.cc
/emplace/tests/sim/a_test.cc:36: Failure
[  FAILED  ] A.Fails (58 ms)
[  FAILED  ] A.Fails/1 (4 ms)
[==========] 12 tests from 3 test suites ran. (41836 ms total)
[  PASSED  ] 10 tests.
</system-out>
	</testcase>
	<testcase name="sim_test.part1" classname="sim_test.part1" time="0.1" status="run">
		<system-out>Running main() from gmock_main.cc
/emplace/tests/sim/b_test.cc:76: Skipped
it needs more
[==========] 8 tests from 3 test suites ran. (41 ms total)
[  PASSED  ] 7 tests.
[  SKIPPED ] 1 test.
</system-out>
	</testcase>
	<testcase name="sim_test.part2" classname="sim_test.part2" time="0.1" status="fail">
		<failure message=""/>
		<system-out>Running main() from gmock_main.cc
</system-out>
	</testcase>
	<testcase name="other" classname="other" time="0.1" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
	</testcase>
</testsuite>
)xml";

class TestTorch2Test : public ProgramTest {
 protected:
  TestTorch2Test() : ProgramTest(EMPLACE_BINARY) {
    Shell("mkdir -p bin scripts && touch scripts/trixie");
    Write("bin/unshare", kFakeUnshare);
    Write("bin/id", "#!/bin/sh\necho 0\n");
    Write("bin/dpkg-query", "#!/bin/sh\necho installed\n");
    Write("bin/apt-config", "#!/bin/sh\n");
    Write("bin/apt-get", "#!/bin/sh\n[ \"$1\" != indextargets ] || echo http://mirror.example.org/debian/\n");
    Write("bin/tar", "#!/bin/sh\ncat > /dev/null\n");  // copying takes a second
    Write("results.xml", kTestTorch2Results);
    Shell("chmod +x bin/*");
  }

  // Runs in the test's folder, with `settings` in front of the command.
  Ran Run(const std::string& arguments, const std::string& settings = "") const {
    return Shell("EMPLACE_REFERENCE_DATA= DEBOOTSTRAP_DIR=$PWD EMPLACE_LOGS=$PWD/logs HERE=$PWD PATH=$PWD/bin:$PATH " +
                 settings + " " EMPLACE_TEST_SOURCE_DIR "/../tools/test_torch2 " + arguments);
  }
  // The system that an earlier run installed.
  void MakeRoot() const { Shell("mkdir -p root/emplace/build root/etc && echo trixie > root/.made_by_test_torch2"); }
};

TEST_F(TestTorch2Test, BadArgumentsAreRefusedInOneLineAndChangeNothingSlow) {
  Shell("mkdir full && touch full/file");
  MakeRoot();
  const std::vector<std::string> wrong = {
      "--fast",    "--release",          "--release 13",     "''", "one two", "--mirror here x", "full",
      "full/file", "root --release sid", "--release unheard"};
  for (const std::string& arguments : wrong) {
    const Ran ran = Run(arguments);
    EXPECT_EQ(ran.status, 2) << arguments << ran.err;
    EXPECT_TRUE(IsOneLine(ran.err)) << arguments << ": " << ran.err;
    EXPECT_THAT(ran.err, ::testing::StartsWith("tools/test_torch2: "));
  }
  for (const std::string setting : {"CMAKE_BUILD_PARALLEL_LEVEL=0", "EMPLACE_REFERENCE_DATA=nowhere"}) {
    const Ran ran = Run("root", setting);
    EXPECT_EQ(ran.status, 2);
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
  }
  EXPECT_FALSE(Exists("notes"));
  EXPECT_FALSE(Exists("root/emplace/CMakeLists.txt"));
}

TEST_F(TestTorch2Test, CountsAndNamesWhatFailedAndWasSkippedSlow) {
  MakeRoot();
  const Ran ran = Run("root", "CTEST_STATUS=8");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_THAT(ran.out,
              EndsWith("failed: A.Fails\nfailed: A.Fails/1\nskipped: tests/sim/b_test.cc:76: it needs more\n"
                       "failed: sim_test.part2\nskipped: other\nLibTorch 2.6.0+dfsg-7, g++ 14.2.0, cmake version "
                       "3.31.6, Debian trixie\n18 passed, 3 failed, 2 skipped\n"));
}

TEST_F(TestTorch2Test, PassesWhereCtestDoesSlow) {
  MakeRoot();
  Write("results.xml",
        "<testsuite name=\"\"\n\ttests=\"2\"\n\tfailures=\"0\"\n\tskipped=\"0\">\n"
        "\t<testcase name=\"a\">\n[  PASSED  ] 2 tests.\n</testsuite>\n");
  const Ran ran = Run("root", "EMPLACE_REFERENCE_DATA=$PWD/scripts CMAKE_BUILD_PARALLEL_LEVEL=3");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, EndsWith("\n2 passed, 0 failed, 0 skipped\n"));
  const std::string notes = Read("notes");
  EXPECT_THAT(notes, HasSubstr("CCACHE_DISABLE=1"));
  EXPECT_THAT(notes, HasSubstr("cmake --preset dev -DCMAKE_CXX_FLAGS=-O1 -DEMPLACE_REQUIRE_CUPTI=OFF "
                               "-DEMPLACE_REFERENCE_DATA=/reference\n"));
  EXPECT_THAT(notes, HasSubstr("cmake --build --preset dev -j 3\n"));
  EXPECT_THAT(notes, HasSubstr("ctest --preset dev -j 3 -LE ^slow$ "));
  EXPECT_THAT(notes, Not(HasSubstr("debootstrap")));  // the system exists already
}

TEST_F(TestTorch2Test, MakesTheSystemOnceFromTheMirrorThatAptUsesSlow) {
  EXPECT_EQ(Run("root", "CTEST_STATUS=8").status, 1);
  const std::string notes = Read("notes");
  EXPECT_THAT(notes, HasSubstr("debootstrap --variant=minbase --keyring="));
  EXPECT_THAT(notes, HasSubstr("/root.part http://mirror.example.org/debian/\n"));
  EXPECT_THAT(notes, HasSubstr("tools/install_dependencies --tests\n"));
  EXPECT_EQ(Read("root/.made_by_test_torch2"), "trixie\n");
  EXPECT_FALSE(Exists("root.part"));
}

TEST_F(TestTorch2Test, WithCuptiItIsInstalledRequiredAndNamedSlow) {
  MakeRoot();
  const Ran ran = Run("root --cupti", "CTEST_STATUS=8");
  EXPECT_THAT(ran.out, HasSubstr("Debian trixie, CUPTI 2.6.0+dfsg-7\n"));  // the fake's answer for any package
  const std::string notes = Read("notes");
  EXPECT_THAT(notes, HasSubstr("apt-get install -y -qq --no-install-recommends libcupti-dev"));
  EXPECT_THAT(notes, HasSubstr("-DEMPLACE_REQUIRE_CUPTI=ON"));
}

using TestTorch2SlowTest = TestTorch2Test;

TEST_F(TestTorch2SlowTest, TheSourcesThereAreTheSourcesHereAndWhatWasBuiltStays) {
  MakeRoot();
  Shell("touch root/emplace/gone.cc root/emplace/build/kept && rm bin/tar");
  // The last copy has a file that is unchanged, and one whose text has changed since.
  Shell("cp " EMPLACE_TEST_SOURCE_DIR "/../CMakeLists.txt root/emplace && echo old > root/emplace/LICENSE");
  Shell("touch -d 2001-02-03 root/emplace/CMakeLists.txt && touch built");
  Run("root");
  EXPECT_EQ(Shell("date -r root/emplace/CMakeLists.txt +%F").out, "2001-02-03\n");
  EXPECT_EQ(Shell("[ root/emplace/LICENSE -nt built ]").status, 0);
  EXPECT_FALSE(Exists("root/emplace.new"));
  EXPECT_FALSE(Exists("root/emplace/gone.cc"));
  EXPECT_TRUE(Exists("root/emplace/build/kept"));
  EXPECT_EQ(Shell("cmp root/emplace/CMakeLists.txt " EMPLACE_TEST_SOURCE_DIR "/../CMakeLists.txt").status, 0);
  EXPECT_FALSE(Exists("root/emplace/.git"));
}

TEST_F(TestTorch2Test, AFailedBuildShowsItsErrorsAndNoCountsSlow) {
  MakeRoot();
  const Ran ran = Run("root", "FAIL_BUILD=1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("a.cc:1:2: error: no such header\ntools/test_torch2: see "));
  EXPECT_THAT(ran.out, Not(HasSubstr("passed")));
}

TEST_F(TestTorch2Test, ALibTorchBefore26IsRefusedSlow) {
  MakeRoot();
  const Ran ran = Run("root", "TORCH=1.13.1+dfsg-4");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "tools/test_torch2: Debian trixie has LibTorch 1.13.1+dfsg-4 (2.6 or newer is wanted)\n");
}

}  // namespace
}  // namespace emplace::testing
