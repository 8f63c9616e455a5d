#include "agents/rl/placeto/placeto_graph.h"

#include <gtest/gtest.h>

#include <sstream>

#include "agents/saved_state.h"

namespace emplace {
namespace {

TEST(PlacetoGraphTest, WhatIsKeptBetweenRoundsIsSavedAndLoaded) {
  agents::PlacementState state{.placement = Placement(2, MakeId<DeviceId>(1)),
                               .done = {0, 0},
                               .starts = {0, 2.5},
                               .peaks = {8},
                               .step_micros = 4.5};
  agents::PlacetoGraph graph(3);
  graph.start = {.state = state, .score = {.fits = false, .overflow_bytes = 7, .reward = -2}};
  state.step_micros = 4;
  graph.best.Keep(state, {.fits = true, .overflow_bytes = 0, .reward = -1});
  graph.sample_seed = 11;
  graph.order_seed = 12;
  graph.rounds = 5;
  graph.evaluations = 31;
  graph.contributed = true;
  std::stringstream saved;
  agents::SaveState(saved, graph);
  agents::PlacetoGraph loaded(3);
  agents::LoadState(saved, &loaded);
  EXPECT_EQ(loaded.start->state, graph.start->state);
  EXPECT_EQ(loaded.start->score, graph.start->score);
  EXPECT_EQ(loaded.best.value(), graph.best.value());
  EXPECT_EQ(loaded.best.score(), graph.best.score());
  std::stringstream again;
  agents::SaveState(again, loaded);
  EXPECT_EQ(again.str(), saved.str());
}

TEST(PlacetoGraphTest, BeforeTheFirstEvaluationThereIsNothingToKeep) {
  const agents::PlacetoGraph graph(3);
  std::stringstream saved;
  agents::SaveState(saved, graph);
  agents::PlacetoGraph loaded(3);
  agents::LoadState(saved, &loaded);
  EXPECT_FALSE(loaded.start);
  EXPECT_FALSE(loaded.best.value());
  EXPECT_FALSE(loaded.sample_seed);
}

}  // namespace
}  // namespace emplace
