#include "sim/formats/cluster_yaml.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckRoundTrip(emplace::fuzz::Text(data, size), emplace::ReadCluster, emplace::WriteCluster);
  return 0;
}
