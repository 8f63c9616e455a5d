#include <array>
#include <string>

#include "agents/agent.h"
#include "agents/heuristics/annealing.h"
#include "agents/heuristics/blocks.h"
#include "agents/heuristics/cpu_only.h"
#include "agents/heuristics/expert.h"
#include "agents/heuristics/heft.h"
#include "agents/heuristics/local_search.h"
#include "agents/heuristics/m_etf.h"
#include "agents/heuristics/m_sct.h"
#include "agents/heuristics/m_topo.h"
#include "agents/heuristics/metis.h"
#include "agents/heuristics/random.h"
#include "agents/heuristics/random_walk.h"
#include "agents/heuristics/round_robin.h"
#include "agents/heuristics/scotch.h"
#include "agents/heuristics/single_device.h"
#include "agents/rl/placeto/placeto.h"
#include "agents/rl/planner/planner.h"
#include "agents/rl/post/post.h"
#include "agents/rl/sgdp/sgdp.h"
#include "sim/base/check.h"

namespace emplace {

std::span<const AgentEntry> AllAgents() {
  static constexpr AgentEntry kAgents[] = {
      {"single_device", "Everything on the fastest accelerator.", "Mirhoseini et al. 2018, 3.1 (GPU Only)", "identity",
       1, MakeSingleDeviceAgent},
      {"cpu_only", "Everything on the CPU.", "Mirhoseini et al. 2018, 3.1 (CPU Only)", "identity", 1, MakeCpuOnlyAgent,
       0, true},
      {"expert", "What a practitioner would do: by recurrent layer, else one accelerator, else layer blocks.",
       "Mirhoseini et al. 2018, 3.1; Gao et al. 2018, 4", "identity", 1, MakeExpertAgent},
      {"random", "Every group on a random accelerator.", "baseline", "merge_and_colocate", 100, MakeRandomAgent},
      {"round_robin", "Groups in topological order on the accelerators in turn.", "baseline", "merge_and_colocate", 1,
       MakeRoundRobinAgent},
      {"blocks", "The topological order cut into blocks of equal time.", "baseline; Jeon et al. 2020 (m-TOPO by time)",
       "identity", 1, MakeBlocksAgent},
      {"metis", "METIS: a balanced cut of few bytes, one part per accelerator.",
       "Karypis and Kumar 1998; Gao et al. 2018, 4 (Metis)", "identity", 1, MakeMetisAgent},
      {"scotch", "Scotch: static mapping onto devices weighted by speed and links.",
       "Pellegrini and Roman 1996; Mirhoseini et al. 2018, 3.1 (Scotch, MinCut)", "identity", 1, MakeScotchAgent},
      {"m_topo", "Accelerators filled one after the other up to a share of memory.", "Jeon et al. 2020 (m-TOPO)",
       "identity", 1, MakeMTopoAgent},
      {"m_etf", "Earliest time first, within memory.", "Jeon et al. 2020 (m-ETF)", "identity", 1, MakeMEtfAgent},
      {"m_sct", "Earliest time first that waits for favourite children, within memory.", "Jeon et al. 2020 (m-SCT)",
       "identity", 1, MakeMSctAgent, kMaxGroupsOfMSct},
      {"heft", "Heterogeneous earliest finish time with insertion.", "Topcuoglu et al. 2002", "identity", 1,
       MakeHeftAgent},
      {"local_search", "Hill climbing: each group in turn tries every device.", "baseline", "merge_and_colocate", 5000,
       MakeLocalSearchAgent},
      {"annealing", "Simulated annealing over the budget.", "Kirkpatrick et al. 1983", "merge_and_colocate", 5000,
       MakeAnnealingAgent},
      {"random_walk", "The thesis's search protocol with uniform actions: its missing control.",
       "Mitropolitsky et al. 2020, 4.1.3", "merge_and_colocate", 5000, MakeRandomWalkAgent},
      {"placeto", "A policy moves one group at a time; message passing over the whole graph.",
       "Addanki et al. 2019 (Placeto), appendix A", "merge_and_colocate", 5000, MakePlacetoAgent, 0, false,
       "log_memory_penalty"},
      {"graphsage", "Placeto with GraphSAGE as its graph embedding.", "Mitropolitsky 2020, 3.3.1; Hamilton et al. 2017",
       "merge_and_colocate", 5000, MakeGraphSageAgent, 0, false, "log_memory_penalty"},
      {"pgnn", "Placeto with P-GNN, which knows where a group stands, as its graph embedding.",
       "Mitropolitsky 2020, 3.3.2; You et al. 2019", "merge_and_colocate", 5000, MakePGnnAgent, 0, false,
       "log_memory_penalty"},
      {"hierarchical", "A network puts ops into groups, another the groups on devices, one after the other.",
       "Mirhoseini et al. 2018 (Hierarchical Planner)", "identity", 4000, MakeHierarchicalAgent, 0, false, "sqrt"},
      {"coloc_rl", "A network reads the groups as a sequence and puts them on devices, one after the other.",
       "Mirhoseini et al. 2017 (ColocRL); Addanki et al. 2019 (Placeto), A.7 (its RNN)", "colocation", 4000,
       MakeColocRlAgent, 2000, false, "sqrt"},
      {"post", "A distribution for each group, moved by proximal policy optimisation and cross-entropy in turn.",
       "Gao et al. 2018 (Post)", "merge_and_colocate", 2400, MakePostAgent},
      {"sgdp", "A graph network and a transformer place all ops at once; one policy for many graphs.",
       "Zhou et al. 2020 (SGDP)", "identity", 800, MakeSgdpAgent, 0, false, "sqrt"},
  };
  return kAgents;
}

const AgentEntry& FindAgent(std::string_view name) {
  std::string known;
  for (const AgentEntry& entry : AllAgents()) {
    if (entry.name == name) return entry;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  throw InputError("", "unknown agent \"" + std::string(name) + "\" (" + known + ")");
}

std::string_view DefaultGrouping(const AgentEntry& entry, std::size_t num_ops) {
  return entry.max_ops != 0 && num_ops > entry.max_ops ? "merge_and_colocate" : entry.grouping;
}

std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context) {
  OptionReader reader(options, std::string(name));
  return FindAgent(name).make(reader, context);
}

}  // namespace emplace
