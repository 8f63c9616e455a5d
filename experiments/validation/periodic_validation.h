#ifndef EMPLACE_EXPERIMENTS_VALIDATION_PERIODIC_VALIDATION_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_PERIODIC_VALIDATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/search.h"
#include "profiler/execute/hardware_runner.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/timeline.h"

namespace emplace::experiments {

// What ran a placement: its step, and when each op ran and each tensor was sent.
struct HardwareRun {
  StepResult result;
  Timeline timeline;  // empty if it does not fit
};
// Real devices (profiler::HardwareRunner), or another simulator in their place.
using Hardware = std::function<HardwareRun(const Placement&)>;

// How far measured times of one kind of work are from the predicted ones, over all runs of it.
struct TimeCorrection {
  std::size_t runs = 0;
  double predicted_micros = 0;  // sums over the runs
  double measured_micros = 0;

  // The factor of the times: the ratio of the sums, drawn towards `prior` as if `prior_runs` further runs had had that
  // ratio. In logarithms this is the mean of the posterior for a log-normal ratio with that prior.
  double Factor(double prior, double prior_runs) const;
  static void SavedFields(auto& state, auto& self) {
    state(self.runs, self.predicted_micros, self.measured_micros);
    state.NewLine();
  }
};

// One run on the hardware.
struct ValidationMeasurement {
  std::size_t evaluations = 0;            // of the search before it
  std::size_t placement = 0;              // index of the distinct placements
  double predicted_micros = 0;            // with what was known before
  std::optional<double> measured_micros;  // none: it does not fit

  static void SavedFields(auto& state, auto& self) {
    state(self.evaluations, self.placement, self.predicted_micros, self.measured_micros);
    state.NewLine();
  }
};

// What a search with validation reports.
struct ValidationSummaryOfSearch {
  std::size_t measurements = 0;
  std::size_t placements = 0;  // distinct ones
  std::size_t failed = 0;      // measurements that did not fit
  double hardware_seconds = 0;
  // Medians of |predicted / measured - 1| over the measurements: by the uncorrected simulator, and by the corrected
  // one.
  std::optional<double> error_before = {};
  std::optional<double> error_after = {};
  std::optional<double> best_measured_micros = {};   // of the answer: geometric mean of its measurements
  std::optional<double> best_predicted_micros = {};  // of the answer, corrected
};

// Periodic validation of a search on hardware.
//
// Each measurement compares every op and transfer with what the uncorrected simulator says of the same placement. Op
// times get a factor for each op kind on each device kind, with the prior 1. Bandwidths get one for each ordered pair
// of devices, from the parts of transfers beyond the latency; its prior is the factor of all pairs together, whose
// prior is 1. A placement that was measured is estimated by its measurements, and by the corrected prediction as if
// that were PredictionWeight() more, in logarithms. Before, measurements are divided by what they are on average over
// their predictions: that does not tell placements apart. So the evaluator answers for it; for others it answers with
// the corrected prediction. A placement that did not fit does not fit.
class PeriodicValidation : public agents::SearchValidation, public Evaluator {
 public:
  static constexpr double kPriorRuns = 3;
  static constexpr double kLeastChange = 0.02;

  // Keeps a reference to the graph. Simulates as `options` say, with peak memory and start times, which agents may
  // need. Requires: `every` above 0.
  PeriodicValidation(const Graph& graph, Cluster cluster, CostTable costs, SimOptions options, std::size_t every,
                     Hardware hardware);

  std::size_t every() const override { return every_; }
  // True if the correction changes the prediction of the placement by more than kLeastChange.
  bool Measure(const Placement& placement, std::size_t evaluations) override;
  const Evaluator& evaluator() const override { return *this; }
  const Cluster& cluster() const override { return *cluster_; }
  const CostTable& costs() const override { return *costs_; }
  std::vector<Placement> Measured() const override;
  // How many measurements a prediction is worth: the variance of repeated measurements over that of predictions, from
  // 0.1 to 100, both of logarithms and estimated from all measurements; 1 until there are two placements, and one was
  // measured twice.
  double PredictionWeight() const { return prediction_weight_; }

  StepResult Run(const Placement& placement) const override;
  std::unique_ptr<Workspace> MakeWorkspace() const override { return simulator_->MakeWorkspace(); }
  void RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const override;

  // The measurements and their sums, which give the same corrections again.
  void Save(std::ostream& out) const override;
  void Load(std::istream& in) override;

  const std::vector<ValidationMeasurement>& measurements() const { return state_.measurements; }
  const Placement& placement(std::size_t index) const { return state_.placements[index]; }
  // A factor of times, and from how many runs it follows.
  struct NamedFactor {
    std::string what;
    double factor = 1;
    std::size_t runs = 0;
  };
  // Factors of op times ("conv2d on p100"), then of transfers' times beyond the latency ("gpu:0 to gpu:1").
  std::vector<NamedFactor> Factors() const;
  ValidationSummaryOfSearch Summarise() const;

 private:
  using Pair = std::pair<std::size_t, std::size_t>;
  struct State {
    std::vector<Placement> placements;  // distinct
    std::vector<ValidationMeasurement> measurements;
    std::vector<double> uncorrected;       // predictions of the distinct placements before any correction, in us
    std::map<Pair, TimeCorrection> ops;    // (index of the op kind, of the device kind)
    std::map<Pair, TimeCorrection> links;  // (from, to)
    double hardware_seconds = 0;

    static void SavedFields(auto& state, auto& self) {
      state.Lines(self.placements);
      state.Lines(self.measurements);
      state(self.uncorrected, self.hardware_seconds);
      state.NewLine();
      state.Lines(self.ops);
      state.Lines(self.links);
    }
  };
  struct Estimate {
    double log_sum = 0;  // of measured times
    double log_squares = 0;
    std::size_t runs = 0;
    bool fits = true;
  };

  void AddTimeline(const Timeline& predicted, const Timeline& measured);
  void Correct();
  void WeighPredictions();
  double PooledLinkFactor() const;
  void Adjust(const Placement& placement, StepResult* result) const;
  // The number of placements if it is not among them.
  std::size_t IndexOf(const Placement& placement) const;
  void AddEstimate(const ValidationMeasurement& measurement);

  const Graph& graph_;
  const Cluster base_cluster_;
  const CostTable base_costs_;
  const SimOptions options_;
  const std::size_t every_;
  const Hardware hardware_;
  std::vector<std::string> kinds_;         // distinct op kinds
  std::vector<std::string> device_kinds_;  // by CostTable::KindIndex
  std::vector<std::size_t> kind_of_op_;    // [num_ops]
  const Simulator base_simulator_;
  State state_;
  std::vector<Estimate> estimates_;  // of the distinct placements
  std::vector<double> predicted_;    // of the distinct placements, corrected, in us
  double prediction_weight_ = 1;
  double common_residual_ = 0;  // mean over the placements of ln(measured / predicted)
  std::optional<Cluster> cluster_;
  std::optional<CostTable> costs_;
  std::optional<Simulator> simulator_;
};

// Text for the user, in lines.
void PrintValidation(std::ostream& out, const PeriodicValidation& validation, double simulator_seconds);

// The devices of a runner, which must outlive it.
Hardware RealHardware(const profiler::HardwareRunner& runner);

// Another simulator in the place of hardware: the answers of `costs` on `cluster`, where each op and each link between
// two devices has a random factor of its time, log-normal with mean 1 and this relative standard deviation, drawn anew
// in each run. Keeps a reference to the graph.
Hardware SimulatedHardware(const Graph& graph, Cluster cluster, CostTable costs, double noise, std::uint64_t seed);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_PERIODIC_VALIDATION_H_
