#ifndef EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_
#define EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_

#include <cstddef>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// A problem that the benchmarks simulate, a function of the arguments alone.
struct BenchProblem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::vector<Placement> placements;
};

// Number of different placements that a benchmark cycles through. With fewer, the branch predictor memorises them.
inline constexpr std::size_t kBenchPlacements = 64;

// A random layered graph: layers of about sqrt(num_ops) * 0.8 ops. An op reads 1 to 6 tensors (2.6 on average), most
// from the few layers before its own, and has 1.3 outputs. Times are 0 to 1000 us, tensors up to 4 MB.
Graph LayeredGraph(std::size_t num_ops);

// The NMT training graph of datasets/models with about num_ops ops (2 layers, and the number of steps to match). It
// contains roofline times of a K80.
Graph NmtGraph(std::size_t num_ops);

// num_ops / 3 variables of 76,000 bytes, as many ops that read one each, and a chain of the same length. With the
// variables on one device and the rest on another, thousands of ops wait for one backlogged channel, and the chain is
// queued first.
Graph BacklogFanGraph(std::size_t num_ops);

// Uses the first `devices` GPUs of p2.8xlarge, with its constants. Placements put groups of 30 consecutive ops on a
// random device each.
BenchProblem MakeBenchProblem(Graph graph, std::size_t devices);
BenchProblem MakeBacklogFan(std::size_t num_ops);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_
