#include "sim/formats/graph_json.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckRoundTrip(
      emplace::fuzz::Text(data, size),
      [](std::istream& in, const std::string& file) { return emplace::ReadGraph(in, file); }, emplace::WriteGraph);
  return 0;
}
