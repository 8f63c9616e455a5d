#ifndef EMPLACE_DATASETS_SYNTHETIC_SHAPES_H_
#define EMPLACE_DATASETS_SYNTHETIC_SHAPES_H_

#include <string>

#include "datasets/synthetic/registry.h"
#include "sim/base/options.h"

// One function for each row of the registry, which describes the shapes. All throw InputError on bad options.
namespace emplace::datasets {

SyntheticGraph MakeChains(OptionReader& reader, std::string name);
SyntheticGraph MakeIndependent(OptionReader& reader, std::string name);
SyntheticGraph MakeForkJoin(OptionReader& reader, std::string name);
SyntheticGraph MakeTree(OptionReader& reader, std::string name);
SyntheticGraph MakeLayered(OptionReader& reader, std::string name);
SyntheticGraph MakeGrid(OptionReader& reader, std::string name);
SyntheticGraph MakeTransformer(OptionReader& reader, std::string name);
SyntheticGraph MakeButterfly(OptionReader& reader, std::string name);
SyntheticGraph MakeElimination(OptionReader& reader, std::string name);

// Ops of known devices, which are busy from 0 to the end, so the step time is (sum of times) / devices and optimal.
// An op that follows another one on its device reads it; some ("breaks_percent") read one of another device instead.
// More edges join devices ("cross_percent"). Each op sends to at most one other device, and what it sends may take up
// to min_us, latency and gap included, and its reader starts no sooner than that after its end. So the order on each
// device is the planned one and no transfer is waited for, if an op's output takes at most min_us on the slowest link
// and devices have no op gap.
SyntheticGraph MakePlanted(OptionReader& reader, std::string name);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_SYNTHETIC_SHAPES_H_
