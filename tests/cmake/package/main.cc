// Searches for a placement of a small graph, with the installed libraries.

#include <cstdio>
#include <exception>

#include "agents/search.h"
#include "datasets/shipped_clusters.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

int main() {
  try {
    emplace::GraphBuilder builder("two");
    for (const char* const name : {"a", "b"}) {
      emplace::OpSpec spec;
      spec.name = name;
      spec.kind = "op";
      spec.time_micros = 100;
      builder.Add(spec);
    }
    const emplace::Graph graph = builder.Build();
    const emplace::Cluster cluster = emplace::datasets::LoadCluster("dgx-a100").KeepAccelerators(2);
    const emplace::CostTable costs(graph, cluster, *emplace::MakeCostModel("measured"));
    emplace::agents::SearchSpec spec{{}, {.graph = graph, .cluster = cluster, .costs = costs}};
    spec.agent = "local_search";
    spec.problem.grouping = "identity";
    std::printf("%.1f us\n", emplace::agents::RunSearch(spec).best_result.step_time_micros);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
