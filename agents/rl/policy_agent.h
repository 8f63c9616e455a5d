#ifndef EMPLACE_AGENTS_RL_POLICY_AGENT_H_
#define EMPLACE_AGENTS_RL_POLICY_AGENT_H_

#include <cstddef>
#include <iosfwd>
#include <string>
#include <type_traits>

#include "agents/agent.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// An agent with one network for all graphs that it learns on, whose weights can be applied to others: the agents of
// placeto/, sgdp/ and doppler/. This class creates the network for the first graph and initialises or loads its
// weights. It saves them alone, as a policy, or with the rest of a checkpoint. A derived class defines the network and
// keeps the state of each graph.
class PolicyAgent : public Agent {
 public:
  bool HasPolicy() const final { return true; }
  void SavePolicy(std::ostream& out) const final;
  void LoadPolicy(std::istream& file) final;
  bool OnlyApplies() const final { return policy_loaded_ && !fine_tune_; }

 protected:
  // `name` is the agent's, in files and messages. With `fine_tune` a loaded policy is trained further.
  PolicyAgent(std::string name, const AgentContext& context, bool fine_tune);

  const std::string& name() const { return name_; }
  const AgentContext& context() const { return context_; }
  bool policy_loaded() const { return policy_loaded_; }  // the weights are not, or not only, this search's
  // Unless it exists, creates the network for the cluster's number of devices and initialises its weights.
  void EnsureNetwork(const Observation& seen, Rng& rng);
  // Throws InputError unless the cluster has the network's number of devices.
  void CheckDevices(const Observation& seen) const;
  // The first of the saved fields. To load them creates the network. False if there is none yet, and nothing to save.
  template <typename State>
  static bool NetworkFields(State& state, std::conditional_t<State::kLoads, PolicyAgent, const PolicyAgent>& self) {
    std::size_t num_devices = self.num_devices_;
    bool has_network = num_devices != 0;
    state.Word(self.name_);
    state(has_network);
    if (!has_network) return false;
    state(num_devices, self.policy_loaded_);
    state.Check(num_devices <= kMostCheckpointDevices, "a number of devices");
    if constexpr (State::kLoads) self.SetNetwork(num_devices);
    return true;
  }

 private:
  // Creates the network, with weights 0.
  virtual void MakeNetwork(std::size_t num_devices) = 0;
  virtual void DrawWeights(Rng& rng) = 0;
  virtual ParameterSet& weights() = 0;
  virtual const ParameterSet& weights() const = 0;
  // Called after a policy's weights were loaded into weights().
  virtual void WeightsLoaded() {}
  // Everything that the weights depend on, except the number of devices. LoadShape() throws InputError if it differs
  // from this agent's, or if `num_devices` is implausible.
  virtual void SaveShape(std::ostream& out) const = 0;
  virtual void LoadShape(std::istream& in, std::size_t num_devices) const = 0;
  void SetNetwork(std::size_t num_devices);

  // Limit for a number read from a checkpoint, as it determines how much memory is allocated.
  static constexpr std::size_t kMostCheckpointDevices = 10'000;

  std::string name_;
  AgentContext context_;
  bool fine_tune_;
  bool policy_loaded_ = false;
  std::size_t num_devices_ = 0;  // 0: no network yet
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POLICY_AGENT_H_
