#include "agents/throughput/ideals.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace::agents {
namespace {

// An ideal while its level, all ideals of as many units, is made.
struct GrowingIdeal {
  std::vector<std::uint64_t> members;  // a bit for each unit
  std::uint64_t hash = 0;              // hash of the members
  std::vector<std::uint32_t> addable;  // units outside whose predecessors are all inside; ascending
};

bool Holds(const std::vector<std::uint64_t>& members, std::size_t unit) {
  return (members[unit / 64] >> (unit % 64) & 1U) != 0;
}

[[noreturn]] void RefuseIdeals(const std::string& count, std::size_t limit, std::size_t num_units) {
  throw InputError("ideals", fmt::format("the {} units of the graph have {} ideals (at most {}: merge ops with "
                                         "--grouping merge_and_colocate --groups N, or set linear=true)",
                                         num_units, count, limit));
}

}  // namespace

Ideals::Ideals(const std::vector<std::vector<std::size_t>>& before, std::size_t limit) {
  const std::size_t num_units = before.size();
  if (num_units >= limit) RefuseIdeals(fmt::format("more than {}", num_units), limit, num_units);
  std::vector<std::vector<std::uint32_t>> after(num_units);
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    for (const std::size_t earlier : before[unit]) {
      EMPLACE_CHECK_LT(earlier, unit);
      after[earlier].push_back(static_cast<std::uint32_t>(unit));
    }
  }
  Rng rng(1);  // any numbers do: what has equal hashes is compared
  std::vector<std::uint64_t> keys(num_units);
  for (std::uint64_t& key : keys) key = rng.Next();

  // Every set of addable units makes an ideal.
  const auto check_width = [&](const GrowingIdeal& ideal) {
    const std::size_t width = ideal.addable.size();
    if (width >= 63 || (std::uint64_t{1} << width) > limit) {
      RefuseIdeals(fmt::format("at least 2^{}", width), limit, num_units);
    }
  };

  std::vector<GrowingIdeal> level(1);
  level[0].members.assign((num_units + 63) / 64, 0);
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    if (before[unit].empty()) level[0].addable.push_back(static_cast<std::uint32_t>(unit));
  }
  check_width(level[0]);
  std::size_t first_of_level = 0;
  for (std::size_t count = 0; count <= num_units; ++count) {
    std::vector<GrowingIdeal> next;
    std::unordered_multimap<std::uint64_t, std::uint32_t> found;  // keyed by hash; never walked through
    const std::size_t first_of_next = first_of_level + level.size();
    for (const GrowingIdeal& ideal : level) {
      first_step_.push_back(steps_.size());
      for (const std::uint32_t unit : ideal.addable) {
        std::vector<std::uint64_t> members = ideal.members;
        members[unit / 64] |= std::uint64_t{1} << (unit % 64);
        const std::uint64_t hash = ideal.hash ^ keys[unit];
        auto [at, end] = found.equal_range(hash);
        while (at != end && next[at->second].members != members) ++at;
        if (at != end) {
          steps_.push_back({unit, static_cast<std::uint32_t>(first_of_next + at->second)});
          continue;
        }
        if (first_of_next + next.size() >= limit) RefuseIdeals(fmt::format("more than {}", limit), limit, num_units);
        GrowingIdeal grown{.members = std::move(members), .hash = hash, .addable = {}};
        for (const std::uint32_t other : ideal.addable) {
          if (other != unit) grown.addable.push_back(other);
        }
        for (const std::uint32_t later : after[unit]) {
          const auto& needed = before[later];
          if (std::all_of(needed.begin(), needed.end(), [&](std::size_t u) { return Holds(grown.members, u); })) {
            grown.addable.push_back(later);
          }
        }
        std::sort(grown.addable.begin(), grown.addable.end());
        check_width(grown);
        found.emplace(hash, static_cast<std::uint32_t>(next.size()));
        steps_.push_back({unit, static_cast<std::uint32_t>(first_of_next + next.size())});
        next.push_back(std::move(grown));
      }
    }
    first_of_level = first_of_next;
    level = std::move(next);
  }
  first_step_.push_back(steps_.size());
}

}  // namespace emplace::agents
