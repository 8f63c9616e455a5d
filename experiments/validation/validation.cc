#include "experiments/validation/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/validation/verdict.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/statistics.h"
#include "sim/cost/cost_models.h"
#include "sim/profile.h"
#include "sim/timeline.h"

namespace emplace::experiments {
namespace {

std::vector<double> BusyTimes(const Timeline& timeline, std::size_t num_devices) {
  std::vector<double> busy(num_devices);
  for (const Timeline::OpRun& run : timeline.ops) busy[Index(run.device)] += run.end_micros - run.start_micros;
  return busy;
}

// By OpId.
std::vector<double> OpTimes(const Timeline& timeline, std::size_t num_ops) {
  std::vector<double> micros(num_ops);
  for (const Timeline::OpRun& run : timeline.ops) micros[Index(run.op)] = run.end_micros - run.start_micros;
  return micros;
}

std::vector<double> Scaled(std::vector<double> values, double scale) {
  for (double& value : values) value *= scale;
  return values;
}

// The trimmed mean of each column.
std::vector<double> TrimmedMeans(const std::vector<std::vector<double>>& rows) {
  std::vector<double> means(rows.front().size());
  std::vector<double> column(rows.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    for (std::size_t r = 0; r < rows.size(); ++r) column[r] = rows[r][i];
    means[i] = TrimmedMean(column);
  }
  return means;
}

// `step`: the simulator's result for the placement; not every engine's step time is the end of the last op.
PredictedStep Predict(const StepResult& step, const Simulator& simulator, const Placement& placement,
                      std::size_t num_devices) {
  const Timeline timeline = simulator.Record(placement);
  PredictedStep predicted{.micros = step.step_time_micros, .busy = BusyTimes(timeline, num_devices), .start = {}};
  predicted.start.resize(timeline.ops.size());
  for (const Timeline::OpRun& run : timeline.ops) predicted.start[Index(run.op)] = run.start_micros;
  return predicted;
}

std::size_t CountedSteps(const ValidationCase& one) {
  return one.speed_up ? one.steps : one.measured.step_micros.size();
}

// Requires: at least one case.
std::size_t LeastSteps(std::span<const ValidationCase* const> cases) {
  std::size_t least = CountedSteps(*cases.front());
  for (const ValidationCase* const one : cases) least = std::min(least, CountedSteps(*one));
  return least;
}

// Errors over several placements, in the order of the cases.
PredictionErrors Compare(std::span<const PredictedStep* const> predicted,
                         std::span<const ValidationCase* const> cases) {
  std::vector<double> predicted_micros;
  std::vector<double> measured_micros;
  std::vector<double> busy_errors;
  std::vector<double> start_errors;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ValidationCase& one = *cases[i];
    const double step = one.measured.result.step_time_micros;
    predicted_micros.push_back(predicted[i]->micros);
    measured_micros.push_back(step);
    for (std::size_t d = 0; d < one.measured_busy.size(); ++d) {
      busy_errors.push_back(std::abs(predicted[i]->busy[d] - one.measured_busy[d]) / step);
    }
    for (std::size_t n = 0; n < predicted[i]->start.size(); ++n) {
      start_errors.push_back(std::abs(predicted[i]->start[n] - one.measured.result.start_micros[n]) / step);
    }
  }
  return {.step = CompareSteps(predicted_micros, measured_micros),
          .median_busy = Quantile(busy_errors, 0.5),
          .p90_busy = Quantile(busy_errors, 0.9),
          .median_start = Quantile(start_errors, 0.5),
          .p90_start = Quantile(start_errors, 0.9)};
}

}  // namespace

std::optional<double> PearsonCorrelation(std::span<const double> a, std::span<const double> b) {
  EMPLACE_CHECK_EQ(a.size(), b.size());
  if (a.size() < 3) return std::nullopt;
  const auto mean = [](std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

std::optional<double> SpearmanCorrelation(std::span<const double> a, std::span<const double> b) {
  return PearsonCorrelation(Ranks(a), Ranks(b));
}

StepErrors CompareSteps(std::span<const double> predicted, std::span<const double> measured) {
  EMPLACE_CHECK_EQ(predicted.size(), measured.size());
  StepErrors errors;
  std::vector<double> absolute;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const double error = predicted[i] / measured[i] - 1;
    errors.mean_signed += error / static_cast<double>(predicted.size());
    absolute.push_back(std::abs(error));
  }
  errors.median = Quantile(absolute, 0.5);
  errors.p90 = Quantile(absolute, 0.9);
  errors.largest = Quantile(absolute, 1);
  errors.spearman = SpearmanCorrelation(predicted, measured);
  errors.pearson = PearsonCorrelation(predicted, measured);
  return errors;
}

PredictedStep SimulateWithTimes(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                const SimOptions& options, const profiler::OpSampler::Times& times,
                                const Placement& placement) {
  class Given : public CostModel {
   public:
    Given(const Cluster& cluster, const CostTable& costs, const profiler::OpSampler::Times& times)
        : costs_(costs), micros_(times.alone) {
      for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
        kinds_.emplace(cluster.devices()[d].kind, costs.KindIndex(MakeId<DeviceId>(d)));
      }
      if (times.beside.empty()) return;
      factors_.assign(micros_.size(), 1);
      for (std::size_t n = 0; n < micros_.size(); ++n) {
        if (micros_[n] <= 0) continue;
        const double factor = times.beside[n] / micros_[n];
        if (factor > kLeastContention) {
          factors_[n] = factor;
        } else {
          micros_[n] = (micros_[n] + times.beside[n]) / 2;
        }
      }
    }
    std::optional<double> OpMicros(const Graph&, OpId op, const Cluster&, std::string_view) const override {
      return micros_[Index(op)];
    }
    double Contention(const Graph&, OpId op, std::string_view kind) const override {
      return factors_.empty() ? costs_.KindContention(op, kinds_.find(kind)->second) : factors_[Index(op)];
    }
    std::string WhyNoTime(const Graph&, OpId) const override { return ""; }

   private:
    const CostTable& costs_;
    std::vector<double> micros_;
    std::vector<double> factors_;  // empty: as in `costs_`
    std::map<std::string, std::size_t, std::less<>> kinds_;
  };
  EMPLACE_CHECK_EQ(times.alone.size(), graph.num_ops());
  const CostTable given(graph, cluster, Given(cluster, costs, times));
  const Simulator simulator(graph, cluster, given, options);
  return Predict(simulator.Run(placement), simulator, placement, cluster.num_devices());
}

ValidationCase Validator::Predicted(const std::string& label, const Placement& placement) const {
  ValidationCase checked;
  checked.label = label;
  const StepResult simulated = simulator_.Run(placement);
  checked.simulated_fits = simulated.fits_memory;
  checked.simulated = Predict(simulated, simulator_, placement, cluster_.num_devices());
  return checked;
}

std::optional<PredictedStep> Validator::Interleaved(const profiler::HardwareStep& measured,
                                                    const Placement& placement) const {
  if (measured.op_times.alone.empty()) return std::nullopt;
  return SimulateWithTimes(graph_, cluster_, costs_, simulator_.options(), measured.op_times, placement);
}

ValidationCase Validator::Check(const std::string& label, const Placement& placement) const {
  ValidationCase checked = Predicted(label, placement);
  checked.measured = hardware_.Measure(placement);
  checked.measured_busy = BusyTimes(checked.measured.timeline, cluster_.num_devices());
  checked.measured_op = OpTimes(checked.measured.timeline, graph_.num_ops());
  checked.interleaved = Interleaved(checked.measured, placement);
  return checked;
}

CheckedInRounds Validator::CheckInRounds(std::span<const SampledPlacement> placements,
                                         const SampledPlacement& reference, const RoundsOptions& options,
                                         const std::function<bool()>& goes_on,
                                         const std::function<void(std::size_t, double)>& on_visit) const {
  std::vector<std::vector<profiler::HardwareStep>> steps(placements.size());
  std::size_t visits = 0;
  const auto visit = [&](std::optional<std::size_t> which) -> std::optional<double> {
    profiler::HardwareStep step =
        which ? hardware_.Measure(placements[*which].placement) : hardware_.MeasureSteps(reference.placement);
    const std::optional<double> micros =
        step.result.fits_memory ? std::optional(TrimmedMean(step.step_micros)) : std::nullopt;
    if (!which) return micros;
    steps[*which].push_back(std::move(step));
    on_visit(++visits, micros.value_or(0));
    return micros;
  };
  const std::optional<Rounds> rounds = MeasureInRounds(placements.size(), options, visit, goes_on);
  if (!rounds)
    throw InputError(
        "", reference.label + " does not fit, which the others are measured against (--rounds 0 does without)");
  const StepResult simulated = simulator_.Run(reference.placement);
  CheckedInRounds checked{.cases = {},
                          .reference = reference.label,
                          .reference_micros = TrimmedMean(rounds->reference),
                          .simulated_reference_micros = simulated.fits_memory ? simulated.step_time_micros : 0};
  for (std::size_t p = 0; p < placements.size(); ++p) {
    ValidationCase& one = checked.cases.emplace_back(Predicted(placements[p].label, placements[p].placement));
    if (rounds->visits[p].empty()) {
      one.measured = std::move(steps[p].back());
      continue;
    }
    one.speed_up = SpeedUp(rounds->visits[p]);
    SummariseRounds(std::span(steps[p]).first(rounds->visits[p].size()), SteadyMicros(*rounds, p),
                    placements[p].placement, &one);
  }
  return checked;
}

void Validator::SummariseRounds(std::span<const profiler::HardwareStep> steps, std::vector<double> steady,
                                const Placement& placement, ValidationCase* checked) const {
  const double mean = TrimmedMean(steady);
  std::size_t closest = 0;
  std::vector<std::vector<double>> busy;
  std::vector<std::vector<double>> ops;
  std::vector<std::vector<double>> starts;
  std::vector<std::vector<double>> alone;
  std::vector<std::vector<double>> beside;
  std::size_t disturbed = 0;
  profiler::ClockWatch clocks;
  for (std::size_t r = 0; r < steps.size(); ++r) {
    if (std::abs(steady[r] - mean) < std::abs(steady[closest] - mean)) closest = r;
    // A step's own times, as if the machine had been as on average.
    const double scale = steady[r] / steps[r].result.step_time_micros;
    busy.push_back(Scaled(BusyTimes(steps[r].timeline, cluster_.num_devices()), scale));
    ops.push_back(Scaled(OpTimes(steps[r].timeline, graph_.num_ops()), scale));
    starts.push_back(Scaled(steps[r].result.start_micros, scale));
    alone.push_back(Scaled(steps[r].op_times.alone, scale));
    beside.push_back(Scaled(steps[r].op_times.beside, scale));
    disturbed += steps[r].disturbed;
    clocks.Add(steps[r].clocks);
    checked->steps += steps[r].step_micros.size();
  }
  checked->measured = steps[closest];
  checked->measured.clocks = clocks;
  checked->measured.disturbed = disturbed;
  checked->measured.result.step_time_micros = mean;
  checked->measured.result.start_micros = TrimmedMeans(starts);
  checked->measured.op_times = {.alone = TrimmedMeans(alone), .beside = TrimmedMeans(beside)};
  checked->measured.step_micros = std::move(steady);
  checked->measured_busy = TrimmedMeans(busy);
  checked->measured_op = TrimmedMeans(ops);
  checked->interleaved = Interleaved(checked->measured, placement);
}

ValidationSummary Validator::Summarise(const CheckedInRounds& checked, std::size_t most_ops) const {
  ValidationSummary summary = Summarise(checked.cases, most_ops);
  summary.reference = checked.reference;
  summary.reference_micros = checked.reference_micros;
  summary.simulated_reference_micros = checked.simulated_reference_micros;
  std::vector<double> odd;
  std::vector<double> even;
  for (const ValidationCase& one : checked.cases) {
    if (!one.Compared()) continue;
    const std::vector<double>& rounds = one.measured.step_micros;
    summary.rounds = std::max(summary.rounds, rounds.size());
    if (rounds.size() < 2) continue;
    std::array<std::vector<double>, 2> halves;
    for (std::size_t r = 0; r < rounds.size(); ++r) halves[r % 2].push_back(rounds[r]);
    odd.push_back(TrimmedMean(std::move(halves[0])));
    even.push_back(TrimmedMean(std::move(halves[1])));
  }
  if (!odd.empty()) summary.ceiling = CompareSteps(odd, even);
  return summary;
}

ValidationSummary Validator::Summarise(std::span<const ValidationCase> cases, std::size_t most_ops) const {
  ValidationSummary summary;
  summary.placements = cases.size();
  std::vector<const ValidationCase*> compared;
  std::vector<const PredictedStep*> simulated;
  std::vector<const PredictedStep*> interleaved;
  std::vector<double> spreads;
  profiler::ClockWatch clocks;
  for (const ValidationCase& one : cases) {
    if (one.simulated_fits != one.measured.result.fits_memory) ++summary.fit_disagrees;
    if (!one.Compared()) continue;
    compared.push_back(&one);
    simulated.push_back(&one.simulated);
    if (one.interleaved) interleaved.push_back(&*one.interleaved);
    clocks.Add(one.measured.clocks);
    summary.counted_steps += CountedSteps(one);
    summary.disturbed_steps += one.measured.disturbed;
    const auto [least, most] = std::minmax_element(one.measured.step_micros.begin(), one.measured.step_micros.end());
    spreads.push_back((*most - *least) / one.measured.result.step_time_micros);
  }
  summary.compared = compared.size();
  summary.clock_advice = clocks.Advice();
  if (compared.empty()) return summary;
  summary.simulated = Compare(simulated, compared);
  if (interleaved.size() == compared.size()) {
    summary.interleaved = Compare(interleaved, compared);
    summary.op_samples = LeastSteps(compared);
    summary.contention = ContentionOf(compared);
  }
  summary.median_step_spread = Quantile(spreads, 0.5);
  summary.ops = OpErrors(cases);
  if (summary.ops.size() > most_ops) summary.ops.resize(most_ops);
  return summary;
}

std::optional<ValidationSummary::Contention> Validator::ContentionOf(
    std::span<const ValidationCase* const> cases) const {
  double alone = 0;
  double beside = 0;
  double costs = 0;
  for (const ValidationCase* const one : cases) {
    const profiler::OpSampler::Times& times = one->measured.op_times;
    if (times.beside.empty()) continue;
    for (const Timeline::OpRun& run : one->measured.timeline.ops) {
      const double micros = times.alone[Index(run.op)];
      alone += micros;
      beside += times.beside[Index(run.op)];
      costs += micros * costs_.KindContention(run.op, costs_.KindIndex(run.device));
    }
  }
  if (alone <= 0) return std::nullopt;
  return ValidationSummary::Contention{.measured = beside / alone, .costs = costs / alone};
}

std::vector<OpError> Validator::OpErrors(std::span<const ValidationCase> cases) const {
  std::vector<std::string> signatures;
  for (std::size_t n = 0; n < graph_.num_ops(); ++n) signatures.push_back(FullSignature(graph_, MakeId<OpId>(n)));
  std::map<std::pair<std::string, std::string>, OpError> errors;
  for (const ValidationCase& one : cases) {
    if (!one.Compared()) continue;
    for (const Timeline::OpRun& run : one.measured.timeline.ops) {
      const std::string& kind = cluster_.device(run.device).kind;
      OpError& error = errors[{signatures[Index(run.op)], kind}];
      error.signature = signatures[Index(run.op)];
      error.device_kind = kind;
      ++error.runs;
      error.simulated_micros += costs_.Micros(run.op, run.device);
      error.measured_micros += one.measured_op[Index(run.op)];
      const profiler::OpSampler::Times& times = one.measured.op_times;
      if (times.alone.empty()) continue;
      error.alone_micros += times.alone[Index(run.op)];
      error.beside_micros += (times.beside.empty() ? times.alone : times.beside)[Index(run.op)];
    }
  }
  std::vector<OpError> sorted;
  sorted.reserve(errors.size());
  for (auto& [key, error] : errors) sorted.push_back(std::move(error));
  std::stable_sort(sorted.begin(), sorted.end(), [](const OpError& a, const OpError& b) {
    return std::abs(a.simulated_micros - a.measured_micros) > std::abs(b.simulated_micros - b.measured_micros);
  });
  return sorted;
}

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
    AddMember(&json, "op_samples", summary.op_samples);
    if (summary.contention) {
      JsonObject contention;
      AddMember(&contention, "measured", summary.contention->measured);
      AddMember(&contention, "costs", summary.contention->costs);
      AddMember(&json, "contention", std::move(contention));
    }
  }
  AddOtherErrors(summary.simulated, &json);
  AddMember(&json, "median_step_spread", summary.median_step_spread);
  AddMember(&json, "counted_steps", summary.counted_steps);
  AddMember(&json, "disturbed_steps", summary.disturbed_steps);
  const auto add_errors = [&json](std::string_view key, const std::optional<StepErrors>& errors) {
    if (!errors) return;
    JsonObject member;
    AddErrors(*errors, &member);
    AddMember(&json, key, std::move(member));
  };
  add_errors("rerun", summary.rerun);
  if (!summary.reference.empty()) {
    AddMember(&json, "rounds", summary.rounds);
    AddMember(&json, "reference", summary.reference);
    AddMember(&json, "reference_us", summary.reference_micros);
    add_errors("ceiling", summary.ceiling);
  }
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
  if (one.speed_up) {
    AddMember(&json, "speed_up", one.speed_up->mean);
    if (one.speed_up->interval) {
      AddMember(&json, "speed_up_95", ListOf({one.speed_up->interval->low, one.speed_up->interval->high}));
    }
  }
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
  JsonList verdict;
  for (const std::string& sentence : Verdict(cases, summary)) verdict.push_back(ToJson(sentence));
  AddMember(&json, "verdict", std::move(verdict));
  JsonList ops;
  for (const OpError& op : summary.ops) {
    JsonObject member;
    AddMember(&member, "signature", op.signature);
    AddMember(&member, "device", op.device_kind);
    AddMember(&member, "runs", op.runs);
    AddMember(&member, "simulated_us", op.simulated_micros);
    AddMember(&member, "measured_us", op.measured_micros);
    if (summary.interleaved) {
      AddMember(&member, "alone_us", op.alone_micros);
      AddMember(&member, "beside_us", op.beside_micros);
    }
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
