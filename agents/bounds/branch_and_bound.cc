#include "agents/bounds/branch_and_bound.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "agents/bounds/energetic_bound.h"
#include "agents/bounds/path_bound.h"
#include "agents/bounds/relaxation.h"
#include "sim/grouping.h"

namespace emplace::agents {
namespace {

// A job of one machine: it can start at `head`, takes `length`, and `tail` passes after its end before all is over.
struct Job {
  std::int64_t head = 0;
  std::int64_t length = 0;
  std::int64_t tail = 0;
};

// The earliest end of all jobs if one machine does them and may interrupt them: at any time it does the job with the
// longest tail among those whose head is over.
std::int64_t OneMachineBound(std::vector<Job>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.head < b.head; });
  std::priority_queue<std::pair<std::int64_t, std::int64_t>> open;  // (tail, what is left)
  std::int64_t now = 0;
  std::int64_t over = 0;
  for (std::size_t next = 0; next < jobs.size() || !open.empty();) {
    if (open.empty()) now = std::max(now, jobs[next].head);
    while (next < jobs.size() && jobs[next].head <= now) {
      open.emplace(jobs[next].tail, jobs[next].length);
      ++next;
    }
    auto [tail, left] = open.top();
    open.pop();
    const std::int64_t until = next < jobs.size() ? std::min(now + left, jobs[next].head) : now + left;
    left -= until - now;
    now = until;
    if (left > 0) {
      open.emplace(tail, left);
    } else {
      over = std::max(over, now + tail);
    }
  }
  return over;
}

// Whether devices can be exchanged in a placement.
bool CanSwap(const Cluster& cluster, const CostTable& costs, std::size_t a, std::size_t b) {
  const auto da = MakeId<DeviceId>(a);
  const auto db = MakeId<DeviceId>(b);
  const Device& x = cluster.device(da);
  const Device& y = cluster.device(db);
  if (costs.KindIndex(da) != costs.KindIndex(db) || x.memory != y.memory || x.op_gap_micros != y.op_gap_micros ||
      x.copy_engine != y.copy_engine || !(cluster.link(da, db) == cluster.link(db, da))) {
    return false;
  }
  // A lane that two devices share chooses between them by their ids, as rule F11 does. So whole placements are tried
  // under all exchanges.
  if (x.issue != y.issue) return false;
  for (std::size_t c = 0; c < cluster.num_devices(); ++c) {
    const auto dc = MakeId<DeviceId>(c);
    if (c == a || c == b) continue;
    if (!(cluster.link(da, dc) == cluster.link(db, dc)) || !(cluster.link(dc, da) == cluster.link(dc, db))) {
      return false;
    }
  }
  return true;
}

// The first device that can be exchanged with each.
std::vector<std::size_t> FindInterchangeable(const Cluster& cluster, const CostTable& costs) {
  std::vector<std::size_t> alike(cluster.num_devices());
  for (std::size_t d = 0; d < alike.size(); ++d) {
    alike[d] = d;
    for (std::size_t e = 0; e < d; ++e) {
      if (alike[e] == e && CanSwap(cluster, costs, e, d)) {
        alike[d] = e;
        break;
      }
    }
  }
  return alike;
}

// Classes of ops on their devices, and what follows for the relaxation.
class PartialPlacement {
 public:
  PartialPlacement(const Graph& graph, const Cluster& cluster, const CostTable& costs)
      : cluster_(cluster),
        problem_(graph, cluster, costs, Relaxation::Types::kEachDevice),
        whole_(problem_),
        classes_(ColocationClasses(graph)),
        persistent_(classes_.num_groups(), 0),
        placed_(classes_.num_groups(), false),
        placement_(graph.num_ops()),
        used_(cluster.num_devices(), 0),
        held_(cluster.num_devices(), 0) {
    for (std::size_t c = 0; c < classes_.num_groups(); ++c) {
      for (const OpId op : classes_.members(c)) persistent_[c] += graph.op(op).persistent.count;
    }
  }

  const Relaxation& problem() const { return problem_; }
  const Grouping& classes() const { return classes_; }
  bool IsPlaced(std::size_t c) const { return placed_[c]; }
  bool IsPlaced(OpId op) const { return placed_[classes_.group_of(op)]; }
  bool IsUsed(std::size_t device) const { return used_[device] > 0; }
  // The placement of the ops that are placed so far.
  const Placement& placement() const { return placement_; }

  // False if the device may not run the class or has no room for it.
  bool Place(std::size_t c, std::size_t device) {
    for (const OpId op : classes_.members(c)) {
      if (whole_.Time(Index(op), device) == kNever) return false;
    }
    const std::optional<Bytes>& memory = cluster_.device(MakeId<DeviceId>(device)).memory;
    if (memory && held_[device] + persistent_[c] > memory->count) return false;
    held_[device] += persistent_[c];
    ++used_[device];
    placed_[c] = true;
    for (const OpId op : classes_.members(c)) {
      placement_[op] = MakeId<DeviceId>(device);
      for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
        if (d != device) problem_.SetTime(Index(op), d, kNever);
      }
    }
    return true;
  }
  void Undo(std::size_t c, std::size_t device) {
    held_[device] -= persistent_[c];
    --used_[device];
    placed_[c] = false;
    for (const OpId op : classes_.members(c)) {
      for (std::size_t d = 0; d < cluster_.num_devices(); ++d)
        problem_.SetTime(Index(op), d, whole_.Time(Index(op), d));
    }
  }

 private:
  const Cluster& cluster_;
  Relaxation problem_;  // relaxation for the partial placement
  Relaxation whole_;
  Grouping classes_;
  std::vector<std::int64_t> persistent_;  // bytes, by class
  std::vector<bool> placed_;              // indexed by class
  Placement placement_;
  std::vector<std::size_t> used_;   // indexed by device: how many classes are there
  std::vector<std::int64_t> held_;  // bytes, by device
};

// Adds the transfers of an op that is placed to readers that are, as jobs of their channels.
void AddTransfers(const Graph& graph, const Cluster& cluster, const PartialPlacement& partial, const Windows& windows,
                  OpId id, std::vector<std::vector<Job>>* channels) {
  const std::size_t num_devices = cluster.num_devices();
  const bool per_pair = cluster.channels() == Channels::kPerPair;
  const std::size_t d = Index(partial.placement()[id]);
  const std::size_t at = Index(id) * num_devices + d;
  const std::int64_t time = partial.problem().Time(Index(id), d);
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const auto tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    std::vector<std::int64_t> tails(num_devices, -1);
    for (const OpId reader : graph.consumers(tensor)) {
      if (!partial.IsPlaced(reader) || partial.placement()[reader] == partial.placement()[id]) continue;
      const std::size_t to = Index(partial.placement()[reader]);
      const std::size_t there = Index(reader) * num_devices + to;
      tails[to] = std::max(tails[to], partial.problem().Time(Index(reader), to) + windows.tail[there]);
    }
    for (std::size_t to = 0; to < num_devices; ++to) {
      if (tails[to] < 0) continue;
      const Link& link = cluster.link(partial.placement()[id], MakeId<DeviceId>(to));
      const std::int64_t pause = DurationFromMicros(link.gap_micros).count();
      const std::int64_t takes = DurationFromMicros(link.latency_micros).count() +
                                 TransferDuration(graph.tensor(tensor).size, link.rate()).count();
      (*channels)[d * num_devices + (per_pair ? to : 0)].push_back(
          {windows.head[at] + time, takes + pause, tails[to] - pause});
    }
  }
}

// The least time of the busiest device or channel, with what is placed there.
std::int64_t MachineBound(const Graph& graph, const Cluster& cluster, const PartialPlacement& partial,
                          const Windows& windows) {
  const std::size_t num_devices = cluster.num_devices();
  std::int64_t bound = 0;
  std::vector<std::vector<Job>> devices(num_devices);
  std::vector<std::vector<Job>> channels(num_devices * num_devices);
  for (std::size_t c = 0; c < partial.classes().num_groups(); ++c) {
    if (!partial.IsPlaced(c)) continue;
    for (const OpId id : partial.classes().members(c)) {
      const std::size_t op = Index(id);
      const std::size_t d = Index(partial.placement()[id]);
      const std::size_t at = op * num_devices + d;
      const std::int64_t gap = partial.problem().Gap(op, d);
      const std::int64_t time = partial.problem().Time(op, d);
      devices[d].push_back({windows.head[at], time + gap, windows.tail[at] - gap});
      AddTransfers(graph, cluster, partial, windows, id, &channels);
    }
  }
  for (auto* machines : {&devices, &channels}) {
    for (std::vector<Job>& jobs : *machines) {
      if (jobs.size() > 1) bound = std::max(bound, OneMachineBound(jobs));
    }
  }
  return bound;
}

// The class of the op whose path is longest, of those not yet placed; of equals the one with more work.
std::size_t ChooseClass(const PartialPlacement& partial, const Windows& windows, std::size_t num_devices) {
  std::size_t best = partial.classes().num_groups();
  std::pair<std::int64_t, std::int64_t> longest;
  for (std::size_t c = 0; c < partial.classes().num_groups(); ++c) {
    if (partial.IsPlaced(c)) continue;
    std::pair<std::int64_t, std::int64_t> path{0, 0};
    for (const OpId id : partial.classes().members(c)) {
      const std::size_t op = Index(id);
      std::int64_t least = kNever;
      for (std::size_t d = 0; d < num_devices; ++d) {
        const std::size_t at = op * num_devices + d;
        if (partial.problem().Time(op, d) == kNever || windows.head[at] >= kNever) continue;
        least = std::min(least, windows.head[at] + partial.problem().Time(op, d) + windows.tail[at]);
      }
      path.first = std::max(path.first, least);
      path.second += partial.problem().ShortestTime(op);
    }
    if (best == partial.classes().num_groups() || path > longest) {
      best = c;
      longest = path;
    }
  }
  return best;
}

class TreeSearch {
 public:
  TreeSearch(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ExactOptions& options)
      : graph_(graph),
        cluster_(cluster),
        options_(options),
        partial_(graph, cluster, costs),
        simulator_(graph, cluster, costs, options.simulation),
        workspace_(simulator_.MakeWorkspace()),
        alike_(FindInterchangeable(cluster, costs)),
        prices_(FindPrices(partial_.problem())) {}

  ExactResult Run() {
    if (options_.start) Simulate(*options_.start);
    if (graph_.num_ops() == 0) {
      Simulate(partial_.placement());
      result_.is_complete = true;
      return result_;
    }
    const std::int64_t root = Bound();
    open_bound_ = kNever;
    result_.bound_nanos = root;
    if (!result_.best || root < result_.best_nanos) Explore(partial_.classes().num_groups(), root);
    result_.is_complete = !stopped_;
    if (result_.is_complete) {
      result_.bound_nanos = result_.best ? result_.best_nanos : kNever;
    } else {
      result_.bound_nanos = std::max(root, std::min(open_bound_, result_.best ? result_.best_nanos : kNever));
    }
    return result_;
  }

 private:
  std::int64_t Cut() const { return result_.best ? result_.best_nanos : kNever; }

  // A lower bound for all completions of the partial placement.
  std::int64_t Bound() {
    ++result_.nodes;
    const Relaxation& problem = partial_.problem();
    windows_ = ComputeWindows(problem, 8);
    const std::int64_t path = PathBound(problem, windows_);
    if (path >= Cut()) return path;
    std::int64_t bound = std::max(path, WorkBound(problem, prices_));
    if (bound >= Cut()) return bound;
    bound = std::max(bound, MachineBound(graph_, cluster_, partial_, windows_));
    if (bound < Cut()) bound = std::max(bound, EnergeticBound(problem, windows_, prices_, 6, bound));
    return bound;
  }

  // A class placed on one more device.
  struct Child {
    std::int64_t bound;
    std::size_t device;
    Windows windows;  // empty if the bound is no better than the best
  };

  // `windows_` are of the partial placement.
  void Explore(std::size_t left, std::int64_t bound) {
    if (left == 0) {
      SimulateAlike(0, std::vector<std::size_t>(cluster_.num_devices(), cluster_.num_devices()),
                    std::vector<bool>(cluster_.num_devices(), false));
      return;
    }
    const std::size_t c = ChooseClass(partial_, windows_, cluster_.num_devices());
    std::vector<Child> children;
    std::vector<bool> unused_tried(cluster_.num_devices(), false);
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      if (!partial_.IsUsed(d)) {
        if (unused_tried[alike_[d]]) continue;
        unused_tried[alike_[d]] = true;
      }
      if (!partial_.Place(c, d)) continue;
      const std::int64_t child = std::max(bound, Bound());
      children.push_back({child, d, child < Cut() ? std::move(windows_) : Windows{}});
      partial_.Undo(c, d);
    }
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return std::pair(a.bound, a.device) < std::pair(b.bound, b.device);
    });
    for (std::size_t k = 0; k < children.size(); ++k) {
      const std::int64_t child = children[k].bound;
      const std::size_t d = children[k].device;
      if (child >= Cut()) break;
      if (!stopped_) stopped_ = MustStop(child);
      if (stopped_) {
        open_bound_ = std::min(open_bound_, child);
        break;  // the others are not below it
      }
      partial_.Place(c, d);
      windows_ = std::move(children[k].windows);
      pending_.push_back(k + 1 < children.size() ? children[k + 1].bound : kNever);
      Explore(left - 1, child);
      pending_.pop_back();
      partial_.Undo(c, d);
    }
  }

  // Before the partial placement whose bound is `child` is explored.
  bool MustStop(std::int64_t child) {
    if (result_.nodes >= options_.max_nodes) return true;
    if (!options_.keep_going || result_.nodes < next_question_) return false;
    next_question_ = result_.nodes + 256;
    ExactProgress progress{result_.nodes, std::min(child, Cut()), std::nullopt};
    for (const std::int64_t bound : pending_) progress.bound_nanos = std::min(progress.bound_nanos, bound);
    progress.bound_nanos = std::max(progress.bound_nanos, result_.bound_nanos);
    if (result_.best) progress.best = result_.best_nanos;
    return !options_.keep_going(progress);
  }

  // The whole placement with every exchange of devices that are alike; `as` is the choice for devices below `device`.
  void SimulateAlike(std::size_t device, std::vector<std::size_t> as, std::vector<bool> taken) {
    if (device == cluster_.num_devices()) {
      Placement exchanged = partial_.placement();
      for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
        const auto op = MakeId<OpId>(i);
        exchanged[op] = MakeId<DeviceId>(as[Index(partial_.placement()[op])]);
      }
      Simulate(exchanged);
      return;
    }
    if (!partial_.IsUsed(device)) {
      SimulateAlike(device + 1, std::move(as), std::move(taken));
      return;
    }
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      if (alike_[d] != alike_[device] || taken[d]) continue;
      as[device] = d;
      taken[d] = true;
      SimulateAlike(device + 1, as, taken);
      taken[d] = false;
    }
  }

  void Simulate(const Placement& placement) {
    simulator_.RunWith(*workspace_, placement, &step_);
    ++result_.simulated;
    const std::int64_t nanos = DurationFromMicros(step_.step_time_micros).count();
    if (!step_.fits_memory || (result_.best && nanos >= result_.best_nanos)) return;
    result_.best = placement;
    result_.best_nanos = nanos;
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const ExactOptions& options_;
  PartialPlacement partial_;
  Simulator simulator_;
  std::unique_ptr<Simulator::Workspace> workspace_;
  StepResult step_;
  std::vector<std::size_t> alike_;
  Prices prices_;
  Windows windows_;
  std::vector<std::int64_t> pending_;  // the least bound that is still to explore, at each level above
  std::int64_t open_bound_ = 0;
  std::size_t next_question_ = 256;
  bool stopped_ = false;
  ExactResult result_;
};

}  // namespace

ExactResult BranchAndBound(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                           const ExactOptions& options) {
  return TreeSearch(graph, cluster, costs, options).Run();
}

}  // namespace emplace::agents
