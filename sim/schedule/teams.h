#ifndef EMPLACE_SIM_SCHEDULE_TEAMS_H_
#define EMPLACE_SIM_SCHEDULE_TEAMS_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "sim/base/units.h"
#include "sim/schedule/pipeline_stages.h"

namespace emplace {

// Devices that run the same stages together, because collectives of the forward or the backward pass join them: tensor
// or expert parallelism. Teams whose forward ops read from one another are a pipeline; several pipelines are replicas
// (docs/model.md, S21).
struct Teams {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::vector<DeviceId>>
      members;  // members of each team in ascending order; teams are ordered by their first device
  std::vector<std::size_t> team_of_device;          // kNone: it has no forward op
  std::vector<std::vector<std::size_t>> pipelines;  // the teams of each
  std::vector<std::size_t> pipeline_of_team;
};

// In a graph without collectives, each device with forward ops is a team, and all teams are one pipeline. Throws
// InputError where a send and a receive are part of a pass: stages send by themselves.
Teams FindTeams(const PlacedGraph& placed, const std::vector<PipelineRole>& roles);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_TEAMS_H_
