#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_GRAPH_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_GRAPH_H_

#include "datasets/importers/chakra_trace.h"

namespace emplace::datasets {

// MakeChakraGraph of a trace that is put together already.
Imported MakeGraphOfTrace(ChakraTrace trace, const ChakraOptions& options);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_GRAPH_H_
