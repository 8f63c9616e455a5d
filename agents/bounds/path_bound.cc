#include "agents/bounds/path_bound.h"

#include <algorithm>
#include <queue>
#include <span>
#include <utility>

namespace emplace::agents {
namespace {

// Jobs of one machine, by release.
class SingleMachine {
 public:
  void Clear() { jobs_.clear(); }
  // When the machine is free after all jobs so far, run without interruption in order of release.
  std::int64_t Add(std::int64_t release, std::int64_t length) {
    jobs_.insert(std::upper_bound(jobs_.begin(), jobs_.end(), std::pair(release, length)), {release, length});
    std::int64_t free = -kNever;
    for (const auto& [at, takes] : jobs_) free = std::min(kNever, std::max(free, at) + takes);
    return free;
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> jobs_;
};

// Computes heads, or tails: then time runs backwards, and an op's "producers" are its consumers.
class WindowSearch {
 public:
  WindowSearch(const Relaxation& problem, std::size_t reach, bool backwards)
      : problem_(problem),
        reach_(reach),
        backwards_(backwards),
        num_types_(problem.num_types()),
        values_(problem.num_ops() * num_types_, kNever),
        seen_(problem.num_ops(), 0) {}

  std::vector<std::int64_t> Run() && {
    for (std::size_t i = 0; i < problem_.num_ops(); ++i) {
      const std::size_t op = backwards_ ? problem_.num_ops() - 1 - i : i;
      for (std::size_t t = 0; t < num_types_; ++t) {
        if (problem_.Time(op, t) == kNever) continue;
        const std::int64_t base = FromNeighbours(op, t);
        std::int64_t& value = values_[op * num_types_ + t];
        value = reach_ > 1 && base != kNever ? std::max(base, FromAncestors(op, t, base)) : base;
      }
    }
    return std::move(values_);
  }

 private:
  std::span<const std::uint32_t> Edges(std::size_t op) const { return backwards_ ? problem_.out(op) : problem_.in(op); }
  std::size_t OtherEnd(std::uint32_t edge) const {
    return backwards_ ? problem_.edges()[edge].to : problem_.edges()[edge].from;
  }
  // From where the op is on `type` to where its neighbour is on `other`, or the other way round.
  std::int64_t Transfer(std::uint32_t edge, std::size_t type, std::size_t other) const {
    return backwards_ ? problem_.Transfer(edge, type, other) : problem_.Transfer(edge, other, type);
  }
  std::int64_t Finish(std::size_t op, std::size_t type) const {
    return problem_.Time(op, type) == kNever ? kNever : values_[op * num_types_ + type] + problem_.Time(op, type);
  }
  std::int64_t EarliestFinish(std::size_t op) const {
    std::int64_t least = kNever;
    for (std::size_t t = 0; t < num_types_; ++t) least = std::min(least, Finish(op, t));
    return least;
  }
  // Where the neighbour is on another device.
  std::int64_t FromElsewhere(std::uint32_t edge, std::size_t type) const {
    std::int64_t least = kNever;
    for (std::size_t other = 0; other < num_types_; ++other) {
      least = std::min(least, Sum(Finish(OtherEnd(edge), other), Transfer(edge, type, other)));
    }
    return least;
  }
  static std::int64_t Sum(std::int64_t a, std::int64_t b) { return a >= kNever || b >= kNever ? kNever : a + b; }

  std::int64_t FromNeighbours(std::size_t op, std::size_t type) const {
    std::int64_t base = 0;
    for (const std::uint32_t edge : Edges(op)) {
      const std::size_t other = OtherEnd(edge);
      const std::int64_t here = Sum(
          Finish(other, type), problem_.Time(other, type) == kNever ? 0 : problem_.Gap(backwards_ ? op : other, type));
      base = std::max(base, std::min(here, FromElsewhere(edge, type)));
    }
    return base;
  }

  struct Ancestor {
    std::int64_t arrival = 0;  // arrival at the op, if the ancestor is on another device
    std::size_t op = 0;
    std::int64_t inner = 0;   // time between the two along the path, all of it on one device
    std::int64_t excess = 0;  // additional time of the cheapest transfer on the path
    bool operator<(const Ancestor& other) const { return std::pair(arrival, other.op) < std::pair(other.arrival, op); }
  };

  std::int64_t FromAncestors(std::size_t op, std::size_t type, std::int64_t base) {
    ++stamp_;
    open_ = {};
    machine_.Clear();
    for (const std::uint32_t edge : Edges(op)) {
      const std::int64_t arrival = FromElsewhere(edge, type);
      if (arrival > base) {
        open_.push({arrival, OtherEnd(edge), problem_.ShortestStep(edge),
                    problem_.ShortestTransfer(edge) - problem_.ShortestStep(edge)});
      }
    }
    std::int64_t here = base;      // time at which all ancestors that must be here have run
    std::int64_t latest = kNever;  // the least arrival of those taken so far: one of them may be elsewhere
    std::size_t taken = 0;
    while (!open_.empty()) {
      const Ancestor next = open_.top();
      if (here >= next.arrival) break;
      open_.pop();
      if (seen_[next.op] == stamp_) continue;
      seen_[next.op] = stamp_;
      if (taken++ == reach_) break;
      latest = std::min(latest, next.arrival);
      // `next` is here, or the op waits until next.arrival.
      std::int64_t with_next = kNever;
      if (problem_.Time(next.op, type) != kNever && values_[next.op * num_types_ + type] < kNever) {
        const std::int64_t gap = problem_.Gap(next.op, type);
        with_next = machine_.Add(values_[next.op * num_types_ + type] - (backwards_ ? gap : 0),
                                 problem_.Time(next.op, type) + gap);
        if (backwards_) with_next += problem_.Gap(op, type);
      }
      here = std::max(here, with_next);
      if (here >= latest) return latest;
      for (const std::uint32_t edge : Edges(next.op)) {
        const std::size_t before = OtherEnd(edge);
        if (seen_[before] == stamp_) continue;
        const std::int64_t inner = next.inner + problem_.ShortestTime(next.op) + problem_.ShortestStep(edge);
        const std::int64_t excess =
            std::min(next.excess, problem_.ShortestTransfer(edge) - problem_.ShortestStep(edge));
        const std::int64_t arrival = Sum(EarliestFinish(before), inner + excess);
        if (arrival > here) open_.push({arrival, before, inner, excess});
      }
    }
    return std::min(here, latest);
  }

  const Relaxation& problem_;
  std::size_t reach_;
  bool backwards_;
  std::size_t num_types_;
  std::vector<std::int64_t> values_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t stamp_ = 0;
  std::priority_queue<Ancestor> open_;
  SingleMachine machine_;
};

}  // namespace

Windows ComputeWindows(const Relaxation& problem, std::size_t reach) {
  return {WindowSearch(problem, reach, false).Run(), WindowSearch(problem, reach, true).Run()};
}

std::int64_t PathBound(const Relaxation& problem, const Windows& windows) {
  std::int64_t bound = 0;
  for (std::size_t i = 0; i < problem.num_ops(); ++i) {
    std::int64_t least = kNever;
    for (std::size_t t = 0; t < problem.num_types(); ++t) {
      const std::size_t at = i * problem.num_types() + t;
      if (problem.Time(i, t) == kNever || windows.head[at] >= kNever || windows.tail[at] >= kNever) continue;
      least = std::min(least, windows.head[at] + problem.Time(i, t) + windows.tail[at]);
    }
    bound = std::max(bound, least);
  }
  return bound;
}

}  // namespace emplace::agents
