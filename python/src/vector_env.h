#ifndef EMPLACE_PYTHON_SRC_VECTOR_ENV_H_
#define EMPLACE_PYTHON_SRC_VECTOR_ENV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agents/environment.h"
#include "agents/reward.h"
#include "python/src/batch_evaluator.h"
#include "sim/base/rng.h"
#include "sim/grouping.h"

namespace emplace::python {

// The treatment of an environment whose episode has ended. Source: Gymnasium 1.1, AutoresetMode.
enum class Autoreset : std::uint8_t {
  kNextStep,  // the next Step() ignores its action and begins an episode
  kSameStep,  // the Step() that ends it begins the next one; the last observation is in final_nodes()
  kDisabled,  // it must be reset before the next Step()
};

struct VectorEnvOptions {
  std::size_t num_envs = 1;
  bool whole = false;          // an action is a placement of all groups; else a device for the next group
  bool random_start = false;   // an episode begins with random devices; else with the first accelerator
  bool final_reward = false;   // only the last step of an episode has a reward, the cost with a minus
  double memory_penalty = 10;  // cost of a placement that exceeds memory by the whole memory of a device
  Autoreset autoreset = Autoreset::kNextStep;
  std::size_t threads = 1;
};

// Many environments of one problem, which step together. An episode places the groups one after the other, in
// topological order, or all at once. Costs are agents::RelativeCost to the first accelerator alone; a step's reward is
// by how much it lowers the cost. Results do not depend on the number of threads.
class VectorEnv {
 public:
  // Throws InputError as agents::Environment.
  VectorEnv(std::shared_ptr<const BatchEvaluator> evaluator, const Grouping& grouping, const VectorEnvOptions& options);

  std::size_t num_envs() const { return envs_.size(); }
  std::size_t num_groups() const { return groups_; }
  std::size_t num_devices() const { return devices_; }
  std::size_t num_features() const { return kFixedFeatures + devices_; }
  const VectorEnvOptions& options() const { return options_; }
  double baseline_micros() const { return cost_.baseline_micros; }
  // [2, edges] between groups, and whether each group may be on each device, [num_groups, num_devices].
  const std::vector<std::int64_t>& edges() const { return edges_; }
  std::span<const std::int8_t> allowed() const { return allowed_; }

  // Begins episodes: of those with mask[env], or of all if the mask is empty. seeds[env], if not negative, seeds the
  // environment's random numbers; `seeds` may be empty.
  void Reset(std::span<const std::int64_t> seeds, std::span<const std::uint8_t> mask);
  // One action for each environment, [num_envs], or [num_envs, num_groups] with `whole`. Throws InputError at
  // "actions[ENV]", and changes nothing, on a device that is not there or not allowed, and on an episode that has ended
  // while autoreset is disabled.
  void Step(std::span<const std::int64_t> actions);

  // The observations of the last Reset or Step. The arrays are not reallocated.
  // [num_envs, num_groups, num_features]: see docs/python.md.
  const std::vector<float>& nodes() const { return nodes_; }
  const std::vector<float>& final_nodes() const { return final_nodes_; }  // for environments with ended()
  const std::vector<std::int8_t>& masks() const { return masks_; }        // [num_envs, num_devices]; not with `whole`
  const std::vector<std::int8_t>& final_masks() const { return final_masks_; }
  const std::vector<double>& rewards() const { return rewards_; }        // [num_envs]
  const std::vector<std::uint8_t>& ended() const { return ended_; }      // [num_envs]
  const std::vector<std::int64_t>& step_ns() const { return step_ns_; }  // [num_envs], of the placements evaluated
  const std::vector<std::uint8_t>& fits() const { return fits_; }        // [num_envs]
  const std::vector<std::int16_t>& placements() const { return placements_; }  // [num_envs, num_groups]
  std::uint64_t simulations() const;                                           // number of simulations so far

  // The whole state of one environment, and a checksum. Restore throws InputError on a text that Snapshot of an
  // environment of the same problem and options did not write; it may be of another environment.
  std::string Snapshot(std::size_t env) const;
  void Restore(std::size_t env, std::string_view snapshot);

 private:
  static constexpr std::size_t kFixedFeatures = 5;
  struct Env {
    Rng rng{0};
    std::size_t next_group = 0;
    bool over = true;  // no episode has begun, or it has ended
    double cost = 0;
    std::uint64_t simulations = 0;
  };
  // The content of a snapshot besides the devices of the groups.
  struct State;

  void FillStatic(const agents::Observation& seen);
  // Tells problems and costs apart: by their devices, options, and what a few placements take and hold.
  std::uint64_t ProblemNumber(const agents::Observation& seen) const;
  void CheckActions(std::span<const std::int64_t> actions) const;
  void Begin(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks);
  void Advance(std::size_t env, const std::int64_t* action, BatchEvaluator::Scratch* scratch,
               std::vector<std::int64_t>* peaks);
  void Simulate(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks);
  void Move(std::size_t env, std::size_t group, std::int16_t device);
  void SetCurrent(std::size_t env);
  void WriteNodes(std::size_t env);
  template <typename Function>
  void ForEach(Function function);
  float* Node(std::size_t env, std::size_t group) { return nodes_.data() + (env * groups_ + group) * num_features(); }
  std::int16_t* Devices(std::size_t env) { return placements_.data() + env * groups_; }
  const std::int16_t* Devices(std::size_t env) const { return placements_.data() + env * groups_; }

  std::shared_ptr<const BatchEvaluator> evaluator_;
  Grouping grouping_;
  VectorEnvOptions options_;
  std::uint64_t problem_ = 0;
  std::size_t groups_ = 0;
  std::size_t devices_ = 0;
  bool has_limits_ = false;
  agents::RelativeCost cost_;
  std::vector<std::int16_t> start_;
  std::vector<float> static_features_;  // [num_groups, 3]
  std::vector<std::int64_t> edges_;
  std::vector<std::int8_t> allowed_;
  std::vector<Env> envs_;
  std::vector<float> nodes_;
  std::vector<float> final_nodes_;
  std::vector<std::int8_t> masks_;
  std::vector<std::int8_t> final_masks_;
  std::vector<double> rewards_;
  std::vector<std::uint8_t> ended_;
  std::vector<std::int64_t> step_ns_;
  std::vector<std::uint8_t> fits_;
  std::vector<std::int16_t> placements_;
};

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_VECTOR_ENV_H_
