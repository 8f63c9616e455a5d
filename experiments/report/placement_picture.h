#ifndef EMPLACE_EXPERIMENTS_REPORT_PLACEMENT_PICTURE_H_
#define EMPLACE_EXPERIMENTS_REPORT_PLACEMENT_PICTURE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::experiments {

// A placed graph drawn as in papers: layer by time, coloured by device (Mirhoseini et al. 2018, figure 2; Gao et al.
// 2018, figure 3; Addanki et al. 2019, figure 6).
struct PlacementPicture {
  struct Dot {
    std::string op = {};
    double start_micros = 0;  // start in the simulated step
    double micros = 0;        // duration on its device
    std::size_t lane = 0;
    std::size_t device = 0;
  };
  // A tensor between devices: from its producer's end to a consumer's start.
  struct Line {
    double from_micros = 0;
    std::size_t from_lane = 0;
    std::size_t from_device = 0;
    double to_micros = 0;
    std::size_t to_lane = 0;
    std::size_t to_device = 0;
    double bytes = 0;
  };
  std::string graph = {};
  std::string cluster = {};
  double step_time_micros = 0;
  std::vector<std::string> devices = {};
  std::vector<std::string> lanes = {};  // names of layers; "depth N" if the graph has none
  std::vector<Dot> dots = {};           // ordered by start, then by id; only the longest kMostDots ops
  std::vector<Line> lines = {};         // the kMostLines with the most bytes, most first
  std::size_t ops_left_out = 0;
  std::size_t lines_left_out = 0;

  static constexpr std::size_t kMostDots = 4000;
  static constexpr std::size_t kMostLines = 300;
};

// Simulates one step. Lanes are the ops' layers in the order in which they start; ops without a layer have their own
// lane. In a graph without layers, lanes are depths. Ops of zero duration are left out, unless their output is sent to
// another device. Throws InputError on an unknown engine, and if the placement cannot run.
PlacementPicture MakePlacementPicture(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                      const std::string& engine, const Placement& placement);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PLACEMENT_PICTURE_H_
