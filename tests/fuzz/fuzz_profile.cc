#include "sim/profile.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  emplace::fuzz::CheckRoundTrip(text, emplace::ReadProfile, emplace::WriteProfile);
  const std::string canonical = emplace::CanonicalSignature(text);
  emplace::fuzz::Expect(canonical.size() == text.size() && emplace::CanonicalSignature(canonical) == canonical,
                        "a canonical signature is its own", canonical);
  return 0;
}
