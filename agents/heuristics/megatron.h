#ifndef EMPLACE_AGENTS_HEURISTICS_MEGATRON_H_
#define EMPLACE_AGENTS_HEURISTICS_MEGATRON_H_

#include <cstdint>
#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

struct MegatronOptions {
  std::int64_t pipeline = 0;  // stage devices of each pipeline; 0: as many as there are accelerators for
  std::int64_t chunks = 1;    // stages of each
  bool fold = false;          // every second pass over the devices goes back
};

// The layers "block<k>", or "model.layers.<k>" with the modules in them, in equal runs, one for each stage; layers that
// come before the first block with the first stage, all others with the last. Ranks are those of the graph's metadata
// ("parallel"), as `emplace transform` writes them: tensor or expert parts on neighbouring accelerators, then replicas,
// then stages. A graph without such layers is placed by PlaceInBlocks. Throws InputError, its place "megatron", if
// there are not as many accelerators as ranks, or fewer blocks than stages. Source: Narayanan et al. 2021, "Efficient
// large-scale language model training on GPU clusters using Megatron-LM", section 2, and Megatron-LM's order of ranks,
// which puts tensor parallelism within a node.
Placement PlaceLikeMegatron(const Environment& env, const MegatronOptions& options);

// PlaceLikeMegatron with options of these names.
std::unique_ptr<Agent> MakeMegatronAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_MEGATRON_H_
