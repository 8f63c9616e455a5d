#ifndef EMPLACE_AGENTS_NN_MLP_H_
#define EMPLACE_AGENTS_NN_MLP_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agents/nn/kernel.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// Intermediate results for the backward pass; reused by later passes.
struct MlpCache {
  std::vector<Matrix> outputs;      // outputs of each layer after its ReLU: [rows, width of the layer]
  std::vector<Matrix> gradients;    // gradients of the loss with respect to the result of each layer before its ReLU
  std::vector<AffineLayer> layers;  // layers of the Mlp whose Prepare was called; they write to outputs
  const Matrix& result() const { return outputs.back(); }
  Matrix& result_gradient() { return gradients.back(); }
};

// Affine layers with ReLU between them, and optionally after the last one, applied to each row. Passes cover ranges of
// rows, so that the nodes of a graph can be processed level by level.
class Mlp {
 public:
  // `widths`: of the input and each layer. Declares the weights "NAME.0.weight" [in, out], "NAME.0.bias", ...
  Mlp(ParameterSet& parameters, std::string_view name, const std::vector<std::size_t>& widths, bool relu_last);

  std::size_t in() const { return layers_.front().in; }
  std::size_t out() const { return layers_.back().out; }

  // Copies the current weights, which Forward and Backward use until the next call.
  void Pack(std::span<const float> values);

  // Allocates memory for passes over `rows` rows, with `backward` also for their gradients.
  void Prepare(std::size_t rows, bool backward, MlpCache* cache) const;
  // Computes rows [begin, end) of x through all layers.
  void Forward(const Matrix& x, std::size_t begin, std::size_t end, MlpCache* cache) const;
  // On entry rows [begin, end) of cache->result_gradient() are the gradient with respect to the result. On exit those
  // of all layers are filled, and of *dx unless it is null.
  void Backward(std::size_t begin, std::size_t end, MlpCache* cache, Matrix* dx) const;
  // Adds the gradient with respect to the weights, over rows [begin, end) of the previous passes, to `gradients`. That
  // array is laid out like the parameter set's values.
  void AddGradients(const Matrix& x, std::size_t begin, std::size_t end, const MlpCache& cache,
                    std::span<float> gradients);

 private:
  struct Layer {
    std::size_t in = 0;
    std::size_t out = 0;
    std::size_t weight_offset = 0;
    std::size_t bias_offset = 0;
    bool relu = false;
    std::vector<float> weight;      // [in, Padded(out)]
    std::vector<float> transposed;  // [out, Padded(in)]
    std::vector<float> bias;        // [Padded(out)]
  };
  std::vector<Layer> layers_;
  std::vector<float> zeros_;
  std::vector<float> scratch_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_MLP_H_
