#include "agents/heuristics/order_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/base/rng.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kAskStopEvery = 64;
constexpr std::size_t kRestartAfter = 2000;  // schedules without a better one
constexpr double kNotAllowed = std::numeric_limits<double>::infinity();

struct Edge {
  std::uint32_t op = 0;
  double bytes = -1;  // -1: a control edge, which takes the link's latency
};

// The problem in arrays, and in one direction: forward, or backward in time with all edges turned.
struct ScheduleProblem {
  std::size_t num_ops = 0;
  std::size_t num_devices = 0;
  std::vector<double> micros;  // [num_ops][num_devices]
  std::vector<std::vector<Edge>> before;
  std::vector<std::vector<Edge>> behind;
  std::vector<std::uint32_t> classes;  // [num_ops]: the first op of the colocation class
  std::vector<double> gaps;            // [num_devices]
  const Cluster* cluster = nullptr;
  bool is_free = true;   // no transfer takes time
  bool is_alike = true;  // each op takes the same time on all devices, without gaps, and may go anywhere

  double Transfer(double bytes, std::size_t from, std::size_t to) const {
    if (is_free || from == to) return 0;
    const Link& link = cluster->link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
    if (!link.exists()) return kNotAllowed;
    return link.latency_micros + (bytes > 0 ? link.MicrosOf(bytes) : 0);
  }
};

struct Schedule {
  std::vector<std::uint32_t> device;  // [num_ops]
  std::vector<double> start;
  std::vector<double> end;
  double length = kNotAllowed;
};

// Makes schedules. `reversed`: time runs backward, and the result is turned around.
class PriorityScheduler {
 public:
  PriorityScheduler(const ScheduleProblem& problem, bool is_reversed)
      : problem_(problem),
        before_(is_reversed ? problem.behind : problem.before),
        behind_(is_reversed ? problem.before : problem.behind) {
    now_.device.resize(problem.num_ops);
    now_.start.resize(problem.num_ops);
    now_.end.resize(problem.num_ops);
  }

  // With `waits`, an op of a high priority may leave a device idle until it is ready; else the op that can start first
  // does.
  const Schedule& Make(const std::vector<double>& priority, bool waits) {
    const std::size_t n = problem_.num_ops;
    left_.resize(n);
    ready_.clear();
    free_.assign(problem_.num_devices, 0);
    of_class_.assign(n, problem_.num_devices);
    ready_at_.assign(n, 0);
    now_.length = 0;
    for (std::size_t i = 0; i < n; ++i) {
      left_[i] = before_[i].size();
      if (left_[i] == 0) ready_.push_back(static_cast<std::uint32_t>(i));
    }
    while (!ready_.empty()) {
      std::size_t chosen = 0;
      if (waits) {
        for (std::size_t r = 1; r < ready_.size(); ++r) {
          if (priority[ready_[r]] > priority[ready_[chosen]]) chosen = r;
        }
      } else {
        double earliest = kNotAllowed;
        for (std::size_t r = 0; r < ready_.size(); ++r) {
          const double start = EarliestStart(ready_[r]);
          if (start > earliest) continue;
          if (start < earliest || priority[ready_[r]] > priority[ready_[chosen]]) chosen = r;
          earliest = start;
        }
      }
      const std::uint32_t op = ready_[chosen];
      ready_[chosen] = ready_.back();
      ready_.pop_back();
      Place(op);
      if (!(now_.length < kNotAllowed)) return now_;
      for (const Edge& edge : behind_[op]) {
        ready_at_[edge.op] = std::max(ready_at_[edge.op], now_.end[op]);
        if (--left_[edge.op] == 0) ready_.push_back(edge.op);
      }
    }
    return now_;
  }

 private:
  double StartOn(std::uint32_t op, std::size_t device) const {
    double start = free_[device];
    if (problem_.is_free) return std::max(start, ready_at_[op]);
    for (const Edge& edge : before_[op]) {
      const double there = now_.end[edge.op] + problem_.Transfer(edge.bytes, now_.device[edge.op], device);
      start = std::max(start, there);
    }
    return start;
  }

  bool MayBeOn(std::uint32_t op, std::size_t device) const {
    const std::size_t fixed = of_class_[problem_.classes[op]];
    return problem_.micros[op * problem_.num_devices + device] < kNotAllowed &&
           (fixed == problem_.num_devices || fixed == device);
  }

  double EarliestStart(std::uint32_t op) const {
    if (problem_.is_free && problem_.is_alike && problem_.classes[op] == op) {
      return std::max(ready_at_[op], *std::min_element(free_.begin(), free_.end()));
    }
    double earliest = kNotAllowed;
    for (std::size_t d = 0; d < problem_.num_devices; ++d) {
      if (MayBeOn(op, d)) earliest = std::min(earliest, StartOn(op, d));
    }
    return earliest;
  }

  void Place(std::uint32_t op) {
    double best_end = kNotAllowed;
    double best_start = 0;
    std::size_t best = 0;
    for (std::size_t d = 0; d < problem_.num_devices; ++d) {
      if (!MayBeOn(op, d)) continue;
      const double start = StartOn(op, d);
      const double end = start + problem_.micros[op * problem_.num_devices + d];
      // Among devices on which it ends as soon, the one that would else be idle for the shortest time.
      if (end < best_end || (end == best_end && free_[d] > free_[best])) {
        best_end = end;
        best_start = start;
        best = d;
      }
    }
    now_.device[op] = static_cast<std::uint32_t>(best);
    now_.start[op] = best_start;
    now_.end[op] = best_end;
    now_.length = std::max(now_.length, best_end);
    free_[best] = best_end + (best_end > best_start ? problem_.gaps[best] : 0);
    of_class_[problem_.classes[op]] = best;
  }

  const ScheduleProblem& problem_;
  const std::vector<std::vector<Edge>>& before_;
  const std::vector<std::vector<Edge>>& behind_;
  std::vector<std::size_t> left_;
  std::vector<std::uint32_t> ready_;
  std::vector<double> free_;
  std::vector<double> ready_at_;  // where transfers take no time
  std::vector<std::size_t> of_class_;
  Schedule now_;
};

ScheduleProblem MakeProblem(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  ScheduleProblem problem;
  problem.num_ops = graph.num_ops();
  problem.num_devices = cluster.num_devices();
  problem.cluster = &cluster;
  problem.before.resize(problem.num_ops);
  problem.behind.resize(problem.num_ops);
  for (const Device& device : cluster.devices()) problem.gaps.push_back(device.op_gap_micros);
  const auto add = [&](OpId from, OpId to, double bytes) {
    std::vector<Edge>& edges = problem.before[Index(to)];
    for (Edge& edge : edges) {
      if (edge.op != Index(from)) continue;
      edge.bytes = std::max(edge.bytes, 0.0) + std::max(bytes, 0.0);
      return;
    }
    edges.push_back({static_cast<std::uint32_t>(Index(from)), bytes});
  };
  for (std::size_t i = 0; i < problem.num_ops; ++i) {
    const OpId op = MakeId<OpId>(i);
    problem.classes.push_back(static_cast<std::uint32_t>(Index(graph.colocation_class(op))));
    for (std::size_t d = 0; d < problem.num_devices; ++d) {
      const double micros = costs.Micros(op, MakeId<DeviceId>(d));
      problem.micros.push_back(std::isnan(micros) ? kNotAllowed : micros);
      problem.is_alike &= problem.micros.back() == problem.micros[i * problem.num_devices] && problem.gaps[d] == 0 &&
                          problem.micros.back() < kNotAllowed;
    }
    for (const TensorId input : graph.inputs(op)) {
      const Tensor& tensor = graph.tensor(input);
      add(tensor.producer, op, static_cast<double>(tensor.size.count));
    }
    for (const OpId control : graph.control_inputs(op)) add(control, op, -1);
  }
  for (std::size_t i = 0; i < problem.num_ops; ++i) {
    for (const Edge& edge : problem.before[i]) {
      problem.behind[edge.op].push_back({static_cast<std::uint32_t>(i), edge.bytes});
    }
  }
  for (std::size_t from = 0; from < problem.num_devices; ++from) {
    for (std::size_t to = 0; to < problem.num_devices; ++to) {
      if (from == to) continue;
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      problem.is_free &= link.exists() && link.latency_micros == 0;
    }
  }
  for (const auto& edges : problem.before) {
    for (const Edge& edge : edges) problem.is_free &= edge.bytes <= 0;
  }
  return problem;
}

// The longest way from an op to the end, itself included, in mean times and without transfers; ops are numbered in a
// topological order.
std::vector<double> Levels(const ScheduleProblem& problem, bool least) {
  std::vector<double> levels(problem.num_ops, 0);
  for (std::size_t i = problem.num_ops; i-- > 0;) {
    double sum = 0;
    double smallest = kNotAllowed;
    std::size_t count = 0;
    for (std::size_t d = 0; d < problem.num_devices; ++d) {
      const double micros = problem.micros[i * problem.num_devices + d];
      if (!(micros < kNotAllowed)) continue;
      sum += micros;
      smallest = std::min(smallest, micros);
      ++count;
    }
    double rest = 0;
    for (const Edge& edge : problem.behind[i]) rest = std::max(rest, levels[edge.op]);
    levels[i] = rest + (count == 0 ? 0 : least ? smallest : sum / static_cast<double>(count));
  }
  return levels;
}

double BoundOf(const ScheduleProblem& problem) {
  const std::vector<double> levels = Levels(problem, /*least=*/true);
  double chain = 0;
  double work = 0;
  for (std::size_t i = 0; i < problem.num_ops; ++i) {
    chain = std::max(chain, levels[i]);
    double least = kNotAllowed;
    for (std::size_t d = 0; d < problem.num_devices; ++d) {
      least = std::min(least, problem.micros[i * problem.num_devices + d]);
    }
    work += least;
  }
  work /= static_cast<double>(problem.num_devices);
  // Whole nanoseconds, as the engine counts; where all times are multiples of 1 us, so is every schedule.
  const bool are_whole = std::all_of(problem.micros.begin(), problem.micros.end(),
                                     [](double micros) { return micros == std::floor(micros); });
  return std::max(chain, are_whole && problem.is_free ? std::ceil(work - 1e-9) : work);
}

class OrderSearch {
 public:
  OrderSearch(const ScheduleProblem& problem, const OrderSearchOptions& options)
      : problem_(problem),
        options_(options),
        forward_(problem, false),
        backward_(problem, true),
        rng_(options.seed),
        bound_(BoundOf(problem)) {}

  const Schedule& Run() {
    levels_ = Levels(problem_, /*least=*/false);
    std::vector<double> priority = levels_;
    Try(priority, false);
    Try(priority, true);
    while (!Done()) {
      Improve();
      if (since_best_ > kRestartAfter) Restart();
    }
    return best_;
  }
  double bound() const { return bound_; }

 private:
  bool Done() {
    if (made_ >= options_.schedules || best_.length <= bound_ * (1 + 1e-12)) return true;
    return made_ % kAskStopEvery == 0 && options_.stop && options_.stop();
  }

  // Returns whether the schedule is no longer than the one of the walk.
  bool Try(const std::vector<double>& priority, bool waits) {
    const Schedule& schedule = forward_.Make(priority, waits);
    ++made_;
    ++since_best_;
    if (schedule.length < best_.length) {
      best_ = schedule;
      best_priority_ = priority;
      since_best_ = 0;
    }
    if (schedule.length > walk_length_) return false;
    walk_length_ = schedule.length;
    walk_ = priority;
    last_ = schedule;
    return true;
  }

  // The ops of the last accepted schedule, as late as they can be, and then as early as they can be.
  void Justify() {
    std::vector<double> priority(problem_.num_ops);
    for (std::size_t i = 0; i < problem_.num_ops; ++i) priority[i] = last_.end[i];
    const Schedule& late = backward_.Make(priority, rng_.Below(2) == 0);
    ++made_;
    for (std::size_t i = 0; i < problem_.num_ops; ++i) priority[i] = late.end[i];
    Try(priority, rng_.Below(2) == 0);
  }

  void Improve() {
    if (rng_.Below(4) == 0) {
      Justify();
      return;
    }
    std::vector<double> priority = walk_;
    const double range = *std::max_element(priority.begin(), priority.end()) + 1;
    if (rng_.Below(2) == 0) {
      const std::size_t changes = 1 + rng_.Below(4);
      for (std::size_t c = 0; c < changes; ++c) {
        std::swap(priority[rng_.Below(problem_.num_ops)], priority[rng_.Below(problem_.num_ops)]);
      }
    } else {
      const std::size_t changes = 1 + rng_.Below(std::max<std::size_t>(2, problem_.num_ops / 8));
      for (std::size_t c = 0; c < changes; ++c) {
        priority[rng_.Below(problem_.num_ops)] += (rng_.Uniform() - 0.5) * 0.3 * range;
      }
    }
    Try(priority, rng_.Below(4) == 0);
  }

  // Goes on from the levels with noise, or from the best.
  void Restart() {
    since_best_ = 0;
    walk_length_ = kNotAllowed;
    std::vector<double> priority = rng_.Below(3) == 0 ? best_priority_ : levels_;
    const double range = *std::max_element(priority.begin(), priority.end()) + 1;
    const double noise = 0.05 + 0.4 * rng_.Uniform();
    for (double& each : priority) each += (rng_.Uniform() - 0.5) * noise * range;
    Try(priority, false);
  }

  const ScheduleProblem& problem_;
  const OrderSearchOptions& options_;
  PriorityScheduler forward_;
  PriorityScheduler backward_;
  Rng rng_;
  double bound_;
  std::vector<double> levels_;
  Schedule best_;
  std::vector<double> best_priority_;
  std::vector<double> walk_;
  double walk_length_ = kNotAllowed;
  Schedule last_;
  std::size_t made_ = 0;
  std::size_t since_best_ = 0;
};

}  // namespace

OrderedPlacement FindOrder(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                           const OrderSearchOptions& options) {
  const ScheduleProblem problem = MakeProblem(graph, cluster, costs);
  OrderedPlacement found;
  found.placement = Placement(graph.num_ops());
  found.order.ops.resize(cluster.num_devices());
  if (graph.num_ops() == 0) return found;
  OrderSearch search(problem, options);
  const Schedule& schedule = search.Run();
  found.micros = schedule.length;
  found.bound_micros = search.bound();
  std::vector<std::uint32_t> by_start(graph.num_ops());
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(schedule.start[a], schedule.end[a]) < std::pair(schedule.start[b], schedule.end[b]);
  });
  for (const std::uint32_t op : by_start) {
    const DeviceId device = MakeId<DeviceId>(schedule.device[op]);
    found.placement[MakeId<OpId>(op)] = device;
    found.order.ops[Index(device)].push_back(MakeId<OpId>(op));
  }
  return found;
}

}  // namespace emplace::agents
