#include "sim/schedule/schedule_simulator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sim/base/check.h"
#include "sim/schedule/schedule_messages.h"

namespace emplace {
namespace {

using enum ActionKind;

constexpr Duration kNotYet{-1};

// By PipelineStage::communication.
std::size_t PositionOf(ActionKind part) {
  if (part == kForward) return 0;
  return part == kBackwardInput ? 1 : 2;
}

Duration TimeOf(const PipelineStage& stage, ActionKind part) {
  if (part == kForward) return stage.forward;
  return part == kBackwardInput ? stage.backward_input : stage.backward_weight;
}

// Changes of one rank's memory, or of a count, over time. At one time what ends goes before what begins.
class Levels {
 public:
  void Add(Duration from, Duration to, std::int64_t amount) {
    if (from >= to || amount == 0) return;
    changes_.emplace_back(from, amount);
    changes_.emplace_back(to, -amount);
  }
  std::int64_t Peak() {
    std::sort(changes_.begin(), changes_.end());
    std::int64_t level = 0;
    std::int64_t peak = 0;
    for (const auto& [time, amount] : changes_) peak = std::max(peak, level += amount);
    return peak;
  }

 private:
  std::vector<std::pair<Duration, std::int64_t>> changes_;
};

class ScheduleRun {
 public:
  ScheduleRun(const PipelineSchedule& schedule, const PipelineModel& model, bool free_transfers);
  Duration Run();
  ScheduleResult Result();
  ScheduleMessages Messages() && {
    return {.micro_batches = schedule_.micro_batches, .sent = std::move(sent_), .final_sent = std::move(final_sent_)};
  }

 private:
  using Sent = ScheduleMessages::Sent;
  std::size_t PartIndex(std::size_t stage, ActionKind part) const { return stage * 4 + static_cast<std::size_t>(part); }
  Duration& EndOf(std::size_t stage, ActionKind part, std::size_t m) {
    return ends_[PartIndex(stage, part) * schedule_.micro_batches + m];
  }
  Sent& SentOf(std::size_t message, std::size_t m) {
    return sent_[message * schedule_.micro_batches + (model_.messages[message].once ? 0 : m)];
  }
  Sent Send(const PipelineRoute& route, Duration now);
  // The ranks that act together with it; none where another one of the team does it for it.
  std::span<const std::size_t> TeamOf(const std::size_t& rank) const {
    if (model_.teams.empty()) return {&rank, 1};
    const std::vector<std::size_t>& team = model_.teams[team_of_rank_[rank]];
    return team.front() == rank ? std::span<const std::size_t>(team) : std::span<const std::size_t>();
  }
  std::optional<Duration> CanStart(std::size_t rank);
  void StartAction(std::size_t rank, Duration start);
  void SendEarly();
  bool TryAction(std::size_t rank);
  void RunActions();
  void RunFinal();
  void AddHeld();
  void AddMessageMemory();

  const PipelineSchedule& schedule_;
  const PipelineModel& model_;
  bool free_transfers_;
  std::vector<std::size_t> team_of_rank_;
  std::vector<std::vector<std::size_t>> messages_after_;   // indexed by part
  std::vector<std::vector<std::size_t>> messages_before_;  // indexed by part
  std::vector<std::size_t> next_;                          // indexed by rank: the action
  std::vector<Duration> free_;                             // indexed by rank
  std::vector<Duration> channel_free_;
  std::vector<Duration> ends_;  // indexed by part and micro-batch
  std::vector<Sent> sent_;      // indexed by message and micro-batch
  std::vector<Sent> final_sent_;
  std::vector<std::vector<Duration>> starts_;
  std::vector<Duration> final_op_starts_;
  std::vector<Duration> final_start_;  // indexed by rank
  std::vector<Duration> final_end_;    // indexed by rank
  std::vector<ScheduleResult::RankResult> ranks_;
  std::vector<Levels> memory_;
  Duration step_time_{};
};

ScheduleRun::ScheduleRun(const PipelineSchedule& schedule, const PipelineModel& model, bool free_transfers)
    : schedule_(schedule),
      model_(model),
      free_transfers_(free_transfers),
      messages_after_(schedule.num_stages * 4),
      messages_before_(schedule.num_stages * 4),
      next_(schedule.ranks.size(), 0),
      free_(model.ranks.size()),
      channel_free_(model.num_channels),
      ends_(schedule.num_stages * 4 * schedule.micro_batches, kNotYet),
      sent_(model.messages.size() * schedule.micro_batches, {kNotYet, kNotYet}),
      final_sent_(model.final_messages.size(), {kNotYet, kNotYet}),
      starts_(schedule.ranks.size()),
      ranks_(model.ranks.size()),
      memory_(model.ranks.size()) {
  team_of_rank_.resize(model.teams.empty() ? 0 : schedule.ranks.size());
  for (std::size_t team = 0; team < model.teams.size(); ++team) {
    for (const std::size_t rank : model.teams[team]) team_of_rank_[rank] = team;
  }
  for (std::size_t i = 0; i < model.messages.size(); ++i) {
    const PipelineMessage& message = model.messages[i];
    if (message.after) messages_after_[PartIndex(message.after->stage, message.after->kind)].push_back(i);
    for (const StagePart& reader : message.readers) {
      messages_before_[PartIndex(reader.stage, reader.kind)].push_back(i);
    }
  }
}

ScheduleMessages::Sent ScheduleRun::Send(const PipelineRoute& route, Duration now) {
  if (free_transfers_ || route.from == route.to) return {now, now};
  if (!route.channel) return {now, now + route.transfer};
  Duration& channel = channel_free_[*route.channel];
  const Duration start = std::max(now, channel);
  const Duration arrival = start + route.transfer;
  channel = arrival + route.gap;
  if (!model_.ranks[route.from].copy_engine) free_[route.from] = std::max(free_[route.from], channel);
  return {start, arrival};
}

void ScheduleRun::SendEarly() {
  for (const bool once : {true, false}) {
    for (std::size_t m = 0; m < (once ? 1 : schedule_.micro_batches); ++m) {
      for (std::size_t i = 0; i < model_.messages.size(); ++i) {
        const PipelineMessage& message = model_.messages[i];
        if (!message.after && message.once == once) SentOf(i, m) = Send(message.route, Duration{});
      }
    }
  }
}

// Runs the next action of the rank, and of its team, if all that they wait for is known.
bool ScheduleRun::TryAction(std::size_t rank) {
  Duration start{};
  for (const std::size_t member : TeamOf(rank)) {
    const std::optional<Duration> from = CanStart(member);
    if (!from) return false;
    start = std::max(start, *from);
  }
  for (const std::size_t member : TeamOf(rank)) StartAction(member, start);
  return true;
}

// When the rank's next action may start; none: that is not known yet.
std::optional<Duration> ScheduleRun::CanStart(std::size_t rank) {
  const PipelineAction& action = schedule_.ranks[rank][next_[rank]];
  Duration start = free_[rank];
  for (const ActionKind part : PartsOf(action.kind)) {
    for (const std::size_t message : messages_before_[PartIndex(action.stage, part)]) {
      const PipelineRoute& route = model_.messages[message].route;
      if (route.from == route.to) continue;  // the order of the list says that it is there
      const Sent& sent = SentOf(message, action.micro_batch);
      if (sent.arrival == kNotYet) return std::nullopt;
      start = std::max(start, sent.arrival);
    }
  }
  return start;
}

void ScheduleRun::StartAction(std::size_t rank, Duration start) {
  const PipelineAction& action = schedule_.ranks[rank][next_[rank]];
  const PipelineStage& stage = model_.stages[action.stage];
  starts_[rank].push_back(start);
  Duration end = start + ActionTime(stage, action.kind);
  if (free_transfers_) {
    for (const ActionKind part : PartsOf(action.kind)) end -= stage.communication[PositionOf(part)];
  }
  free_[rank] = end;
  ranks_[rank].busy += end - start;
  ranks_[rank].end = end;
  memory_[rank].Add(start, end, stage.working[static_cast<std::size_t>(action.kind)].count);
  for (const ActionKind part : PartsOf(action.kind)) {
    EndOf(action.stage, part, action.micro_batch) = end;
    for (const std::size_t message : messages_after_[PartIndex(action.stage, part)]) {
      SentOf(message, action.micro_batch) = Send(model_.messages[message].route, end);
    }
  }
  ++next_[rank];
}

void ScheduleRun::RunActions() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      if (TeamOf(rank).empty()) continue;
      while (next_[rank] < schedule_.ranks[rank].size() && TryAction(rank)) moved = true;
    }
  }
  for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
    EMPLACE_CHECK_EQ(next_[rank], schedule_.ranks[rank].size());
    if (!starts_[rank].empty()) ranks_[rank].first_start = starts_[rank].front();
  }
}

void ScheduleRun::RunFinal() {
  std::vector<std::vector<std::size_t>> after(model_.final_ops.size());
  for (std::size_t i = 0; i < model_.final_messages.size(); ++i) {
    const FinalMessage& message = model_.final_messages[i];
    if (message.after) {
      after[*message.after].push_back(i);
    } else {
      final_sent_[i] = Send(message.route, ranks_[message.route.from].end);
    }
  }
  final_start_.assign(model_.ranks.size(), kNotYet);
  final_end_.assign(model_.ranks.size(), Duration{});
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) final_end_[rank] = ranks_[rank].end;
  std::vector<Duration> group_free(model_.ranks.size());  // times at which collectives leave the devices
  std::vector<Duration> ends(model_.final_ops.size());
  final_op_starts_.resize(model_.final_ops.size());
  for (std::size_t i = 0; i < model_.final_ops.size();) {
    const auto collective = model_.final_ops[i].collective;
    const std::size_t behind = i + (collective ? model_.final_collectives[*collective].num_members : 1);
    Duration start{};
    for (std::size_t k = i; k < behind; ++k) {
      const FinalOp& op = model_.final_ops[k];
      start = std::max(start, collective ? std::max(ranks_[op.rank].end, group_free[op.rank]) : free_[op.rank]);
      for (const std::size_t wait : op.waits) start = std::max(start, final_sent_[wait].arrival);
      for (const std::size_t read : op.reads) start = std::max(start, ends[read]);
    }
    Duration time = model_.final_ops[i].time;
    if (collective) time = free_transfers_ ? Duration{} : model_.final_collectives[*collective].time;
    for (; i < behind; ++i) {
      const std::size_t rank = model_.final_ops[i].rank;
      final_op_starts_[i] = start;
      ends[i] = start + time;
      (collective ? group_free : free_)[rank] = ends[i];
      final_end_[rank] = std::max(final_end_[rank], ends[i]);
      if (!collective) ranks_[rank].busy += time;
      if (final_start_[rank] == kNotYet || start < final_start_[rank]) final_start_[rank] = start;
      for (const std::size_t message : after[i]) {
        final_sent_[message] = Send(model_.final_messages[message].route, ends[i]);
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    step_time_ = std::max(step_time_, final_end_[rank]);
    if (final_start_[rank] == kNotYet) final_start_[rank] = final_end_[rank];
    memory_[rank].Add(final_start_[rank], final_end_[rank], model_.ranks[rank].final_working.count);
  }
}

Duration ScheduleRun::Run() {
  SendEarly();
  RunActions();
  RunFinal();
  return step_time_;
}

void ScheduleRun::AddHeld() {
  std::vector<Levels> held(model_.ranks.size());
  for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
    Duration first_backward = final_end_[rank];
    for (std::size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule_.ranks[rank][i];
      if (action.kind != kForward) {
        first_backward = std::min(first_backward, starts_[rank][i]);
        continue;
      }
      held[rank].Add(starts_[rank][i], EndOf(action.stage, kBackwardWeight, action.micro_batch), 1);
    }
    memory_[rank].Add(first_backward, final_start_[rank], model_.ranks[rank].gradients.count);
    ranks_[rank].micro_batches_held = static_cast<std::size_t>(held[rank].Peak());
  }
}

void ScheduleRun::AddMessageMemory() {
  const auto add = [&](const PipelineRoute& route, const Sent& sent, Duration last_reader) {
    memory_[route.to].Add(sent.start, last_reader, route.size.count);
  };
  for (std::size_t i = 0; i < model_.messages.size(); ++i) {
    const PipelineMessage& message = model_.messages[i];
    Duration last_of_all{};
    for (std::size_t m = 0; m < schedule_.micro_batches; ++m) {
      const Sent& sent = SentOf(i, m);
      Duration last{};
      for (const StagePart& reader : message.readers) last = std::max(last, EndOf(reader.stage, reader.kind, m));
      if (message.until_final && m + 1 == schedule_.micro_batches) last = std::max(last, final_end_[message.route.to]);
      last_of_all = std::max(last_of_all, last);
      if (message.once) continue;
      add(message.route, sent, last);
      const Duration made = message.after ? EndOf(message.after->stage, message.after->kind, m) : Duration{};
      memory_[message.route.from].Add(made, sent.arrival, message.route.buffer.count);
    }
    if (message.once) add(message.route, SentOf(i, 0), last_of_all);
  }
  for (std::size_t i = 0; i < model_.final_messages.size(); ++i) {
    const PipelineRoute& route = model_.final_messages[i].route;
    add(route, final_sent_[i], final_end_[route.to]);
  }
}

ScheduleResult ScheduleRun::Result() {
  AddHeld();
  AddMessageMemory();
  ScheduleResult result{.step_time = step_time_, .ranks = ranks_, .starts = starts_, .final_starts = final_op_starts_};
  Duration busy{};
  for (std::size_t rank = 0; rank < model_.ranks.size(); ++rank) {
    result.ranks[rank].peak = Bytes{memory_[rank].Peak()} + model_.ranks[rank].held;
    if (rank < schedule_.ranks.size()) busy += result.ranks[rank].busy;
  }
  const auto all = static_cast<double>(step_time_.count()) * static_cast<double>(schedule_.ranks.size());
  if (all > 0) result.bubble_percent = 100 * (all - static_cast<double>(busy.count())) / all;
  return result;
}

// The largest time of one micro-batch on a rank or channel, gaps included.
Duration MaxLoad(const PipelineModel& model) {
  std::vector<Duration> ranks(model.ranks.size());
  std::vector<Duration> channels(model.num_channels);
  for (std::size_t stage = 0; stage < model.stages.size(); ++stage) {
    for (const ActionKind kind : {kForward, kBackward}) {
      ranks[model.rank_of_stage[stage]] += ActionTime(model.stages[stage], kind);
    }
  }
  for (const PipelineMessage& message : model.messages) {
    if (message.once) continue;
    if (!message.route.channel) continue;
    const Duration occupied = message.route.transfer + message.route.gap;
    channels[*message.route.channel] += occupied;
    if (!model.ranks[message.route.from].copy_engine) ranks[message.route.from] += occupied;
  }
  Duration most{};
  for (const std::vector<Duration>* loads : {&ranks, &channels}) {
    for (const Duration load : *loads) most = std::max(most, load);
  }
  return most;
}

// No step is longer than everything in it, one after another, and holds no more than everything in it.
void CheckSums(const PipelineSchedule& schedule, const PipelineModel& model) {
  __extension__ using Wide = __int128;
  Wide each = 0;
  Wide once = 0;
  for (const PipelineStage& stage : model.stages) {
    each += ActionTime(stage, kForward).count();
    each += ActionTime(stage, kBackward).count();
  }
  Wide bytes_each = 0;
  Wide bytes_once = 0;
  for (const PipelineMessage& message : model.messages) {
    (message.once ? once : each) += Wide{message.route.transfer.count()} + message.route.gap.count();
    (message.once ? bytes_once : bytes_each) += Wide{message.route.size.count} + message.route.buffer.count;
  }
  for (const PipelineStage& stage : model.stages) {
    for (const Bytes working : stage.working) bytes_once += working.count;
  }
  for (const PipelineModel::Rank& rank : model.ranks) {
    bytes_once += Wide{rank.held.count} + rank.gradients.count + rank.final_working.count;
  }
  for (const FinalOp& op : model.final_ops) once += op.time.count();
  for (const FinalCollective& collective : model.final_collectives) once += collective.time.count();
  for (const FinalMessage& message : model.final_messages) {
    once += Wide{message.route.transfer.count()} + message.route.gap.count();
    bytes_once += Wide{message.route.size.count} + message.route.buffer.count;
  }
  if (bytes_each * static_cast<Wide>(schedule.micro_batches) + bytes_once > (Wide{1} << 62)) {
    throw InputError("", "all micro-batches together are larger than 2^62 bytes (fewer micro-batches)");
  }
  if (each * static_cast<Wide>(schedule.micro_batches) + once > Wide{4'000'000'000'000'000'000}) {
    throw InputError("", "all micro-batches together are longer than 4e15 us (fewer micro-batches)");
  }
}

}  // namespace

std::span<const ActionKind> PartsOf(ActionKind kind) {
  static constexpr std::array<ActionKind, 1> kForwardPart = {kForward};
  static constexpr std::array<ActionKind, 2> kBothParts = {kBackwardInput, kBackwardWeight};
  switch (kind) {
    case kForward:
      return kForwardPart;
    case kBackward:
      return kBothParts;
    case kBackwardInput:
      return std::span(kBothParts).first(1);
    case kBackwardWeight:
      break;
  }
  return std::span(kBothParts).last(1);
}

Duration ActionTime(const PipelineStage& stage, ActionKind kind) {
  Duration time{};
  for (const ActionKind part : PartsOf(kind)) time += TimeOf(stage, part);
  return time;
}

PipelineModel ChainModel(std::span<const std::size_t> rank_of_stage, std::span<const PipelineStage> stages,
                         ChainTransfers transfers) {
  EMPLACE_CHECK_EQ(rank_of_stage.size(), stages.size());
  PipelineModel model{.rank_of_stage = {rank_of_stage.begin(), rank_of_stage.end()},
                      .stages = {stages.begin(), stages.end()}};
  if (stages.empty()) return model;
  model.ranks.resize(1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end()));
  const auto send = [&](std::size_t from, std::size_t to, ActionKind kind, Duration transfer) {
    if (rank_of_stage[from] == rank_of_stage[to]) return;
    model.messages.push_back({.route = {.from = rank_of_stage[from],
                                        .to = rank_of_stage[to],
                                        .channel = model.num_channels++,
                                        .transfer = transfer},
                              .after = StagePart{from, kind},
                              .readers = {{to, kind}}});
  };
  for (std::size_t stage = 0; stage + 1 < stages.size(); ++stage) {
    send(stage, stage + 1, kForward, transfers.forward);
    send(stage + 1, stage, kBackwardInput, transfers.backward);
  }
  return model;
}

PipelineSchedule OnRanksOf(const PipelineModel& model, const PipelineSchedule& schedule) {
  if (model.schedule_rank.empty()) return schedule;
  PipelineSchedule all{.num_stages = model.stages.size(), .micro_batches = schedule.micro_batches, .ranks = {}};
  std::vector<std::vector<std::uint32_t>> own(model.schedule_rank.size(),
                                              std::vector<std::uint32_t>(schedule.num_stages, 0));
  for (std::size_t stage = 0; stage < model.schedule_stage.size(); ++stage) {
    own[model.rank_of_stage[stage]][model.schedule_stage[stage]] = static_cast<std::uint32_t>(stage);
  }
  for (std::size_t rank = 0; rank < model.schedule_rank.size(); ++rank) {
    std::vector<PipelineAction>& actions = all.ranks.emplace_back(schedule.ranks[model.schedule_rank[rank]]);
    for (PipelineAction& action : actions) action.stage = own[rank][action.stage];
  }
  return all;
}

ScheduleMessages SimulateMessages(const PipelineSchedule& of_pipeline, const PipelineModel& model) {
  const PipelineSchedule schedule = OnRanksOf(model, of_pipeline);
  CheckSums(schedule, model);
  ScheduleRun run(schedule, model, /*free_transfers=*/false);
  run.Run();
  return std::move(run).Messages();
}

PipelineAction InSchedule(const PipelineModel& model, const PipelineAction& action) {
  PipelineAction own = action;
  if (!model.schedule_stage.empty()) own.stage = static_cast<std::uint32_t>(model.schedule_stage[action.stage]);
  return own;
}

ScheduleResult SimulateSchedule(const PipelineSchedule& of_pipeline, const PipelineModel& model) {
  const PipelineSchedule schedule = OnRanksOf(model, of_pipeline);
  EMPLACE_CHECK_EQ(schedule.num_stages, model.stages.size());
  EMPLACE_CHECK_LE(schedule.ranks.size(), model.ranks.size());
  CheckSums(schedule, model);
  ScheduleRun run(schedule, model, /*free_transfers=*/false);
  run.Run();
  ScheduleResult result = run.Result();
  result.exposed_communication = result.step_time - ScheduleRun(schedule, model, /*free_transfers=*/true).Run();
  result.max_load = MaxLoad(model);
  return result;
}

}  // namespace emplace
