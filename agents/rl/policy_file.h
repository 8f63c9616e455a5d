#ifndef EMPLACE_AGENTS_RL_POLICY_FILE_H_
#define EMPLACE_AGENTS_RL_POLICY_FILE_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "agents/environment.h"

namespace emplace::agents {

// Writes the file of --policy-out: "emplace.policy 2 AGENT CHECKSUM", a newline, and `body`, the agent's shape and
// weights. The checksum is that of saved_text.h.
void WritePolicy(std::ostream& out, const std::string& agent, const std::string& body);
// Returns the body. Throws InputError unless it is an unmodified policy of this version and agent.
std::string ReadPolicy(std::istream& in, const std::string& agent);
// Reads the complete text of a file for ReadPolicy. If the beginning is not a policy's, throws InputError before
// reading on.
std::string ReadPolicyText(std::istream& in);

// Reads the word that lists all options on which a policy's weights depend. Throws InputError unless it is `shape`.
void ExpectPolicyShape(std::istream& in, const std::string& shape);

// Limit for a number read from a file, as it determines how much memory is allocated.
inline constexpr std::size_t kMostPolicyDevices = 1000;

// Throws InputError at `place` unless the cluster has the policy's number of devices.
void CheckPolicyDevices(const std::string& place, std::size_t num_devices, const Observation& seen);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POLICY_FILE_H_
