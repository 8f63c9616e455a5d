#include "agents/checkpoint.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "agents/heuristics/one_shot.h"
#include "sim/check.h"

namespace emplace {
namespace {

std::unique_ptr<Agent> SomeAgent() {
  return MakeOneShot([](const Environment&, Rng&) { return Placement(); });
}

std::string Saved(const SearchState& state, const Rng& rng) {
  std::ostringstream out;
  SaveCheckpoint(out, "a search with blanks", state, *SomeAgent(), rng);
  return out.str();
}

TEST(CheckpointTest, WhatIsSavedIsLoaded) {
  Rng rng(5);
  rng.Next();
  Placement best(3);
  best[MakeId<OpId>(1)] = MakeId<DeviceId>(4);
  const SearchState state{.evaluations = 17, .fitting = 3, .best = best, .smallest_overflow_bytes = 0.1};
  std::istringstream in(Saved(state, rng));
  Rng loaded_rng(1);
  const auto agent = SomeAgent();
  const SearchState loaded = LoadCheckpoint(in, "a search with blanks", *agent, loaded_rng);
  EXPECT_EQ(loaded.evaluations, 17U);
  EXPECT_EQ(loaded.fitting, 3U);
  EXPECT_EQ(loaded.best, best);
  EXPECT_EQ(loaded.smallest_overflow_bytes, 0.1);
  EXPECT_EQ(loaded_rng, rng);
}

TEST(CheckpointTest, AnotherSearchIsRefused) {
  std::istringstream in(Saved({}, Rng(1)));
  Rng rng(1);
  const auto agent = SomeAgent();
  EXPECT_THROW(LoadCheckpoint(in, "another search", *agent, rng), InputError);
}

TEST(CheckpointTest, ATruncatedFileIsRefusedWhereverItEnds) {
  const std::string whole =
      Saved({.evaluations = 1, .fitting = 1, .best = Placement(2), .smallest_overflow_bytes = {}}, Rng(1));
  for (std::size_t size = 0; size + 4 < whole.size(); ++size) {
    std::istringstream in(whole.substr(0, size));
    Rng rng(1);
    const auto agent = SomeAgent();
    EXPECT_THROW(LoadCheckpoint(in, "a search with blanks", *agent, rng), InputError) << size;
  }
}

TEST(CheckpointTest, ADamagedFileIsRefusedWhereverTheDamageIs) {
  const std::string whole =
      Saved({.evaluations = 1, .fitting = 1, .best = Placement(2), .smallest_overflow_bytes = {}}, Rng(1));
  for (std::size_t at = whole.find('\n') + 1; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);  // digits become other digits: it still parses
    std::istringstream in(damaged);
    Rng rng(1);
    const auto agent = SomeAgent();
    EXPECT_THROW(LoadCheckpoint(in, "a search with blanks", *agent, rng), InputError) << at;
  }
}

}  // namespace
}  // namespace emplace
