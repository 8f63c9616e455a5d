// Times the generation of graphs: the largest network, and whole families with their groupings.

#include <benchmark/benchmark.h>

#include <sstream>
#include <string>

#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "sim/base/options.h"
#include "sim/formats/graph_json.h"
#include "sim/grouping.h"

namespace emplace::testing {
namespace {

// The 8-layer translation network at its finest granularity, written as text.
void LargestNetwork(benchmark::State& state) {
  std::size_t ops = 0;
  for (auto _ : state) {
    const Graph graph = datasets::MakeModel("nmt", {{"layers", "8"}, {"granularity", "slice"}});
    std::ostringstream out;
    WriteGraph(out, graph);
    benchmark::DoNotOptimize(out);
    ops = graph.num_ops();
  }
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(LargestNetwork)->Unit(benchmark::kSecond)->Iterations(3);

// 32 graphs, each with its grouping, written as text.
void MakeAFamily(benchmark::State& state, const std::string& name) {
  for (auto _ : state) {
    for (const datasets::FamilyMember& member : datasets::MakeFamily(datasets::FindFamily(name), 1)) {
      const Grouping grouping = FindGrouper("merge_and_colocate").make(member.graph, {.max_groups = member.num_groups});
      std::ostringstream out;
      WriteGraph(out, member.graph);
      benchmark::DoNotOptimize(out);
      benchmark::DoNotOptimize(grouping.num_groups());
    }
  }
}
BENCHMARK_CAPTURE(MakeAFamily, cifar10, std::string("cifar10"))->Unit(benchmark::kSecond)->Iterations(1);
BENCHMARK_CAPTURE(MakeAFamily, ptb, std::string("ptb"))->Unit(benchmark::kSecond)->Iterations(1);
BENCHMARK_CAPTURE(MakeAFamily, nmt, std::string("nmt"))->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace emplace::testing
