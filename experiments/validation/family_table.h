#ifndef EMPLACE_EXPERIMENTS_VALIDATION_FAMILY_TABLE_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_FAMILY_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "datasets/families/families.h"

namespace emplace::experiments {

// Smallest, mean, standard deviation (of a sample) and largest.
struct Spread {
  double least = 0;
  double mean = 0;
  double sd = 0;
  double most = 0;
};
// Requires: at least one value.
Spread SpreadOf(const std::vector<double>& values);

// How the graphs of a family are spread: a row of the table for each quantity.
struct FamilyRow {
  std::string quantity;  // with its unit
  Spread spread;
};

// Ops, groups (of Merge-and-Colocate to each member's number), trained parameters; on one `kind` of accelerator of
// `cluster` (the first) with roofline costs: the time of a step, peak memory; and for each number of accelerators the
// gap 100 * (1 - lower bound / step on one), in percent: all that any placement can win. Throws InputError on a cluster
// without accelerators.
std::vector<FamilyRow> MakeFamilyTable(const std::vector<datasets::FamilyMember>& members, const std::string& cluster,
                                       const std::vector<std::size_t>& accelerators);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_FAMILY_TABLE_H_
