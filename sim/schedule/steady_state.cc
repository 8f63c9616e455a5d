#include "sim/schedule/steady_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/howard_cycle_ratio.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "sim/base/check.h"

namespace emplace {
namespace {

using enum ActionKind;

// What `to` waits for: in repetition n it starts at least `delay` after the start of `from` in repetition n -
// repetitions.
struct Wait {
  double delay = 0;
  double repetitions = 0;
  Duration exact{};
};
using WaitGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Wait>;
using Vertex = boost::graph_traits<WaitGraph>::vertex_descriptor;

// The waits of one repetition in the middle of a sufficiently long schedule: actions of the micro-batches `first` to
// first + period - 1, and their messages.
class Repetition {
 public:
  Repetition(const PipelineSchedule& schedule, const PipelineModel& model, std::size_t first, std::size_t period);

  std::size_t num_phases() const { return two_phases_ ? 2 : 1; }
  // None: nothing of the phase waits for an earlier repetition.
  std::optional<SteadyState::Circle> LongestCircle(std::size_t phase) const;

 private:
  struct Node {
    SteadyState::Step step;
    std::size_t phase = 0;
  };
  struct Edge {
    std::size_t from;
    std::size_t to;
    Duration delay;
    std::int64_t repetitions;
  };
  // An action or a message of a micro-batch: the node of its place in a repetition, and the repetition.
  struct Place {
    std::size_t node;
    std::int64_t repetition;
  };
  std::int64_t RepetitionOf(std::size_t m) const { return static_cast<std::int64_t>(m / period_); }
  std::size_t FrontStage(std::size_t stage) const;
  std::size_t PhaseOf(ActionKind kind) const { return two_phases_ && kind != kForward ? 1 : 0; }
  std::size_t ActionNode(const PipelineAction& action) const {
    return (FrontStage(action.stage) * 4 + static_cast<std::size_t>(action.kind)) * period_ +
           action.micro_batch % period_;
  }
  std::size_t MessageNode(std::size_t message, std::size_t m) const {
    return (schedule_.num_stages * 4 + message) * period_ + m % period_;
  }
  void AddWait(const Place& from, const Place& to, Duration delay) {
    if (to.repetition != middle_) return;  // the same as in the middle
    edges_.push_back({from.node, to.node, delay, to.repetition - from.repetition});
  }
  void AddList(std::size_t rank);
  void AddSources();
  void AddSends(const PipelineAction& action, const Place& place, std::vector<std::size_t>* channels);
  void AddMessage(std::size_t message, std::size_t m, const std::optional<Place>& after, Duration after_time);
  // The action, of the schedule's kind, that runs the part.
  ActionKind RunBy(const StagePart& part) const {
    return part.kind != kForward && whole_backward_[part.stage] ? kBackward : part.kind;
  }

  const PipelineSchedule& schedule_;
  const PipelineModel& model_;
  std::size_t period_;
  std::int64_t middle_;
  bool two_phases_ = true;
  std::vector<char> whole_backward_;                      // indexed by stage
  std::vector<std::vector<std::size_t>> messages_after_;  // indexed by part
  std::vector<std::size_t> front_stage_;                  // indexed by stage: that of its team's first rank
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  // By channel: the message that was queued last.
  struct Queued {
    std::size_t message;
    Place place;
  };
  std::vector<std::optional<Queued>> last_;
};

std::size_t Repetition::FrontStage(std::size_t stage) const {
  return front_stage_.empty() ? stage : front_stage_[stage];
}

// The stages of each team's first rank, by the stages of all its ranks.
std::vector<std::size_t> FrontStages(const PipelineModel& model) {
  if (model.teams.empty()) return {};
  std::vector<std::size_t> front_rank(model.ranks.size());
  for (const std::vector<std::size_t>& team : model.teams) {
    for (const std::size_t rank : team) front_rank[rank] = team.front();
  }
  std::vector<std::vector<std::size_t>> of_rank(model.ranks.size());
  for (std::size_t stage = 0; stage < model.stages.size(); ++stage) {
    std::vector<std::size_t>& own = of_rank[model.rank_of_stage[stage]];
    own.resize(std::max(own.size(), model.schedule_stage[stage] + 1));
    own[model.schedule_stage[stage]] = stage;
  }
  std::vector<std::size_t> front(model.stages.size());
  for (std::size_t stage = 0; stage < model.stages.size(); ++stage) {
    front[stage] = of_rank[front_rank[model.rank_of_stage[stage]]][model.schedule_stage[stage]];
  }
  return front;
}

Repetition::Repetition(const PipelineSchedule& schedule, const PipelineModel& model, std::size_t first,
                       std::size_t period)
    : schedule_(schedule),
      model_(model),
      period_(period),
      middle_(static_cast<std::int64_t>(first / period)),
      whole_backward_(schedule.num_stages, false),
      messages_after_(schedule.num_stages * 4),
      front_stage_(FrontStages(model)),
      nodes_((schedule.num_stages * 4 + model.messages.size()) * period),
      last_(model.num_channels) {
  for (const std::vector<PipelineAction>& list : schedule.ranks) {
    bool backward = false;
    for (const PipelineAction& action : list) {
      if (action.kind == kBackward) whole_backward_[action.stage] = true;
      two_phases_ = two_phases_ && !(backward && action.kind == kForward);
      backward = backward || action.kind != kForward;
    }
  }
  for (std::size_t i = 0; i < model.messages.size(); ++i) {
    const std::optional<StagePart>& after = model.messages[i].after;
    if (after) messages_after_[after->stage * 4 + static_cast<std::size_t>(after->kind)].push_back(i);
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) AddList(rank);
  std::fill(last_.begin(), last_.end(), std::nullopt);
  AddSources();
}

// A message waits for its maker and for the one before it on its channel; its readers wait for it.
void Repetition::AddMessage(std::size_t message, std::size_t m, const std::optional<Place>& after,
                            Duration after_time) {
  const PipelineRoute& route = model_.messages[message].route;
  if (route.from == route.to) return;
  const Place place{MessageNode(message, m), RepetitionOf(m)};
  nodes_[place.node] = {.step = {.is_message = true, .from = route.from, .to = route.to},
                        .phase = after ? nodes_[after->node].phase : 0};
  if (after) AddWait(*after, place, after_time);
  if (route.channel) {
    std::optional<Queued>& before = last_[*route.channel];
    if (before) {
      const PipelineRoute& previous = model_.messages[before->message].route;
      AddWait(before->place, place, previous.transfer + previous.gap);
    }
    before = {message, place};
  }
  for (const StagePart& reader : model_.messages[message].readers) {
    const ActionKind kind = RunBy(reader);
    const PipelineAction action{static_cast<std::uint32_t>(reader.stage), kind, static_cast<std::uint32_t>(m)};
    AddWait(place, {ActionNode(action), RepetitionOf(m)}, route.transfer);
  }
}

// The messages of an action. `channels` gains those that they occupy.
void Repetition::AddSends(const PipelineAction& action, const Place& place, std::vector<std::size_t>* channels) {
  for (const ActionKind part : {kForward, kBackwardInput, kBackwardWeight}) {
    const bool runs = part == action.kind || (action.kind == kBackward && part != kForward);
    if (!runs) continue;
    for (const std::size_t message : messages_after_[std::size_t{action.stage} * 4 + static_cast<std::size_t>(part)]) {
      AddMessage(message, action.micro_batch, place, ActionTime(model_.stages[action.stage], action.kind));
      const PipelineRoute& route = model_.messages[message].route;
      if (route.from == route.to || !route.channel) continue;
      if (std::find(channels->begin(), channels->end(), *route.channel) == channels->end()) {
        channels->push_back(*route.channel);
      }
    }
  }
}

// The rank's actions, each after the one before it, and what they send.
void Repetition::AddList(std::size_t rank) {
  std::vector<std::size_t> channels;  // channels on which the rank has sent
  std::optional<PipelineAction> before;
  for (const PipelineAction& action : schedule_.ranks[rank]) {
    const Place place{ActionNode(action), RepetitionOf(action.micro_batch)};
    if (FrontStage(action.stage) == action.stage) {
      nodes_[place.node] = {.step = {.from = rank, .to = rank}, .phase = PhaseOf(action.kind)};
    }
    if (before) {
      AddWait({ActionNode(*before), RepetitionOf(before->micro_batch)}, place,
              ActionTime(model_.stages[before->stage], before->kind));
    }
    if (!model_.ranks[rank].copy_engine) {
      for (const std::size_t channel : channels) {
        const PipelineRoute& route = model_.messages[last_[channel]->message].route;
        AddWait(last_[channel]->place, place, route.transfer + route.gap);
      }
    }
    AddSends(action, place, &channels);
    before = action;
  }
}

// The messages of sources for each micro-batch, by channel, in addition to those of actions.
void Repetition::AddSources() {
  const auto first = static_cast<std::size_t>(middle_ - 1) * period_;
  for (std::size_t m = first; m < first + 2 * period_; ++m) {
    for (std::size_t i = 0; i < model_.messages.size(); ++i) {
      if (model_.messages[i].after || model_.messages[i].once) continue;
      AddMessage(i, m, std::nullopt, {});
    }
  }
}

std::optional<SteadyState::Circle> Repetition::LongestCircle(std::size_t phase) const {
  // An action may wait for one of a later micro-batch, but Boost's algorithm does not accept negative repetitions. So
  // each node counts its repetitions from an offset of its own, which keeps the sums of cycles.
  std::vector<std::int64_t> offset(nodes_.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (const Edge& edge : edges_) {
      const std::int64_t most = offset[edge.from] + edge.repetitions;
      if (offset[edge.to] <= most) continue;
      offset[edge.to] = most;
      moved = true;
    }
  }
  WaitGraph graph(nodes_.size());
  for (const Edge& edge : edges_) {
    if (nodes_[edge.from].phase != phase || nodes_[edge.to].phase != phase) continue;
    boost::add_edge(edge.from, edge.to,
                    {.delay = static_cast<double>(edge.delay.count()),
                     .repetitions = static_cast<double>(edge.repetitions + offset[edge.from] - offset[edge.to]),
                     .exact = edge.delay},
                    graph);
  }
  std::vector<boost::graph_traits<WaitGraph>::edge_descriptor> circle;
  const double ratio =
      boost::maximum_cycle_ratio(graph, boost::get(boost::vertex_index, graph), boost::get(&Wait::delay, graph),
                                 boost::get(&Wait::repetitions, graph), &circle);
  if (!std::isfinite(ratio) || circle.empty()) return std::nullopt;
  SteadyState::Circle result;
  double repetitions = 0;
  for (const auto& edge : circle) {
    result.time += graph[edge].exact;
    repetitions += graph[edge].repetitions;
    result.steps.push_back(nodes_[boost::source(edge, graph)].step);
  }
  result.micro_batches = static_cast<std::size_t>(std::llround(repetitions)) * period_;
  return result;
}

}  // namespace

double SteadyState::MicrosPerMicroBatch() const {
  double micros = 0;
  for (const Circle& circle : circles) {
    micros += MicrosFromDuration(circle.time) / static_cast<double>(circle.micro_batches);
  }
  return micros;
}

SteadyState FindSteadyState(const ScheduleName& name, std::size_t ranks, const PipelineModel& model) {
  // Ramps are over after 2p micro-batches, or 3p of interleaved stages, which come p at a time.
  const bool interleaved = name.entry->layout == ScheduleEntry::Layout::kLooped && name.chunks > 1;
  const std::size_t period = interleaved ? ranks : 1;
  const std::size_t micro_batches = interleaved ? 8 * ranks : 4 * ranks + 4;
  const PipelineSchedule schedule = OnRanksOf(model, MakeSchedule(name, ranks, micro_batches));
  const Repetition repetition(schedule, model, micro_batches / 2, period);
  SteadyState steady;
  for (std::size_t phase = 0; phase < repetition.num_phases(); ++phase) {
    if (auto circle = repetition.LongestCircle(phase)) steady.circles.push_back(std::move(*circle));
  }
  return steady;
}

std::string BottleneckText(const SteadyState& steady, const Cluster& cluster, const std::vector<DeviceId>& devices) {
  std::string text;
  for (const SteadyState::Circle& circle : steady.circles) {
    if (!text.empty()) text += "; ";
    bool work = false;
    bool transfers = false;
    std::vector<std::size_t> from;
    std::vector<std::size_t> to;
    const auto add = [](std::vector<std::size_t>* ranks, std::size_t rank) {
      if (std::find(ranks->begin(), ranks->end(), rank) == ranks->end()) ranks->push_back(rank);
    };
    for (const SteadyState::Step& step : circle.steps) {
      (step.is_message ? transfers : work) = true;
      add(&from, step.from);
      add(&to, step.to);
    }
    const auto name_of = [&](std::size_t rank) { return cluster.device(devices[rank]).name; };
    if (from.size() == 1 && work) {
      text += fmt::format("{} of {}", transfers ? "work and transfers" : "work", name_of(from.front()));
    } else if (from.size() == 1 && to.size() == 1) {
      text += fmt::format("transfers from {} to {}", name_of(from.front()), name_of(to.front()));
    } else {
      std::string names;
      for (const std::size_t rank : from) names += (names.empty() ? "" : ", ") + name_of(rank);
      text += fmt::format("round of {} micro-batches over {}", circle.micro_batches, names);
    }
  }
  return text;
}

}  // namespace emplace
