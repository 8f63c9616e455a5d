#ifndef EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_
#define EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_

#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// The format `dnn-partitioning`: the JSON inputs of Microsoft's device placement algorithms, graph and devices in one
// file; "FPGA" there is any accelerator. What it becomes:
// - Ops: one for each node, under its `name` (':' and a '^' in front become '_'; "node<ID>" without a name; "#<ID>"
//   behind a name that is taken). The attribute "id" is the node's id, which ImportExpertPlacement goes by. Operator
//   graphs name most nodes after their operator, "MatMul27": that is the kind then, "layer" for the "node27" of layer
//   graphs, "op" otherwise; "_backward" follows where the name ends in "grad".
// - Times: cpuLatency and fpgaLatency (ms) under the kinds kDnnPartitioningCpuKind and kDnnPartitioningAcceleratorKind;
//   a node that is not supportedOnFpga has no accelerator time.
// - Tensors: the `size` (bytes, to the nearest) of a node's out-edges. It is the same for all of them but in a few
//   training graphs, where the backward ones differ: one tensor for each size then, ascending. A node without out-edges
//   writes nothing.
// - `cost` is not used (but ImportCrossingCosts returns it). Meant to be size / (2 GiB/s), it is in seconds in the
// layer graphs for throughput and in ms
//   everywhere else, beside latencies in ms: plans made from the former take transfers as 1000 times too cheap. A note
//   says which unit a file is in, and how many edges agree with neither.
// - `size` of a node is persistent bytes: the format's memory model, which includes activations. The simulator adds the
//   tensors in flight, so its peaks are above the sums that `maxSizePerFPGA` was meant for.
// - Nodes of one colorClass are colocated with the first of them in the file. isBackwardNode gives the pass; `layerId`,
//   where there is one, the layer. Edges are taken as they are, although the backward half of the layer graphs for
//   training runs in the direction of the forward one and is not joined to it: a note says so.
// - Cluster: maxCPUs CPUs without a limit, then maxFPGAs accelerators with maxSizePerFPGA bytes. Links: 2 GiB/s between
//   a CPU and an accelerator, half of that between accelerators (two copies, through host memory), and practically free
//   between CPUs, which share theirs. No latencies, no gaps.
// Keys that are not of the format are left out, with a note.
// Source: Tarnawski et al. 2020, Efficient algorithms for device placement of DNN graph operators;
// github.com/msr-fiddle/dnn-partitioning, README.
inline constexpr std::string_view kDnnPartitioningCpuKind = "dnnp-cpu";
inline constexpr std::string_view kDnnPartitioningAcceleratorKind = "dnnp-accelerator";

// The `cost` of each op of the graph, by OpId, as the file gives it and in the file's unit (see above): what its output
// takes between an accelerator and host memory, once, however many nodes read it. 0 for a node without out-edges.
// `graph` is of ImportDnnPartitioning on the same content. Throws InputError, its place starting with `file`, if
// the content is not of the format or another graph's, an edge has no cost, or two edges of a node differ by more than
// a millionth.
std::vector<double> ImportCrossingCosts(const std::string& content, const std::string& file, const Graph& graph);

// The file of a human expert's split that belongs to an input file: human-experts/STEM_expert.json in the folder two
// above the input's or in the input's own, or STEM_expert.json beside it. For X_training, that of X_inference where
// there is none. "" if there is none at all.
std::string FindExpertFile(const std::string& input_file);

// A human expert's split as a placement: {"fpgas": [{"nodes": [ID, ...]}, ...], "cpus": [...]}, the i-th list for the
// i-th accelerator, or CPU. A node that is on no list goes with the nodes of its colour class: so a split for inference
// serves training too, as the project's README has it. `graph` and `cluster` are of ImportDnnPartitioning (the graph
// may have been written and read since). Throws InputError, its place starting with `file`, if the file is not a split
// of this graph's nodes onto this cluster, or the placement fails CheckPlacement.
Placement ImportExpertPlacement(const std::string& content, const std::string& file, const Graph& graph,
                                const Cluster& cluster);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_DNN_PARTITIONING_H_
