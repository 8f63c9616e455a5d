#ifndef EMPLACE_DATASETS_EXPORTERS_TENSOR_PARALLEL_H_
#define EMPLACE_DATASETS_EXPORTERS_TENSOR_PARALLEL_H_

#include <string>
#include <utility>
#include <vector>

#include "sim/graph.h"

namespace emplace::datasets {

// How tensor parallelism divides the weight of each linear module in the numbered blocks of a captured graph: "colwise"
// or "rowwise", by path, in the order of the graph. A module whose result goes to another of its block, before it is
// added to a residual, is divided by columns, so that no ranks need to communicate in between; the one that it goes to
// is divided by rows. Modules that neither lead to another nor come from one, such as routers of experts, are left
// whole. Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
std::vector<std::pair<std::string, std::string>> TensorParallelStyles(const Graph& graph);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_TENSOR_PARALLEL_H_
