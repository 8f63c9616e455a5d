#include <numeric>
#include <vector>

#include "sim/groupers/groupers.h"

namespace emplace {

Grouping GroupByIdentity(const Graph& graph, const GroupingOptions&) {
  std::vector<std::size_t> labels(graph.num_ops());
  std::iota(labels.begin(), labels.end(), std::size_t{0});
  return Grouping(graph, labels);
}

}  // namespace emplace
