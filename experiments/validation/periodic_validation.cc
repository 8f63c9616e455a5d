#include "experiments/validation/periodic_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <istream>
#include <numbers>
#include <ostream>
#include <tuple>

#include "agents/saved_state.h"
#include "sim/base/check.h"
#include "sim/base/human_readable.h"
#include "sim/base/rng.h"

namespace emplace::experiments {
namespace {

// No time is corrected by more than this, or by less than its reciprocal.
constexpr double kLargestFactor = 1000;
// No prediction is better than 0.1 %.
constexpr double kLeastVariance = 1e-6;
// Factors nearer to 1 than this are not worth a line.
constexpr double kShownFactor = 1.1;
constexpr std::size_t kShownFactors = 8;

double MedianOfErrors(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// A factor with mean 1.
double DrawLogNormal(double relative_deviation, Rng* rng) {
  const double variance = std::log1p(relative_deviation * relative_deviation);
  const double radius = std::sqrt(-2 * std::log1p(-rng->Uniform()));
  const double normal = radius * std::cos(2 * std::numbers::pi * rng->Uniform());
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

SimOptions WithAllResults(SimOptions options) {
  options.peak_memory = true;
  options.start_times = true;
  return options;
}

}  // namespace

double TimeCorrection::Factor(double prior, double prior_runs) const {
  if (runs == 0 || predicted_micros <= 0) return prior;
  const double ratio = std::clamp(measured_micros / predicted_micros, 1 / kLargestFactor, kLargestFactor);
  const auto n = static_cast<double>(runs);
  return std::exp((n * std::log(ratio) + prior_runs * std::log(prior)) / (n + prior_runs));
}

PeriodicValidation::PeriodicValidation(const Graph& graph, Cluster cluster, CostTable costs, SimOptions options,
                                       std::size_t every, Hardware hardware)
    : graph_(graph),
      base_cluster_(std::move(cluster)),
      base_costs_(std::move(costs)),
      options_(WithAllResults(std::move(options))),
      every_(every),
      hardware_(std::move(hardware)),
      base_simulator_(graph, base_cluster_, base_costs_, options_) {
  EMPLACE_CHECK(every > 0);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const std::string kind(graph.op(MakeId<OpId>(i)).kind);
    const auto found = std::ranges::find(kinds_, kind);
    kind_of_op_.push_back(static_cast<std::size_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(kind);
  }
  device_kinds_.resize(base_costs_.num_kinds());
  for (std::size_t d = 0; d < base_cluster_.num_devices(); ++d) {
    device_kinds_[base_costs_.KindIndex(MakeId<DeviceId>(d))] = base_cluster_.devices()[d].kind;
  }
  Correct();
}

std::size_t PeriodicValidation::IndexOf(const Placement& placement) const {
  const auto found = std::ranges::find(state_.placements, placement);
  return static_cast<std::size_t>(found - state_.placements.begin());
}

bool PeriodicValidation::Measure(const Placement& placement, std::size_t evaluations) {
  const auto started = std::chrono::steady_clock::now();
  const HardwareRun run = hardware_(placement);
  state_.hardware_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::size_t index = IndexOf(placement);
  if (index == state_.placements.size()) {
    state_.placements.push_back(placement);
    estimates_.emplace_back();
    state_.uncorrected.push_back(base_simulator_.Run(placement).step_time_micros);
  }
  const bool fits = run.result.fits_memory;
  state_.measurements.push_back({.evaluations = evaluations,
                                 .placement = index,
                                 .predicted_micros = simulator_->Run(placement).step_time_micros,
                                 .measured_micros = fits ? std::optional(run.result.step_time_micros) : std::nullopt});
  AddEstimate(state_.measurements.back());
  if (fits) AddTimeline(base_simulator_.Record(placement), run.timeline);
  Correct();
  return std::abs(predicted_[index] / state_.measurements.back().predicted_micros - 1) > kLeastChange;
}

void PeriodicValidation::AddEstimate(const ValidationMeasurement& measurement) {
  Estimate& estimate = estimates_[measurement.placement];
  if (!measurement.measured_micros) {
    estimate.fits = false;
    return;
  }
  const double logarithm = std::log(*measurement.measured_micros);
  estimate.log_sum += logarithm;
  estimate.log_squares += logarithm * logarithm;
  ++estimate.runs;
}

void PeriodicValidation::AddTimeline(const Timeline& predicted, const Timeline& measured) {
  std::vector<double> micros(graph_.num_ops(), 0);
  for (const Timeline::OpRun& run : predicted.ops) micros[Index(run.op)] = run.end_micros - run.start_micros;
  for (const Timeline::OpRun& run : measured.ops) {
    if (micros[Index(run.op)] <= 0) continue;  // no factor changes it
    TimeCorrection& sum = state_.ops[{kind_of_op_[Index(run.op)], base_costs_.KindIndex(run.device)}];
    ++sum.runs;
    sum.predicted_micros += micros[Index(run.op)];
    sum.measured_micros += run.end_micros - run.start_micros;
  }
  const auto beyond_latency = [&](const Timeline::Transfer& sent) {
    return sent.arrival_micros - sent.start_micros - base_cluster_.link(sent.from, sent.to).latency_micros;
  };
  std::map<std::tuple<TensorId, DeviceId>, double> sent_micros;
  for (const Timeline::Transfer& sent : predicted.transfers) sent_micros[{sent.tensor, sent.to}] = beyond_latency(sent);
  for (const Timeline::Transfer& sent : measured.transfers) {
    const auto found = sent_micros.find({sent.tensor, sent.to});
    if (found == sent_micros.end() || found->second <= 0) continue;
    TimeCorrection& sum = state_.links[{Index(sent.from), Index(sent.to)}];
    ++sum.runs;
    sum.predicted_micros += found->second;
    sum.measured_micros += std::max(beyond_latency(sent), 0.0);
  }
}

double PeriodicValidation::PooledLinkFactor() const {
  TimeCorrection all;
  for (const auto& [pair, sum] : state_.links) {
    all.runs += sum.runs;
    all.predicted_micros += sum.predicted_micros;
    all.measured_micros += sum.measured_micros;
  }
  return all.Factor(1, kPriorRuns);
}

void PeriodicValidation::Correct() {
  std::vector<double> of_ops(base_costs_.num_kinds() * graph_.num_ops(), 1);
  for (std::size_t kind = 0; kind < base_costs_.num_kinds(); ++kind) {
    for (std::size_t op = 0; op < graph_.num_ops(); ++op) {
      const auto found = state_.ops.find({kind_of_op_[op], kind});
      if (found != state_.ops.end()) of_ops[kind * graph_.num_ops() + op] = found->second.Factor(1, kPriorRuns);
    }
  }
  const std::size_t num_devices = base_cluster_.num_devices();
  const double pooled = PooledLinkFactor();
  std::vector<double> bandwidths(num_devices * num_devices, 1 / pooled);
  for (const auto& [pair, sum] : state_.links) {
    bandwidths[pair.first * num_devices + pair.second] = 1 / sum.Factor(pooled, kPriorRuns);
  }
  cluster_ = base_cluster_.WithLinkBandwidths(bandwidths);
  costs_ = base_costs_.WithFactors(of_ops);
  simulator_.emplace(graph_, *cluster_, *costs_, options_);
  predicted_.clear();
  for (const Placement& placement : state_.placements) {
    predicted_.push_back(simulator_->Run(placement).step_time_micros);
  }
  WeighPredictions();
}

// One-way analysis of variance of the residuals ln(measured / predicted), whose groups are the placements.
void PeriodicValidation::WeighPredictions() {
  double within = 0;  // sum of squares about the mean of each placement
  double repeats = 0;
  double shares = 0;  // of the measurements' variance in the square of a mean residual
  std::vector<double> means;
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    const Estimate& estimate = estimates_[i];
    if (estimate.runs == 0) continue;
    const auto runs = static_cast<double>(estimate.runs);
    const double mean = estimate.log_sum / runs;
    within += std::max(estimate.log_squares - runs * mean * mean, 0.0);
    repeats += runs - 1;
    shares += 1 / runs;
    means.push_back(mean - std::log(predicted_[i]));
  }
  prediction_weight_ = 1;
  common_residual_ = 0;
  if (means.empty()) return;
  const auto groups = static_cast<double>(means.size());
  for (const double mean : means) common_residual_ += mean / groups;
  if (repeats == 0 || means.size() < 2) return;
  double squares = 0;
  for (const double mean : means) squares += (mean - common_residual_) * (mean - common_residual_);
  const double of_measurements = within / repeats;
  const double of_predictions = std::max(squares / (groups - 1) - of_measurements * shares / groups, kLeastVariance);
  prediction_weight_ = std::clamp(of_measurements / of_predictions, 0.1, 100.0);
}

void PeriodicValidation::Adjust(const Placement& placement, StepResult* result) const {
  const std::size_t index = IndexOf(placement);
  if (index == state_.placements.size()) return;
  const Estimate& estimate = estimates_[index];
  if (!estimate.fits) {
    result->fits_memory = false;
    return;
  }
  const auto runs = static_cast<double>(estimate.runs);
  const double measured = estimate.log_sum - runs * common_residual_;
  result->step_time_micros =
      std::exp((measured + prediction_weight_ * std::log(result->step_time_micros)) / (runs + prediction_weight_));
}

StepResult PeriodicValidation::Run(const Placement& placement) const {
  StepResult result = simulator_->Run(placement);
  Adjust(placement, &result);
  return result;
}

void PeriodicValidation::RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const {
  simulator_->RunWith(workspace, placement, result);
  Adjust(placement, result);
}

std::vector<Placement> PeriodicValidation::Measured() const {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < state_.placements.size(); ++i) {
    const StepResult result = Run(state_.placements[i]);
    if (result.fits_memory) order.emplace_back(result.step_time_micros, i);
  }
  std::ranges::sort(order);
  std::vector<Placement> measured;
  measured.reserve(order.size());
  for (const auto& [micros, index] : order) measured.push_back(state_.placements[index]);
  return measured;
}

void PeriodicValidation::Save(std::ostream& out) const { agents::SaveState(out, state_); }

void PeriodicValidation::Load(std::istream& in) {
  State state;
  agents::LoadState(in, &state);
  const std::size_t num_devices = base_cluster_.num_devices();
  const bool is_whole =
      state.uncorrected.size() == state.placements.size() &&
      std::ranges::all_of(state.measurements,
                          [&](const auto& one) { return one.placement < state.placements.size(); }) &&
      std::ranges::all_of(state.placements,
                          [&](const auto& one) {
                            return one.num_ops() == graph_.num_ops() &&
                                   std::ranges::all_of(one.devices(),
                                                       [&](DeviceId device) { return Index(device) < num_devices; });
                          }) &&
      std::ranges::all_of(
          state.links, [&](const auto& link) { return std::max(link.first.first, link.first.second) < num_devices; });
  if (!is_whole) throw InputError("checkpoint", "has measurements of another problem (those of this search)");
  state_ = std::move(state);
  estimates_.clear();
  estimates_.resize(state_.placements.size());
  for (const ValidationMeasurement& one : state_.measurements) AddEstimate(one);
  Correct();
}

std::vector<PeriodicValidation::NamedFactor> PeriodicValidation::Factors() const {
  std::vector<NamedFactor> factors;
  for (const auto& [pair, sum] : state_.ops) {
    factors.push_back({.what = fmt::format("{} on {}", kinds_[pair.first], device_kinds_[pair.second]),
                       .factor = sum.Factor(1, kPriorRuns),
                       .runs = sum.runs});
  }
  const double pooled = PooledLinkFactor();
  for (const auto& [pair, sum] : state_.links) {
    factors.push_back({.what = fmt::format("{} to {}", base_cluster_.devices()[pair.first].name,
                                           base_cluster_.devices()[pair.second].name),
                       .factor = sum.Factor(pooled, kPriorRuns),
                       .runs = sum.runs});
  }
  return factors;
}

ValidationSummaryOfSearch PeriodicValidation::Summarise() const {
  ValidationSummaryOfSearch summary{.measurements = state_.measurements.size(),
                                    .placements = state_.placements.size(),
                                    .hardware_seconds = state_.hardware_seconds};
  std::vector<double> before;
  std::vector<double> after;
  for (const ValidationMeasurement& one : state_.measurements) {
    if (!one.measured_micros) {
      ++summary.failed;
      continue;
    }
    before.push_back(std::abs(state_.uncorrected[one.placement] / *one.measured_micros - 1));
    after.push_back(std::abs(predicted_[one.placement] / *one.measured_micros - 1));
  }
  if (before.empty()) return summary;
  summary.error_before = MedianOfErrors(std::move(before));
  summary.error_after = MedianOfErrors(std::move(after));
  const std::vector<Placement> measured = Measured();
  if (measured.empty()) return summary;
  const Estimate& best = estimates_[IndexOf(measured.front())];
  summary.best_measured_micros = std::exp(best.log_sum / static_cast<double>(best.runs));
  summary.best_predicted_micros = predicted_[IndexOf(measured.front())];
  return summary;
}

void PrintValidation(std::ostream& out, const PeriodicValidation& validation, double simulator_seconds) {
  const ValidationSummaryOfSearch summary = validation.Summarise();
  out << fmt::format(
      "validation: {} measurements of {} placements, {:.1f} s on hardware beside {:.1f} s of simulation\n",
      summary.measurements, summary.placements, summary.hardware_seconds, simulator_seconds);
  if (summary.failed > 0) out << fmt::format("{} of them did not fit on the hardware\n", summary.failed);
  if (!summary.error_before) return;
  out << fmt::format("simulated step times: median error {:.1f} %, {:.1f} % after correction\n",
                     100 * *summary.error_before, 100 * *summary.error_after);
  std::vector<PeriodicValidation::NamedFactor> factors = validation.Factors();
  const auto distance = [](const auto& factor) { return std::abs(std::log(factor.factor)); };
  std::ranges::stable_sort(factors, std::greater<>(), distance);
  std::erase_if(factors, [&](const auto& factor) { return distance(factor) < std::log(kShownFactor); });
  for (std::size_t i = 0; i < std::min(factors.size(), kShownFactors); ++i) {
    out << fmt::format("  {}: {:.2f} times as long as simulated, of {} runs\n", factors[i].what, factors[i].factor,
                       factors[i].runs);
  }
  if (factors.size() > kShownFactors) out << fmt::format("  and {} more\n", factors.size() - kShownFactors);
  if (summary.best_measured_micros) {
    out << fmt::format("measured step of the answer: {}, simulated with corrections {}\n",
                       HumanReadableMicros(*summary.best_measured_micros),
                       HumanReadableMicros(*summary.best_predicted_micros));
  }
}

Hardware RealHardware(const profiler::HardwareRunner& runner) {
  return [&runner](const Placement& placement) {
    profiler::HardwareStep step = runner.MeasureSteps(placement);
    return HardwareRun{.result = std::move(step.result), .timeline = std::move(step.timeline)};
  };
}

Hardware SimulatedHardware(const Graph& graph, Cluster cluster, CostTable costs, double noise, std::uint64_t seed) {
  const auto rng = std::make_shared<Rng>(seed);
  return [&graph, cluster = std::move(cluster), costs = std::move(costs), noise, rng](const Placement& placement) {
    const std::size_t num_ops = costs.num_ops();
    std::vector<double> of_ops(num_ops * costs.num_kinds());
    for (std::size_t op = 0; op < num_ops; ++op) {
      const double factor = DrawLogNormal(noise, rng.get());
      for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind) of_ops[kind * num_ops + op] = factor;
    }
    std::vector<double> of_links(cluster.num_devices() * cluster.num_devices());
    for (double& factor : of_links) factor = 1 / DrawLogNormal(noise, rng.get());
    const Cluster noisy = cluster.WithLinkBandwidths(of_links);
    const CostTable table = costs.WithFactors(of_ops);
    const Simulator simulator(graph, noisy, table, {.peak_memory = true, .start_times = true});
    HardwareRun run{.result = simulator.Run(placement), .timeline = {}};
    if (run.result.fits_memory) run.timeline = simulator.Record(placement);
    return run;
  };
}

}  // namespace emplace::experiments
