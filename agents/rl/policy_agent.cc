#include "agents/rl/policy_agent.h"

#include <istream>
#include <ostream>
#include <sstream>
#include <utility>

#include "agents/rl/policy_file.h"
#include "agents/saved_text.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// Limit for a number read from a checkpoint, as it determines how much memory is allocated.
constexpr std::size_t kMostCheckpointDevices = 10'000;

}  // namespace

PolicyAgent::PolicyAgent(std::string name, const AgentContext& context, bool fine_tune)
    : name_(std::move(name)), context_(context), fine_tune_(fine_tune) {}

void PolicyAgent::EnsureNetwork(const Observation& seen, Rng& rng) {
  if (num_devices_ != 0) return;
  MakeNetwork(seen.num_devices());
  num_devices_ = seen.num_devices();
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
  weights().Save(body);
  WritePolicy(out, name_, std::move(body).str());
}

void PolicyAgent::LoadPolicy(std::istream& file) {
  std::istringstream in(ReadPolicy(file, name_));
  const std::size_t num_devices = LoadNumber(in);
  LoadShape(in, num_devices);
  MakeNetwork(num_devices);
  num_devices_ = num_devices;
  weights().Load(in);
  WeightsLoaded();
  policy_loaded_ = true;
}

void PolicyAgent::Save(std::ostream& out) const {
  out << name_ << ' ' << (num_devices_ != 0 ? 1 : 0) << ' ';
  if (num_devices_ == 0) return;
  out << num_devices_ << ' ' << (policy_loaded_ ? 1 : 0) << ' ';
  SaveState(out);
}

void PolicyAgent::Load(std::istream& in) {
  ExpectWord(in, name_);
  if (LoadNumber(in) == 0) return;
  const std::size_t num_devices = LoadNumber(in);
  if (num_devices > kMostCheckpointDevices) throw InputError("checkpoint", "is broken (a number of devices)");
  policy_loaded_ = LoadNumber(in) != 0;
  MakeNetwork(num_devices);
  num_devices_ = num_devices;
  LoadState(in);
}

}  // namespace emplace::agents
