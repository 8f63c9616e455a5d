#ifndef EMPLACE_AGENTS_HEURISTICS_METIS_H_
#define EMPLACE_AGENTS_HEURISTICS_METIS_H_

#include <cstdint>
#include <memory>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace {

struct MetisOptions {
  double imbalance = 0.03;      // a part may weigh (1 + imbalance) of its share
  bool balance_memory = false;  // bytes as a second weight next to time
  std::int64_t cuts = 10;       // tries of each bisection, of which the best counts
};

// Cuts the groups into one part per accelerator, so that few bytes are cut and every part takes about the same time.
// Vertex weight: mean time on the accelerators where the group is allowed (0 if none); edge weight: bytes between two
// groups; with balance_memory the bytes that a group needs are to be balanced too. Part p goes to the p-th accelerator;
// a group that is not allowed there moves to its fastest allowed device afterwards. The seed of METIS is drawn from
// `rng`. Throws InputError if METIS fails.
//
// Source: METIS 5.1 (Karypis and Kumar 1998, "A fast and high quality multilevel scheme for partitioning irregular
// graphs"), as the baseline of Gao et al. 2018 ("Post"), section 4, which gives it GPUs only.
// Deviation: METIS is asked for two parts at a time and the halves are cut again here, as its own recursive scheme
// does; asked for more than two parts, METIS 5.1 writes to standard output, and at times never returns, where a half
// comes out empty, as it does when one group outweighs the rest.
Placement PlaceByMetis(const Observation& observation, const MetisOptions& options, Rng& rng);

std::unique_ptr<Agent> MakeMetisAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_METIS_H_
