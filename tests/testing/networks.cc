#include "tests/testing/networks.h"

#include "tests/testing/graphs.h"

namespace emplace::testing {

std::vector<NetworkCase> AllNetworks() {
  const NetworkOptions base{.embedding = Embedding::kPlaceto, .features = 10, .num_devices = 5};
  std::vector<NetworkCase> cases;
  const auto add = [&](const char* name, auto change) {
    NetworkOptions options = base;
    change(options);
    cases.push_back({.name = name, .options = options});
  };
  add("placeto", [](NetworkOptions&) {});
  add("placeto_rounds", [](NetworkOptions& o) { o.rounds = 3; });
  add("placeto_paper", [](NetworkOptions& o) { o.paper_geometry = true; });
  add("placeto_average", [](NetworkOptions& o) { o.average = true; });
  add("placeto_small", [](NetworkOptions& o) { o.small_classifier = true; });
  add("placeto_sum", [](NetworkOptions& o) { o.sum_head = true; });
  add("sage_text", [](NetworkOptions& o) { o.embedding = Embedding::kGraphSage; });
  add("sage_text_max", [](NetworkOptions& o) {
    o.embedding = Embedding::kGraphSage;
    o.sage.max_aggregation = true;
  });
  const auto code = [](NetworkOptions& o) {
    o.embedding = Embedding::kGraphSage;
    o.thesis_code = o.sum_head = true;
    o.sage.both_directions = false;
  };
  add("sage_code", code);
  add("sage_code_max_3_hops", [&](NetworkOptions& o) {
    code(o);
    o.sage.max_aggregation = true;
    o.sage.hops = 3;
  });
  for (const bool sum : {false, true}) {
    add(sum ? "pgnn_code_sum" : "pgnn_code", [&](NetworkOptions& o) {
      code(o);
      o.embedding = Embedding::kPGnn;
      o.sum_head = sum;
      o.p_gnn.exponent = 2;
    });
  }
  add("pgnn_code_mean", [&](NetworkOptions& o) {
    code(o);
    o.embedding = Embedding::kPGnn;
    o.sum_head = false;
    o.p_gnn.mean_anchors = true;
    o.p_gnn.exponent = 1;
  });
  add("pgnn_original", [](NetworkOptions& o) { o.embedding = Embedding::kPGnn; });
  return cases;
}

StateBatch RandomStates(const Topology& topology, const GraphSample& sample, std::size_t num_features,
                        std::size_t batch, Rng& rng) {
  StateBatch states;
  states.topology = &topology;
  states.sample = &sample;
  states.features.Reset(topology.num_nodes() * batch, num_features);
  for (std::size_t row = 0; row < states.features.rows(); ++row) {
    for (float& value : states.features.values(row)) value = static_cast<float>(2 * rng.Uniform() - 1);
  }
  for (std::size_t b = 0; b < batch; ++b) {
    states.currents.push_back(static_cast<std::uint32_t>(rng.Below(topology.num_nodes())));
    states.seeds.push_back(rng.Next());
  }
  return states;
}

Topology RandomTopology(Rng& rng, std::size_t num_nodes) { return Topology(RandomDag(rng, {.num_ops = num_nodes})); }

}  // namespace emplace::testing
