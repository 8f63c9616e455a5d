#ifndef EMPLACE_DATASETS_MEMORY_MODULE_NETWORK_H_
#define EMPLACE_DATASETS_MEMORY_MODULE_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/device_catalog.h"
#include "sim/ops/op_shape.h"

namespace emplace::datasets {

// A network as a sequence of modules whose work was read from the graph of one of its training steps. Sizes are those
// of the graph's batch and of all ranks of tensor parallelism together.

enum class ProductSize : std::uint8_t { kNone, kBatch, kM, kN, kK };

struct ModuleKernel {
  Precision precision = Precision::kF32;
  OpShape shape;           // without one, the kernel moves bytes
  double bytes = 0;        // moved, of tensors that grow with the batch
  double fixed_bytes = 0;  // and of the others, such as weights
  double flop = 0;
  bool is_backward = false;
  bool is_divided = false;                        // by tensor parallelism
  ProductSize grows = ProductSize::kNone;         // of a product: the size that counts samples
  ProductSize divided_size = ProductSize::kNone;  // and the one that tensor parallelism divides
};

struct ModuleWeight {
  std::int64_t elements = 0;
  bool is_divided = false;
};

struct ModulePiece {
  std::string path;
  std::vector<ModuleKernel> kernels;
  std::vector<ModuleWeight> weights;
  // Tensors that ops behind the piece read, those of earlier pieces that skip it too, and what of them it makes itself.
  std::int64_t sent_bytes = 0;
  std::int64_t output_bytes = 0;
  // What it makes and its backward pass reads, beside its outputs.
  std::int64_t kept_bytes = 0;
  std::int64_t kept_divided_bytes = 0;
  std::int64_t largest_gradient_bytes = 0;  // of an activation
  // Sums over the ranks of tensor parallelism in the forward and in the backward pass, in bytes.
  std::vector<double> forward_sums;
  std::vector<double> backward_sums;
};

struct ModuleNetwork {
  std::int64_t batch = 1;          // samples of the graph's step
  std::int64_t number_bytes = 4;   // of a weight
  std::int64_t tied_elements = 0;  // weights of `before` that `after` reads too
  ModulePiece before;
  std::vector<ModulePiece> layers;
  ModulePiece after;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MODULE_NETWORK_H_
