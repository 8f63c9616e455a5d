#ifndef EMPLACE_AGENTS_RL_POLICY_FILE_H_
#define EMPLACE_AGENTS_RL_POLICY_FILE_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "agents/environment.h"

namespace emplace {

// The beginning of what --policy-out writes, "emplace.policy 1 AGENT ", before what the agent says of its shape.
void BeginPolicy(std::ostream& out, const std::string& agent);
// Throws InputError unless it is a policy, and that agent's.
void ExpectPolicyOf(std::istream& in, const std::string& agent);
// Reads the word that stands for all options which a policy's weights depend on. Throws InputError unless it is
// `shape`.
void ExpectPolicyShape(std::istream& in, const std::string& shape);

// More are not believed of a file, whose number decides how much memory is taken.
inline constexpr std::size_t kMostPolicyDevices = 1000;

// Throws InputError at `place` unless the cluster has as many devices as the policy is for.
void CheckPolicyDevices(const std::string& place, std::size_t num_devices, const Observation& seen);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_RL_POLICY_FILE_H_
