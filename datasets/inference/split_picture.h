#ifndef EMPLACE_DATASETS_INFERENCE_SPLIT_PICTURE_H_
#define EMPLACE_DATASETS_INFERENCE_SPLIT_PICTURE_H_

#include <iosfwd>
#include <string>

#include "datasets/inference/inference_plan.h"
#include "sim/cluster.h"

namespace emplace::datasets {

// A split as a picture (SVG, 960 wide): a row for each device, with its layers at their time in a pass on the left, and
// on the right what they hold of its memory: weights, caches, buffers, and on the client's CPU the embedding and the
// experts of other devices. Devices without a limit have the scale of what they hold.
void WriteSplitSvg(std::ostream& out, const InferencePlan& plan, const Cluster& cluster, const std::string& title);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_SPLIT_PICTURE_H_
