#include "agents/episode_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace {
namespace {

// Entropy and step times fall as a line, so that means are known; no episode improves on the first.
agents::EpisodeRecord Episode(std::size_t number) {
  return {.episode = number,
          .evaluations = 4 * (number + 1),
          .argmax = number % 10 == 9,
          .final_micros = static_cast<double>(number),
          .best_micros = number == 0 ? 1.0 : 2.0,
          .entropy = static_cast<double>(number)};
}

agents::EpisodeHistory Episodes(std::size_t count) {
  agents::EpisodeHistory history;
  for (std::size_t i = 0; i < count; ++i) history.Add(Episode(i));
  return history;
}

TEST(EpisodeHistoryTest, FewEpisodesAllHaveRecords) {
  const agents::EpisodeHistory history = Episodes(257);
  ASSERT_EQ(history.records().size(), 257U);
  for (std::size_t i = 0; i < 257; ++i) EXPECT_EQ(history.records()[i], Episode(i));
}

TEST(EpisodeHistoryTest, ManyEpisodesAreThinnedToAProgression) {
  agents::EpisodeHistory history;
  for (std::size_t i = 0; i < 100'000; ++i) {
    agents::EpisodeRecord record = Episode(i);
    record.argmax = false;
    history.Add(record);
  }
  EXPECT_EQ(history.num_episodes(), 100'000U);
  EXPECT_LT(history.records().size(), 460U);
  EXPECT_EQ(history.records()[257].episode, 264U);
  EXPECT_EQ(history.records()[257].left_out->episodes, 7U);
  EXPECT_EQ(history.records()[258].episode, 272U);
  EXPECT_EQ(history.records().back().episode, 99'999U);
  EXPECT_LT(Episodes(100'000).records().size(), 2U * 460);
}

TEST(EpisodeHistoryTest, TheLastEpisodeOfEachKindHasARecord) {
  agents::EpisodeHistory history;
  for (std::size_t i = 0; i < 1000; ++i) {
    history.Add(Episode(i));
    EXPECT_EQ(history.records().back().episode, i);
    if (i % 10 == 9) {
      EXPECT_EQ(history.records().end()[-2].episode, i - 1);
    }
  }
}

TEST(EpisodeHistoryTest, AnImprovementHasARecord) {
  agents::EpisodeHistory history;
  for (std::size_t i = 0; i < 3000; ++i) {
    agents::EpisodeRecord record = Episode(i);
    if (i == 1500) record.best_micros = 0.5;
    history.Add(record);
  }
  const auto is_improvement = [](const agents::EpisodeRecord& record) { return record.episode == 1500; };
  EXPECT_EQ(std::ranges::count_if(history.records(), is_improvement), 1);
  EXPECT_LE(history.records().size(), Episodes(3000).records().size() + 2);
}

TEST(EpisodeHistoryTest, RecordsAndMeansOfWhatWasLeftOutMakeTheMeanOfAll) {
  const agents::EpisodeHistory history = Episodes(5000);
  double sum = 0;
  std::size_t count = 0;
  for (const agents::EpisodeRecord& record : history.records()) {
    if (record.left_out) {
      const auto episodes = static_cast<double>(record.left_out->episodes);
      EXPECT_EQ(record.left_out->entropy, record.left_out->final_micros);
      EXPECT_FALSE(record.left_out->mean_micros);
      EXPECT_FALSE(record.left_out->gradient_norm);
      sum += episodes * record.left_out->entropy.value_or(0);
      count += record.left_out->episodes;
    }
    if (!record.argmax) {
      sum += record.entropy;
      ++count;
    }
  }
  EXPECT_EQ(count, 4500U);
  EXPECT_NEAR(sum / 4500, 2499, 1e-9);  // mean of 0 to 4999 without 9, 19, ..
}

TEST(EpisodeHistoryTest, SavedAndLoadedItGoesOnAsIfNeverStopped) {
  const agents::EpisodeHistory expected = Episodes(3000);
  for (const std::size_t stop : {0, 1, 256, 258, 1001, 2999}) {
    std::stringstream saved;
    agents::SaveState(saved, Episodes(stop));
    agents::EpisodeHistory history;
    agents::LoadState(saved, &history);
    EXPECT_EQ(history, Episodes(stop));
    for (std::size_t i = stop; i < 3000; ++i) history.Add(Episode(i));
    EXPECT_EQ(history, expected) << "stopped after " << stop;
  }
}

TEST(EpisodeHistoryTest, MoreSettledRecordsThanThereAreAreRefused) {
  std::stringstream saved("0 \n1 300 320 0 1 0 0 0 0 0 0 0 0 0 ");
  agents::EpisodeHistory history;
  EXPECT_THROW(agents::LoadState(saved, &history), InputError);
}

}  // namespace
}  // namespace emplace
