#include "sim/draw/timeline_svg.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using testing::MakeChain;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using testing::TwoDevices;

std::string Svg(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  std::ostringstream text;
  WriteTimelineSvg(text, Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Record(placement), graph, cluster);
  return text.str();
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TimelineSvgTest, DrawsOpsAndTransfersToScale) {
  // op0 runs 0-4, its 2000 bytes are sent 4-6, op1 runs 6-10. Of 850 pixels starting at 90, op0 takes 340, the transfer
  // 170.
  const Graph graph = MakeChain(2, 4, 2000);
  Placement placement(2);
  placement[*graph.FindOp("op1")] = MakeId<DeviceId>(1);
  const std::string svg = Svg(graph, TwoDevices(), placement);
  EXPECT_NE(svg.find("x=\"90.00\" y=\"44\" width=\"340.00\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("x=\"430.00\" y=\"64\" width=\"170.00\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("x=\"600.00\" y=\"80\" width=\"340.00\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("chain on test: 10 us"), std::string::npos);
}

TEST(TimelineSvgTest, TicksAreRound) {
  const auto ticks = [](double micros) {
    const std::string svg = Svg(MakeChain(1, micros, 0), MakeCluster(1), Placement(1));
    std::string labels;
    const std::string middle = "text-anchor=\"middle\" fill=\"#555\">";
    for (std::size_t at = svg.find(middle); at != std::string::npos; at = svg.find(middle, at + 1)) {
      const std::size_t begin = at + middle.size();
      labels += svg.substr(begin, svg.find('<', begin) - begin) + ", ";
    }
    return labels;
  };
  EXPECT_EQ(ticks(10), "0 us, 2 us, 4 us, 6 us, 8 us, 10 us, ");
  EXPECT_EQ(ticks(1), "0.0 us, 0.2 us, 0.4 us, 0.6 us, 0.8 us, 1.0 us, ");
  EXPECT_EQ(ticks(37'300), "0 ms, 5 ms, 10 ms, 15 ms, 20 ms, 25 ms, 30 ms, 35 ms, ");
  EXPECT_EQ(ticks(1500), "0.0 ms, 0.2 ms, 0.4 ms, 0.6 ms, 0.8 ms, 1.0 ms, 1.2 ms, 1.4 ms, ");
  EXPECT_EQ(ticks(8e6), "0 s, 1 s, 2 s, 3 s, 4 s, 5 s, 6 s, 7 s, 8 s, ");
  EXPECT_EQ(ticks(0), "0 us, ");
}

// One stage on gpu:1, two micro-batches: 0F0 0-40, 0F1 40-80, backwards of 50, and an update of 10.
TEST(TimelineSvgTest, DrawsActionsOfAScheduleWithTheirMicroBatches) {
  std::vector<OpSpec> ops = {MakeOp("f", 40), MakeOp("b", 30, {"f"}), MakeOp("g", 20, {"b"}), MakeOp("u<", 10, {"g"})};
  ops[0].pass = Pass::kForward;
  ops[1].pass = ops[2].pass = Pass::kBackward;
  ops[3].pass = Pass::kUpdate;
  const Graph graph = testing::Build(ops);
  const Cluster cluster = MakeCluster(2);
  const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, MeasuredCosts(graph, cluster),
                                                     Placement(4, MakeId<DeviceId>(1)), {0}, "gpipe");
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 1, 2);
  std::ostringstream text;
  WriteScheduleSvg(text, schedule, pipeline, SimulateSchedule(schedule, pipeline.model),
                   SimulateMessages(schedule, pipeline.model), graph, cluster);
  const std::string svg = text.str();
  // A forward takes 178.95 of the 850 pixels for 190 us.
  EXPECT_NE(svg.find("x=\"90.00\" y=\"44\" width=\"178.95\" height=\"18\" fill=\"#4477aa\"><title>0F0</title>"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("<title>0B1</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>u&lt;</title>"), std::string::npos);
  EXPECT_EQ(Count(svg, "font-size=\"10\" fill=\"white\">1</text>"), 2U);
  EXPECT_NE(svg.find(">backward</text>"), std::string::npos);
  EXPECT_EQ(svg.find("backward, weights"), std::string::npos) << "the legend has what there is";
  EXPECT_NE(svg.find("2 micro-batches: 190 us"), std::string::npos);
}

TEST(TimelineSvgTest, ManyShortOpsBecomeFewRectangles) {
  // 20,000 ops on 850 pixels are 0.04 pixels apart, without a gap: one rectangle.
  const Graph graph = MakeChain(20'000, 1, 0);
  const std::string svg = Svg(graph, MakeCluster(1), Placement(20'000));
  EXPECT_EQ(Count(svg, "<title>"), 1U);
  EXPECT_NE(svg.find("20000 ops from op0 on"), std::string::npos);
  EXPECT_LT(svg.size(), 5000U);
}

TEST(TimelineSvgTest, TheChainIsDrawnOverTheBars) {
  // op0 runs 0-4, its 2000 bytes are sent 4-6, op1 runs 6-10: all of it is the chain, which changes bars at 4 and at 6.
  const Graph graph = MakeChain(2, 4, 2000);
  const Cluster cluster = TwoDevices();
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(2);
  placement[*graph.FindOp("op1")] = MakeId<DeviceId>(1);
  const Simulator simulator(graph, cluster, costs);
  const Timeline timeline = simulator.Record(placement);
  std::ostringstream text;
  WriteExplainedTimelineSvg(text, timeline, graph, cluster,
                            ExplainStep(graph, cluster, costs, placement, simulator.options(), timeline));
  const std::string svg = text.str();
  EXPECT_NE(svg.find("x=\"430.00\" y=\"65\" width=\"170.00\" height=\"4\" fill=\"#e6007a\""), std::string::npos) << svg;
  EXPECT_EQ(Count(svg, "<path "), 2U);
  EXPECT_NE(svg.find("critical chain"), std::string::npos);
  EXPECT_EQ(svg.find("fill=\"white\""), std::string::npos) << "the page's own background";
  EXPECT_EQ(Svg(graph, cluster, placement).find("critical chain"), std::string::npos);
}

// Two ranks, two micro-batches, passes of 10 and 20, messages of 5: 0F0 0-10, 1F0 15-25, 1B0 25-45, 0B0 50-70,
// 1F1 45-55, 1B1 55-75, 0B1 80-100.
TEST(TimelineSvgTest, StagesWithKnownTimesAreDrawnForAPage) {
  const auto micros = [](double time) { return DurationFromMicros(time); };
  const std::vector<PipelineStage> stages(2, {.forward = micros(10), .backward_input = micros(20)});
  const ScheduleName name = ParseScheduleName("1f1b", "");
  const std::vector<std::size_t> ranks = RankOfStage(name, 2);
  std::ostringstream text;
  WriteScheduleSvg(text, MakeSchedule(name, 2, 2),
                   ChainModel(ranks, stages, {.forward = micros(5), .backward = micros(5)}), {"<a>", "b"}, "two & two");
  const std::string svg = text.str();
  // 8.5 of the 850 pixels are 1 us.
  EXPECT_NE(svg.find("x=\"90.00\" y=\"44\" width=\"85.00\" height=\"18\" fill=\"#4477aa\"><title>0F0</title>"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("x=\"770.00\" y=\"44\" width=\"170.00\" height=\"18\" fill=\"#cc6677\"><title>0B1</title>"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("x=\"175.00\" y=\"64\" width=\"42.50\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("two &amp; two: 100 us"), std::string::npos) << svg;
  EXPECT_NE(svg.find("&lt;a&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("width=\"100%\""), std::string::npos) << "the page's own background";
}

TEST(TimelineSvgTest, StepsOfTicksAreRound) {
  EXPECT_EQ(RoundTickStep(3), 5);
  EXPECT_EQ(RoundTickStep(0.2), 0.2);
  EXPECT_EQ(RoundTickStep(600), 1000);
  EXPECT_EQ(RoundTickStep(0), 0);
}

TEST(TimelineSvgTest, NamesAreEscaped) {
  GraphBuilder builder("a<b");
  builder.Add(MakeOp("x&\"y\"", 1));
  const std::string svg = Svg(builder.Build(), MakeCluster(1), Placement(1));
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_NE(svg.find("<title>x&amp;&quot;y&quot;</title>"), std::string::npos);
}

TEST(TimelineSvgTest, AnEmptyStepIsStillAPicture) {
  const std::string svg = Svg(Graph(), TwoDevices(), Placement(0));
  EXPECT_NE(svg.find("gpu:1"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace emplace
