#include <numeric>
#include <vector>

#include "sim/grouping.h"

namespace emplace {

Grouping ColocationClasses(const Graph& graph) {
  std::vector<std::size_t> labels(graph.num_ops());
  std::iota(labels.begin(), labels.end(), std::size_t{0});
  return Grouping(graph, labels);
}

}  // namespace emplace
