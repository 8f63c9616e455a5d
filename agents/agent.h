#ifndef EMPLACE_AGENTS_AGENT_H_
#define EMPLACE_AGENTS_AGENT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "agents/environment.h"
#include "sim/options.h"
#include "sim/placement.h"
#include "sim/rng.h"

namespace emplace {

enum class Mode : std::uint8_t { kExplore, kExploit };

// Searches for placements with a short step time. The caller owns the loop:
//   batch = agent.Propose(env, mode, rng);
//   outcomes = env.Evaluate(batch);        // in parallel, as if one after another
//   agent.Observe(env, batch, outcomes);
class Agent {
 public:
  virtual ~Agent() = default;

  // The next placements to try, at least one: a device per group of env.observation(). kExplore goes on with the
  // search, kExploit takes the best known. All randomness comes from `rng`.
  virtual std::vector<Placement> Propose(const Environment& env, Mode mode, Rng& rng) = 0;

  // What the last proposals scored. Called exactly once per explored Propose().
  virtual void Observe(const Environment&, std::span<const Placement>, std::span<const Outcome>) {}

  // True once further proposals would bring nothing new: a heuristic that has proposed its one placement, a search in
  // a local optimum.
  virtual bool Finished() const { return false; }

  // Everything needed to go on as if never stopped, except the Rng, which the checkpoint holds. Load() throws
  // InputError on data that Save() did not write.
  virtual void Save(std::ostream& out) const = 0;
  virtual void Load(std::istream& in) = 0;
};

// What an agent is told when it is made.
struct AgentContext {
  std::size_t evaluations = 0;  // the budget of the whole search: annealing cools over it
};

// The whole registration of an agent is its row in registry.cc.
struct AgentEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::string_view grouping;        // the grouper that it wants unless the user names one
  std::size_t default_evaluations;  // budget unless the user names one; 1 for a heuristic with one answer
  // Throws InputError on unknown or bad options. Declares its options to `reader` and calls reader.Finish().
  std::unique_ptr<Agent> (*make)(OptionReader& reader, const AgentContext& context);
  std::size_t max_ops = 0;  // of graphs with more ops it wants merge_and_colocate instead; 0: however many
  bool needs_cpu = false;   // has nothing to propose on a cluster without one
};
// The grouper that an agent wants for a graph of `num_ops`.
std::string_view DefaultGrouping(const AgentEntry& entry, std::size_t num_ops);
std::span<const AgentEntry> AllAgents();
// Throws InputError that lists the known names.
const AgentEntry& FindAgent(std::string_view name);
std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_AGENT_H_
