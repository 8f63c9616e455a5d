#ifndef EMPLACE_PYTHON_SRC_VECTOR_ENV_H_
#define EMPLACE_PYTHON_SRC_VECTOR_ENV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/batch_evaluator.h"
#include "python/src/vector_problem.h"
#include "sim/base/rng.h"
#include "sim/grouping.h"

namespace emplace::python {

// Many environments of one problem, which step together. An episode places the groups one after the other, in
// topological order, or all at once. Costs are agents::RelativeCost to the first accelerator alone; a step's reward is
// by how much it lowers the cost, times the number of groups if they are placed one after the other. Results do not
// depend on the number of threads.
class VectorEnv {
 public:
  // Throws InputError as agents::Environment.
  VectorEnv(std::shared_ptr<const BatchEvaluator> evaluator, const Grouping& grouping, const VectorEnvOptions& options);

  std::size_t num_envs() const { return envs_.size(); }
  std::size_t num_groups() const { return problem_.num_groups; }
  std::size_t num_devices() const { return problem_.num_devices; }
  std::size_t num_features() const { return kFixedFeatures + num_devices(); }
  std::size_t num_group_features() const { return problem_.group_features.size(); }
  const VectorEnvOptions& options() const { return options_; }
  double baseline_micros() const { return problem_.cost.baseline_micros; }
  // [2, edges] between groups, and whether each group may be on each device, [num_groups, num_devices].
  const std::vector<std::int64_t>& edges() const { return problem_.edges; }
  std::span<const std::int8_t> allowed() const { return problem_.allowed; }

  // Begins episodes: of those with mask[env], or of all if the mask is empty. seeds[env], if not negative, seeds the
  // environment's random numbers; `seeds` may be empty. Otherwise the best placement so far is forgotten.
  void Reset(std::span<const std::int64_t> seeds, std::span<const std::uint8_t> mask);
  // One action for each environment, [num_envs], or [num_envs, num_groups] with `whole`. Throws InputError at
  // "actions[ENV]", and changes nothing, on a device that is not there or not allowed, and on an episode that has ended
  // while autoreset is disabled.
  void Step(std::span<const std::int64_t> actions);

  // The observations of the last Reset or Step. The arrays are not reallocated.
  // [num_envs, num_groups, num_features], or [num_envs, num_group_features] without options().graph: see
  // docs/python.md.
  const std::vector<float>& observed() const { return observed_; }
  const std::vector<float>& final_observed() const { return final_observed_; }  // for environments with ended()
  const std::vector<std::int8_t>& masks() const { return masks_; }  // [num_envs, num_devices]; not with `whole`
  const std::vector<std::int8_t>& final_masks() const { return final_masks_; }
  const std::vector<double>& rewards() const { return rewards_; }        // [num_envs]
  const std::vector<std::uint8_t>& ended() const { return ended_; }      // [num_envs]
  const std::vector<std::int64_t>& step_ns() const { return step_ns_; }  // [num_envs], of the placements evaluated
  const std::vector<std::uint8_t>& fits() const { return fits_; }        // [num_envs]
  const std::vector<std::int16_t>& placements() const { return placements_; }  // [num_envs, num_groups]
  // [num_groups]: the placement of the smallest cost of those simulated since the environments were seeded.
  const std::vector<std::int16_t>& best() const { return best_; }
  std::uint64_t simulations() const;  // number of simulations so far

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

  void CheckActions(std::span<const std::int64_t> actions) const;
  void Begin(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks);
  void Advance(std::size_t env, const std::int64_t* action, BatchEvaluator::Scratch* scratch,
               std::vector<std::int64_t>* peaks);
  void BeginNext(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks);
  void Simulate(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks);
  void Move(std::size_t env, std::size_t group, std::int16_t device);
  void SetCurrent(std::size_t env);
  void Observe(std::size_t env);
  void KeepBest();
  template <typename Function>
  void ForEach(Function function);
  std::size_t observation_size() const { return options_.graph ? num_groups() * num_features() : num_group_features(); }
  float* Node(std::size_t env, std::size_t group) {
    return observed_.data() + (env * num_groups() + group) * num_features();
  }
  std::int16_t* Devices(std::size_t env) { return placements_.data() + env * num_groups(); }
  const std::int16_t* Devices(std::size_t env) const { return placements_.data() + env * num_groups(); }

  std::shared_ptr<const BatchEvaluator> evaluator_;
  Grouping grouping_;
  VectorEnvOptions options_;
  VectorProblem problem_;
  std::vector<Env> envs_;
  std::vector<float> observed_;
  std::vector<float> final_observed_;
  double best_cost_ = 0;
  std::vector<std::int16_t> best_;  // [num_groups]
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
