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

// A placed graph as papers draw it: layer by time, coloured by device (Mirhoseini et al. 2018, figure 2; Gao et al.
// 2018, figure 3; Addanki et al. 2019, figure 6).
struct PlacementPicture {
  struct Dot {
    std::string op = {};
    double start_micros = 0;  // in the simulated step
    double micros = 0;        // how long it runs where it is
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
  std::vector<std::string> lanes = {};  // names of layers; "depth N" where the graph has none
  std::vector<Dot> dots = {};           // by start, then by id; the longest kMostDots of them
  std::vector<Line> lines = {};         // the heaviest kMostLines, heaviest first
  std::size_t ops_left_out = 0;
  std::size_t lines_left_out = 0;

  static constexpr std::size_t kMostDots = 4000;
  static constexpr std::size_t kMostLines = 300;
};

// Simulates one step. Lanes are the ops' layers in the order in which they start, ops without one apart; in a graph
// without any layer, depths. Ops of no time are left out, but for those whose output crosses to another device.
// Throws InputError on an unknown engine, and if the placement cannot run.
PlacementPicture MakePlacementPicture(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                      const std::string& engine, const Placement& placement);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PLACEMENT_PICTURE_H_
