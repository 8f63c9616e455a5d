#ifndef EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_
#define EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_

#include <string>
#include <string_view>

#include "datasets/importer.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace {

// Workloads of msr-fiddle/dnn-partitioning (Tarnawski et al. 2020, "Efficient algorithms for device placement of DNN
// graph operators"): JSON with maxSizePerFPGA, maxFPGAs, maxCPUs, nodes and edges. An "FPGA" is any accelerator.
//
// - A node becomes an op: its `name`, or node<ID> where it has none ("#<ID>" is added to a name that repeats);
// latencies in ms
//   are times of the kinds `dnnp-cpu` and `dnnp-accelerator` (the latter only if supportedOnFpga); `size` is persistent
//   bytes; isBackwardNode is the pass; the id is kept in attrs; equal colorClass is colocated with the first node of
//   the class.
// - Bytes of tensors come from the edges' `size`. `cost` is not read: its unit differs from file to file (s beside ms
// in the
//   layer graphs of throughput-inputs). Out-edges of a node with the same size are one tensor; with several sizes,
//   several outputs.
// - The cluster has maxCPUs CPUs without a limit and maxFPGAs accelerators of maxSizePerFPGA bytes; 2 GiB/s between CPU
// and
//   accelerator, half of that between accelerators (through the CPU's memory: two moves), and 1e6 GB/s between CPUs,
//   which share their memory.
bool LooksLikeDnnPartitioning(std::string_view content);
Imported ImportDnnPartitioning(const std::string& content, const std::string& file);

// A human expert's split ({"fpgas": [{"nodes": [ids]}, ...], "cpus": [...]}) of such a graph as a placement: the i-th
// list on the i-th accelerator or CPU of the graph's cluster. Throws InputError if an id is unknown, an op is missing
// or named twice, or there are more lists with nodes than devices.
Placement ImportExpertPlacement(const std::string& content, const std::string& file, const Graph& graph,
                                const Cluster& cluster);

// The expert's file for a workload, where it is in a usual place: ../../human-experts/NAME_expert.json as in the
// repository, human-experts/NAME_expert.json, or NAME_expert.json beside it. "" if there is none.
std::string FindExpertFile(const std::string& workload_path);

}  // namespace emplace

#endif  // EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_
