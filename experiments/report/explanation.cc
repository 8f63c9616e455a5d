#include "experiments/report/explanation.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

#include "agents/bounds/lower_bound.h"

namespace emplace::experiments {
namespace {

using Json = nlohmann::ordered_json;

double Micros(Duration duration) { return MicrosFromDuration(duration); }

class JsonMaker {
 public:
  JsonMaker(const Graph& graph, const Cluster& cluster) : graph_(graph), cluster_(cluster) {}

  Json Item(const ChainItem& item) const {
    Json json = {{"op", graph_.op(item.op).name}, {"device", Device(item.device)}};
    if (!item.is_transfer) return json;
    json["to"] = Device(item.to);
    if (!item.tensor) return json;
    json["output"] = graph_.tensor(*item.tensor).output_index;
    json["size_bytes"] = graph_.tensor(*item.tensor).size.count;
    return json;
  }

  Json Part(const ChainPart& part) const {
    Json json = {{"kind", Name(part.kind)}, {"start_us", Micros(part.begin)}, {"duration_us", Micros(part.length())}};
    json.update(Item(part.item));
    if (part.waiter) json["waiting"] = Item(*part.waiter);
    return json;
  }

  Json Chain(const StepExplanation& step) const {
    Json chain;
    for (std::size_t k = 0; k < step.num_chain_kinds(); ++k) {
      chain[std::string(Name(static_cast<ChainKind>(k))) + "_us"] = Micros(step.totals[k]);
    }
    Json parts = Json::array();
    for (const ChainPart& part : step.chain) parts.push_back(Part(part));
    chain["parts"] = std::move(parts);
    return chain;
  }

  static Json Devices(const Explanation& explanation) {
    Json devices = Json::array();
    for (std::size_t d = 0; d < explanation.report.devices.size(); ++d) {
      const StepReport::DeviceRow& row = explanation.report.devices[d];
      const DeviceUse& use = explanation.step.devices[d];
      Json json = {{"name", row.name},
                   {"ops", row.ops},
                   {"busy_us", Micros(use.busy)},
                   {"gap_us", Micros(use.gap)},
                   {"sending_us", Micros(use.sending)},
                   {"waiting_for_ops_us", Micros(use.waiting_for_ops)},
                   {"waiting_for_transfers_us", Micros(use.waiting_for_transfers)},
                   {"idle_us", Micros(use.idle)},
                   {"on_chain_us", Micros(use.on_chain)},
                   {"peak_bytes", row.peak.count}};
      if (explanation.step.has_issue_lanes) json["waiting_for_issue_us"] = Micros(use.waiting_for_issue);
      if (row.memory) json["memory_bytes"] = row.memory->count;
      devices.push_back(std::move(json));
    }
    return devices;
  }

  Json Moves(const agents::MoveResults& moves, double step_time_micros) const {
    Json best = Json::array();
    for (std::size_t i = 0; i < moves.gains.size() && i < kShownMoves; ++i) {
      const agents::Move& move = moves.gains[i];
      Json ops = Json::array();
      for (const OpId op : move.ops) ops.push_back(graph_.op(op).name);
      best.push_back({{"unit", agents::Name(move.unit)},
                      {"ops", std::move(ops)},
                      {"from", Device(move.from)},
                      {"to", Device(move.to)},
                      {"step_time_us", move.step_time_micros},
                      {"gain_us", move.gain_micros},
                      {"gain_percent", 100 * move.gain_micros / step_time_micros},
                      {"overflow_bytes", move.overflow_bytes}});
    }
    return {{"simulated", moves.simulated},
            {"gaining", moves.gains.size()},
            {"over_memory", moves.over_memory},
            {"not_tried", moves.not_tried},
            {"best", std::move(best)}};
  }

  Json Ops(const StepExplanation& step, const Placement& placement) const {
    Json ops = Json::array();
    for (const OpId op : graph_.file_order()) {
      ops.push_back({{"name", graph_.op(op).name},
                     {"device", Device(placement[op])},
                     {"start_us", Micros(step.start[Index(op)])},
                     {"duration_us", Micros(step.duration[Index(op)])},
                     {"slack_us", Micros(step.slack[Index(op)])}});
    }
    return ops;
  }

 private:
  const std::string& Device(DeviceId device) const { return cluster_.device(device).name; }

  const Graph& graph_;
  const Cluster& cluster_;
};

}  // namespace

Explanation MakeExplanation(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                            const Placement& placement, const Simulator& simulator, std::size_t max_simulations,
                            const agents::OnSimulations& on_simulations) {
  Explanation explanation;
  explanation.report =
      MakeStepReport(graph, cluster, costs, placement, simulator.options().engine, simulator.Run(placement));
  agents::AddLowerBound(graph, cluster, costs, &explanation.report);
  explanation.timeline = simulator.Record(placement);
  explanation.step = ExplainStep(graph, cluster, costs, placement, simulator.options(), explanation.timeline);
  explanation.moves =
      agents::FindMoves(graph, cluster, costs, placement, explanation.step, simulator, max_simulations, on_simulations);
  return explanation;
}

void WriteExplanation(std::ostream& out, const Explanation& explanation, const Graph& graph, const Cluster& cluster,
                      const Placement& placement) {
  const StepReport& report = explanation.report;
  const JsonMaker make(graph, cluster);
  Json json = {{"schema", "emplace.explanation"}, {"version", 1},
               {"graph", report.graph},           {"cluster", report.cluster},
               {"engine", report.engine},         {"costs", report.costs}};
  if (!report.costs_detail.empty()) json["costs_detail"] = report.costs_detail;
  json["step_time_us"] = report.step_time_micros;
  json["fits_memory"] = report.fits_memory;
  json["lower_bound_us"] = report.lower_bound_micros;
  json["lower_bound_method"] = report.lower_bound_method;
  json["critical_path_us"] = report.critical_path_micros;
  json["busiest_device_us"] = report.busiest_device_micros;
  json["chain"] = make.Chain(explanation.step);
  json["devices"] = JsonMaker::Devices(explanation);
  json["moves"] = make.Moves(explanation.moves, report.step_time_micros);
  json["ops"] = make.Ops(explanation.step, placement);
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace emplace::experiments
