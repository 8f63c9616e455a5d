#include "experiments/validation/roofline_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <string_view>
#include <utility>

#include "experiments/validation/measured_shapes.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/base/statistics.h"
#include "sim/cost/cost_models.h"
#include "sim/ops/aten_work.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kTransferKinds[] = {"collective", "memcpy", "memset"};

constexpr std::string_view kNothingToCompare =
    "has no operator with a measured time that roofline knows (a trace with shapes: record_shapes=True)";

bool IsOneOf(std::span<const std::string_view> kinds, std::string_view kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// A call: an op of the graph, or all the kernels of one op range of a trace.
struct MeasuredCall {
  std::string name;
  OpClass op_class = OpClass::kNone;
  std::size_t kernels = 0;
  double measured = 0;
  double roofline = 0;
  std::vector<std::pair<OpId, double>> ops = {};  // ops with their roofline times
};

// Both times of the ops of a graph.
struct MeasuredCalls {
  std::string kind;
  std::vector<MeasuredCall> calls;
  double transfers = 0;
  std::map<std::string, double> unknown;
};

RooflineRow RowOf(std::string name, const std::vector<const MeasuredCall*>& calls) {
  RooflineRow row{.name = std::move(name), .op_class = calls.empty() ? OpClass::kNone : calls[0]->op_class};
  std::vector<double> errors;
  for (const MeasuredCall* const call : calls) {
    ++row.calls;
    row.kernels += call->kernels;
    row.measured += call->measured;
    row.roofline += call->roofline;
    errors.push_back(std::abs(call->roofline / call->measured - 1));
  }
  if (!errors.empty()) {
    row.mean_error = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
    row.median_error = Quantile(errors, 0.5);
    row.p90_error = Quantile(errors, 0.9);
  }
  return row;
}

// One row for each name that `name_of` gives, the largest measured time first.
template <typename NameOf>
std::vector<RooflineRow> RowsBy(const std::vector<MeasuredCall>& calls, const NameOf& name_of) {
  std::map<std::string, std::vector<const MeasuredCall*>> groups;
  for (const MeasuredCall& call : calls) groups[name_of(call)].push_back(&call);
  std::vector<RooflineRow> rows;
  rows.reserve(groups.size());
  for (const auto& [name, group] : groups) rows.push_back(RowOf(name, group));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RooflineRow& a, const RooflineRow& b) { return a.measured > b.measured; });
  return rows;
}

nlohmann::ordered_json JsonOf(const RooflineRow& row) {
  return {{"name", row.name},
          {"class", std::string(Name(row.op_class))},
          {"calls", row.calls},
          {"kernels", row.kernels},
          {"measured_us", row.measured},
          {"roofline_us", row.roofline},
          {"ratio", row.Ratio()},
          {"error", {{"mean", row.mean_error}, {"median", row.median_error}, {"p90", row.p90_error}}}};
}

MeasuredCalls FindCalls(const Graph& graph, const CostModel& model) {
  MeasuredCalls found;
  found.kind = FindDominantKind(graph).value_or("");
  if (found.kind.empty()) {
    throw InputError("",
                     "no op has a time on a device to compare with (a Kineto trace, or an Execution Trace with "
                     "--times)");
  }
  const Cluster cluster(found.kind, "", {{.name = "device:0", .kind = found.kind, .memory = std::nullopt}},
                        std::vector<Link>(1), Channels::kPerDevice);
  model.CheckKind(cluster, found.kind);

  std::map<std::string, std::size_t> positions;  // in `calls`, by CallIdOf
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    const auto time = std::find_if(op.kind_times.begin(), op.kind_times.end(),
                                   [&](const KindTime& each) { return each.kind == found.kind; });
    // Ops of the host alone took no time on the device.
    if (time == op.kind_times.end() || time->micros <= 0 || IsOfHost(op)) continue;
    if (IsOneOf(kTransferKinds, op.kind)) {
      found.transfers += time->micros;
      continue;
    }
    const std::optional<AtenWork> work = FindAtenWork(graph, id);
    if (work && work->is_transfer) {
      found.transfers += time->micros;
      continue;
    }
    const std::string name = ReadAtenCall(graph, id).name;
    const std::optional<double> micros = model.OpMicros(graph, id, cluster, found.kind);
    if (!micros || !work) {
      found.unknown[name] += time->micros;
      continue;
    }
    const std::string call = CallIdOf(op);
    if (!call.empty()) {
      const auto [position, is_new] = positions.try_emplace(call, found.calls.size());
      if (!is_new) {
        MeasuredCall& known = found.calls[position->second];
        known.kernels += 1;
        known.measured += time->micros;
        known.roofline += *micros;
        known.ops.emplace_back(id, *micros);
        continue;
      }
    }
    found.calls.push_back({name, work->work.op_class, 1, time->micros, *micros, {{id, *micros}}});
  }
  return found;
}

// The times of the trace, but for ops whose times are given.
class ReplacedCosts : public CostModel {
 public:
  explicit ReplacedCosts(const std::vector<MeasuredCall>& calls) {
    for (const MeasuredCall& call : calls) times_.insert(call.ops.begin(), call.ops.end());
  }
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                 std::string_view device_kind) const override {
    const auto found = times_.find(op);
    return found != times_.end() ? found->second : measured_->OpMicros(graph, op, cluster, device_kind);
  }
  std::string WhyNoTime(const Graph& graph, OpId op) const override { return measured_->WhyNoTime(graph, op); }

 private:
  std::unique_ptr<CostModel> measured_ = MakeMeasuredCostModel();
  std::map<OpId, double> times_;
};

double SimulateWith(const std::vector<MeasuredCall>& calls, const datasets::Imported& imported) {
  const CostTable costs(imported.graph, *imported.cluster, ReplacedCosts(calls));
  const Simulator simulator(imported.graph, *imported.cluster, costs, {.peak_memory = false});
  return simulator.Run(*imported.placement).step_time_micros;
}

template <typename Key>
std::map<Key, double> Medians(const std::map<Key, std::vector<double>>& ratios) {
  std::map<Key, double> medians;
  for (const auto& [key, values] : ratios) medians[key] = Median(values);
  return medians;
}

}  // namespace

double RooflineScales::Of(const std::string& name, OpClass op_class) const {
  if (const auto found = by_operator.find(name); found != by_operator.end()) return found->second;
  if (const auto found = by_class.find(op_class); found != by_class.end()) return found->second;
  return all;
}

RooflineScales MeasureRooflineScales(std::span<const datasets::Imported> imported, const CostModel& model) {
  std::map<std::string, std::vector<double>> by_operator;
  std::map<OpClass, std::vector<double>> by_class;
  std::vector<double> all;
  for (const datasets::Imported& each : imported) {
    for (const MeasuredCall& call : FindCalls(each.graph, model).calls) {
      if (call.roofline <= 0) continue;
      const double ratio = call.measured / call.roofline;
      by_operator[call.name].push_back(ratio);
      by_class[call.op_class].push_back(ratio);
      all.push_back(ratio);
    }
  }
  if (all.empty()) throw InputError("", std::string(kNothingToCompare));
  return {Medians(by_operator), Medians(by_class), Median(all)};
}

RooflineCheck CheckRoofline(const datasets::Imported& imported, const CostModel& model, const RooflineScales* scales) {
  MeasuredCalls found = FindCalls(imported.graph, model);
  std::vector<MeasuredCall>& calls = found.calls;
  if (calls.empty()) throw InputError("", std::string(kNothingToCompare));
  if (scales != nullptr) {
    for (MeasuredCall& call : calls) {
      const double scale = scales->Of(call.name, call.op_class);
      call.roofline *= scale;
      for (auto& [op, micros] : call.ops) micros *= scale;
    }
  }
  RooflineCheck check;
  check.kind = found.kind;
  check.transfers = found.transfers;
  if (imported.measured && imported.cluster && imported.placement) {
    check.measured_step_time = imported.measured->step_time_micros;
    check.step_time = SimulateWith(calls, imported);
  }
  check.classes = RowsBy(calls, [](const MeasuredCall& call) { return std::string(Name(call.op_class)); });
  check.operators = RowsBy(calls, [](const MeasuredCall& call) { return call.name; });
  std::vector<const MeasuredCall*> all;
  all.reserve(calls.size());
  for (const MeasuredCall& call : calls) all.push_back(&call);
  check.total = RowOf("all", all);
  check.total.op_class = OpClass::kNone;
  std::vector<std::pair<std::string, double>> by_time(found.unknown.begin(), found.unknown.end());
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, micros] : by_time) {
    check.unknown.push_back(name);
    check.unknown_time += micros;
  }
  return check;
}

void WriteRooflineCheck(std::ostream& out, const RooflineCheck& check, const std::string& costs) {
  nlohmann::ordered_json json = {
      {"schema", "emplace.roofline-check"}, {"version", 1}, {"costs", costs}, {"kind", check.kind}};
  for (const auto& [key, rows] : {std::pair("classes", &check.classes), std::pair("operators", &check.operators)}) {
    json[key] = nlohmann::ordered_json::array();
    for (const RooflineRow& row : *rows) json[key].push_back(JsonOf(row));
  }
  json["total"] = JsonOf(check.total);
  json["transfers_us"] = check.transfers;
  json["unknown_us"] = check.unknown_time;
  json["unknown"] = check.unknown;
  if (check.step_time) {
    json["step"] = {{"measured_us", *check.measured_step_time}, {"simulated_us", *check.step_time}};
  }
  out << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace emplace::experiments
