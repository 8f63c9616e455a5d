#include "datasets/models/models.h"
#include "datasets/nas_cells.h"

namespace emplace::datasets {
namespace {

// Zoph et al. 2018, figure 4; state 0 is read by blocks of the normal cell, but also part of its output.
const NasCell kNasNetNormal = {
    .blocks = {{{{{"sep_conv_5x5", 1}, {"sep_conv_3x3", 0}}},
                {{{"sep_conv_5x5", 0}, {"sep_conv_3x3", 0}}},
                {{{"avg_pool_3x3", 1}, {"identity", 0}}},
                {{{"avg_pool_3x3", 0}, {"avg_pool_3x3", 0}}},
                {{{"sep_conv_3x3", 1}, {"identity", 1}}}}},
    .joined = {0, 2, 3, 4, 5, 6},
};
const NasCell kNasNetReduction = {
    .blocks = {{{{{"sep_conv_5x5", 1}, {"sep_conv_7x7", 0}}},
                {{{"max_pool_3x3", 1}, {"sep_conv_7x7", 0}}},
                {{{"avg_pool_3x3", 1}, {"sep_conv_5x5", 0}}},
                {{{"identity", 3}, {"avg_pool_3x3", 2}}},
                {{{"sep_conv_3x3", 2}, {"max_pool_3x3", 1}}}}},
    .joined = {3, 4, 5, 6},
};

}  // namespace

Graph MakeNasnet(OptionReader& reader) {
  return MakeNasNetwork(reader, {.name = "nasnet",
                                 .normal = &kNasNetNormal,
                                 .reduction = &kNasNetReduction,
                                 .filters = 168,
                                 .cells_per_stack = 6});
}

}  // namespace emplace::datasets
