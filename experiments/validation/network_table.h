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

// Sizes of a network that papers publish.
struct NetworkSize {
  std::optional<double> ops;            // ops of a training step
  std::optional<double> parameters;     // trained
  std::optional<double> multiply_adds;  // multiply-adds of the forward convolutions and matrix products for one example
};

// A row of experiments/published/networks.yaml.
struct PublishedNetwork {
  std::string network;
  std::string model;
  OptionMap set;
  NetworkSize published;
  std::string source;
};

// networks.yaml, `emplace.networks` version 1. Throws InputError whose place starts with `file`.
std::vector<PublishedNetwork> ReadPublishedNetworks(std::istream& in, const std::string& file);

struct NetworkRow {
  const PublishedNetwork* network = nullptr;
  NetworkSize ours;  // all set; multiply_adds of the whole batch
  double step_flop = 0;
  double persistent_bytes = 0;
};

// Builds the network. Throws InputError, its place the network, on an unknown model or option.
NetworkRow MakeNetworkRow(const PublishedNetwork& network);

// Trained parameters of a training graph: elements that the optimisers' update ops change.
double TrainedParameters(const Graph& graph);
// FLOP of the forward convolutions and matrix products.
double ForwardProductFlop(const Graph& graph);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_NETWORK_TABLE_H_
