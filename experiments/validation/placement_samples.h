#ifndef EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
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

// `count` placements with every group on a random allowed device, determined by the seed. With `mostly`, a group is on
// that device nineteen times in twenty where it is allowed there: of a fast and a slow device, random placements take
// what the slow one takes.
std::vector<SampledPlacement> RandomPlacements(const agents::SearchProblem& problem, std::size_t count,
                                               std::uint64_t seed, std::optional<DeviceId> mostly = std::nullopt);

// `count` of the distinct placements that an agent's run evaluates with the simulator, chosen by what they take there:
// evenly spaced from its best to twice that, as far as it tried such; the best first. Those that do not fit in memory
// come last. Fewer if it evaluates fewer. Throws InputError like RunSearch.
std::vector<SampledPlacement> AgentPlacements(const agents::SearchSpec& spec, std::size_t count);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_PLACEMENT_SAMPLES_H_
