#ifndef EMPLACE_DATASETS_EXPORTERS_MODULE_PLACEMENT_H_
#define EMPLACE_DATASETS_EXPORTERS_MODULE_PLACEMENT_H_

#include <span>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// A module with all that is below it; or a weight of a module whose parts are on several devices.
struct ModuleDevice {
  std::string path;  // "" is the whole model
  DeviceId device = {};
};

// A placement of whole modules as the fewest paths: every module of the model, and every tensor of its state_dict, is
// below one of them. In the model's order.
//
// Throws InputError where a framework cannot apply the placement: its place is the module, and the message names the
// devices that it is divided over, or those of two modules that share a weight.
std::vector<ModuleDevice> ModuleDevices(const Graph& graph, const Cluster& cluster, const Placement& placement);

// The placement that gives each module the device of its longest path among `modules`. Throws InputError at a module
// that has none, and at one that frameworks keep whole and the paths divide.
Placement PlaceModules(const Graph& graph, const Cluster& cluster, std::span<const ModuleDevice> modules);

// A part of a model that runs as one stage of a pipeline.
struct ModuleStage {
  DeviceId device = {};
  std::vector<std::string> modules;  // numbered blocks and the modules around them, in the order in which they run
  std::string first;                 // the path of the first module that runs in it
};

// A placement of whole modules as stages, in the order in which they run, one for each device in use. Throws as
// ModuleDevices, and where devices take turns, so that one would have more than one stage.
std::vector<ModuleStage> ModuleStages(const Graph& graph, const Cluster& cluster, const Placement& placement);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_MODULE_PLACEMENT_H_
