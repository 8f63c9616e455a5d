#include "datasets/planner/framework_habits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"

namespace emplace::datasets {
namespace {

std::vector<FrameworkHabits> MakeAllHabits() {
  std::vector<FrameworkHabits> habits = {
      {.name = "megatron",
       .elementwise = 2.6,
       .layer_host_micros = 1600,
       .tensor_host_share = 0.04,
       .host_exponent = 4,
       .gradient_overlap = 0.9,
       .parameter_overlap = 0.9,
       .message_micros = 50},
      {.name = "nanotron",
       .elementwise = 0.5,
       .layer_host_micros = 2078,
       .message_micros = 1306,
       .pipeline_host_micros = 1086,
       .large_job_micros = 1.08e6,
       .pipeline_delay_micros = 0.58e6,
       .gathers_of_layer = 0.82,
       .network_step_micros = 28,
       .network_share = 0.66,
       .step_micros = 57000,
       .retry_factor = 3,
       .fuses_weight_gradients = false,
       .has_hopper_attention = false,
       .schedules = {"1f1b"},
       .has_adapters = false,
       .has_context_parallel = false,
       .recomputes = false,
       .orders_ranks = false,
       .balances_stages = false,
       .memory = TrainingFramework::kNanotron},
  };
  // NVIDIA's recipes of 2025 and 2026 for Megatron-LM: Megatron-Bridge's and those of MLPerf.
  FrameworkHabits bridge = habits[0];
  bridge.name = "megatron-bridge";
  bridge.grouped_share = 0.57;
  bridge.tensor_overlap = 0.76;
  bridge.sends_once_to_nodes = true;  // DeepEP and HybridEP
  habits.push_back(std::move(bridge));
  FrameworkHabits fsdp = {.name = "fsdp",
                          .kernel_share = 0.92,
                          .elementwise = 0.58,
                          .layer_host_micros = 190,
                          .gradient_overlap = 0.5,
                          .parameter_overlap = 0.3,
                          .network_step_micros = 22,
                          .network_share = 0.33,
                          .step_micros = 64000,
                          .gathers_inputs_again = false,
                          .fuses_weight_gradients = false,
                          .has_hopper_attention = false,
                          .zero = {2, 3},
                          .has_tensor_parallel = false,
                          .has_pipelines = false,
                          .schedules = {"1f1b"},
                          .joins_modules = false,
                          .has_context_parallel = false,
                          .orders_ranks = false};
  FrameworkHabits torchtitan = fsdp;
  torchtitan.name = "torchtitan";
  torchtitan.zero = {3};
  torchtitan.has_tensor_parallel = torchtitan.has_pipelines = torchtitan.shards_in_pipelines = true;
  torchtitan.schedules = {"1f1b", "interleaved", "gpipe", "zb-v"};
  torchtitan.has_context_parallel = true;
  torchtitan.has_adapters = false;
  torchtitan.recomputes_layers = false;
  torchtitan.memory = TrainingFramework::kTorchtitan;
  FrameworkHabits pytorch = torchtitan;  // its DDP, fully_shard, parallelize_module and pipelining
  pytorch.name = "pytorch";
  pytorch.zero = {0, 1, 2, 3};
  pytorch.recomputes_layers = true;
  pytorch.has_adapters = true;
  pytorch.has_context_parallel = false;
  pytorch.step_micros = 0;  // FSDP's is of large Transformers
  pytorch.memory = TrainingFramework::kMegatron;
  FrameworkHabits deepspeed = fsdp;  // nothing measured is at hand
  deepspeed.name = "deepspeed";
  deepspeed.zero = {0, 1, 2, 3};
  habits.push_back(std::move(fsdp));
  habits.push_back(std::move(deepspeed));
  habits.push_back(std::move(torchtitan));
  habits.push_back(std::move(pytorch));
  return habits;
}

const std::vector<FrameworkHabits>& AllHabits() {
  static const std::vector<FrameworkHabits> habits = MakeAllHabits();
  return habits;
}

}  // namespace

const FrameworkHabits* FindFrameworkHabits(std::string_view name) {
  const auto found = std::ranges::find(AllHabits(), name, &FrameworkHabits::name);
  return found == AllHabits().end() ? nullptr : &*found;
}

std::vector<std::string_view> FrameworkNames() {
  std::vector<std::string_view> names;
  for (const FrameworkHabits& habits : AllHabits()) names.push_back(habits.name);
  return names;
}

const FrameworkHabits& NamedFramework(const std::string& name, const std::string& place) {
  if (const FrameworkHabits* const habits = FindFrameworkHabits(name)) return *habits;
  const std::vector<std::string_view> names = FrameworkNames();
  throw InputError(place, fmt::format("is {} ({}){}", Quoted(name), fmt::join(names, ", "),
                                      DidYouMean(name, std::vector<std::string>(names.begin(), names.end()))));
}

}  // namespace emplace::datasets
