#ifndef EMPLACE_AGENTS_AGENT_H_
#define EMPLACE_AGENTS_AGENT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agents/environment.h"
#include "sim/base/check.h"
#include "sim/base/options.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

enum class Mode : std::uint8_t { kExplore, kExploit };

// The placements of one graph that an agent asks to have evaluated next.
struct Proposal {
  std::vector<Placement> placements;  // at least one: a device per group of env.observation()
  // False: they only measure the policy, as the argmax episodes of the thesis's protocol do, and none of them may
  // become the best placement of the search.
  bool may_be_best = true;
  // True: the episode continues after them. Until it ends, the agent must not be saved, and the next proposal must be
  // for the same graph.
  bool episode_continues = false;
};

// A summary of one episode of a learning agent, for learning curves.
struct EpisodeRecord {
  std::size_t episode = 0;                 // of its graph, counted from 0
  std::size_t evaluations = 0;             // on its graph so far
  bool argmax = false;                     // no sampling and no learning: an evaluation of the policy
  double final_micros = 0;                 // step time of the placement that it ended with
  double best_micros = 0;                  // the shortest step time in it
  std::optional<double> mean_micros = {};  // of placements drawn from the policy as it was, whether they fit or not
  double entropy = 0;  // of the policy, in [0, 1]: mean over steps of H / log(number of devices to choose from)
  bool operator==(const EpisodeRecord&) const = default;
};

// Searches for placements with a short step time. The caller owns the loop (agents/search.h):
//   proposal = agent.Propose(env, mode, rng);
//   outcomes = env.Evaluate(proposal.placements);        // in parallel, as if one after another
//   agent.Observe(env, proposal.placements, outcomes);
class Agent {
 public:
  virtual ~Agent() = default;

  // The next placements to try. kExplore goes on with the search, kExploit takes the best known. All randomness comes
  // from `rng`.
  virtual Proposal Propose(const Environment& env, Mode mode, Rng& rng) = 0;

  // The outcomes of the last proposal. Called exactly once per explored Propose(). A `batch` that the budget cut short
  // is the graph's last. Returns the episodes that ended with it.
  virtual std::vector<EpisodeRecord> Observe(const Environment&, std::span<const Placement> /*batch*/,
                                             std::span<const Outcome>) {
    return {};
  }

  // True once further proposals would bring nothing new: a heuristic that has proposed its one placement, a search in
  // a local optimum.
  virtual bool Finished() const { return false; }

  // Everything needed to go on as if never stopped, except the Rng, which the checkpoint holds. Load() throws
  // InputError on data that Save() did not write.
  virtual void Save(std::ostream& out) const = 0;
  virtual void Load(std::istream& in) = 0;

  // What outcomes must hold beside the step time: start times, peak memory.
  virtual EvaluationNeeds Needs() const { return {}; }

  // A policy is what was learned, without the rest of what Save() holds, to be applied to other graphs. After
  // LoadPolicy() the agent applies it without training, unless its options say otherwise. Both throw InputError if the
  // agent has no policy, LoadPolicy() also on one of another shape.
  virtual bool HasPolicy() const { return false; }
  virtual void SavePolicy(std::ostream&) const { throw InputError("", "this agent has no policy to save"); }
  virtual void LoadPolicy(std::istream&) { throw InputError("", "this agent has no policy to load"); }
  // A policy was loaded and is not trained: Finished() once it was applied, whatever the budget.
  virtual bool OnlyApplies() const { return false; }
};

// What an agent is made for.
struct AgentContext {
  std::size_t evaluations = 0;       // the budget of the whole search on each graph: annealing cools over it
  std::size_t episodes = 0;          // instead, if not 0: changes of every group that the budget allows
  std::size_t num_graphs = 1;        // on which it learns together
  std::string torch_device = "cpu";  // where its gradients are computed: cpu or cuda
};

// The whole registration of an agent is its row in registry.cc.
struct AgentEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Throws InputError on unknown or bad options. Declares its options to `reader` and calls reader.Finish().
  std::unique_ptr<Agent> (*make)(OptionReader& reader, const AgentContext& context);
  std::string_view grouping = "identity";  // default grouper,
  std::size_t max_ops = 0;                 // of graphs with more ops the default is merge_and_colocate; 0: no bound
  std::size_t default_evaluations = 1;     // default budget; 1 for a heuristic with one answer
  bool needs_cpu = false;                  // can propose nothing on a cluster without a CPU
  std::string_view reward = "runtime";     // default: what it maximises
};
// The default grouper of an agent for a graph of `num_ops`.
std::string_view DefaultGrouping(const AgentEntry& entry, std::size_t num_ops);
std::span<const AgentEntry> AllAgents();
// Throws InputError that lists the known names.
const AgentEntry& FindAgent(std::string_view name);
std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_AGENT_H_
