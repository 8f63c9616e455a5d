#ifndef EMPLACE_AGENTS_EPISODE_HISTORY_H_
#define EMPLACE_AGENTS_EPISODE_HISTORY_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "agents/agent.h"

namespace emplace::agents {

// The episodes of a search on one graph, thinned as they come: memory grows with the logarithm of their number. The
// history keeps the first 256 records, from there on one after each further 1/32 of them, each that improves on the
// shortest step time of the episodes before it, and the last, of argmax episodes and of others. A record has the means
// over the episodes that were left out before it.
class EpisodeHistory {
 public:
  void Add(const EpisodeRecord& record);

  const std::vector<EpisodeRecord>& records() const { return records_; }
  // The number of episodes, those without a record included.
  std::size_t num_episodes() const { return num_episodes_; }

  static void SavedFields(auto& state, auto& self) {
    state(self.records_);
    state.NewLine();
    state(self.settled_, self.num_episodes_, self.next_, self.best_micros_, self.gap_);
    state.Check(self.settled_ <= self.records_.size(), "a number of settled episodes");
  }
  bool operator==(const EpisodeHistory&) const = default;

 private:
  // The mean of values that may be absent.
  struct Mean {
    double sum = 0;
    std::size_t count = 0;
    void Add(std::optional<double> value);
    std::optional<double> value() const;
    bool operator==(const Mean&) const = default;
    static void SavedFields(auto& state, auto& self) { state(self.sum, self.count); }
  };
  // The episodes that were left out since the last settled record.
  struct Gap {
    bool is_empty = true;
    std::size_t drawn = 0;  // episodes that are not argmax episodes, over which the means are
    Mean final_micros;
    Mean mean_micros;
    Mean entropy;
    Mean gradient_norm;
    void Add(const EpisodeRecord& record);
    EpisodesLeftOut Means() const;
    bool operator==(const Gap&) const = default;
    static void SavedFields(auto& state, auto& self) {
      state(self.is_empty, self.drawn, self.final_micros, self.mean_micros, self.entropy, self.gradient_norm);
    }
  };

  bool Stays(const EpisodeRecord& record);

  // The records from records_[settled_] on, at most an argmax episode and another, are replaced by the next one of
  // their kind.
  std::vector<EpisodeRecord> records_;
  std::size_t settled_ = 0;
  std::size_t num_episodes_ = 0;
  std::size_t next_ = 0;  // the number of the next episode whose record stays, whatever its step times
  double best_micros_ = std::numeric_limits<double>::infinity();
  Gap gap_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_EPISODE_HISTORY_H_
