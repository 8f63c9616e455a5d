#include "agents/heuristics/critical_chain.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "sim/base/check.h"
#include "sim/last_wait.h"

namespace emplace::agents {
namespace {

constexpr double kToleranceMicros = 2e-3;  // start times are whole nanoseconds
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

class ChainWalk {
 public:
  ChainWalk(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement,
            std::span<const double> start_micros)
      : graph_(graph),
        cluster_(cluster),
        costs_(costs),
        placement_(placement),
        start_(start_micros),
        num_ops_(graph.num_ops()),
        next_in_bucket_(num_ops_, kNone) {}

  std::vector<ChainLink> Walk() {
    std::vector<ChainLink> chain;
    if (num_ops_ == 0) return chain;
    OpId at = LastToEnd();
    FillBuckets(End(at));
    // An op starts no later than the one that waited for it; ops of no time may start at the same instant, so the
    // length is limited too.
    while (chain.size() < num_ops_) {
      chain.push_back(Before(at));
      if (chain.back().wait == Wait::kNothing) break;
      at = chain.back().before;
    }
    return chain;
  }

 private:
  double Start(OpId op) const { return start_[Index(op)]; }
  double End(OpId op) const { return Start(op) + costs_.Micros(op, placement_[op]); }

  OpId LastToEnd() const {
    LastWait<OpId> last;
    for (std::size_t i = 0; i < num_ops_; ++i) last.Consider(MakeId<OpId>(i), End(MakeId<OpId>(i)));
    return *last.what();
  }

  // Ops by start time: one bucket for each op on average.
  void FillBuckets(double end) {
    buckets_per_micro_ = static_cast<double>(num_ops_) / std::max(end, 1e-3);
    first_in_bucket_.assign(num_ops_ + 2, kNone);
    const bool has_contention = costs_.has_contention();
    for (std::size_t i = 0; i < num_ops_; ++i) {
      std::uint32_t& first = first_in_bucket_[Bucket(start_[i])];
      next_in_bucket_[i] = first;
      first = static_cast<std::uint32_t>(i);
      const OpId op = MakeId<OpId>(i);
      const double contention = has_contention ? costs_.KindContention(op, costs_.KindIndex(placement_[op])) : 1;
      longest_ = std::max(longest_, costs_.Micros(op, placement_[op]) * contention);
    }
  }
  std::size_t Bucket(double micros) const {
    return std::min(static_cast<std::size_t>(micros * buckets_per_micro_), num_ops_ + 1);
  }

  // The op of the same device that started last before `op` did, and can have kept it waiting.
  std::optional<OpId> BeforeOnDevice(OpId op) const {
    const double gap = cluster_.device(placement_[op]).op_gap_micros;
    const std::size_t lowest = Bucket(std::max(Start(op) - longest_ - gap - kToleranceMicros, 0.0));
    for (std::size_t bucket = Bucket(Start(op)) + 1; bucket-- > lowest;) {
      std::optional<OpId> latest;
      for (std::uint32_t i = first_in_bucket_[bucket]; i != kNone; i = next_in_bucket_[i]) {
        const OpId other = MakeId<OpId>(i);
        if (placement_[other] != placement_[op] || Start(other) >= Start(op)) continue;
        if (!latest || Start(other) > Start(*latest)) latest = other;
      }
      if (latest) return latest;
    }
    return std::nullopt;
  }

  ChainLink Before(OpId op) const {
    LastWait<OpId> last_input;
    const auto consider = [&](OpId from, double bytes) {
      double there = End(from);
      if (placement_[from] != placement_[op]) {
        const Link& link = cluster_.link(placement_[from], placement_[op]);
        there += link.latency_micros + link.MicrosOf(bytes);
      }
      last_input.Consider(from, there);
    };
    for (const TensorId input : graph_.inputs(op)) {
      consider(graph_.tensor(input).producer, static_cast<double>(graph_.tensor(input).size.count));
    }
    for (const OpId from : graph_.control_inputs(op)) consider(from, 0);
    const std::optional<OpId>& producer = last_input.what();
    if (!producer || Start(op) > last_input.over() + kToleranceMicros) {
      // It waited for longer than its inputs need at least: for its device, or for transfers in the way of an input.
      const std::optional<OpId> before = BeforeOnDevice(op);
      const double gap = cluster_.device(placement_[op]).op_gap_micros;
      if (before && (!producer || placement_[*producer] == placement_[op] ||
                     End(*before) + gap + kToleranceMicros >= Start(op) || costs_.has_contention())) {
        return {.op = op, .wait = Wait::kQueue, .before = *before};
      }
    }
    if (!producer) return {.op = op, .wait = Wait::kNothing, .before = op};
    const bool here = placement_[*producer] == placement_[op];
    return {.op = op, .wait = here ? Wait::kInput : Wait::kTransfer, .before = *producer};
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  const Placement& placement_;
  std::span<const double> start_;
  std::size_t num_ops_;
  double buckets_per_micro_ = 1;
  double longest_ = 0;                          // time of an op, in us
  std::vector<std::uint32_t> first_in_bucket_;  // an op of each bucket
  std::vector<std::uint32_t> next_in_bucket_;   // [num_ops]: the next op of the same bucket
};

}  // namespace

std::vector<ChainLink> CriticalChain(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement, std::span<const double> start_micros) {
  EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
  EMPLACE_CHECK_EQ(start_micros.size(), graph.num_ops());
  return ChainWalk(graph, cluster, costs, placement, start_micros).Walk();
}

}  // namespace emplace::agents
