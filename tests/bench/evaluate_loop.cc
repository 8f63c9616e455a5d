// Simulates placements one after the other on one thread, for tools/python_benchmark, which does the same from Python.
// Usage: evaluate_loop GRAPH CLUSTER PLACEMENTS SECONDS     PLACEMENTS: int16, [any number, ops]
// Prints evaluations a second of CPU time, without and with peak memory.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/cost_model.h"
#include "sim/formats/graph_json.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

std::vector<Placement> ReadPlacements(const std::string& path, std::size_t ops) {
  const std::string bytes = ReadWholeFile(path);
  std::vector<Placement> placements;
  const auto* next = reinterpret_cast<const std::int16_t*>(bytes.data());
  for (std::size_t left = bytes.size() / sizeof(std::int16_t) / ops; left > 0; --left, next += ops) {
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < ops; ++i) devices.push_back(static_cast<DeviceId>(next[i]));
    placements.emplace_back(std::move(devices));
  }
  return placements;
}

double EvaluationsPerSecond(const Simulator& simulator, const std::vector<Placement>& placements, double seconds) {
  const auto workspace = simulator.MakeWorkspace();
  StepResult result;
  std::size_t count = 0;
  double sum = 0;
  const std::clock_t started = std::clock();
  while (true) {
    for (const Placement& placement : placements) {
      simulator.Run(placement.devices(), *workspace, &result);
      sum += result.step_time_micros;
    }
    count += placements.size();
    const double taken = static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
    if (taken < seconds) continue;
    EMPLACE_CHECK(sum > 0);
    return static_cast<double>(count) / taken;
  }
}

}  // namespace
}  // namespace emplace

int main(int argc, char** argv) {
  using namespace emplace;
  if (argc != 5) {
    std::fprintf(stderr, "usage: evaluate_loop GRAPH CLUSTER PLACEMENTS SECONDS\n");
    return 2;
  }
  const Graph graph = ReadGraph(*OpenForReading(argv[1]), argv[1]);
  const Cluster cluster = datasets::LoadCluster(argv[2]);
  const CostTable costs(graph, cluster, *MakeCostModel("measured"));
  for (const bool peak_memory : {false, true}) {
    const Simulator simulator(graph, cluster, costs, {.peak_memory = peak_memory});
    std::printf("%.1f\n",
                EvaluationsPerSecond(simulator, ReadPlacements(argv[3], graph.num_ops()), std::atof(argv[4])));
  }
  return 0;
}
