#ifndef EMPLACE_EXPERIMENTS_VALIDATION_NETWORK_TABLE_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_NETWORK_TABLE_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/options.h"
#include "sim/graph.h"

namespace emplace::experiments {

// What of a network papers publish.
struct NetworkSize {
  std::optional<double> ops;            // of a training step
  std::optional<double> parameters;     // trained
  std::optional<double> multiply_adds;  // of the forward convolutions and matrix products of one example
};

// A row of experiments/published/networks.yaml.
struct PublishedNetwork {
  std::string network;
  std::string model;
  OptionMap set;
  NetworkSize published;
  std::string source;
};

// networks.yaml, `emplace.networks` version 1. Throws InputError, its place starting with `file`.
std::vector<PublishedNetwork> ReadPublishedNetworks(std::istream& in, const std::string& file);

struct NetworkRow {
  const PublishedNetwork* network = nullptr;
  NetworkSize ours;  // all there; multiply_adds of the whole batch
  double step_flop = 0;
  double persistent_bytes = 0;
};

// Builds the network. Throws InputError on an unknown model or option, its place the network.
NetworkRow MakeNetworkRow(const PublishedNetwork& network);

// Trained parameters of a training graph: elements of what its update ops of the optimisers change.
double TrainedParameters(const Graph& graph);
// FLOP of the forward convolutions and matrix products.
double ForwardProductFlop(const Graph& graph);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_NETWORK_TABLE_H_
