#include "experiments/validation/roofline_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/base/statistics.h"
#include "sim/ops/aten_work.h"

namespace emplace::experiments {
namespace {

// Ops of a trace that no rate of a device has to do with.
constexpr std::string_view kHostKinds[] = {"host", "wait", "arrival"};
constexpr std::string_view kTransferKinds[] = {"collective", "memcpy", "memset"};

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
};

// "" where the op is a call by itself.
std::string CallOf(const Op& op) {
  if (op.kind != "kernel" || op.attrs.find("\"op_call\"") == std::string_view::npos) return "";
  const auto attrs = nlohmann::json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
  return attrs.is_object() && attrs.contains("op_call") ? attrs["op_call"].dump() : "";
}

std::string KindOfMostTime(const Graph& graph) {
  std::map<std::string_view, double> times;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (IsOneOf(kHostKinds, op.kind)) continue;
    for (const KindTime& time : op.kind_times) times[time.kind] += time.micros;
  }
  const auto most =
      std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == times.end()) {
    throw InputError("",
                     "no op has a time on a device to compare with (a Kineto trace, or an Execution Trace with "
                     "--times)");
  }
  return std::string(most->first);
}

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
          {"error", {{"median", row.median_error}, {"p90", row.p90_error}}}};
}

}  // namespace

RooflineCheck CheckRoofline(const Graph& graph, const RooflineOptions& options) {
  RooflineCheck check;
  check.kind = KindOfMostTime(graph);
  const Cluster cluster(check.kind, "", {{.name = "device:0", .kind = check.kind, .memory = std::nullopt}},
                        std::vector<Link>(1), Channels::kPerDevice);
  const std::unique_ptr<CostModel> model = MakeRooflineCostModel(options);
  model->CheckKind(cluster, check.kind);

  std::vector<MeasuredCall> calls;
  std::map<std::string, std::size_t> positions;  // in `calls`, by CallOf
  std::map<std::string, double> unknown;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    const auto time = std::find_if(op.kind_times.begin(), op.kind_times.end(),
                                   [&](const KindTime& each) { return each.kind == check.kind; });
    // Ops of the host alone took no time on the device.
    if (time == op.kind_times.end() || time->micros <= 0 || IsOneOf(kHostKinds, op.kind)) continue;
    if (IsOneOf(kTransferKinds, op.kind)) {
      check.transfers += time->micros;
      continue;
    }
    const std::optional<AtenWork> work = FindAtenWork(graph, id);
    if (work && work->is_transfer) {
      check.transfers += time->micros;
      continue;
    }
    const std::string name = ReadAtenCall(graph, id).name;
    const std::optional<double> micros = model->OpMicros(graph, id, cluster, check.kind);
    if (!micros || !work) {
      unknown[name] += time->micros;
      continue;
    }
    const std::string call = CallOf(op);
    if (!call.empty()) {
      const auto [position, is_new] = positions.try_emplace(call, calls.size());
      if (!is_new) {
        MeasuredCall& known = calls[position->second];
        known.kernels += 1;
        known.measured += time->micros;
        known.roofline += *micros;
        continue;
      }
    }
    calls.push_back({name, work->work.op_class, 1, time->micros, *micros});
  }
  check.classes = RowsBy(calls, [](const MeasuredCall& call) { return std::string(Name(call.op_class)); });
  check.operators = RowsBy(calls, [](const MeasuredCall& call) { return call.name; });
  std::vector<const MeasuredCall*> all;
  all.reserve(calls.size());
  for (const MeasuredCall& call : calls) all.push_back(&call);
  check.total = RowOf("all", all);
  check.total.op_class = OpClass::kNone;
  std::vector<std::pair<std::string, double>> by_time(unknown.begin(), unknown.end());
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, micros] : by_time) {
    check.unknown.push_back(name);
    check.unknown_time += micros;
  }
  return check;
}

void WriteRooflineCheck(std::ostream& out, const RooflineCheck& check) {
  nlohmann::ordered_json json = {{"schema", "emplace.roofline-check"}, {"version", 1}, {"kind", check.kind}};
  for (const auto& [key, rows] : {std::pair("classes", &check.classes), std::pair("operators", &check.operators)}) {
    json[key] = nlohmann::ordered_json::array();
    for (const RooflineRow& row : *rows) json[key].push_back(JsonOf(row));
  }
  json["total"] = JsonOf(check.total);
  json["transfers_us"] = check.transfers;
  json["unknown_us"] = check.unknown_time;
  json["unknown"] = check.unknown;
  out << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace emplace::experiments
