#ifndef EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_
#define EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "agents/features.h"
#include "agents/nn/network.h"
#include "agents/rl/placeto/returns.h"
#include "sim/options.h"

namespace emplace {

enum class StartPlacement : std::uint8_t { kSingleDevice, kRandom, kRandomEach, kBest };
enum class TraversalOrder : std::uint8_t { kTopological, kRandom };

// Settings of the agents placeto, graphsage and pgnn. An episode changes a placement group by group, each placed
// `passes` times; a round is one episode of each worker, and one update.
struct PlacetoOptions {
  NetworkOptions network;  // `features` and `num_devices` follow from the problem
  FeatureOptions features;
  std::size_t episodes = 0;  // rounds; 0: as many as the budget allows
  std::size_t passes = 1;    // Placeto A.7: n of 1 or 2
  TraversalOrder order = TraversalOrder::kTopological;
  StartPlacement start = StartPlacement::kSingleDevice;
  Credit credit = Credit::kIntermediate;
  double discount = 1;
  bool thesis_sign = false;
  std::size_t baseline_episodes = 10;  // Placeto A.7: k = 10
  double learning_rate = 1e-3;         // Placeto A.7: between 1e-3 and 1e-4, decayed linearly
  double final_learning_rate = 1e-4;
  double entropy_weight = 0.1;
  double final_entropy_weight = 0;
  double entropy_decay = 0.6;  // share of the rounds over which the weight goes from first to last
  double clip = 1.25;          // global norm; Placeto's code
  std::size_t workers = 1;
  std::size_t evaluate_every = 0;   // every so many rounds, the first included, is an argmax episode; 0: none
  bool evaluation_counts = true;    // an argmax episode may find the search's best
  bool final_evaluation = true;     // the last round is an argmax episode from the standard start
  double output_scale = 1;          // factor on the initial weights of the last layer: 0.01 starts near uniform
  bool train = true;                // false: the weights stay as they were drawn, for comparison
  bool use_cpus = false;
  bool fine_tune = false;  // goes on training a loaded policy
  bool autograd = false;   // gradients by LibTorch instead of the plain kernels; always on a GPU
};

// Reads the options of the agent with this embedding. `protocol=thesis` sets what the thesis's runs had (agent
// options, 4.1.3 and the published config), which the others then change.
PlacetoOptions ReadPlacetoOptions(OptionReader& reader, Embedding embedding);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_
