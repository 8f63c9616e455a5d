#ifndef EMPLACE_DATASETS_IMPORTERS_HLO_H_
#define EMPLACE_DATASETS_IMPORTERS_HLO_H_

#include "datasets/importers/hlo_module.h"
#include "datasets/importers/registry.h"

namespace emplace::datasets {

// The graph of a program: its entry computation, with calls and loops of known length in place (docs/formats.md,
// "XLA programs"). Throws InputError where the program does not fit together.
Imported MakeHloGraph(const HloModule& module);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_HLO_H_
