#include <utility>

#include "sim/formats/grouping_json.h"
#include "sim/graph.h"
#include "tests/fuzz/round_trip.h"

namespace {

// Ops a, b, c; b is colocated with a.
emplace::Graph Tied() {
  emplace::GraphBuilder builder("tied");
  for (const std::string name : {"a", "b", "c"}) {
    emplace::OpSpec spec;
    spec.name = name;
    spec.kind = "k";
    if (name == "b") spec.colocate_with = "a";
    builder.Add(spec);
  }
  return builder.Build();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const emplace::Graph graph = Tied();
  emplace::fuzz::CheckRoundTrip(
      emplace::fuzz::Text(data, size),
      [](std::istream& in, const std::string& file) { return emplace::ReadGrouping(in, file, graph); },
      [](std::ostream& out, const emplace::Grouping& grouping) { emplace::WriteGrouping(out, grouping, graph); });
  return 0;
}
