#include <algorithm>
#include <string>

#include "agents/agent.h"
#include "agents/heuristics/annealing.h"
#include "agents/heuristics/baechi.h"
#include "agents/heuristics/baselines.h"
#include "agents/heuristics/dp_contiguous.h"
#include "agents/heuristics/heft.h"
#include "agents/heuristics/local_search.h"
#include "agents/heuristics/megatron.h"
#include "agents/heuristics/multilevel_search.h"
#include "agents/heuristics/partitioners.h"
#include "agents/heuristics/pipedream.h"
#include "agents/heuristics/random.h"
#include "agents/python/python_agent.h"
#include "agents/rl/doppler/doppler.h"
#include "agents/rl/placeto/placeto.h"
#include "agents/rl/planner/planner.h"
#include "agents/rl/post/post.h"
#include "agents/rl/sgdp/sgdp.h"
#include "sim/base/registry.h"

namespace emplace::agents {
namespace {

// In graphs with more ops, annealing and post find faster placements of groups: docs/agents.md, "Settings by agent". An
// episode of doppler then takes long.
constexpr std::size_t kMostOpsToSearchSingly = 1000;

}  // namespace

std::span<const AgentEntry> AllAgents() {
  static constexpr AgentEntry kAgents[] = {
      {.name = "single_device",
       .summary = "Everything on the fastest accelerator.",
       .source = "Mirhoseini et al. 2018, 3.1 (GPU Only)",
       .make = MakeSingleDeviceAgent},
      {.name = "cpu_only",
       .summary = "Everything on the CPU.",
       .source = "Mirhoseini et al. 2018, 3.1 (CPU Only)",
       .make = MakeCpuOnlyAgent,
       .needs_cpu = true},
      {.name = "expert",
       .summary = "A practitioner's placement: by recurrent layer, else one accelerator, else blocks of layers.",
       .source = "Mirhoseini et al. 2018, 3.1; Gao et al. 2018, 4",
       .make = MakeExpertAgent},
      {.name = "random",
       .summary = "Every group on a random accelerator.",
       .source = "baseline",
       .make = MakeRandomAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 100},
      {.name = "round_robin",
       .summary = "Groups in topological order, on each accelerator in turn.",
       .source = "baseline",
       .make = MakeRoundRobinAgent,
       .grouping = "merge_and_colocate"},
      {.name = "blocks",
       .summary = "The topological order cut into blocks of equal time.",
       .source = "baseline; Jeon et al. 2020 (m-TOPO by time)",
       .make = MakeBlocksAgent},
      {.name = "metis",
       .summary = "METIS: a balanced minimum cut, one part per accelerator.",
       .source = "Karypis and Kumar 1998; Gao et al. 2018, 4 (Metis)",
       .make = MakeMetisAgent},
      {.name = "scotch",
       .summary = "Scotch: static mapping onto devices weighted by speed and links.",
       .source = "Pellegrini and Roman 1996; Mirhoseini et al. 2018, 3.1 (Scotch, MinCut)",
       .make = MakeScotchAgent},
      {.name = "m_topo",
       .summary = "Accelerators filled one after the other, each up to a share of its memory.",
       .source = "Jeon et al. 2020 (m-TOPO)",
       .make = MakeMTopoAgent},
      {.name = "m_etf",
       .summary = "Earliest time first, within memory.",
       .source = "Jeon et al. 2020 (m-ETF)",
       .make = MakeMEtfAgent},
      {.name = "m_sct",
       .summary = "Earliest time first that waits for favourite children, within memory.",
       .source = "Jeon et al. 2020 (m-SCT)",
       .make = MakeMSctAgent,
       .max_ops = kMaxGroupsOfMSct},
      {.name = "heft",
       .summary = "Heterogeneous earliest finish time with insertion.",
       .source = "Topcuoglu et al. 2002",
       .make = MakeHeftAgent},
      {.name = "dp_contiguous",
       .summary = "The contiguous split that minimises the largest load: for pipelines, not single steps.",
       .source = "Tarnawski et al. 2020 (dnn-partitioning, throughput)",
       .make = MakeDpContiguousAgent,
       .refuses_some = true},
      {.name = "megatron",
       .summary = "Transformer blocks in equal stages; ranks of `emplace transform` on neighbouring devices.",
       .source = "Narayanan et al. 2021 (Megatron-LM)",
       .make = MakeMegatronAgent,
       .refuses_some = true},
      {.name = "pipedream",
       .summary = "PipeDream's planner: a chain of layers in stages, hierarchical links; replicas are only reported.",
       .source = "Narayanan et al. 2019 (PipeDream), 3.1",
       .make = MakePipeDreamAgent,
       .refuses_some = true},
      {.name = "multilevel_search",
       .summary = "The best one-shot placement, improved by moves of many sizes on the critical chain.",
       .source = "ours; Karypis and Kumar 1998 (levels)",
       .make = MakeMultilevelSearchAgent,
       .default_evaluations = 5000,
       .batch = kMultilevelBatch,
       .keeps_times = true},
      {.name = "local_search",
       .summary = "Hill climbing: each group in turn tries every device.",
       .source = "baseline",
       .make = MakeLocalSearchAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 5000,
       .may_end = true,
       .keeps_times = true},
      {.name = "annealing",
       .summary = "Simulated annealing over the budget.",
       .source = "Kirkpatrick et al. 1983",
       .make = MakeAnnealingAgent,
       .max_ops = kMostOpsToSearchSingly,
       .default_evaluations = 5000,
       .keeps_times = true},
      {.name = "random_walk",
       .summary = "The search protocol of the thesis with random actions: a control for learning agents.",
       .source = "Mitropolitsky et al. 2020, 4.1.3",
       .make = MakeRandomWalkAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 5000,
       .may_end = true},
      {.name = "placeto",
       .summary = "A policy that moves one group at a time, with message passing over the whole graph.",
       .source = "Addanki et al. 2019 (Placeto), appendix A",
       .make = MakePlacetoAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 5000,
       .reward = "log_memory_penalty"},
      {.name = "graphsage",
       .summary = "Placeto with GraphSAGE as its graph embedding.",
       .source = "Mitropolitsky 2020, 3.3.1; Hamilton et al. 2017",
       .make = MakeGraphSageAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 5000,
       .reward = "log_memory_penalty"},
      {.name = "pgnn",
       .summary = "Placeto with P-GNN, which encodes positions of groups, as its graph embedding.",
       .source = "Mitropolitsky 2020, 3.3.2; You et al. 2019",
       .make = MakePGnnAgent,
       .grouping = "merge_and_colocate",
       .default_evaluations = 5000,
       .reward = "log_memory_penalty"},
      {.name = "hierarchical",
       .summary = "One network assigns ops to groups, and another one places the groups, one after the other.",
       .source = "Mirhoseini et al. 2018 (Hierarchical Planner)",
       .make = MakeHierarchicalAgent,
       .default_evaluations = 4000,
       .reward = "sqrt",
       .needs_torch = true},
      {.name = "coloc_rl",
       .summary = "A sequence-to-sequence network that places the groups one after the other.",
       .source = "Mirhoseini et al. 2017 (ColocRL); Addanki et al. 2019 (Placeto), A.7 (its RNN)",
       .make = MakeColocRlAgent,
       .grouping = "colocation",
       .max_ops = 2000,
       .default_evaluations = 4000,
       .reward = "sqrt",
       .needs_torch = true},
      {.name = "post",
       .summary = "A distribution for each group, updated by proximal policy optimisation and cross-entropy.",
       .source = "Gao et al. 2018 (Post)",
       .make = MakePostAgent,
       .max_ops = kMostOpsToSearchSingly,
       .default_evaluations = 2400},
      {.name = "sgdp",
       .summary = "A graph network and a transformer that place all ops at once; one policy for many graphs.",
       .source = "Zhou et al. 2020 (SGDP)",
       .make = MakeSgdpAgent,
       .default_evaluations = 800,
       .reward = "sqrt",
       .needs_torch = true},
      {.name = "doppler",
       .summary = "Two policies, which choose the next group and its device; they first imitate the critical path.",
       .source = "Yao et al. 2026 (DOPPLER)",
       .make = MakeDopplerAgent,
       .max_ops = kMostOpsToSearchSingly,
       .default_evaluations = 2400},
  };
  return kAgents;
}

const AgentEntry& FindAgent(std::string_view name) {
  return IsPythonAgent(name) ? FindPythonAgent(name) : FindByName(AllAgents(), name, "agent");
}

bool RunsOn(const AgentEntry& entry, const Cluster& cluster) {
  return !entry.needs_cpu || std::ranges::any_of(cluster.devices(), [](const Device& device) { return device.is_cpu; });
}

bool IsQuick(const AgentEntry& entry, std::size_t num_groups) {
  constexpr std::size_t kMostGroupsOfSlowAgents = 1000;
  return entry.max_ops == 0 || num_groups <= kMostGroupsOfSlowAgents;
}

std::string_view DefaultGrouping(const AgentEntry& entry, std::size_t num_ops) {
  return entry.max_ops != 0 && num_ops > entry.max_ops ? "merge_and_colocate" : entry.grouping;
}

std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context) {
  OptionReader reader(options, std::string(name));
  return FindAgent(name).make(reader, context);
}

}  // namespace emplace::agents
