#ifndef EMPLACE_AGENTS_HEURISTICS_BAECHI_H_
#define EMPLACE_AGENTS_HEURISTICS_BAECHI_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/options.h"
#include "sim/base/units.h"
#include "sim/placement.h"

// Baechi's three heuristics: m-TOPO, m-ETF and m-SCT, with the linear program of m-SCT.
namespace emplace::agents {

struct MTopoOptions {
  bool uniform = true;  // equal shares of memory; else each accelerator is filled up to its capacity
};

// Fills the accelerators one after another with groups in topological order, and never returns to an earlier one. A
// group needs its persistent, temporary and output bytes. With `uniform` the limit of every accelerator is floor(sum
// over groups / accelerators) + largest group; else its capacity. The last accelerator takes all remaining groups,
// whether or not they fit. A group that is not allowed on the current accelerator goes to its fastest allowed device
// and is not counted.
//
// Source: m-TOPO of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC), with the cap
// of its published code. Deviations: persistent bytes are added to the outputs (in the source they are part of them).
// Colocated groups also need their outputs, not only temporary and persistent bytes. Remaining groups are placed, where
// the published code stops.
Placement PlaceByMTopo(const Observation& observation, const MTopoOptions& options);

std::unique_ptr<Agent> MakeMTopoAgent(OptionReader& reader, const AgentContext& context);

struct MEtfOptions {
  bool use_cpus = false;  // CPUs also take groups that accelerators could take
};

// The placement of list_scheduler.h without favourite children, on the accelerators. The rule considers when a group
// could start and not how long it takes, so a slow CPU would be used like any other device.
//
// Source: m-ETF of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC).
Placement PlaceByMEtf(const Observation& observation, const MEtfOptions& options);

std::unique_ptr<Agent> MakeMEtfAgent(OptionReader& reader, const AgentContext& context);

// The linear program of the shortest communication time, solved.
struct CommunicationPlan {
  double makespan_micros = 0;    // w: a lower bound of schedules in which every group has at most one favourite
  std::vector<double> far;       // [num_edges] x: 0 where the consumer is on its producer's device, 1 where it is not
  std::vector<GroupEdge> edges;  // [num_edges]
};

// Minimises w over start times s >= 0 and 0 <= x <= 1, subject to
//   s_i + p_i + c_ij x_ij <= s_j      for each edge,
//   s_i + p_i <= w                    for each group,
//   sum over j of x_ij >= outputs - 1 and sum over i of x_ij >= inputs - 1     for each group.
// The last constraints let at most one consumer follow a group, and a group follow at most one producer. p_i is the
// mean time of group i over its candidates among `devices`. c_ij is the mean transfer time of the edge over all ordered
// pairs of distinct devices.
//
// Source: Hanen and Munier 1995 ("An approximation algorithm for scheduling dependent tasks on m processors with small
// communication delays"), relaxed as in Jeon et al. 2020 ("Baechi"). Solved by Clp on one thread. The optimum is not
// unique: off the critical path x may have any value that satisfies the constraints. Throws InputError if Clp fails.
CommunicationPlan PlanCommunication(const Observation& observation, std::span<const DeviceId> devices);

// The favourite child of each group: the consumer with x below `threshold`, or kNoFavourite. A group is the favourite
// of at most one producer. If rounding yields several, the last edge is used.
std::vector<std::size_t> FavouriteChildren(const CommunicationPlan& plan, std::size_t num_groups, double threshold);

struct MSctOptions {
  double threshold = 0.1;  // a favourite child has x below it; default of the published program
  bool use_cpus = false;   // see MEtfOptions
};

// Limit for the linear program, whose time grows superlinearly: 1 s for the 6,189 ops of nmt, 4 s for 15,508, 33 s for
// 46,944. For larger graphs the registry selects merge_and_colocate.
inline constexpr std::size_t kMaxGroupsOfMSct = 20000;

// The placement of list_scheduler.h with favourite children. Throws InputError on more than
// kMaxGroupsOfMSct groups, and if the linear program fails.
//
// Source: m-SCT of Jeon et al. 2020 ("Baechi: fast device placement of machine learning graphs", SoCC).
Placement PlaceByMSct(const Observation& observation, const MSctOptions& options);

std::unique_ptr<Agent> MakeMSctAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_BAECHI_H_
