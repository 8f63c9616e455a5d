#ifndef EMPLACE_TESTS_FUZZ_SEALED_H_
#define EMPLACE_TESTS_FUZZ_SEALED_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agents/agent.h"
#include "agents/saved_text.h"
#include "tests/fuzz/round_trip.h"

namespace emplace::fuzz {

// The name of the agent for a byte. Those with LibTorch's networks load theirs elsewhere.
template <std::size_t kCount>
std::string AgentOf(const std::string_view (&names)[kCount], char byte) {
  return std::string(names[static_cast<unsigned char>(byte) % kCount]);
}

inline std::unique_ptr<agents::Agent> Made(const std::string& name) {
  return agents::MakeAgent(name, {}, {.evaluations = 100});
}

// `body` with the checksum that belongs to it: few changes to a file leave its checksum right.
inline std::string Sealed(const std::string& head, const std::string& body) {
  std::ostringstream out;
  agents::WriteSealed(out, head, body);
  return std::move(out).str();
}

// The output of `load_and_save` after loading; none if it refuses, in one line.
template <typename LoadAndSave>
std::optional<std::string> SavedAgain(const LoadAndSave& load_and_save) {
  try {
    std::ostringstream out;
    load_and_save(out);
    return std::move(out).str();
  } catch (const InputError& error) {
    Expect(std::string_view(error.what()).find('\n') == std::string_view::npos, "a message of several lines",
           error.what());
    return std::nullopt;
  }
}

// Saving again gives the same bytes. `saved_again` takes a text, like SavedAgain.
template <typename Again>
void CheckSavedAgain(const std::string& text, const Again& saved_again) {
  const std::optional<std::string> saved = saved_again(text);
  if (saved) Expect(saved_again(*saved) == saved, "what was saved is saved otherwise", *saved);
}

}  // namespace emplace::fuzz

#endif  // EMPLACE_TESTS_FUZZ_SEALED_H_
