#include "agents/checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>

#include "agents/heuristics/one_shot.h"
#include "agents/saved_text.h"
#include "sim/base/check.h"

namespace emplace {
namespace {

std::unique_ptr<agents::Agent> SomeAgent() {
  return agents::MakeOneShot([](const agents::Environment&, Rng&) { return Placement(); });
}

std::string Saved(const agents::SearchState& state, const Rng& rng) {
  std::ostringstream out;
  agents::SaveCheckpoint(out, "a search with blanks", state, *SomeAgent(), rng);
  return out.str();
}

agents::SearchState OneGraph() {
  agents::GraphState graph;
  graph.evaluations = graph.fitting = 1;
  graph.best = Placement(2);
  return {.graphs = {graph}, .times = {}, .part = {}};
}

TEST(CheckpointTest, WhatIsSavedIsLoaded) {
  Rng rng(5);
  rng.Next();
  Placement best(3);
  best[MakeId<OpId>(1)] = MakeId<DeviceId>(4);
  agents::GraphState graph{.evaluations = 17,
                           .fitting = 3,
                           .best = best,
                           .best_micros = 2.5,
                           .start_micros = 1e300,
                           .final_micros = 7,
                           .smallest_overflow_bytes = 0.1,
                           .trace = {{1, 1e300}, {9, 2.5}},
                           .episodes = {}};
  graph.episodes.Add({.episode = 3,
                      .evaluations = 15,
                      .final_micros = 4,
                      .best_micros = 3,
                      .mean_micros = 3.5,
                      .entropy = 0.8,
                      .gradient_norm = 0,
                      .grouper_entropy = 0.9});
  graph.episodes.Add({.episode = 4,
                      .evaluations = 16,
                      .argmax = true,
                      .final_micros = 3,
                      .best_micros = 2.5,
                      .entropy = 0.7,
                      .tied = 12});
  const agents::SearchState state{
      .graphs = {graph, {}}, .times = {.policy = 1, .simulator = 2, .wall = 3.5}, .part = "a part\nof two lines"};
  std::istringstream in(Saved(state, rng));
  Rng loaded_rng(1);
  const auto agent = SomeAgent();
  const agents::SearchState loaded = agents::LoadCheckpoint(in, "a search with blanks", *agent, loaded_rng);
  EXPECT_EQ(loaded.graphs, state.graphs);
  EXPECT_EQ(loaded.times, state.times);
  EXPECT_EQ(loaded.part, state.part);
  EXPECT_EQ(loaded_rng, rng);
}

TEST(CheckpointTest, AnotherSearchIsRefused) {
  std::istringstream in(Saved({}, Rng(1)));
  Rng rng(1);
  const auto agent = SomeAgent();
  EXPECT_THROW(agents::LoadCheckpoint(in, "another search", *agent, rng), InputError);
}

TEST(CheckpointTest, ATruncatedFileIsRefusedWhereverItEnds) {
  const std::string whole = Saved(OneGraph(), Rng(1));
  for (std::size_t size = 0; size + 4 < whole.size(); ++size) {
    std::istringstream in(whole.substr(0, size));
    Rng rng(1);
    const auto agent = SomeAgent();
    EXPECT_THROW(agents::LoadCheckpoint(in, "a search with blanks", *agent, rng), InputError) << size;
  }
}

TEST(CheckpointTest, TheFirstLineIsReadAsItIsWritten) {
  const std::string whole = Saved(OneGraph(), Rng(1));
  const std::string checksum = whole.substr(21, whole.find('\n') - 21);
  const std::string body = whole.substr(whole.find('\n'));
  const auto load = [](const std::string& text) {
    std::istringstream in(text);
    Rng rng(1);
    const auto agent = SomeAgent();
    agents::LoadCheckpoint(in, "a search with blanks", *agent, rng);
  };
  load("emplace.checkpoint 7 " + checksum + body);
  for (const char* const head :
       {" emplace.checkpoint 7 ", "emplace.checkpoint  7 ", "emplace.checkpoint +7 ", "emplace.checkpoint 07 ",
        "emplace.checkpoint\t7 ", "emplace.checkpoint 7  ", "emplace.checkpoint 7\t", "emplace.checkpoint 7 +",
        "emplace.checkpoint 7 0", "emplace.checkpoint 70 ", "emplace.checkpoint 7.0 "}) {
    EXPECT_THROW(load(head + checksum + body), InputError) << head;
  }
}

TEST(CheckpointTest, ADamagedFileIsRefusedWhereverTheDamageIs) {
  const std::string whole = Saved(OneGraph(), Rng(1));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));  // some damaged files still parse
    std::istringstream in(damaged);
    Rng rng(1);
    const auto agent = SomeAgent();
    EXPECT_THROW(agents::LoadCheckpoint(in, "a search with blanks", *agent, rng), InputError) << bit;
  }
}

// With the right checksum: what the fuzzer fuzz_checkpoint found.
TEST(CheckpointTest, ACountThatIsNoWholeNumberIsRefused) {
  agents::SearchState state = OneGraph();
  state.graphs[0].episodes.Add({.tied = 12});
  const std::string whole = Saved(state, Rng(1));
  const std::string body = whole.substr(whole.find('\n') + 1);
  const std::string twelve = std::to_string(std::bit_cast<std::uint64_t>(12.0));
  const std::size_t at = body.find(twelve);
  ASSERT_NE(at, std::string::npos);
  for (const double count : {12.5, -1.0, -1e201, 1e300, std::nan("")}) {
    const std::string bits = std::to_string(std::bit_cast<std::uint64_t>(count));
    std::stringstream file;
    agents::WriteSealed(file, "emplace.checkpoint 7", std::string(body).replace(at, twelve.size(), bits));
    Rng rng(1);
    const auto agent = SomeAgent();
    EXPECT_THROW(agents::LoadCheckpoint(file, "a search with blanks", *agent, rng), InputError) << count;
  }
}

}  // namespace
}  // namespace emplace
