#ifndef EMPLACE_TESTS_TESTING_PROBLEM_H_
#define EMPLACE_TESTS_TESTING_PROBLEM_H_

#include <utility>

#include "agents/environment.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {

// A graph on a cluster with an environment: the graph's own times, every op a group of its own.
struct Problem {
  Problem(Graph of, Cluster on) : graph(std::move(of)), cluster(std::move(on)) {}
  Problem(const Problem&) = delete;  // its parts refer to each other
  Problem& operator=(const Problem&) = delete;

  Graph graph;
  Cluster cluster;
  CostTable costs = MeasuredCosts(graph, cluster);
  Simulator simulator{graph, cluster, costs};
  agents::Environment env{graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator};
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_PROBLEM_H_
