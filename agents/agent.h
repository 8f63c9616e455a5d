#ifndef EMPLACE_AGENTS_AGENT_H_
#define EMPLACE_AGENTS_AGENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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

// The placements of one graph that an agent requests to be evaluated next.
struct Proposal {
  std::vector<Placement> placements;  // at least one: a device per group of env.observation()
  // False: the placements only measure the policy, as the argmax episodes of the thesis's protocol do. None of them may
  // become the best placement of the search.
  bool may_be_best = true;
  // True: the episode continues after these placements. Until it ends, the agent must not be saved, and the next
  // proposal must be for the same graph.
  bool episode_continues = false;
};

// Episodes without a record of their own (EpisodeHistory): their number and means, argmax episodes not counted. A mean
// is none where no episode has the value.
struct EpisodesLeftOut {
  std::size_t episodes = 0;
  std::optional<double> final_micros = {};
  std::optional<double> mean_micros = {};
  std::optional<double> entropy = {};
  std::optional<double> gradient_norm = {};
  bool operator==(const EpisodesLeftOut&) const = default;

  static void SavedFields(auto& state, auto& self) {
    state(self.episodes, self.final_micros, self.mean_micros, self.entropy, self.gradient_norm);
  }
};

// A summary of one episode of a learning agent, for learning curves.
struct EpisodeRecord {
  std::size_t episode = 0;                 // index within its graph, from 0
  std::size_t evaluations = 0;             // evaluations on its graph so far
  bool argmax = false;                     // neither sampling nor learning: an evaluation of the policy
  double final_micros = 0;                 // step time of the episode's last placement
  double best_micros = 0;                  // shortest step time in the episode
  std::optional<double> mean_micros = {};  // over placements sampled from the unchanged policy, fitting or not
  double entropy = 0;  // entropy of the policy in [0, 1]: mean over steps of H / log(number of devices to choose from)
  // Where the agent knows them:
  std::optional<double> gradient_norm = {};      // norm for the episode's last update, before clipping
  std::optional<double> grouper_entropy = {};    // like `entropy`, of a policy that also draws the groups
  std::optional<std::size_t> tied = {};          // decisions of an argmax placement with several most likely choices
  std::optional<EpisodesLeftOut> left_out = {};  // since the record before; none: every episode has one
  bool operator==(const EpisodeRecord&) const = default;

  static void SavedFields(auto& state, auto& self) {
    state(self.episode, self.evaluations, self.argmax, self.final_micros, self.best_micros, self.entropy,
          self.mean_micros, self.gradient_norm, self.grouper_entropy);
    state.CountAsDouble(self.tied);
    state(self.left_out);
  }
};

// Searches for placements with a short step time. The caller owns the loop (agents/search.h):
//   proposal = agent.Propose(env, mode, rng);
//   outcomes = env.Evaluate(proposal.placements);        // in parallel, as if one after another
//   agent.Observe(env, proposal.placements, outcomes);
class Agent {
 public:
  virtual ~Agent() = default;

  // The next placements to try. kExplore continues the search; kExploit returns the best known placement. All
  // randomness comes from `rng`.
  virtual Proposal Propose(const Environment& env, Mode mode, Rng& rng) = 0;

  // The outcomes of the last proposal. Called exactly once per explored Propose(). A `batch` truncated by the budget is
  // the last of its graph. Returns the episodes that ended with this batch.
  virtual std::vector<EpisodeRecord> Observe(const Environment&, std::span<const Placement> /*batch*/,
                                             std::span<const Outcome>) {
    return {};
  }

  // True once further proposals would add nothing new: a heuristic has proposed its one placement, or a search is in a
  // local optimum.
  virtual bool Finished() const { return false; }

  // All state needed to resume exactly, except the Rng, which is in the checkpoint. Load() throws InputError on data
  // that Save() did not write.
  virtual void Save(std::ostream& out) const = 0;
  virtual void Load(std::istream& in) = 0;

  // An optional remark about the answer for the user, in one line; "" if there is none.
  virtual std::string Note() const { return ""; }

  // Outputs of an evaluation needed in addition to the step time: start times, peak memory.
  virtual EvaluationNeeds Needs() const { return {}; }

  // CPU seconds so far of what the agent runs outside this process, such as a class in Python, since it was made.
  virtual double CpuSecondsElsewhere() const { return 0; }
  // Throws InputError if the agent cannot search a graph of `num_groups` groups, with its budget or at all. A sweep
  // checks this before its first trial.
  virtual void CheckGroups(std::size_t /*num_groups*/) const {}

  // A policy is the learned part of what Save() writes, to be applied to other graphs. After LoadPolicy() the agent
  // applies it without training, unless its options enable training. Both throw InputError if the agent has no policy.
  // LoadPolicy() also throws it on a policy of another shape.
  virtual bool HasPolicy() const { return false; }
  virtual void SavePolicy(std::ostream&) const { throw InputError("", "this agent has no policy to save"); }
  virtual void LoadPolicy(std::istream&) { throw InputError("", "this agent has no policy to load"); }
  // True if a loaded policy is not trained: Finished() after the policy was applied once, whatever the budget.
  virtual bool OnlyApplies() const { return false; }
};

// An agent in a process of its own was stopped: the search was to end, and it did not respond.
class AgentDoesNotAnswer : public InputError {
 public:
  using InputError::InputError;
};

// The search for which an agent is created.
struct AgentContext {
  std::size_t evaluations = 0;       // the budget of the whole search on each graph; annealing cools over it
  std::size_t episodes = 0;          // if not 0, replaces the budget: passes over all groups
  std::size_t num_graphs = 1;        // graphs on which the agent learns together
  std::string torch_device = "cpu";  // device that computes gradients: cpu or cuda
  // As SearchSpec::stop; an agent that may not answer, as one in Python, is waited for a little longer. Null: for ever.
  std::function<bool()> stop = {};
};

// The complete registration of an agent is its row in registry.cc.
struct AgentEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Throws InputError on unknown or bad options. Declares its options to `reader` and calls reader.Finish().
  std::unique_ptr<Agent> (*make)(OptionReader& reader, const AgentContext& context);
  std::string_view grouping = "identity";  // default grouper
  std::size_t max_ops = 0;                 // graphs with more ops use merge_and_colocate by default; 0: no limit
  std::size_t default_evaluations = 1;     // default budget; 1 for a heuristic with one placement
  bool needs_cpu = false;                  // Propose() fails on a cluster without a CPU
  bool may_end = false;                    // often ends before its budget: it has nothing more to try
  bool refuses_some = false;               // Propose() throws InputError on graphs that are too hard for it
  std::string_view reward = "runtime";     // default objective
  std::size_t batch = 1;                   // placements of a proposal, which threads evaluate side by side
  bool keeps_times = false;                // compares placements with step times that it saw long ago
  bool needs_torch = false;                // its networks are LibTorch's, whatever its options

  // Evaluates more than one placement, and begins at Environment::start(), if that is set.
  bool searches() const { return default_evaluations > 1; }
};
// Whether the agent can place on this cluster.
bool RunsOn(const AgentEntry& entry, const Cluster& cluster);
// Whether an agent that does not search places this many groups in little time: m_sct, whose linear program is slow,
// does up to 1,000.
bool IsQuick(const AgentEntry& entry, std::size_t num_groups);
// The default grouper of an agent for a graph of `num_ops`.
std::string_view DefaultGrouping(const AgentEntry& entry, std::size_t num_ops);
std::span<const AgentEntry> AllAgents();
// Also finds agents in Python, by MODULE:CLASS. Throws InputError that lists the known names.
const AgentEntry& FindAgent(std::string_view name);
std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_AGENT_H_
