#ifndef EMPLACE_DATASETS_PLANNER_GRAPH_NETWORK_H_
#define EMPLACE_DATASETS_PLANNER_GRAPH_NETWORK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/memory/module_network.h"
#include "datasets/memory/training_setup.h"
#include "datasets/models/transformer.h"
#include "datasets/parallel_plan.h"
#include "sim/graph.h"

namespace emplace::datasets {

// What plans need to know of a training step that was captured or imported from PyTorch, or that has the paths of
// modules as its layers.
struct GraphNetwork {
  Graph graph;
  // Paths of the numbered modules in the order in which they run, such as model.layers.0; where there are none, of all
  // modules that have no others. Plans divide a network between these.
  std::vector<std::string> layers;
  std::vector<std::string> before;  // modules that run before the first of them
  std::vector<std::string> after;   // and those that run after the last
  std::int64_t batch = 1;           // samples of the step
  std::int64_t sequence = 1;        // tokens of each; 1 where `modules` is set
  // The Transformer whose weights and products are those of the graph. If there is none, its work is that of
  // `modules`, whose number, and into how many parts tensor parallelism can divide them, is all that `network` says.
  TransformerNetwork network;
  std::shared_ptr<const ModuleNetwork> modules;
  std::string why_modules;  // why it is no Transformer that has formulas
};

// Throws InputError(graph name) on a graph without paths of modules, and on one that is no such Transformer and has no
// backward pass.
GraphNetwork ReadGraphNetwork(const Graph& graph);

// The graph in a file of that name: a graph.json, or a .pt2 of torch.export, which is trained with Adam. Nullopt if it
// is no such file: the name of a network, or a config.json.
std::optional<Graph> FindGraphFile(const std::string& name);

// Makes the setup of a plan for `network.network` one of its modules. Requires: network.modules.
void UseModules(const GraphNetwork& network, TrainingSetup* setup);

// The plan with paths of modules for the numbers of layers in its stages, and back. What is no layer has no number.
ParallelPlan WithPaths(const GraphNetwork& network, ParallelPlan plan);
ParallelPlan WithNumbers(const GraphNetwork& network, ParallelPlan plan);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_GRAPH_NETWORK_H_
