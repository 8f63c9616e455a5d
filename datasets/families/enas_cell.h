#ifndef EMPLACE_DATASETS_FAMILIES_ENAS_CELL_H_
#define EMPLACE_DATASETS_FAMILIES_ENAS_CELL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/rng.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A recurrent cell of ENAS's search space. Source: Pham et al. 2018, section 2.1.
struct EnasCell {
  static constexpr std::size_t kNodes = 12;
  static constexpr std::array<std::string_view, 4> kActivations = {"tanh", "relu", "identity", "sigmoid"};

  struct Node {
    std::size_t input = 0;       // an earlier node; node 0 reads the word and the state instead
    std::size_t activation = 0;  // index into kActivations
  };
  std::vector<Node> nodes;

  // Uniform over the space.
  static EnasCell Draw(Rng& rng);
  // "tanh relu<0 ...": each node's activation and input.
  std::string Text() const;
  // The nodes that no other one reads: their mean is the cell's output.
  std::vector<std::size_t> LooseEnds() const;
  // 4^12 * 12!, as the paper counts.
  static double SpaceSize();
};

struct EnasLanguageModelSizes {
  std::int64_t batch = 0;
  std::int64_t steps = 0;
  std::int64_t hidden = 720;
  std::int64_t vocabulary = 10000;
};
Graph BuildEnasLanguageModel(std::string name, const EnasCell& cell, const EnasLanguageModelSizes& sizes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_FAMILIES_ENAS_CELL_H_
