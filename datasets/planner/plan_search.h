#ifndef EMPLACE_DATASETS_PLANNER_PLAN_SEARCH_H_
#define EMPLACE_DATASETS_PLANNER_PLAN_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/memory/rank_program.h"
#include "datasets/memory/training_setup.h"
#include "datasets/models/transformer.h"
#include "datasets/parallel_plan.h"
#include "datasets/planner/graph_network.h"
#include "datasets/planner/plan_machine.h"
#include "datasets/planner/step_time.h"
#include "sim/base/json_struct.h"

namespace emplace::datasets {

// What the best plan has most or least of. All but the first also look at fewer accelerators than the machine has
// (PlanMachine::PartSizes).
enum class PlanObjective : std::uint8_t {
  kStepTime,      // the shortest step
  kTokensPerGpu,  // the most tokens a second for each accelerator
  kGpus,          // the fewest accelerators; the shortest step on them
  kCost,          // the lowest price of a token
};
std::string_view Name(PlanObjective objective);  // "tokens_per_s_per_gpu"
std::vector<std::string> ObjectiveNames();
// Throws InputError(place) that lists the names.
PlanObjective NamedObjective(const std::string& name, const std::string& place);

struct PlanQuestion {
  TransformerNetwork network;
  std::shared_ptr<const GraphNetwork> graph;  // where the network was read from a graph, whose `network` it then is
  PlanMachine machine;
  const FrameworkHabits* framework = nullptr;
  std::int64_t global_batch = 0;  // sequences of a step
  std::int64_t sequence = 0;      // tokens
  LoraAdapters lora;              // SetLora
  OptionMap only;                 // fields of plans that have one value: "tp": "8"
  PlanObjective objective = PlanObjective::kStepTime;
  std::optional<double> within;  // seconds that a step may take; not with kStepTime
  std::optional<double> price;   // of an accelerator for an hour
  std::string prefix;            // of the fields in errors, such as "--"
  std::size_t simulated =
      50;  // how many of those that fit are simulated, if not all are wanted, the fastest by their closed form
  std::size_t best = 20;    // how many plans that fit are wanted; 0: all legal ones, those that do not fit too
  double seconds = 0;       // 0: no limit
  std::size_t threads = 0;  // 0: as many as there are cores; the answer is the same with any number
  std::function<void(std::size_t done, std::size_t all)> on_progress = nullptr;
  std::function<bool()> is_stopped = nullptr;  // asked by all threads
};

struct ScoredPlan {
  ParallelPlan plan;
  StepTime time;
  std::optional<double> estimated_micros;  // the closed form's step, if `time` is simulated
  RankPeak peak;                           // of the fullest rank
  std::size_t fullest_rank = 0;
  std::int64_t needed_bytes = 0;  // by the fullest rank, of its device
  std::string refused;            // why the framework does not start with it (WhyRefused)
  bool fits = false;
};

// A plan whose memory was looked at.
struct PlanPoint {
  double micros = 0;
  std::int64_t needed_bytes = 0;
  bool fits = false;
};

struct PlanAnswer {
  std::vector<ScoredPlan> plans;               // the best first
  std::size_t legal = 0;                       // that were timed
  std::size_t checked = 0;                     // whose memory was looked at
  std::size_t fitting = 0;                     // of those
  std::map<std::string, std::size_t> refused;  // illegal plans, by reason
  std::optional<ScoredPlan> nearest;           // the smallest that does not fit, if none does
  std::optional<ScoredPlan> fastest;           // of those that fit, if the step of each is too long
  std::int64_t usable_bytes = 0;               // of a device; 0: no limit
  double ideal_micros = 0;                     // ModelFlop at the peak of all devices: a step with an MFU of 100 %
  double bound_micros = 0;                     // no plan takes less: LeastFlop at that peak
  std::vector<std::string> notes;              // PlanNotes
  std::vector<PlanPoint> points;               // but for plans whose state alone is too large
  bool is_complete = true;                     // false: stopped before all plans were looked at
};

// Looks at every plan that divides the accelerators of the machine into dp, tp, pp and cp, with each micro-batch,
// schedule, ZeRO stage and recomputation that the network and the framework allow: the times of all by closed form,
// then the memory of the fastest until enough fit, then their simulated steps. Throws InputError where no plan is
// legal, with the reason of most, on unknown fields of `only`, and where the objective, `within` and `price` do not go
// together.
PlanAnswer SearchPlans(const PlanQuestion& question);

// What the user has to know of all plans: whose memory is shown, if it is another framework's, and that the framework
// does not have this schedule ("": none is asked for).
std::vector<std::string> PlanNotes(const PlanQuestion& question, const std::string& schedule);

// The step and the peak of one plan. Throws InputError on one that is not legal.
ScoredPlan ScorePlan(const PlanQuestion& question, const ParallelPlan& plan);

// The network that is asked about: one by name or of a config.json, with other values of these fields; or that of a
// graph, whose sequences have the length that they have there unless the formulas of a Transformer say its work for
// others. `sequence` 0: the usual one. Throws InputError, at PREFIX and `set` or `sequence` on what does not go
// together.
void SetNetwork(const std::string& name, const OptionMap& settings, std::int64_t sequence, PlanQuestion* question);
void SetNetwork(const Graph& graph, std::int64_t sequence, PlanQuestion* question);

// The adapters that are trained instead of all weights, of the network and the framework that are set: at `targets`
// (ReadLora; "": all linear modules). No rank: there are none. Throws InputError, at PREFIX and `lora` or
// `lora_targets`, on what is no rank or no module, and where adapters are not modelled.
void SetLora(std::optional<std::int64_t> rank, const std::string& targets, PlanQuestion* question);
// Parameters that are trained: of the adapters, if there are some.
std::int64_t TrainedParameters(const PlanQuestion& question);

// What the pipeline rank that exchanges most exchanges in a step.
std::vector<RankTraffic> TrafficOf(const PlanQuestion& question, const ParallelPlan& plan, StepTimer* timer);

// A plan as the network is trained by it: the stages that the framework makes, and its setup.
TrainingSetup SetupOf(const PlanQuestion& question, const ParallelPlan& plan);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_PLAN_SEARCH_H_
