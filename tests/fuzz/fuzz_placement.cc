#include <utility>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "tests/fuzz/round_trip.h"

namespace {

// A chain of ops a, b, c.
emplace::Graph Chain() {
  emplace::GraphBuilder builder("chain");
  std::string previous;
  for (const std::string name : {"a", "b", "c"}) {
    emplace::OpSpec spec;
    spec.name = name;
    spec.kind = "k";
    spec.outputs.resize(1);
    spec.outputs[0].size = emplace::Bytes{1};
    if (!previous.empty()) spec.inputs = {previous};
    previous = name;
    builder.Add(spec);
  }
  return builder.Build();
}

emplace::Cluster Two() {
  emplace::Device device;
  device.name = "x";
  device.kind = "k";
  emplace::Device other = device;
  other.name = "y";
  return emplace::Cluster::Uniform("two", {device, other},
                                   {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const emplace::Graph graph = Chain();
  static const emplace::Cluster cluster = Two();
  emplace::fuzz::CheckRoundTrip(
      emplace::fuzz::Text(data, size),
      [](std::istream& in, const std::string& file) { return emplace::ReadPlacement(in, file, graph, cluster); },
      [](std::ostream& out, const emplace::Placement& placement) {
        emplace::WritePlacement(out, placement, graph, cluster);
      });
  return 0;
}
