#ifndef EMPLACE_DATASETS_IMPORTERS_TRACE_CLOCKS_H_
#define EMPLACE_DATASETS_IMPORTERS_TRACE_CLOCKS_H_

#include <string>
#include <vector>

#include "datasets/importers/trace_rank.h"

namespace emplace::datasets {

// Shifts ranks whose clocks differ: a collective ends on all of its ranks at about the same time. Adds a note for each
// rank that is shifted. Throws InputError if no difference of clocks explains when the collectives end.
void AlignClocks(std::vector<MeasuredRank>* ranks, std::vector<std::string>* notes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TRACE_CLOCKS_H_
