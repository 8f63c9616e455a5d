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

// The distribution of a quantity over the graphs of a family: a row of the table.
struct FamilyRow {
  std::string quantity;  // name of the quantity, with its unit
  Spread spread;
};

// Ops, groups (of Merge-and-Colocate to each member's number) and trained parameters. On one `kind` of accelerator of
// `cluster` (the first) with roofline costs: the time of a step and the peak memory. For each number of accelerators
// the gap 100 * (1 - lower bound / step on one), in percent: the maximum gain of any placement. Throws InputError on a
// cluster without accelerators.
std::vector<FamilyRow> MakeFamilyTable(const std::vector<datasets::FamilyMember>& members, const std::string& cluster,
                                       const std::vector<std::size_t>& accelerators);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_FAMILY_TABLE_H_
