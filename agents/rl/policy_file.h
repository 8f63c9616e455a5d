#ifndef EMPLACE_AGENTS_RL_POLICY_FILE_H_
#define EMPLACE_AGENTS_RL_POLICY_FILE_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "agents/environment.h"

namespace emplace::agents {

// What --policy-out writes: "emplace.policy 2 AGENT CHECKSUM", the end of the line, and `body`, what the agent says of
// its shape and weights. The checksum is saved_text.h's.
void WritePolicy(std::ostream& out, const std::string& agent, const std::string& body);
// The body. Throws InputError unless it is a policy of this version, that agent's and as it was written.
std::string ReadPolicy(std::istream& in, const std::string& agent);
// The whole text of a file for ReadPolicy. Throws InputError before it reads on in what does not begin like one.
std::string ReadPolicyText(std::istream& in);

// Reads the word that lists all options which a policy's weights depend on. Throws InputError unless it is
// `shape`.
void ExpectPolicyShape(std::istream& in, const std::string& shape);

// More are not believed of a file, whose number decides how much memory is taken.
inline constexpr std::size_t kMostPolicyDevices = 1000;

// Throws InputError at `place` unless the cluster has as many devices as the policy is for.
void CheckPolicyDevices(const std::string& place, std::size_t num_devices, const Observation& seen);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POLICY_FILE_H_
