#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CUTS_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CUTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "agents/throughput/pipeline_chain.h"
#include "sim/cluster.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace::agents {

// How good a cut is, as agents/score.h has it.
struct CutScore {
  bool runs = false;
  double over_bytes = 0;  // summed over devices; 0: it fits
  double micros = 0;

  bool BetterThan(const CutScore& other) const {
    if (runs != other.runs) return runs;
    if (over_bytes != other.over_bytes) return over_bytes < other.over_bytes;
    return micros < other.micros;
  }
};

struct ScoredCut {
  PipelineCut cut;
  CutScore score;
  std::vector<double> peaks = {};  // indexed by rank
};

// The schedule for one number of devices.
class ScheduleOfRanks {
 public:
  // none: there is no such schedule.
  static std::optional<ScheduleOfRanks> Make(const ScheduleChoice& choice, std::size_t ranks);

  const std::vector<std::size_t>& rank_of_stage() const { return rank_of_stage_; }
  std::size_t num_stages() const { return rank_of_stage_.size(); }
  // Micro-batches that a stage holds when its rank holds most.
  std::size_t in_flight(std::size_t stage) const { return in_flight_[stage]; }
  double stages_of_rank(std::size_t rank) const;
  double micro_batches() const { return static_cast<double>(micro_batches_); }
  double actions() const;
  // Step time and peaks by the model. A long step follows from two shorter ones.
  double Run(const PipelineModel& model, std::vector<double>* peaks) const;

 private:
  void CountInFlight();

  std::vector<std::size_t> rank_of_stage_;
  std::vector<PipelineSchedule> schedules_;  // one, or two shorter ones
  std::size_t micro_batches_ = 0;
  std::vector<std::size_t> in_flight_;
};

// Scores cuts of a chain without the evaluator.
class CutModel {
 public:
  CutModel(const Cluster& cluster, const PipelineChain& chain, const ScheduleChoice& choice)
      : cluster_(cluster), chain_(chain), choice_(choice) {}

  const PipelineChain& chain() const { return chain_; }
  const Cluster& cluster() const { return cluster_; }
  // Null: there is no schedule for this number of devices, or it has more stages than the chain has parts.
  const ScheduleOfRanks* ScheduleFor(std::size_t ranks);
  bool IsAllowed(const PipelineCut& cut);
  // By the model of the schedule; `more_bytes` are added to each rank's peak.
  ScoredCut Judge(PipelineCut cut, const std::vector<double>& more_bytes);
  // Without running the schedule: the work of the busiest rank, and what the chain says of each rank's stages.
  ScoredCut Estimate(PipelineCut cut);
  // Actions of all schedules so far.
  double actions() const { return actions_; }

 private:
  const Cluster& cluster_;
  const PipelineChain& chain_;
  const ScheduleChoice& choice_;
  std::map<std::size_t, std::optional<ScheduleOfRanks>> schedules_;
  double actions_ = 0;
};

// Adds the cut with the shortest bottleneck that memory allows, and with the least factor of memory if it allows none;
// filled from the first stage on and from the last. Each rank holds `more_bytes` than the chain says.
void AddFilledCuts(const Cluster& cluster, const PipelineChain& chain, const ScheduleOfRanks& schedule,
                   const std::vector<DeviceId>& devices, const std::vector<double>& more_bytes,
                   std::vector<PipelineCut>* cuts);
// Adds cuts of equal shares: of the blocks that repeat, of parts, of time.
void AddEvenCuts(const PipelineChain& chain, const ScheduleOfRanks& schedule, const std::vector<DeviceId>& devices,
                 std::vector<PipelineCut>* cuts);

// The ends of `width` stages from `first` on move by this many parts, and that of stage `other` the other way.
struct BoundaryMove {
  std::size_t first = 0;
  std::size_t width = 1;
  std::size_t step = 1;
  bool up = true;
  std::optional<std::size_t> other = {};
};
std::vector<BoundaryMove> BoundaryMoves(std::size_t boundaries, std::size_t step);
// none: a stage would be empty.
std::optional<PipelineCut> Shifted(const PipelineCut& cut, const BoundaryMove& move);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CUTS_H_
