#ifndef EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_H_

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/validation/placement_samples.h"
#include "experiments/validation/rounds.h"
#include "profiler/execute/hardware_runner.h"
#include "profiler/measure/op_sampler.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace::experiments {

// The simulator's prediction of a step. Times in µs.
struct PredictedStep {
  double micros = 0;
  std::vector<double> busy;   // indexed by device, without gaps
  std::vector<double> start;  // indexed by OpId
};

// One placement, simulated and measured. Times in µs.
struct ValidationCase {
  std::string label;
  bool simulated_fits = true;
  PredictedStep simulated;
  profiler::HardwareStep measured;
  std::vector<double> measured_busy;  // indexed by device
  std::vector<double> measured_op;    // indexed by OpId: duration
  // Simulated with op times and contention measured between the steps (HardwareOptions::interleave) instead of the
  // profile's. The remaining error is not caused by changes of the machine since the profile.
  std::optional<PredictedStep> interleaved;
  // How many times as fast as the reference it is, if it was measured in rounds. `measured.step_micros` are its rounds
  // then, each as if the machine had been as it was on average, and other measured times are trimmed means over rounds.
  std::optional<MeanOfRounds> speed_up;
  std::size_t steps = 0;  // counted steps of all rounds

  // Whether it fits according to both, so that times can be compared.
  bool Compared() const { return simulated_fits && measured.result.fits_memory; }
  // Simulated over measured step time, minus 1.
  double StepError() const { return simulated.micros / measured.result.step_time_micros - 1; }
};

// The step of a placement with other op times instead of those of `costs`. Everything else is unchanged, and where no
// times beside busy devices are given, contention too. An op's factor of contention is its time beside busy devices
// over that alone; up to kLeastContention it is 1, and the op takes the mean of both.
PredictedStep SimulateWithTimes(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                const SimOptions& options, const profiler::OpSampler::Times& times,
                                const Placement& placement);

// Ops of one signature on one device kind, over all compared placements: their contribution to the error.
struct OpError {
  std::string signature;
  std::string device_kind;
  std::size_t runs = 0;
  double simulated_micros = 0;  // sums over all runs
  double measured_micros = 0;
  double alone_micros = 0;   // measured alone between the steps; 0 unless interleaved
  double beside_micros = 0;  // the same beside a busy device; alone where a placement has no other
};

// Errors of a predicted step time, relative to the measured one (0.05 is 5 %).
struct StepErrors {
  double median = 0;  // median of absolute errors
  double p90 = 0;
  double largest = 0;
  double mean_signed = 0;
  std::optional<double>
      spearman;  // correlation of predicted and measured step times; none if there are fewer than 3 or all are equal
  std::optional<double> pearson;
};
// Requires: equal numbers of both, at least one.
StepErrors CompareSteps(std::span<const double> predicted, std::span<const double> measured);

// Errors of step, busy and start times.
struct PredictionErrors {
  StepErrors step;
  double median_busy = 0;  // |predicted - measured| busy time of each device, relative to the measured step
  double p90_busy = 0;
  double median_start = 0;  // the same for each op's start
  double p90_start = 0;
};

// Errors of the simulator, each metric separately, as errors in different metrics can cancel.
struct ValidationSummary {
  std::size_t placements = 0;
  std::size_t compared = 0;       // fit in both
  std::size_t fit_disagrees = 0;  // fit in one only
  // Over the compared placements.
  PredictionErrors simulated;
  std::optional<PredictionErrors> interleaved;  // if all have it
  std::size_t op_samples = 0;                   // smallest number of samples of an op's times between the steps
  // How many times as long ops take while other devices are busy, over all ops: as measured between the steps, and as
  // the costs have it. Of placements on several devices, where interleaved.
  struct Contention {
    double measured = 1;
    double costs = 1;
  };
  std::optional<Contention> contention;
  double median_step_spread = 0;  // (largest - smallest) / step time of the counted steps: measurement noise
  std::size_t counted_steps = 0;
  std::size_t disturbed_steps = 0;  // counted steps during which other processes disturbed a device
  std::string load_advice;          // advice about other programs that used the cores; "": none
  std::string clock_advice;         // devices that were slower than they can be, with the reason; "": none
  // Results for placements that were measured in rounds.
  std::string reference;                  // "everything on cpu:0"
  double reference_micros = 0;            // its step time, trimmed mean
  double simulated_reference_micros = 0;  // 0: it does not fit in the simulator
  std::size_t rounds = 0;
  // The errors of odd rounds as predictions of even ones: no simulator can predict the machine better than it repeats
  // itself.
  std::optional<StepErrors> ceiling;
  std::optional<StepErrors> rerun;  // prediction of this run by an earlier one (rerun.h), if given
  std::vector<OpError> ops;         // the largest contributions to the error by |simulated - measured|, largest first
};

// Placements that were measured in rounds.
struct CheckedInRounds {
  std::vector<ValidationCase> cases;
  std::string reference;
  double reference_micros = 0;
  double simulated_reference_micros = 0;
};

// Runs and compares placements. Keeps references to all constructor arguments.
class Validator {
 public:
  // Requires: `simulator` records starts; `simulator` and `hardware` use the same graph, cluster and costs.
  Validator(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Simulator& simulator,
            const profiler::HardwareRunner& hardware)
      : graph_(graph), cluster_(cluster), costs_(costs), simulator_(simulator), hardware_(hardware) {}

  ValidationCase Check(const std::string& label, const Placement& placement) const;
  // Each placement once in each of some rounds, between steps of `reference` (rounds.h). `goes_on` is called after each
  // round; `on_visit` gets the number of visits done and the time of the last one, in µs. Throws InputError if the
  // reference does not fit on the hardware.
  CheckedInRounds CheckInRounds(std::span<const SampledPlacement> placements, const SampledPlacement& reference,
                                const RoundsOptions& options, const std::function<bool()>& goes_on,
                                const std::function<void(std::size_t visits, double micros)>& on_visit) const;
  ValidationSummary Summarise(std::span<const ValidationCase> cases, std::size_t most_ops = 10) const;
  ValidationSummary Summarise(const CheckedInRounds& checked, std::size_t most_ops = 10) const;

 private:
  ValidationCase Predicted(const std::string& label, const Placement& placement) const;
  // With the op times that were measured between the steps, if they were.
  std::optional<PredictedStep> Interleaved(const profiler::HardwareStep& measured, const Placement& placement) const;
  void SummariseRounds(std::span<const profiler::HardwareStep> steps, std::vector<double> steady,
                       const Placement& placement, ValidationCase* checked) const;
  std::vector<OpError> OpErrors(std::span<const ValidationCase> cases) const;
  std::optional<ValidationSummary::Contention> ContentionOf(std::span<const ValidationCase* const> cases) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  const Simulator& simulator_;
  const profiler::HardwareRunner& hardware_;
};

// Rank correlation; ties share the mean of their ranks. None if there are fewer than 3 pairs, or all values of one side
// are equal. Source: Spearman 1904, "The proof and measurement of association between two things".
std::optional<double> SpearmanCorrelation(std::span<const double> a, std::span<const double> b);
std::optional<double> PearsonCorrelation(std::span<const double> a, std::span<const double> b);

// `emplace.validation` version 1: the summary, the ops that contribute most to the error, and every placement with its
// step times and its busy times by device.
void WriteValidation(std::ostream& out, const Graph& graph, const Cluster& cluster,
                     std::span<const ValidationCase> cases, const ValidationSummary& summary);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_H_
