#include "agents/bounds/work_program.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "agents/heuristics/linear_program.h"
#include "sim/grouping.h"

namespace emplace::agents {
namespace {

// Above this many columns of transfers the program has none of them.
constexpr std::size_t kMostSent = 60'000;

class WorkProgram {
 public:
  WorkProgram(const Graph& graph, const Cluster& cluster, const Relaxation& problem)
      : graph_(graph),
        cluster_(cluster),
        problem_(problem),
        num_types_(problem.num_types()),
        classes_(ColocationClasses(graph)) {
    std::size_t sent = 0;
    for (std::size_t k = 0; k < graph.num_tensors(); ++k) {
      if (Leaves(MakeId<TensorId>(k))) ++sent;
    }
    num_sent_ = num_types_ < 2 || sent * num_types_ > kMostSent ? 0 : sent * num_types_;
  }

  WorkProgramBound Solve(double seconds) {
    const std::size_t num_placed = classes_.num_groups() * num_types_;
    LinearProgram program(num_placed + num_sent_ + 1);
    program.num_fractions = num_placed + num_sent_;
    const std::size_t step = num_placed + num_sent_;

    // Times are in units of all work over all devices, so that the optimum is a number near 1.
    double unit = 0;
    std::vector<double> work(num_placed, 0);
    std::vector<double> bytes(classes_.num_groups(), 0);
    std::vector<bool> may(num_placed, true);
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const std::size_t c = classes_.group_of(MakeId<OpId>(i));
      unit += static_cast<double>(problem_.ShortestTime(i));
      bytes[c] += static_cast<double>(graph_.op(MakeId<OpId>(i)).persistent.count);
      for (std::size_t t = 0; t < num_types_; ++t) {
        if (problem_.Time(i, t) == kNever) {
          may[Place(c, t)] = false;
        } else {
          work[Place(c, t)] += static_cast<double>(problem_.Time(i, t) + problem_.Gap(i, t));
        }
      }
    }
    unit = std::max(unit / static_cast<double>(problem_.num_devices()), 1.0);

    for (std::size_t c = 0; c < classes_.num_groups(); ++c) {
      program.BeginRow(1);
      for (std::size_t t = 0; t < num_types_; ++t) {
        if (may[Place(c, t)]) program.Add(Place(c, t), 1);
      }
    }
    const std::size_t first_load = program.bounds.size();
    for (std::size_t t = 0; t < num_types_; ++t) {
      const auto count = static_cast<double>(problem_.types()[t].devices.size());
      program.BeginRow(-count * static_cast<double>(problem_.types()[t].op_gap) / unit);
      for (std::size_t c = 0; c < classes_.num_groups(); ++c) {
        if (may[Place(c, t)] && work[Place(c, t)] > 0) program.Add(Place(c, t), -work[Place(c, t)] / unit);
      }
      program.Add(step, count);
    }
    for (std::size_t t = 0; t < num_types_; ++t) {
      const std::optional<double> capacity = Capacity(t);
      if (!capacity) continue;
      program.BeginRow(-1);
      for (std::size_t c = 0; c < classes_.num_groups(); ++c) {
        if (may[Place(c, t)] && bytes[c] > 0) program.Add(Place(c, t), -bytes[c] / *capacity);
      }
    }
    if (num_sent_ > 0) AddTransfers(num_placed, step, unit, may, &program);

    const LinearSolution solution = SolveProgram(program, seconds);
    const double bound = DualBound(program, solution.prices) * unit;
    if (!std::isfinite(bound) || bound <= 0 || bound >= static_cast<double>(kNever)) return {};
    Prices prices(num_types_);
    for (std::size_t t = 0; t < num_types_; ++t) prices[t] = std::max(solution.prices[first_load + t], 0.0);
    if (*std::max_element(prices.begin(), prices.end()) <= 0) prices.clear();
    return {static_cast<std::int64_t>(std::floor(bound)), prices};
  }

 private:
  std::size_t Place(std::size_t c, std::size_t type) const { return c * num_types_ + type; }

  // Whether a reader can be where the producer is not.
  bool Leaves(TensorId tensor) const {
    const std::size_t from = classes_.group_of(graph_.tensor(tensor).producer);
    return std::ranges::any_of(graph_.consumers(tensor), [&](OpId op) { return classes_.group_of(op) != from; });
  }

  std::optional<double> Capacity(std::size_t type) const {
    double sum = 0;
    for (const DeviceId device : problem_.types()[type].devices) {
      if (!cluster_.device(device).memory) return std::nullopt;
      sum += static_cast<double>(cluster_.device(device).memory->count);
    }
    return std::max(sum, 1.0);
  }

  // Column num_placed + k * num_types + t: the k-th tensor that may be sent from a device of type t to one of another
  // type. It is at least the fraction of its producer there minus that of any reader.
  void AddTransfers(std::size_t num_placed, std::size_t step, double unit, const std::vector<bool>& may,
                    LinearProgram* program) const {
    std::vector<std::vector<std::pair<std::size_t, double>>> load(num_types_);
    std::size_t at = num_placed;
    for (std::size_t k = 0; k < graph_.num_tensors(); ++k) {
      const auto tensor = MakeId<TensorId>(k);
      if (!Leaves(tensor)) continue;
      const std::size_t from = classes_.group_of(graph_.tensor(tensor).producer);
      std::vector<std::size_t> readers;
      for (const OpId op : graph_.consumers(tensor)) {
        if (classes_.group_of(op) != from) readers.push_back(classes_.group_of(op));
      }
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      for (std::size_t t = 0; t < num_types_; ++t, ++at) {
        if (!may[Place(from, t)]) continue;
        const double takes = ShortestOut(graph_.tensor(tensor).size, t);
        if (takes <= 0) continue;
        load[t].emplace_back(at, takes);
        for (const std::size_t reader : readers) {
          program->BeginRow(0);
          program->Add(at, 1);
          program->Add(Place(from, t), -1);
          if (may[Place(reader, t)]) program->Add(Place(reader, t), 1);
        }
      }
    }
    for (std::size_t t = 0; t < num_types_; ++t) {
      const auto count = static_cast<double>(problem_.types()[t].devices.size());
      const double channels =
          cluster_.channels() == Channels::kPerDevice ? count : count * static_cast<double>(problem_.num_devices() - 1);
      program->BeginRow(-channels * LongestGap(t) / unit);
      for (const auto& [column, takes] : load[t]) program->Add(column, -takes / unit);
      program->Add(step, channels);
    }
  }

  // The channel's time of a tensor that leaves a device of the type for another type, with the gap behind it, in ns.
  double ShortestOut(Bytes size, std::size_t type) const {
    double least = -1;
    for (const DeviceId from : problem_.types()[type].devices) {
      for (std::size_t other = 0; other < num_types_; ++other) {
        if (other == type) continue;
        for (const DeviceId to : problem_.types()[other].devices) {
          const Link& link = cluster_.link(from, to);
          if (!link.exists()) continue;
          const auto takes =
              static_cast<double>((DurationFromMicros(link.latency_micros) + DurationFromMicros(link.gap_micros) +
                                   TransferDuration(size, link.rate()))
                                      .count());
          if (least < 0 || takes < least) least = takes;
        }
      }
    }
    return least;
  }

  double LongestGap(std::size_t type) const {
    double longest = 0;
    for (const DeviceId from : problem_.types()[type].devices) {
      for (std::size_t to = 0; to < cluster_.num_devices(); ++to) {
        const double gap = cluster_.link(from, MakeId<DeviceId>(to)).gap_micros;
        longest = std::max(longest, static_cast<double>(DurationFromMicros(gap).count()));
      }
    }
    return longest;
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const Relaxation& problem_;
  std::size_t num_types_;
  std::size_t num_sent_ = 0;
  Grouping classes_;
};

}  // namespace

WorkProgramBound SolveWorkProgram(const Graph& graph, const Cluster& cluster, const Relaxation& problem,
                                  double seconds) {
  return graph.num_ops() == 0 ? WorkProgramBound{} : WorkProgram(graph, cluster, problem).Solve(seconds);
}

}  // namespace emplace::agents
