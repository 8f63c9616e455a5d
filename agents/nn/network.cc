#include "agents/nn/network.h"

#include <string_view>
#include <utility>

#include "agents/nn/message_passing.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

std::unique_ptr<Encoder> MakeEncoder(const NetworkOptions& options, ParameterSet& parameters) {
  GraphSageOptions sage = options.sage;
  sage.features = options.features;
  switch (options.embedding) {
    case Embedding::kPlaceto: {
      MessagePassingOptions placeto{.features = options.features,
                                    .embedding = options.features,
                                    .hidden = options.features,
                                    .transform_hidden = 2,
                                    .message_hidden = 1,
                                    .rounds = options.rounds};
      if (options.paper_geometry) {
        placeto.embedding = placeto.hidden = 8;
        placeto.message_hidden = 2;
      }
      return std::make_unique<MessagePassing>(parameters, placeto);
    }
    case Embedding::kGraphSage:
      if (options.thesis_code) return std::make_unique<GraphSageCode>(parameters, sage);
      return std::make_unique<GraphSageText>(parameters, sage);
    case Embedding::kPGnn:
      if (options.thesis_code) return std::make_unique<PGnnCode>(parameters, sage, options.p_gnn);
      return std::make_unique<PGnnOriginal>(parameters, sage, options.p_gnn);
  }
  EMPLACE_CHECK(false);
  return nullptr;
}

std::unique_ptr<PlacerHead> MakeHead(const NetworkOptions& options, std::size_t width, ParameterSet& parameters) {
  HeadOptions head{.embedding = width,
                   .hidden = width,
                   .message_hidden = 1,
                   .classifier = {8 * width, 4 * width},
                   .num_devices = options.num_devices,
                   .average = options.average};
  if (options.sum_head) head.classifier = {2 * width, width};
  if (options.small_classifier) head.classifier = {4 * width};
  if (options.paper_geometry && options.embedding == Embedding::kPlaceto) {
    head.hidden = 8;
    head.message_hidden = 2;
    head.classifier = {16, 16};
  }
  if (options.sum_head) return std::make_unique<SumHead>(parameters, head);
  return std::make_unique<RelationHead>(parameters, head);
}

}  // namespace

Network::Network(const NetworkOptions& options)
    : options_(options),
      encoder_(MakeEncoder(options_, parameters_)),
      head_(MakeHead(options_, encoder_->out(), parameters_)) {
  EMPLACE_CHECK(options.sum_head || encoder_->rows_per_node() == 1);
  Pack();
}

void Network::Pack() {
  encoder_->Pack(std::as_const(parameters_).values());
  head_->Pack(std::as_const(parameters_).values());
}

const Matrix& Network::Forward(const StateBatch& states, bool backward) {
  embeddings_ = &encoder_->Forward(states, backward);
  return head_->Forward(states, *embeddings_, backward);
}

void Network::Backward(const StateBatch& states, const Matrix& d_logits, std::span<float> gradients) {
  head_->Backward(states, *embeddings_, d_logits, &d_embeddings_, gradients);
  encoder_->Backward(states, d_embeddings_, gradients);
}

double ForwardMultiplyAdds(const Network& network, const Topology& topology, const GraphSample& sample) {
  const double nodes = static_cast<double>(topology.num_nodes());
  const NetworkOptions& options = network.options();
  double deepest = 0;  // rows of thesis_code's GraphSAGE
  double total = 0;
  for (const Parameter& parameter : network.parameters().parameters()) {
    if (parameter.is_bias) continue;
    const std::string_view name = parameter.name;
    double rows = nodes;
    if (name.starts_with("classifier") ||
        (name.find(".aggregate") != name.npos && !name.starts_with("forward") && !name.starts_with("backward"))) {
      rows = 1;
    } else if (name.starts_with("parents") || name.starts_with("children") || name.starts_with("parallel")) {
      rows = nodes / static_cast<double>(kNumRelations);  // every other node is in one of the three sets
    } else if (name.starts_with("message")) {
      rows = nodes * static_cast<double>(sample.num_sets);
    } else if (name.starts_with("level") && options.thesis_code) {
      const auto level = static_cast<std::size_t>(name[5] - '0');
      rows = 0;
      for (std::size_t node = 0; node < topology.num_nodes(); ++node) {
        rows += static_cast<double>((sample.neighbours[node].empty() ? std::size_t{1} : std::size_t{2}) << level);
      }
      deepest = nodes * static_cast<double>(std::size_t{2} << level);
    } else if (name.starts_with("all") && options.thesis_code && options.embedding == Embedding::kGraphSage) {
      rows = deepest;
    } else if ((name.starts_with("forward") || name.starts_with("backward")) && options.rounds > 0) {
      rows = nodes * static_cast<double>(options.rounds);
    }
    total += rows * static_cast<double>(parameter.size());
  }
  return total;
}

}  // namespace emplace::agents
