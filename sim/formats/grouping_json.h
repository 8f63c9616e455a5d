#ifndef EMPLACE_SIM_FORMATS_GROUPING_JSON_H_
#define EMPLACE_SIM_FORMATS_GROUPING_JSON_H_

#include <iosfwd>
#include <string>

#include "sim/graph.h"
#include "sim/grouping.h"

namespace emplace {

// grouping.json, `emplace.grouping` version 1: {"schema", "version", "graph", "groups": {OP: GROUP, ..}}, where ops of
// the same number, of any, share a group. ReadGrouping throws InputError (its place starts with `file`) unless every op
// of `graph` is there once and what colocate_with ties together has one number.
Grouping ReadGrouping(std::istream& in, const std::string& file, const Graph& graph);
void WriteGrouping(std::ostream& out, const Grouping& grouping, const Graph& graph);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_GROUPING_JSON_H_
