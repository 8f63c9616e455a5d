#ifndef EMPLACE_DATASETS_EXPORTERS_CHAKRA_H_
#define EMPLACE_DATASETS_EXPORTERS_CHAKRA_H_

#include <iosfwd>
#include <span>
#include <vector>

#include "datasets/importers/chakra.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/timeline.h"

namespace emplace::datasets {

// A simulated step as Chakra Execution Traces, one rank for each device: rank d is device d. Made of `timeline`, which
// a simulator with engine `fifo` recorded of `placement`.
//
// An op is a COMP_NODE that depends on its producers and on the op before it on its device. A transfer is a
// COMM_SEND_NODE of the sender, which takes the transfer's time and depends on the transfer before it on its channel,
// and a COMM_RECV_NODE of the receiver. A control input between devices is a message of 0 bytes that takes the latency.
// Gaps that something waits for are COMP_NODEs. So each node starts when the last that it depends on is over, and
// MakeChakraGraph of the result has the same step time, to the ns.
//
// Throws InputError on a cluster with issue lanes.
std::vector<ChakraRank> MakeChakraRanks(const Graph& graph, const Cluster& cluster, const Placement& placement,
                                        const Timeline& timeline);

// Writes a .et file: GlobalMetadata, then the nodes, each behind its length as a varint. duration_micros is rounded to
// whole µs, as the format has it; the attribute duration_ns is exact.
void WriteChakra(std::ostream& out, std::span<const ChakraNode> nodes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_CHAKRA_H_
