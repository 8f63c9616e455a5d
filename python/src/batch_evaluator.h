#ifndef EMPLACE_PYTHON_SRC_BATCH_EVALUATOR_H_
#define EMPLACE_PYTHON_SRC_BATCH_EVALUATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/simulator.h"

namespace emplace::python {

// Placements in a row: [count, width], row by row. A row has a device for each op, or for each group of `grouping`.
struct PlacementRows {
  const std::int16_t* devices = nullptr;
  std::size_t count = 0;
  std::size_t width = 0;
  const Grouping* grouping = nullptr;  // null: of ops
};

// Evaluates many placements of one graph on several threads. The results do not depend on their number.
class BatchEvaluator {
 public:
  // Throws InputError as Simulator does.
  BatchEvaluator(Graph graph, Cluster cluster, CostTable costs, const SimOptions& options);

  const Graph& graph() const { return graph_; }
  const Cluster& cluster() const { return cluster_; }
  const CostTable& costs() const { return costs_; }
  const Simulator& simulator() const { return with_memory_; }  // with peak memory

  // step_ns: [count]. peak_bytes: [count, num_devices]; may be null, which takes about half the time. Throws InputError
  // at "placements[ROW]" of the first row that cannot run (CheckPlacement) or names a device that is not there.
  void Evaluate(const PlacementRows& rows, std::size_t threads, std::int64_t* step_ns, std::int64_t* peak_bytes) const;

  // The row as a placement of ops. Throws InputError as Evaluate.
  Placement PlacementOf(const PlacementRows& rows, std::size_t row) const;

  // One thread's memory.
  struct Scratch {
    std::unique_ptr<Evaluator::Workspace> workspace;
    std::vector<DeviceId> devices;
    StepResult result;
  };
  // Taken from those that earlier calls have given back, if there are any. From several threads at a time.
  Scratch TakeScratch(bool peak_memory) const;
  void GiveBack(Scratch scratch, bool peak_memory) const;
  // The step time of scratch->devices, which can run, in ns, and its peaks, as above.
  std::int64_t Run(Scratch* scratch, std::int64_t* peak_bytes) const;
  // Whether the placement can run.
  bool CanRun(std::span<const DeviceId> devices) const;

 private:
  void Expand(const PlacementRows& rows, std::size_t row, std::vector<DeviceId>* devices) const;
  [[noreturn]] void Refuse(std::size_t row, std::vector<DeviceId> devices) const;
  const Simulator& WithoutMemory() const;

  Graph graph_;
  Cluster cluster_;
  CostTable costs_;
  Simulator with_memory_;
  mutable std::once_flag once_;
  mutable std::mutex idle_mutex_;
  mutable std::array<std::vector<Scratch>, 2> idle_;  // without and with peak memory
  mutable std::optional<Simulator> without_memory_;   // built when it is first needed
  std::vector<std::uint8_t> allowed_;                 // [num_ops, num_devices]; empty: everything is
  std::vector<OpId> bound_;                           // ops of a colocation class whose first op is another
  bool check_links_;                                  // some devices have no link between them
};

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_BATCH_EVALUATOR_H_
