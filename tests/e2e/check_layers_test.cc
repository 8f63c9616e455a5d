// Runs tools/check_layers on a few files that include each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/testing/run_program.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class CheckLayersTest : public ProgramTest {
 protected:
  CheckLayersTest() : ProgramTest(EMPLACE_BINARY) {}

  // The check of one file with one include.
  Ran Check(const std::string& file, const std::string& target) const {
    Write("source", "#include \"" + target + "\"\n");
    return Shell("rm -rf root && mkdir -p root/$(dirname " + file + ") && mv source root/" + file +
                 " && " EMPLACE_TEST_SOURCE_DIR "/../tools/check_layers root");
  }
};

TEST_F(CheckLayersTest, IncludesGoDownwards) {
  EXPECT_EQ(Check("agents/a.cc", "sim/graph.h").status, 0);
  const Ran upwards = Check("sim/a.cc", "agents/agent.h");
  EXPECT_NE(upwards.status, 0);
  EXPECT_THAT(upwards.out, HasSubstr("sim/a.cc:1: sim may include sim, not agents/agent.h"));
}

TEST_F(CheckLayersTest, FoldersOfExperimentsAreLayersTooSlow) {
  EXPECT_EQ(Check("experiments/report/a.cc", "experiments/run/b.h").status, 0);
  EXPECT_EQ(Check("experiments/run/a.cc", "experiments/validation/b.h").status, 0);
  EXPECT_EQ(Check("experiments/validation/a.cc", "experiments/plan/b.h").status, 0);
  EXPECT_EQ(Check("experiments/plan/a.cc", "experiments/version.h").status, 0);
  EXPECT_EQ(Check("experiments/plan/a.cc", "experiments/library/b.h").status, 0);
  EXPECT_EQ(Check("experiments/library/a.cc", "experiments/inputs/b.h").status, 0);
  for (const auto& [file, target] : {std::pair("experiments/plan/a.cc", "experiments/validation/b.h"),
                                     std::pair("experiments/validation/a.cc", "experiments/run/b.h"),
                                     std::pair("experiments/run/a.cc", "experiments/report/b.h"),
                                     std::pair("experiments/library/a.cc", "experiments/plan/b.h"),
                                     std::pair("experiments/version.cc", "experiments/plan/b.h")}) {
    const Ran ran = Check(file, target);
    EXPECT_NE(ran.status, 0) << file;
    EXPECT_THAT(ran.out, HasSubstr(std::string(file) +
                                   ":1: experiments goes from inputs over library, plan, validation, run and "
                                   "report to library/score, so not " +
                                   target));
  }
}

TEST_F(CheckLayersTest, NoFoldersIncludeEachOther) {
  const auto check = [this](const std::string& back) {
    Write("one", "#include \"profiler/execute/b.h\"\n");
    Write("two", "#include \"" + back + "\"\n");
    return Shell(
        "rm -rf root && mkdir -p root/profiler/measure root/profiler/execute && mv one root/profiler/measure/a.h"
        " && mv two root/profiler/execute/b.h && " EMPLACE_TEST_SOURCE_DIR "/../tools/check_layers root");
  };
  EXPECT_EQ(check("profiler/hardware.h").status, 0);
  const Ran circle = check("profiler/measure/a.h");
  EXPECT_NE(circle.status, 0);
  EXPECT_THAT(circle.out, HasSubstr("closes a circle of folders"));
}

}  // namespace
}  // namespace emplace::testing
