// Another project's file: bytes in, a graph that survives its own JSON or InputError out.
#include "datasets/importers/importers.h"
#include "sim/graph_json.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  try {
    const emplace::Imported imported = emplace::ImportPipeDream(text, "FILE");
    std::ostringstream json;
    emplace::WriteGraph(json, imported.graph);
    emplace::fuzz::CheckRoundTrip(json.str(), emplace::ReadGraph, emplace::WriteGraph);
  } catch (const emplace::InputError& error) {
    emplace::fuzz::CheckMessage(error, "FILE");
  }
  return 0;
}
