// A policy as it is, and the rest of one behind a byte for the agent with the right checksum: either is refused, or
// what was loaded is saved, loaded and saved to the same bytes.
#include <optional>
#include <ostream>

#include "agents/rl/policy_file.h"
#include "tests/fuzz/sealed.h"

namespace {

constexpr std::string_view kLearningAgents[] = {"graphsage", "pgnn", "placeto"};

std::optional<std::string> PolicySavedAgain(const std::string& text, const std::string& agent_name) {
  const auto agent = emplace::fuzz::Made(agent_name);
  return emplace::fuzz::SavedAgain([&](std::ostream& out) {
    std::istringstream file(text);
    std::istringstream in(emplace::agents::ReadPolicyText(file));
    agent->LoadPolicy(in);
    agent->SavePolicy(out);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  PolicySavedAgain(text, "placeto");
  if (text.empty()) return 0;
  const std::string agent = emplace::fuzz::AgentOf(kLearningAgents, text[0]);
  emplace::fuzz::CheckSavedAgain(emplace::fuzz::Sealed("emplace.policy 2 " + agent, text.substr(1)),
                                 [&](const std::string& one) { return PolicySavedAgain(one, agent); });
  return 0;
}
