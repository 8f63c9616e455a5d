#include "experiments/validation/network_table.h"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>
#include <string>

#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace network_table_test {

using ::testing::HasSubstr;

std::vector<experiments::PublishedNetwork> Read(const std::string& text) {
  std::istringstream in(text);
  return experiments::ReadPublishedNetworks(in, "n.yaml");
}

TEST(NetworkTableTest, PublishedSizesAreMetOrTheirDifferenceIsKnownSlow) {
  for (const experiments::PublishedNetwork& network : Read(std::string(experiments::ShippedTable("networks")))) {
    const experiments::NetworkRow row = experiments::MakeNetworkRow(network);
    const auto near = [&](std::optional<double> ours, std::optional<double> published, double tolerance) {
      if (published) {
        EXPECT_NEAR(*ours / *published, 1, tolerance) << network.network;
      }
    };
    near(row.ours.parameters, network.published.parameters, 0.03);
    near(row.ours.multiply_adds, network.published.multiply_adds, 0.03);
    // TensorFlow's count of these two includes shape arithmetic, reads of variables and initialisers.
    const bool coarser = network.network == "ResNet-152" || network.network == "RNNLM, 2 layers";
    if (!coarser) near(row.ours.ops, network.published.ops, 0.25);
  }
}

TEST(NetworkTableTest, SumsAreThoseOfTheGraph) {
  const Graph graph = datasets::MakeModel("rnnlm", {{"hidden", "16"}, {"vocabulary", "50"}, {"steps", "3"}});
  const GraphTotals totals = TotalsOf(graph);
  EXPECT_EQ(experiments::TrainedParameters(graph), totals.parameters);
  EXPECT_EQ(experiments::ForwardProductFlop(graph), totals.forward_product_flop);
}

TEST(NetworkTableTest, BadFilesAreRefusedWithTheirPlace) {
  const auto error_of = [](const std::string& network) -> std::string {
    try {
      Read("schema: emplace.networks\nversion: 1\nnetworks:\n  - {" + network + "}\n");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of("network: a, model: b"), "n.yaml: networks[0].source: is missing (a string)");
  EXPECT_THAT(error_of("network: a, model: b, source: c, ops: -1"), HasSubstr("networks[0].ops"));
  EXPECT_THAT(error_of("network: a, model: b, source: c, size: 1"), HasSubstr("networks[0].size: unknown key"));
  EXPECT_EQ(error_of("network: a, model: b, source: c"), "accepted");
}

TEST(NetworkTableTest, WhatCannotBeBuiltIsNamed) {
  try {
    experiments::MakeNetworkRow({.network = "here", .model = "lenet", .set = {}, .published = {}, .source = "-"});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("here"));
  }
}

}  // namespace network_table_test
}  // namespace emplace::testing
