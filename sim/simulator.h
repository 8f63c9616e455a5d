#ifndef EMPLACE_SIM_SIMULATOR_H_
#define EMPLACE_SIM_SIMULATOR_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/timeline.h"

namespace emplace {

struct SimOptions {
  std::string engine = "fifo";  // a name of AllEngines()
  bool peak_memory = true;      // costs about as much as the simulation itself
  bool start_times = false;
  // For graphs with collectives: "model" (CollectiveTimes), or what they are expanded to, "ring" or "tree"
  // (CollectiveFlows; what has no tree goes around a ring).
  std::string collectives = "model";
  double initial_offset_micros = 0;  // time at which ops without inputs are queued; placeto-reference only
  bool operator==(const SimOptions&) const = default;
};

// Predicts one training step of a placed graph. Deterministic to the bit: a pure function of what it was built from and
// of the placement.
class Simulator : public Evaluator {
 public:
  // Everything that does not depend on the placement is computed here. Throws InputError on an unknown engine (the
  // known ones are listed) and on a cluster that the engine cannot answer for.
  Simulator(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options = {});
  ~Simulator() override;
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  std::unique_ptr<Workspace> MakeWorkspace() const override;

  // Fills *result, whose vectors keep their storage from run to run. No memory is allocated once `workspace` and
  // `result` have been used.
  // Requires: `placement` passes CheckPlacement; `workspace` is of this simulator and used by one thread at a time.
  void Run(std::span<const DeviceId> placement, Workspace& workspace, StepResult* result) const;

  // The same with a workspace of its own.
  StepResult Run(const Placement& placement) const override;
  void RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const override {
    Run(placement.devices(), workspace, result);
  }

  // When each op ran, and what was sent.
  Timeline Record(const Placement& placement) const;

  const SimOptions& options() const { return options_; }

  // The interface of an engine.
  class Engine {
   public:
    virtual ~Engine() = default;
    virtual std::unique_ptr<Workspace> MakeWorkspace() const = 0;
    // `timeline` may be null; if not, its ops and transfers are filled too.
    virtual void Run(std::span<const DeviceId> placement, Workspace& workspace, StepResult* result,
                     Timeline* timeline) const = 0;
  };

 private:
  SimOptions options_;
  std::unique_ptr<Engine> engine_;
};

// A row of `emplace list engines`.
struct EngineEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::unique_ptr<Simulator::Engine> (*make)(const Graph&, const Cluster&, const CostTable&, const SimOptions&);
};
std::span<const EngineEntry> AllEngines();

}  // namespace emplace

#endif  // EMPLACE_SIM_SIMULATOR_H_
