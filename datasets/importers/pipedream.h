#ifndef EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_
#define EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_

#include <string_view>

namespace emplace::datasets {

// The format `pipedream`: what PipeDream's profiler writes (graph.txt), one line for each layer and each edge, in any
// order:
//
//   node4 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=1.5, backward_compute_time=2.5,
//       activation_size=4096.0, parameter_size=512.0 [-- stage_id=0]        (one line; times in ms, sizes in bytes)
//   TAB node4 -- node5
//
// The conversion, in which the order of the lines does not matter:
// - Ops: NODE/forward and NODE/backward for every node, both of layer NODE. The first is of the kind that the
//   description starts with, in lower case ("conv2d", "getitem"), the second of that kind with "_backward" behind it.
//   The whole description is the attribute "description" of both.
// - Tensors: the forward op writes its activation, one tensor (of a list `[a; b]` the sum, as PipeDream's planner reads
//   it), which every op behind an edge reads. Against each edge, the backward op of the reader sends a gradient of the
//   same size to the backward op of the producer, which reads its own forward op's activation too. An edge that is
//   repeated is one edge.
// - Parameters are persistent bytes of the forward op; the backward op is colocated with it. The file says nothing of
//   parameter gradients and optimiser state: nothing is added for them.
// - Times are of the device kind kPipeDreamGpuKind. The file does not name its GPU; there is none for CPUs.
// - The forward time of an `Input` node is how long loading the data took, up to 93 % of a whole profile. It is not
//   computation: the op takes 0, and a note says what was left out.
// - stage_id is the partition that PipeDream's planner chose, not a property of the graph: left out, with a note.
// There is no cluster in the file.
// Source: Narayanan et al. 2019, PipeDream, section 3.1 (the profile); github.com/msr-fiddle/pipedream, profiler.
inline constexpr std::string_view kPipeDreamGpuKind = "pipedream-gpu";

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_
