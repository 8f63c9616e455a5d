#include "agents/episode_history.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <istream>
#include <ostream>

#include "agents/saved_text.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kAllUpTo = 256;
constexpr std::size_t kPart = 32;  // from there on, records are apart by 1/kPart of their number

// A count that was saved as a double.
std::optional<std::size_t> LoadOptionalCount(std::istream& in) {
  constexpr double kMost = 9e15;  // doubles hold all integers up to there
  const std::optional<double> count = LoadOptionalDouble(in);
  if (!count) return std::nullopt;
  if (!(*count >= 0 && *count <= kMost && *count == std::floor(*count))) RefuseSaved("a count");
  return static_cast<std::size_t>(*count);
}

void SaveRecord(std::ostream& out, const EpisodeRecord& record) {
  out << record.episode << ' ' << record.evaluations << ' ' << (record.argmax ? 1 : 0) << ' ';
  for (const double value : {record.final_micros, record.best_micros, record.entropy}) SaveDouble(out, value);
  const auto tied = record.tied ? std::optional<double>(static_cast<double>(*record.tied)) : std::nullopt;
  for (const auto& value : {record.mean_micros, record.gradient_norm, record.grouper_entropy, tied}) {
    SaveOptionalDouble(out, value);
  }
  out << (record.left_out ? 1 : 0) << ' ';
  if (!record.left_out) return;
  const EpisodesLeftOut& means = *record.left_out;
  out << means.episodes << ' ';
  for (const auto& mean : {means.final_micros, means.mean_micros, means.entropy, means.gradient_norm}) {
    SaveOptionalDouble(out, mean);
  }
}

EpisodeRecord LoadRecord(std::istream& in) {
  EpisodeRecord record;
  record.episode = LoadNumber(in);
  record.evaluations = LoadNumber(in);
  record.argmax = LoadNumber(in) != 0;
  record.final_micros = LoadDouble(in);
  record.best_micros = LoadDouble(in);
  record.entropy = LoadDouble(in);
  record.mean_micros = LoadOptionalDouble(in);
  record.gradient_norm = LoadOptionalDouble(in);
  record.grouper_entropy = LoadOptionalDouble(in);
  record.tied = LoadOptionalCount(in);
  if (LoadNumber(in) == 0) return record;
  EpisodesLeftOut& means = record.left_out.emplace();
  means.episodes = LoadNumber(in);
  means.final_micros = LoadOptionalDouble(in);
  means.mean_micros = LoadOptionalDouble(in);
  means.entropy = LoadOptionalDouble(in);
  means.gradient_norm = LoadOptionalDouble(in);
  return record;
}

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

void EpisodeHistory::Save(std::ostream& out) const {
  out << records_.size() << ' ';
  for (const EpisodeRecord& record : records_) SaveRecord(out, record);
  out << '\n' << settled_ << ' ' << num_episodes_ << ' ' << next_ << ' ';
  SaveDouble(out, best_micros_);
  out << (gap_.is_empty ? 1 : 0) << ' ' << gap_.drawn << ' ';
  for (const Mean& mean : {gap_.final_micros, gap_.mean_micros, gap_.entropy, gap_.gradient_norm}) {
    SaveDouble(out, mean.sum);
    out << mean.count << ' ';
  }
}

void EpisodeHistory::Load(std::istream& in) {
  *this = {};
  const std::uint64_t records = LoadNumber(in);
  for (std::uint64_t i = 0; i < records; ++i) records_.push_back(LoadRecord(in));
  settled_ = LoadNumber(in);
  if (settled_ > records_.size()) RefuseSaved("a number of settled episodes");
  num_episodes_ = LoadNumber(in);
  next_ = LoadNumber(in);
  best_micros_ = LoadDouble(in);
  gap_.is_empty = LoadNumber(in) != 0;
  gap_.drawn = LoadNumber(in);
  for (Mean* mean : {&gap_.final_micros, &gap_.mean_micros, &gap_.entropy, &gap_.gradient_norm}) {
    mean->sum = LoadDouble(in);
    mean->count = LoadNumber(in);
  }
}

}  // namespace emplace::agents
