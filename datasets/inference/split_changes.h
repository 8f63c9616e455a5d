#ifndef EMPLACE_DATASETS_INFERENCE_SPLIT_CHANGES_H_
#define EMPLACE_DATASETS_INFERENCE_SPLIT_CHANGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/inference/inference_model.h"
#include "datasets/inference/inference_plan.h"
#include "sim/cluster.h"

namespace emplace::datasets {

// The cluster with one more device of a kind of the catalogue, or of its own kinds, in `machine`. Its memory is that of
// the kind, and its links are those of the machine's first accelerator; in a machine without one it has 80 % of a PCIe
// 4.0 x8 slot to the others there, and the links of the first of them to other machines. Throws InputError on a CPU and
// on a kind without rates or memory. Requires: `machine` is one of MachinesOf.
Cluster WithOneMore(const Cluster& cluster, const std::string& kind, const std::string& machine);

// The cluster with the bandwidth of the links between machines multiplied. Throws InputError on a factor that is not
// above 0, and where there is one machine.
Cluster WithNetworkTimes(const Cluster& cluster, double factor);

// What the fastest split over a changed cluster would be.
struct SplitChange {
  std::string name;
  std::optional<InferencePlan> plan;  // none: no split fits
  std::int64_t longest_context = 0;   // 0: none fits
};

// The answers to changes: KIND, one more such device in the machine that runs the model (`client`); OLD=NEW, devices of
// another kind; network=FACTOR, the bandwidth between machines; bandwidth=FACTOR, latency=FACTOR and memory=FACTOR of
// all links or devices; or `all`: one more of each accelerator that ships, the fastest first. Throws
// InputError("--what-if") on any other.
std::vector<SplitChange> AnswerChanges(const std::vector<std::string>& changes, const InferenceModel& model,
                                       const Cluster& cluster, const InferenceOptions& options,
                                       const std::string& client);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_SPLIT_CHANGES_H_
