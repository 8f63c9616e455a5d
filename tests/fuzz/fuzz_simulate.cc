// Reads a graph from bytes, takes its costs from the roofline model, and simulates one step on two devices. The step
// time is within its bounds, or InputError is thrown.
#include <cstring>
#include <optional>

#include "sim/cost/cost_models.h"
#include "sim/cost_model.h"
#include "sim/formats/graph_json.h"
#include "sim/profile.h"
#include "sim/simulator.h"
#include "tests/fuzz/round_trip.h"

namespace {

emplace::Cluster TwoDevices() {
  emplace::Device device;
  device.name = "x";
  device.kind = "k80";
  emplace::Device other = device;
  other.name = "y";
  other.kind = "xeon-e5-2686v4";
  return emplace::Cluster::Uniform("two", {device, other},
                                   {.bandwidth_gb_per_s = 7.6, .latency_micros = 0, .gap_micros = 25});
}

std::optional<emplace::Graph> Read(const std::string& text) {
  try {
    std::istringstream in(text);
    return emplace::ReadGraph(in, "FILE");
  } catch (const emplace::InputError&) {
    return std::nullopt;
  }
}

// Places the ops on alternating devices, where allowed.
emplace::Placement Alternate(const emplace::Graph& graph, const emplace::CostTable& costs) {
  emplace::Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto id = emplace::MakeId<emplace::OpId>(i);
    const auto first = emplace::MakeId<emplace::DeviceId>(emplace::Index(graph.colocation_class(id)) % 2);
    const auto second = emplace::MakeId<emplace::DeviceId>(1 - emplace::Index(first));
    placement[id] = costs.Allowed(id, first) ? first : second;
  }
  return placement;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const emplace::Cluster cluster = TwoDevices();
  const std::optional<emplace::Graph> graph = Read(emplace::fuzz::Text(data, size));
  if (!graph) return 0;
  for (std::size_t i = 0; i < graph->num_ops(); ++i) emplace::Signature(*graph, emplace::MakeId<emplace::OpId>(i));
  try {
    const auto measured = emplace::MakeMeasuredCostModel();
    const auto roofline = emplace::MakeRooflineCostModel();
    const emplace::CostTable costs(*graph, cluster, *measured, roofline.get());
    const emplace::Placement placement = Alternate(*graph, costs);
    emplace::CheckPlacement(placement, *graph, cluster, costs);
    for (const char* engine : {"fifo", "placeto-reference"}) {
      emplace::SimOptions options;
      options.engine = engine;
      const emplace::Simulator simulator(*graph, cluster, costs, options);
      const double micros = simulator.Run(placement).step_time_micros;
      emplace::fuzz::Expect(micros >= 0 && micros < 1e16, "the step time", std::to_string(micros));
    }
  } catch (const emplace::InputError& error) {
    emplace::fuzz::Expect(std::strchr(error.what(), '\n') == nullptr, "a message of several lines", error.what());
  }
  return 0;
}
