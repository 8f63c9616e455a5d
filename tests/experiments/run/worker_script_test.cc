#include "experiments/run/worker_script.h"

#include <gmock/gmock.h>

#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using experiments::SbatchLines;
using experiments::ShellScript;
using experiments::SlurmScript;
using experiments::WorkerScript;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WorkerScriptTest, EachSbatchOptionIsALine) {
  EXPECT_THAT(SbatchLines({"-p", "cpu", "--time=1:00:00"}), ElementsAre("-p cpu", "--time=1:00:00"));
  EXPECT_NE(ErrorOf([] { SbatchLines({"cpu"}); }), "");
  EXPECT_NE(ErrorOf([] { SbatchLines({"-p", "a\nb"}); }), "");
}

TEST(WorkerScriptTest, AnArrayHasAJobForEachWorker) {
  const WorkerScript script{.program = "/opt/emplace",
                            .experiment = "thesis",
                            .folder = "/runs/thesis",
                            .workers = 4,
                            .jobs = 2,
                            .sbatch_options = {"-p cpu"}};
  const std::string slurm = SlurmScript(script);
  EXPECT_THAT(slurm, HasSubstr("#SBATCH -p cpu\n"));
  EXPECT_THAT(slurm, HasSubstr("--array=1-4"));
  EXPECT_THAT(slurm, HasSubstr("'/opt/emplace' worker"));
  EXPECT_THAT(slurm, HasSubstr("/runs/thesis"));
  const std::string shell = ShellScript(script);
  EXPECT_THAT(shell, HasSubstr("'/opt/emplace' worker"));
  EXPECT_THAT(shell, ::testing::Not(HasSubstr("SBATCH")));
}

}  // namespace
}  // namespace emplace::testing
