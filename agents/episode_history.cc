#include "agents/episode_history.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace emplace::agents {
namespace {

constexpr std::size_t kAllUpTo = 256;
constexpr std::size_t kPart = 32;  // from there on, records are apart by 1/kPart of their number

}  // namespace

void EpisodeHistory::Mean::Add(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return;
  sum += *value;
  ++count;
}

std::optional<double> EpisodeHistory::Mean::value() const {
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

void EpisodeHistory::Gap::Add(const EpisodeRecord& record) {
  is_empty = false;
  if (record.argmax) return;
  ++drawn;
  final_micros.Add(record.final_micros);
  mean_micros.Add(record.mean_micros);
  entropy.Add(record.entropy);
  gradient_norm.Add(record.gradient_norm);
}

EpisodesLeftOut EpisodeHistory::Gap::Means() const {
  return {.episodes = drawn,
          .final_micros = final_micros.value(),
          .mean_micros = mean_micros.value(),
          .entropy = entropy.value(),
          .gradient_norm = gradient_norm.value()};
}

bool EpisodeHistory::Stays(const EpisodeRecord& record) {
  const bool improves = record.best_micros < best_micros_;
  if (improves) best_micros_ = record.best_micros;
  const bool is_due = num_episodes_ >= next_;
  if (is_due) next_ = num_episodes_ + (num_episodes_ < kAllUpTo ? 1 : num_episodes_ / kPart);
  return improves || is_due;
}

void EpisodeHistory::Add(const EpisodeRecord& record) {
  const auto settled = records_.begin() + static_cast<std::ptrdiff_t>(settled_);
  const auto replaced = std::find_if(settled, records_.end(),
                                     [&record](const EpisodeRecord& one) { return one.argmax == record.argmax; });
  if (replaced != records_.end()) {
    gap_.Add(*replaced);
    records_.erase(replaced);
  }
  records_.push_back(record);
  if (!gap_.is_empty) records_[settled_].left_out = gap_.Means();
  if (Stays(record)) {
    settled_ = records_.size();
    gap_ = {};
  }
  ++num_episodes_;
}

}  // namespace emplace::agents
