// emplace report, and its page in a browser.

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "experiments/report/charts.h"
#include "experiments/report/html.h"
#include "experiments/report/placement_picture.h"
#include "tests/e2e/samples.h"
#include "tests/testing/graphs.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The text between `begin` and the next `end`.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  from += begin.size();
  return text.substr(from, text.find(end, from) - from);
}

// Removes the scripts, which would fill a screen when a test fails.
std::string WithoutScripts(std::string page) {
  const std::string end = "</script>";
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script")) {
    page.erase(at, page.find(end, at) + end.size() - at);
  }
  return page;
}

class ReportTest : public EmplaceTest {
 protected:
  // Two datasets, 2 and 3 devices, three agents of which one learns, three graphs.
  void WriteSampleRuns(const std::string& more = R"(, "metrics": ["improvement", "pc_ratio"], "published": "thesis")") {
    std::vector<SampleTrial> trials;
    for (const char* const dataset : {"cifar10", "nmt"}) {
      for (int index = 0; index < 3; ++index) {
        for (const int devices : {2, 3}) {
          for (const char* const label : {"placeto", "random", "<b>bold</b>"}) {
            SampleTrial trial = {
                .label = label, .name = "placeto", .dataset = dataset, .index = index, .devices = devices};
            trial.best = 900 - 50 * index - (trial.label == "placeto" ? 100 : 0);
            trial.trace = {{1, 1000}, {10, *trial.best}};
            if (trial.label == "placeto") trial.episodes = {{0, true, 0.9}, {1, false, 0.8}};
            trials.push_back(trial);
          }
        }
      }
    }
    WriteRuns(Folder() + "/runs", trials, more);
  }

  std::string Folder() const {
    const std::string out = Shell("pwd").out;
    return out.substr(0, out.find('\n'));
  }

  bool HasBrowser() const { return Shell("command -v chromium").status == 0; }

  // The page after its scripts have run, without the scripts; console messages go to ran.err.
  Ran Browse(const std::string& page, int width = 1200) const {
    Ran ran = Shell(
        "HOME=$PWD timeout 120 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
        "--user-data-dir=$PWD/profile "
        "--window-size=" +
        std::to_string(width) +
        ",900 --virtual-time-budget=20000 --enable-logging=stderr --v=0 --dump-dom file://$PWD/" + page);
    ran.out = WithoutScripts(std::move(ran.out));
    return ran;
  }

  static void ExpectNoError(const Ran& ran, std::size_t charts) {
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(Between(ran.out, "data-charts=\"", "\""), std::to_string(charts)) << ran.err;
    EXPECT_THAT(ran.out.substr(0, 500), Not(HasSubstr("data-errors")));
    EXPECT_THAT(ran.err, Not(HasSubstr("CONSOLE")));
  }
};

TEST_F(ReportTest, WritesFiveFilesTheSameEachTime) {
  WriteSampleRuns();
  const Ran ran = Emplace("report runs");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(Emplace("report runs/demo -o again.html").status, 0);
  for (const std::string end : {".md", ".csv", "_table.csv", "_tests.csv", ".html"}) {
    EXPECT_NE(Read("runs/report" + end), "") << end;
    EXPECT_EQ(Read("runs/report" + end), Read("again" + end)) << end;
  }
  EXPECT_EQ(Count(Read("again.csv"), "\n"), 1 + 36U);
  // 3 metrics, one of them from the published table, x 3 agents x (2 datasets x (2 cells + average) + overall).
  EXPECT_EQ(Count(Read("again_table.csv"), "\n"), 1 + 63U);
  EXPECT_THAT(Read("again.md"), HasSubstr("36 trials finished, 0 failed, 0 not finished"));
  EXPECT_THAT(Read("again.md"), HasSubstr("(published 24.585)"));
}

TEST_F(ReportTest, OnlySomeOfTheTrialsIfYouSaySo) {
  WriteSampleRuns();
  const Ran ran = Emplace("report --where num_devices=2 --where agent.label=placeto runs -o some.html");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(Read("some.md"), HasSubstr("Only trials with num\\_devices 2, agent.label placeto."));
  EXPECT_THAT(Read("some.md"), HasSubstr("6 trials finished"));
  EXPECT_EQ(Count(Read("some.csv"), "\n"), 1 + 6U);
  const Ran none = Emplace("report runs --where num_devices=4 -o none.html");
  ExpectRefused(none, "--where num_devices=4: no finished trial has this value (2, 3)");
  EXPECT_EQ(Read("none.md"), "");
}

TEST_F(ReportTest, ThePageDrawsItsChartsWithoutAnErrorLengthy) {
  if (!HasBrowser()) GTEST_SKIP() << "chromium is absent";
  WriteSampleRuns();
  ASSERT_EQ(Emplace("report runs -o page.html").status, 0);
  const Ran ran = Browse("page.html");
  // For each dataset, the improvement of three agents and the entropy of one: 2 x (3 + 1) lines, each with its band.
  // Also the figure of the answer.
  ExpectNoError(ran, 5);
  EXPECT_EQ(Count(ran.out, "<g class=\"mark-line role-mark curve\""), 8U);
  EXPECT_EQ(Count(ran.out, "<g class=\"mark-area role-mark band\""), 8U);
  EXPECT_THAT(ran.out, Not(HasSubstr("<b>bold</b>")));
  EXPECT_THAT(ran.out, HasSubstr("&lt;b&gt;bold&lt;/b&gt;"));
  // Lines for one device and the lower bound; a dot and an interval for each agent.
  const std::string lines = Between(ran.out, "<g class=\"mark-rule role-mark line\"", "</g>");
  EXPECT_EQ(Count(lines, "<line"), 2U);
  EXPECT_EQ(Count(Between(ran.out, "<g class=\"mark-symbol role-mark mean\"", "</g>"), "<path"), 3U);
  EXPECT_EQ(Count(Between(ran.out, "<g class=\"mark-rule role-mark interval\"", "</g>"), "<line"), 3U);
  EXPECT_THAT(ran.out, HasSubstr(">one device</text>"));
  EXPECT_THAT(ran.out, HasSubstr(">lower bound</text>"));
}

TEST_F(ReportTest, ThePageIsNoWiderThanItsWindowLengthy) {
  if (!HasBrowser()) GTEST_SKIP() << "chromium is absent";
  WriteSampleRuns();
  ASSERT_EQ(Emplace("report runs -o page.html").status, 0);
  const std::string measure =
      "<script>setTimeout(() => { document.documentElement.dataset.wide = "
      "document.documentElement.scrollWidth - window.innerWidth; }, 3000);</script>";
  Write("measured.html", Read("page.html") + measure);
  for (const int width : {500, 800, 1900}) {
    const Ran ran = Browse("measured.html", width);
    ExpectNoError(ran, 5);
    const std::string wide = Between(ran.out, "data-wide=\"", "\"");
    ASSERT_NE(wide, "") << width;
    EXPECT_LE(std::stoi(wide), 0) << width;
    // A drawing is as wide as the page allows.
    const std::string drawn = Between(ran.out, "<svg", ">");
    EXPECT_LE(std::stoi(Between(drawn, " width=\"", "\"")), width) << width;
  }
}

TEST_F(ReportTest, ItsChartsCanBeHadAsPicturesLengthy) {
  if (!HasBrowser()) GTEST_SKIP() << "chromium is absent";
  const std::string tool = EMPLACE_TEST_SOURCE_DIR "/../tools/report_figures ";
  WriteSampleRuns();
  ASSERT_EQ(Emplace("report runs -o page.html").status, 0);
  const Ran drawn = Shell(tool + "page.html figures evaluations");
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(drawn.out,
            "figures/best-so-far-against-evaluations-cifar10.svg\nfigures/best-so-far-against-evaluations-nmt.svg\n");
  const std::string drawing = Read("figures/best-so-far-against-evaluations-nmt.svg");
  EXPECT_EQ(Count(drawing, "<svg "), 1U);
  EXPECT_EQ(Count(drawing, "<g class=\"mark-line role-mark curve\""), 3U);
  EXPECT_EQ(Count(drawing, "</svg>"), 1U);
  const Ran picture = Shell(tool + "page.html figures --png entropy nmt");
  EXPECT_EQ(picture.status, 0) << picture.err;
  EXPECT_EQ(Read("figures/policy-entropy-against-episodes-nmt.png").substr(1, 3), "PNG");
  EXPECT_EQ(Shell(tool + "page.html figures zebra").status, 1);
  EXPECT_EQ(Shell(tool + "none.html figures").status, 2);
  EXPECT_EQ(Shell(tool).status, 2);
}

TEST_F(ReportTest, APlacementPictureShowsEveryOpAndTransferLengthy) {
  if (!HasBrowser()) GTEST_SKIP() << "chromium is absent";
  const Graph graph = MakeForkJoin(6, 5, 3000);
  const Cluster cluster = TwoDevices();
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(i % 2);
  const experiments::PlacementPicture picture =
      experiments::MakePlacementPicture(graph, cluster, MeasuredCosts(graph, cluster), "fifo", placement);
  experiments::ReportDocument document{
      .title = "picture", .blocks = {experiments::ChartBlock{"c", "n", experiments::PictureChart(picture)}}};
  std::ofstream out(Folder() + "/picture.html");
  experiments::WriteHtml(out, document);
  out.close();
  const Ran ran = Browse("picture.html");
  ExpectNoError(ran, 1);
  const std::string ops = Between(ran.out, "<g class=\"mark-symbol role-mark op\"", "</g>");
  EXPECT_EQ(Count(ops, "<path"), graph.num_ops());
  const std::string transfers = Between(ran.out, "<g class=\"mark-rule role-mark transfer\"", "</g>");
  EXPECT_EQ(Count(transfers, "<line"), picture.lines.size());
  EXPECT_GT(picture.lines.size(), 3U);
  EXPECT_THAT(ran.out, HasSubstr(">depth 2<"));
}

TEST_F(ReportTest, AChartThatCannotBeDrawnIsReportedLengthy) {
  if (!HasBrowser()) GTEST_SKIP() << "chromium is absent";
  experiments::ReportDocument document{
      .title = "broken", .blocks = {experiments::ChartBlock{"c", "n", R"({"marks": [{"type": "nothing"}]})"}}};
  std::ofstream out(Folder() + "/broken.html");
  experiments::WriteHtml(out, document);
  out.close();
  const Ran ran = Browse("broken.html");
  EXPECT_EQ(Between(ran.out, "data-charts=\"", "\""), "0");
  EXPECT_THAT(ran.out.substr(0, 500), HasSubstr("data-errors"));
  EXPECT_THAT(ran.out, HasSubstr("This chart could not be drawn"));
}

TEST_F(ReportTest, AbandonedTrialsCanBeLeftOutLengthy) {
  const std::string experiment =
      "# Who is best?\nschema: emplace.experiment\nversion: 1\nname: quick\n"
      "graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {groups: 20}}\n"
      "cluster: {name: post-8k80, gpus: 2}\ncosts: roofline\nagent: {name: AGENT}\n";
  const auto write = [&](const std::string& agent) {
    std::string text = experiment;
    Write("x.yaml", text.replace(text.find("AGENT"), 5, agent));
    ASSERT_EQ(Emplace("sweep x.yaml -o r").status, 0);
  };
  write("single_device");
  write("blocks");
  ASSERT_EQ(Emplace("report r -o all.html").status, 0);
  EXPECT_THAT(Read("all.md"), HasSubstr("2 trials finished"));
  EXPECT_THAT(Read("all.md"), Not(HasSubstr("Left out")));
  const Ran ran = Emplace("report r --experiment x.yaml -o some.html");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(Read("some.md"), HasSubstr("- Left out: 1 trial that the experiment no longer has."));
  EXPECT_THAT(Read("some.md"), HasSubstr("1 trial finished"));
  EXPECT_THAT(Read("some.md"), HasSubstr("blocks is the only agent here"));
  // The copy of the experiment in the folder gives the same report.
  EXPECT_EQ(Emplace("report r --experiment r/quick/experiment.json -o copy.html").status, 0);
  EXPECT_EQ(Read("copy.md"), Read("some.md"));
  const Ran none = Emplace("report r --experiment none.yaml -o no.html");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("none.yaml: cannot be read"));
}

TEST_F(ReportTest, BadRunsAreRefusedAndNothingIsWrittenLengthy) {
  ExpectRefused(Emplace("report none"), "none: there is no such folder");
  ASSERT_EQ(Shell("mkdir empty").status, 0);
  ExpectRefused(Emplace("report empty"),
                "empty: holds no experiment (a folder that `emplace sweep` wrote: it has experiment.json)");
  WriteSampleRuns();
  ExpectRefused(Emplace("report runs -o page.txt"),
                "page.txt: is neither a page nor tables of LaTeX (a name that ends in .html or .tex)");
  EXPECT_EQ(Emplace("report runs -o no/page.html").status, 2);
  ASSERT_EQ(Shell("f=$(ls runs/demo/*/trial.json | head -n 1) && head -c 100 $f > t && cp t $f && rm t").status, 0);
  const Ran broken = Emplace("report runs -o page.html");
  EXPECT_EQ(broken.status, 2);
  EXPECT_TRUE(IsOneLine(broken.err));
  EXPECT_THAT(broken.err, HasSubstr("trial.json: "));
  ASSERT_EQ(Shell("rm -r runs").status, 0);
  WriteSampleRuns(R"(, "published": "atlantis")");
  ExpectRefused(
      Emplace("report runs -o page.html"),
      "published: there is no table \"atlantis\" (a file, or one of: hierarchical, placeto, post, sgdp, thesis)");
  ASSERT_EQ(Shell("rm runs/demo/*/trial.json").status, 0);
  ExpectRefused(Emplace("report runs -o page.html"), "runs: no trial is finished (a folder with a trial.json)");
  EXPECT_EQ(Names(), "c.yaml empty g.json p.json runs ");
}

}  // namespace
}  // namespace emplace::testing
