#ifndef EMPLACE_DATASETS_TRAINING_H_
#define EMPLACE_DATASETS_TRAINING_H_

#include <string>
#include <string_view>
#include <vector>

#include "datasets/builder.h"
#include "datasets/gradients.h"
#include "sim/base/options.h"

namespace emplace::datasets {

// How the variables are trained.
struct TrainingOptions {
  std::string optimizer = "sgd";  // one of OptimizerNames()
  // Scale all gradients down to a global norm, as Pascanu et al. 2013, algorithm 1, do for each tensor: half the
  // squared norm of each, one factor from all, one product each.
  bool clip_gradients = false;
  // Keep a running average a of each trained variable w for evaluation: a -= rate * (a - w) after each update.
  bool average_variables = false;
  // Mixed precision: weights and gradients are f16 or bf16, and an update keeps a copy of the weights and its state in
  // f32: with adam 2 + 2 + 12 bytes for each parameter. Sources: Micikevicius et al. 2018, "Mixed precision training",
  // 3.1; Rajbhandari et al. 2020, "ZeRO", 3.1.
  bool f32_masters = false;
};
// sgd, momentum, rmsprop, adam: kinds of the op catalogue, whose rows say the formulas.
const std::vector<std::string_view>& OptimizerNames();
// Declares "precision": f32, f16 or bf16, by default `precision`. Those that are not f32 need
// TrainingOptions::f32_masters.
DType ReadPrecision(OptionReader& reader, DType precision = DType::kF32);
// Declares "optimizer", and "clip_gradients" and "average_variables" for networks whose defaults in *options have them.
void ReadTrainingOptions(OptionReader& reader, TrainingOptions* options);

// Adds the update ops of variables whose gradients the network has already, and builds the graph.
Graph BuildUpdatedGraph(NetworkBuilder& net, const std::vector<VariableGradient>& gradients,
                        const TrainingOptions& options);

// Adds the backward ops of `loss` and the update op of each trainable variable, and builds the graph of one training
// step. An update is colocated with its variable, holds the optimiser's state as persistent bytes, and belongs to the
// variable's layer; the clipping factor belongs to the loss's. *unreached gets the trainable variables that do not
// reach the loss, which are not updated. Requires: there are none, if `unreached` is null.
Graph BuildTrainingGraph(NetworkBuilder& net, Value loss, const TrainingOptions& options,
                         std::vector<Value>* unreached = nullptr);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_TRAINING_H_
