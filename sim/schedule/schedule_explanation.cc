#include "sim/schedule/schedule_explanation.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "sim/base/check.h"
#include "sim/last_wait.h"
#include "sim/schedule/schedule_messages.h"

namespace emplace {
namespace {

// Why an event starts no earlier than another one ends.
enum class Cause : std::uint8_t {
  kInput,       // it needs what the other one makes or brings
  kCollective,  // likewise, of a collective
  kOrder,       // the rank does one after the other
  kChannel,     // the channel sends one message after the other
  kSending,     // the rank sends by itself
};

struct Precedence {
  std::size_t before = 0;  // an event
  Duration pause{};        // between the end of that one and the start
  Cause cause = Cause::kInput;
  std::size_t rank = 0;  // rank whose action waits; in a team, each member waits for the inputs of all
};

struct Event {
  ScheduleChainPart part;  // the part of the chain, with its times
  std::vector<Precedence> waits;
};

// All events of a step, first the actions of each rank, then messages, then final ops, then final messages.
class Events {
 public:
  Events(const PipelineSchedule& schedule, const PipelineModel& model, const ScheduleResult& result,
         const ScheduleMessages& messages)
      : schedule_(schedule), model_(model), result_(result), messages_(messages) {
    for (const auto& actions : schedule.ranks) {
      first_action_.push_back(num_actions_);
      num_actions_ += actions.size();
    }
    final_op_ = num_actions_ + messages.sent.size();
    final_message_ = final_op_ + model.final_ops.size();
    events_.resize(final_message_ + model.final_messages.size());
    for (std::size_t i = num_actions_; i < final_op_; ++i) events_[i].part.kind = ScheduleChainKind::kTransfer;
    sends_.resize(model.ranks.size());
    on_channel_.resize(model.num_channels);
    AddActions();
    AddMessages();
    AddTeams();
    AddFinals();
  }

  const std::vector<Event>& all() const { return events_; }
  std::size_t OfAction(std::size_t rank, std::size_t i) const { return first_action_[rank] + i; }
  std::size_t OfFinalOp(std::size_t i) const { return final_op_ + i; }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t OfMessage(std::size_t message, std::size_t m) const {
    return num_actions_ + message * schedule_.micro_batches + (model_.messages[message].once ? 0 : m);
  }
  void Wait(std::size_t event, Precedence precedence) { events_[event].waits.push_back(precedence); }

  void AddActions();
  void AddMessages();
  void AddTeams();
  void AddFinals();
  void AddFinalMessage(std::size_t i, std::size_t made_by);
  void AddFinalOp(std::size_t i, std::array<std::size_t, 2>* last);
  // The dependencies of a send, in both directions. Sends of a channel are added in their order.
  void AddSend(std::size_t event, const PipelineRoute& route, const ScheduleMessages::Sent& sent, std::size_t made_by);
  // The sends of a rank without a copy engine since the last call hold up the event.
  void WaitForOwnSends(std::size_t event, std::size_t rank);

  const PipelineSchedule& schedule_;
  const PipelineModel& model_;
  const ScheduleResult& result_;
  const ScheduleMessages& messages_;
  std::vector<std::size_t> first_action_;  // indexed by rank
  std::size_t num_actions_ = 0;
  std::size_t final_op_ = 0;
  std::size_t final_message_ = 0;
  std::vector<Event> events_;
  std::vector<std::vector<Precedence>> sends_;         // indexed by rank: sends for which nothing has waited yet
  std::vector<std::optional<Precedence>> on_channel_;  // indexed by channel: the last message
};

ScheduleChainKind KindOf(ActionKind kind) { return static_cast<ScheduleChainKind>(kind); }

void Events::AddActions() {
  for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule_.ranks[rank][i];
      const Duration start = result_.starts[rank][i];
      const std::size_t event = OfAction(rank, i);
      events_[event].part = {.kind = KindOf(action.kind),
                             .begin = start,
                             .end = start + ActionTime(model_.stages[action.stage], action.kind),
                             .rank = rank,
                             .action = action};
      if (i > 0) Wait(event, {.before = event - 1, .cause = Cause::kOrder, .rank = rank});
    }
  }
}

void Events::AddSend(std::size_t event, const PipelineRoute& route, const ScheduleMessages::Sent& sent,
                     std::size_t made_by) {
  ScheduleChainPart& part = events_[event].part;
  part.kind = ScheduleChainKind::kTransfer;
  part.begin = sent.start;
  part.end = sent.arrival;
  part.rank = route.from;
  part.to = route.to;
  if (made_by != kNone) {
    part.action = events_[made_by].part.action;
    part.final_op = events_[made_by].part.final_op;
    Wait(event, {.before = made_by});
  }
  if (route.from == route.to || !route.channel) return;
  std::optional<Precedence>& last = on_channel_[*route.channel];
  if (last) Wait(event, *last);
  last = Precedence{.before = event, .pause = route.gap, .cause = Cause::kChannel};
  if (model_.ranks[route.from].copy_engine) return;
  sends_[route.from].push_back({.before = event, .pause = route.gap, .cause = Cause::kSending, .rank = route.from});
}

void Events::WaitForOwnSends(std::size_t event, std::size_t rank) {
  for (const Precedence& send : sends_[rank]) Wait(event, send);
  sends_[rank].clear();
}

void Events::AddMessages() {
  std::vector<std::vector<std::size_t>> after(schedule_.num_stages * 4);   // messages, by part
  std::vector<std::vector<std::size_t>> before(schedule_.num_stages * 4);  // likewise
  const auto index = [](const StagePart& part) { return part.stage * 4 + static_cast<std::size_t>(part.kind); };
  for (std::size_t i = 0; i < model_.messages.size(); ++i) {
    if (model_.messages[i].after) after[index(*model_.messages[i].after)].push_back(i);
    if (model_.messages[i].route.from == model_.messages[i].route.to) continue;  // the order of the list says it
    for (const StagePart& reader : model_.messages[i].readers) before[index(reader)].push_back(i);
  }
  for (const bool once : {true, false}) {
    for (std::size_t m = 0; m < (once ? 1 : schedule_.micro_batches); ++m) {
      for (std::size_t i = 0; i < model_.messages.size(); ++i) {
        const PipelineMessage& message = model_.messages[i];
        if (message.after || message.once != once) continue;
        const std::size_t event = OfMessage(i, m);
        AddSend(event, message.route, messages_.sent[event - num_actions_], kNone);
        if (!once) events_[event].part.micro_batch = m;
      }
    }
  }
  for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule_.ranks[rank][i];
      const std::size_t event = OfAction(rank, i);
      WaitForOwnSends(event, rank);
      for (const ActionKind part : PartsOf(action.kind)) {
        for (const std::size_t message : before[index({action.stage, part})]) {
          Wait(event, {.before = OfMessage(message, action.micro_batch), .rank = rank});
        }
      }
      for (const ActionKind part : PartsOf(action.kind)) {
        for (const std::size_t message : after[index({action.stage, part})]) {
          const std::size_t send = OfMessage(message, action.micro_batch);
          AddSend(send, model_.messages[message].route, messages_.sent[send - num_actions_], event);
        }
      }
    }
  }
}

// The ranks of a team start an action together.
void Events::AddTeams() {
  for (const std::vector<std::size_t>& team : model_.teams) {
    for (std::size_t i = 0; i < schedule_.ranks[team.front()].size(); ++i) {
      std::vector<Precedence> waits;
      for (const std::size_t rank : team) {
        const std::vector<Precedence>& own = events_[OfAction(rank, i)].waits;
        waits.insert(waits.end(), own.begin(), own.end());
      }
      for (const std::size_t rank : team) events_[OfAction(rank, i)].waits = waits;
    }
  }
}

void Events::AddFinalMessage(std::size_t i, std::size_t made_by) {
  AddSend(final_message_ + i, model_.final_messages[i].route, messages_.final_sent[i], made_by);
}

// `last` are the events of its rank that other final ops follow, and collectives.
void Events::AddFinalOp(std::size_t i, std::array<std::size_t, 2>* last) {
  const FinalOp& op = model_.final_ops[i];
  const std::size_t event = OfFinalOp(i);
  const Duration time = op.collective ? model_.final_collectives[*op.collective].time : op.time;
  events_[event].part = {.kind = op.collective ? ScheduleChainKind::kCollective : ScheduleChainKind::kUpdate,
                         .begin = result_.final_starts[i],
                         .end = result_.final_starts[i] + time,
                         .rank = op.rank,
                         .final_op = i};
  std::size_t& before = (*last)[op.collective ? 1 : 0];
  if (before != kNone) Wait(event, {.before = before, .cause = Cause::kOrder, .rank = op.rank});
  before = event;
  if (!op.collective) WaitForOwnSends(event, op.rank);
  for (const std::size_t wait : op.waits) Wait(event, {.before = final_message_ + wait, .rank = op.rank});
  for (const std::size_t read : op.reads) {
    const Cause cause = model_.final_ops[read].collective ? Cause::kCollective : Cause::kInput;
    Wait(event, {.before = OfFinalOp(read), .cause = cause, .rank = op.rank});
  }
}

void Events::AddFinals() {
  std::vector<std::array<std::size_t, 2>> last(model_.ranks.size(), {kNone, kNone});
  for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
    if (!schedule_.ranks[rank].empty()) last[rank].fill(OfAction(rank, schedule_.ranks[rank].size() - 1));
  }
  std::vector<std::vector<std::size_t>> after(model_.final_ops.size());
  for (std::size_t i = 0; i < model_.final_messages.size(); ++i) {
    const FinalMessage& message = model_.final_messages[i];
    if (message.after) {
      after[*message.after].push_back(i);
    } else {
      AddFinalMessage(i, last[message.route.from][0]);
    }
  }
  for (std::size_t i = 0; i < model_.final_ops.size();) {
    const auto collective = model_.final_ops[i].collective;
    const std::size_t first = i;
    const std::size_t behind = i + (collective ? model_.final_collectives[*collective].num_members : 1);
    std::vector<Precedence> waits;  // waits of all members, which start together
    for (; i < behind; ++i) {
      AddFinalOp(i, &last[model_.final_ops[i].rank]);
      for (const std::size_t message : after[i]) AddFinalMessage(message, OfFinalOp(i));
      waits.insert(waits.end(), events_[OfFinalOp(i)].waits.begin(), events_[OfFinalOp(i)].waits.end());
    }
    for (std::size_t k = first; k < behind; ++k) events_[OfFinalOp(k)].waits = waits;
  }
}

// The last dependency of the start of the event; null: none. Among several, those that deliver data come first.
const Precedence* LastBefore(const std::vector<Event>& events, const Event& event, std::optional<std::size_t> rank) {
  LastWait<const Precedence*, std::pair<Duration, int>> last;
  for (const Precedence& wait : event.waits) {
    if (rank && wait.rank != *rank) continue;
    last.Consider(&wait, {events[wait.before].part.end + wait.pause, -static_cast<int>(wait.cause)});
  }
  return last.what().value_or(nullptr);
}

std::vector<ScheduleChainPart> FollowChain(const std::vector<Event>& events, Duration step_time) {
  std::vector<ScheduleChainPart> chain;
  const auto runs = [](const Event& event) { return event.part.kind != ScheduleChainKind::kTransfer; };
  const auto last = std::find_if(events.begin(), events.end(),
                                 [&](const Event& event) { return runs(event) && event.part.end == step_time; });
  if (last == events.end()) return chain;
  const Event* event = &*last;
  while (event->part.end > Duration{}) {
    if (event->part.length() > Duration{}) chain.push_back(event->part);
    const Precedence* const wait = LastBefore(events, *event, std::nullopt);
    if (wait == nullptr) break;
    const Event& before = events[wait->before];
    EMPLACE_CHECK(before.part.end + wait->pause == event->part.begin);
    if (wait->pause > Duration{}) {
      ScheduleChainPart gap = before.part;
      gap.kind = ScheduleChainKind::kGap;
      gap.begin = before.part.end;
      gap.end = event->part.begin;
      chain.push_back(gap);
    }
    event = &before;
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// By how much later each event may end.
std::vector<Duration> FindSlack(const std::vector<Event>& events, Duration step_time) {
  std::vector<std::size_t> followers(events.size(), 0);
  for (const Event& event : events) {
    for (const Precedence& wait : event.waits) ++followers[wait.before];
  }
  std::vector<Duration> latest(events.size(), step_time);  // end
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (followers[i] == 0) ready.push_back(i);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    const Event& event = events[ready[next]];
    for (const Precedence& wait : event.waits) {
      latest[wait.before] = std::min(latest[wait.before], latest[ready[next]] - event.part.length() - wait.pause);
      if (--followers[wait.before] == 0) ready.push_back(wait.before);
    }
  }
  EMPLACE_CHECK_EQ(ready.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) latest[i] -= events[i].part.end;
  return latest;
}

// Adds what the rank, free from `free` on, waits for before the event.
void AddWaiting(const std::vector<Event>& events, const Event& event, std::size_t rank, Duration free, RankUse* use) {
  const Precedence* const own = LastBefore(events, event, rank);
  const Duration own_end = own == nullptr ? Duration{} : events[own->before].part.end + own->pause;
  const Duration ready = std::clamp(own_end, free, event.part.begin);
  use->waiting_for_team += event.part.begin - ready;
  if (ready == free) return;
  const Event& last = events[own->before];
  if (own->cause == Cause::kSending) {
    use->sending += ready - free;
  } else if (own->cause == Cause::kCollective) {
    use->waiting_for_collectives += ready - free;
  } else if (last.part.kind != ScheduleChainKind::kTransfer) {
    use->waiting_for_ranks += ready - free;
  } else {
    const bool is_made = !last.waits.empty() && last.waits.front().cause == Cause::kInput;
    const Duration made = is_made ? events[last.waits.front().before].part.end : Duration{};
    const Duration sent = std::clamp(made, free, ready);
    use->waiting_for_ranks += sent - free;
    use->waiting_for_transfers += ready - sent;
  }
}

std::vector<RankUse> FindUse(const std::vector<Event>& events, std::size_t num_ranks, Duration step_time) {
  std::vector<RankUse> use(num_ranks);
  std::vector<Duration> free(num_ranks);
  std::vector<Duration> last_collective(num_ranks);
  for (const Event& event : events) {
    const std::size_t rank = event.part.rank;
    if (event.part.kind == ScheduleChainKind::kTransfer) continue;
    if (event.part.kind == ScheduleChainKind::kCollective) {
      last_collective[rank] = std::max(last_collective[rank], event.part.end);
      continue;
    }
    AddWaiting(events, event, rank, free[rank], &use[rank]);
    use[rank].busy += event.part.length();
    free[rank] = event.part.end;
  }
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    const Duration done = std::max(free[rank], last_collective[rank]);
    use[rank].waiting_for_collectives += done - free[rank];
    use[rank].idle = step_time - done;
  }
  return use;
}

}  // namespace

std::string_view Name(ScheduleChainKind kind) {
  constexpr std::array<std::string_view, kNumScheduleChainKinds> kNames = {
      "forward", "backward", "backward_input", "backward_weight", "update", "collective", "transfer", "gap"};
  return kNames[static_cast<std::size_t>(kind)];
}

ScheduleExplanation ExplainSchedule(const PipelineSchedule& of_pipeline, const PipelineModel& model,
                                    const ScheduleResult& result) {
  const PipelineSchedule schedule = OnRanksOf(model, of_pipeline);
  const ScheduleMessages messages = SimulateMessages(of_pipeline, model);
  const Events events(schedule, model, result, messages);
  ScheduleExplanation explanation{.step_time = result.step_time,
                                  .chain = FollowChain(events.all(), result.step_time),
                                  .ranks = FindUse(events.all(), model.ranks.size(), result.step_time)};
  for (const ScheduleChainPart& part : explanation.chain) {
    explanation.totals[static_cast<std::size_t>(part.kind)] += part.length();
    const bool runs = part.kind != ScheduleChainKind::kTransfer && part.kind != ScheduleChainKind::kGap;
    if (runs) explanation.ranks[part.rank].on_chain += part.length();
  }
  const std::vector<Duration> slack = FindSlack(events.all(), result.step_time);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto begin = slack.begin() + static_cast<std::ptrdiff_t>(events.OfAction(rank, 0));
    explanation.slack.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(schedule.ranks[rank].size()));
  }
  for (std::size_t i = 0; i < model.final_ops.size(); ++i) {
    explanation.final_slack.push_back(slack[events.OfFinalOp(i)]);
  }
  return explanation;
}

}  // namespace emplace
