#ifndef EMPLACE_AGENTS_HEURISTICS_SEARCH_LEVELS_H_
#define EMPLACE_AGENTS_HEURISTICS_SEARCH_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/grouping.h"

namespace emplace::agents {

// A list of numbers for each row.
class RaggedRows {
 public:
  void Add(std::uint32_t value) { values_.push_back(value); }  // to the last row, which EndRow() ends
  void EndRow() { first_.push_back(values_.size()); }
  std::size_t size() const { return first_.size() - 1; }
  std::span<const std::uint32_t> operator[](std::size_t row) const {
    return {values_.data() + first_[row], first_[row + 1] - first_[row]};
  }

 private:
  std::vector<std::size_t> first_ = {0};
  std::vector<std::uint32_t> values_;
};

// One resolution of a search: the groups of an environment in units, which are placed as one.
struct SearchLevel {
  std::vector<std::uint32_t> unit_of;  // [num_groups]
  RaggedRows members;                  // [num_units]: groups, ascending
  RaggedRows before;                   // [num_units]: the unit of each producer outside; a unit may be there repeatedly
  RaggedRows after;                    // [num_units]: the unit of each reader outside, likewise
};

// From the finest to the coarsest: the groups themselves, then at most 1,024, 256 and 64 units, as merge_and_colocate
// merges ops, or some more: units whose groups have no device in common are split. Levels of more than half as many
// units as there are groups are left out. Where merging ops would split a group of the environment, groups are merged
// instead.
std::vector<SearchLevel> MakeSearchLevels(const Environment& env);

// The level's units as a grouping of the environment's ops.
Grouping GroupingOfLevel(const Environment& env, const SearchLevel& level);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_SEARCH_LEVELS_H_
