#include "agents/rl/placeto/options.h"

#include <gtest/gtest.h>

#include "sim/base/check.h"

namespace emplace {
namespace {

agents::PlacetoOptions Read(const OptionMap& values, agents::Embedding embedding = agents::Embedding::kPlaceto) {
  OptionReader reader(values, "agent");
  return agents::ReadPlacetoOptions(reader, embedding);
}

std::string Refusal(const OptionMap& values, agents::Embedding embedding = agents::Embedding::kPlaceto) {
  try {
    Read(values, embedding);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlacetoOptionsTest, TheThesissProtocolIsItsPublishedSettings) {
  const agents::PlacetoOptions options = Read({{"protocol", "thesis"}}, agents::Embedding::kGraphSage);
  EXPECT_EQ(options.episodes, 20U);
  EXPECT_EQ(options.evaluate_every, 5U);
  EXPECT_FALSE(options.evaluation_counts);
  EXPECT_FALSE(options.final_evaluation);
  EXPECT_EQ(options.start, agents::StartPlacement::kBest);
  EXPECT_EQ(options.entropy_weight, 1);
  EXPECT_EQ(options.final_entropy_weight, 1);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.final_learning_rate, 1e-3);
  EXPECT_EQ(options.discount, 1);
  EXPECT_EQ(options.baseline_episodes, 1000U);
  EXPECT_TRUE(options.network.thesis_code);
  EXPECT_TRUE(options.network.sum_head);
  EXPECT_FALSE(options.network.sage.both_directions);
  // Table 4.2.
  EXPECT_EQ(options.network.sage.hops, 2U);
  EXPECT_EQ(options.network.sage.sample_ratio, 0.8);
  EXPECT_EQ(options.network.sage.dropout, 0.7);
  // The correct sign is the default.
  EXPECT_FALSE(options.thesis_sign);
  EXPECT_EQ(options.features.start, agents::StartFeature::kStartTime);
}

TEST(PlacetoOptionsTest, AProtocolsSettingsCanBeChanged) {
  const agents::PlacetoOptions options =
      Read({{"protocol", "thesis"}, {"episodes", "300"}, {"learning_rate", "0.01"}, {"entropy", "0.5"}});
  EXPECT_EQ(options.episodes, 300U);
  EXPECT_EQ(options.final_learning_rate, 0.01);  // stays constant, as in the thesis
  EXPECT_EQ(options.final_entropy_weight, 0.5);
}

TEST(PlacetoOptionsTest, PGnnsCodeHasPlacetosHeadAndItsTable) {
  const agents::PlacetoOptions options = Read({{"variant", "thesis_code"}}, agents::Embedding::kPGnn);
  EXPECT_FALSE(options.network.sum_head);
  EXPECT_EQ(options.network.p_gnn.copies, 0.2);
  EXPECT_EQ(options.network.p_gnn.exponent, 4U);
  EXPECT_EQ(options.network.p_gnn.cutoff, 6U);
}

TEST(PlacetoOptionsTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(Refusal({{"geometry", "big"}}), "agent.geometry: is \"big\" (code, paper)");
  EXPECT_EQ(Refusal({{"discount", "2"}}), "agent: discount must be 0..1, got 2");
  EXPECT_NE(Refusal({{"hops", "2"}}).find("hops"), std::string::npos);  // not an option of placeto
  EXPECT_EQ(Refusal({{"variant", "thesis_code"}, {"head", "relations"}}, agents::Embedding::kGraphSage),
            "graphsage: head cannot be relations with variant thesis_code, whose embeddings have several rows (sum)");
  EXPECT_EQ(Refusal({{"variant", "thesis_text"}}, agents::Embedding::kPGnn),
            "agent.variant: is \"thesis_text\" (pgnn_original, thesis_code)");
}

}  // namespace
}  // namespace emplace
