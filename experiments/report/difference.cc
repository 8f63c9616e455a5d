#include "experiments/report/difference.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>

namespace emplace::experiments {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson PlacementJson(const std::string& name, const StepReport& report, const StepExplanation& step) {
  OrderedJson chain;
  for (std::size_t k = 0; k < step.num_chain_kinds(); ++k) {
    chain[std::string(Name(static_cast<ChainKind>(k))) + "_us"] = MicrosFromDuration(step.totals[k]);
  }
  return {{"file", name},
          {"step_time_us", report.step_time_micros},
          {"fits_memory", report.fits_memory},
          {"tensors_sent", report.tensors_sent},
          {"chain", std::move(chain)}};
}

// null: the changed placement cannot run.
OrderedJson StepJson(const std::optional<agents::DiffStep>& step, double before_micros) {
  if (!step) return nullptr;
  return {{"step_time_us", step->step_time_micros},
          {"gain_us", before_micros - step->step_time_micros},
          {"overflow_bytes", step->overflow_bytes}};
}

}  // namespace

Difference MakeDifference(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& a,
                          const Placement& b, const Simulator& simulator, std::size_t max_pieces, agents::DiffBy by,
                          const agents::OnSimulations& on_simulations) {
  const auto report = [&](const Placement& placement) {
    return MakeStepReport(graph, cluster, costs, placement, simulator.options().engine, simulator.Run(placement));
  };
  const auto explain = [&](const Placement& placement) {
    return ExplainStep(graph, cluster, costs, placement, simulator.options(), simulator.Record(placement));
  };
  return {report(a), report(b), explain(a), explain(b),
          agents::DiffPlacements(graph, cluster, costs, a, b, simulator, max_pieces, by, on_simulations)};
}

void WriteDifference(std::ostream& out, const Difference& difference, const Graph& graph, const Cluster& cluster,
                     const std::string& name_a, const std::string& name_b) {
  const StepReport& report = difference.report_a;
  const double before = report.step_time_micros;
  OrderedJson json = {{"schema", "emplace.diff"}, {"version", 1},
                      {"graph", report.graph},    {"cluster", report.cluster},
                      {"engine", report.engine},  {"costs", report.costs}};
  if (!report.costs_detail.empty()) json["costs_detail"] = report.costs_detail;
  json["a"] = PlacementJson(name_a, difference.report_a, difference.step_a);
  json["b"] = PlacementJson(name_b, difference.report_b, difference.step_b);
  json["gain_us"] = before - difference.report_b.step_time_micros;
  json["moved_ops"] = difference.pieces.moved_ops;
  json["joined_pieces"] = difference.pieces.joined_pieces;
  OrderedJson pieces = OrderedJson::array();
  for (const agents::DiffPiece& piece : difference.pieces.pieces) {
    OrderedJson ops = OrderedJson::array();
    for (const OpId op : piece.ops) ops.push_back(graph.op(op).name);
    OrderedJson row = {{"ops", std::move(ops)}};
    if (piece.from) row["from"] = cluster.device(*piece.from).name;
    if (piece.to) row["to"] = cluster.device(*piece.to).name;
    row["alone"] = StepJson(piece.alone, before);
    row["cumulative"] = StepJson(piece.cumulative, before);
    pieces.push_back(std::move(row));
  }
  json["pieces"] = std::move(pieces);
  out << json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace emplace::experiments
