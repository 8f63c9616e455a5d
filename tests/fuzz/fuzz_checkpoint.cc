// A checkpoint as it is, and the rest of one behind a byte for the agent with the right checksum: either is refused, or
// what was loaded is saved, loaded and saved to the same bytes.
#include <optional>
#include <ostream>

#include "agents/checkpoint.h"
#include "tests/fuzz/sealed.h"

namespace {

constexpr std::string_view kSavedAgents[] = {"annealing", "local_search", "multilevel_search", "placeto", "random_walk",
                                             "random",    "post"};

// The checkpoint that is saved after `text` was loaded; none if it is refused.
std::optional<std::string> CheckpointSavedAgain(const std::string& text, const std::string& agent_name) {
  const auto agent = emplace::fuzz::Made(agent_name);
  emplace::Rng rng(1);
  return emplace::fuzz::SavedAgain([&](std::ostream& out) {
    std::istringstream in(text);
    const emplace::agents::SearchState state = emplace::agents::LoadCheckpoint(in, "s", *agent, rng);
    emplace::agents::SaveCheckpoint(out, "s", state, *agent, rng);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  CheckpointSavedAgain(text, "annealing");
  if (text.empty()) return 0;
  const std::string agent = emplace::fuzz::AgentOf(kSavedAgents, text[0]);
  emplace::fuzz::CheckSavedAgain(emplace::fuzz::Sealed("emplace.checkpoint 7", "1 s\n" + text.substr(1)),
                                 [&](const std::string& one) { return CheckpointSavedAgain(one, agent); });
  return 0;
}
