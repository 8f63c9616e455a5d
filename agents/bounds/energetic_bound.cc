#include "agents/bounds/energetic_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace emplace::agents {
namespace {

// The sums of doubles here are sums of positive numbers, each with a relative error of at most 2^-53. This is far more
// than the relative error of a sum can be.
constexpr double kRounding = 1e-9;

std::int64_t RoundDown(double nanos) {
  return nanos <= 0 ? 0 : static_cast<std::int64_t>(std::ceil(nanos * (1 - kRounding) - 1e-3));
}

// The price of all devices together, for each nanosecond.
double TotalPrice(const Relaxation& problem, const Prices& prices) {
  double total = 0;
  for (std::size_t t = 0; t < problem.num_types(); ++t) {
    total += prices[t] * static_cast<double>(problem.types()[t].devices.size());
  }
  return total;
}

// The type on which an op is cheapest.
std::size_t Cheapest(const Relaxation& problem, const Prices& prices, std::size_t op) {
  std::size_t best = problem.num_types();
  double least = 0;
  for (std::size_t t = 0; t < problem.num_types(); ++t) {
    if (problem.Time(op, t) == kNever) continue;
    const double price = prices[t] * static_cast<double>(problem.Time(op, t) + problem.Gap(op, t));
    if (best == problem.num_types() || price < least) {
      best = t;
      least = price;
    }
  }
  return best;
}

double WorkBoundOf(const Relaxation& problem, const Prices& prices, std::vector<double>* load) {
  load->assign(problem.num_types(), 0);
  double bound = 0;
  for (std::size_t i = 0; i < problem.num_ops(); ++i) {
    const std::size_t type = Cheapest(problem, prices, i);
    const auto takes = static_cast<double>(problem.Time(i, type) + problem.Gap(i, type));
    (*load)[type] += takes;
    bound += prices[type] * takes;
  }
  for (std::size_t t = 0; t < problem.num_types(); ++t) {
    const auto count = static_cast<double>(problem.types()[t].devices.size());
    bound -= prices[t] * count *
             static_cast<double>(problem.types()[t].op_gap);  // the last gap of a device is not waited for
  }
  return bound / TotalPrice(problem, prices);
}

}  // namespace

Prices FindPrices(const Relaxation& problem) {
  const std::size_t num_types = problem.num_types();
  Prices prices(num_types, 1);
  if (num_types < 2 || problem.num_ops() == 0) return prices;
  Prices best = prices;
  double best_bound = -1;
  std::vector<double> load;
  // A type whose devices have more than their share of the work becomes dearer, one with less becomes cheaper.
  for (int step = 0; step < 200; ++step) {
    const double bound = WorkBoundOf(problem, prices, &load);
    if (bound > best_bound) {
      best_bound = bound;
      best = prices;
    }
    double most = 0;
    for (std::size_t t = 0; t < num_types; ++t) {
      load[t] /= static_cast<double>(problem.types()[t].devices.size());
      most = std::max(most, load[t]);
    }
    if (most <= 0) break;
    const double rate = 1.0 / (1 + 0.1 * step);
    for (std::size_t t = 0; t < num_types; ++t) {
      // Like exp(by), in arithmetic that is the same on every machine.
      const double by = std::clamp(rate * (load[t] - bound) / most, -1.0, 1.0);
      prices[t] *= 1 + by + by * by / 2;
      prices[t] = std::clamp(prices[t], 1e-9, 1e9);
    }
    const double largest = *std::max_element(prices.begin(), prices.end());
    for (double& price : prices) price /= largest;
  }
  return best;
}

std::int64_t WorkBound(const Relaxation& problem, const Prices& prices) {
  std::vector<double> load;
  return problem.num_ops() == 0 ? 0 : RoundDown(WorkBoundOf(problem, prices, &load));
}

namespace {

class EnergeticSearch {
 public:
  EnergeticSearch(const Relaxation& problem, const Windows& windows, const Prices& prices, std::int64_t known)
      : total_price_(TotalPrice(problem, prices)), bound_(known) {
    const std::size_t num_types = problem.num_types();
    for (std::size_t i = 0; i < problem.num_ops(); ++i) {
      const std::size_t first = jobs_.size();
      std::int64_t head = kNever;
      std::int64_t tail = kNever;
      for (std::size_t t = 0; t < num_types; ++t) {
        const std::size_t at = i * num_types + t;
        if (problem.Time(i, t) == kNever || windows.head[at] >= kNever || windows.tail[at] >= kNever) continue;
        jobs_.push_back({prices[t], static_cast<double>(windows.head[at]), static_cast<double>(windows.tail[at]),
                         static_cast<double>(problem.Time(i, t)), static_cast<double>(problem.Gap(i, t)), false});
        head = std::min(head, windows.head[at]);
        tail = std::min(tail, windows.tail[at]);
      }
      if (jobs_.size() == first) continue;
      bool works = true;
      for (std::size_t k = first; k < jobs_.size(); ++k) works = works && jobs_[k].time > 0;
      if (!works) {  // worth nothing where it takes no time
        jobs_.resize(first);
        continue;
      }
      jobs_.back().last = true;
      heads_.push_back(head);
      tails_.push_back(tail);
    }
    for (auto* of : {&heads_, &tails_}) {
      std::sort(of->begin(), of->end());
      of->erase(std::unique(of->begin(), of->end()), of->end());
    }
  }

  std::int64_t Run(std::size_t grid) {
    if (jobs_.empty()) return bound_;
    Scan(0, heads_.size(), 0, tails_.size(), grid);
    // Finer and finer around the best.
    for (std::size_t width = 2; width <= 64; width *= 4) {
      const std::size_t heads = std::max<std::size_t>(heads_.size() / grid / width, 1) * 2;
      const std::size_t tails = std::max<std::size_t>(tails_.size() / grid / width, 1) * 2;
      Scan(best_head_ - std::min(best_head_, heads), std::min(best_head_ + heads + 1, heads_.size()),
           best_tail_ - std::min(best_tail_, tails), std::min(best_tail_ + tails + 1, tails_.size()), grid / 2 + 2);
    }
    return bound_;
  }

 private:
  struct Job {
    double price = 0, head = 0, tail = 0, time = 0, gap = 0;
    bool last = false;  // whether it is the last event of its op
  };

  void Scan(std::size_t head_begin, std::size_t head_end, std::size_t tail_begin, std::size_t tail_end,
            std::size_t grid) {
    const std::size_t head_step = std::max<std::size_t>((head_end - head_begin + grid - 1) / grid, 1);
    const std::size_t tail_step = std::max<std::size_t>((tail_end - tail_begin + grid - 1) / grid, 1);
    for (std::size_t a = head_begin; a < head_end; a += head_step) {
      for (std::size_t b = tail_begin; b < tail_end; b += tail_step) {
        const std::int64_t bound = Of(static_cast<double>(heads_[a]), static_cast<double>(tails_[b]));
        if (bound > best_) {
          best_ = bound;
          best_head_ = a;
          best_tail_ = b;
        }
        bound_ = std::max(bound_, bound);
      }
    }
  }

  // With what must run after `start` and before `end` of the step's end.
  std::int64_t Of(double start, double end) const {
    const double room = static_cast<double>(bound_) - start - end;
    if (room <= 0) return 0;
    double energy = 0;
    double least = std::numeric_limits<double>::max();
    for (const Job& job : jobs_) {
      const double part = std::min(std::min(job.time + job.gap, room),
                                   std::min(job.head + job.time + job.gap - start, job.tail + job.time - end));
      least = std::min(least, job.price * std::max(part, 0.0));
      if (!job.last) continue;
      energy += least;
      least = std::numeric_limits<double>::max();
    }
    return RoundDown(start + end + energy / total_price_ - kRounding * (start + end));
  }

  double total_price_;
  std::int64_t bound_;
  std::int64_t best_ = -1;
  std::size_t best_head_ = 0, best_tail_ = 0;
  std::vector<Job> jobs_;
  std::vector<std::int64_t> heads_, tails_;  // distinct, rising
};

}  // namespace

std::int64_t EnergeticBound(const Relaxation& problem, const Windows& windows, const Prices& prices, std::size_t grid,
                            std::int64_t known) {
  return EnergeticSearch(problem, windows, prices, known).Run(grid);
}

}  // namespace emplace::agents
