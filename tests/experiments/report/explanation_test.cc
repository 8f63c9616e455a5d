#include "experiments/report/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/report/difference.h"
#include "experiments/report/html.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Explained {
  Explained(const Graph& of, const Cluster& on, const Placement& at, const std::string& engine = "fifo")
      : graph(of),
        cluster(on),
        placement(at),
        explanation(experiments::MakeExplanation(
            graph, cluster, MeasuredCosts(graph, cluster), placement,
            Simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = engine}), 100)) {}
  nlohmann::json Json() const {
    std::ostringstream out;
    experiments::WriteExplanation(out, explanation, graph, cluster, placement);
    return nlohmann::json::parse(out.str());
  }
  std::string Page() const {
    std::ostringstream out;
    experiments::WriteHtml(out, experiments::MakeExplanationPage(explanation, graph, cluster, placement));
    return out.str();
  }

  Graph graph;
  Cluster cluster;
  Placement placement;
  experiments::Explanation explanation;
};

TEST(ExplanationTest, TheJsonAddsUp) {
  Rng rng(4);
  for (const std::string engine : {"fifo", "placeto-reference"}) {
    const Graph graph = RandomDag(rng, {.num_ops = 60, .max_micros = 20});
    const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 1}, 1);
    const Explained explained(graph, cluster, RandomPlacement(rng, graph, cluster, MeasuredCosts(graph, cluster)),
                              engine);
    const nlohmann::json json = explained.Json();
    EXPECT_EQ(json.at("schema"), "emplace.explanation");
    EXPECT_EQ(json.at("version"), 1);
    EXPECT_EQ(json.at("engine"), engine);
    const double step = json.at("step_time_us");
    const auto& chain = json.at("chain");
    double at = 0;
    for (const auto& part : chain.at("parts")) {
      EXPECT_NEAR(part.at("start_us"), at, 1e-6);
      at = part.at("start_us").get<double>() + part.at("duration_us").get<double>();
      EXPECT_TRUE(graph.FindOp(part.at("op").get<std::string>()).has_value());
      EXPECT_EQ(part.contains("waiting"), part.at("kind") == "device_queue" || part.at("kind") == "channel_queue");
    }
    EXPECT_NEAR(at, step, 1e-6);
    EXPECT_NEAR(chain.at("compute_us").get<double>() + chain.at("transfer_us").get<double>() +
                    chain.at("device_queue_us").get<double>() + chain.at("channel_queue_us").get<double>() +
                    chain.at("gap_us").get<double>(),
                step, 1e-6);
    EXPECT_EQ(json.at("devices").size(), 3U);
    EXPECT_EQ(json.at("ops").size(), 60U);
    EXPECT_LE(json.at("moves").at("best").size(), experiments::kShownMoves);
  }
}

TEST(ExplanationTest, ThePageIsSelfContainedAndEscapesNames) {
  const Explained explained(Build({MakeOp("<b>", 10), MakeOp("b&c", 10)}), MakeCluster(2), Placement(2));
  const std::string page = explained.Page();
  EXPECT_THAT(page, HasSubstr("<svg "));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("b&c")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("2 shorten the step."));
}

TEST(ExplanationTest, ThePageSaysWhatDoesNotFit) {
  std::vector<Device> devices = MakeCluster(2).devices();
  devices[0].memory = Bytes{10};
  const Cluster cluster = Cluster::Uniform("small", devices, {.bandwidth_gb_per_s = 1});
  EXPECT_THAT(Explained(Build({MakeOp("a", 10, {}, {100})}), cluster, Placement(1)).Page(),
              HasSubstr("does not fit in memory: gpu:0."));
}

TEST(ExplanationTest, APageOfManyOpsStaysSmall) {
  // Two chains of 30,000 ops each, on two devices.
  std::vector<OpSpec> specs;
  Placement placement(60'000);
  for (int i = 0; i < 30'000; ++i) {
    for (const std::string side : {"a", "b"}) {
      std::vector<std::string> inputs;
      if (i > 0) inputs.push_back(side + std::to_string(i - 1));
      specs.push_back(MakeOp(side + std::to_string(i), 1 + i % 3, inputs));
    }
  }
  const Graph graph = Build(specs);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.op(MakeId<OpId>(i)).name[0] == 'b') placement[MakeId<OpId>(i)] = MakeId<DeviceId>(1);
  }
  EXPECT_LT(Explained(graph, MakeCluster(2), placement).Page().size(), 1'000'000U);
}

TEST(ExplanationTest, AnEmptyGraphAndOneOpAreExplained) {
  EXPECT_EQ(Explained(Build({}), MakeCluster(2), Placement(0)).Json().at("step_time_us"), 0);
  EXPECT_THAT(Explained(Build({}), MakeCluster(2), Placement(0)).Page(), HasSubstr("The step takes 0.000 ms"));
  EXPECT_THAT(Explained(Build({MakeOp("a", 10)}), MakeCluster(1), Placement(1)).Page(), HasSubstr("100.0 % compute"));
}

TEST(DifferenceTest, TheJsonHoldsBothPlacementsAndEveryPiece) {
  // a and b, 10 us each: 20 us on one device, 10 on two.
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 10)});
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement b(2);
  b[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  const experiments::Difference difference = experiments::MakeDifference(
      graph, cluster, costs, Placement(2), b, Simulator(graph, cluster, costs), 10, agents::DiffBy::kConnection);
  std::ostringstream out;
  experiments::WriteDifference(out, difference, graph, cluster, "A.json", "B.json");
  const nlohmann::json json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("schema"), "emplace.diff");
  EXPECT_EQ(json.at("a").at("file"), "A.json");
  EXPECT_EQ(json.at("a").at("step_time_us"), 20);
  EXPECT_EQ(json.at("b").at("step_time_us"), 10);
  EXPECT_EQ(json.at("gain_us"), 10);
  EXPECT_EQ(json.at("pieces").size(), 1U);
  EXPECT_EQ(json.at("pieces")[0].at("ops"), nlohmann::json({"b"}));
  EXPECT_EQ(json.at("pieces")[0].at("alone").at("gain_us"), 10);
  EXPECT_EQ(json.at("pieces")[0].at("cumulative").at("step_time_us"), 10);
}

}  // namespace
}  // namespace emplace::testing
