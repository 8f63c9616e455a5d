#ifndef EMPLACE_AGENTS_RL_PLACETO_LEARNER_H_
#define EMPLACE_AGENTS_RL_PLACETO_LEARNER_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agents/features.h"
#include "agents/nn/autograd.h"
#include "agents/nn/network.h"
#include "agents/nn/parameters.h"
#include "agents/nn/topology.h"

namespace emplace::agents {

// One step of an episode, as far as it is needed to see the state again.
struct EpisodeStep {
  std::uint32_t group = 0;
  DeviceId device{};           // where the step put it
  std::vector<double> starts;  // group starts before the step, in us
  std::vector<double> peaks;
  double step_micros = 0;  // before the step
  std::uint64_t seed = 0;  // of dropout
};

// What an episode was, from the placement that it started with.
struct Episode {
  Placement start;
  std::vector<EpisodeStep> steps;
  std::vector<double> costs;  // [steps + 1]: minus the rewards
  std::vector<double> entropies;
};

// A graph as the policy network needs it.
struct GraphView {
  GraphView(const Observation& observation, const FeatureOptions& options)
      : topology(observation.graph), features(observation, options) {}
  Topology topology;
  FeatureBuilder features;
  std::vector<std::vector<std::uint8_t>> allowed;  // [num_groups][num_devices]: where the policy may put a group
};

// The policy's weights and how they learn.
class Learner {
 public:
  // `device`: where gradients are computed, cpu or cuda. With `autograd` LibTorch computes them on the CPU too.
  Learner(const NetworkOptions& options, bool autograd, const std::string& device);

  Network& network() { return network_; }
  const Network& network() const { return network_; }

  // Adds the gradient of an episode's loss, sum over its steps of -advantage log pi - entropy_weight H, to the pending
  // one. Throws InputError, its place the episode's step and the tensor, where a number is not finite.
  void AddEpisode(const GraphView& view, const GraphSample& sample, const Episode& episode,
                  std::span<const double> advantages, double entropy_weight, const std::string& name);
  // One step of Adam with the pending gradient, its norm bounded; then nothing is pending.
  void Update(double clip, double learning_rate);
  std::span<const float> pending() const { return gradients_; }

  void Save(std::ostream& out) const;
  void Load(std::istream& in);

 private:
  Network network_;
  Adam adam_;
  std::unique_ptr<AutogradNetwork> torch_;
  std::vector<float> gradients_;
};

// Throws InputError(NAME, "step S: logits are not finite ...") if they are not.
void CheckFinite(std::span<const float> logits, const std::string& name, std::size_t step);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_LEARNER_H_
