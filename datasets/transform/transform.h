#ifndef EMPLACE_DATASETS_TRANSFORM_TRANSFORM_H_
#define EMPLACE_DATASETS_TRANSFORM_TRANSFORM_H_

#include <cstdint>
#include <string>

#include "sim/graph.h"

namespace emplace::datasets {

// How a training step is spread over ranks, and what it computes twice. Applied in this order.
struct TransformOptions {
  // Forward ops that are run again before their gradients, so that their results need not be kept: "full": each block
  // from its input; "selective": scores, softmax, dropout and context of each attention (Korthikanti et al. 2022,
  // "Reducing activation recomputation in large Transformer models", 5); or names of layers with commas, those in full.
  std::string recompute = {};
  // Attention, MLP, embeddings and logits of `gpt` and `bert` are split between this many ranks (Shoeybi et al. 2019,
  // "Megatron-LM", 3).
  std::int64_t tensor_parallel = 1;
  // The experts of `gpt` are divided between this many ranks, each with a batch of its own (Lepikhin et al. 2020,
  // "GShard", 3).
  std::int64_t expert_parallel = 1;
  // This many replicas, each with a batch of its own; gradients are summed in buckets (Li et al. 2020, "PyTorch
  // Distributed", 3.2), and with shard_optimizer each replica updates a share (Rajbhandari et al. 2020, "ZeRO", stage
  // 1).
  std::int64_t data_parallel = 1;
  double bucket_mib = 25;
  bool shard_optimizer = false;

  bool operator==(const TransformOptions&) const = default;
  bool ChangesSomething() const { return *this != TransformOptions{}; }

  static void Fields(auto& visit, auto& self) {
    const TransformOptions none;
    visit("recompute", self.recompute,
          {.optional = true,
           .written = !self.recompute.empty(),
           .allowed = "full, selective or names of layers",
           .not_empty = true});
    constexpr std::int64_t kMost = 65536;
    visit("tensor_parallel", self.tensor_parallel,
          {.optional = true, .written = self.tensor_parallel != none.tensor_parallel, .most = kMost});
    visit("expert_parallel", self.expert_parallel,
          {.optional = true, .written = self.expert_parallel != none.expert_parallel, .most = kMost});
    visit("data_parallel", self.data_parallel,
          {.optional = true, .written = self.data_parallel != none.data_parallel, .most = kMost});
    visit("bucket_mib", self.bucket_mib,
          {.optional = true, .written = self.bucket_mib != none.bucket_mib, .low = 0, .high = 1e6});
    visit("shard_optimizer", self.shard_optimizer, {.optional = true, .written = self.shard_optimizer});
  }
};

// The graph of all ranks. A rank's ops have "r<replica>/" and "t<part>/" in front of their names, each where there are
// several; collectives have one op for each rank, with attr `group` (docs/formats.md). Linear in the ops of the result.
// Throws InputError, its place the option, if the graph is not one that can be changed so, or has been changed before.
Graph Transform(const Graph& graph, const TransformOptions& options);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_TRANSFORM_TRANSFORM_H_
