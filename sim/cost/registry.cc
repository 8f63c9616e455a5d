#include "sim/base/registry.h"
#include "sim/cost/cost_models.h"
#include "sim/cost/curves.h"
#include "sim/cost_model.h"

namespace emplace {

std::vector<CostModelEntry> AllCostModels() {
  return {
      {"measured", "The time_us in the graph.", "the graph's author", MakeMeasuredCostModel},
      {"roofline", "FLOP and bytes of each op against the device kind's peak rates.",
       "Williams, Waterman, Patterson 2009, Roofline: an insightful visual performance model", MakeRooflineCostModel},
      {"curves", "Curves of shape, type and device, fitted to measured kernels; roofline where there is none.",
       "datasets/devices, fitted to ai-dynamo/aiconfigurator and sitar-lab/NeuSight", MakeCurvesCostModel},
      {"profiled", "Measured times of a profile.json, by op signature.", "the profile's author", nullptr},
  };
}

std::unique_ptr<CostModel> MakeCostModel(std::string_view name) {
  std::vector<CostModelEntry> known = AllCostModels();
  std::erase_if(known, [](const CostModelEntry& entry) { return entry.make == nullptr; });
  return FindByName(known, name, "cost model").make();
}

}  // namespace emplace
