#ifndef EMPLACE_TESTS_FUZZ_SEALED_H_
#define EMPLACE_TESTS_FUZZ_SEALED_H_

#include <memory>
#include <string>
#include <string_view>

#include "agents/agent.h"
#include "agents/saved_text.h"
#include "tests/fuzz/round_trip.h"

namespace emplace::fuzz {

// What an agent that is named by a byte is called. Those with LibTorch's networks load theirs elsewhere.
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

inline void CheckOneLine(const InputError& error) {
  Expect(std::string_view(error.what()).find('\n') == std::string_view::npos, "a message of several lines",
         error.what());
}

}  // namespace emplace::fuzz

#endif  // EMPLACE_TESTS_FUZZ_SEALED_H_
