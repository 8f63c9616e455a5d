#include "sim/schedule/schedule_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using enum ActionKind;

PipelineStage StageOf(std::int64_t forward, std::int64_t input, std::int64_t weight) {
  return {
      .forward = nanoseconds(forward), .backward_input = nanoseconds(input), .backward_weight = nanoseconds(weight)};
}

TEST(ScheduleSimulatorTest, TransfersDelayWhatReadsThem) {
  // 0F0 0-4, sent until 7, 1F0 7-11, 1B0 11-17, sent until 22, 0B0 22-28.
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 2, 1);
  const std::vector<PipelineStage> stages(2, StageOf(4, 5, 1));
  const std::vector<std::size_t> ranks = {0, 1};
  const ScheduleResult result =
      SimulateSchedule(schedule, ChainModel(ranks, stages, {.forward = nanoseconds(3), .backward = nanoseconds(5)}));
  EXPECT_EQ(result.step_time, nanoseconds(28));
  EXPECT_EQ(result.exposed_communication, nanoseconds(8));
  EXPECT_EQ(result.bubble_percent, 100 * 36.0 / 56.0);
  EXPECT_THAT(result.starts[0], ElementsAre(nanoseconds(0), nanoseconds(22)));
  EXPECT_THAT(result.starts[1], ElementsAre(nanoseconds(7), nanoseconds(11)));
  EXPECT_EQ(result.max_load, nanoseconds(10));
}

TEST(ScheduleSimulatorTest, AChannelSendsOneMessageAfterTheOther) {
  // Transfers take 10, forwards 4: 1F0 starts at 14, 1F1 at 14 + 10 + the gap of 1.
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 2, 2);
  const std::vector<PipelineStage> stages(2, StageOf(4, 4, 0));
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model = ChainModel(ranks, stages, {.forward = nanoseconds(10)});
  model.messages[0].route.gap = nanoseconds(1);
  ScheduleResult result = SimulateSchedule(schedule, model);
  EXPECT_EQ(result.starts[1][0], nanoseconds(14));
  EXPECT_EQ(result.starts[1][1], nanoseconds(25));
  EXPECT_EQ(result.max_load, nanoseconds(11));
  // Without a copy engine rank 0 sends until 14, waits for the gap, and then starts its second forward.
  model.ranks[0].copy_engine = false;
  result = SimulateSchedule(schedule, model);
  EXPECT_EQ(result.starts[0][1], nanoseconds(15));
  EXPECT_EQ(result.starts[1][1], nanoseconds(29));
  EXPECT_EQ(result.max_load, nanoseconds(8 + 11));
}

TEST(ScheduleSimulatorTest, ManyMicroBatchesTakeTheLargestLoadEach) {
  // 1f1b with stages that differ: each further micro-batch takes what the slowest device takes.
  const std::vector<PipelineStage> stages = {StageOf(3, 2, 2), StageOf(4, 6, 1), StageOf(2, 3, 3)};
  const std::vector<std::size_t> ranks = {0, 1, 2};
  const PipelineModel model = ChainModel(ranks, stages);
  const auto step = [&](std::size_t micro_batches) {
    return SimulateSchedule(MakeSchedule(ParseScheduleName("1f1b", ""), 3, micro_batches), model).step_time;
  };
  EXPECT_EQ(step(101) - step(100), nanoseconds(11));
  EXPECT_EQ(SimulateSchedule(MakeSchedule(ParseScheduleName("1f1b", ""), 3, 4), model).max_load, nanoseconds(11));
}

TEST(ScheduleSimulatorTest, FinalOpsRunOnceAtTheEnd) {
  // Both ranks are done at 10 with the last action of rank 0; rank 1 at 8. Rank 1's gradient goes to rank 0 from 8 to
  // 15, and is read there from 15 to 18. A message after that op reaches rank 2, which has no stages, at 20.
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 2, 1);
  const std::vector<PipelineStage> stages = {StageOf(2, 2, 0), StageOf(3, 3, 0)};
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model = ChainModel(ranks, stages);
  model.ranks.resize(3);
  model.final_messages = {
      {.route = {.from = 1, .to = 0, .channel = 1, .transfer = nanoseconds(7), .size = {50}}},
      {.route = {.from = 0, .to = 2, .channel = 0, .transfer = nanoseconds(2), .size = {5}}, .after = 0}};
  model.final_ops = {{.rank = 0, .time = nanoseconds(3), .waits = {0}},
                     {.rank = 2, .time = nanoseconds(1), .waits = {1}}};
  model.ranks[0].final_working = {8};
  const ScheduleResult result = SimulateSchedule(schedule, model);
  EXPECT_EQ(result.step_time, nanoseconds(21));
  EXPECT_EQ(result.exposed_communication, nanoseconds(21 - 14));
  EXPECT_EQ(result.ranks[0].busy, nanoseconds(7));
  EXPECT_EQ(result.ranks[0].peak, Bytes{58});
  EXPECT_EQ(result.ranks[2].peak, Bytes{5});
}

TEST(ScheduleSimulatorTest, MessagesSayWhatIsHeld) {
  // One stage, gpipe, three micro-batches of 10 bytes each from the end of F to the end of B, 4 while an action runs,
  // 100 always, 7 of gradients from the first backward on, inputs of 2 bytes until F.
  const std::vector<PipelineStage> stages = {{.forward = nanoseconds(1),
                                              .backward_input = nanoseconds(1),
                                              .working = {Bytes{4}, Bytes{4}, Bytes{4}, Bytes{4}}}};
  const std::vector<std::size_t> ranks = {0};
  PipelineModel model = ChainModel(ranks, stages);
  model.ranks[0].held = {100};
  model.ranks[0].gradients = {7};
  model.messages = {{.route = {.size = {2}}, .readers = {{0, kForward}}},
                    {.route = {.size = {10}}, .after = StagePart{0, kForward}, .readers = {{0, kBackwardInput}}}};
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 1, 3);
  EXPECT_EQ(SimulateSchedule(schedule, model).ranks[0].peak, Bytes{100 + 30 + 4 + 7});
  const PipelineSchedule in_turn = MakeSchedule(ParseScheduleName("1f1b", ""), 1, 3);
  // While 0B0 runs: inputs of two, one held, working, gradients.
  EXPECT_EQ(SimulateSchedule(in_turn, model).ranks[0].peak, Bytes{100 + 4 + 10 + 4 + 7});
}

TEST(ScheduleSimulatorTest, MessagesOfTheStartAreSentOnceOrForEach) {
  // Rank 1 sends weights once (0-5), then two inputs (5-7, 7-9); rank 0 runs F at 7 and 9.
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 1, 2);
  const std::vector<PipelineStage> stages = {StageOf(1, 1, 0)};
  const std::vector<std::size_t> ranks = {0};
  PipelineModel model = ChainModel(ranks, stages);
  model.ranks.resize(2);
  model.num_channels = 1;
  model.messages = {
      {.route = {.from = 1, .to = 0, .channel = 0, .transfer = nanoseconds(2), .size = {3}, .buffer = {3}},
       .readers = {{0, kForward}}},
      {.route = {.from = 1, .to = 0, .channel = 0, .transfer = nanoseconds(5), .size = {20}},
       .once = true,
       .readers = {{0, kForward}}}};
  const ScheduleResult result = SimulateSchedule(schedule, model);
  EXPECT_THAT(result.starts[0], ElementsAre(nanoseconds(7), nanoseconds(9), nanoseconds(10), nanoseconds(11)));
  EXPECT_EQ(result.ranks[0].peak, Bytes{20 + 6});
  EXPECT_EQ(result.ranks[1].peak, Bytes{6});
}

TEST(ScheduleSimulatorTest, TooLongAndTooLargeStepsAreRefused) {
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 1, 5);
  const std::vector<std::size_t> ranks = {0};
  const std::vector<PipelineStage> stages = {StageOf(1'000'000'000'000'000'000, 0, 0)};
  EXPECT_THROW(SimulateSchedule(schedule, ChainModel(ranks, stages)), InputError);
  PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>{StageOf(1, 1, 1)});
  model.messages = {{.route = {.size = {std::int64_t{1} << 60}}, .readers = {{0, kForward}}}};
  EXPECT_THROW(SimulateSchedule(schedule, model), InputError);
}

// A schedule of random order: again and again, one of the actions that can run. Some backwards are whole, some in
// parts.
PipelineSchedule RandomSchedule(Rng& rng, const std::vector<std::size_t>& rank_of_stage, std::size_t micro_batches) {
  PipelineSchedule schedule{.num_stages = rank_of_stage.size(), .micro_batches = micro_batches, .ranks = {}};
  schedule.ranks.resize(1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end()));
  std::vector<PipelineAction> left;
  for (std::uint32_t s = 0; s < rank_of_stage.size(); ++s) {
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      left.push_back({s, kForward, m});
      if (rng.Below(2) == 0) {
        left.push_back({s, kBackward, m});
      } else {
        left.push_back({s, kBackwardInput, m});
        left.push_back({s, kBackwardWeight, m});
      }
    }
  }
  std::map<std::tuple<std::size_t, char, std::size_t>, bool> done;  // F, I, W
  while (!left.empty()) {
    const std::size_t at = rng.Below(left.size());
    const PipelineAction action = left[at];
    const std::size_t s = action.stage;
    const std::size_t m = action.micro_batch;
    bool can_run = true;
    if (action.kind == kForward) {
      can_run = s == 0 || done[{s - 1, 'F', m}];
    } else if (action.kind == kBackwardWeight) {
      can_run = done[{s, 'I', m}];
    } else {
      can_run = done[{s, 'F', m}] && (s + 1 == rank_of_stage.size() || done[{s + 1, 'I', m}]);
    }
    if (!can_run) continue;
    done[{s, action.kind == kBackward ? 'I' : Letter(action.kind), m}] = true;
    schedule.ranks[rank_of_stage[s]].push_back(action);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return schedule;
}

PipelineModel RandomModel(Rng& rng, const std::vector<std::size_t>& rank_of_stage) {
  std::vector<PipelineStage> stages;
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    stages.push_back(StageOf(rng.Between(0, 9), rng.Between(0, 9), rng.Between(0, 9)));
    for (Bytes& working : stages.back().working) working = {rng.Between(0, 9)};
  }
  PipelineModel model = ChainModel(rank_of_stage, stages);
  model.messages.clear();
  const std::size_t stage_ranks = model.ranks.size();
  model.ranks.resize(stage_ranks + rng.Below(2));
  const std::size_t ranks = model.ranks.size();
  const bool per_pair = rng.Below(2) == 0;
  model.num_channels = ranks * ranks;
  for (PipelineModel::Rank& rank : model.ranks) {
    rank = {.copy_engine = rng.Below(3) > 0,
            .held = {rng.Between(0, 9)},
            .gradients = {rng.Between(0, 9)},
            .final_working = {rng.Between(0, 9)}};
  }
  const auto route = [&](std::size_t from, std::size_t to) {
    PipelineRoute made{.from = from, .to = to, .size = {rng.Between(0, 9)}};
    if (from == to) return made;
    made.transfer = nanoseconds(rng.Between(0, 9));
    made.gap = nanoseconds(rng.Between(0, 2));
    made.buffer = {rng.Between(0, 9)};
    if (rng.Below(5) > 0) made.channel = from * ranks + (per_pair ? to : 0);
    return made;
  };
  for (std::size_t from = 0; from < stages.size(); ++from) {
    for (std::size_t to = 0; to < stages.size(); ++to) {
      const auto add = [&](ActionKind after, ActionKind reader) {
        if (rng.Below(2) == 0) return;
        PipelineMessage message{.route = route(rank_of_stage[from], rank_of_stage[to]),
                                .after = StagePart{from, after},
                                .readers = {{to, reader}}};
        if (reader == kBackwardInput && rng.Below(2) == 0) message.readers.push_back({to, kBackwardWeight});
        model.messages.push_back(message);
      };
      if (from < to) add(kForward, kForward);
      add(kForward, kBackwardInput);
      add(kForward, kBackwardWeight);
      if (from > to) add(kBackwardInput, kBackwardInput);
      if (from >= to) add(kBackwardInput, kBackwardWeight);
    }
  }
  for (std::size_t k = rng.Below(4); k > 0; --k) {
    const std::size_t to = rng.Below(stages.size());
    model.messages.push_back(
        {.route = route(rng.Below(ranks), rank_of_stage[to]), .once = rng.Below(2) == 0, .readers = {{to, kForward}}});
  }
  const std::size_t final_ops = rng.Below(5);
  for (std::size_t k = 0; k < final_ops; ++k) {
    FinalOp op{.rank = rng.Below(ranks), .time = nanoseconds(rng.Between(0, 9))};
    for (std::size_t sender = 0; sender < k; ++sender) {
      if (model.final_ops[sender].rank == op.rank || rng.Below(2) == 0) continue;
      op.waits.push_back(model.final_messages.size());
      model.final_messages.push_back({.route = route(model.final_ops[sender].rank, op.rank), .after = sender});
    }
    if (const std::size_t from = rng.Below(ranks); from != op.rank) {
      op.waits.push_back(model.final_messages.size());
      model.final_messages.push_back({.route = route(from, op.rank)});
    }
    model.final_ops.push_back(op);
  }
  return model;
}

// What the simulator answers, computed in another way: all starts begin at 0, and each rule that is broken pushes one
// of them, until none is. Memory is summed anew at every moment.
class SlowSchedule {
 public:
  SlowSchedule(const PipelineSchedule& schedule, const PipelineModel& model) : schedule_(schedule), model_(model) {
    Collect();
    for (bool changed = true; changed;) {
      changed = false;
      for (const Rule& rule : rules_) {
        const std::int64_t least = times_[rule.before] + rule.delay;
        if (times_[rule.after] >= least) continue;
        times_[rule.after] = least;
        changed = true;
      }
    }
  }

  std::int64_t StepTime() const {
    std::int64_t step = 0;
    for (const std::size_t end : ends_) step = std::max(step, times_[end]);
    return step;
  }
  std::int64_t Start(std::size_t rank, std::size_t index) const { return times_[starts_[rank][index]]; }

  std::int64_t Peak(std::size_t rank) const {
    struct Span {
      std::int64_t from, to, bytes;
    };
    std::vector<Span> spans;
    for (const Held& held : held_) {
      std::int64_t to = 0;
      for (const std::size_t end : held.to) to = std::max(to, times_[end]);
      if (held.rank == rank) spans.push_back({times_[held.from], to, held.bytes});
    }
    std::int64_t peak = 0;
    for (const auto& [moment, end, bytes] : spans) {  // the sum grows nowhere else
      std::int64_t sum = 0;
      for (const Span& span : spans) sum += span.from <= moment && moment < span.to ? span.bytes : 0;
      peak = std::max(peak, sum);
    }
    return peak + model_.ranks[rank].held.count;
  }

 private:
  struct Rule {  // `after` is at least `before` and the delay
    std::size_t before = 0;
    std::size_t after = 0;
    std::int64_t delay = 0;
  };
  struct Held {
    std::size_t rank = 0;
    std::size_t from = 0;
    std::vector<std::size_t> to;
    std::int64_t bytes = 0;
  };

  std::size_t NewTime() {
    times_.push_back(0);
    return times_.size() - 1;
  }
  void AtLeast(std::size_t before, std::size_t after, std::int64_t delay = 0) {
    rules_.push_back({before, after, delay});
  }
  // The moment at which something of this length ends that starts then.
  std::size_t EndOf(std::size_t start, std::int64_t length) {
    const std::size_t end = NewTime();
    AtLeast(start, end, length);
    return end;
  }

  struct Sending {
    std::size_t start = 0;
    std::size_t arrival = 0;
  };
  // `sender_next`: the rank's moment after which it may go on.
  Sending Send(const PipelineRoute& route, std::size_t made) {
    const std::size_t start = NewTime();
    AtLeast(made, start);
    const std::size_t arrival = EndOf(start, route.transfer.count());
    if (route.from != route.to && route.channel) {
      if (const auto last = channel_free_.find(*route.channel); last != channel_free_.end())
        AtLeast(last->second, start);
      const std::size_t free = EndOf(arrival, route.gap.count());
      channel_free_[*route.channel] = free;
      if (!model_.ranks[route.from].copy_engine) rank_free_[route.from].push_back(free);
    }
    return {start, arrival};
  }

  void Collect() {
    const std::size_t zero = NewTime();
    rank_free_.assign(model_.ranks.size(), {zero});
    // The order in which a channel gets its messages is known: those of the start, then by the sender's list.
    std::map<std::pair<std::size_t, std::size_t>, Sending> sent;  // message, micro-batch
    for (std::size_t pass = 0; pass < 2; ++pass) {
      for (std::size_t m = 0; m < schedule_.micro_batches; ++m) {
        for (std::size_t i = 0; i < model_.messages.size(); ++i) {
          const PipelineMessage& message = model_.messages[i];
          if (message.after || message.once != (pass == 0) || (message.once && m > 0)) continue;
          sent[{i, m}] = Send(message.route, zero);
        }
      }
    }
    std::map<std::tuple<std::size_t, ActionKind, std::size_t>, std::size_t> end_of;  // stage, part, micro-batch
    std::vector<std::size_t> last_end(model_.ranks.size(), zero);
    std::vector<std::vector<std::size_t>> first_backward(model_.ranks.size());
    starts_.resize(schedule_.ranks.size());
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (const PipelineAction& action : schedule_.ranks[rank]) {
        const PipelineStage& stage = model_.stages[action.stage];
        const bool forward = action.kind == kForward;
        const bool input = action.kind == kBackward || action.kind == kBackwardInput;
        const bool weight = action.kind == kBackward || action.kind == kBackwardWeight;
        const std::size_t start = NewTime();
        for (const std::size_t free : rank_free_[rank]) AtLeast(free, start);
        const std::size_t end =
            EndOf(start, (forward ? stage.forward.count() : 0) + (input ? stage.backward_input.count() : 0) +
                             (weight ? stage.backward_weight.count() : 0));
        rank_free_[rank] = {end};
        starts_[rank].push_back(start);
        last_end[rank] = end;
        held_.push_back({rank, start, {end}, stage.working[static_cast<std::size_t>(action.kind)].count});
        if (!forward && first_backward[rank].empty()) first_backward[rank] = {start};
        for (const ActionKind part : {kForward, kBackwardInput, kBackwardWeight}) {
          if (part == kForward ? !forward : part == kBackwardInput ? !input : !weight) continue;
          end_of[{action.stage, part, action.micro_batch}] = end;
          for (std::size_t i = 0; i < model_.messages.size(); ++i) {
            if (model_.messages[i].after != StagePart{action.stage, part}) continue;
            sent[{i, action.micro_batch}] = Send(model_.messages[i].route, end);
          }
        }
      }
    }
    for (std::size_t i = 0; i < model_.messages.size(); ++i) {
      const PipelineMessage& message = model_.messages[i];
      std::vector<std::size_t> all_readers;
      for (std::size_t m = 0; m < schedule_.micro_batches; ++m) {
        const Sending& sending = sent.at({i, message.once ? 0 : m});
        std::vector<std::size_t> readers;
        for (const StagePart& reader : message.readers) {
          readers.push_back(end_of.at({reader.stage, reader.kind, m}));
          const std::size_t rank = model_.rank_of_stage[reader.stage];
          for (std::size_t k = 0; k < schedule_.ranks[rank].size(); ++k) {
            const PipelineAction& action = schedule_.ranks[rank][k];
            const bool same = action.kind == reader.kind || (action.kind == kBackward && reader.kind != kForward);
            if (action.stage == reader.stage && same && action.micro_batch == m &&
                message.route.from != message.route.to) {
              AtLeast(sending.arrival, starts_[rank][k]);
            }
          }
        }
        all_readers.insert(all_readers.end(), readers.begin(), readers.end());
        if (message.once) continue;
        held_.push_back({message.route.to, sending.start, readers, message.route.size.count});
        const std::size_t made = message.after ? end_of.at({message.after->stage, message.after->kind, m}) : zero;
        if (message.route.from != message.route.to)
          held_.push_back({message.route.from, made, {sending.arrival}, message.route.buffer.count});
      }
      if (message.once)
        held_.push_back({message.route.to, sent.at({i, 0}).start, all_readers, message.route.size.count});
    }
    std::vector<Sending> final_sent(model_.final_messages.size());
    for (std::size_t i = 0; i < final_sent.size(); ++i) {
      const FinalMessage& message = model_.final_messages[i];
      if (!message.after) final_sent[i] = Send(message.route, last_end[message.route.from]);
    }
    std::vector<std::size_t> final_end = last_end;
    std::vector<std::vector<std::size_t>> final_starts(model_.ranks.size());
    for (std::size_t k = 0; k < model_.final_ops.size(); ++k) {
      const FinalOp& op = model_.final_ops[k];
      const std::size_t start = NewTime();
      for (const std::size_t free : rank_free_[op.rank]) AtLeast(free, start);
      for (const std::size_t wait : op.waits) AtLeast(final_sent[wait].arrival, start);
      final_starts[op.rank].push_back(start);
      final_end[op.rank] = EndOf(start, op.time.count());
      rank_free_[op.rank] = {final_end[op.rank]};
      for (std::size_t i = 0; i < final_sent.size(); ++i) {
        if (model_.final_messages[i].after == k)
          final_sent[i] = Send(model_.final_messages[i].route, final_end[op.rank]);
      }
    }
    for (std::size_t i = 0; i < final_sent.size(); ++i) {
      const PipelineRoute& route = model_.final_messages[i].route;
      held_.push_back({route.to, final_sent[i].start, {final_end[route.to]}, route.size.count});
    }
    for (std::size_t rank = 0; rank < model_.ranks.size(); ++rank) {
      ends_.push_back(final_end[rank]);
      if (!final_starts[rank].empty()) {
        held_.push_back({rank, final_starts[rank][0], {final_end[rank]}, model_.ranks[rank].final_working.count});
      }
      if (!first_backward[rank].empty()) {
        held_.push_back({rank,
                         first_backward[rank][0],
                         {final_starts[rank].empty() ? final_end[rank] : final_starts[rank][0]},
                         model_.ranks[rank].gradients.count});
      }
    }
  }

  const PipelineSchedule& schedule_;
  const PipelineModel& model_;
  std::vector<std::int64_t> times_;
  std::vector<Rule> rules_;
  std::vector<Held> held_;
  std::vector<std::size_t> ends_;
  std::vector<std::vector<std::size_t>> starts_;
  std::map<std::size_t, std::size_t> channel_free_;
  std::vector<std::vector<std::size_t>> rank_free_;  // time at which the rank can run its next action or final op
};

TEST(ScheduleSimulatorTest, AgreesWithAReferenceOnRandomSchedulesSlow) {
  Rng rng(17);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t ranks = 1 + rng.Below(4);
    std::vector<std::size_t> rank_of_stage(ranks);
    for (std::size_t r = 0; r < ranks; ++r) rank_of_stage[r] = r;
    for (std::size_t more = rng.Below(3); more > 0; --more) rank_of_stage.push_back(rng.Below(ranks));
    const PipelineSchedule schedule = RandomSchedule(rng, rank_of_stage, 1 + rng.Below(4));
    CheckSchedule(schedule);
    const PipelineModel model = RandomModel(rng, rank_of_stage);
    const ScheduleResult result = SimulateSchedule(schedule, model);
    const SlowSchedule slow(schedule, model);
    ASSERT_EQ(result.step_time.count(), slow.StepTime()) << round;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        ASSERT_EQ(result.starts[rank][i].count(), slow.Start(rank, i)) << round << " " << rank << " " << i;
      }
    }
    for (std::size_t rank = 0; rank < model.ranks.size(); ++rank) {
      ASSERT_EQ(result.ranks[rank].peak.count, slow.Peak(rank)) << round << " " << rank;
    }
    ASSERT_GE(result.exposed_communication.count(), 0);
  }
}

TEST(ScheduleSimulatorTest, AFaultInARandomScheduleIsFound) {
  Rng rng(5);
  int deadlocks = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::size_t> rank_of_stage = {0, 1, 2};
    PipelineSchedule schedule = RandomSchedule(rng, rank_of_stage, 3);
    std::vector<PipelineAction>& actions = schedule.ranks[rng.Below(3)];
    rng.Shuffle(actions);
    try {
      CheckSchedule(schedule);
      SimulateSchedule(schedule, RandomModel(rng, rank_of_stage));
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("deadlock: "), std::string::npos);
      ++deadlocks;
    }
  }
  EXPECT_GT(deadlocks, 100);
  EXPECT_LT(deadlocks, 500);
}

}  // namespace
}  // namespace emplace::testing
