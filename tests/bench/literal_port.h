#ifndef EMPLACE_TESTS_BENCH_LITERAL_PORT_H_
#define EMPLACE_TESTS_BENCH_LITERAL_PORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// A literal implementation of the published Placeto / Park simulator (docs/model.md, P1 to P22): one heap of events,
// one event per edge, including events without effect. The fast engines are compared with its results and its speed.
class LiteralPort {
 public:
  LiteralPort(const Graph& graph, const Cluster& cluster, const CostTable& costs, double initial_offset_micros = 0);

  // Returns the step time in µs; start_micros() refers to the last run.
  double Run(std::span<const DeviceId> placement);
  const std::vector<double>& start_micros() const { return start_; }

 private:
  enum Kind : std::uint8_t { kRemoveDependency, kRunBus, kRunDevice };
  struct Event {
    double time;
    Kind kind;
    std::uint32_t first;   // rank of the parent's name, of the bus or of the device
    std::uint32_t second;  // rank of the child's name
    std::uint32_t target;  // child, or device
    bool operator>(const Event& other) const;
  };
  struct Queued {
    double time;
    std::uint64_t counter;
    std::uint32_t what;  // op, or index into transfers_
    bool operator>(const Queued& other) const;
  };
  struct Transfer {
    std::uint32_t op;
    std::uint32_t output;
    std::vector<std::uint32_t> children;
  };
  struct Lane {
    std::vector<Queued> queue;  // a heap
    bool scheduled = false;
  };
  struct Child {
    std::uint32_t op;
    std::uint32_t output;
  };

  void Push(const Event& event);
  void Enqueue(Lane& lane, double priority, std::uint32_t what);
  void Ready(std::uint32_t op, double now);
  void RemoveDependency(std::uint32_t op, double now);
  void RunDevice(std::uint32_t device, double now);
  void RunBus(std::uint32_t device, double now);

  const CostTable costs_;
  double offset_;
  double delta1_ = 0;
  double delta2_ = 0;
  double rate_ = 1;
  std::vector<std::vector<Child>> children_;  // in file order
  std::vector<std::vector<double>> output_bytes_;
  std::vector<std::uint32_t> num_parents_;
  std::vector<std::uint32_t> op_rank_;
  std::vector<std::uint32_t> device_rank_;
  std::vector<std::uint32_t> roots_;  // in file order

  std::span<const DeviceId> placement_;
  std::vector<Event> events_;  // a heap
  std::vector<Lane> devices_;
  std::vector<Lane> buses_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> waits_;
  std::vector<double> start_;
  std::uint64_t counter_ = 0;
  double last_ = 0;
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_BENCH_LITERAL_PORT_H_
