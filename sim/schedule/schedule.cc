#include "sim/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace {
namespace {

using enum ActionKind;

// Appends actions to the list of one rank.
class RankList {
 public:
  explicit RankList(std::vector<PipelineAction>* actions) : actions_(actions) {}
  void Add(std::size_t stage, ActionKind kind, std::size_t micro_batch) {
    actions_->push_back({static_cast<std::uint32_t>(stage), kind, static_cast<std::uint32_t>(micro_batch)});
  }

 private:
  std::vector<PipelineAction>* actions_;
};

PipelineSchedule EmptySchedule(std::size_t ranks, std::size_t chunks, std::size_t micro_batches) {
  return {.num_stages = ranks * chunks,
          .micro_batches = micro_batches,
          .ranks = std::vector<std::vector<PipelineAction>>(ranks)};
}

// The forward passes of all micro-batches, then all backward passes.
PipelineSchedule MakeGpipe(std::size_t ranks, std::size_t, std::size_t micro_batches) {
  PipelineSchedule schedule = EmptySchedule(ranks, 1, micro_batches);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankList list(&schedule.ranks[rank]);
    for (std::size_t m = 0; m < micro_batches; ++m) list.Add(rank, kForward, m);
    for (std::size_t m = 0; m < micro_batches; ++m) list.Add(rank, kBackward, m);
  }
  return schedule;
}

// The k-th of a rank's passes over its chunks: ranks x chunks passes bring `ranks` micro-batches through all chunks.
struct LoopedPass {
  std::size_t chunk = 0;
  std::size_t micro_batch = 0;
};
LoopedPass PassAt(std::size_t k, std::size_t ranks, std::size_t chunks) {
  const std::size_t round = k / (ranks * chunks);
  return {.chunk = k / ranks % chunks, .micro_batch = round * ranks + k % ranks};
}

// A rank runs as many passes forward as fill the pipeline behind it, then one forward and one backward in turn.
PipelineSchedule MakeInterleaved(std::size_t ranks, std::size_t chunks, std::size_t micro_batches) {
  if (chunks > 1 && micro_batches % ranks != 0) {
    throw InputError(
        "", fmt::format("needs a multiple of {} micro-batches, the number of devices, not {}", ranks, micro_batches));
  }
  PipelineSchedule schedule = EmptySchedule(ranks, chunks, micro_batches);
  const std::size_t passes = chunks * micro_batches;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankList list(&schedule.ranks[rank]);
    const std::size_t behind = ranks - 1 - rank;
    const std::size_t ahead = std::min(passes, chunks == 1 ? behind : 2 * behind + (chunks - 1) * ranks);
    const auto forward = [&](std::size_t k) {
      const LoopedPass pass = PassAt(k, ranks, chunks);
      list.Add(pass.chunk * ranks + rank, kForward, pass.micro_batch);
    };
    for (std::size_t k = 0; k < ahead; ++k) forward(k);
    for (std::size_t k = 0; k < passes; ++k) {
      if (ahead + k < passes) forward(ahead + k);
      const LoopedPass pass = PassAt(k, ranks, chunks);
      list.Add((chunks - 1 - pass.chunk) * ranks + rank, kBackward, pass.micro_batch);
    }
  }
  return schedule;
}

// As 1f1b, with the weights' part of rank r's backward r micro-batches behind.
PipelineSchedule MakeZbH1(std::size_t ranks, std::size_t, std::size_t micro_batches) {
  PipelineSchedule schedule = EmptySchedule(ranks, 1, micro_batches);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankList list(&schedule.ranks[rank]);
    const std::size_t ahead = std::min(micro_batches, ranks - rank);
    for (std::size_t m = 0; m < ahead; ++m) list.Add(rank, kForward, m);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      list.Add(rank, kBackwardInput, m);
      if (m >= rank) list.Add(rank, kBackwardWeight, m - rank);
      if (ahead + m < micro_batches) list.Add(rank, kForward, ahead + m);
    }
    for (std::size_t m = micro_batches - std::min(rank, micro_batches); m < micro_batches; ++m) {
      list.Add(rank, kBackwardWeight, m);
    }
  }
  return schedule;
}

// One rank of zb-v: `down` is its stage of the first half, `up` that of the second. It is made for at least 2p - 1
// micro-batches; those that do not exist are left out.
class VShapedRank {
 public:
  VShapedRank(std::size_t rank, std::size_t ranks, std::size_t micro_batches, std::vector<PipelineAction>* actions)
      : rank_(rank),
        behind_(ranks - rank),
        wanted_(micro_batches),
        planned_(std::max(micro_batches, 2 * ranks - 1)),
        stages_{rank, 2 * ranks - 1 - rank},
        list_(actions) {}

  void Fill() {
    for (std::size_t k = 0; k < 2 * behind_ - 1; ++k) Forward(kDown);
    for (std::size_t k = 0; k < rank_; ++k) {
      Forward(kUp);
      Forward(kDown);
    }
    for (std::size_t k = 0; k < behind_; ++k) {
      Forward(kUp);
      WholeBackward(kUp);
    }
    while (forwards_[kUp] < planned_) {
      if (forwards_[kDown] < planned_) Forward(kDown);
      WholeBackward(kDown);
      Forward(kUp);
      WholeBackward(kUp);
    }
    for (std::size_t k = 0; k < rank_; ++k) {
      Input(kDown);
      Input(kUp);
    }
    for (std::size_t k = 0; k < behind_; ++k) {
      Input(kDown);
      Weight(kDown);
    }
    while (weights_[kUp] < planned_) Weight(kUp);
    while (weights_[kDown] < planned_) Weight(kDown);
  }

 private:
  enum Half : std::size_t { kDown, kUp };
  void Add(Half half, ActionKind kind, std::size_t micro_batch) {
    if (micro_batch < wanted_) list_.Add(stages_[half], kind, micro_batch);
  }
  void Forward(Half half) { Add(half, kForward, forwards_[half]++); }
  void Input(Half half) { Add(half, kBackwardInput, inputs_[half]++); }
  void Weight(Half half) { Add(half, kBackwardWeight, weights_[half]++); }
  void WholeBackward(Half half) {
    Input(half);
    Weight(half);
  }

  std::size_t rank_;
  std::size_t behind_;  // ranks from this one to the last
  std::size_t wanted_;
  std::size_t planned_;
  std::array<std::size_t, 2> stages_;
  RankList list_;
  std::array<std::size_t, 2> forwards_{};
  std::array<std::size_t, 2> inputs_{};
  std::array<std::size_t, 2> weights_{};
};

PipelineSchedule MakeZbV(std::size_t ranks, std::size_t, std::size_t micro_batches) {
  PipelineSchedule schedule = EmptySchedule(ranks, 2, micro_batches);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    VShapedRank(rank, ranks, micro_batches, &schedule.ranks[rank]).Fill();
  }
  return schedule;
}

constexpr ScheduleEntry kSchedules[] = {
    {.name = "gpipe",
     .summary = "The forward passes of all micro-batches, then all backward passes.",
     .source = "Huang et al. 2019, section 2.3",
     .layout = ScheduleEntry::Layout::kOneStage,
     .make = MakeGpipe},
    {.name = "1f1b",
     .summary = "Alternates forward and backward passes, so that few micro-batches are held.",
     .source = "Narayanan et al. 2021 (SC), section 2.2.1",
     .layout = ScheduleEntry::Layout::kOneStage,
     .make = MakeInterleaved},
    {.name = "interleaved",
     .summary = "1f1b with V stages on each device, selected as interleaved:V.",
     .source = "Narayanan et al. 2021 (SC), section 2.2.2",
     .layout = ScheduleEntry::Layout::kLooped,
     .make = MakeInterleaved},
    {.name = "zb-h1",
     .summary =
         "1f1b with weight gradients in idle times; each device holds as many micro-batches as the first one of 1f1b.",
     .source = "Qi et al. 2024 (ICLR), ZB-H1",
     .layout = ScheduleEntry::Layout::kOneStage,
     .make = MakeZbH1},
    {.name = "zb-v",
     .summary = "Two stages on each device, there and back; weight gradients fill all gaps.",
     .source = "Qi et al. 2024 (ICLR), ZB-V",
     .layout = ScheduleEntry::Layout::kVShaped,
     .make = MakeZbV},
};

// Where actions are, for messages.
class Places {
 public:
  Places(const PipelineSchedule& schedule, std::span<const std::vector<std::size_t>> cells)
      : schedule_(schedule), cells_(cells) {}
  std::string operator()(std::size_t rank, std::size_t index) const {
    return fmt::format("line {}, cell {}", rank + 1, (cells_.empty() ? index : cells_[rank][index]) + 1);
  }
  std::string WithText(std::size_t rank, std::size_t index) const {
    return fmt::format("{} ({})", Text(schedule_.ranks[rank][index]), (*this)(rank, index));
  }

 private:
  const PipelineSchedule& schedule_;
  std::span<const std::vector<std::size_t>> cells_;
};

struct ActionPlace {
  std::size_t rank = 0;
  std::size_t index = 0;
};

// The places of each stage's and micro-batch's actions.
class ActionTable {
 public:
  ActionTable(const PipelineSchedule& schedule, const Places& places);

  // The place of the action of this kind; the parts of a backward are in the whole one where there is no other.
  std::optional<ActionPlace> Find(std::size_t stage, ActionKind kind, std::size_t micro_batch) const {
    const std::optional<ActionPlace>& found = At(stage, kind, micro_batch);
    if (found || (kind != kBackwardInput && kind != kBackwardWeight)) return found;
    return At(stage, kBackward, micro_batch);
  }
  void CheckComplete() const;

 private:
  const std::optional<ActionPlace>& At(std::size_t stage, ActionKind kind, std::size_t micro_batch) const {
    return places_[(stage * schedule_.micro_batches + micro_batch) * 4 + static_cast<std::size_t>(kind)];
  }

  const PipelineSchedule& schedule_;
  std::vector<std::optional<ActionPlace>> places_;
};

ActionTable::ActionTable(const PipelineSchedule& schedule, const Places& places)
    : schedule_(schedule), places_(schedule.num_stages * schedule.micro_batches * 4) {
  std::vector<std::optional<ActionPlace>> of_stage(schedule.num_stages);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const PipelineAction& action = schedule.ranks[rank][index];
      EMPLACE_CHECK_LT(action.stage, schedule.num_stages);
      EMPLACE_CHECK_LT(action.micro_batch, schedule.micro_batches);
      std::optional<ActionPlace>& first = of_stage[action.stage];
      if (!first) first = ActionPlace{rank, index};
      if (first->rank != rank) {
        throw InputError(places(rank, index), fmt::format("stage {} is at {} too (a stage is on one line)",
                                                          action.stage, places(first->rank, first->index)));
      }
      auto& place = places_[(action.stage * schedule.micro_batches + action.micro_batch) * 4 +
                            static_cast<std::size_t>(action.kind)];
      if (place) {
        throw InputError(places(rank, index), fmt::format("{} is at {} too (each action once)", Text(action),
                                                          places(place->rank, place->index)));
      }
      place = ActionPlace{rank, index};
    }
  }
}

void ActionTable::CheckComplete() const {
  for (std::uint32_t stage = 0; stage < schedule_.num_stages; ++stage) {
    for (std::uint32_t m = 0; m < schedule_.micro_batches; ++m) {
      const auto missing = [&](ActionKind kind) {
        throw InputError("", fmt::format("has no {} (each micro-batch runs F, and B or I and W, in each stage)",
                                         Text({stage, kind, m})));
      };
      const bool whole = At(stage, kBackward, m).has_value();
      const bool input = At(stage, kBackwardInput, m).has_value();
      const bool weight = At(stage, kBackwardWeight, m).has_value();
      if (!At(stage, kForward, m)) missing(kForward);
      if (whole && (input || weight)) {
        throw InputError("", fmt::format("has both {} and {} (B, or I and W)", Text({stage, kBackward, m}),
                                         Text({stage, input ? kBackwardInput : kBackwardWeight, m})));
      }
      if (whole) continue;
      if (!input) missing(weight ? kBackwardInput : kBackward);
      if (!weight) missing(kBackwardWeight);
    }
  }
}

// The actions of other places that an action waits for, at most two.
std::vector<ActionPlace> WaitsFor(const PipelineSchedule& schedule, const ActionTable& table,
                                  const PipelineAction& action) {
  std::vector<ActionPlace> waits;
  const auto add = [&](std::size_t stage, ActionKind kind) {
    waits.push_back(*table.Find(stage, kind, action.micro_batch));
  };
  switch (action.kind) {
    case kForward:
      if (action.stage > 0) add(action.stage - 1, kForward);
      break;
    case kBackward:
    case kBackwardInput:
      add(action.stage, kForward);
      if (action.stage + 1 < schedule.num_stages) add(action.stage + 1, kBackwardInput);
      break;
    case kBackwardWeight:
      add(action.stage, kBackwardInput);
      break;
  }
  return waits;
}

// Throws InputError that names the cycle in which the first actions of ranks that have not run wait for one another.
[[noreturn]] void TellDeadlock(const PipelineSchedule& schedule, const ActionTable& table, const Places& places,
                               const std::vector<std::size_t>& done) {
  std::size_t rank = 0;
  while (done[rank] == schedule.ranks[rank].size()) ++rank;
  std::vector<ActionPlace> path;
  std::vector<bool> seen(schedule.ranks.size(), false);
  while (!seen[rank]) {
    seen[rank] = true;
    path.push_back({rank, done[rank]});
    for (const ActionPlace& wait : WaitsFor(schedule, table, schedule.ranks[rank][done[rank]])) {
      if (wait.index < done[wait.rank]) continue;
      path.push_back(wait);
      rank = wait.rank;
      break;
    }
  }
  // `path` has pairs: the action in whose way the rank stands, and what it waits for. The circle begins at `rank`.
  std::size_t begin = 0;
  while (path[begin].rank != rank) begin += 2;
  std::string told;
  for (std::size_t i = begin; i < path.size(); i += 2) {
    if (i >= begin + 8) {
      told += fmt::format(", and so on over {} lines", (path.size() - begin) / 2);
      break;
    }
    told += fmt::format("{}{} waits for {}", told.empty() ? "" : "; ", places.WithText(path[i].rank, path[i].index),
                        places.WithText(path[i + 1].rank, path[i + 1].index));
  }
  throw InputError(places(path[begin].rank, path[begin].index),
                   "deadlock: " + told + " (a line runs from left to right)");
}

void CheckRuns(const PipelineSchedule& schedule, const ActionTable& table, const Places& places) {
  std::vector<std::size_t> done(schedule.ranks.size(), 0);
  const auto can_run = [&](const PipelineAction& action) {
    const std::vector<ActionPlace> waits = WaitsFor(schedule, table, action);
    return std::all_of(waits.begin(), waits.end(),
                       [&](const ActionPlace& wait) { return wait.index < done[wait.rank]; });
  };
  bool left = true;
  for (bool moved = true; moved && left;) {
    moved = false;
    left = false;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const std::vector<PipelineAction>& actions = schedule.ranks[rank];
      while (done[rank] < actions.size() && can_run(actions[done[rank]])) {
        ++done[rank];
        moved = true;
      }
      left = left || done[rank] < actions.size();
    }
  }
  if (left) TellDeadlock(schedule, table, places, done);
}

}  // namespace

char Letter(ActionKind kind) {
  static constexpr std::array<char, 4> kLetters = {'F', 'B', 'I', 'W'};
  return kLetters[static_cast<std::size_t>(kind)];
}

std::string Text(const PipelineAction& action) {
  return fmt::format("{}{}{}", action.stage, Letter(action.kind), action.micro_batch);
}

std::span<const ScheduleEntry> AllSchedules() { return kSchedules; }

ScheduleName ParseScheduleName(std::string_view text, const std::string& place) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const ScheduleEntry& entry = FindByName(AllSchedules(), text.substr(0, colon), "schedule", place);
  ScheduleName name{.entry = &entry, .chunks = entry.layout == ScheduleEntry::Layout::kVShaped ? 2U : 1U};
  const bool looped = entry.layout == ScheduleEntry::Layout::kLooped;
  if (colon == text.size() && !looped) return name;
  const std::string_view number = text.substr(std::min(colon + 1, text.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), name.chunks);
  const bool valid = error == std::errc() && end == number.data() + number.size() && number.front() != '0';
  if (!looped || !valid || name.chunks < 2 || name.chunks > 1000) {
    throw InputError(place, fmt::format("is {} ({})", Quoted(text),
                                        looped ? "interleaved:V, with V stages on each device, 2 to 1000"
                                               : fmt::format("{}, without a number", entry.name)));
  }
  return name;
}

std::vector<std::size_t> RankOfStage(const ScheduleName& name, std::size_t ranks) {
  std::vector<std::size_t> rank_of_stage(ranks * name.chunks);
  for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
    const bool up = name.entry->layout == ScheduleEntry::Layout::kVShaped && stage >= ranks;
    rank_of_stage[stage] = up ? 2 * ranks - 1 - stage : stage % ranks;
  }
  return rank_of_stage;
}

PipelineSchedule MakeSchedule(const ScheduleName& name, std::size_t ranks, std::size_t micro_batches) {
  if (micro_batches > kMaxActions / 3 / (ranks * name.chunks)) {
    throw InputError("", fmt::format("has too many actions ({} at most, of {} stages and {} micro-batches)",
                                     kMaxActions, ranks * name.chunks, micro_batches));
  }
  return name.entry->make(ranks, name.chunks, micro_batches);
}

std::vector<std::size_t> RankOfStage(const PipelineSchedule& schedule) {
  std::vector<std::size_t> rank_of_stage(schedule.num_stages, 0);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const PipelineAction& action : schedule.ranks[rank]) rank_of_stage[action.stage] = rank;
  }
  return rank_of_stage;
}

void CheckSchedule(const PipelineSchedule& schedule, std::span<const std::vector<std::size_t>> cells) {
  const Places places(schedule, cells);
  const ActionTable table(schedule, places);
  table.CheckComplete();
  CheckRuns(schedule, table, places);
}

}  // namespace emplace
