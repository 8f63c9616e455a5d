#include "experiments/validation/validation_json.h"

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

JsonList ListOf(const std::vector<double>& numbers) {
  JsonList list;
  for (const double number : numbers) list.push_back(ToJson(number));
  return list;
}

void AddErrors(const StepErrors& errors, JsonObject* json) {
  AddMember(json, "median_step_error", errors.median);
  AddMember(json, "p90_step_error", errors.p90);
  AddMember(json, "largest_step_error", errors.largest);
  AddMember(json, "mean_signed_step_error", errors.mean_signed);
  AddMember(json, "spearman", errors.spearman);
  AddMember(json, "pearson", errors.pearson);
}

void AddOtherErrors(const PredictionErrors& errors, JsonObject* json) {
  AddMember(json, "median_busy_error", errors.median_busy);
  AddMember(json, "p90_busy_error", errors.p90_busy);
  AddMember(json, "median_start_error", errors.median_start);
  AddMember(json, "p90_start_error", errors.p90_start);
}

JsonObject SummaryOf(const ValidationSummary& summary) {
  JsonObject json;
  AddMember(&json, "placements", summary.placements);
  AddMember(&json, "compared", summary.compared);
  AddMember(&json, "fit_disagrees", summary.fit_disagrees);
  AddErrors(summary.simulated.step, &json);
  if (summary.interleaved) {
    JsonObject interleaved;
    AddErrors(summary.interleaved->step, &interleaved);
    AddOtherErrors(*summary.interleaved, &interleaved);
    AddMember(&json, "interleaved", std::move(interleaved));
  }
  AddOtherErrors(summary.simulated, &json);
  AddMember(&json, "median_step_spread", summary.median_step_spread);
  AddMember(&json, "counted_steps", summary.counted_steps);
  AddMember(&json, "disturbed_steps", summary.disturbed_steps);
  return json;
}

JsonObject CaseOf(const ValidationCase& one) {
  JsonObject json;
  AddMember(&json, "label", one.label);
  AddMember(&json, "simulated_fits_memory", one.simulated_fits);
  AddMember(&json, "measured_fits_memory", one.measured.result.fits_memory);
  AddMember(&json, "simulated_us", one.simulated.micros);
  if (one.interleaved) AddMember(&json, "interleaved_us", one.interleaved->micros);
  AddMember(&json, "simulated_busy_us", ListOf(one.simulated.busy));
  if (!one.measured.result.fits_memory) {
    AddMember(&json, "failure", one.measured.failure);
    return json;
  }
  AddMember(&json, "measured_us", one.measured.result.step_time_micros);
  AddMember(&json, "measured_steps_us", ListOf(one.measured.step_micros));
  AddMember(&json, "measured_busy_us", ListOf(one.measured_busy));
  return json;
}

}  // namespace

void WriteValidation(std::ostream& out, const Graph& graph, const Cluster& cluster,
                     std::span<const ValidationCase> cases, const ValidationSummary& summary) {
  JsonObject json;
  AddMember(&json, "schema", "emplace.validation");
  AddMember(&json, "version", 1);
  AddMember(&json, "graph", graph.name());
  JsonList devices;
  for (const Device& device : cluster.devices()) devices.push_back(ToJson(device.name));
  AddMember(&json, "devices", std::move(devices));
  AddMember(&json, "summary", SummaryOf(summary));
  JsonList ops;
  for (const OpError& op : summary.ops) {
    JsonObject member;
    AddMember(&member, "signature", op.signature);
    AddMember(&member, "device", op.device_kind);
    AddMember(&member, "runs", op.runs);
    AddMember(&member, "simulated_us", op.simulated_micros);
    AddMember(&member, "measured_us", op.measured_micros);
    if (summary.interleaved) AddMember(&member, "alone_us", op.alone_micros);
    ops.push_back(ToJson(std::move(member)));
  }
  AddMember(&json, "ops", std::move(ops));
  JsonList list;
  for (const ValidationCase& one : cases) list.push_back(ToJson(CaseOf(one)));
  AddMember(&json, "cases", std::move(list));
  std::string text;
  AppendJson(&text, ToJson(std::move(json)));
  out << text << '\n';
}

}  // namespace emplace::experiments
