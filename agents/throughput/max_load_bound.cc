#include "agents/throughput/max_load_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::infinity();
// Sums of the same times differ in their last digits with the order of additions.
constexpr double kBelowRounding = 1 - 1e-12;

double LargestClassMicros(const Graph& graph, const StageCosts& costs) {
  std::vector<double> least(graph.num_ops(), kNowhere);
  std::vector<double> sums;
  for (const DeviceClass& of_class : costs.classes) {
    sums.assign(graph.num_ops(), 0);
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const double micros = of_class.op_micros[op];
      double& sum = sums[Index(graph.colocation_class(MakeId<OpId>(op)))];
      if (std::isnan(micros)) {
        sum = kNowhere;
      } else {
        sum += micros;
      }
    }
    for (std::size_t op = 0; op < graph.num_ops(); ++op) least[op] = std::min(least[op], sums[op]);
  }
  double largest = 0;
  for (const double micros : least) {
    if (micros < kNowhere) largest = std::max(largest, micros);
  }
  return largest;
}

double WorkMicros(const StageCosts& costs) {
  double work = 0;
  std::vector<double> speed(costs.classes.size(), 0);
  for (std::size_t op = 0; op < costs.num_ops(); ++op) {
    double least = kNowhere;
    for (const DeviceClass& of_class : costs.classes) {
      if (!std::isnan(of_class.op_micros[op])) least = std::min(least, of_class.op_micros[op]);
    }
    if (least == kNowhere || least <= 0) continue;
    work += least;
    for (std::size_t c = 0; c < costs.classes.size(); ++c) {
      const double micros = costs.classes[c].op_micros[op];
      if (!std::isnan(micros)) speed[c] = std::max(speed[c], least / micros);
    }
  }
  double all = 0;  // work done in a µs
  for (std::size_t c = 0; c < costs.classes.size(); ++c) {
    all += speed[c] * static_cast<double>(costs.classes[c].devices.size());
  }
  return all > 0 ? work / all : 0;
}

}  // namespace

double MaxLoadBoundMicros(const Graph& graph, const StageCosts& costs) {
  EMPLACE_CHECK_EQ(graph.num_ops(), costs.num_ops());
  return kBelowRounding * std::max(LargestClassMicros(graph, costs), WorkMicros(costs));
}

}  // namespace emplace::agents
