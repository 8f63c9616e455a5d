#ifndef EMPLACE_DATASETS_NAS_CELLS_H_
#define EMPLACE_DATASETS_NAS_CELLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/builder.h"
#include "datasets/image_blocks.h"
#include "datasets/training.h"
#include "sim/base/options.h"

namespace emplace::datasets {

// One half of a block: an operation on an earlier state. State 0 is the output of the cell before the previous one,
// state 1 that of the previous one, 2 + b the sum of block b's halves.
struct NasOperation {
  // identity, avg_pool_3x3, max_pool_3x3, sep_conv_3x3, sep_conv_5x5, sep_conv_7x7, conv_1x7_7x1
  std::string_view kind;
  std::size_t state;
};

inline constexpr std::size_t kNasBlocks = 5;

struct NasCell {
  std::array<std::array<NasOperation, 2>, kNasBlocks> blocks;
  std::vector<std::size_t> joined;  // states whose channels are the output, as the authors' model lists them
};

// A network of searched cells for ImageNet, as NASNet and AmoebaNet stack them.
// Source: Zoph et al. 2018, "Learning transferable architectures for scalable image recognition", figures 2 and 4,
// appendix A.4 (separable convolutions twice, relu before each convolution) and its authors' published model: a 3x3
// convolution and two reduction cells of a quarter and half of the filters in front; three stacks of normal cells with
// a reduction cell between, which doubles the filters; a cell's inputs brought to its filters by 1x1 convolutions;
// behind a reduction cell the older input stays the one from before it. Left out: the auxiliary classifier, scheduled
// drop path.
struct NasNetwork {
  std::string_view name;
  const NasCell* normal;
  const NasCell* reduction;
  std::int64_t filters;          // default number of filters of a normal cell in the first stack
  std::int64_t cells_per_stack;  // default
};

// Reads the options, builds and returns the training graph.
Graph MakeNasNetwork(OptionReader& reader, const NasNetwork& network);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_NAS_CELLS_H_
