#ifndef EMPLACE_AGENTS_RL_POLICY_AGENT_H_
#define EMPLACE_AGENTS_RL_POLICY_AGENT_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "agents/agent.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// An agent with one network for all graphs that it learns on, whose weights can be applied to others: the agents of
// placeto/ and sgdp/. This class makes the network when the first graph is seen, draws or loads its weights, and saves
// them: alone, as a policy, or together with the rest of a checkpoint. A derived class says what the network is, and
// keeps the state of each graph.
class PolicyAgent : public Agent {
 public:
  bool HasPolicy() const final { return true; }
  void SavePolicy(std::ostream& out) const final;
  void LoadPolicy(std::istream& file) final;
  bool OnlyApplies() const final { return policy_loaded_ && !fine_tune_; }
  void Save(std::ostream& out) const final;
  void Load(std::istream& in) final;

 protected:
  // `name` is the agent's, in files and messages. With `fine_tune` a policy that was loaded is trained further.
  PolicyAgent(std::string name, const AgentContext& context, bool fine_tune);

  const std::string& name() const { return name_; }
  const AgentContext& context() const { return context_; }
  // Makes the network for as many devices as the cluster has, and draws its weights, unless there is one.
  void EnsureNetwork(const Observation& seen, Rng& rng);
  // Throws InputError unless the cluster has as many devices as the network is for.
  void CheckDevices(const Observation& seen) const;

 private:
  // The network, its weights 0.
  virtual void MakeNetwork(std::size_t num_devices) = 0;
  virtual void DrawWeights(Rng& rng) = 0;
  virtual ParameterSet& weights() = 0;
  virtual const ParameterSet& weights() const = 0;
  // Called when a policy's weights were loaded into weights().
  virtual void WeightsLoaded() {}
  // Beside the number of devices, all that the weights depend on. LoadShape() throws InputError where it differs from
  // this agent's, or where a policy of `num_devices` devices is not to be believed.
  virtual void SaveShape(std::ostream& out) const = 0;
  virtual void LoadShape(std::istream& in, std::size_t num_devices) const = 0;
  // What a checkpoint holds beside the number of devices: weights, optimiser and graphs. LoadState() is called with the
  // network made.
  virtual void SaveState(std::ostream& out) const = 0;
  virtual void LoadState(std::istream& in) = 0;

  std::string name_;
  AgentContext context_;
  bool fine_tune_;
  bool policy_loaded_ = false;
  std::size_t num_devices_ = 0;  // 0: no network was made yet
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POLICY_AGENT_H_
