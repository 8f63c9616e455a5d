#include "tests/testing/networks.h"

#include "tests/testing/graphs.h"

namespace emplace::testing {

std::vector<NetworkCase> AllNetworks() {
  const agents::NetworkOptions base{.embedding = agents::Embedding::kPlaceto, .features = 10, .num_devices = 5};
  std::vector<NetworkCase> cases;
  const auto add = [&](const char* name, auto change) {
    agents::NetworkOptions options = base;
    change(options);
    cases.push_back({.name = name, .options = options});
  };
  add("placeto", [](agents::NetworkOptions&) {});
  add("placeto_rounds", [](agents::NetworkOptions& o) { o.rounds = 3; });
  add("placeto_paper", [](agents::NetworkOptions& o) { o.paper_geometry = true; });
  add("placeto_average", [](agents::NetworkOptions& o) { o.average = true; });
  add("placeto_small", [](agents::NetworkOptions& o) { o.small_classifier = true; });
  add("placeto_sum", [](agents::NetworkOptions& o) { o.sum_head = true; });
  add("sage_text", [](agents::NetworkOptions& o) { o.embedding = agents::Embedding::kGraphSage; });
  for (const auto& [name, aggregation] :
       {std::pair("sage_text_max", agents::Aggregation::kMax), std::pair("sage_text_min", agents::Aggregation::kMin),
        std::pair("sage_text_sum", agents::Aggregation::kSum)}) {
    add(name, [&](agents::NetworkOptions& o) {
      o.embedding = agents::Embedding::kGraphSage;
      o.sage.aggregation = aggregation;
    });
  }
  const auto code = [](agents::NetworkOptions& o) {
    o.embedding = agents::Embedding::kGraphSage;
    o.thesis_code = o.sum_head = true;
    o.sage.both_directions = false;
  };
  add("sage_code", code);
  for (const auto& [name, aggregation] : {std::pair("sage_code_max_3_hops", agents::Aggregation::kMax),
                                          std::pair("sage_code_min_3_hops", agents::Aggregation::kMin),
                                          std::pair("sage_code_sum_3_hops", agents::Aggregation::kSum)}) {
    add(name, [&](agents::NetworkOptions& o) {
      code(o);
      o.sage.aggregation = aggregation;
      o.sage.hops = 3;
    });
  }
  for (const bool sum : {false, true}) {
    add(sum ? "pgnn_code_sum" : "pgnn_code", [&](agents::NetworkOptions& o) {
      code(o);
      o.embedding = agents::Embedding::kPGnn;
      o.sum_head = sum;
      o.p_gnn.exponent = 2;
    });
  }
  add("pgnn_code_mean", [&](agents::NetworkOptions& o) {
    code(o);
    o.embedding = agents::Embedding::kPGnn;
    o.sum_head = false;
    o.p_gnn.mean_anchors = true;
    o.p_gnn.exponent = 1;
  });
  add("pgnn_original", [](agents::NetworkOptions& o) { o.embedding = agents::Embedding::kPGnn; });
  return cases;
}

agents::StateBatch RandomStates(const agents::Topology& topology, const agents::GraphSample& sample,
                                std::size_t num_features, std::size_t batch, Rng& rng) {
  agents::StateBatch states;
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

agents::Topology RandomTopology(Rng& rng, std::size_t num_nodes) {
  return agents::Topology(RandomDag(rng, {.num_ops = num_nodes}));
}

}  // namespace emplace::testing
