#ifndef EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_
#define EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "agents/features.h"
#include "agents/nn/network.h"
#include "agents/rl/placeto/returns.h"
#include "sim/base/options.h"

namespace emplace::agents {

enum class StartPlacement : std::uint8_t { kSingleDevice, kRandom, kRandomEach, kBest };
enum class TraversalOrder : std::uint8_t { kTopological, kRandom };

// Options of the agents placeto, graphsage and pgnn. The defaults of start, discount, learning rate and entropy weight
// are ours, the best of 13 combinations for placeto on one NMT graph. That is nmt_10 of the family of seed 42, on five
// K80s, with 200 episodes and seed 1. protocol=placeto selects those of the paper and its code. An episode changes a
// placement group by group; each group is placed `passes` times. A round is one episode of each worker, followed by one
// update.
struct PlacetoOptions {
  NetworkOptions network;  // `features` and `num_devices` are derived from the problem
  FeatureOptions features;
  std::size_t episodes = 0;  // rounds; 0: as many as the budget allows
  std::size_t passes = 1;    // Placeto A.7: n of 1 or 2
  TraversalOrder order = TraversalOrder::kTopological;
  StartPlacement start = StartPlacement::kBest;
  Credit credit = Credit::kIntermediate;
  double discount = 0.9;
  bool thesis_sign = false;
  std::size_t baseline_episodes = 10;  // Placeto A.7: k = 10
  double learning_rate = 3e-3;         // decayed linearly
  double final_learning_rate = 1e-3;
  double entropy_weight = 3e-3;
  double final_entropy_weight = 0;
  double entropy_decay = 0.6;  // share of the rounds over which the weight decreases to its final value
  double clip = 1.25;          // global norm; Placeto's code
  std::size_t workers = 1;
  std::size_t evaluate_every = 0;  // one round in this many, the first included, is an argmax episode; 0: none
  bool evaluation_counts = true;   // the best placement of the search may come from an argmax episode
  bool final_evaluation = true;    // the last round is an argmax episode from the standard start
  double output_scale = 1;         // factor on the initial weights of the last layer: 0.01 starts near uniform
  bool train = true;               // false: the weights keep their initial values, for comparison
  bool use_cpus = false;
  bool fine_tune = false;  // continue training a loaded policy
  bool autograd = false;   // compute gradients with LibTorch instead of the built-in kernels; always so on a GPU
};

// The options that a policy's network and features depend on, as one word.
std::string ShapeText(const PlacetoOptions& options);

// Reads the options of the agent with this embedding. `protocol` selects the settings of Placeto's paper (and of its
// code, where the paper gives none) or of the thesis's runs (section 4.1.3 and the published config). Other options
// override these.
PlacetoOptions ReadPlacetoOptions(OptionReader& reader, Embedding embedding);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_OPTIONS_H_
