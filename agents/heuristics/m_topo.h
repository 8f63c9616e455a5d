#ifndef EMPLACE_AGENTS_HEURISTICS_M_TOPO_H_
#define EMPLACE_AGENTS_HEURISTICS_M_TOPO_H_

#include <memory>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/placement.h"

namespace emplace {

struct MTopoOptions {
  bool uniform = true;  // equal shares of memory; else each accelerator up to its capacity
};

// Fills one accelerator after the other with groups in topological order, and never goes back to one that it left.
// A group needs its persistent, temporary and output bytes. With `uniform` every accelerator takes up to
// floor(sum over groups / accelerators) + largest group; else up to its capacity. The last accelerator takes all that
// remain: whether that fits is the simulator's to say. A group that is not allowed on the accelerator at hand goes to
// its fastest allowed device and fills nothing.
//
// Source: m-TOPO of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC), with the cap
// of its published code. Deviations: persistent bytes count next to the outputs (there they are part of them);
// colocated groups need their outputs too, not only temporary and persistent bytes; what remains is placed, where the
// published code stops.
Placement PlaceByMTopo(const Observation& observation, const MTopoOptions& options);

std::unique_ptr<Agent> MakeMTopoAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_M_TOPO_H_
