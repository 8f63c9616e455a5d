#ifndef EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agents/search.h"
#include "sim/placement.h"

namespace emplace::experiments {

// Placements to try on hardware.
struct SampledPlacement {
  std::string label;  // "random 3", "annealing, evaluation 120"
  Placement placement;
};

// `count` times every group on a random device that it may go to. The seed decides.
std::vector<SampledPlacement> RandomPlacements(const agents::SearchProblem& problem, std::size_t count,
                                               std::uint64_t seed);

// `count` of the placements that an agent's run evaluates with the simulator: its best one, and the others evenly
// spread over what it tried in order, each different placement once. Fewer if it tries fewer. Throws InputError as
// RunSearch does.
std::vector<SampledPlacement> AgentPlacements(const agents::SearchSpec& spec, std::size_t count);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_
