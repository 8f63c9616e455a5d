#ifndef EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_OPS_H_
#define EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_OPS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "datasets/importers/trace_rank.h"
#include "datasets/importers/trace_step.h"

namespace emplace::datasets {

// The collectives of a rank, as activities of the step, by process group in the order of their launches.
using RankCollectives = std::map<std::string, std::vector<std::uint32_t>, std::less<>>;

// Adds the devices, ops, activities and notes of a rank to the step, which starts at `start` in the time of the rank's
// trace.
RankCollectives AddRankOps(const MeasuredRank& rank, std::int64_t start, TraceStep* step);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TRACE_RANK_OPS_H_
