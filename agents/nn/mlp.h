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

// What a forward pass keeps for the backward pass; reused from pass to pass.
struct MlpCache {
  std::vector<Matrix> outputs;      // of each layer: [rows, its width], after its ReLU
  std::vector<Matrix> gradients;    // of the loss by each layer's result, before its ReLU
  std::vector<AffineLayer> layers;  // of the Mlp that Prepare was called of, writing to outputs
  const Matrix& result() const { return outputs.back(); }
  Matrix& result_gradient() { return gradients.back(); }
};

// Affine layers with ReLU between them, and after the last one if asked for, applied to each row. Rows are taken in
// ranges, so that the nodes of a graph can be taken level by level.
class Mlp {
 public:
  // `widths`: of the input, of each layer. Declares the weights "NAME.0.weight" [in, out], "NAME.0.bias", ...
  Mlp(ParameterSet& parameters, std::string_view name, const std::vector<std::size_t>& widths, bool relu_last);

  std::size_t in() const { return layers_.front().in; }
  std::size_t out() const { return layers_.back().out; }

  // Takes over the current weights. Forward and Backward use these until the next call.
  void Pack(std::span<const float> values);

  // Makes room for passes over `rows` rows, and with `backward` for their gradients.
  void Prepare(std::size_t rows, bool backward, MlpCache* cache) const;
  // The rows [begin, end) of x through all layers.
  void Forward(const Matrix& x, std::size_t begin, std::size_t end, MlpCache* cache) const;
  // On entry rows [begin, end) of cache->result_gradient() hold the gradient by the result; on exit those of all
  // layers are filled, and of *dx too unless it is null.
  void Backward(std::size_t begin, std::size_t end, MlpCache* cache, Matrix* dx) const;
  // Adds the gradient by the weights, over rows [begin, end) of the passes before, to `gradients`, an array like the
  // parameter set's.
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
