#ifndef EMPLACE_AGENTS_RL_DOPPLER_DUAL_POLICY_H_
#define EMPLACE_AGENTS_RL_DOPPLER_DUAL_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/mlp.h"
#include "agents/nn/node_lists.h"
#include "agents/nn/parameters.h"
#include "agents/rl/doppler/partial_schedule.h"

namespace emplace::agents {

struct DualPolicyOptions {
  std::size_t width = 32;  // of the vectors of a node and of a device, and of hidden layers
  std::size_t rounds = 3;  // of message passing
};

// Node embeddings of one of the two policies. z = FNN(x) and h_0 = z; then h_k = FNN_k([h_{k-1}; mean of h_{k-1} over
// producers and consumers]) for each round. Each FNN is one affine layer with ReLU.
class NodeEncoder {
 public:
  NodeEncoder(ParameterSet& parameters, const std::string& name, const DualPolicyOptions& options);

  void Pack(std::span<const float> values);
  // Computes z() and h(), [num_groups, width], which are valid until the next call.
  void Forward(const AssignmentProblem& problem);
  const Matrix& z() const { return caches_.front().result(); }
  const Matrix& h() const { return caches_.back().result(); }
  // Gradients of a loss with respect to z() and h(): to be set, zeros after Forward().
  Matrix& d_z() { return d_z_; }
  Matrix& d_h() { return d_h_; }
  // Adds the gradient with respect to the weights to `gradients`.
  void Backward(const AssignmentProblem& problem, std::span<float> gradients);

 private:
  std::size_t width_;
  std::vector<Mlp> nets_;         // of z, then of each round
  std::vector<MlpCache> caches_;  // of each net
  std::vector<Matrix> joined_;    // of each round: own vector and the neighbours' mean
  Matrix d_z_;
  Matrix d_h_;
  Matrix d_joined_;
};

// The decisions of an episode, one step for each group.
struct AssignmentEpisode {
  std::vector<std::uint32_t> groups;   // [num_steps], in the order of selection
  std::vector<std::uint32_t> devices;  // [num_steps]
  Matrix features;                     // [num_steps * num_devices, kAssignmentDeviceFeatures], before each step
};

// DOPPLER's two policies.
//   SEL: the score of a group is FNN([z; h; mean of h over the critical path to an exit; the same from an entry]). A
//   group is selected by a softmax over the scores of those that are ready. Scores do not change in an episode.
//   PLC: the logit of a device for a group is FNN([y; z; h; mean of h over the groups assigned to the device]), where y
//   is a layer over the device's features. The same weights serve every device, so the number of devices may differ.
// Each policy has an encoder of its own. The graph is embedded once for several episodes, not in each step.
class DualPolicy {
 public:
  explicit DualPolicy(const DualPolicyOptions& options);

  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  // Must be called after the weights have changed.
  void Pack();

  // Embeds a graph: all later calls are for it.
  void Embed(const AssignmentProblem& problem);
  std::span<const float> node_scores() const { return scores_; }  // [num_groups]

  void BeginEpisode(std::size_t num_devices);
  // Logits [num_devices] of the devices as places for a group, valid until the next call. `features`: of
  // PartialSchedule.
  std::span<const float> DeviceLogits(std::uint32_t group, const Matrix& features);
  void Assign(std::uint32_t group, std::size_t device);

  // Adds the gradient of a loss of an episode since Embed() by its gradient with respect to the logits of all steps,
  // [num_steps, num_devices].
  void AddDeviceLoss(const AssignmentEpisode& episode, const Matrix& d_logits, std::span<float> gradients);
  // Then, once: adds what is left, through the embeddings, and the gradient of a loss by that with respect to
  // node_scores().
  void Backward(std::span<const float> d_scores, std::span<float> gradients);

 private:
  void BackwardScores(std::span<const float> d_scores, std::span<float> gradients);
  // The row of PLC's head for a group and a device: [y; z; h; mean of the device].
  void Join(const float* y, std::uint32_t group, std::size_t device, float* to) const;

  DualPolicyOptions options_;
  ParameterSet parameters_;
  NodeEncoder select_encoder_;
  Mlp select_head_;
  NodeEncoder place_encoder_;
  Mlp device_layer_;
  Mlp place_head_;

  const AssignmentProblem* problem_ = nullptr;
  std::vector<float> scores_;
  Matrix select_input_;  // [num_groups, 4 width]
  MlpCache select_cache_;
  // The current episode:
  Matrix sums_;                // [num_devices, width]: of h over the groups of a device
  std::vector<float> counts_;  // [num_devices]
  std::vector<float> logits_;
  Matrix place_input_;  // [num_devices or steps * num_devices, 4 width]
  MlpCache device_cache_;
  MlpCache place_cache_;
  Matrix d_input_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_DOPPLER_DUAL_POLICY_H_
