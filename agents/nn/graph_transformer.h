#ifndef EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_
#define EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

enum class Neighbourhood : std::uint8_t { kGraphSage, kGat };
enum class Context : std::uint8_t { kTransformer, kMlp };

// SGDP's network: nodes hear their neighbours, then all nodes of their segment of the order and of the one before.
struct GraphTransformerOptions {
  std::size_t numbers = 0;    // features of a node that are numbers
  std::size_t num_kinds = 0;  // of ops, the last one for all that are unknown
  std::size_t outputs = 0;    // logits of a node
  std::size_t kind_width = 64;
  std::size_t width = 128;
  std::size_t layers = 4;      // of neighbours
  std::size_t neighbours = 5;  // of a node, at most
  Neighbourhood neighbourhood = Neighbourhood::kGraphSage;
  Context context = Context::kTransformer;
  std::size_t attention_layers = 2;
  std::size_t heads = 5;
  std::size_t head_width = 25;
  std::size_t inner = 256;
  std::size_t segment = 128;
};

// What it knows of a graph's nodes, which stand in topological order.
struct GraphRows {
  Matrix numbers;                                      // [num_nodes, numbers]
  std::vector<std::uint32_t> kinds;                    // [num_nodes]
  std::vector<std::vector<std::uint32_t>> neighbours;  // [num_nodes], at most as many as the options say
};

// Its weights, all 0. With the defaults a layer of neighbours has 49,408 and one of attention 130,432.
ParameterSet GraphTransformerParameters(const GraphTransformerOptions& options);
// Glorot, gains of normalisations 1.
void InitializeGraphTransformer(Rng& rng, ParameterSet* parameters);

// Nodes are embedded by kind and numbers (a linear layer, ReLU); `layers` times each takes the elementwise maximum over
// its neighbours of a sigmoid layer and joins it to its own; then attention without positions over segments, in which a
// node sees its own segment and, without gradient, what the same layer got from the one before; a linear layer gives
// logits for each. kGat: attention over neighbours and itself instead of the maximum. kMlp: two layers on each node
// instead of attention. Source: Zhou et al. 2020 (SGDP), figure 1 and table 3; Hamilton et al. 2017; Dai et al. 2019
// (Transformer-XL), its relative positions left out as SGDP says; Velickovic et al. 2018 (GAT).
class GraphTransformer {
 public:
  virtual ~GraphTransformer() = default;
  // Logits [num_nodes, outputs], valid until the next call. With `backward`, what Backward() needs is kept.
  virtual const Matrix& Forward(const GraphRows& graph, bool backward) = 0;
  // Adds the gradient of a loss whose gradient by the last Forward's logits is `d_logits`.
  virtual void Backward(const Matrix& d_logits, std::span<float> gradients) = 0;
};

// As MakeSequenceNetwork.
std::unique_ptr<GraphTransformer> MakeGraphTransformer(const GraphTransformerOptions& options,
                                                       const ParameterSet& parameters, const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_GRAPH_TRANSFORMER_H_
