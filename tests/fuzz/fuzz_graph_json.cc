#include "sim/graph_json.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckRoundTrip(emplace::fuzz::Text(data, size), emplace::ReadGraph, emplace::WriteGraph);
  return 0;
}
