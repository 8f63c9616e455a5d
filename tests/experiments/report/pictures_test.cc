#include "experiments/report/pictures.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace report_pictures_test {

using ::testing::HasSubstr;

std::optional<experiments::PictureInputs> NoPicture(const JsonValue&) { return std::nullopt; }

std::optional<experiments::PictureInputs> APair(const JsonValue&) {
  const Graph graph = MakeChain(2, 4, 2000);
  const Cluster cluster = TwoDevices();
  return experiments::PictureInputs{graph, cluster, MeasuredCosts(graph, cluster), "fifo"};
}

std::string Markdown(const experiments::ExperimentRuns& runs, const experiments::RebuildProblem& rebuild) {
  std::ostringstream out;
  experiments::WriteMarkdown(
      out,
      {.title = "t", .blocks = experiments::PictureBlocks(runs, experiments::MakeReportGrid(runs.trials), rebuild)});
  return out.str();
}

TEST(ReportPicturesTest, TheBestPlacementIsDrawn) {
  const std::string folder = ::testing::TempDir() + "report_pictures_test/trial";
  WriteText(folder + "/best_placement.json",
            R"({"schema": "emplace.placement", "version": 1, "graph": "g", "cluster": "c",
                "devices": {"op0": "gpu:0", "op1": "gpu:1"}})");
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a", .best = 900}, {.label = "b", .best = 700}, {.label = "c", .best = 900}});
  EXPECT_EQ(Markdown(runs, APair), "# t\n\n");
  runs.trials[1].folder = folder;
  runs.trials[2].folder = folder;
  const std::string text = Markdown(runs, APair);
  // 4 us, 2 us of transfer, 4 us.
  EXPECT_THAT(text, HasSubstr("b on cifar10\\_00, 2 GPUs, seed 1: 0.01000 ms a step."));
  EXPECT_THAT(text, HasSubstr("Trial " + runs.trials[1].id + "."));
  EXPECT_THAT(Markdown(runs, NoPicture), HasSubstr("No picture of b on cifar10\\_00"));
  // A slower trial that began with a much longer step is not better.
  runs.trials[2].graphs[0].start_micros = 5000;
  runs.trials[2].graphs[0].improvement = 82;
  EXPECT_THAT(Markdown(runs, NoPicture), HasSubstr("No picture of b on cifar10\\_00"));
  WriteText(folder + "/best_placement.json", "{}");
  EXPECT_THAT(ErrorOf([&] { Markdown(runs, APair); }), HasSubstr("best_placement.json: "));
}

}  // namespace report_pictures_test
}  // namespace emplace::testing
