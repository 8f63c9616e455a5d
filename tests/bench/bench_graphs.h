#ifndef EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_
#define EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_

#include <cstddef>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// What the benchmarks simulate. All of it follows from the arguments alone.
struct BenchProblem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::vector<Placement> placements;
};

// Number of different placements that a benchmark cycles through: fewer, and the branch predictor learns them by heart.
inline constexpr std::size_t kBenchPlacements = 64;

// A random layered graph: layers of about sqrt(num_ops) * 0.8 ops; an op reads 1 to 6 tensors (2.6 on average), most
// from the few layers before its own; 1.3 outputs; times of 0 to 1000 us, tensors of up to 4 MB.
Graph LayeredGraph(std::size_t num_ops);

// The NMT training graph of datasets/models at about num_ops ops (2 layers, as many steps as that takes), with roofline
// times of a K80 written into it.
Graph NmtGraph(std::size_t num_ops);

// num_ops / 3 variables of 76,000 bytes, as many ops that read one each, and a chain as long: with the variables on one
// device and the rest on another, thousands of ops wait for one backlogged channel while the chain is queued in front
// of them.
Graph BacklogFanGraph(std::size_t num_ops);

// The first `devices` GPUs of p2.8xlarge's constants; placements put groups of 30 consecutive ops on a random device
// each.
BenchProblem MakeBenchProblem(Graph graph, std::size_t devices);
BenchProblem MakeBacklogFan(std::size_t num_ops);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_BENCH_BENCH_GRAPHS_H_
