#ifndef EMPLACE_DATASETS_PLANNER_FRAMEWORK_HABITS_H_
#define EMPLACE_DATASETS_PLANNER_FRAMEWORK_HABITS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// How a framework runs a step, beside what a TrainingSetup says of its memory. The numbers are fitted on measured steps
// (docs/results/plan.md says on which); each is the same for all networks, plans and clusters.
struct FrameworkHabits {
  std::string_view name;
  double kernel_share = 1;       // rate of products and attention, beside what the device sustains
  double grouped_share = 1;      // rate of experts' products in half precision, beside that of other products
  double elementwise = 1;        // bytes that ops other than products, attention and norms move, relative to fused ones
  double layer_host_micros = 0;  // host time of a layer's forward pass; its backward pass takes as much
  double tensor_host_share = 0;  // more of it for each further tensor-parallel rank
  // A pass takes (host^p + device^p)^(1/p), since the device waits for some kernels though it is behind with others;
  // with 0 the longer of both times.
  double host_exponent = 0;
  double tensor_overlap = 0;     // part of tensor-parallel collectives that runs beside products
  double gradient_overlap = 0;   // part of the last backward pass that the exchange of gradients runs beside
  double parameter_overlap = 0;  // the same of the forward pass, and the gathering of weights
  double message_micros = 0;     // host time of a message between stages
  // Host time of a layer's pass for each rank of its tensor-parallel group, where the pipeline has stages on several
  // nodes; times the square root of the nodes that the group is on.
  double pipeline_host_micros = 0;
  // Added to the exchange of gradients in jobs of 512 ranks and more.
  double large_job_micros = 0;
  // Added to each micro-batch for a hop between stages on several nodes, of at most two, in jobs of 512 ranks and more,
  // and with more than 8 micro-batches where replicas of a pipeline share no state of the optimizer (ZeRO 0) and are on
  // several nodes.
  double pipeline_delay_micros = 0;
  double gathers_of_layer = 0;     // collectives that gather a layer's weights after the step; 0: none of its own
  double network_step_micros = 0;  // see CollectiveMicros
  double network_share = 1;        // bandwidth between nodes that collectives reach
  double step_micros = 0;          // of each step
  // How much longer a step takes whose allocator would reserve more than the device has, so that it frees what it
  // holds, and tries again.
  double retry_factor = 1;
  // Sequence parallelism keeps a part of the inputs of products, which the backward pass gathers again.
  bool gathers_inputs_again = true;
  bool fuses_weight_gradients = true;  // a weight's gradient is added to the buffer of gradients in the product
  bool sends_once_to_nodes = false;    // a token to experts of one node crosses the network once
  bool has_hopper_attention = true;    // FlashAttention-3 or cuDNN's kernels on H100 and H200; else FlashAttention-2

  // Which plans it can run.
  std::vector<std::int64_t> zero = {0, 1};  // ZeRO's stages
  bool has_tensor_parallel = true;
  bool has_pipelines = true;
  bool shards_in_pipelines = false;  // ZeRO 2 and 3 with several stages
  // Names of plans' schedules that it has. All but gpipe are tried, which takes as long as 1f1b and needs more memory.
  std::vector<std::string_view> schedules = {"1f1b", "interleaved"};
  bool has_adapters = true;   // that are modelled
  bool joins_modules = true;  // queries, keys and values are one product, and gate and up another
  bool has_context_parallel = true;
  bool recomputes = true;
  bool recomputes_layers = true;                            // some of a stage
  bool orders_ranks = true;                                 // pipelines inside of data parallelism too
  bool balances_stages = true;                              // else by a rule of its own
  TrainingFramework memory = TrainingFramework::kMegatron;  // whose model of memory answers
};
// Null if there is none of that name.
const FrameworkHabits* FindFrameworkHabits(std::string_view name);
std::vector<std::string_view> FrameworkNames();
// Throws InputError(place) that lists the names.
const FrameworkHabits& NamedFramework(const std::string& name, const std::string& place);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_FRAMEWORK_HABITS_H_
