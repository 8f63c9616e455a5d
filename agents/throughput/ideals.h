#ifndef EMPLACE_AGENTS_THROUGHPUT_IDEALS_H_
#define EMPLACE_AGENTS_THROUGHPUT_IDEALS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace emplace::agents {

// The ideals of a partial order: sets that hold, with each unit, all units before it. The difference of two ideals,
// one within the other, is a contiguous set; each contiguous set is such a difference.
// Numbered by ascending count of units: 0 is the empty set, size() - 1 is the set of all.
class Ideals {
 public:
  // One more unit: ideal `next` is this one and `unit`.
  struct Step {
    std::uint32_t unit = 0;
    std::uint32_t next = 0;
  };

  // before[u] are units that come before u. Throws InputError if there are more than `limit` ideals. Cost: about
  // size() * (largest antichain + num_units / 64).
  // Requires: before[u] < u, so that the order has no cycle; limit >= 1.
  Ideals(const std::vector<std::vector<std::size_t>>& before, std::size_t limit);

  std::size_t size() const { return first_step_.size() - 1; }
  std::span<const Step> steps(std::size_t ideal) const {
    return std::span(steps_).subspan(first_step_[ideal], first_step_[ideal + 1] - first_step_[ideal]);
  }

 private:
  std::vector<std::size_t> first_step_;  // [size() + 1]
  std::vector<Step> steps_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_IDEALS_H_
