#ifndef EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_
#define EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

enum class Neighbourhood : std::uint8_t { kGraphSage, kGat };
enum class Context : std::uint8_t { kTransformer, kMlp };

// SGDP's network: nodes receive from their neighbours, then from all nodes of their own and the previous segment.
struct GraphTransformerOptions {
  std::size_t numbers = 0;    // number of numeric features of a node
  std::size_t num_kinds = 0;  // number of op kinds; the last one stands for unknown kinds
  std::size_t outputs = 0;    // logits of a node
  std::size_t kind_width = 64;
  std::size_t width = 128;
  std::size_t layers = 4;      // layers of message passing
  std::size_t neighbours = 5;  // largest number of neighbours of a node
  Neighbourhood neighbourhood = Neighbourhood::kGraphSage;
  Context context = Context::kTransformer;
  std::size_t attention_layers = 2;
  std::size_t heads = 5;
  std::size_t head_width = 25;
  std::size_t inner = 256;
  std::size_t segment = 128;
};

// Groups of nodes for which the network computes vectors only once. Nodes of a class have the same vectors in all
// layers of neighbours. Nodes of one class in one segment are a token: without positions, attention gives them the same
// logits.
struct GraphTokens {
  std::vector<std::uint32_t> first;                    // [num_classes]: a node of the class
  std::vector<std::vector<std::uint32_t>> neighbours;  // [num_classes]: the classes of that node's neighbours
  std::vector<std::uint32_t> classes;                  // [num_tokens], segment by segment
  std::vector<float> copies;                           // [num_tokens]: number of nodes
  std::vector<std::size_t> begin;                      // [num_segments + 1]: the first token of each segment
  std::vector<std::uint32_t> token_of;                 // [num_nodes]
};

// Input of the network; nodes are in topological order.
struct GraphRows {
  Matrix numbers;                                      // [num_nodes, numbers]
  std::vector<std::uint32_t> kinds;                    // [num_nodes]
  std::vector<std::vector<std::uint32_t>> neighbours;  // [num_nodes], at most options.neighbours each
  std::optional<GraphTokens>
      tokens;  // computed from the rest by FindTokens(); if absent, every node is a token of its own
};

// The tokens of a graph for a network with these options. Nodes are merged if they have the same kind and numbers, and
// neighbours that were merged in the round before, in as many rounds as there are layers. With `merge` false every node
// is a token.
GraphTokens FindTokens(const GraphRows& graph, const GraphTransformerOptions& options, bool merge = true);

// The weights, all 0. With the defaults a neighbour layer has 49,408 of them and an attention layer 130,432.
ParameterSet GraphTransformerParameters(const GraphTransformerOptions& options);
// Glorot initialisation; gains of normalisations are 1.
void InitializeGraphTransformer(Rng& rng, ParameterSet* parameters);

// Nodes are embedded by kind and numbers (a linear layer, ReLU). Each of `layers` layers takes the elementwise maximum
// over a node's neighbours of a sigmoid layer, and joins it to the node's own vector. Then follows attention without
// positions over segments. A node attends to its own segment and, without gradient, to the same layer's input from the
// previous segment. A linear layer gives the logits. kGat: attention over neighbours and the node itself instead of the
// maximum. kMlp: two layers on each node instead of attention. Source: Zhou et al. 2020 (SGDP), figure 1 and table 3;
// Hamilton et al. 2017; Dai et al. 2019 (Transformer-XL), without its relative positions, as in SGDP; Velickovic et al.
// 2018 (GAT).
// Equal nodes are computed once (GraphTokens). This changes logits and gradients by rounding only.
class GraphTransformer {
 public:
  virtual ~GraphTransformer() = default;
  // Logits [num_nodes, outputs], valid until the next call. With `backward`, keeps what Backward() needs.
  virtual const Matrix& Forward(const GraphRows& graph, bool backward) = 0;
  // Adds the gradient of a loss to `gradients`. `d_logits`: its gradient with respect to the last Forward's logits.
  virtual void Backward(const Matrix& d_logits, std::span<float> gradients) = 0;
};

// Parameters as in MakeSequenceNetwork.
std::unique_ptr<GraphTransformer> MakeGraphTransformer(const GraphTransformerOptions& options,
                                                       const ParameterSet& parameters, const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_
