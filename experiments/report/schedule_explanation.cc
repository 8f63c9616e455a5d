#include "experiments/report/schedule_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>

#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "sim/formats/report_text.h"
#include "sim/schedule/schedule_messages.h"

namespace emplace::experiments {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeText(Duration duration) { return HumanReadableMicros(MicrosFromDuration(duration)); }

constexpr double kFaster = 0.9;  // the time of ops that are 10 % faster

Duration Scaled(Duration time, Duration communication) {
  return communication + Duration(std::llround(kFaster * static_cast<double>((time - communication).count())));
}

// The cluster with links of this many times the bandwidth and the latency.
Cluster WithScaledLinks(const Cluster& cluster, double bandwidth, double latency) {
  const auto with_costs = [&](const Cluster& scaled) { return scaled.WithCollectiveCosts(cluster.collective_costs()); };
  const auto scale = [&](auto link) {
    link.bandwidth_gb_per_s *= bandwidth;
    link.latency_micros *= latency;
    return link;
  };
  const Topology& topology = cluster.topology();
  if (!topology.empty()) {
    std::vector<Topology::Link> links;
    std::ranges::transform(topology.links(), std::back_inserter(links), scale);
    return with_costs(Cluster(cluster.name(), cluster.source(), cluster.devices(),
                              Topology(cluster.num_devices(), topology.switches(), links, topology.given()),
                              cluster.channels(), cluster.own_kinds()));
  }
  std::vector<Link> links;
  for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      links.push_back(scale(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to))));
      links.back().beyond_gb_per_s *= bandwidth;
    }
  }
  return with_costs(Cluster(cluster.name(), cluster.source(), cluster.devices(), std::move(links), cluster.channels(),
                            cluster.own_kinds()));
}

// The model with faster ops on one rank, or on all. What collectives take stays.
PipelineModel WithFasterOps(PipelineModel model, std::optional<std::size_t> rank) {
  for (std::size_t s = 0; s < model.stages.size(); ++s) {
    if (rank && model.rank_of_stage[s] != *rank) continue;
    PipelineStage& stage = model.stages[s];
    stage.forward = Scaled(stage.forward, stage.communication[0]);
    stage.backward_input = Scaled(stage.backward_input, stage.communication[1]);
    stage.backward_weight = Scaled(stage.backward_weight, stage.communication[2]);
  }
  for (FinalOp& op : model.final_ops) {
    if (!op.collective && (!rank || op.rank == *rank)) op.time = Scaled(op.time, Duration{});
  }
  return model;
}

std::size_t BusiestRank(const ScheduleResult& result) {
  const auto busiest = std::max_element(result.ranks.begin(), result.ranks.end(),
                                        [](const auto& a, const auto& b) { return a.busy < b.busy; });
  return static_cast<std::size_t>(busiest - result.ranks.begin());
}

const std::string& DeviceOf(const ExplainedSchedule& explained, const Cluster& cluster, std::size_t rank) {
  return cluster.device(explained.step.pipeline.devices[rank]).name;
}

std::string PlaceText(const ExplainedSchedule& explained, const Cluster& cluster, const ScheduleChainPart& part) {
  const std::string& from = DeviceOf(explained, cluster, part.rank);
  return part.to ? from + " to " + DeviceOf(explained, cluster, *part.to) : from;
}

std::string_view ChainWords(ScheduleChainKind kind) {
  switch (kind) {
    case ScheduleChainKind::kForward:
      return "forward";
    case ScheduleChainKind::kBackward:
      return "backward";
    case ScheduleChainKind::kBackwardInput:
      return "backward, inputs";
    case ScheduleChainKind::kBackwardWeight:
      return "backward, weights";
    case ScheduleChainKind::kUpdate:
      return "update";
    case ScheduleChainKind::kCollective:
      return "collective";
    case ScheduleChainKind::kTransfer:
      return "transfer";
    case ScheduleChainKind::kGap:
      break;
  }
  return "gap";
}

class SchedulePrinter {
 public:
  SchedulePrinter(std::ostream& out, const ExplainedSchedule& explained, const Cluster& cluster)
      : out_(out), e_(explained), cluster_(cluster) {}

  void Print() {
    PrintHead();
    PrintChain();
    PrintDevices();
    PrintWhatIf();
    PrintSlack();
  }

 private:
  std::string Percent(Duration duration) const {
    const double step = MicrosFromDuration(e_.explanation.step_time);
    return fmt::format("{:.1f}", step > 0 ? 100 * MicrosFromDuration(duration) / step : 0);
  }

  void PrintHead() {
    const StepReport& report = e_.report;
    PrintExplanationHead(out_, report);
    const std::size_t micro_batches = report.schedule->micro_batches;
    out_ << fmt::format("schedule     {}, {}: {:.4g} % bubble, {} of communication exposed\n",
                        Printable(report.schedule->name), Counted(micro_batches, "micro-batch"),
                        report.schedule->bubble_percent,
                        HumanReadableMicros(report.schedule->exposed_communication_micros));
  }

  void PrintChain() {
    struct Share {
      std::size_t parts = 0;
      Duration time{};
    };
    std::map<std::pair<ScheduleChainKind, std::string>, Share> shares;
    for (const ScheduleChainPart& part : e_.explanation.chain) {
      Share& share = shares[{part.kind, PlaceText(e_, cluster_, part)}];
      ++share.parts;
      share.time += part.length();
    }
    std::vector<std::pair<std::pair<ScheduleChainKind, std::string>, Share>> rows(shares.begin(), shares.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
    constexpr std::size_t kShown = 16;
    const std::size_t shown = std::min(kShown, rows.size());
    out_ << fmt::format("\nThe critical chain, which takes the whole step, has {}. By kind and place{}:\n",
                        Counted(e_.explanation.chain.size(), "part"),
                        shown < rows.size() ? fmt::format(", {} of {}", shown, rows.size()) : "");
    Table table({"part", "where", "times", "time", "%"});
    for (std::size_t i = 0; i < shown; ++i) {
      const auto& [key, share] = rows[i];
      table.Add({std::string(ChainWords(key.first)), key.second, std::to_string(share.parts), TimeText(share.time),
                 Percent(share.time)});
    }
    table.PrintText(out_);
  }

  void PrintDevices() {
    struct Column {
      const char* heading;
      Duration RankUse::*field;
      bool always;
    };
    constexpr Column kColumns[] = {{"busy", &RankUse::busy, true},
                                   {"waits for devices", &RankUse::waiting_for_ranks, true},
                                   {"waits for transfers", &RankUse::waiting_for_transfers, true},
                                   {"waits for its team", &RankUse::waiting_for_team, false},
                                   {"waits for collectives", &RankUse::waiting_for_collectives, false},
                                   {"sends", &RankUse::sending, false},
                                   {"idle", &RankUse::idle, true}};
    const std::vector<RankUse>& ranks = e_.explanation.ranks;
    std::vector<Column> columns;
    for (const Column& column : kColumns) {
      const auto has_time = [&](const RankUse& use) { return use.*column.field > Duration{}; };
      if (column.always || std::any_of(ranks.begin(), ranks.end(), has_time)) columns.push_back(column);
    }
    std::vector<std::string> header = {"device"};
    for (const Column& column : columns) header.emplace_back(column.heading);
    header.insert(header.end(), {"busy %", "on the chain %"});
    Table table(header);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<std::string> row = {DeviceOf(e_, cluster_, rank)};
      for (const Column& column : columns) row.push_back(TimeText(ranks[rank].*column.field));
      row.insert(row.end(), {Percent(ranks[rank].busy), Percent(ranks[rank].on_chain)});
      table.Add(row);
    }
    out_ << "\nHow each device spends the step:\n";
    table.PrintText(out_);
  }

  void PrintWhatIf() {
    out_ << "\nThe same schedule, simulated again with one change:\n";
    Table table({"change", "step time", "gain", "gain %"});
    for (const ExplainedSchedule::WhatIf& what : e_.what_if) {
      const Duration gain = e_.explanation.step_time - what.step_time;
      table.Add({what.change, TimeText(what.step_time), TimeText(gain), Percent(gain)});
    }
    table.PrintText(out_);
  }

  void PrintSlack() {
    const Duration little = e_.explanation.step_time / 100;
    std::size_t all = 0;
    std::size_t none = 0;
    std::size_t few = 0;
    for (const std::vector<Duration>& actions : e_.explanation.slack) {
      all += actions.size();
      for (const Duration slack : actions) {
        none += slack == Duration{} ? 1 : 0;
        few += slack <= little ? 1 : 0;
      }
    }
    out_ << fmt::format("\nSlack: {} of {} none, {} at most 1 % of the step.\n", none,
                        Counted(all, "action") + (all == 1 ? " has" : " have"), few);
  }

  std::ostream& out_;
  const ExplainedSchedule& e_;
  const Cluster& cluster_;
};

Json PartJson(const ExplainedSchedule& explained, const Graph& graph, const Cluster& cluster,
              const ScheduleChainPart& part) {
  Json json = {{"kind", Name(part.kind)},
               {"start_us", MicrosFromDuration(part.begin)},
               {"duration_us", MicrosFromDuration(part.length())}};
  if (part.action) json["action"] = Text(InSchedule(explained.step.pipeline.model, *part.action));
  if (part.final_op) json["op"] = graph.op(explained.step.pipeline.final_ops[*part.final_op]).name;
  if (part.micro_batch) json["micro_batch"] = *part.micro_batch;
  json["device"] = DeviceOf(explained, cluster, part.rank);
  if (part.to) json["to"] = DeviceOf(explained, cluster, *part.to);
  return json;
}

Json ChainJson(const ExplainedSchedule& explained, const Graph& graph, const Cluster& cluster) {
  Json chain;
  for (std::size_t k = 0; k < kNumScheduleChainKinds; ++k) {
    chain[std::string(Name(static_cast<ScheduleChainKind>(k))) + "_us"] =
        MicrosFromDuration(explained.explanation.totals[k]);
  }
  Json parts = Json::array();
  for (const ScheduleChainPart& part : explained.explanation.chain) {
    parts.push_back(PartJson(explained, graph, cluster, part));
  }
  chain["parts"] = std::move(parts);
  return chain;
}

Json DevicesJson(const ExplainedSchedule& explained, const Cluster& cluster) {
  Json devices = Json::array();
  for (std::size_t rank = 0; rank < explained.explanation.ranks.size(); ++rank) {
    const RankUse& use = explained.explanation.ranks[rank];
    devices.push_back({{"name", DeviceOf(explained, cluster, rank)},
                       {"busy_us", MicrosFromDuration(use.busy)},
                       {"waiting_for_devices_us", MicrosFromDuration(use.waiting_for_ranks)},
                       {"waiting_for_transfers_us", MicrosFromDuration(use.waiting_for_transfers)},
                       {"waiting_for_team_us", MicrosFromDuration(use.waiting_for_team)},
                       {"waiting_for_collectives_us", MicrosFromDuration(use.waiting_for_collectives)},
                       {"sending_us", MicrosFromDuration(use.sending)},
                       {"idle_us", MicrosFromDuration(use.idle)},
                       {"on_chain_us", MicrosFromDuration(use.on_chain)},
                       {"peak_bytes", explained.step.result.ranks[rank].peak.count}});
  }
  return devices;
}

Json ActionsJson(const ExplainedSchedule& explained, const Cluster& cluster) {
  const PipelineModel& model = explained.step.pipeline.model;
  const PipelineSchedule schedule = OnRanksOf(model, explained.step.schedule);
  Json actions = Json::array();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule.ranks[rank][i];
      actions.push_back({{"action", Text(InSchedule(model, action))},
                         {"device", DeviceOf(explained, cluster, rank)},
                         {"start_us", MicrosFromDuration(explained.step.result.starts[rank][i])},
                         {"duration_us", MicrosFromDuration(ActionTime(model.stages[action.stage], action.kind))},
                         {"slack_us", MicrosFromDuration(explained.explanation.slack[rank][i])}});
    }
  }
  return actions;
}

Json FinalOpsJson(const ExplainedSchedule& explained, const Graph& graph, const Cluster& cluster) {
  const PlacedPipeline& pipeline = explained.step.pipeline;
  Json ops = Json::array();
  for (std::size_t i = 0; i < pipeline.model.final_ops.size(); ++i) {
    const FinalOp& op = pipeline.model.final_ops[i];
    const Duration time = op.collective ? pipeline.model.final_collectives[*op.collective].time : op.time;
    ops.push_back({{"op", graph.op(pipeline.final_ops[i]).name},
                   {"device", DeviceOf(explained, cluster, op.rank)},
                   {"start_us", MicrosFromDuration(explained.step.result.final_starts[i])},
                   {"duration_us", MicrosFromDuration(time)},
                   {"slack_us", MicrosFromDuration(explained.explanation.final_slack[i])}});
  }
  return ops;
}

}  // namespace

ExplainedSchedule MakeExplainedSchedule(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                        const Placement& placement, const ScheduleChoice& choice,
                                        const SchedulePlaces& places) {
  ExplainedSchedule explained;
  explained.step = SimulatePlacedSchedule(graph, cluster, costs, placement, choice, places);
  const auto& [schedule, pipeline, result] = explained.step;
  explained.report = MakeScheduleReport(graph, cluster, costs, placement, choice.name, schedule, pipeline, result);
  explained.explanation = ExplainSchedule(schedule, pipeline.model, result);
  const auto on = [&](const Cluster& other) {
    return SimulatePlacedSchedule(graph, other, costs, placement, choice, places).result.step_time;
  };
  const auto faster = [&, &pipeline = pipeline, &schedule = schedule](std::optional<std::size_t> rank) {
    return SimulateSchedule(schedule, WithFasterOps(pipeline.model, rank)).step_time;
  };
  const std::size_t busiest = BusiestRank(result);
  explained.what_if = {{"twice the bandwidth", on(WithScaledLinks(cluster, 2, 1))},
                       {"half the latency", on(WithScaledLinks(cluster, 1, 0.5))},
                       {"ops 10 % faster on " + DeviceOf(explained, cluster, busiest), faster(busiest)},
                       {"ops 10 % faster on all devices", faster(std::nullopt)}};
  return explained;
}

void PrintExplainedSchedule(std::ostream& out, const ExplainedSchedule& explained, const Cluster& cluster) {
  SchedulePrinter(out, explained, cluster).Print();
}

void WriteExplainedSchedule(std::ostream& out, const ExplainedSchedule& explained, const Graph& graph,
                            const Cluster& cluster) {
  const StepReport& report = explained.report;
  Json json = {{"schema", "emplace.explanation"},
               {"version", 1},
               {"graph", report.graph},
               {"cluster", report.cluster},
               {"engine", report.engine},
               {"costs", report.costs},
               {"schedule", report.schedule->name},
               {"micro_batches", report.schedule->micro_batches},
               {"step_time_us", report.step_time_micros},
               {"fits_memory", report.fits_memory},
               {"lower_bound_us", report.lower_bound_micros},
               {"lower_bound_method", report.lower_bound_method},
               {"bubble_percent", report.schedule->bubble_percent},
               {"exposed_communication_us", report.schedule->exposed_communication_micros},
               {"max_load_us", report.schedule->max_load_micros}};
  json["chain"] = ChainJson(explained, graph, cluster);
  json["devices"] = DevicesJson(explained, cluster);
  Json what_if = Json::array();
  for (const ExplainedSchedule::WhatIf& what : explained.what_if) {
    const Duration gain = explained.explanation.step_time - what.step_time;
    what_if.push_back({{"change", what.change},
                       {"step_time_us", MicrosFromDuration(what.step_time)},
                       {"gain_us", MicrosFromDuration(gain)}});
  }
  json["what_if"] = std::move(what_if);
  json["actions"] = ActionsJson(explained, cluster);
  json["final_ops"] = FinalOpsJson(explained, graph, cluster);
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace emplace::experiments
