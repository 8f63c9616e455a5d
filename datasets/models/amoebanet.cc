#include "datasets/models/models.h"
#include "datasets/nas_cells.h"

namespace emplace::datasets {
namespace {

// Real et al. 2019, figure 5; which state is which, as in its authors' published model.
const NasCell kNormal = {
    .blocks = {{{{{"avg_pool_3x3", 1}, {"max_pool_3x3", 1}}},
                {{{"sep_conv_3x3", 0}, {"identity", 0}}},
                {{{"identity", 1}, {"avg_pool_3x3", 0}}},
                {{{"sep_conv_3x3", 1}, {"sep_conv_5x5", 2}}},
                {{{"avg_pool_3x3", 5}, {"sep_conv_3x3", 1}}}}},
    .joined = {0, 3, 4, 6},
};
const NasCell kReduction = {
    .blocks = {{{{{"sep_conv_3x3", 0}, {"avg_pool_3x3", 1}}},
                {{{"max_pool_3x3", 1}, {"sep_conv_7x7", 2}}},
                {{{"max_pool_3x3", 0}, {"max_pool_3x3", 1}}},
                {{{"sep_conv_3x3", 4}, {"conv_1x7_7x1", 1}}},
                {{{"avg_pool_3x3", 0}, {"sep_conv_7x7", 1}}}}},
    .joined = {2, 3, 4, 5, 6},
};

}  // namespace

Graph MakeAmoebanet(OptionReader& reader) {
  return MakeNasNetwork(
      reader,
      {.name = "amoebanet", .normal = &kNormal, .reduction = &kReduction, .filters = 190, .cells_per_stack = 6});
}

}  // namespace emplace::datasets
