#ifndef EMPLACE_AGENTS_RL_PLACETO_LEARNER_H_
#define EMPLACE_AGENTS_RL_PLACETO_LEARNER_H_

#include <cstddef>
#include <cstdint>
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

// One step of an episode, with the data needed to reconstruct the state.
struct EpisodeStep {
  std::uint32_t group = 0;
  DeviceId device{};           // chosen in the step
  std::vector<double> starts;  // group starts before the step, in us
  std::vector<double> peaks;
  double step_micros = 0;  // before the step
  std::uint64_t seed = 0;  // seed of dropout
};

// The record of an episode.
struct Episode {
  Placement start;
  std::vector<EpisodeStep> steps;
  std::vector<double> costs;  // [steps + 1]: minus the rewards
  std::vector<double> entropies;
};

// A graph as input of the policy network.
struct GraphView {
  GraphView(const Observation& observation, const FeatureOptions& options)
      : topology(observation.graph), features(observation, options) {}
  Topology topology;
  FeatureBuilder features;
  std::vector<std::vector<std::uint8_t>> allowed;  // [num_groups][num_devices]: devices that the policy may choose
};

// The policy's weights and their training.
class Learner {
 public:
  // `device`: computes gradients, cpu or cuda. With `autograd` LibTorch also computes them on the CPU.
  Learner(const NetworkOptions& options, bool autograd, const std::string& device);

  Network& network() { return network_; }
  const Network& network() const { return network_; }

  // Adds the gradient of an episode's loss to the pending one. The loss is the sum over steps of -advantage log pi -
  // entropy_weight H. If a number is not finite, throws InputError whose place is the episode's step and the tensor.
  void AddEpisode(const GraphView& view, const GraphSample& sample, const Episode& episode,
                  std::span<const double> advantages, double entropy_weight, const std::string& name);
  // One step of Adam with the pending gradient, clipped by its norm; then clears the pending gradient.
  void Update(double clip, double learning_rate);
  std::span<const float> pending() const { return gradients_; }

  template <typename State>
  static void SavedFields(State& state, auto& self) {
    state(self.network_.parameters(), self.adam_, self.gradients_);
    state.Check(self.gradients_.size() == self.network_.parameters().size(), "a gradient of each weight");
    if constexpr (State::kLoads) self.network_.Pack();
  }

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
