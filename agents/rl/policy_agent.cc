#include "agents/rl/policy_agent.h"

#include <istream>
#include <ostream>
#include <sstream>
#include <utility>

#include "agents/rl/policy_file.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
PolicyAgent::PolicyAgent(std::string name, const AgentContext& context, bool fine_tune)
    : name_(std::move(name)), context_(context), fine_tune_(fine_tune) {}

void PolicyAgent::EnsureNetwork(const Observation& seen, Rng& rng) {
  if (num_devices_ != 0) return;
  SetNetwork(seen.num_devices());
  DrawWeights(rng);
}

void PolicyAgent::CheckDevices(const Observation& seen) const {
  CheckPolicyDevices(policy_loaded_ ? "policy" : name_, num_devices_, seen);
}

void PolicyAgent::SavePolicy(std::ostream& out) const {
  if (num_devices_ == 0) throw InputError("policy", "has not been drawn yet");
  std::ostringstream body;
  body << num_devices_ << ' ';
  SaveShape(body);
  body << '\n';
  SaveState(body, weights());
  WritePolicy(out, name_, std::move(body).str());
}

void PolicyAgent::LoadPolicy(std::istream& file) {
  std::istringstream in(ReadPolicy(file, name_));
  const std::size_t num_devices = LoadNumber(in);
  LoadShape(in, num_devices);
  SetNetwork(num_devices);
  LoadState(in, &weights());
  WeightsLoaded();
  policy_loaded_ = true;
}

void PolicyAgent::SetNetwork(std::size_t num_devices) {
  MakeNetwork(num_devices);
  num_devices_ = num_devices;
}

}  // namespace emplace::agents
