#ifndef EMPLACE_AGENTS_HEURISTICS_FAVOURITE_CHILDREN_H_
#define EMPLACE_AGENTS_HEURISTICS_FAVOURITE_CHILDREN_H_

#include <cstddef>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/units.h"

namespace emplace {

// The linear program of the shortest communication time, solved.
struct CommunicationPlan {
  double makespan_micros = 0;    // w: no schedule in which every group has at most one favourite is shorter
  std::vector<double> far;       // [num_edges] x: 0 where the consumer follows its producer, 1 where it does not
  std::vector<GroupEdge> edges;  // [num_edges]
};

// Minimises w over start times s >= 0 and 0 <= x <= 1, subject to
//   s_i + p_i + c_ij x_ij <= s_j      for each edge,
//   s_i + p_i <= w                    for each group,
//   sum over j of x_ij >= outputs - 1 and sum over i of x_ij >= inputs - 1     for each group:
// at most one consumer follows a group, and a group follows at most one producer. p_i is the mean time of group i over
// its candidates among `devices`, c_ij the mean transfer time of the edge over all ordered pairs of distinct devices.
//
// Source: Hanen and Munier 1995 ("An approximation algorithm for scheduling dependent tasks on m processors with small
// communication delays"), relaxed as in Jeon et al. 2020 ("Baechi"). Solved by Clp, on one thread. The optimum is not
// unique: off the critical path x may be anything that the constraints allow.
// Throws InputError if Clp fails.
CommunicationPlan PlanCommunication(const Observation& observation, std::span<const DeviceId> devices);

// The favourite child of each group: the consumer with x below `threshold`, or kNoFavourite. A group is the favourite
// of one producer only; where rounding gives more, the last edge wins.
std::vector<std::size_t> FavouriteChildren(const CommunicationPlan& plan, std::size_t num_groups, double threshold);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_FAVOURITE_CHILDREN_H_
