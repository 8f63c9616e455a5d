#ifndef EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_
#define EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_

#include <string>
#include <string_view>

#include "datasets/importer.h"

namespace emplace {

// Profiles of msr-fiddle/pipedream (Narayanan et al. 2019, PipeDream): graph.txt, a line for each layer,
//   node<ID> -- <description> -- forward_compute_time=<ms>, backward_compute_time=<ms>, activation_size=<bytes>,
//   parameter_size=<bytes>[ -- stage_id=<k>]
// and, after a TAB, one for each edge: node<A> -- node<B>. In any order.
//
// - Layer <ID> becomes "node<ID>/forward", which writes its activation (a list of sizes is one tensor of their sum),
// holds the
//   parameters as persistent bytes, and "node<ID>/backward", colocated with it, which reads its own activation and the
//   gradients that the layers behind it send: each as large as this layer's activation.
// - The kind is the description's first word ("Conv2d", "Conv2d_backward"), the layer "node<ID>".
// - Times are of the kind `pipedream-gpu`: the file does not say which GPU that was; a CPU has none.
// - The forward time of an Input layer is that of loading data: it counts as 0 (and a note says so).
// - stage_id is not read: it is one planner's answer, not a property of the network.
bool LooksLikePipeDream(std::string_view content);
Imported ImportPipeDream(const std::string& content, const std::string& file);

}  // namespace emplace

#endif  // EMPLACE_DATASETS_IMPORTERS_PIPEDREAM_H_
