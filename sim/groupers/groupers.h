#ifndef EMPLACE_SIM_GROUPERS_GROUPERS_H_
#define EMPLACE_SIM_GROUPERS_GROUPERS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sim/graph.h"
#include "sim/grouping.h"

namespace emplace {

// Starts with the colocation classes and repeats until nothing changes: a group whose data goes to exactly one other
// group is merged with it.
// Source: Mirhoseini et al. 2017 (ColocRL), the rule as Baechi's "coplace" grouper has it (Jeon et al. 2020).
// Deviation: control edges do not count, and groups that no kind of device could hold together stay apart.
Grouping GroupByColocation(const Graph& graph, const GroupingOptions& options);

// Merge-and-Colocate: repeatedly merges the group with the fewest output bytes into a neighbour, until
// options.max_groups are left. Starts with the colocation classes. Source: Addanki et al. 2019 (Placeto), A.6. What it
// leaves open is decided so: the neighbour is the successor (if there is none, the predecessor) joined by the most
// bytes; a merge that another path between the two would turn into a cycle is passed over until no merge
// without one is left (paths are searched up to 256 groups far; beyond, one is assumed to exist), as are groups that no
// kind of device could hold together; ties go to the smaller op id. Groups without neighbours are merged with the next
// of their sort once nothing else is left. The paper also stops when the fewest output bytes exceed a limit that it
// does not give: there is none here.
Grouping MergeAndColocate(const Graph& graph, const GroupingOptions& options);
// The same for several numbers of groups, which fall; merges once.
std::vector<Grouping> MergeAndColocateToEach(const Graph& graph, std::span<const std::size_t> max_groups);

// What a framework that places modules, such as Accelerate, can move. An op's layer is the path of its module.
struct WholeModules {
  Grouping grouping;
  // Indexed by OpId: the path of the outermost module around the op that can only be moved as a whole; empty for the
  // own ops of modules that can be divided, which run where their inputs are.
  std::vector<std::string_view> module_of_op;
};
// A module stays whole if it has no modules, if its own ops join results of its modules with what it was given (a
// residual connection), or if the graph's metadata says so of its class. An own op of a module that can be divided
// joins the groups of its inputs. Modules that share a weight are one group, and so are the forward and backward ops of
// a module. Valid as long as the graph is. Throws InputError(graph name) if no op has a layer.
WholeModules FindWholeModules(const Graph& graph);
// The same groups, with one for each numbered block: all modules below "model.layers.3", the first number of the path.
Grouping GroupByBlock(const Graph& graph);

// "model.layers.3" of "model.layers.3.mlp.experts.7"; empty where no part of the path is a number.
std::string_view NumberedBlock(std::string_view path);

}  // namespace emplace

#endif  // EMPLACE_SIM_GROUPERS_GROUPERS_H_
