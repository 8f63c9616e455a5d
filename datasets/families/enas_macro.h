#ifndef EMPLACE_DATASETS_FAMILIES_ENAS_MACRO_H_
#define EMPLACE_DATASETS_FAMILIES_ENAS_MACRO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/rng.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A network of ENAS's macro search space. Source: Pham et al. 2018, section 2.3.
struct EnasMacroNetwork {
  static constexpr std::size_t kLayers = 12;
  static constexpr std::array<std::string_view, 6> kOperations = {"conv3", "sep3", "conv5", "sep5", "avg3", "max3"};

  struct Layer {
    std::size_t operation = 0;  // index into kOperations
    std::vector<bool> skips;    // for each earlier layer, whether it is joined to this one's output
  };
  std::vector<Layer> layers;

  // Uniform over the space.
  static EnasMacroNetwork Draw(Rng& rng);
  // "conv3 max3+0 ...": each layer's operation, and the layers that skip to it.
  std::string Text() const;
  // 6^12 * 2^66.
  static double SpaceSize();
};

Graph BuildEnasMacro(std::string name, const EnasMacroNetwork& network, std::int64_t batch);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_FAMILIES_ENAS_MACRO_H_
