#ifndef EMPLACE_AGENTS_HEURISTICS_PARTITIONERS_H_
#define EMPLACE_AGENTS_HEURISTICS_PARTITIONERS_H_

#include <cstdint>
#include <memory>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

// Placements by graph partitioning libraries.
namespace emplace::agents {

struct MetisOptions {
  double imbalance = 0.03;      // a part may weigh up to (1 + imbalance) times its share
  bool balance_memory = false;  // bytes as a second weight in addition to time
  std::int64_t cuts = 10;       // tries of each bisection, of which the best is used
};

// Partitions the groups into one part per accelerator, minimising the cut bytes and balancing time. Vertex weight: mean
// time on the accelerators where the group is allowed (0 if none). Edge weight: bytes between two groups. With
// balance_memory the bytes that a group needs are balanced too. Part p goes to the p-th accelerator. A group that is
// not allowed there moves to its fastest allowed device afterwards. The seed of METIS is drawn from `rng`. Throws
// InputError if METIS fails.
//
// Source: METIS 5.1 (Karypis and Kumar 1998, "A fast and high quality multilevel scheme for partitioning irregular
// graphs"), as the baseline of Gao et al. 2018 ("Post"), section 4, which gives it GPUs only.
// Deviation: METIS computes two parts at a time, and the halves are cut again here, as in its own recursive scheme.
// With more than two parts, METIS 5.1 writes to standard output and may not terminate if a half is empty. That happens
// when one group outweighs the rest.
Placement PlaceByMetis(const Observation& observation, const MetisOptions& options, Rng& rng);

std::unique_ptr<Agent> MakeMetisAgent(OptionReader& reader, const AgentContext& context);

struct ScotchOptions {
  double imbalance = 0.03;         // a device's load may be (1 + imbalance) times its share
  bool accelerators_only = false;  // the baseline MinCut: Scotch without CPUs
};

// Static mapping of groups to devices. It minimises the sum over edges of bytes * distance of their devices, with the
// load of every device proportional to its speed.
//   Load of a group: its time on the fastest device. Speed of a device: the sum of the fastest times of all groups
//   allowed there, divided by the sum of their times there.
//   Distance of two devices: the time of the graph's mean edge over their link (mean of both directions), relative to
//   the closest pair and at most 100 times it; 1 if all links are equal.
// A group mapped to a device where it is not allowed moves to its fastest allowed device afterwards. The seed of Scotch
// is drawn from `rng`. Throws InputError if Scotch fails.
//
// Source: Scotch 7.0 (Pellegrini and Roman 1996, "Scotch: a software package for static mapping by dual recursive
// bipartitioning of process and architecture graphs") with its default strategy, as the baselines Scotch and MinCut of
// Mirhoseini et al. 2018 ("A hierarchical model for device placement"), section 3, which gives no parameters.
Placement PlaceByScotch(const Observation& observation, const ScotchOptions& options, Rng& rng);

std::unique_ptr<Agent> MakeScotchAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_PARTITIONERS_H_
